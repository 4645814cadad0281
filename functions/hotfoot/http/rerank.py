"""Reranking as Jina (`/v1/rerank`) and Cohere (`/v2/rerank`) put it: `{"query", "documents", …}` to `{"results": […]}`.

A document that is too long is cut only when asked to, by `truncate`, as on every other route.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hotfoot.contract.errors import InputError
from hotfoot.http.body import as_sent, beside, refuse_unknown, required
from hotfoot.http.operations import Call, Operation, of_tasks
from hotfoot.http.service import Reply
from hotfoot.model import Prediction
from hotfoot.tasks._texts import option

CUT = ("truncate", "truncation", "truncation_direction")
JINA = ("query", "documents", "top_n", "return_documents", *CUT)
COHERE = ("query", "documents", "top_n", "max_tokens_per_doc", "priority", *CUT)
Shape = Callable[[Call, Prediction], Any]


def operations() -> list[Operation]:
    """Both routes."""
    ranks = of_tasks("text-ranking")
    return [
        Operation("POST", "/v1/rerank", "Rerank", "Rank documents for a query, as Jina's API", jina, ranks),
        Operation("POST", "/v2/rerank", "Rerank", "Rank documents for a query, as Cohere's API", cohere, ranks),
    ]


async def jina(call: Call) -> Reply:
    """With the documents' texts unless `return_documents` is false."""
    refuse_unknown(call.body, ("model", *JINA))
    with as_sent(beside):
        return await _rank(call, _jina, texts=option(call.body, "return_documents", bool, True))


def _jina(call: Call, found: Prediction) -> dict[str, Any]:
    results = [
        {"index": r["index"], "relevance_score": r["score"], **({"document": {"text": r["text"]}} if "text" in r else {})}
        for r in found.answer
    ]
    return {"model": call.service.id, "object": "list", "usage": {"total_tokens": found.tokens}, "results": results}


async def cohere(call: Call) -> Reply:
    """As its second version, which gives no texts back."""
    refuse_unknown(call.body, ("model", *COHERE))
    limit = call.service.model.manifest.max_tokens
    with as_sent(beside):
        option(call.body, "priority", int, None)  # of a queue that is not here
        most: int | None = option(call.body, "max_tokens_per_doc", int, None)
        if most is not None and most < limit:
            raise InputError(
                f"is {most}; documents are cut where they and the query fill the model's {limit} tokens, not before.",
                hint="Leave it out, and ask for truncate: true.",
                where="max_tokens_per_doc",
            )
        return await _rank(call, _cohere, texts=False)


def _cohere(_call: Call, found: Prediction) -> dict[str, Any]:
    results = [{"index": r["index"], "relevance_score": r["score"]} for r in found.answer]
    return {"results": results, "meta": {"api_version": {"version": "2"}}}


async def _rank(call: Call, shape: Shape, *, texts: bool) -> Reply:
    documents = required(call.body, "documents")
    if isinstance(documents, list):
        documents = [_text(document, f"documents[{i}]") for i, document in enumerate(documents)]
    inputs = {"query": required(call.body, "query"), "documents": documents}
    parameters = {name: call.body[name] for name in ("top_n", *CUT) if name in call.body}
    parameters |= {"function_to_apply": "sigmoid", "return_documents": texts}
    return await call.predict("text-ranking", inputs, parameters, lambda found: shape(call, found))


def _text(document: Any, where: str) -> Any:
    """A document is a text, or an object with one."""
    if not isinstance(document, dict):
        return document
    if set(document) != {"text"}:
        raise InputError("must be a text, or an object with text and nothing else.", where=where)
    return document["text"]

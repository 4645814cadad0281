"""Text Embeddings Inference's JSON: options stand beside `inputs`, and each route is there only where the task can serve it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from hotfoot.contract.errors import InputError
from hotfoot.http.body import as_sent, beside, member, refuse_unknown, required
from hotfoot.http.limits import check_texts
from hotfoot.http.operations import Call, Operation, embeds_texts, embeds_tokens, of_tasks
from hotfoot.http.service import Reply
from hotfoot.http.tokens import texts_of
from hotfoot.model import Prediction
from hotfoot.tasks._texts import check_parameters, option, read_text

PREDICT = ("truncate", "truncation_direction", "raw_scores")
RERANK = ("query", "texts", "truncate", "truncation_direction", "raw_scores", "return_text")


def operations() -> list[Operation]:
    """The dialect's routes that predict."""
    return [
        Operation("POST", "/embed", "Text Embeddings Inference", "Turn texts into vectors", embed, embeds_texts),
        Operation("POST", "/embed_all", "Text Embeddings Inference", "Turn texts into a vector a token", embed_all, embeds_tokens),
        Operation("POST", "/similarity", "Text Embeddings Inference", "Score how close sentences are to one", similarity, embeds_texts),
        Operation("POST", "/predict", "Text Embeddings Inference", "Give texts labels", predict, of_tasks("text-classification")),
        Operation("POST", "/rerank", "Text Embeddings Inference", "Rank texts for a query", rerank, of_tasks("text-ranking")),
    ]


async def embed(call: Call) -> Reply:
    """`{"inputs": a text, token ids, or a list of these, …}` -> `[[…]]`, unit vectors unless `normalize` is false."""
    parameters = rest(call.body)
    if parameters.get("normalize") is None:  # this dialect's default, whatever the model's own is
        parameters["normalize"] = True
    return await _vectors(call, parameters)


async def embed_all(call: Call) -> Reply:
    """As /embed, a vector a token: `[[[…]]]`."""
    return await _vectors(call, rest(call.body))


async def _vectors(call: Call, parameters: Mapping[str, Any]) -> Reply:
    inputs = partial(texts_of, call.service, required(call.body, "inputs"), "inputs")
    with as_sent(beside):
        return await call.predict("feature-extraction", inputs, parameters)


async def similarity(call: Call) -> Reply:
    """`{"inputs": {"source_sentence", "sentences"}, "parameters"}` -> one cosine a sentence."""
    refuse_unknown(call.body, ("inputs", "parameters"))
    return await call.predict("sentence-similarity", required(call.body, "inputs"), member(call.body, "parameters"))


async def predict(call: Call) -> Reply:
    """`{"inputs": a text, a pair ["a", "b"], or a list of sequences [["a"], ["a", "b"]], …}` -> a ranking, or a list of them."""
    inputs = required(call.body, "inputs")
    check_texts(len(inputs) if isinstance(inputs, list) else 1, call.service.limits)
    texts, bare = _sequences(inputs)
    parameters = rest(call.body)

    def shape(found: Prediction) -> Any:
        return found.answer[0] if bare else found.answer

    with as_sent(partial(_as_sequences, inputs)):
        check_parameters(parameters, PREDICT)
        raw: bool = option(parameters, "raw_scores", bool, False)
        parameters.pop("raw_scores", None)
        if raw:
            parameters["function_to_apply"] = "none"
        return await call.predict("text-classification", texts, parameters, shape)


async def rerank(call: Call) -> Reply:
    """`{"query", "texts", …}` -> `[{"index", "score", "text"?}]`, best first."""
    body = call.body
    refuse_unknown(body, RERANK)
    inputs = {name: required(body, name) for name in ("query", "texts")}
    parameters: dict[str, Any] = {name: body[name] for name in ("truncate", "truncation_direction") if name in body}
    with as_sent(beside):
        # sigmoid is this dialect's default, whatever the model's own is
        parameters["function_to_apply"] = "none" if option(body, "raw_scores", bool, False) else "sigmoid"
        parameters["return_documents"] = option(body, "return_text", bool, False)
        return await call.predict("text-ranking", inputs, parameters)


def _sequences(inputs: Any) -> tuple[Any, bool]:
    """`inputs` of /predict as the task reads them, and whether it was one sequence: a flat list is one, a batch is a list of lists.

    Raises InputError for a sequence of more than two texts.
    """
    if not isinstance(inputs, list):
        return read_text(inputs, "inputs"), True
    if inputs and all(isinstance(i, list) for i in inputs):
        return [_sequence(i, f"inputs[{n}]") for n, i in enumerate(inputs)], False
    return ([_sequence(inputs, "inputs")] if len(inputs) > 1 else inputs), True


def _sequence(sequence: list[Any], where: str) -> Any:
    if len(sequence) == 1:
        return read_text(sequence[0], f"{where}[0]")
    if len(sequence) == 2:
        first, second = (read_text(text, f"{where}[{i}]") for i, text in enumerate(sequence))
        return {"text": first, "text_pair": second}
    raise InputError(
        f"holds {len(sequence)} items; a sequence is a text or a pair of texts.", hint='Several texts are [["…"], ["…"]].', where=where
    )


def _as_sequences(inputs: Any, where: str) -> str:
    """A path of the task's as the client sent it: `inputs[1].text_pair` is `inputs[1][1]`, and of a pair by itself `inputs[1]`."""
    found = re.fullmatch(r"inputs(?:\[(\d+)\])?(?:\.(text|text_pair))?", where)
    if found is None or not isinstance(inputs, list) or not inputs:
        return where.removeprefix("parameters.")
    number, place = found[1] or "0", int(found[2] == "text_pair")
    return f"inputs[{number}][{place}]" if isinstance(inputs[0], list) else f"inputs[{place}]"


def rest(body: Mapping[str, Any]) -> dict[str, Any]:
    """What stands beside `inputs`."""
    return {name: value for name, value in body.items() if name != "inputs"}

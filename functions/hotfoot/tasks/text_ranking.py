"""Reranking by a cross-encoder: each document is read together with the query, and gets one score.

Only documents are cut to the limit, never the query. So every pair whose query fills less than half of it has the ids that
sentence-transformers' CrossEncoder gives it; of longer queries that library would cut some, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotfoot.contract.errors import InputError, UnsupportedError
from hotfoot.contract.json_types import json_type
from hotfoot.contract.manifest import Manifest
from hotfoot.task import Array, Encoded, ExportSpec, Fit, Options, Request, Task, Tokenizer, run_encoder
from hotfoot.tasks._orders import kendall, mean
from hotfoot.tasks._texts import TRUNCATION, check_parameters, choice, option, read_text, read_texts, sigmoid, truncation

STRATEGIES = ("do_not_truncate", "only_second")  # the document stands second
FUNCTIONS = ("none", "sigmoid")
ACTIVATIONS = {"Identity": "none", "Sigmoid": "sigmoid"}
PARAMETERS = ("query", "top_n", "return_documents", "function_to_apply", *TRUNCATION)
LISTS = ("texts", "documents")  # Text Embeddings Inference's word for them, and that of the rerank APIs
SAMPLE = {
    "query": "Where do people make music?",
    "texts": ["A man is playing a guitar on stage.", "The market fell on Monday.", "An orchestra rehearses in the hall."],
}
CUTOFF = 10  # of the discounted gain: what a reader looks at


def facts(config: Mapping[str, Any]) -> dict[str, Any]:
    """How a logit becomes a score, as sentence-transformers decides it: the model's own function, else sigmoid.

    Raises UnsupportedError for a head of several labels, another function, a prompt, or modules after the transformer, none of which
    a ranking here could honour.
    """
    if len(config["labels"]) != 1:
        raise UnsupportedError(
            f"the model has {len(config['labels'])} labels; a ranking takes one score.", hint="Try --task text-classification."
        )
    if len(config.get("modules") or ()) > 1:
        kinds = [kind.rsplit(".", 1)[-1] for kind in config["modules"]]
        raise UnsupportedError(f"modules.json lists {', '.join(kinds)}; a cross-encoder here is one Transformer.")
    own, card = config["config"].get("sentence_transformers") or {}, config.get("sentence_transformers") or {}
    if card.get("default_prompt_name"):
        raise UnsupportedError(f"the model puts its prompt {card['default_prompt_name']!r} before the texts, which is not supported.")
    name = card.get("activation_fn") or own.get("activation_fn") or config["config"].get("sbert_ce_default_activation_function")
    if name is None:
        return {"function_to_apply": "sigmoid"}
    kind = str(name).rsplit(".", 1)[-1]
    if kind not in ACTIVATIONS:
        raise UnsupportedError(f"the model's activation function is {name}; hotfoot knows {', '.join(ACTIVATIONS)}.")
    return {"function_to_apply": ACTIVATIONS[kind]}


def parse(inputs: Any, parameters: Options, manifest: Manifest) -> Request:
    """`{"query": …, "texts": […]}` to rank; or a list of texts that parameters.query is put to, for a score each. Raises InputError."""
    check_parameters(parameters, PARAMETERS)
    query: str | None = option(parameters, "query", str, None)
    top_n: int | None = option(parameters, "top_n", int, None)
    if top_n is not None and top_n < 1:
        raise InputError(f"is {top_n}; it must be at least 1.", where="parameters.top_n")
    options = {
        "function": choice(parameters, "function_to_apply", FUNCTIONS, str(manifest.facts["function_to_apply"])),
        "top_n": top_n,
        "texts": option(parameters, "return_documents", bool, False),
        "ranked": query is None,
    }
    cut = truncation(parameters, manifest, STRATEGIES)
    if query is not None and not isinstance(inputs, dict):
        texts, paths, single = read_texts(inputs)
        return Request(texts, paths, single, cut, options, (read_text(query, "parameters.query"),))
    if not isinstance(inputs, dict):
        raise InputError(
            f"must be an object with query and texts, or texts with parameters.query, not {json_type(inputs)}.", where="inputs"
        )
    if query is not None:
        raise InputError("is given twice, here and in inputs.", where="parameters.query")
    return _read_ranking(inputs, cut, options)


def _read_ranking(inputs: Mapping[str, Any], cut: Any, options: Options) -> Request:
    known = ("query", *LISTS)
    if unknown := sorted(set(inputs) - set(known)):
        raise InputError(f"is not known here; there are {', '.join(known)}.", where=f"inputs.{unknown[0]}")
    query = read_text(inputs.get("query"), "inputs.query")
    given = [name for name in LISTS if name in inputs]
    name = given[0] if given else LISTS[0]
    documents = inputs.get(name)
    if len(given) == len(LISTS) or not isinstance(documents, list) or not documents:
        raise InputError("must be a list of at least one text, and documents is another name of it.", where=f"inputs.{name}")
    paths = tuple(f"inputs.{name}[{i}]" for i in range(len(documents)))
    texts = tuple(read_text(value, path) for value, path in zip(documents, paths, strict=True))
    return Request(texts, paths, False, cut, options, (query,))


def encode(request: Request, tokenizer: Tokenizer) -> tuple[Encoded, ...]:
    """The query with each document, which alone is cut."""
    (query,) = request.beside
    where = "inputs.query" if request.options["ranked"] else "parameters.query"
    paths = [(where, path) for path in request.paths]
    return tokenizer.encode_pairs([query] * len(request.texts), request.texts, Fit(truncate=request.truncate), paths)


def scores(logits: Array, function: str) -> NDArray[np.float64]:
    """Logits as scores, in float64: there the sigmoid of 20 is still below that of 21."""
    return sigmoid(logits) if function == "sigmoid" else logits.astype(np.float64)


def decode(request: Request, _encoded: tuple[Encoded, ...], outputs: list[Array], _manifest: Manifest) -> list[Any]:
    """`[{"index", "score"}, …]`, best first and equal ones in order; or one score a text, where the query is a parameter."""
    logits = np.concatenate(outputs)
    found = scores(logits, request.options["function"])
    if not request.options["ranked"]:
        return [float(score) for score in found]
    # by the logits, which keep apart what a saturated score cannot
    order = np.argsort(-logits, kind="stable")[: request.options["top_n"]].tolist()
    return [{"index": i, "score": float(found[i]), **({"text": request.texts[i]} if request.options["texts"] else {})} for i in order]


def parity(ours: Sequence[Array], reference: Sequence[Array], manifest: Manifest) -> dict[str, float]:
    """Agreement of the orders, query by query, and 1 minus the drift of scores (mean, and worst of 100). Arrays are (documents, 1).

    ndcg: of our order, with the original's scores, from 0 for the query's least to 1 for its best, as gains. kendall: share of the
    pairs of documents in the original's order less that of those that are not. top1: queries with the same best document.
    """
    pairs = [(x[:, 0].astype(np.float64), y[:, 0].astype(np.float64)) for x, y in zip(ours, reference, strict=True)]
    several = [(x, y) for x, y in pairs if len(x) > 1]
    function = str(manifest.facts["function_to_apply"])
    a, b = (np.concatenate(side) for side in zip(*pairs, strict=True))
    drift = np.abs(scores(a, function) - scores(b, function))
    if function == "none":  # a logit's scale is its own
        drift = drift / max(float(np.std(b)), 1e-6)
    return {
        "ndcg": mean([_ndcg(x, y) for x, y in several]),
        "kendall": mean([kendall(x, y) for x, y in several]),
        "top1": mean([float(y[x.argmax()] == y.max()) for x, y in several]),
        "score_mean": 1 - float(drift.mean()),
        "score_p99": 1 - float(np.percentile(drift, 99)),
    }


def _ndcg(ours: NDArray[np.float64], reference: NDArray[np.float64]) -> float:
    """Discounted gain of the first CUTOFF in our order over that in the original's; 1 where all its scores are equal."""
    spread = float(np.ptp(reference))
    if spread == 0:
        return 1.0
    gains = (reference - reference.min()) / spread
    discounts = 1 / np.log2(np.arange(2, 2 + min(CUTOFF, len(gains))))
    mine, best = (gains[np.argsort(-by, kind="stable")][:CUTOFF] for by in (ours, reference))
    return float((mine * discounts).sum() / (best * discounts).sum())


TASK = Task(
    name="text-ranking",
    summary="Rank texts by how well they answer a query.",
    export=ExportSpec(auto_class="AutoModelForSequenceClassification", optimum_task="text-classification", output="logits"),
    parameters=PARAMETERS,
    facts=facts,
    parse=parse,
    encode=encode,
    run=run_encoder,
    decode=decode,
    parity=parity,
    thresholds={
        "fp32": {"ndcg": 0.9999, "kendall": 0.999, "top1": 0.999, "score_mean": 0.9999, "score_p99": 0.999},
        "fp16": {"ndcg": 0.999, "kendall": 0.98, "top1": 0.98, "score_mean": 0.999, "score_p99": 0.99},
        "int8": {"ndcg": 0.995, "kendall": 0.92, "top1": 0.95, "score_mean": 0.98, "score_p99": 0.85},
        # plain rounding in blocks of 32 costs a six-layer model 0.003, 0.11, 0.03, 0.04 and 0.38
        "int4": {"ndcg": 0.99, "kendall": 0.8, "top1": 0.9, "score_mean": 0.93, "score_p99": 0.5},
    },
    sample=SAMPLE,
    corpus="rankings",
)

"""Text classification: single-label, multi-label, and regression heads, over texts and over pairs of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotfoot.contract.errors import InputError
from hotfoot.contract.manifest import Manifest
from hotfoot.task import Array, Cut, Encoded, ExportSpec, Fit, Options, Request, Task, Tokenizer, encode_texts, run_encoder
from hotfoot.tasks import _texts
from hotfoot.tasks._texts import TRUNCATION, check_parameters, choice, option, read_text, read_texts, sigmoid, softmax, truncation

STRATEGIES = (*_texts.STRATEGIES, "only_second")
CUTS: Mapping[str, Cut] = {"only_first": "first", "only_second": "second"}  # of a pair; else the longer one, as transformers does
FUNCTIONS = ("none", "sigmoid", "softmax")
PARAMETERS = ("function_to_apply", "top_k", *TRUNCATION)
PAIR = ("text", "text_pair")  # as transformers calls them


def facts(config: Mapping[str, Any]) -> dict[str, Any]:
    """How logits become scores: by problem_type and the number of labels, as transformers decides it."""
    kind = config["config"].get("problem_type")
    if kind == "regression":
        return {"function_to_apply": "none"}
    # softmax over one label would be 1.0 for every text, whatever problem_type says
    sigmoids = kind == "multi_label_classification" or len(config["labels"]) == 1
    return {"function_to_apply": "sigmoid" if sigmoids else "softmax"}


def parse(inputs: Any, parameters: Options, manifest: Manifest) -> Request:
    """A text, `{"text": …, "text_pair": …}`, or a list that may hold both; raises InputError."""
    check_parameters(parameters, PARAMETERS)
    top_k: int = option(parameters, "top_k", int, len(manifest.labels))
    if top_k < 1:
        raise InputError(f"is {top_k}; it must be at least 1.", where="parameters.top_k")
    function = choice(parameters, "function_to_apply", FUNCTIONS, str(manifest.facts["function_to_apply"]))
    request = _read(inputs)
    strategy = parameters["truncation"] if isinstance(parameters.get("truncation"), str) else ""
    options = {**request.options, "function": function, "top_k": top_k, "cuts": CUTS.get(strategy, "longest")}
    return replace(request, truncate=truncation(parameters, manifest, STRATEGIES), options=options)


def _read(inputs: Any) -> Request:
    """Texts and pairs: beside are the second texts, options["pairs"] says whose they are, and the path of each."""
    items = inputs if isinstance(inputs, list) else [inputs]
    if not any(isinstance(item, dict) for item in items):
        return Request(*read_texts(inputs), truncate=None, options={"pairs": {}})
    roots = [f"inputs[{i}]" for i in range(len(items))] if isinstance(inputs, list) else ["inputs"]
    found = [_read_item(item, root) for item, root in zip(items, roots, strict=True)]
    return Request(
        texts=tuple(text for text, _, _ in found),
        paths=tuple(path for _, path, _ in found),
        single=not isinstance(inputs, list),
        truncate=None,
        options={"pairs": {i: f"{roots[i]}.text_pair" for i, (_, _, second) in enumerate(found) if second is not None}},
        beside=tuple(second for _, _, second in found if second is not None),
    )


def _read_item(item: Any, root: str) -> tuple[str, str, str | None]:
    """A text, its path, and the text that it is a pair with, if any."""
    if not isinstance(item, dict):
        return read_text(item, root), root, None
    if unknown := sorted(set(item) - set(PAIR)):
        raise InputError(f"is not known here; there are {' and '.join(PAIR)}.", where=f"{root}.{unknown[0]}")
    text, second = read_text(item.get("text"), f"{root}.text"), item.get("text_pair")
    return text, f"{root}.text", None if second is None else read_text(second, f"{root}.text_pair")


def encode(request: Request, tokenizer: Tokenizer) -> tuple[Encoded, ...]:
    """Each text, or pair of which the longer text is cut first, as transformers does."""
    pairs: Mapping[int, str] = request.options["pairs"]
    if not pairs:
        return encode_texts(request, tokenizer)
    alone = [i for i in range(len(request.texts)) if i not in pairs]
    texts, paths = request.texts, request.paths
    found: dict[int, Encoded] = {}
    if alone:
        made = tokenizer.encode([texts[i] for i in alone], truncate=request.truncate, paths=[paths[i] for i in alone])
        found.update(zip(alone, made, strict=True))
    fit, places = Fit(truncate=request.truncate, cuts=request.options["cuts"]), [(paths[i], path) for i, path in pairs.items()]
    found.update(zip(pairs, tokenizer.encode_pairs([texts[i] for i in pairs], request.beside, fit, places), strict=True))
    return tuple(replace(found[i], item=i) for i in range(len(texts)))


def scores(logits: Array, function: str) -> NDArray[np.float64]:
    """Logits of shape (…, labels) as scores."""
    if function == "softmax":
        return softmax(logits)
    return sigmoid(logits) if function == "sigmoid" else logits.astype(np.float64)


def decode(request: Request, _encoded: tuple[Encoded, ...], outputs: list[Array], manifest: Manifest) -> list[list[dict[str, Any]]]:
    """One ranking a text, best first, also for a bare text: `[[{"label", "score"}, …]]`."""
    answers = []
    for logits in outputs:
        found = scores(logits, request.options["function"])
        # by the logits, which keep apart what a saturated score cannot; equal ones keep the labels' order
        order = np.argsort(-logits, kind="stable")[: request.options["top_k"]]
        answers.append([{"label": manifest.labels[i], "score": float(found[i])} for i in order])
    return answers


def parity(ours: Sequence[Array], reference: Sequence[Array], manifest: Manifest) -> dict[str, float]:
    """Share of texts with the same best label, and 1 minus the drift of scores (mean, and worst of 100)."""
    function = str(manifest.facts["function_to_apply"])
    a, b = np.stack(ours), np.stack(reference)
    drift = np.abs(scores(a, function) - scores(b, function)).max(axis=-1)
    if function == "none":  # a regression's scale is its own
        drift = drift / max(float(np.std(b)), 1e-6)
    return {
        "label_agreement": float((a.argmax(-1) == b.argmax(-1)).mean()),
        "score_mean": 1 - float(drift.mean()),
        "score_p99": 1 - float(np.percentile(drift, 99)),
    }


TASK = Task(
    name="text-classification",
    summary="Give each text a label.",
    export=ExportSpec(auto_class="AutoModelForSequenceClassification", optimum_task="text-classification", output="logits"),
    parameters=PARAMETERS,
    facts=facts,
    parse=parse,
    encode=encode,
    run=run_encoder,
    decode=decode,
    parity=parity,
    thresholds={
        "fp32": {"label_agreement": 0.999, "score_mean": 0.9999, "score_p99": 0.999},
        "fp16": {"label_agreement": 0.995, "score_mean": 0.999, "score_p99": 0.99},
        "int8": {"label_agreement": 0.97, "score_mean": 0.98, "score_p99": 0.85},
        # plain rounding in blocks of 32 costs a six-layer model 0.09, 0.06 and 0.26
        "int4": {"label_agreement": 0.9, "score_mean": 0.93, "score_p99": 0.6},
    },
    sample="A gripping, beautifully acted film.",
)

"""Zero-shot classification: labels that the request brings, each as a hypothesis on the text, and how surely that follows from it.

The model is one of textual entailment. It reads every text with every hypothesis, the text first, and only the text is ever cut.
Scores are those of transformers' pipeline, but for one label alone: without multi_label it has all of the score, 1.0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotfoot.contract.errors import InputError, TooLargeError, UnsupportedError
from hotfoot.contract.json_types import json_type
from hotfoot.contract.manifest import Manifest
from hotfoot.task import Array, Encoded, ExportSpec, Fit, Options, Request, Task, Tokenizer, run_encoder
from hotfoot.tasks._orders import kendall, mean
from hotfoot.tasks._texts import TRUNCATION, check_parameters, option, read_text, read_texts, softmax, truncation

PARAMETERS = ("candidate_labels", "hypothesis_template", "multi_label", *TRUNCATION)
TEMPLATE = "This example is {}."
PLACE = "{}"  # where the label goes
PAIRS = 2**16  # of a text and a label in one request: what is kept of them before the first is read must not fill the memory
STRATEGIES = ("do_not_truncate", "only_first")  # the hypothesis is never cut
HYPOTHESES = 2**20  # characters of all hypotheses of one request
SAMPLE = {"sequences": "The orchestra played until midnight.", "candidate_labels": ["music", "politics", "cooking"]}


def facts(config: Mapping[str, Any]) -> dict[str, Any]:
    """Which output says that the hypothesis follows, and which one it is weighed against, chosen as transformers does.

    entailment: the one that the user names, else the first whose name begins so, in any case. contradiction: the first of all, or the
    last where that is entailment. candidate_labels: the user's own, where there are any. Raises UnsupportedError where no name tells,
    or there is nothing to weigh against, and InputError for labels that are none.
    """
    labels, asked = config["labels"], config.get("entailment")
    shown = ", ".join(labels[:5])
    if len(labels) < 2:
        raise UnsupportedError(f"the model has one label, {shown}; entailment is weighed against another.")
    if asked is not None and asked not in labels:
        raise UnsupportedError(f"--entailment {asked} is none of the model's labels ({shown}).")
    found = next((i for i, name in enumerate(labels) if (name.lower().startswith("entail") if asked is None else name == asked)), None)
    if found is None:
        raise UnsupportedError(
            f"none of the model's labels ({shown}) is called entailment, so it does not say which output that is.",
            hint=f"If it is a model of textual entailment, say which with --entailment, as `--entailment {labels[-1]}`.",
        )
    own = list(config.get("candidate_labels") or ())
    choices = {"candidate_labels": list(_read_labels(own, "--labels"))} if own else {}
    return {"entailment": found, "contradiction": len(labels) - 1 if found == 0 else 0, **choices}


def known(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """The hypotheses of the artifact's own labels."""
    return tuple(TEMPLATE.replace(PLACE, label) for label in facts.get("candidate_labels", ()))


def sample(manifest: Manifest) -> dict[str, Any]:
    """With the artifact's own labels, where it has any."""
    return {**SAMPLE, "candidate_labels": list(manifest.facts.get("candidate_labels") or SAMPLE["candidate_labels"])}


def parse(inputs: Any, parameters: Options, manifest: Manifest) -> Request:
    """A text or a list of texts; or `{"sequences": …, "candidate_labels": […]}`, as transformers calls them. Raises InputError.

    Labels lose the white space around them and those that come twice; the artifact's own are taken where none are given.
    """
    check_parameters(parameters, PARAMETERS)
    given, path = inputs, "inputs"
    if isinstance(inputs, dict):
        if unknown := sorted(set(inputs) - set(SAMPLE)):
            raise InputError(f"is not known here; there are {', '.join(SAMPLE)}.", where=f"inputs.{unknown[0]}")
        given, path = inputs.get("sequences"), "inputs.sequences"
    texts, paths, single = read_texts(given, path)
    labels = _labels(inputs.get("candidate_labels") if isinstance(inputs, dict) else None, parameters, manifest)
    if len(texts) * len(labels) > PAIRS:
        said = f"{len(texts)} texts with {len(labels)} labels are {len(texts) * len(labels)} pairs, the limit is {PAIRS}."
        raise TooLargeError(said, hint="Send fewer texts or labels a request.")
    before, after = _template(parameters)
    characters = sum(map(len, labels)) + len(labels) * len(before + after)
    if characters > HYPOTHESES:
        said = f"{len(labels)} labels in this template make {characters} characters of hypotheses, the limit is {HYPOTHESES}."
        raise TooLargeError(said, hint="Send fewer or shorter labels, or a shorter template.")
    options = {
        "labels": tuple(labels),
        "labels_at": tuple(labels.values()),
        "multi_label": option(parameters, "multi_label", bool, False),
    }
    hypotheses = tuple(f"{before}{label}{after}" for label in labels)
    return Request(texts, paths, single, truncation(parameters, manifest, STRATEGIES), options, hypotheses)


def _labels(beside: Any, parameters: Options, manifest: Manifest) -> dict[str, str]:
    """The labels in order, each once, and what to change where one is too long: its path. Raises InputError."""
    places = [(beside, "inputs.candidate_labels"), (parameters.get("candidate_labels"), "parameters.candidate_labels")]
    given = [_read_labels(value, path) for value, path in places if value is not None]
    if len(given) > 1:
        raise InputError("is given twice, here and in inputs.", where="parameters.candidate_labels")
    if given:
        return given[0]
    own = manifest.facts.get("candidate_labels")
    if not own:
        raise InputError("is missing: name the labels to choose from, as a list of texts.", where="parameters.candidate_labels")
    return dict.fromkeys(own, "parameters.hypothesis_template")  # all that the request has of a hypothesis


def _read_labels(value: Any, path: str) -> dict[str, str]:
    if isinstance(value, str):  # one text with commas
        read_text(value, path)
        found = {label.strip(): path for label in value.split(",") if label.strip()}
    elif isinstance(value, list):
        found = {}
        for i, item in enumerate(value):
            found.setdefault(read_text(read_text(item, f"{path}[{i}]").strip(), f"{path}[{i}]"), f"{path}[{i}]")
    else:
        raise InputError(f"must be a list of texts, or one text with commas between the labels, not {json_type(value)}.", where=path)
    if not found:
        raise InputError("has no label; give at least one.", where=path)
    return found


def _template(parameters: Options) -> tuple[str, str]:
    """What stands before and after the label. Raises InputError for a template that does not say where it goes, once."""
    path = "parameters.hypothesis_template"
    template = read_text(option(parameters, "hypothesis_template", str, TEMPLATE), path)
    before, _, after = template.partition(PLACE)
    if template.count(PLACE) != 1 or any(brace in before + after for brace in PLACE):
        raise InputError(f"must have {PLACE} once, where the label goes, and no other braces; as {TEMPLATE!r}.", where=path)
    return before, after


def encode(request: Request, tokenizer: Tokenizer) -> tuple[Encoded, ...]:
    """Each text with each hypothesis, the text's pairs together; the text alone is cut."""
    texts, hypotheses = zip(*product(request.texts, request.beside), strict=True)
    paths = list(product(request.paths, request.options["labels_at"]))
    return tokenizer.encode_pairs(texts, hypotheses, Fit(truncate=request.truncate, cuts="first"), paths)


def decode(request: Request, _encoded: tuple[Encoded, ...], outputs: list[Array], manifest: Manifest) -> list[Any]:
    """`[{"label", "score"}, …]` of a text, best first and equal ones in the labels' order; a list of these for a list."""
    labels = request.options["labels"]
    logits = np.stack(outputs).reshape(len(request.texts), len(labels), -1)
    weights, scores = _scores(logits, manifest.facts, each=request.options["multi_label"])
    # by the logits, which keep apart what a saturated score cannot
    orders = np.argsort(-weights, axis=-1, kind="stable").tolist()
    answers = [[{"label": labels[i], "score": float(row[i])} for i in order] for row, order in zip(scores, orders, strict=True)]
    return answers[0] if request.single else answers


def _scores(logits: Array, known: Mapping[str, Any], *, each: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(texts, labels, outputs) as the logits that labels are ordered by, and their scores, both (texts, labels).

    each: a label's own score, of its entailment against its contradiction; else all labels share 1 by their entailment.
    """
    entailment = logits[..., known["entailment"]].astype(np.float64)
    if not each:
        return entailment, softmax(logits[..., known["entailment"]])
    contradiction = logits[..., known["contradiction"]].astype(np.float64)
    return entailment - contradiction, softmax(np.stack([contradiction, entailment], axis=-1))[..., 1]


def parity(ours: Sequence[Array], reference: Sequence[Array], manifest: Manifest) -> dict[str, float]:
    """Agreement on a text's labels and on all outputs of its pairs. Arrays are (labels, outputs), one a text.

    top1: texts with the same best label. kendall: share of two labels in the original's order less that of those that are not.
    label_agreement: pairs with the same likeliest output. score_mean, score_p99: 1 minus the drift of the outputs' probabilities,
    mean, and worst of 100.
    """
    entailed = manifest.facts["entailment"]
    orders = [(x[:, entailed].astype(np.float64), y[:, entailed].astype(np.float64)) for x, y in zip(ours, reference, strict=True)]
    several = [(x, y) for x, y in orders if len(x) > 1]
    a, b = np.concatenate(list(ours)), np.concatenate(list(reference))
    drift = np.abs(softmax(a) - softmax(b)).max(axis=-1)
    return {
        "top1": mean([float(y[x.argmax()] == y.max()) for x, y in several]),
        "kendall": mean([kendall(x, y) for x, y in several]),
        "label_agreement": float((a.argmax(-1) == b.argmax(-1)).mean()),
        "score_mean": 1 - float(drift.mean()),
        "score_p99": 1 - float(np.percentile(drift, 99)),
    }


TASK = Task(
    name="zero-shot-classification",
    summary="Choose among labels that come with the text.",
    export=ExportSpec(auto_class="AutoModelForSequenceClassification", optimum_task="text-classification", output="logits"),
    parameters=PARAMETERS,
    facts=facts,
    parse=parse,
    encode=encode,
    run=run_encoder,
    decode=decode,
    parity=parity,
    thresholds={  # of outputs those of text-classification, of orders those of text-ranking: the same heads
        "fp32": {"top1": 0.999, "kendall": 0.999, "label_agreement": 0.999, "score_mean": 0.9999, "score_p99": 0.999},
        "fp16": {"top1": 0.98, "kendall": 0.98, "label_agreement": 0.995, "score_mean": 0.999, "score_p99": 0.99},
        "int8": {"top1": 0.95, "kendall": 0.92, "label_agreement": 0.97, "score_mean": 0.98, "score_p99": 0.85},
        "int4": {"top1": 0.9, "kendall": 0.8, "label_agreement": 0.9, "score_mean": 0.93, "score_p99": 0.6},
    },
    sample=sample,
    corpus="hypotheses",
    known=known,
)

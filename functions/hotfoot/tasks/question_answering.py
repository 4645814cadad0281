"""Extractive question answering: the span of a context that answers a question.

A context too long for the model is read in windows that overlap. Answers are those of transformers' pipeline, its habits included: the
scores of answers with the same words add up over places and windows, and a token's answer grows to the whole word. Unlike there, it
does not grow in scripts that put no spaces between words, begins and ends with no white space, and the question is cut only on request.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotfoot.contract.errors import InputError, UnsupportedError
from hotfoot.contract.json_types import json_type
from hotfoot.contract.manifest import Manifest
from hotfoot.task import Array, Encoded, ExportSpec, Fit, Options, Request, Task, Tokenizer, run_encoder
from hotfoot.tasks._texts import check_parameters, option, read_text, read_texts, softmax
from hotfoot.tasks._tokens import id_of

COUNTS = ("top_k", "max_answer_len", "max_seq_len", "max_question_len")
PARAMETERS = ("question", *COUNTS, "doc_stride", "handle_impossible_answer", "align_to_words")
WINDOW, STRIDE = 384, 128  # tokens of a window and of the overlap: what these models were trained with
ANSWER = 15  # tokens of an answer at most
SAMPLE = {"question": "Where does Maria live?", "context": "Maria Gonzalez lives in Springfield and works in Paris."}
# Thai to Myanmar, Khmer, CJK with its kana and its own punctuation: there the end of a word shows in no space
UNSPACED = re.compile("[\u0e00-\u109f\u1780-\u17ff\u3000-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff\uff00-\uff9f\U00020000-\U0003ffff]")
Probabilities = NDArray[np.float64]


def facts(config: Mapping[str, Any]) -> dict[str, Any]:
    """The token whose span means "no answer", null where the tokenizer has none.

    Raises UnsupportedError for a tokenizer that pads on the left: such models take the context before the question.
    """
    if config["pad_side"] != "right":
        raise UnsupportedError("the model's tokenizer pads on the left, so it reads the context first, which is not supported.")
    return {"null_id": id_of(config["tokenizer"], config["special"].get("cls_token"))}


def parse(inputs: Any, parameters: Options, manifest: Manifest) -> Request:
    """`{"question", "context"}`, a list of these, or texts that parameters.question is asked of; raises InputError."""
    check_parameters(parameters, PARAMETERS)
    options = _read_options(parameters, manifest)
    question: str | None = option(parameters, "question", str, None)
    if question is not None:
        texts, paths, single = read_texts(inputs)
        asked = (read_text(question, "parameters.question"),) * len(texts)
        return Request(texts, paths, single, None, {**options, "asked_at": ("parameters.question",) * len(texts)}, asked)
    single = not isinstance(inputs, list)
    roots = ("inputs",) if single else tuple(f"inputs[{i}]" for i in range(len(inputs)))
    if not roots:
        raise InputError("is an empty list; send at least one question.", where="inputs")
    items = [_read_item(item, root) for item, root in zip([inputs] if single else inputs, roots, strict=True)]
    return Request(
        texts=tuple(context for _, context in items),
        paths=tuple(f"{root}.context" for root in roots),
        single=single,
        truncate=None,
        options={**options, "asked_at": tuple(f"{root}.question" for root in roots)},
        beside=tuple(asked for asked, _ in items),
    )


def _read_item(item: Any, path: str) -> tuple[str, str]:
    if not isinstance(item, dict):
        raise InputError(
            f"must be an object with question and context, or a text with parameters.question, not {json_type(item)}.", where=path
        )
    if unknown := sorted(set(item) - set(SAMPLE)):
        raise InputError("is not known here; there are question and context.", where=f"{path}.{unknown[0]}")
    return read_text(item.get("question"), f"{path}.question"), read_text(item.get("context"), f"{path}.context")


def _read_options(parameters: Options, manifest: Manifest) -> dict[str, Any]:
    counts: dict[str, int | None] = {name: option(parameters, name, int, None) for name in COUNTS}
    for name, count in counts.items():
        if count is not None and count < 1:
            raise InputError(f"is {count}; it must be at least 1.", where=f"parameters.{name}")
    stride: int | None = option(parameters, "doc_stride", int, None)
    if stride is not None and stride < 0:
        raise InputError(f"is {stride}; it must be at least 0.", where="parameters.doc_stride")
    window = counts["max_seq_len"] or min(manifest.max_tokens, WINDOW)
    if window > manifest.max_tokens:
        raise InputError(f"is {window}; this model reads {manifest.max_tokens} tokens at most.", where="parameters.max_seq_len")
    overlap = min(window // 2, STRIDE) if stride is None else stride
    return {
        "top_k": counts["top_k"] or 1,
        "longest": counts["max_answer_len"] or ANSWER,
        "fit": Fit(stride=overlap, yields=stride is None, window=window, first=counts["max_question_len"]),
        "impossible": option(parameters, "handle_impossible_answer", bool, False),
        "whole_words": option(parameters, "align_to_words", bool, True),
    }


def encode(request: Request, tokenizer: Tokenizer) -> tuple[Encoded, ...]:
    """Each question with its context, in as many windows as that takes."""
    paths = list(zip(request.options["asked_at"], request.paths, strict=True))
    return tokenizer.encode_pairs(request.beside, request.texts, request.options["fit"], paths)


def decode(request: Request, encoded: tuple[Encoded, ...], outputs: list[Array], manifest: Manifest) -> list[Any] | dict[str, Any]:
    """`{"score", "start", "end", "answer"}` a question, a list of these for a top_k above 1; a list of all that for a list.

    start and end are code points of the context as sent. An empty answer means that there is none.
    """
    answers = []
    for item, windows in groupby(zip(encoded, outputs, strict=True), key=lambda pair: pair[0].item):
        found = _answers(request.texts[item], windows, request.options, manifest.facts["null_id"])
        answers.append(found if request.options["top_k"] > 1 else found[0])
    return answers[0] if request.single else answers


def _answers(context: str, windows: Iterable[tuple[Encoded, Array]], options: Options, null_id: int | None) -> list[dict[str, Any]]:
    """The best answers over all windows, best first."""
    count, whole = options["top_k"], options["whole_words"]
    scores: dict[str, float] = {}  # by the words, in whatever case
    spans: dict[str, tuple[int, int]] = {}
    nulls = []
    for encoded, logits in windows:
        first, stop = encoded.second or (0, 0)
        rows = np.concatenate([logits[:1], logits[first:stop]])
        null, start, end = _probabilities(rows, null_first=null_id is not None and int(encoded.ids[0]) == null_id)
        nulls.append(null)
        # growing to whole words makes some of them the same
        for one, other, score in _best(start, end, 2 * count + 10 if whole else count, options["longest"]):
            span = _place(encoded, first + one, first + other, context if whole else None)
            answer = context[slice(*span)].lower()
            scores[answer] = scores.get(answer, 0.0) + score
            spans.setdefault(answer, span)
    best: dict[tuple[int, int], float] = {}
    for answer in sorted(scores, key=lambda answer: scores[answer], reverse=True):
        best.setdefault(_stripped(context, *spans[answer]), scores[answer])
    found = [(score, *span) for span, score in best.items() if span[0] < span[1]]
    if options["impossible"] or not found:
        found = sorted([*found, (min(nulls), 0, 0)], key=lambda answer: answer[0], reverse=True)
    return [{"score": score, "start": start, "end": end, "answer": context[start:end]} for score, start, end in found[:count]]


def _probabilities(rows: Array, *, null_first: bool) -> tuple[float, Probabilities, Probabilities]:
    """Of rows of start and end logits, the first token's and the context's: the score of no answer, and the context's probabilities."""
    shares = softmax(rows.T if null_first else rows[1:].T)
    if not null_first:
        return 0.0, shares[0], shares[1]
    return float(shares[0, 0] * shares[1, 0]), shares[0, 1:], shares[1, 1:]


def _best(start: Probabilities, end: Probabilities, count: int, longest: int) -> Iterator[tuple[int, int, float]]:
    """The `count` likeliest spans of at most `longest` tokens, best first: first token, last token, score."""
    width = min(longest, len(start))
    ends = np.lib.stride_tricks.sliding_window_view(np.pad(end, (0, width - 1)), width)
    scores = start[:, None] * ends
    scores[np.add.outer(np.arange(len(start)), np.arange(width)) >= len(start)] = -1
    flat = scores.ravel()
    top = np.argpartition(-flat, count)[:count] if count < len(flat) else np.arange(len(flat))
    for place in top[np.lexsort((top, -flat[top]))].tolist():
        if flat[place] >= 0:
            yield place // width, place // width + place % width, float(flat[place])


def _place(encoded: Encoded, first: int, last: int, context: str | None) -> tuple[int, int]:
    """Where tokens first to last stand in the context; given that, grown to whole words."""
    offsets = encoded.offsets
    start, end = offsets[first][0], offsets[last][1]
    if context is None:
        return start, end
    words, (low, high) = encoded.words, encoded.second or (0, 0)
    while first > low and words[first - 1] == words[first] is not None:
        first -= 1
    while last + 1 < high and words[last + 1] == words[last] is not None:
        last += 1
    return (
        start if UNSPACED.search(context[max(0, start - 1) : start + 1]) else offsets[first][0],
        end if UNSPACED.search(context[max(0, end - 1) : end + 1]) else offsets[last][1],
    )


def _stripped(context: str, start: int, end: int) -> tuple[int, int]:
    """The span without white space at its ends."""
    text = context[start:end]
    start += len(text) - len(text.lstrip())
    return start, start + len(text.strip())


def probe(ids: NDArray[np.int64], output: Array) -> Array:
    """Start and end logits of the first token and of the context, which follows the last separator but one: (1 + tokens, 2)."""
    separators = np.flatnonzero(ids[:-1] == ids[-1])
    start = int(separators[-1]) + 1 if len(separators) else 1
    return np.concatenate([output[:1], output[start:-1]])


def parity(ours: Sequence[Array], reference: Sequence[Array], manifest: Manifest) -> dict[str, float]:
    """Share of pairs with the same best span, overlap of these as F1 of their tokens, and 1 minus the drift of probabilities.

    No answer is a best span too, where it is the likeliest. The drift of a pair is the largest over its tokens, at the start or end:
    mean, and worst of 100.
    """
    null_first = manifest.facts["null_id"] is not None
    same, overlaps, drifts = [], [], []
    for x, y in zip(ours, reference, strict=True):
        mine, theirs = _probabilities(x, null_first=null_first), _probabilities(y, null_first=null_first)
        spans = _likeliest(*mine), _likeliest(*theirs)
        same.append(spans[0] == spans[1])
        overlaps.append(_overlap(*spans))
        drifts.append(max(float(np.abs(a - b).max()) for a, b in zip(mine[1:], theirs[1:], strict=True)))
    return {
        "exact_match": float(np.mean(same)),
        "span_f1": float(np.mean(overlaps)),
        "score_mean": 1 - float(np.mean(drifts)),
        "score_p99": 1 - float(np.percentile(drifts, 99)),
    }


def _likeliest(null: float, start: Probabilities, end: Probabilities) -> tuple[int, int]:
    """First and last token of the best span, (-1, -1) for none."""
    first, last, score = next(_best(start, end, 1, ANSWER), (-1, -1, 0.0))  # there is none of what is no number
    return (first, last) if score > null else (-1, -1)


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> float:
    shared = min(one[1], other[1]) - max(one[0], other[0]) + 1
    return 2 * max(0, shared) / (one[1] - one[0] + other[1] - other[0] + 2)


TASK = Task(
    name="question-answering",
    summary="Find the words of a text that answer a question.",
    export=ExportSpec(
        auto_class="AutoModelForQuestionAnswering",
        optimum_task="question-answering",
        output="start_logits",
        labels=False,
        beside=("end_logits",),
    ),
    parameters=PARAMETERS,
    facts=facts,
    parse=parse,
    encode=encode,
    run=run_encoder,
    decode=decode,
    parity=parity,
    thresholds={
        "fp32": {"exact_match": 0.999, "span_f1": 0.999, "score_mean": 0.9999, "score_p99": 0.999},
        "fp16": {"exact_match": 0.99, "span_f1": 0.99, "score_mean": 0.999, "score_p99": 0.97},
        "int8": {"exact_match": 0.93, "span_f1": 0.95, "score_mean": 0.97, "score_p99": 0.6},
        # plain rounding in blocks of 32 costs a six-layer model 0.09, 0.08, 0.06 and 0.71
        "int4": {"exact_match": 0.85, "span_f1": 0.87, "score_mean": 0.9, "score_p99": 0.15},
    },
    sample=SAMPLE,
    probe=probe,
    corpus="questions",
)

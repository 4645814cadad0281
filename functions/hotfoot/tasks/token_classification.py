"""Token classification (named entities): spans in code points of the text as sent."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotfoot.contract.errors import InputError
from hotfoot.contract.json_types import json_type
from hotfoot.contract.manifest import Manifest
from hotfoot.task import Array, Encoded, ExportSpec, Options, Request, Task, Tokenizer, run_encoder
from hotfoot.tasks._texts import TRUNCATION, check_parameters, choice, option, read_texts, softmax, truncation

STRATEGIES = ("none", "simple", "first", "average", "max")
PARAMETERS = ("aggregation_strategy", "ignore_labels", "stride", *TRUNCATION)


@dataclass(frozen=True)
class Piece:
    """One or more tokens read as a unit: its scores over the labels, and its span in the text."""

    scores: NDArray[np.float64]
    start: int
    end: int
    index: int

    @property
    def label(self) -> int:
        """The best label's index."""
        return int(self.scores.argmax())


def facts(config: Mapping[str, Any]) -> dict[str, Any]:
    """Where words end: WordPiece's pre-tokenizer knows; byte-level and SentencePiece ones split numbers, so white space decides."""
    wordpiece = config["tokenizer"].get("model", {}).get("type") == "WordPiece"
    return {"words": "pretokenizer" if wordpiece else "whitespace"}


def parse(inputs: Any, parameters: Options, manifest: Manifest) -> Request:
    """A text or a list of texts; raises InputError."""
    check_parameters(parameters, PARAMETERS)
    texts, paths, single = read_texts(inputs)
    strategy = choice(parameters, "aggregation_strategy", STRATEGIES, "simple")
    stride: int | None = option(parameters, "stride", int, None)
    if stride is not None and strategy == "none":
        raise InputError("needs an aggregation_strategy other than none, which merges the windows.", where="parameters.stride")
    ignored = option(parameters, "ignore_labels", list, ["O"])
    for i, label in enumerate(ignored):
        if not isinstance(label, str):
            raise InputError(f"must be a text, not {json_type(label)}.", where=f"parameters.ignore_labels[{i}]")
    options = {"strategy": strategy, "stride": stride, "ignored": frozenset(ignored)}
    return Request(texts, paths, single, truncation(parameters, manifest), options)


def encode(request: Request, tokenizer: Tokenizer) -> tuple[Encoded, ...]:
    """One window a text, or overlapping ones where a stride is given."""
    return tokenizer.encode(request.texts, truncate=request.truncate, paths=request.paths, stride=request.options["stride"])


def decode(request: Request, encoded: tuple[Encoded, ...], outputs: list[Array], manifest: Manifest) -> list[Any]:
    """Entities in order of their place: one list for a bare text, a list of lists for a list."""
    answers: list[Any] = []
    by_item = groupby(zip(encoded, outputs, strict=True), key=lambda pair: pair[0].item)
    for item, windows in by_item:
        text = request.texts[item]
        found = [_entities(text, window, logits, request, manifest) for window, logits in windows]
        answers.append(found[0] if len(found) == 1 else _merge_windows([entity for each in found for entity in each]))
    return list(answers[0]) if request.single else answers


def _entities(text: str, encoded: Encoded, logits: Array, request: Request, manifest: Manifest) -> list[dict[str, Any]]:
    strategy, ignored = request.options["strategy"], request.options["ignored"]
    tokens = _tokens(text, encoded, softmax(logits))
    if strategy == "none":
        spelled = [{"entity": manifest.labels[t.label], **_show(text, t, float(t.scores.max())), "index": t.index} for t in tokens]
        return [s for s in spelled if s["entity"] not in ignored and s["word"]]
    if strategy != "simple":
        tokens = [_as_word(word, strategy) for word in _words(text, tokens, encoded, str(manifest.facts["words"]))]
    groups = []
    for group in _grouped(tokens, manifest.labels):
        tag = _split(manifest.labels[group[0].label])[1]
        whole = _joined(group, group[0].scores)
        if whole.start < whole.end and tag not in ignored and manifest.labels[group[0].label] not in ignored:
            groups.append({"entity_group": tag, **_show(text, whole, float(np.mean([p.scores.max() for p in group])))})
    return groups


def _tokens(text: str, encoded: Encoded, scores: NDArray[np.float64]) -> list[Piece]:
    pieces = []
    for index, (start, end) in enumerate(encoded.offsets):
        if encoded.special[index]:
            continue
        # byte-level tokenizers may count the space before a word as the word's; a token of nothing else keeps no character
        shown = text[start:end]
        first = start + len(shown) - len(shown.lstrip())
        pieces.append(Piece(scores[index], first, first + len(shown.strip()), index))
    return pieces


def _words(text: str, tokens: list[Piece], encoded: Encoded, rule: str) -> list[list[Piece]]:
    """Tokens by words. By white space, punctuation at a word's edge stands alone: `Lyon.` is not one word, `5.975,74` is."""
    words: list[list[Piece]] = []
    for token in tokens:
        if not words or _begins_word(text, words[-1][-1], token, encoded, rule):
            words.append([])
        words[-1].append(token)
    return words if rule == "pretokenizer" else [part for word in words for part in _without_edges(text, word)]


def _without_edges(text: str, word: list[Piece]) -> list[list[Piece]]:
    marks = [all(unicodedata.category(c).startswith("P") for c in text[t.start : t.end]) for t in word]
    first = marks.index(False) if False in marks else len(marks)
    last = len(marks) - marks[::-1].index(False) if False in marks else first
    # a token that holds but the space before the word is the word's own first piece
    while 0 < first < last and word[first - 1].start == word[first - 1].end:
        first -= 1
    parts = [*([t] for t in word[:first]), word[first:last], *([t] for t in word[last:])]
    return [part for part in parts if any(t.start < t.end for t in part)]


def _begins_word(text: str, before: Piece, token: Piece, encoded: Encoded, rule: str) -> bool:
    if rule == "pretokenizer":
        return encoded.words[before.index] != encoded.words[token.index]
    return any(c.isspace() for c in text[before.end : token.start])


def _as_word(tokens: list[Piece], strategy: str) -> Piece:
    if strategy == "first":
        scores = tokens[0].scores
    elif strategy == "max":
        scores = max(tokens, key=lambda t: float(t.scores.max())).scores
    else:
        scores = np.mean([t.scores for t in tokens], axis=0)
    return _joined(tokens, scores)


def _joined(pieces: Sequence[Piece], scores: NDArray[np.float64]) -> Piece:
    """Pieces as one, from the first character to the last that is not white space."""
    solid = [p for p in pieces if p.start < p.end] or pieces[:1]
    return Piece(scores, solid[0].start, solid[-1].end, pieces[0].index)


def _split(label: str) -> tuple[str, str]:
    """`B-PER` as (B, PER); a label without a prefix continues its own kind."""
    return (label[0], label[2:]) if label[:2] in ("B-", "I-") else ("I", label)


def _grouped(pieces: list[Piece], labels: Sequence[str]) -> Iterable[list[Piece]]:
    """Neighbours of one tag, a new group at each B- that is not inside a character of the group, as the pieces of `½` are."""
    if not pieces:
        return
    group = [pieces[0]]
    for before, piece in pairwise(pieces):
        prefix, tag = _split(labels[piece.label])
        if tag != _split(labels[before.label])[1] or (prefix == "B" and piece.start >= before.end):
            yield group
            group = []
        group.append(piece)
    yield group


def _show(text: str, piece: Piece, score: float) -> dict[str, Any]:
    return {"score": score, "word": text[piece.start : piece.end], "start": piece.start, "end": piece.end}


def _merge_windows(entities: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of entities that overlap, seen by two windows, the longer one; at one length the surer one."""
    merged: list[dict[str, Any]] = []
    for entity in sorted(entities, key=lambda e: (e["start"], e["end"])):
        if merged and entity["start"] < merged[-1]["end"]:
            merged[-1] = max(merged[-1], entity, key=lambda e: (e["end"] - e["start"], e["score"]))
        else:
            merged.append(entity)
    return merged


def parity(ours: Sequence[Array], reference: Sequence[Array], manifest: Manifest) -> dict[str, float]:
    """Share of tokens with the same label, entity F1 by token and by whole span, texts whose spans all agree, 1 minus score drift.

    A span is a run of tokens of one tag, as the simple strategy groups them; it counts when tag, first and last token agree.
    """
    spans = [(_spans(x, manifest.labels), _spans(y, manifest.labels)) for x, y in zip(ours, reference, strict=True)]
    same, said = sum(len(x & y) for x, y in spans), sum(len(x) + len(y) for x, y in spans)
    a, b = np.concatenate(list(ours)), np.concatenate(list(reference))
    mine, theirs = a.argmax(-1), b.argmax(-1)
    outside = np.array([label == "O" for label in manifest.labels])
    hits = int(((mine == theirs) & ~outside[theirs]).sum())
    called = int((~outside[mine]).sum()) + int((~outside[theirs]).sum())
    drift = np.abs(softmax(a) - softmax(b)).max(axis=-1)
    return {
        "label_agreement": float((mine == theirs).mean()),
        "entity_f1": 2 * hits / called if called else 1.0,
        "span_f1": 2 * same / said if said else 1.0,
        "exact_match": sum(x == y for x, y in spans) / len(spans),
        "score_mean": 1 - float(drift.mean()),
    }


def _spans(logits: Array, labels: Sequence[str]) -> set[tuple[str, int, int]]:
    """(tag, first token, last token) of each entity."""
    best = logits.argmax(-1).tolist()
    found: set[tuple[str, int, int]] = set()
    start = 0
    for index in range(1, len(best) + 1):
        tag = _split(labels[best[start]])[1]
        if index == len(best) or _split(labels[best[index]])[0] == "B" or _split(labels[best[index]])[1] != tag:
            if tag != "O":
                found.add((tag, start, index - 1))
            start = index
    return found


TASK = Task(
    name="token-classification",
    summary="Find names, places and the like in each text.",
    export=ExportSpec(auto_class="AutoModelForTokenClassification", optimum_task="token-classification", output="logits"),
    parameters=PARAMETERS,
    facts=facts,
    parse=parse,
    encode=encode,
    run=run_encoder,
    decode=decode,
    parity=parity,
    thresholds={
        "fp32": {"label_agreement": 0.9999, "entity_f1": 0.999, "span_f1": 0.999, "exact_match": 0.999, "score_mean": 0.9999},
        "fp16": {"label_agreement": 0.999, "entity_f1": 0.995, "span_f1": 0.995, "exact_match": 0.98, "score_mean": 0.999},
        "int8": {"label_agreement": 0.99, "entity_f1": 0.97, "span_f1": 0.95, "exact_match": 0.8, "score_mean": 0.99},
        # plain rounding in blocks of 32 costs a six-layer model 0.007, 0.05, 0.07, 0.11 and 0.01
        "int4": {"label_agreement": 0.97, "entity_f1": 0.93, "span_f1": 0.9, "exact_match": 0.65, "score_mean": 0.97},
    },
    sample="My name is Maria Gonzalez and I live in Springfield.",
)

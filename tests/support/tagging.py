"""Entities out of tags that a test chooses token by token."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hotfoot.contract.manifest import Manifest
from hotfoot.task import Array
from hotfoot.tasks import token_classification
from hotfoot.tokenizer import Tokenizer
from support.serving import model
from support.tokenizers_made import made

TASK = token_classification.TASK
LABELS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-NUM", "I-NUM")
STRATEGIES = ("none", "simple", "first", "average", "max")
WORDWISE = ("first", "average", "max")
SURE = 9.0
Logits = Mapping[str, float]


def manifest(labels: Sequence[str] = LABELS, words: str = "whitespace") -> Manifest:
    return replace(model("token-classification").manifest, labels=tuple(labels), facts={"words": words})


def rows(tags: Sequence[str | Logits], labels: Sequence[str]) -> Array:
    """Logits of tokens: a label's name for a sure one, or the logits of some labels."""
    found = np.zeros((len(tags), len(labels)), dtype=np.float32)
    for row, tag in zip(found, tags, strict=True):
        for label, logit in {tag: SURE}.items() if isinstance(tag, str) else tag.items():
            row[labels.index(label)] = logit
    return found


def decoded(kind: str, text: str, tags: Sequence[str | Logits], strategy: str, labels: Sequence[str] = LABELS, **parameters: Any) -> Any:
    """Entities when the text's tokens (special ones left out) get these tags."""
    about = manifest(labels, "pretokenizer" if kind == "wordpiece" else "whitespace")
    request = TASK.parse(text, {"aggregation_strategy": strategy, **parameters}, about)
    (encoded,) = TASK.encode(request, Tokenizer(made(kind), 512))
    inner = iter(tags)
    outer = [labels[-1] if special else next(inner) for special in encoded.special]
    assert next(inner, None) is None, "more tags than tokens"
    return TASK.decode(request, (encoded,), [rows(outer, labels)], about)


def spans(entities: Sequence[Mapping[str, Any]]) -> list[tuple[str, int, int]]:
    return [(e.get("entity_group") or e["entity"], e["start"], e["end"]) for e in entities]


def sound(text: str, entities: Sequence[Mapping[str, Any]]) -> None:
    for e in entities:
        assert e["word"] == text[e["start"] : e["end"]]
        assert e["word"] == e["word"].strip() != ""
        assert 0 < e["score"] <= 1
    json.dumps(entities, allow_nan=False)


def p(*logits: float) -> float:
    """The softmax score of the first of these logits, the other labels at zero."""
    rest = len(LABELS) - len(logits)
    return math.exp(logits[0]) / (sum(map(math.exp, logits)) + rest)

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hotfoot.contract.errors import InputError
from hotfoot.model import Model
from hotfoot.tasks import token_classification
from support.rigged import Rig, rigged_artifact
from support.serving import model
from support.tagging import LABELS, STRATEGIES, SURE, TASK, decoded, manifest, p, rows, sound, spans
from support.tokenizers_made import made


@pytest.mark.parametrize(
    ("ignored", "found"),
    [
        (["O"], [("PER", 0, 2), ("LOC", 7, 12)]),
        (None, [("PER", 0, 2), ("LOC", 7, 12)]),
        ([], [("PER", 0, 2), ("O", 3, 6), ("LOC", 7, 12)]),
        (["PER"], [("O", 3, 6), ("LOC", 7, 12)]),
        (["O", "B-LOC"], [("PER", 0, 2)]),
        (["NOTHING"], [("PER", 0, 2), ("O", 3, 6), ("LOC", 7, 12)]),
    ],
)
def test_ignored_labels(ignored: list[str] | None, found: list[tuple[str, int, int]]) -> None:
    assert spans(decoded("wordpiece", "in the paris", ["B-PER", "O", "B-LOC"], "simple", ignore_labels=ignored)) == found


def test_none_ignores_labels_as_they_are_spelled() -> None:
    tags = ["B-PER", "O", "B-LOC"]
    assert spans(decoded("wordpiece", "in the paris", tags, "none", ignore_labels=["B-PER"])) == [("O", 3, 6), ("B-LOC", 7, 12)]
    assert spans(decoded("wordpiece", "in the paris", tags, "none", ignore_labels=["PER"])) == [
        ("B-PER", 0, 2),
        ("O", 3, 6),
        ("B-LOC", 7, 12),
    ]


def test_a_bare_text_gives_its_entities_a_list_gives_lists() -> None:
    rigged = model("token-classification")
    bare = rigged.predict("Maria Gonzalez lives in Springfield").answer
    assert spans(bare) == [("PER", 0, 14), ("LOC", 24, 35)]
    assert rigged.predict(["Maria Gonzalez lives in Springfield"]).answer == [bare]
    assert rigged.predict(["in", "Maria Gonzalez lives in Springfield"]).answer == [[], bare]
    assert rigged.predict("in").answer == []
    assert rigged.predict("   ").answer == []


def test_the_answer_is_json() -> None:
    bare = model("token-classification").predict("Maria", {"aggregation_strategy": "none"}).answer
    assert [{k: type(v) for k, v in e.items()} for e in bare] == [
        {"entity": str, "score": float, "word": str, "start": int, "end": int, "index": int}
    ]


# --- windows


def long_text(of: Model, words: int) -> str:
    text = " ".join(["Maria", "Gonzalez", "lives", "in", "Springfield", *["in"] * (words % 4)] * (words // 5))
    assert len(of.tokenizer.encode([text], truncate=None, stride=0)) > 1
    return text


@pytest.mark.parametrize("strategy", STRATEGIES[1:])
@pytest.mark.parametrize("stride", [1, 2, 5, 7])
def test_windows_give_what_one_long_window_would(tmp_path: Path, stride: int, strategy: str) -> None:
    short = Model.open(rigged_artifact(tmp_path / "short", "token-classification", Rig(max_tokens=16)), threads=1)
    long = Model.open(rigged_artifact(tmp_path / "long", "token-classification", Rig(max_tokens=512)), threads=1)
    text = long_text(short, 83)
    asked = {"aggregation_strategy": strategy}
    windowed = short.predict(text, {**asked, "stride": stride}).answer
    # an entity is two words, so that an overlap of two or more holds it whole somewhere
    if stride >= 2:
        assert windowed == long.predict(text, asked).answer
    assert {e["word"] for e in windowed if e["entity_group"] == "LOC"} == {"Springfield"}
    assert sum(e["entity_group"] == "LOC" for e in windowed) == text.count("Springfield")
    sound(text, windowed)
    assert all(a["end"] <= b["start"] for a, b in pairwise(windowed))


def test_windows_in_a_list_stay_with_their_texts(tmp_path: Path) -> None:
    short = Model.open(rigged_artifact(tmp_path, "token-classification", Rig(max_tokens=16)), threads=1)
    texts = ["Maria", long_text(short, 83), "in", "Springfield " * 30]
    found = short.predict(texts, {"stride": 4}).answer
    assert found == [short.predict(text, {"stride": 4}).answer for text in texts]
    assert len(found[3]) == 30


def merged(*windows: Sequence[tuple[str, int, int, float]]) -> list[tuple[str, int, int, float]]:
    entities = [{"entity_group": tag, "start": a, "end": b, "score": s} for window in windows for tag, a, b, s in window]
    return [(e["entity_group"], e["start"], e["end"], e["score"]) for e in token_classification._merge_windows(entities)]


def test_of_overlapping_entities_the_longer_then_the_surer_stays() -> None:
    assert merged([("PER", 0, 5, 0.9)], [("PER", 0, 12, 0.4)]) == [("PER", 0, 12, 0.4)]
    assert merged([("PER", 4, 9, 0.5)], [("LOC", 4, 9, 0.6)]) == [("LOC", 4, 9, 0.6)]
    assert merged([("PER", 4, 9, 0.6)], [("LOC", 4, 9, 0.5)]) == [("PER", 4, 9, 0.6)]
    assert merged([("PER", 0, 4, 0.6), ("LOC", 5, 9, 0.5)], [("LOC", 5, 9, 0.7), ("PER", 10, 12, 0.1)]) == [
        ("PER", 0, 4, 0.6),
        ("LOC", 5, 9, 0.7),
        ("PER", 10, 12, 0.1),
    ]
    # neighbours that only touch do not overlap
    assert merged([("PER", 0, 4, 0.6)], [("PER", 4, 8, 0.7)]) == [("PER", 0, 4, 0.6), ("PER", 4, 8, 0.7)]
    assert merged([], []) == []


# --- requests


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        (
            {"aggregation_strategy": "best"},
            "parameters.aggregation_strategy: is 'best'; it must be one of none, simple, first, average, max.",
        ),
        ({"aggregation_strategy": 1}, "parameters.aggregation_strategy: must be a text, not a number."),
        ({"ignore_labels": "O"}, "parameters.ignore_labels: must be a list, not a text."),
        ({"ignore_labels": ["O", None]}, "parameters.ignore_labels[1]: must be a text, not null."),
        ({"stride": "4"}, "parameters.stride: must be a whole number, not a text."),
        ({"stride": -1}, "parameters.stride: is -1; it must be from 0 to 31, half of the 62 tokens that a window of this model holds."),
        ({"stride": 32}, "parameters.stride: is 32; it must be from 0 to 31, half of the 62 tokens that a window of this model holds."),
        (
            {"stride": 4, "aggregation_strategy": "none"},
            "parameters.stride: needs an aggregation_strategy other than none, which merges the windows.",
        ),
    ],
)
@pytest.mark.parametrize("text", ["in", "in " * 100])
def test_wrong_parameters_are_named(text: str, parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        model("token-classification").predict(text, parameters)
    assert str(caught.value) == said


def test_a_long_text_is_refused_cut_or_read_in_windows() -> None:
    rigged = model("token-classification")
    text = "in " * 100 + "Springfield"
    with pytest.raises(InputError, match="the text has 103 tokens, the limit is 64"):
        rigged.predict(text)
    assert rigged.predict(text, {"truncate": True}).answer == []
    assert spans(rigged.predict(text, {"truncate": True, "truncation_direction": "left"}).answer) == [("LOC", 300, 311)]
    assert spans(rigged.predict(text, {"stride": 0}).answer) == [("LOC", 300, 311)]


# --- facts and parity


@pytest.mark.parametrize(("kind", "rule"), [("wordpiece", "pretokenizer"), ("byte-level", "whitespace"), ("unigram", "whitespace")])
def test_the_tokenizers_kind_says_where_words_end(kind: str, rule: str) -> None:
    assert TASK.facts({"tokenizer": json.loads(made(kind).to_str())}) == {"words": rule}


def test_parity_counts_tokens_entities_and_drift() -> None:
    reference = [rows(["O", "O", "B-PER", "I-PER"], LABELS), rows(["O", "B-LOC"], LABELS)]
    ours = [rows(["O", "B-PER", "B-PER", "I-PER"], LABELS), rows(["O", "O"], LABELS)]
    found = TASK.parity(ours, reference, manifest())
    assert found["label_agreement"] == pytest.approx(4 / 6)
    # three tokens called an entity by each, two of them alike
    assert found["entity_f1"] == pytest.approx(2 * 2 / (3 + 3))
    assert found["score_mean"] == pytest.approx(1 - 2 / 6 * (p(SURE) - p(0.0, SURE)))
    # spans: PER 2-3 on both sides; ours has PER 1-1 beside it, theirs LOC 1-1 in the other text
    assert found["span_f1"] == pytest.approx(2 * 1 / (2 + 2))
    assert found["exact_match"] == 0.0


def test_parity_without_any_entity_is_whole() -> None:
    outside = [rows(["O", "O"], LABELS)]
    assert set(TASK.parity(outside, outside, manifest()).values()) == {1.0}

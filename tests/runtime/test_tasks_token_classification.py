from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotfoot.contract.errors import InputError
from hotfoot.contract.manifest import Manifest
from hotfoot.model import Model
from hotfoot.task import Array
from hotfoot.tasks import token_classification
from hotfoot.tokenizer import Tokenizer
from support.rigged import Rig, rigged_artifact
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


# --- grouping


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        (["B-PER", "I-PER", "O", "B-LOC"], [("PER", 0, 8), ("LOC", 13, 18)]),
        (["B-PER", "B-PER", "O", "O"], [("PER", 0, 2), ("PER", 3, 8)]),  # two persons side by side
        (["O", "I-PER", "O", "I-LOC"], [("PER", 3, 8), ("LOC", 13, 18)]),  # an I- after O begins one
        (["B-PER", "I-LOC", "I-LOC", "I-PER"], [("PER", 0, 2), ("LOC", 3, 12), ("PER", 13, 18)]),  # another tag begins one
        (["I-PER", "I-PER", "B-PER", "I-PER"], [("PER", 0, 8), ("PER", 9, 18)]),
        (["O", "O", "O", "O"], []),
    ],
)
@pytest.mark.parametrize("strategy", STRATEGIES[1:])
@pytest.mark.parametrize("kind", ["wordpiece", "bare"])
def test_words_of_one_token_are_grouped_alike_by_every_strategy(
    kind: str, strategy: str, tags: list[str], found: list[tuple[str, int, int]]
) -> None:
    text = "in paris the paris"
    entities = decoded(kind, text, tags, strategy)
    assert spans(entities) == found
    sound(text, entities)


def test_none_gives_every_token() -> None:
    text = "in paris the paris"
    entities = decoded("wordpiece", text, ["B-PER", "I-PER", "O", "B-LOC"], "none")
    assert entities == [
        {"entity": "B-PER", "score": pytest.approx(p(SURE)), "word": "in", "start": 0, "end": 2, "index": 1},
        {"entity": "I-PER", "score": pytest.approx(p(SURE)), "word": "paris", "start": 3, "end": 8, "index": 2},
        {"entity": "B-LOC", "score": pytest.approx(p(SURE)), "word": "paris", "start": 13, "end": 18, "index": 4},
    ]


def test_the_score_of_a_group_is_the_mean_of_its_tokens() -> None:
    (entity,) = decoded("wordpiece", "in paris", [{"B-PER": 2.0}, {"I-PER": 4.0}], "simple")
    assert entity == {"entity_group": "PER", "score": pytest.approx((p(2.0) + p(4.0)) / 2), "word": "in paris", "start": 0, "end": 8}


@pytest.mark.parametrize(
    ("strategy", "found", "score"),
    [
        ("simple", [("PER", 0, 6), ("LOC", 6, 7)], None),
        ("first", [("PER", 0, 7)], p(2.0)),
        ("average", [("LOC", 0, 7)], (p(5.0) + p(0.0, 2.0)) / 2),
        ("max", [("LOC", 0, 7)], p(5.0)),
    ],
)
def test_a_word_of_two_tokens_by_each_strategy(strategy: str, found: list[tuple[str, int, int]], score: float | None) -> None:
    entities = decoded("wordpiece", "guitars", [{"B-PER": 2.0}, {"I-LOC": 5.0}], strategy)
    assert spans(entities) == found
    if score is not None:
        assert entities[0]["score"] == pytest.approx(score)


@pytest.mark.parametrize("strategy", STRATEGIES[1:])
def test_labels_without_a_prefix(strategy: str) -> None:
    labels = ("O", "PER", "DATE-TIME")
    entities = decoded("wordpiece", "in paris the in man", ["PER", "PER", "O", "DATE-TIME", "DATE-TIME"], strategy, labels)
    assert spans(entities) == [("PER", 0, 8), ("DATE-TIME", 13, 19)]


# --- every sub-token tagged B-


TORN = "5.975,74"  # 5. 97 5,7 4


@pytest.mark.parametrize("strategy", ["none", "simple"])
def test_tags_are_taken_literally_below_the_word(strategy: str) -> None:
    label = "B-NUM" if strategy == "none" else "NUM"
    assert spans(decoded("unigram", TORN, ["B-NUM"] * 4, strategy)) == [(label, *span) for span in ((0, 2), (2, 4), (4, 7), (7, 8))]


@pytest.mark.parametrize("strategy", WORDWISE)
@pytest.mark.parametrize(("kind", "count"), [("unigram", 4), ("byte-level", 5), ("byte-level-untrimmed", 5)])
def test_a_word_strategy_never_tears_a_word(kind: str, count: int, strategy: str) -> None:
    assert spans(decoded(kind, TORN, ["B-NUM"] * count, strategy)) == [("NUM", 0, 8)]


@pytest.mark.parametrize("strategy", WORDWISE)
def test_two_torn_words_stay_two(strategy: str) -> None:
    assert spans(decoded("unigram", f"{TORN} {TORN}", ["B-NUM"] * 8, strategy)) == [("NUM", 0, 8), ("NUM", 9, 17)]


# --- white space and punctuation


@pytest.mark.parametrize("strategy", STRATEGIES[1:])
@pytest.mark.parametrize("kind", ["byte-level", "byte-level-untrimmed", "unigram"])
def test_a_leading_space_belongs_to_no_word(kind: str, strategy: str) -> None:
    text = "in Paris"
    count = {"unigram": 2}.get(kind, 5)
    entities = decoded(kind, text, ["O", "B-LOC", *["I-LOC"] * (count - 2)], strategy)
    assert spans(entities) == [("LOC", 3, 8)]
    sound(text, entities)
    # and both words are words of their own
    both = decoded(kind, text, ["B-PER", "B-LOC", *["I-LOC"] * (count - 2)], strategy)
    assert spans(both) == [("PER", 0, 2), ("LOC", 3, 8)]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("kind", ["byte-level", "byte-level-untrimmed", "unigram"])
def test_a_token_of_nothing_but_space_is_no_entity(kind: str, strategy: str) -> None:
    text = "in  paris "
    encoded = made(kind).encode(text)
    blank = [not text[a:b].strip() for a, b in encoded.offsets[1:-1]]
    assert any(blank)
    only = decoded(kind, text, ["B-LOC" if b else "O" for b in blank], strategy)
    assert all(e["word"] == "paris" for e in only)  # the blank before a word may speak for it
    sound(text, only)
    entities = decoded(kind, text, ["I-LOC"] * len(blank), strategy)
    sound(text, entities)
    if strategy != "none":
        assert spans(entities) == [("LOC", 0, 9)]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_blanks_of_several_tokens_are_no_entity_either(strategy: str) -> None:
    # the bytes of a no-break space, then a space
    assert decoded("byte-level", "in\u00a0 ", ["O", *["I-PER"] * 3], strategy) == []


SENTENCE = "Née le 12 mai 1980, à Lyon."
BIRTH = ["O", "O", "B-NUM", "I-NUM", "I-NUM", "O", "O", "B-LOC", "O"]


@pytest.mark.parametrize("strategy", STRATEGIES[1:])
def test_punctuation_joins_no_entity_and_drops_none(strategy: str) -> None:
    entities = decoded("unigram", SENTENCE, BIRTH, strategy)
    assert spans(entities) == [("NUM", 7, 18), ("LOC", 22, 26)]
    sound(SENTENCE, entities)


@pytest.mark.parametrize("strategy", WORDWISE)
def test_a_sure_full_stop_does_not_outvote_its_word(strategy: str) -> None:
    tags: list[str | Logits] = [*BIRTH[:-2], {"B-LOC": 3.0}, {"O": 20.0}]
    assert spans(decoded("unigram", SENTENCE, tags, strategy)) == [("NUM", 7, 18), ("LOC", 22, 26)]


@pytest.mark.parametrize("strategy", WORDWISE)
def test_punctuation_that_is_tagged_stays_with_the_entity(strategy: str) -> None:
    tags = [*BIRTH[:-1], "I-LOC"]
    assert spans(decoded("unigram", SENTENCE, tags, strategy)) == [("NUM", 7, 18), ("LOC", 22, 27)]


# --- spans in code points


@pytest.mark.parametrize("strategy", STRATEGIES[1:])
@pytest.mark.parametrize(
    ("text", "start"), [("👨‍👩‍👧 in Paris", 9), ("🦊 Paris", 2), ("cafe\u0301 in Paris", 9), ("café in Paris", 8), ("ヿ Paris", 2)]
)
@pytest.mark.parametrize("kind", ["wordpiece", "byte-level", "byte-level-untrimmed", "unigram"])
def test_spans_are_code_points_of_the_text_as_sent(kind: str, text: str, start: int, strategy: str) -> None:
    encoded = made(kind).encode(text)
    inside = [b > start for _, b in encoded.offsets[1:-1]]
    if kind.startswith("byte-level"):
        # the blank that stands alone before its word is the word's first token
        inside = [later or word == encoded.word_ids[-2] for later, word in zip(inside, encoded.word_ids[1:-1], strict=True)]
    entities = decoded(kind, text, ["I-LOC" if i else "O" for i in inside], strategy)
    assert spans(entities) == [("LOC", start, start + 5)]
    sound(text, entities)


@pytest.mark.parametrize("strategy", STRATEGIES[1:])
@pytest.mark.parametrize("prefix", ["B-", "I-"])
@pytest.mark.parametrize(("text", "count"), [("½ Paris", 4), ("ﬃ Paris", 4), ("ヿ Paris", 3)])
def test_pieces_of_one_character_are_one_entity(text: str, count: int, prefix: str, strategy: str) -> None:
    entities = decoded("unigram", text, [*[f"{prefix}NUM"] * count, "B-LOC"], strategy)
    assert spans(entities) == [("NUM", 0, 1), ("LOC", 2, 7)]
    sound(text, entities)


@pytest.mark.parametrize("strategy", ["simple", "first", "average", "max"])
def test_an_accent_apart_ends_with_its_word(strategy: str) -> None:
    text = "cafe\u0301 in paris"
    (entity,) = decoded("wordpiece", text, ["B-LOC", "O", "O"], strategy)
    assert (entity["start"], entity["end"]) in ((0, 4), (0, 5))


PIECES = ["in", "paris", " ", "  ", "\n", "½", "…", "🦊", "é", "e\u0301", "5,7", "(", ")", ".", "'", "コ", "\u00a0", "12"]


@settings(max_examples=300, deadline=None)
@given(
    kind=st.sampled_from(["wordpiece", "byte-level", "byte-level-untrimmed", "unigram"]),
    text=st.lists(st.sampled_from(PIECES), min_size=1, max_size=12).map("".join),
    strategy=st.sampled_from(STRATEGIES),
    data=st.data(),
)
def test_whatever_the_tags_entities_are_sound(kind: str, text: str, strategy: str, data: st.DataObject) -> None:
    count = made(kind).encode(text).special_tokens_mask.count(0)
    tags = data.draw(st.lists(st.sampled_from(LABELS), min_size=count, max_size=count))
    entities = decoded(kind, text, tags, strategy)
    sound(text, entities)
    assert [e["start"] for e in entities] == sorted(e["start"] for e in entities)
    if strategy in WORDWISE:
        for e in entities:
            # an entity may end inside a blank-free run only where punctuation stands, or where WordPiece's own words end
            before, after = text[: e["start"]][-1:], text[e["end"] :][:1]
            assert kind == "wordpiece" or not (before.isalnum() and e["word"][0].isalnum())
            assert kind == "wordpiece" or not (after.isalnum() and e["word"][-1].isalnum())


# --- ignored labels, shapes


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
@pytest.mark.parametrize("stride", [1, 2, 5, 13])
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
        ({"stride": -1}, "parameters.stride: is -1; it must be from 0 to 61: a window of this model holds 62 tokens."),
        ({"stride": 62}, "parameters.stride: is 62; it must be from 0 to 61: a window of this model holds 62 tokens."),
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


def test_parity_without_any_entity_is_whole() -> None:
    outside = [rows(["O", "O"], LABELS)]
    assert TASK.parity(outside, outside, manifest()) == {"label_agreement": 1.0, "entity_f1": 1.0, "score_mean": 1.0}

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.tagging import LABELS, STRATEGIES, SURE, WORDWISE, Logits, decoded, p, sound, spans
from support.tokenizers_made import made

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

"""Two texts in one encoding: as the library makes it, with one text cut, or the longer, or the second read in windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hotfoot.contract.errors import ArtifactError, InputError, TooLargeError
from hotfoot.contract.manifest import Side
from hotfoot.task import Encoded, Fit
from hotfoot.tokenizer import Tokenizer
from support.tokenizers_made import CORPUS, MAKERS, made

FIRSTS = ("who plays in paris", "5.975,74 ½ or 1980", "国語", "in", "cafe\u0301 in  Paris", "[SEP] <s>", CORPUS[0])
SECONDS = (
    "The man plays the guitar on stage, and the crowd sings.",
    "👨\u200d👩\u200d👧 in Paris 🦊🦊 and Springfield",
    "全学年にわたって小学校の国語の教科書",
    "in  paris\n\tand \u00a0 the   river ",
    " ".join(CORPUS),
    "[CLS] <s> </s> [SEP] [MASK]",
    "1980",
)
SIDES: tuple[Side, ...] = ("left", "right")
KINDS = [kind for kind in MAKERS if kind != "only-tail"]  # it has no form for pairs of its own


def pairs(kind: str, limit: int, fit: Fit, firsts: Any = FIRSTS, seconds: Any = SECONDS, **more: Any) -> tuple[Encoded, ...]:
    paths = [(f"inputs[{i}].a", f"inputs[{i}].b") for i in range(len(firsts))]
    return Tokenizer(made(kind), limit).encode_pairs(firsts, seconds, fit, paths, **more)


def same(mine: Encoded, theirs: Any) -> None:
    assert mine.ids.tolist() == theirs.ids
    assert mine.type_ids.tolist() == theirs.type_ids
    assert mine.ids.dtype == mine.type_ids.dtype == np.int32
    assert list(mine.offsets) == theirs.offsets
    assert list(mine.special) == [flag == 1 for flag in theirs.special_tokens_mask]
    assert list(mine.words) == theirs.word_ids
    assert mine.second is not None
    assert list(range(*mine.second)) == [i for i, text in enumerate(theirs.sequence_ids) if text == 1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_pair_is_encoded_as_the_library_does(kind: str) -> None:
    for item, (mine, a, b) in enumerate(zip(pairs(kind, 512, Fit()), FIRSTS, SECONDS, strict=True)):
        same(mine, made(kind).encode(a, b))
        assert mine.item == item


@pytest.mark.parametrize("limit", [32, 41, 64])
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("kind", KINDS)
def test_only_the_second_text_is_cut_as_the_library_does(kind: str, side: Side, limit: int) -> None:
    theirs = made(kind)
    theirs.enable_truncation(limit, strategy="only_second", direction=side)
    firsts = FIRSTS[:-1]  # the last leaves no room
    for mine, a, b in zip(pairs(kind, limit, Fit(truncate=side), firsts, SECONDS[:-1]), firsts, SECONDS[:-1], strict=True):
        same(mine, theirs.encode(a, b))
        whole = made(kind).encode(a, b)
        assert len(mine.ids) == min(limit, len(whole.ids))
        assert mine.ids[-1] == whole.ids[-1] or side == "right"


@pytest.mark.parametrize("limit", [32, 41, 64])
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("kind", KINDS)
def test_only_the_first_text_is_cut_as_the_library_does(kind: str, side: Side, limit: int) -> None:
    theirs = made(kind)
    theirs.enable_truncation(limit, strategy="only_first", direction=side)
    firsts = SECONDS[:-1]
    # every text with every hypothesis, as a request for labels has them
    whole = [(a, b) for a in firsts for b in FIRSTS[:-1]]
    found = pairs(kind, limit, Fit(truncate=side, cuts="first"), [a for a, _ in whole], [b for _, b in whole])
    for mine, (a, b) in zip(found, whole, strict=True):
        same(mine, theirs.encode(a, b))
    assert max(len(mine.ids) for mine in found) == limit


@pytest.mark.parametrize("limit", [8, 9, 32, 41, 64])
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_longer_text_is_cut_as_the_library_does(kind: str, side: Side, limit: int) -> None:
    theirs = made(kind)
    theirs.enable_truncation(limit, strategy="longest_first", direction=side)
    whole = [(a, b) for one in FIRSTS for two in SECONDS for a, b in ((one, two), (two, one), (one, one))]
    found = pairs(kind, limit, Fit(truncate=side, cuts="longest"), [a for a, _ in whole], [b for _, b in whole])
    for mine, (a, b) in zip(found, whole, strict=True):
        same(mine, theirs.encode(a, b))


@settings(deadline=None, max_examples=60)
@example(limit=6, one=60, two=40, side="right")  # the odd token is the longer text's, however long both are
@given(limit=st.integers(5, 60), one=st.integers(1, 70), two=st.integers(1, 70), side=st.sampled_from(SIDES))
def test_the_longer_text_is_cut_first_whatever_the_lengths(limit: int, one: int, two: int, side: Side) -> None:
    theirs = made("wordpiece")
    theirs.enable_truncation(limit, strategy="longest_first", direction=side)
    (mine,) = pairs("wordpiece", limit, Fit(truncate=side, cuts="longest"), ["in " * one], ["paris " * two])
    same(mine, theirs.encode("in " * one, "paris " * two))


@pytest.mark.parametrize("stride", [0, 3, 11])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "bare"])  # of its windows the library forgets the texts
def test_windows_are_the_library_s(kind: str, stride: int) -> None:
    theirs = made(kind)
    theirs.enable_truncation(40, stride=stride, strategy="only_second")
    firsts = FIRSTS[:-1]
    found = pairs(kind, 40, Fit(stride=stride), firsts, SECONDS[:-1])
    for item, (a, b) in enumerate(zip(firsts, SECONDS[:-1], strict=True)):
        whole = theirs.encode(a, b)
        windows = [e for e in found if e.item == item]
        assert len(windows) == 1 + len(whole.overflowing)
        for mine, reference in zip(windows, [whole, *whole.overflowing], strict=True):
            same(mine, reference)


@settings(deadline=None, max_examples=60)
@given(limit=st.integers(8, 60), stride=st.integers(0, 60), words=st.integers(1, 200), asked=st.integers(1, 30), yields=st.booleans())
def test_windows_leave_nothing_out(limit: int, stride: int, words: int, asked: int, yields: bool) -> None:
    tokenizer = Tokenizer(made("wordpiece"), limit)
    first, second = "the " * asked, " ".join(["in", "paris"] * words)
    fit = Fit(stride=stride, yields=yields)
    room = limit - 3 - asked
    if room < 1 or (stride >= room and not yields):
        with pytest.raises(InputError) as caught:
            tokenizer.encode_pairs([first], [second], fit, [("question", "context")])
        assert caught.value.where == "question"
        return
    windows = tokenizer.encode_pairs([first], [second], fit, [("question", "context")])
    read = {e.offsets[i] for e in windows for i in range(*e.second)}  # type: ignore[misc]
    assert read == {(m, m + len(w)) for m, w in places(second)}
    assert max(len(e.ids) for e in windows) <= limit
    assert all(e.ids[: asked + 2].tolist() == windows[0].ids[: asked + 2].tolist() for e in windows)


def places(text: str) -> list[tuple[int, str]]:
    found, at = [], 0
    for word in text.split(" "):
        found.append((at, word))
        at += len(word) + 1
    return found


def test_a_window_may_be_smaller_than_the_model_s_limit_and_a_question_cut() -> None:
    long = "in paris " * 40
    windows = pairs("wordpiece", 512, Fit(stride=4, window=20), ["who plays"], [long])
    assert {len(e.ids) for e in windows[:-1]} == {20}
    (cut,) = pairs("wordpiece", 512, Fit(first=2), ["the man plays the guitar"], ["in paris"])
    same(cut, made("wordpiece").encode("the man", "in paris"))
    (whole,) = pairs("wordpiece", 512, Fit(first=9), ["the man"], ["in paris"])
    same(whole, made("wordpiece").encode("the man", "in paris"))


def test_what_is_too_long_is_named() -> None:
    with pytest.raises(InputError) as caught:
        pairs("wordpiece", 8, Fit(), ["in", "in"], ["paris", "in " * 7])
    assert str(caught.value) == (
        "inputs[1].b: the pair has 11 tokens, the limit is 8, special tokens included. Shorten it, or ask for truncation."
    )
    for fit in (Fit(), Fit(truncate="right"), Fit(stride=1)):
        with pytest.raises(InputError) as caught:
            pairs("wordpiece", 8, fit, ["in", "in paris in paris in"], ["paris", "paris"])
        assert str(caught.value) == (
            "inputs[1].a: has 5 tokens; beside the 3 special ones they leave no room for the other text, as a pair has 8 tokens at"
            " most. Shorten it."
        )
    with pytest.raises(InputError, match=r"inputs\[0\]\.a: leaves 4 tokens of a window .* overlap by 4 would read nothing new"):
        pairs("wordpiece", 8, Fit(stride=4), ["in"], ["in " * 9])
    assert len(pairs("wordpiece", 8, Fit(stride=4, yields=True), ["in"], ["in " * 9])) == 4
    with pytest.raises(TooLargeError, match=r"24 tokens up to inputs\[2\]\.b, the limit is 20"):
        pairs("wordpiece", 8, Fit(truncate="right"), ["in"] * 4, ["in " * 90] * 4, most=20)


def test_the_text_that_would_be_cut_is_named() -> None:
    said = "the pair has 11 tokens, the limit is 8, special tokens included. Shorten it, or ask for truncation."
    for fit, first, second, where in (
        (Fit(cuts="first"), "in " * 6, "in paris", "inputs[1].a"),
        (Fit(cuts="first"), "in " * 4, "in paris in paris", "inputs[1].a"),
        (Fit(cuts="longest"), "in " * 6, "in paris", "inputs[1].a"),
        (Fit(cuts="longest"), "in paris", "in " * 6, "inputs[1].b"),
    ):
        with pytest.raises(InputError) as caught:
            pairs("wordpiece", 8, fit, ["in", first], ["paris", second])
        assert str(caught.value) == f"{where}: {said}"
    for side in (None, *SIDES):
        with pytest.raises(InputError, match=r"^inputs\[1\]\.b: has 5 tokens; beside the 3 special ones they leave no room"):
            pairs("wordpiece", 8, Fit(truncate=side, cuts="first"), ["in", "in"], ["paris", "in " * 5])
    with pytest.raises(TooLargeError, match=r"24 tokens up to inputs\[2\]\.a, the limit is 20"):
        pairs("wordpiece", 8, Fit(truncate="right", cuts="first"), ["in " * 90] * 4, ["in"] * 4, most=20)


@pytest.mark.parametrize("cuts", ["first", "second", "longest"])
@pytest.mark.parametrize("at", [0, 1])
def test_a_text_without_tokens_is_named(at: int, cuts: Any) -> None:
    texts = [["in", "paris"], ["in", "paris"]]
    texts[at][1] = "  "
    with pytest.raises(InputError, match=rf"inputs\[1\]\.{'ab'[at]}: the text has no tokens"):
        pairs("wordpiece", 16, Fit(cuts=cuts), *texts)


class Watched:
    """A tokenizer of the library that remembers every text that it got."""

    def __init__(self, rust: Any) -> None:
        self._rust = rust
        self.texts: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rust, name)

    def encode_batch(self, texts: list[str], **options: bool) -> Any:
        self.texts += texts
        return self._rust.encode_batch(texts, **options)


def test_a_query_is_read_once_and_no_more_of_a_document_than_is_kept() -> None:
    rust: Any = Watched(made("wordpiece"))
    documents = ["in paris " * 5000, "the man", "in " * 9000]
    paths = [("query", f"documents[{i}]") for i in range(3)]
    encoded = Tokenizer(rust, 32).encode_pairs(["the man plays"] * 3, documents, Fit(truncate="right"), paths)
    assert rust.texts.count("the man plays") == 1
    assert sum(map(len, rust.texts)) < 3000
    for mine, document in zip(encoded, documents, strict=True):
        theirs = made("wordpiece")
        theirs.enable_truncation(32, strategy="only_second")
        same(mine, theirs.encode("the man plays", document))


def test_a_text_and_every_hypothesis_are_read_once() -> None:
    rust: Any = Watched(made("wordpiece"))
    texts, hypotheses = ["in paris " * 5000, "the man"], ["the man plays", "in the river", "the man"]
    whole = [(a, b) for a in texts for b in hypotheses]
    paths = [(f"inputs[{i}]", f"labels[{i}]") for i in range(len(whole))]
    encoded = Tokenizer(rust, 32).encode_pairs([a for a, _ in whole], [b for _, b in whole], Fit(truncate="right", cuts="first"), paths)
    assert len(rust.texts) == 5
    assert sum(map(len, rust.texts)) < 1000
    theirs = made("wordpiece")
    theirs.enable_truncation(32, strategy="only_first")
    for mine, (a, b) in zip(encoded, whole, strict=True):
        same(mine, theirs.encode(a, b))


class Blind(Watched):
    """A tokenizer of the library that does not say which text a token is of."""

    def encode(self, *_texts: str) -> Any:
        return self._rust.encode("in")


def test_a_tokenizer_that_makes_no_pairs_is_refused() -> None:
    rust: Any = Blind(made("bare"))
    with pytest.raises(ArtifactError, match="the tokenizer makes no pairs of texts"):
        Tokenizer(rust, 32).encode_pairs(["in"], ["in"], Fit(), [("a", "b")])

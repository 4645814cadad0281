"""What one text may cost: how much of it the library gets, and what is made of that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, normalizers, pre_tokenizers

from hotfoot.contract.errors import InputError, TooLargeError
from hotfoot.contract.manifest import Side
from hotfoot.cutting import LONGEST, head_of, splits_at_spaces
from hotfoot.reading import PART
from hotfoot.task import Encoded, Marks
from hotfoot.tokenizer import CHARACTERS, HEAD, Tokenizer
from support.tokenizers_made import MAKERS, made

LIMIT = 8
WORDS = (
    "in",
    "paris",
    "the",
    "½",
    "🦊",
    "guitar,",
    "cafe\u0301",
    "\u0301x",
    "[MASK]",
    "<s>",
    "  ",
    "\t",
    "全学年",
    "5.975,74",
    "don't",
    "'s",
)


class Watched:
    """A tokenizer of the library that remembers how many characters it got, call by call."""

    def __init__(self, rust: Any) -> None:
        self._rust = rust
        self.calls: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rust, name)

    def encode_batch(self, texts: list[str], **options: bool) -> Any:
        self.calls.append(sum(map(len, texts)))
        return self._rust.encode_batch(texts, **options)

    def encode(self, text: str, **options: bool) -> Any:
        self.calls.append(len(text))
        return self._rust.encode(text, **options)


class Whole(Watched):
    """Without what tells that texts may be cut."""

    normalizer = normalizers.Replace(Regex("x"), "y")


def watched(kind: str = "wordpiece", limit: int = LIMIT) -> tuple[Tokenizer, list[int]]:
    rust: Any = Watched(made(kind))
    return Tokenizer(rust, limit), rust.calls


def same(a: Encoded, b: Encoded) -> None:
    assert (a.ids.tolist(), a.type_ids.tolist(), a.item) == (b.ids.tolist(), b.type_ids.tolist(), b.item)
    assert a.marks() == b.marks()


# --- the head of a text that is to be cut


@settings(max_examples=250, deadline=None)
@given(kind=st.sampled_from(sorted(MAKERS)), words=st.lists(st.sampled_from(WORDS), max_size=200), limit=st.integers(4, 12))
def test_a_cut_text_is_that_of_the_whole(kind: str, words: list[str], limit: int) -> None:
    text = " ".join(["in", *words])
    uncut: Any = Whole(made(kind))
    quick, whole = Tokenizer(made(kind), limit), Tokenizer(uncut, limit)
    assert quick._cuts
    assert not whole._cuts
    for mine, theirs in zip(quick.encode([text], truncate="right"), whole.encode([text], truncate="right"), strict=True):
        same(mine, theirs)


@pytest.mark.parametrize("kind", MAKERS)
def test_the_library_gets_no_more_of_a_cut_text_than_it_takes(kind: str) -> None:
    tokenizer, calls = watched(kind)
    text = "in paris " * 100_000
    (cut,) = tokenizer.encode([text], truncate="right")
    assert calls[0] <= HEAD * LIMIT
    assert len(calls) == 1
    same(cut, Tokenizer(made(kind), LIMIT).encode([text[:900]], truncate="right")[0])


def test_a_head_that_gives_too_few_tokens_grows() -> None:
    # a word of 200 letters is one unknown token
    tokenizer, calls = watched()
    (cut,) = tokenizer.encode([("x" * 200 + " ") * 10 + "in paris " * 100], truncate="right")
    assert cut.ids.tolist().count(made("wordpiece").token_to_id("[UNK]")) == LIMIT - 2
    assert calls == [5 * 201 - 1, 10 * 201 + 900]
    tokenizer, calls = watched()
    with pytest.raises(InputError, match=r"inputs\[0\]: the text has 3000000 characters, more than the 1048576 that are read here\. Send"):
        tokenizer.encode([("x" * 299_999 + " ") * 10], truncate="right")
    assert sum(calls) <= 3 * LONGEST


def test_where_a_text_may_be_cut() -> None:
    assert head_of("in paris the man", 16, "x") == "in paris the man"
    assert head_of("in paris the man", 15, "x") == "in paris the"
    assert head_of("in paris, the man", 11, "x") == "in"
    assert head_of("in  paris é man", 14, "x") == "in  paris é man"
    # none within reach: further on, else the whole
    assert head_of("全" * 20 + " a b", 10, "x") == "全" * 20 + " a"
    assert head_of("全" * 20, 10, "x") == "全" * 20


def test_what_may_look_further_is_read_whole() -> None:
    for change in (
        lambda t: t.add_tokens(["in paris"]),
        lambda t: setattr(t, "normalizer", normalizers.Replace(" ", "")),
        lambda t: setattr(t, "pre_tokenizer", pre_tokenizers.Metaspace(split=False)),
        lambda t: setattr(t, "pre_tokenizer", pre_tokenizers.ByteLevel(use_regex=False)),
        lambda t: setattr(t, "pre_tokenizer", pre_tokenizers.Sequence([pre_tokenizers.Digits(), pre_tokenizers.WhitespaceSplit()])),
    ):
        rust = made("wordpiece")
        assert splits_at_spaces(rust)
        change(rust)
        assert not splits_at_spaces(rust)
    rust = made("wordpiece")
    rust.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    rust.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    assert splits_at_spaces(rust)


# --- texts that are longer than anything real


def test_a_text_that_cannot_be_short_enough_is_refused_uncounted() -> None:
    tokenizer, calls = watched()
    most = CHARACTERS * LIMIT
    with pytest.raises(InputError) as caught:
        tokenizer.encode(["in", "a " * most], truncate=None)
    assert str(caught.value) == (
        f"inputs[1]: the text has {2 * most} characters, more than the {most} that are read here. Shorten it, or ask for truncation."
    )
    assert calls == []
    # blanks are no tokens, so a long text may be short enough
    assert len(tokenizer.encode(["in" + " " * (most - 2)], truncate=None)[0].ids) == 3


@pytest.mark.parametrize(("side", "stride"), [("left", None), (None, 2)])
def test_no_text_is_read_past_a_megabyte(side: Side | None, stride: int | None) -> None:
    tokenizer, calls = watched()
    with pytest.raises(InputError, match=f"more than the {LONGEST} that are read here. Send it in parts."):
        tokenizer.encode(["x" * (LONGEST + 1)], truncate=side, stride=stride)
    with pytest.raises(InputError, match="Send it in parts"):
        tokenizer.tokenize(["x" * (LONGEST + 1)])
    assert calls == []
    assert tokenizer.encode(["x" * LONGEST], truncate=side, stride=stride)[0].ids.tolist()[1:-1] == [1]


def test_many_texts_go_to_the_library_in_parts() -> None:
    tokenizer, calls = watched(limit=2048)
    text = "in paris " * 1000
    found = tokenizer.encode([text] * 100, truncate="left")
    assert len(found) == 100
    assert [e.item for e in found] == list(range(100))
    assert max(calls) <= PART
    assert sum(calls) == 100 * len(text)


# --- tokens in all


@pytest.mark.parametrize(
    ("texts", "stride", "said"),
    [
        (["in"] * 11, None, "the request has 33 tokens up to inputs[10], the limit is 32"),
        (["in", "in " * 60], 3, "the request has 155 tokens up to inputs[1], the limit is 32"),
    ],
)
def test_more_tokens_than_a_call_may_have(texts: Sequence[str], stride: int | None, said: str) -> None:
    with pytest.raises(TooLargeError) as caught:
        Tokenizer(made("wordpiece"), LIMIT).encode(texts, truncate=None, stride=stride, most=32)
    assert str(caught.value).startswith(said)
    tokens = sum(len(e.ids) for e in Tokenizer(made("wordpiece"), LIMIT).encode(texts, truncate=None, stride=stride))
    assert f"has {tokens} tokens" in said
    assert Tokenizer(made("wordpiece"), LIMIT).encode(texts, truncate=None, stride=stride, most=tokens)


def test_a_cut_text_counts_as_it_runs() -> None:
    assert len(Tokenizer(made("wordpiece"), LIMIT).encode(["in " * 90] * 4, truncate="right", most=32)) == 4


def test_tokenize_has_the_same_bound() -> None:
    tokenizer = Tokenizer(made("wordpiece"), LIMIT)
    assert len(tokenizer.tokenize(["in " * 30], most=32)[0].ids) == 32
    with pytest.raises(TooLargeError, match=r"the request has 33 tokens up to here, the limit is 32"):
        tokenizer.tokenize(["in " * 31], paths=["here"], most=32)


# --- what is made of them


class Counted(Watched):
    """A library's tokenizer whose encodings count who asks for their offsets."""

    asked = 0

    def encode_batch(self, texts: list[str], **options: bool) -> Any:
        return [CountedEncoding(self, e) for e in super().encode_batch(texts, **options)]


class CountedEncoding:
    def __init__(self, counter: Counted, encoding: Any) -> None:
        self._counter, self._encoding = counter, encoding

    def __len__(self) -> int:
        return len(self._encoding)

    def __getattr__(self, name: str) -> Any:
        self._counter.asked += name == "offsets"
        return getattr(self._encoding, name)


def test_places_are_made_when_asked_for_and_once() -> None:
    rust: Any = Counted(made("wordpiece"))
    tokenizer = Tokenizer(rust, LIMIT)
    tokenizer.encode(["paris " * 60], truncate=None, stride=3)
    assert rust.asked == 1  # the first long text shows where special tokens stand, once and for all
    rust.asked = 0
    (short,) = tokenizer.encode(["in paris"], truncate=None)
    windows = tokenizer.encode(["in " * 60], truncate=None, stride=3)
    assert rust.asked == 0
    assert short.offsets == ((0, 0), (0, 2), (3, 8), (0, 0))
    assert short.words == (None, 0, 1, None)
    assert short.special == (True, False, False, True)
    assert rust.asked == 1
    assert windows[0].offsets[1:3] == ((0, 2), (3, 5))
    assert windows[-1].offsets[-2] == (177, 179)
    assert rust.asked == 2


def test_a_slice_keeps_the_frame() -> None:
    (whole,) = Tokenizer(made("wordpiece"), 64).encode(["in the paris cafe"], truncate=None)
    part = whole.slice(1, 2, 4, 1)
    assert part.ids.tolist() == [whole.ids[i] for i in (0, 2, 3, 5)]
    assert part.marks() == Marks(((0, 0), (3, 6), (7, 12), (0, 0)), (True, False, False, True), (None, 1, 2, None))
    assert whole.slice(0, 1, 3, 0).offsets == ((0, 2), (3, 6))
    assert part.marks() is part.marks()

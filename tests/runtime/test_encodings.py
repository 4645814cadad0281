"""A tokenizer that remembers says what one says that doesn't, and takes no more than it may."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotfoot import tokenizer as tokenizers
from hotfoot.contract import manifest as manifests
from hotfoot.contract.errors import InputError
from hotfoot.contract.manifest import Side
from hotfoot.encodings import Encodings, Kept, Places, key_of
from hotfoot.reading import Reader
from hotfoot.task import Cut, Encoded, Fit, Marks
from hotfoot.tokenizer import Tokenizer, open_tokenizer
from support.rigged import rigged_artifact
from support.tokenizers_made import MAKERS, made

BYTES = 2**22
WORDS = ("in", "paris", "the", "½", "🦊", "guitar,", "x" * 300, "  ", "[CLS]", "cafe\u0301", "全学年")
PAIRED = ("wordpiece", "byte-level")  # the others' post-processors have no form for pairs
SIDES: tuple[Side | None, ...] = (None, "left", "right")
Cuts = Cut | Literal["longest"]
CUTS: tuple[Cuts, ...] = (*get_args(Cut), "longest")


class Counting:
    """A library's tokenizer that notes which texts it was given."""

    def __init__(self, rust: Any) -> None:
        self._rust = rust
        self.read: list[str] = []

    def encode_batch(self, texts: list[str], **options: bool) -> Any:
        self.read += texts
        return self._rust.encode_batch(texts, **options)

    def encode(self, text: str, *more: str, **options: bool) -> Any:
        self.read.append(text)
        return self._rust.encode(text, *more, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rust, name)


def remembering(kind: str, limit: int = 16, most: int = BYTES) -> Tokenizer:
    return Tokenizer(Reader(made(kind), Encodings(most)), limit)


def counting(kind: str = "wordpiece", limit: int = 16) -> tuple[Tokenizer, Counting]:
    rust: Any = Counting(made(kind))
    return Tokenizer(Reader(rust, Encodings(BYTES)), limit), rust


@cache
def plain(kind: str, limit: int) -> Tokenizer:
    return Tokenizer(made(kind), limit)


@cache
def kept(kind: str, limit: int) -> Tokenizer:
    """One for all examples of a test, so that they meet what others have left."""
    return remembering(kind, limit)


def shown(found: Sequence[Encoded]) -> list[tuple[Any, ...]]:
    return [
        (e.ids.tolist(), e.type_ids.tolist(), e.ids.dtype, e.type_ids.dtype, e.item, e.offsets, e.special, e.words, e.second) for e in found
    ]


def outcome(call: Any) -> Any:
    try:
        return shown(call())
    except InputError as error:
        return str(error)


TEXTS = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=40).map(" ".join), min_size=1, max_size=5)


@settings(max_examples=150, deadline=None)
@given(
    kind=st.sampled_from(sorted(MAKERS)),
    limit=st.sampled_from([6, 16, 64]),
    texts=TEXTS,
    side=st.sampled_from(SIDES),
    stride=st.sampled_from([None, 0, 2]),
)
def test_texts_and_their_cuts_and_windows_are_the_same(
    kind: str, limit: int, texts: list[str], side: Side | None, stride: int | None
) -> None:
    wanted = outcome(lambda: plain(kind, limit).encode(texts, truncate=side, stride=stride))
    for _ in range(2):
        assert outcome(lambda: kept(kind, limit).encode(texts, truncate=side, stride=stride)) == wanted
    assert outcome(lambda: kept(kind, limit).tokenize(texts)) == outcome(lambda: plain(kind, limit).tokenize(texts))


@settings(max_examples=150, deadline=None)
@given(
    kind=st.sampled_from(PAIRED),
    limit=st.sampled_from([8, 16, 64]),
    firsts=TEXTS,
    seconds=TEXTS,
    side=st.sampled_from(SIDES),
    cuts=st.sampled_from(CUTS),
    stride=st.sampled_from([None, 2]),
    first=st.sampled_from([None, 3]),
)
def test_pairs_are_the_same(  # noqa: PLR0917
    kind: str, limit: int, firsts: list[str], seconds: list[str], side: Side | None, cuts: Cuts, stride: int | None, first: int | None
) -> None:
    count = min(len(firsts), len(seconds))
    paths = [(f"a[{i}]", f"b[{i}]") for i in range(count)]
    fit = Fit(truncate=side, cuts=cuts) if cuts != "second" else Fit(truncate=side, stride=stride, yields=True, first=first)
    wanted = outcome(lambda: plain(kind, limit).encode_pairs(firsts[:count], seconds[:count], fit, paths))
    for _ in range(2):
        assert outcome(lambda: kept(kind, limit).encode_pairs(firsts[:count], seconds[:count], fit, paths)) == wanted


def test_only_what_is_new_is_read() -> None:
    tokenizer, rust = counting()
    tokenizer.encode(["in paris", "the man"], truncate=None)
    found = tokenizer.encode(["the man", "guitar", "in paris", "guitar"], truncate="right")
    assert rust.read == ["in paris", "the man", "guitar"]
    assert [e.item for e in found] == [0, 1, 2, 3]
    assert found[1].ids.tolist() == found[3].ids.tolist()
    assert tokenizer.encodings is not None
    assert (tokenizer.encodings.stats.hits, tokenizer.encodings.stats.misses, tokenizer.encodings.stats.entries) == (2, 3, 3)


def test_a_cut_text_is_remembered_by_the_part_that_is_read() -> None:
    tokenizer, rust = counting(limit=8)
    long = "in paris the man " * 200
    for _ in range(2):
        tokenizer.encode([long], truncate="right")
        tokenizer.encode([long + "and on it goes"], truncate="right")  # its beginning is the same
    assert len(rust.read) == 1
    assert len(rust.read[0]) < len(long)
    tokenizer.encode([long], truncate="left")
    assert rust.read[1:] == [long]


def test_both_sides_of_pairs_are_remembered_apart_from_single_texts() -> None:
    tokenizer, rust = counting()
    paths = [("a", "b"), ("c", "d")]
    tokenizer.encode_pairs(["the man", "the man"], ["in paris", "guitar"], Fit(), paths)
    tokenizer.encode(["the man"], truncate=None)
    seen = len(rust.read)
    tokenizer.encode_pairs(["guitar", "in paris"], ["the man", "the man"], Fit(), paths)
    assert len(rust.read) == seen
    assert tokenizer.encode(["the man"], truncate=None)[0].special == (True, False, False, True)


def test_places_are_read_once_more_when_they_are_first_asked_for_and_then_remembered() -> None:
    tokenizer, rust = counting()
    tokenizer.encode(["in paris"], truncate=None)
    (again,) = tokenizer.encode(["in paris"], truncate=None)
    assert rust.read == ["in paris"]
    assert again.offsets == ((0, 0), (0, 2), (3, 8), (0, 0))
    assert again.words == (None, 0, 1, None)
    assert rust.read == ["in paris"] * 2
    (third,) = tokenizer.encode(["in paris"], truncate=None)
    assert third.marks() == again.marks()
    assert rust.read == ["in paris"] * 2


def test_places_that_are_made_at_once_are_remembered_too() -> None:
    tokenizer, rust = counting()
    (first,) = tokenizer.encode(["in paris"], truncate=None)
    marks = first.marks()
    (again,) = tokenizer.encode(["in paris"], truncate=None)
    assert again.marks() == marks
    assert rust.read == ["in paris"]


@given(
    st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 2**20)), max_size=30),
    st.lists(st.booleans(), max_size=30),
    st.lists(st.none() | st.integers(0, 2**20), max_size=30),
)
def test_places_are_the_marks_they_were(offsets: list[tuple[int, int]], special: list[bool], words: list[int | None]) -> None:
    marks = Marks(tuple(offsets), tuple(special), tuple(words))
    assert Places.of(marks).marks == marks


def test_nobody_can_change_what_is_remembered() -> None:
    tokenizer = remembering("wordpiece")
    (first,) = tokenizer.encode(["in paris"], truncate=None)
    wanted = first.ids.tolist()
    first.ids[0] = 99
    (again,) = tokenizer.encode(["in paris"], truncate=None)
    assert again.ids.tolist() == wanted
    with pytest.raises(ValueError, match="read-only"):
        again.ids[0] = 99


def test_names_tell_texts_and_their_use_apart() -> None:
    texts = ["", "a", "A", "a ", "\ud800", "e\u0301", "é", "ab", "b"]
    assert len({key_of(t, special=s) for t in texts for s in (True, False)}) == 2 * len(texts)


def test_the_memory_is_as_large_as_it_says() -> None:
    tokenizer = remembering("wordpiece", 512, 2**21)
    assert tokenizer.encodings is not None
    tokenizer.encode(["warm up"], truncate=None)[0].marks()
    texts = [f"in paris {number} " + "the man plays " * (number % 40) for number in range(6000)]
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for start in range(0, len(texts), 50):
        for number, e in enumerate(tokenizer.encode(texts[start : start + 50], truncate=None)):
            if number % 2:
                e.marks()
    del e
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    stats = tokenizer.encodings.stats
    assert 0.9 * 2**21 < stats.bytes <= 2**21
    assert 0.5 * stats.bytes < taken <= stats.bytes


def test_what_is_large_is_not_remembered() -> None:
    tokenizer = remembering("wordpiece", 512, 2**14)
    assert tokenizer.encodings is not None
    (found,) = tokenizer.encode(["in " * 600], truncate="left")
    assert len(found.ids) == 512
    assert tokenizer.encodings.stats.entries == 0


def test_sixteen_threads_get_what_one_gets() -> None:
    tokenizer, alone = remembering("wordpiece", 16, 2**16), plain("wordpiece", 16)
    texts = [f"in paris {number} " + "the man " * (number % 30) for number in range(60)]
    wanted = [shown(alone.encode([text], truncate="right")) for text in texts]

    def again(number: int) -> bool:
        place = (number * 7) % 60
        return shown(tokenizer.encode([texts[place]], truncate="right")) == wanted[place]

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(again, range(1500)))
    assert tokenizer.encodings is not None
    assert tokenizer.encodings.stats.bytes <= 2**16
    assert tokenizer.encodings.stats.hits > 0


def test_a_forgetful_one_reads_anew_and_keeps_nothing() -> None:
    tokenizer, rust = counting()
    tokenizer.encode(["in paris"], truncate=None)
    fresh = tokenizer.forgetful()
    assert shown(fresh.encode(["in paris"], truncate=None)) == shown(tokenizer.encode(["in paris"], truncate=None))
    fresh.encode(["guitar"], truncate=None)
    assert rust.read.count("guitar") == 1
    tokenizer.encode(["guitar"], truncate=None)
    assert rust.read.count("guitar") == 2
    assert plain("wordpiece", 16).forgetful() is plain("wordpiece", 16)


# --- one memory a tokenizer


def opened_twice(tmp_path: Path, most: tuple[int, int], limits: tuple[int, int] = (64, 8)) -> tuple[Tokenizer, Tokenizer]:
    folder = rigged_artifact(tmp_path, "text-classification")
    manifest = manifests.read(folder)
    one, two = (
        open_tokenizer(folder, replace(manifest, max_tokens=limit), tmp_path / "none", bound)
        for limit, bound in zip(limits, most, strict=True)
    )
    return one, two


def test_artifacts_with_one_tokenizer_share_what_is_remembered_but_not_their_limits(tmp_path: Path) -> None:
    one, two = opened_twice(tmp_path, (BYTES, BYTES))
    assert one.encodings is not None
    assert one.encodings is two.encodings
    text = "good bad " * 20
    assert len(one.encode([text], truncate="right")[0].ids) == 42
    assert len(two.encode([text], truncate="right")[0].ids) == 8
    assert one.encodings.stats.entries == 2  # the second reads no more than its head
    for tokenizer in (one, two):
        assert shown(tokenizer.encode([text], truncate="left")) == shown(tokenizer.forgetful().encode([text], truncate="left"))
    assert one.encodings.stats.entries == 2
    with pytest.raises(InputError, match="the text has 42 tokens, the limit is 8"):
        two.encode([text], truncate=None)


def test_another_bound_is_another_memory_and_none_is_none(tmp_path: Path) -> None:
    one, two = opened_twice(tmp_path, (BYTES, 2 * BYTES))
    assert one.encodings is not two.encodings
    bare, _ = opened_twice(tmp_path / "again", (0, BYTES))
    assert bare.encodings is None


def test_a_memory_goes_with_the_last_artifact_that_has_it(tmp_path: Path) -> None:
    before = len(tokenizers._readers)
    one, two = opened_twice(tmp_path, (BYTES + 1, BYTES + 1))
    assert len(tokenizers._readers) == before + 1
    del one
    gc.collect()
    assert len(tokenizers._readers) == before + 1
    del two
    gc.collect()
    assert len(tokenizers._readers) == before


def test_sizes_count_every_part() -> None:
    bare = Kept(b"1234" * 5, b"")
    placed = replace(bare, places=Places(b"12345678" * 5, b"1" * 5, b"1234" * 5))
    assert placed.size - bare.size == Kept(b"", b"", Places(b"", b"", b"")).size - Kept(b"", b"").size + 13 * 5
    assert np.frombuffer(bare.ids, np.int32).shape == (5,)

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as RustTokenizer

from hotfoot.contract import manifest as manifests
from hotfoot.contract.errors import ArtifactError, InputError
from hotfoot.contract.manifest import Manifest, Side
from hotfoot.task import Encoded
from hotfoot.tokenizer import Tokenizer, find, open_tokenizer
from support.handmade import write_artifact
from support.tokenizers_made import CORPUS, MAKERS, made

FAMILY = "👨‍👩‍👧"  # five code points, eight UTF-16 units, 18 bytes
TEXTS = (
    "in paris",
    "The man plays the guitar on stage, and the crowd sings.",
    f"{FAMILY} in Paris 🦊🦊 and Springfield",
    "cafe\u0301 in Paris, café in Paris",
    "Société……… Paris ½ ﬃ ヿ",
    "Née le 12 mai 1980, à Lyon.",
    "in  paris\n\tand \u00a0 the   river ",
    "全学年にわたって小学校の国語の教科書",
    "5.975,74 or 1980",
    "[CLS] <s> </s> [SEP] [MASK]",
    " ".join(CORPUS),
)
SIDES: tuple[Side, ...] = ("left", "right")


def ours(kind: str, max_tokens: int = 512) -> Tokenizer:
    return Tokenizer(made(kind), max_tokens)


def frame(kind: str) -> tuple[int, int]:
    """Special tokens before and after a text."""
    return {"only-tail": (0, 1), "bare": (0, 0)}.get(kind, (1, 1))


def same(mine: Encoded, theirs: Any) -> None:
    assert mine.ids.tolist() == theirs.ids
    assert mine.type_ids.tolist() == theirs.type_ids
    assert list(mine.offsets) == theirs.offsets
    assert list(mine.special) == [flag == 1 for flag in theirs.special_tokens_mask]
    assert list(mine.words) == theirs.word_ids


def equal(a: Encoded, b: Encoded) -> bool:
    arrays = np.array_equal(a.ids, b.ids) and np.array_equal(a.type_ids, b.type_ids)
    return arrays and (a.offsets, a.special, a.words) == (b.offsets, b.special, b.words)


@pytest.mark.parametrize("kind", MAKERS)
def test_a_text_is_encoded_as_the_library_does(kind: str) -> None:
    for item, (mine, theirs) in enumerate(zip(ours(kind).encode(TEXTS, truncate=None), made(kind).encode_batch(TEXTS), strict=True)):
        same(mine, theirs)
        assert mine.item == item
        assert mine.ids.dtype == mine.type_ids.dtype == np.int32


@pytest.mark.parametrize("kind", MAKERS)
def test_padding_and_truncation_of_the_file_are_not_used(kind: str, tmp_path: Path) -> None:
    """Many a tokenizer.json comes with padding to 128 and truncation at 128: neither may pad or cut."""
    rust = made(kind)
    rust.enable_padding(length=128, pad_id=1, pad_token="x")
    rust.enable_truncation(128)
    rust.save(str(tmp_path / "tokenizer.json"))
    state = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    assert state["padding"]["strategy"] == {"Fixed": 128}
    assert state["truncation"]["max_length"] == 128
    opened = Tokenizer(RustTokenizer.from_file(str(tmp_path / "tokenizer.json")), 1024)
    for text in ("in paris", "in paris " * 100):
        same(opened.encode([text], truncate=None)[0], made(kind).encode(text))
    assert len(opened.encode(["in paris " * 100], truncate=None)[0].ids) >= 200


@pytest.mark.parametrize("kind", ["wordpiece", "byte-level", "unigram", "bare"])
def test_the_limit_counts_special_tokens(kind: str) -> None:
    limit = 8
    words = limit - sum(frame(kind))
    tokenizer = ours(kind, limit)
    assert tokenizer.max_tokens == limit
    fits = " in" * words if kind == "byte-level" else " ".join(["in"] * words)
    (whole,) = tokenizer.encode([fits], truncate=None)
    assert len(whole.ids) == limit
    same(whole, made(kind).encode(fits))
    with pytest.raises(InputError) as caught:
        tokenizer.encode(["in", fits + " in"], truncate=None)
    assert str(caught.value) == (
        f"inputs[1]: the text has {limit + 1} tokens, the limit is {limit}, special tokens included. Shorten it, or ask for truncation."
    )


def test_the_path_of_a_bad_text_is_the_callers() -> None:
    with pytest.raises(InputError) as caught:
        ours("wordpiece", 4).encode(["in", "in in in in"], truncate=None, paths=("a", "inputs.sentences[0]"))
    assert caught.value.where == "inputs.sentences[0]"


@pytest.mark.parametrize("limit", [8, 9, 17, 32])
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("kind", MAKERS)
def test_truncation_is_the_librarys_and_keeps_the_frame(kind: str, side: Side, limit: int) -> None:
    theirs = made(kind)
    theirs.enable_truncation(limit, direction=side)
    for mine, reference in zip(ours(kind, limit).encode(TEXTS, truncate=side), theirs.encode_batch(TEXTS), strict=True):
        assert mine.ids.tolist() == reference.ids
        assert list(mine.special) == [flag == 1 for flag in reference.special_tokens_mask]
        assert mine.type_ids.tolist() == reference.type_ids
        assert len(mine.ids) <= limit
        head, tail = frame(kind)
        assert mine.special.count(True) == head + tail
        assert all(mine.special[:head])
        assert all(mine.special[len(mine.ids) - tail :])


@pytest.mark.parametrize("side", SIDES)
def test_truncated_offsets_are_those_of_the_whole_text(side: Side) -> None:
    for kind in MAKERS:
        (whole,) = ours(kind, 512).encode([TEXTS[2]], truncate=None)
        (cut,) = ours(kind, 9).encode([TEXTS[2]], truncate=side)
        known = {(int(i), offset) for i, offset in zip(whole.ids, whole.offsets, strict=True)}
        assert known >= {(int(i), offset) for i, offset in zip(cut.ids, cut.offsets, strict=True)}


@pytest.mark.parametrize("kind", ["wordpiece", "byte-level", "byte-level-untrimmed", "unigram"])
@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("in Paris", 3),
        ("🦊 Paris", 2),
        (f"{FAMILY} in Paris", 9),
        ("cafe\u0301 in Paris", 9),
        ("café in Paris", 8),
        ("ヿ Paris", 2),
        ("½ Paris", 2),
        ("ﬃ Paris", 2),
        ("Société……… Paris", 11),
        ("İstanbul Paris", 9),
    ],
)
def test_offsets_are_code_points_of_the_text_as_sent(kind: str, text: str, start: int) -> None:
    (encoded,) = ours(kind).encode([text], truncate=None)
    assert text[start:] == "Paris"
    last = max(o[1] for o in encoded.offsets)
    assert last == start + 5
    starts = [o[0] + (len(text[o[0] : o[1]]) - len(text[o[0] : o[1]].lstrip())) for o in encoded.offsets if o[1] > start]
    assert min(starts) == start
    assert all(0 <= a <= b <= len(text) for a, b in encoded.offsets)


@pytest.mark.parametrize("text", ["cafe\u0301", "½", FAMILY])
def test_no_token_reaches_past_its_word(text: str) -> None:
    for kind in MAKERS:
        (encoded,) = ours(kind).encode([f"{text} in"], truncate=None)
        before = [o for o, special in zip(encoded.offsets, encoded.special, strict=True) if o[0] < len(text) and not special]
        # one mark may be left out, never a character more be taken in but the blank of the next word
        assert max(end for _, end in before) in (len(text), len(text) - 1)


def test_a_word_of_ten_thousand_letters_is_one_unknown_token() -> None:
    found = ours("wordpiece").encode(["a" * 100, "a" * 101, "a" * 10_000], truncate=None)
    assert [len(e.ids) for e in found] == [102, 3, 3]


def test_a_text_without_tokens_is_refused_by_name() -> None:
    tokenizer = ours("bare")
    for blank in (" ", "\n\t", "\u3000"):
        with pytest.raises(InputError) as caught:
            tokenizer.encode(["the man", blank], truncate="right")
        assert str(caught.value) == "inputs[1]: the text has no tokens."
    assert len(tokenizer.encode(["the man"], truncate=None)[0].ids) == 2


def test_nothing_to_encode() -> None:
    assert ours("wordpiece").encode([], truncate=None) == ()


# --- windows


def windows_of_library(kind: str, text: str, limit: int, stride: int) -> list[Any]:
    theirs = made(kind)
    theirs.enable_truncation(limit, stride=stride)
    first = theirs.encode(text)
    return [first, *first.overflowing]


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize(("limit", "stride"), [(8, 0), (8, 1), (8, 3), (16, 5), (33, 12), (64, 1)])
def test_windows_are_those_of_the_library(kind: str, limit: int, stride: int) -> None:
    tokenizer = ours(kind, limit)
    for text in TEXTS:
        mine, theirs = tokenizer.encode([text], truncate=None, stride=stride), windows_of_library(kind, text, limit, stride)
        assert [e.ids.tolist() for e in mine] == [e.ids for e in theirs]
        assert [e.type_ids.tolist() for e in mine] == [e.type_ids for e in theirs]
        assert [list(e.special) for e in mine] == [[flag == 1 for flag in e.special_tokens_mask] for e in theirs]
        assert [list(e.words) for e in mine] == [e.word_ids for e in theirs]


@settings(max_examples=150, deadline=None)
@given(kind=st.sampled_from(sorted(MAKERS)), length=st.integers(1, 90), limit=st.integers(4, 40), data=st.data())
def test_windows_cover_the_whole_text(kind: str, length: int, limit: int, data: st.DataObject) -> None:
    head, tail = frame(kind)
    room = limit - head - tail
    stride = data.draw(st.integers(0, room // 2))
    words = data.draw(st.lists(st.sampled_from(["in", "paris", "the", "½", "🦊", "guitar,"]), min_size=length, max_size=length))
    text = " ".join(words)
    (whole,) = ours(kind, 10_000).encode([text], truncate=None)
    windows = ours(kind, limit).encode([text], truncate=None, stride=stride)
    inner = [e.ids[head : len(e.ids) - tail].tolist() for e in windows]
    offsets = [o for e in windows for o in e.offsets[head : len(e.ids) - tail]]
    assert all(len(e.ids) <= limit for e in windows)
    assert {e.item for e in windows} == {0}
    # the windows laid over one another, each `stride` tokens back, are the text and nothing else
    joined = inner[0] + [token for part in inner[1:] for token in part[stride:]]
    assert joined == whole.ids[head : len(whole.ids) - tail].tolist()
    assert set(offsets) == set(whole.offsets[head : len(whole.ids) - tail])
    # none is superfluous
    assert all(len(part) > stride for part in inner[1:])
    for e in windows:
        assert e.ids[:head].tolist() == whole.ids[:head].tolist()
        assert e.ids[len(e.ids) - tail :].tolist() == whole.ids[len(whole.ids) - tail :].tolist()


def test_windows_know_their_text() -> None:
    found = ours("wordpiece", 6).encode(["in", "in " * 9, "the man"], truncate=None, stride=1)
    assert [e.item for e in found] == [0, 1, 1, 1, 2]


@pytest.mark.parametrize(("kind", "room"), [("wordpiece", 6), ("only-tail", 7), ("bare", 8)])
def test_a_stride_above_half_a_window_is_refused(kind: str, room: int) -> None:
    tokenizer = ours(kind, 8)
    # for short texts too: whether a parameter is right must not depend on a text's length
    for text in ("in", "in " * 40):
        for stride in (-1, room // 2 + 1, room, 10**9):
            with pytest.raises(InputError) as caught:
                tokenizer.encode([text], truncate=None, stride=stride)
            assert str(caught.value) == (
                f"parameters.stride: is {stride}; it must be from 0 to {room // 2},"
                f" half of the {room} tokens that a window of this model holds."
            )
        assert tokenizer.encode([text], truncate=None, stride=room // 2)


def test_a_stride_that_is_refused_leaves_the_tokenizer_well() -> None:
    tokenizer = ours("byte-level", 8)
    with pytest.raises(InputError):
        tokenizer.encode(["in " * 40], truncate=None, stride=7)
    same(tokenizer.encode(["in paris"], truncate=None)[0], made("byte-level").encode("in paris"))


# --- threads


@pytest.mark.parametrize("kind", ["wordpiece", "byte-level", "unigram"])
def test_sixteen_threads_get_what_one_gets(kind: str) -> None:
    tokenizer = ours(kind, 16)
    calls: list[tuple[Sequence[str], Side | None, int | None]] = []
    for i, text in enumerate(TEXTS):
        calls += [([text], "right", None), ([text, TEXTS[0]], "left", None), ([text], None, i % 5), ([TEXTS[0]], None, None)]
    alone = [tokenizer.encode(texts, truncate=side, stride=stride) for texts, side, stride in calls]

    def again(index: int) -> bool:
        texts, side, stride = calls[index % len(calls)]
        found = tokenizer.encode(texts, truncate=side, stride=stride)
        wanted = alone[index % len(calls)]
        return len(found) == len(wanted) and all(map(equal, found, wanted))

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(again, range(800)))


# --- back to text


def test_tokens_and_text_of_ids() -> None:
    tokenizer = ours("wordpiece")
    (encoded,) = tokenizer.encode(["Guitars in Paris"], truncate=None)
    assert [tokenizer.token_of(int(i)) for i in encoded.ids] == ["[CLS]", "guitar", "##s", "in", "paris", "[SEP]"]
    assert tokenizer.decode(encoded.ids.tolist(), skip_special_tokens=True) == "guitars in paris"
    assert tokenizer.decode(encoded.ids.tolist(), skip_special_tokens=False) == "[CLS] guitars in paris [SEP]"
    assert tokenizer.token_of(10**6) == ""


# --- the layer


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    write_artifact(tmp_path / "artifact")
    return tmp_path / "artifact"


def layered(artifact: Path, root: Path, text: str | None = None) -> Path:
    """The artifact's tokenizer as a layer below `root`; with `text`, other content under the same name."""
    place = root / "hotfoot" / "tokenizers" / manifests.read(artifact).tokenizer.hash
    shutil.copytree(artifact / "tokenizer", place)
    if text is not None:
        (place / "tokenizer.json").write_text(text, encoding="utf-8")
    return place


def test_the_layer_comes_first_then_the_artifact(artifact: Path, tmp_path: Path) -> None:
    manifest = manifests.read(artifact)
    assert find(artifact, manifest, tmp_path / "opt") == artifact / "tokenizer"
    place = layered(artifact, tmp_path / "opt")
    assert find(artifact, manifest, tmp_path / "opt") == place
    shutil.rmtree(artifact / "tokenizer")
    assert find(artifact, manifest, tmp_path / "opt") == place
    assert open_tokenizer(artifact, manifest, tmp_path / "opt").encode(["hello"], truncate=None)[0].ids.tolist() == [1]


def test_a_foreign_tokenizer_is_refused_wherever_it_lies(artifact: Path, tmp_path: Path) -> None:
    manifest = manifests.read(artifact)
    place = layered(artifact, tmp_path / "opt", text=made("bare").to_str())
    with pytest.raises(ArtifactError, match=f"the tokenizer in {place} has hash .*, the manifest names {manifest.tokenizer.hash}"):
        find(artifact, manifest, tmp_path / "opt")
    (artifact / "tokenizer" / "tokenizer.json").write_text(made("bare").to_str(), encoding="utf-8")
    with pytest.raises(ArtifactError, match=f"the tokenizer in {artifact / 'tokenizer'} has hash "):
        find(artifact, manifest, tmp_path / "none")


def test_a_file_too_many_is_a_foreign_tokenizer(artifact: Path, tmp_path: Path) -> None:
    place = layered(artifact, tmp_path / "opt")
    (place / "chat_template.jinja").write_text("hello", encoding="utf-8")
    with pytest.raises(ArtifactError, match="has hash"):
        find(artifact, manifests.read(artifact), tmp_path / "opt")


def test_no_tokenizer_anywhere_names_the_places(artifact: Path, tmp_path: Path) -> None:
    manifest = manifests.read(artifact)
    shutil.rmtree(artifact / "tokenizer")
    with pytest.raises(ArtifactError) as caught:
        find(artifact, manifest, tmp_path / "opt")
    place = tmp_path / "opt" / "hotfoot" / "tokenizers" / manifest.tokenizer.hash
    assert str(caught.value).startswith(f"tokenizer {manifest.tokenizer.hash} is in none of: {place}, {artifact / 'tokenizer'}")


def test_the_limit_is_the_manifests(artifact: Path, tmp_path: Path) -> None:
    manifest: Manifest = replace(manifests.read(artifact), max_tokens=3)
    tokenizer = open_tokenizer(artifact, manifest, tmp_path)
    assert tokenizer.max_tokens == 3

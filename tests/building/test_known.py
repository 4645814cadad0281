"""Encodings that are made at build time: the runtime's own, in the tokenizer's folder and its hash, and nowhere else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hotfoot import encodings
from hotfoot.contract import manifest as manifests
from hotfoot.contract.errors import ArtifactError, InputError
from hotfoot.contract.manifest import Manifest
from hotfoot.encodings import FILE, Encodings, Kept
from hotfoot.model import Model
from hotfoot.task import Fit
from hotfoot.tokenizer import Tokenizer, open_tokenizer
from hotfoot_build import known, named
from support import tiny
from support.rigged import rigged_artifact
from support.tokenizers_made import MAKERS, made

TEXTS = ("This example is about music.", "This example is about 12 mai 1980.", "in paris 🦊")
BYTES = 2**21


def lines(folder: Path, text: str) -> Path:
    path = folder / "known.txt"
    path.write_text(text, encoding="utf-8")
    return path


def with_known(folder: Path, *texts: str) -> Manifest:
    """A rigged artifact whose tokenizer brings these along."""
    place = rigged_artifact(folder, "text-ranking") / "tokenizer"
    tokenizer = made("wordpiece")
    tokenizer.save(str(place / "tokenizer.json"))
    known.write(tokenizer, texts, place)
    files = manifests.describe(place, place.iterdir())
    return replace(manifests.read(folder), tokenizer=replace(manifests.read(folder).tokenizer, files=files, hash=manifests.combine(files)))


def memory_of(tokenizer: Tokenizer) -> Encodings:
    assert tokenizer.encodings is not None
    return tokenizer.encodings


def test_a_text_a_line_each_once(tmp_path: Path) -> None:
    assert known.read(lines(tmp_path, "one\n\ntwo words\n  \none\n tabs\t\n")) == ("one", "two words", " tabs\t")
    assert known.read(None) == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\n \n", "has no text"),
        ("\n".join(map(str, range(1001))), "has 1001 texts of 2894 characters; 1000 and 131072 are the most"),
        ("x" * 131_073, "has 1 texts of 131073 characters"),
    ],
)
def test_a_file_that_is_empty_or_too_large_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        known.read(lines(tmp_path, text))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--known: .*absent\.txt cannot be read"):
        known.read(tmp_path / "absent.txt")
    (tmp_path / "latin").write_bytes(b"caf\xe9")
    with pytest.raises(InputError, match="latin cannot be read"):
        known.read(tmp_path / "latin")


def test_no_texts_are_no_file_and_its_words_are_ids_that_the_tokenizer_reads(tmp_path: Path) -> None:
    known.write(made("wordpiece"), (), tmp_path)
    assert list(tmp_path.iterdir()) == []
    known.write(made("wordpiece"), TEXTS, tmp_path)
    written = (tmp_path / FILE).read_text(encoding="utf-8")
    assert len(json.loads(written)) == 2 * len(TEXTS)
    assert "music" not in written
    bare = json.loads(written)[encodings.key_of(TEXTS[0], special=False).hex()]
    assert made("wordpiece").decode(bare[0]) == made("wordpiece").decode(made("wordpiece").encode(TEXTS[0], add_special_tokens=False).ids)
    known.write(made("wordpiece"), TEXTS[::-1], tmp_path)
    assert (tmp_path / FILE).read_text(encoding="utf-8") == written


@pytest.mark.parametrize("kind", MAKERS)
def test_they_are_the_runtimes_own(kind: str, tmp_path: Path) -> None:
    known.write(made(kind), TEXTS, tmp_path)
    found = encodings.loads((tmp_path / FILE).read_text(encoding="utf-8"))
    for text in TEXTS:
        (whole,) = Tokenizer(made(kind), 512).encode([text], truncate=None)
        assert found[encodings.key_of(text, special=True)] == encodings.kept_of(whole)
        bare = np.array(made(kind).encode(text, add_special_tokens=False).ids, np.int32)
        assert found[encodings.key_of(text, special=False)].ids == bare.tobytes()


def test_types_are_kept_where_there_are_any() -> None:
    kept = {b"one": Kept(b"\1\0\0\0\2\0\0\0", b"\0\0\0\0\1\0\0\0"), b"two": Kept(b"\7\0\0\0", b"")}
    assert encodings.loads(encodings.dumps(kept)) == kept


@pytest.mark.parametrize("text", ["", "[]", "{", '{"zz": [[1]]}', '{"00": [1]}', '{"00": []}', '{"00": [[1], [2], 3]}', '{"00": [[1e99]]}'])
def test_a_broken_file_is_refused(text: str) -> None:
    with pytest.raises(ArtifactError, match=r"encodings\.json of the tokenizer cannot be read"):
        encodings.loads(text)


def test_the_memory_begins_with_them(tmp_path: Path) -> None:
    manifest = with_known(tmp_path, *TEXTS)
    tokenizer = open_tokenizer(tmp_path, manifest, tmp_path / "none", BYTES)
    plain = Tokenizer(made("wordpiece"), 64)
    assert (memory_of(tokenizer).stats.entries, memory_of(tokenizer).stats.misses) == (2 * len(TEXTS), 0)
    for mine, own in zip(tokenizer.encode(TEXTS, truncate="right"), plain.encode(TEXTS, truncate="right"), strict=True):
        assert (mine.ids.tolist(), mine.type_ids.tolist(), mine.marks()) == (own.ids.tolist(), own.type_ids.tolist(), own.marks())
    paths = [("a", "b")]
    (pair,), (wanted,) = (t.encode_pairs([TEXTS[2]], [TEXTS[0]], Fit(), paths) for t in (tokenizer, plain))
    assert pair.ids.tolist() == wanted.ids.tolist()
    assert memory_of(tokenizer).stats.misses == 0
    assert open_tokenizer(tmp_path, manifest, tmp_path / "none").encodings is None


def test_they_make_room_like_any_other(tmp_path: Path) -> None:
    manifest = with_known(tmp_path, TEXTS[0])
    tokenizer = open_tokenizer(tmp_path, manifest, tmp_path / "none", 2**13)
    for number in range(40):
        tokenizer.encode([f"in paris {number}"], truncate=None)
    before = memory_of(tokenizer).stats
    assert before.bytes <= 2**13
    tokenizer.encode([TEXTS[0]], truncate=None)
    assert memory_of(tokenizer).stats.misses == before.misses + 1


def test_tokenizers_without_them_keep_their_hash(tmp_path: Path) -> None:
    one, two = with_known(tmp_path / "one"), with_known(tmp_path / "two")
    other = with_known(tmp_path / "other", TEXTS[0])
    assert one.tokenizer.hash == two.tokenizer.hash != other.tokenizer.hash
    assert FILE in {f.path for f in other.tokenizer.files}


def test_the_build_writes_them(tmp_path: Path) -> None:
    path = lines(tmp_path, "\n".join(TEXTS))
    built = tiny.run_build(tiny.request("classes", tmp_path / "out", known=path))
    assert manifests.verify(built.path) == built.manifest
    assert FILE in {f.path for f in built.manifest.tokenizer.files}
    assert tiny.artifact("classes").manifest.tokenizer.hash != built.manifest.tokenizer.hash
    model = Model.open(built.path, cache_bytes=4 * BYTES)
    wanted = Model.open(tiny.artifact("classes").path).predict(list(TEXTS)).answer
    assert model.predict(list(TEXTS)).answer == wanted
    assert memory_of(model.tokenizer).stats.misses == 0


def test_the_table_may_name_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hotfoot.toml").write_text('[build.a]\nmodel = "m"\ntask = "text-ranking"\nknown = "known.txt"\n', encoding="utf-8")
    asked = named.request("a", (), force=False)
    assert asked.known == Path("known.txt")
    assert asked.samples is None

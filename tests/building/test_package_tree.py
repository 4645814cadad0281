from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

from hotfoot_build.package import tree


def sample(root: Path, mtime: float) -> Path:
    for name, content in {"b/two.txt": b"two", "a.txt": b"one", "b/a.bin": b"\0" * 5000}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (mtime, mtime))
    return root


def zipped(root: Path) -> bytes:
    stream = io.BytesIO()
    tree.write_zip(root, stream)
    return stream.getvalue()


def test_same_files_give_the_same_hash_and_zip_whatever_their_time_mode_and_place(tmp_path: Path) -> None:
    one, two = sample(tmp_path / "one", 1e9), sample(tmp_path / "elsewhere" / "two", 1.5e9)
    (two / "a.txt").chmod(0o600)
    assert tree.content_hash(one) == tree.content_hash(two)
    assert zipped(one) == zipped(two)
    assert tree.zipped_size(one) == len(zipped(one))
    assert tree.size(one) == 5006


def test_zip_is_sorted_and_its_files_can_be_read_by_anyone(tmp_path: Path) -> None:
    entries = zipfile.ZipFile(io.BytesIO(zipped(sample(tmp_path / "one", 1e9)))).infolist()
    assert [e.filename for e in entries] == ["a.txt", "b/a.bin", "b/two.txt"]
    assert {e.external_attr >> 16 for e in entries} == {0o100644}
    assert {e.compress_type for e in entries} == {zipfile.ZIP_DEFLATED}


def test_a_changed_byte_and_a_changed_name_change_the_hash(tmp_path: Path) -> None:
    root = sample(tmp_path / "one", 1e9)
    before = tree.content_hash(root)
    (root / "a.txt").write_bytes(b"onf")
    changed = tree.content_hash(root)
    (root / "a.txt").rename(root / "c.txt")
    assert len({before, changed, tree.content_hash(root)}) == 3


def test_largest_sums_by_directory(tmp_path: Path) -> None:
    assert tree.largest(sample(tmp_path / "one", 1e9), count=1, depth=1) == [("b", 5003)]


def test_normalise_opens_what_a_strict_umask_closed(tmp_path: Path) -> None:
    root = sample(tmp_path / "one", 1e9)
    (root / "b").chmod(0o700)
    (root / "b" / "two.txt").chmod(0o600)
    tree.normalise(root)
    assert (root / "b").stat().st_mode & 0o777 == 0o755
    assert (root / "b" / "two.txt").stat().st_mode & 0o777 == 0o644

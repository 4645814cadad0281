"""Directories as values: their size, their content hash, their zip."""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from hotfoot.contract import manifest

ZIP_LEVEL = 6
ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest time that a zip can hold
DIR_MODE, FILE_MODE = 0o755, 0o644
DIRECTORY_ENTRY = 46  # bytes that a zip's directory has for a file, beside its name


@dataclass(frozen=True)
class Weight:
    """Bytes of a file as it lies on the disk, and of what a zip has for it: its compressed content, headers and names."""

    unzipped_bytes: int
    zipped_bytes: int


def files(root: Path) -> list[Path]:
    """Every file below `root`, sorted by its path as text, which is the same order on every machine."""
    return sorted((p for p in root.rglob("*") if p.is_file()), key=lambda p: p.relative_to(root).as_posix())


def size(root: Path) -> int:
    """Bytes of every file below `root`: what counts against a limit on unzipped size."""
    return sum(p.stat().st_size for p in files(root))


def content_hash(root: Path) -> str:
    """sha256 (hex) over the names and contents below `root`; times, modes and the place of `root` are not in it."""
    return manifest.combine(manifest.describe(root, files(root)))


def largest(root: Path, count: int = 6, depth: int = 4) -> list[tuple[str, int]]:
    """The `count` heaviest directories (or files) at most `depth` names below `root`, heaviest first, as (path, bytes)."""
    weights: Counter[str] = Counter()
    for path in files(root):
        weights["/".join(path.relative_to(root).parts[:depth])] += path.stat().st_size
    return sorted(weights.items(), key=lambda item: (-item[1], item[0]))[:count]


def normalise(root: Path) -> None:
    """Make everything below `root` readable by anyone: a function runs as another user than the one who built it."""
    root.chmod(DIR_MODE)
    for path in root.rglob("*"):
        path.chmod(DIR_MODE if path.is_dir() else FILE_MODE)


def write_zip(root: Path, stream: BinaryIO) -> None:
    """Zip what is below `root` into `stream`. The same tree gives the same bytes: sorted, one time, one mode."""
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=ZIP_LEVEL) as archive:
        for path in files(root):
            entry = zipfile.ZipInfo(path.relative_to(root).as_posix(), ZIP_EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix, also where this runs on another system: only then is the mode read
            entry.external_attr = (0o100000 | FILE_MODE) << 16
            entry.file_size = path.stat().st_size  # lets zipfile choose zip64 before it has read the file
            with path.open("rb") as source, archive.open(entry, "w") as sink:
                shutil.copyfileobj(source, sink, 1 << 20)


def weigh(root: Path) -> tuple[int, Mapping[str, Weight]]:
    """Bytes of the zip of `root`, and each file's weight by its path there; the zip itself is not kept.

    The files' zipped bytes are all of the zip but the record at its end.
    """
    with tempfile.TemporaryFile() as stream:
        write_zip(root, stream)
        total = stream.seek(0, os.SEEK_END)
        with zipfile.ZipFile(stream) as archive:
            entries = archive.infolist()
            ends = [*(entry.header_offset for entry in entries), archive.start_dir][1:]
    return total, {
        entry.filename: Weight(entry.file_size, end - entry.header_offset + DIRECTORY_ENTRY + len(entry.filename.encode() + entry.extra))
        for entry, end in zip(entries, ends, strict=True)
    }


def zipped_size(root: Path) -> int:
    """Bytes of the zip of `root`."""
    return weigh(root)[0]

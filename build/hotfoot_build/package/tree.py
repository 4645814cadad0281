"""Directories as values: their size, their content hash, their zip."""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
from collections import Counter
from pathlib import Path
from typing import BinaryIO

from hotfoot.contract import manifest

ZIP_LEVEL = 6
ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest time that a zip can hold
DIR_MODE, FILE_MODE = 0o755, 0o644


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


def zipped_size(root: Path) -> int:
    """Bytes of the zip of `root`; the zip itself is not kept."""
    with tempfile.TemporaryFile() as stream:
        write_zip(root, stream)
        return stream.seek(0, os.SEEK_END)

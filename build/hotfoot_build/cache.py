"""The user's cache folder, and the one way to put a folder in its place: made aside, then renamed."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def root() -> Path:
    """`$XDG_CACHE_HOME/hotfoot`, by default `~/.cache/hotfoot`; made when missing."""
    base = os.environ.get("XDG_CACHE_HOME")
    found = (Path(base) if base else Path.home() / ".cache") / "hotfoot"
    found.mkdir(parents=True, exist_ok=True)
    return found


def key(*parts: str) -> str:
    """A name for what is made of `parts`."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def keep_newest(folder: Path, count: int) -> None:
    """Remove all but the `count` newest entries of a cache folder."""
    entries = sorted((p for p in folder.iterdir() if not p.name.startswith(".")), key=lambda p: p.stat().st_mtime, reverse=True)
    for old in entries[count:]:
        shutil.rmtree(old, ignore_errors=True)


@contextmanager
def replacing(destination: Path) -> Iterator[Path]:
    """A fresh folder beside `destination` that takes its place when the block ends, and vanishes when it raises.

    What was there before goes only after the new one stands.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{destination.name}.", dir=destination.parent))
    fresh.chmod(0o755)  # mkdtemp's 0700 would stay
    try:
        yield fresh
        old = fresh.with_name(fresh.name + ".old")
        if destination.exists():
            destination.rename(old)
        fresh.rename(destination)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)

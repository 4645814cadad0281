"""The user's cache folder, and the ways to put a folder in its place: made aside, then renamed."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def root() -> Path:
    """Where hotfoot keeps what can be made again: `$XDG_CACHE_HOME/hotfoot`, else `~/.cache/hotfoot`."""
    chosen = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(chosen) if chosen else Path.home() / ".cache") / "hotfoot"


def key(*parts: str) -> str:
    """A name for what is made of `parts`."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def keep_newest(folder: Path, count: int) -> None:
    """Remove all but the `count` newest entries of a cache folder."""
    entries = sorted((p for p in folder.iterdir() if not p.name.startswith(".")), key=lambda p: p.stat().st_mtime, reverse=True)
    for old in entries[count:]:
        shutil.rmtree(old, ignore_errors=True)


@contextmanager
def replacing(out: Path) -> Iterator[Path]:
    """A new folder beside `out` to write in; when the block ends well it takes the place of `out`, else it is removed.

    What was in `out` is deleted only after the new one stands there.
    """
    with _aside(out) as aside:
        work = aside / "new"
        work.mkdir()
        yield work
        old = aside / "old"
        if out.exists():
            out.rename(old)
        try:
            work.rename(out)
        except OSError:
            if old.exists():
                old.rename(out)
            raise


def made_once(place: Path, make: Callable[[Path], None]) -> Path:
    """`place`, filled by `make` where it does not exist yet. Two processes may do so at once: the first one's result stays."""
    if place.exists():
        return place
    with _aside(place) as aside:
        work = aside / "new"
        work.mkdir()
        make(work)
        try:
            work.rename(place)
        except OSError:
            if not place.exists():
                raise
    return place


@contextmanager
def _aside(place: Path) -> Iterator[Path]:
    """A scratch folder on the same file system as `place`, so that a rename is enough."""
    place.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
    try:
        yield aside
    finally:
        shutil.rmtree(aside, ignore_errors=True)

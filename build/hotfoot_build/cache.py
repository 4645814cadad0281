"""The user's cache folder, and the ways to put a folder in its place: made aside, then renamed.

Aside means `.NAME.hotfoot-XXXXXXXX` beside the place. Whoever writes there holds a lock on the file `.NAME.hotfoot`. A lock ends with
its process, however that ends; so what a killed one left behind is known for sure, and cleared by the next that writes there.
"""

from __future__ import annotations

import fcntl
import glob
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from hotfoot.contract.errors import ArtifactError

Say = Callable[[str], None]
LEFT = re.compile(r"\.(.+)\.hotfoot(?:-[a-z0-9_]{8})?")  # a lock or a folder aside, and the name that it is for
DAY_S = 24 * 60 * 60


@dataclass(frozen=True)
class Kind:
    """What the cache holds of one kind. keep: when one is made, all but so many go, those unused for longest; None: all stay."""

    pattern: str
    keep: int | None
    what: str


KINDS = {
    "environments": Kind("export-*", 3, "torch and transformers, to export with: one a list of packages and Python version"),
    "exports": Kind("exports/*", 8, "models as ONNX graphs, and their answers to the texts that they were proven on"),
    "layers": Kind("layers/*", 8, "installed packages of bundles"),
    "emulator": Kind("emulator/*", None, "AWS's parts to run a bundle here"),
    "cdk": Kind("cdk/*", None, "the CDK's command line"),
    "other": Kind("", None, "whatever else lies there"),
}


def root() -> Path:
    """Where hotfoot keeps what can be made again: `$XDG_CACHE_HOME/hotfoot`, else `~/.cache/hotfoot`. Users' texts lie there too."""
    chosen = os.environ.get("XDG_CACHE_HOME", "")
    home = (Path(chosen) if chosen else Path.home() / ".cache") / "hotfoot"
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    return home


def key(*parts: str) -> str:
    """A name for what is made of `parts`."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def refuse_foreign(out: Path, marker: str, what: str) -> None:
    """Raise ArtifactError where `out` is there and is no `what`, which has the file `marker`: it would be lost. An empty folder is free."""
    if out.exists() and not (out / marker).is_file() and (not out.is_dir() or any(out.iterdir())):
        raise ArtifactError(f"{out} is there and is no {what}; it will not be overwritten.", hint="Choose another --out.")


@contextmanager
def replacing(out: Path) -> Iterator[Path]:
    """A new folder beside `out` to write in; when the block ends well it takes the place of `out`, else it is removed.

    What was in `out` is deleted only after the new one stands there. Raises ArtifactError where another process is writing `out`.
    """
    place = out.resolve()  # a link stays, and what it points to is replaced
    place.parent.mkdir(parents=True, exist_ok=True)
    sweep(place.parent)
    with _held(place, None) as ours:
        if not ours:
            raise ArtifactError(f"another build is writing {out}.", hint="Wait until it is done, or choose another --out.")
        with _aside(place) as aside:
            work, old = aside / "new", aside / "old"
            work.mkdir()
            yield work
            if place.exists():
                place.rename(old)
            try:
                work.rename(place)
            except OSError:
                if old.exists():
                    old.rename(place)
                raise
            if old.exists():
                old.rename(aside / "gone")  # from here on nobody takes it for the good one


def made_once(place: Path, make: Callable[[Path], None], say: Say = lambda _: None) -> Path:
    """`place`, filled by `make` where it does not exist yet. Of two processes the second one waits, and says so, for the first one's."""
    sweep(place.parent)
    if not _touched(place):
        with using(place, make, say=say):
            pass
    return place


@contextmanager
def using(
    place: Path, make: Callable[[Path], None], *, whole: Callable[[Path], bool] = Path.exists, say: Say = lambda _: None
) -> Iterator[Path]:
    """`place` as `made_once` gives it, which no other process makes again or removes while the block runs.

    What is there and not `whole` is made anew.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    with _held(place, say):
        with _aside(place) as aside:
            if place.exists() and not whole(place):
                place.rename(aside / "gone")
            if not _touched(place):
                work = aside / "new"
                work.mkdir()
                make(work)
                work.rename(place)
        yield place
    _make_room(place)


def sweep(folder: Path, age_s: float = DAY_S) -> None:
    """Remove what processes that are gone left in `folder` at least `age_s` ago; what one had moved aside to replace it is put back."""
    for path in folder.glob(".*.hotfoot*"):
        left = LEFT.fullmatch(path.name)
        with suppress(OSError):  # another process sweeps too; or it is another user's
            if left and path.lstat().st_mtime <= time.time() - age_s:
                with _held(folder / left[1], None):
                    pass


def sizes() -> dict[str, int]:
    """Bytes in the cache, by kind."""
    return {kind: sum(map(size, _entries(kind))) for kind in KINDS}


def clear(kind: str) -> list[Path]:
    """Remove all of a kind. Gives what stays, because another process is making or using it."""
    busy = []
    for entry in _entries(kind):
        if LEFT.fullmatch(entry.name):
            sweep(entry.parent, 0)
        elif not _drop(entry):
            busy.append(entry)
    return busy


def _entries(kind: str) -> list[Path]:
    home = root()
    if pattern := KINDS[kind].pattern:
        return sorted(home.glob(pattern))
    tops = [known.pattern.partition("/")[0] for known in KINDS.values()]
    return sorted(p for p in home.iterdir() if not any(fnmatchcase(p.name, top) for top in tops))


def size(path: Path) -> int:
    """Bytes of a file or of all files below; links are not followed, a file of several names counts once, what is not there is 0."""
    found = {}
    inside = (os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)  # noqa: PTH118 - of many files
    for file in inside if path.is_dir() else [str(path)]:
        with suppress(FileNotFoundError):
            status = os.lstat(file)
            found[status.st_dev, status.st_ino] = status.st_size
    return sum(found.values())


def _make_room(place: Path) -> None:
    """Something new lies in `place`: of its kind, the oldest go."""
    home = root()
    inside = place.relative_to(home).as_posix() if place.is_relative_to(home) else ""
    for kind in KINDS.values():
        if kind.keep is not None and fnmatchcase(inside, kind.pattern):
            _keep(home.glob(kind.pattern), kind.keep)


def _keep(entries: Iterable[Path], count: int) -> None:
    ages = []
    for entry in entries:
        with suppress(FileNotFoundError):  # another process was faster
            if not entry.name.startswith("."):
                ages.append((entry.stat().st_mtime_ns, entry))
    for age, entry in sorted(ages, reverse=True)[count:]:
        _drop(entry, age)


def _drop(entry: Path, age: int | None = None) -> bool:
    """Remove an entry, whole or not at all. False where another process holds it, or has used it since it had that `age`."""
    with _held(entry, None) as ours, suppress(FileNotFoundError):
        if not ours or (age is not None and entry.stat().st_mtime_ns != age):
            return False
        with _aside(entry) as aside:
            entry.rename(aside / "gone")
    return True


def _touched(place: Path) -> bool:
    """Whether there is a `place`; if so it is the newest now."""
    try:
        os.utime(place)
    except FileNotFoundError:
        return False
    except OSError:  # a cache that may only be read
        return place.exists()
    return True


@contextmanager
def _held(place: Path, say: Say | None) -> Iterator[bool]:
    """Nobody else writes `place` while the block runs. Where somebody does, waits and says so; without `say` it gives False at once."""
    lock = place.with_name(f".{place.name}.hotfoot")
    descriptor = _locked(lock, wait=False)
    if descriptor is None and say:
        say(f"waiting for another process, which is writing {place}")
        descriptor = _locked(lock, wait=True)
    if descriptor is None:
        yield False
        return
    try:
        _clear_up(place)
        yield True
    finally:
        lock.unlink(missing_ok=True)
        os.close(descriptor)


def _locked(lock: Path, *, wait: bool) -> int | None:
    """An open descriptor of the file `lock`, which is locked until it is closed; None where it is and `wait` is not set."""
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), lock.lstat()):
                    return descriptor
        except BaseException as error:
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                return None
            raise
        os.close(descriptor)  # its last owner has removed the file in the meantime


def _clear_up(place: Path) -> None:
    """What is left of a process that held `place` and is gone. Killed between two renames, it left the good one aside."""
    for left in place.parent.glob(f".{glob.escape(place.name)}.hotfoot-*"):
        if (left / "old").exists() and not place.exists():
            (left / "old").rename(place)
        shutil.rmtree(left, ignore_errors=True)


@contextmanager
def _aside(place: Path) -> Iterator[Path]:
    """A scratch folder on the same file system as `place`, so that a rename is enough."""
    aside = Path(tempfile.mkdtemp(prefix=f".{place.name}.hotfoot-", dir=place.parent))
    try:
        yield aside
    finally:
        shutil.rmtree(aside, ignore_errors=True)

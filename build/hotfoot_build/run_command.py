"""`hotfoot run`: the bulk pipeline over local files, with the code, the layout and the reports that it has in AWS."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from hotfoot.bulk.answers import prepare
from hotfoot.bulk.pipeline import Outcome, Source, process
from hotfoot.bulk.report import Origin
from hotfoot.contract.bulk import BulkOptions, faults
from hotfoot.contract.errors import InputError
from hotfoot.contract.manifest import sha256
from hotfoot.model import Model

CHUNK = 2**16  # small, so that the bar moves


@dataclass(frozen=True)
class Input:
    """A file, and the key that it would have in a bucket: its name, in a folder the path from that folder on."""

    path: Path
    key: str


class Folder:
    """Results under a folder; a file is there whole or not at all."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def create(self, key: str, body: bytes) -> bool:
        """Write `key` unless it is there."""
        target = self._root / key
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, aside = tempfile.mkstemp(dir=target.parent, prefix=".writing-")
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(body)
            Path(aside).chmod(0o644)
            os.link(aside, target)  # unlike a rename it fails where there is something
        except FileExistsError:
            return False
        finally:
            Path(aside).unlink()
        return True

    def read(self, key: str) -> bytes | None:
        """What lies at `key`, None where there is nothing."""
        with suppress(FileNotFoundError):
            return (self._root / key).read_bytes()
        return None


@dataclass
class Totals:
    """What became of all files. texts, tokens: of this run; records, failed: of the results, whoever made them."""

    files: Counter[str] = field(default_factory=Counter)
    records: int = 0
    failed: int = 0
    texts: int = 0
    tokens: int = 0
    rejected: list[str] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        """Count one file."""
        made = outcome.report
        self.files[outcome.status] += 1
        self.records += made.records
        self.failed += made.failed
        self.texts += outcome.sums.texts
        self.tokens += outcome.sums.tokens
        if made.status == "rejected":
            self.rejected.append(f"{made.key}: {made.reason}")


class Rate(ProgressColumn):
    """Texts a second, from the first one on."""

    def render(self, task: Task) -> Text:
        """As `1,234 texts/s`."""
        texts, elapsed = int(task.fields["texts"]), task.elapsed or 0.0
        return Text(f"{texts / elapsed:,.0f} texts/s" if elapsed > 0 else "", style="progress.data.speed")


def run(artifact: Path, paths: Sequence[Path], out: Path, prefix: str, options: BulkOptions, console: Console) -> Totals:
    """Work off every file; those with a report are done already, and one that was left in the middle goes on behind its parts.

    Raises InputError for options or paths that are wrong, and what opening the model raises.
    """
    if found := faults(options):
        raise InputError("; ".join(found), where="options")
    if not (place := prefix.strip("/")) or ".." in place.split("/"):
        raise InputError(f"is {prefix!r}; it must be a path below --out.", where="--prefix")
    inputs = find(paths, out / place)
    work = prepare(Model.open(artifact), options)
    work.model.warm_up()
    totals, results = Totals(), Folder(out)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn(), TimeRemainingColumn(), Rate())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=sum(each.path.stat().st_size for each in inputs), texts=0)
        texts = done = 0

        def answered(count: int) -> None:
            nonlocal texts
            texts += count
            bar.update(task, texts=texts)

        for each in inputs:
            bar.update(task, description=escape(each.key[-40:]))
            origin = Origin(bucket="", key=each.key, version=sha256(each.path))
            source = Source(origin, _chunks(each.path, lambda count: bar.advance(task, count)))
            totals.add(process(work, source, results, place, watch=answered))
            done += each.path.stat().st_size
            bar.update(task, completed=done)  # also past what needed no reading
    return totals


def _chunks(path: Path, read: Callable[[int], None]) -> Iterator[bytes]:
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            read(len(chunk))
            yield chunk


def find(paths: Sequence[Path], results: Path) -> list[Input]:
    """The files of `paths`, folders with all below them but hidden files and `results`. Raises InputError for a path that is none."""
    found: dict[Path, Input] = {}
    for path in paths:
        if path.is_file():
            found.setdefault(path.resolve(), Input(path, _key(path.name)))
        elif path.is_dir():
            home = path.resolve()
            for file in sorted(home.rglob("*")):
                inside = file.relative_to(home)
                hidden = any(part.startswith(".") for part in inside.parts)
                if file.is_file() and not hidden and not file.is_relative_to(results.resolve()):
                    found.setdefault(file, Input(file, _key(f"{home.name}/{inside.as_posix()}")))
        else:
            raise InputError(f"there is no file or folder {path}.", where="PATHS")
    if not found:
        raise InputError("hold no file.", where="PATHS")
    return list(found.values())


def _key(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "replace").lstrip("/")  # a file's name may be no text


def summary(totals: Totals, seconds: float, console: Console) -> None:
    """What happened, in a few lines."""
    for line in totals.rejected:
        console.print(f"[bold red]rejected[/bold red] {escape(line)}", highlight=False, soft_wrap=True)
    files = ", ".join(f"{count} {status}" for status, count in sorted(totals.files.items()))
    console.print(f"{files}; {totals.records} records, {totals.failed} of them failed", highlight=False, soft_wrap=True)
    console.print(
        f"{totals.texts} texts, {totals.tokens} tokens in {seconds:.1f} s: {totals.texts / max(seconds, 1e-9):,.0f} texts/s",
        highlight=False,
        soft_wrap=True,
    )

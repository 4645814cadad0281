"""What was measured, as data, as tables, and as text."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import onnxruntime as ort
from rich.console import Console
from rich.table import Table

from hotfoot import targets
from hotfoot.contract import codec
from hotfoot_build.bench.timing import Ratio
from hotfoot_build.progress import size

NOTHING = "-"


@dataclass(frozen=True)
class Machine:
    """Where it was measured."""

    arch: str
    cpu: str
    cpu_features: tuple[str, ...]
    cores: int
    python: str
    onnxruntime: str

    @classmethod
    def here(cls, cpuinfo: Path = Path("/proc/cpuinfo")) -> Machine:
        """This machine."""
        line = re.search(r"^model name\s*:\s*(.+)$", cpuinfo.read_text(errors="replace"), re.MULTILINE) if cpuinfo.exists() else None
        return cls(
            arch=platform.machine(),
            cpu=line.group(1) if line else platform.processor(),
            cpu_features=tuple(sorted(targets.cpu_features())),
            cores=len(os.sched_getaffinity(0)),
            python=platform.python_version(),
            onnxruntime=ort.__version__,
        )

    def __str__(self) -> str:
        return f"{self.cpu} ({self.arch}: {', '.join(self.cpu_features)}), ONNX Runtime {self.onnxruntime}, Python {self.python}"


@dataclass(frozen=True)
class Time:
    """CPU milliseconds a text at one shape, the way that was fastest, and the ratio to the preset's fastest."""

    shape: str
    ms: float
    way: str
    to_preset: Ratio


@dataclass(frozen=True)
class Row:
    """One contender; no bytes and no quality for the original itself."""

    name: str
    bytes: int | None
    of_fp32: float | None
    quality: dict[str, float]
    times: tuple[Time, ...]


@dataclass(frozen=True)
class Alone:
    """A whole graph, its products and its attention: CPU milliseconds a text, and the whole over the sum of the two."""

    name: str
    shape: str
    whole_ms: float
    gemms_ms: float
    attention_ms: float
    ratio: Ratio


@dataclass(frozen=True)
class ModelReport:
    """One model."""

    model: str
    task: str
    texts: int
    rows: tuple[Row, ...]
    alone: tuple[Alone, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """What `bench passes` found."""

    machine: Machine
    target: str
    rounds: int
    min_seconds: float
    models: tuple[ModelReport, ...]


@dataclass(frozen=True)
class Grid:
    """A table, for a terminal and for a file. `about` is a sentence under it."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    about: str = ""

    def show(self, console: Console) -> None:
        """Print it."""
        table = Table(*self.columns[:1], title=self.title, title_justify="left", title_style="bold")
        for column in self.columns[1:]:
            table.add_column(column, justify="right")
        for row in self.rows:
            table.add_row(*row)
        console.print(table)
        if self.about:
            console.print(self.about, style="dim", soft_wrap=True, highlight=False)

    def markdown(self) -> str:
        """The same in Markdown."""
        head = ["| " + " | ".join(c.replace("\n", " ") for c in self.columns) + " |", "|---" + "|---:" * (len(self.columns) - 1) + "|"]
        body = ["| " + " | ".join(cell.replace("\n", " ") for cell in row) + " |" for row in self.rows]
        return "\n".join([f"### {self.title}", "", *head, *body, *(["", self.about] if self.about else [])]) + "\n"


def grids(report: Report) -> list[Grid]:
    """Every table of a report."""
    return [grid for model in report.models for grid in (_quality(model), _times(model), *_floor(model))]


def _quality(model: ModelReport) -> Grid:
    measures = list(dict.fromkeys(name for row in model.rows for name in row.quality))
    rows = []
    for row in (r for r in model.rows if r.bytes is not None):
        share = NOTHING if row.of_fp32 is None else f"{row.of_fp32:.3f}"
        rows.append((row.name, size(row.bytes or 0), share, *(_figure(row.quality.get(m)) for m in measures)))
    about = f"Agreement with the original over {model.texts} texts."
    return Grid(f"{model.model}: size and answers", ("", "graph", "of fp32", *measures), tuple(rows), about)


def _figure(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.4f}"


def _times(model: ModelReport) -> Grid:
    shapes = [time.shape for time in model.rows[0].times] if model.rows else []
    rows = [(row.name, *(_time(time) for time in row.times)) for row in model.rows]
    about = (
        "CPU milliseconds a text on one thread, and how many times ONNX Runtime's preset that is, with the interval that holds the"
        " median at 95 %. The preset runs a batch as one and text by text; the faster counts."
    )
    return Grid(f"{model.model}: time at so many tokens", ("", *shapes), tuple(rows), about)


def _time(time: Time) -> str:
    return f"{time.ms:.2f} ms\n{time.to_preset}" + (f"\n{time.way}" if time.way else "")


def _floor(model: ModelReport) -> list[Grid]:
    if not model.alone:
        return []
    rows = [
        (a.name, a.shape, f"{a.whole_ms:.2f} ms", f"{a.gemms_ms:.2f} ms", f"{a.attention_ms:.2f} ms", str(a.ratio)) for a in model.alone
    ]
    about = "The whole graph over the sum of its products with weights and its attention (scores, softmax, context), each timed alone."
    columns = ("", "tokens", "whole", "products", "attention", "whole / both")
    return [Grid(f"{model.model}: what is left to fuse", columns, tuple(rows), about)]


def markdown(report: Report) -> str:
    """The whole report as a page."""
    how = f"for target {report.target}: {report.rounds} rounds, each turn at least {report.min_seconds:g} s, all candidates in turn"
    lines = [
        "# What the passes gain and cost",
        "",
        f"Measured by `scripts/bench passes` on {report.machine}, {how}.",
        "",
        "![size and time against agreement with the original](passes.png)",
        "",
    ]
    for grid in grids(report):
        lines += [grid.markdown()]
    notes = [note for model in report.models for note in model.notes]
    lines += [*(["### Left out", ""] if notes else []), *(f"- {note}" for note in notes), *([""] if notes else [])]
    return "\n".join(lines)


def show(report: Report, console: Console) -> None:
    """Print every table and note."""
    for grid in grids(report):
        grid.show(console)
    for model in report.models:
        for note in model.notes:
            console.print(f"left out: {note}", highlight=False, soft_wrap=True)


def tell(report: object, grids: Sequence[Grid], page: str, out: Path, name: str, console: Console) -> None:
    """Print the tables, and `write` the rest into `out`, which is made where there is none."""
    for grid in grids:
        grid.show(console)
    out.mkdir(parents=True, exist_ok=True)
    write(report, page, out, name)


def write(report: object, page: str, out: Path, name: str) -> None:
    """The data as `name`.json and the page as `name`.md in `out`."""
    (out / f"{name}.json").write_text(codec.dumps(report), encoding="utf-8")
    (out / f"{name}.md").write_text(page, encoding="utf-8")

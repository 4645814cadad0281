"""The arithmetic over cold starts: what each part of one took, so that the parts are the whole, and the medians over several."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hotfoot.settings import MB_PER_VCPU, MIB
from hotfoot_build.cold import probe

CLIENT, OTHER = "client", "other"
# of the labels that are no import: in the order in which a start has them, and what they are
STEPS: Mapping[str, str] = {
    CLIENT: "interpreter and AWS's client",
    "open": "manifest and files",
    "session": "session",
    "tokenizer": "tokenizer",
    "warm-up": "warm-up",
    "app": "routes",
    probe.ANSWER: "first answer",
    OTHER: "not attributed",  # the emulator's own work, the client's between init and answer, the probe outside what it times
}
SMALL = 0.02  # of a start: imports that take less share one row
FEW = "smaller packages"
ESTIMATED_MB = (512, 1024)
BUSY = 1.5  # wall to CPU time, from which on a start mostly waited


@dataclass(frozen=True)
class Spent:
    """Wall seconds, and the CPU seconds of all threads meanwhile."""

    wall_s: float
    cpu_s: float


@dataclass(frozen=True)
class Start:
    """One cold start: from sending the first event to its answer, its parts by label, which add up to it, and its highest memory.

    own_s: wall seconds that the probe's clock took, which are in the parts.
    """

    wall_s: float
    cpu_s: float
    peak_bytes: int
    own_s: float
    parts: Mapping[str, Spent]


@dataclass(frozen=True)
class Figure:
    """Median and range over the starts."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Row:
    """A part of the start over all starts. label is the probe's, or FEW."""

    label: str
    name: str
    wall_s: Figure
    cpu_s: Figure


@dataclass(frozen=True)
class Budget:
    """What `cold.json` holds: what was started where, and what it took. rows are in the order of a start, imports dearest first.

    missing: what of the runtime could not be timed by itself, as this bundle's has no such name.
    """

    model_id: str
    model_digest: str
    target: str
    python: str
    memory_mb: int
    threads: int
    cpu: str
    cores: int
    asked: str
    bytecode: bool
    missing: tuple[str, ...]
    wall_s: Figure
    cpu_s: Figure
    peak_bytes: Figure
    own_s: Figure
    rows: tuple[Row, ...]
    starts: tuple[Start, ...]


def start_of(report: Mapping[str, Any], *, wall_s: float, init_s: float, peak_bytes: int) -> Start:
    """A start out of the probe's report, the host's wall seconds for the first answer, and the seconds of init in AWS's own trace.

    Interpreter and client are what init took beside the probe's module. What nobody accounts for is a part of its own.
    """
    cpu_s: float = report["cpu_s"]
    parts = {CLIENT: Spent(init_s - report["ready_s"], report["first_cpu_s"])}
    parts |= {label: Spent(*pair) for label, pair in report["spent"].items()}
    rest = Spent(wall_s - sum(p.wall_s for p in parts.values()), cpu_s - sum(p.cpu_s for p in parts.values()))
    return Start(wall_s, cpu_s, peak_bytes, report["own_s"], parts | {OTHER: rest})


def figure(numbers: Iterable[float]) -> Figure:
    """Median and range of at least one number."""
    every = list(numbers)
    return Figure(statistics.median(every), min(every), max(every))


def rows(starts: Sequence[Start], *, small: float = 0.0) -> tuple[Row, ...]:
    """A row a part, in the order of a start. Imports of less than `small` of the median start, if there are two or more, are one row."""
    labels = list(dict.fromkeys(label for start in starts for label in start.parts))
    imports = sorted((label for label in labels if label.startswith(probe.IMPORT)), key=lambda label: -_wall(starts, (label,)).median)
    least = small * figure(start.wall_s for start in starts).median
    few = [label for label in imports if _wall(starts, (label,)).median < least]
    groups: dict[str, tuple[str, ...]] = {label: (label,) for label in imports if len(few) < 2 or label not in few}
    if len(few) > 1:
        groups[FEW] = tuple(few)
    before, *after = [label for label in STEPS if label in labels]
    ordered = {before: (before,), **groups, **{label: (label,) for label in after}}
    return tuple(Row(label, _name(label, group), _wall(starts, group), _cpu(starts, group)) for label, group in ordered.items())


def _name(label: str, group: tuple[str, ...]) -> str:
    if label == FEW:
        return f"import {len(group)} {FEW}"
    return STEPS.get(label, label)


def _wall(starts: Sequence[Start], labels: tuple[str, ...]) -> Figure:
    return _over(starts, labels, lambda part: part.wall_s)


def _cpu(starts: Sequence[Start], labels: tuple[str, ...]) -> Figure:
    return _over(starts, labels, lambda part: part.cpu_s)


def _over(starts: Sequence[Start], labels: tuple[str, ...], of: Callable[[Spent], float]) -> Figure:
    return figure(sum(of(start.parts[label]) for label in labels if label in start.parts) for start in starts)


def estimates(budget: Budget) -> dict[int, float]:
    """Seconds that the CPU time of a start takes at the CPU share of a function's memory, by MB of functions below one vCPU.

    An estimate, not a measurement. Sizes that the peak does not fit in are left out.
    """
    sizes = [memory for memory in ESTIMATED_MB if budget.peak_bytes.high < memory * MIB]
    return {memory: budget.cpu_s.median * MB_PER_VCPU / memory for memory in sizes}


def waited(budget: Budget) -> float | None:
    """How many times its CPU time a start took, where that is so much that this machine had something else to do."""
    times = budget.wall_s.median / budget.cpu_s.median
    return times if times >= BUSY else None

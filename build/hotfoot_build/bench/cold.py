"""What a cold start costs: whole processes from their start to the first answer, beside those of other ways to the same vector.

CPU time is what Lambda's cold start is made of at one vCPU; and on a machine that others use, a neighbour's turn is not in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hotfoot.contract import bundle as bundles
from hotfoot.contract.errors import UnsupportedError
from hotfoot_build.bench import case, cold_imports, cold_memory, cold_starts
from hotfoot_build.bench.case import Case
from hotfoot_build.bench.cold_imports import ZIPPED, Imports
from hotfoot_build.bench.cold_memory import Memory
from hotfoot_build.bench.cold_starts import Row
from hotfoot_build.bench.report import Machine
from hotfoot_build.progress import Progress, size

TASK = "feature-extraction"
# how many times hotfoot's CPU each peer must take at least
TIMES = {"sentence_transformers": 16.0, "optimum": 16.0, "fastembed": 1 / 0.75}
MOST_BYTES = 115e6
MOST_ZIPPED = 1.10  # of the imports as bundled
MOST_DRIFT = 0.05  # of memory, after the first requests


@dataclass(frozen=True)
class Bar:
    """Something that must hold, what was found, and whether it holds: of a ratio, whether its whole interval does."""

    what: str
    found: str
    met: bool


@dataclass(frozen=True)
class ColdReport:
    """What `bench cold` found. tokens: of the text that is asked for."""

    machine: Machine
    model: str
    target: str
    python: str
    tokens: int
    runs: int
    starts: tuple[Row, ...]
    imports: tuple[Imports, ...]
    memory: tuple[Memory, ...]
    bars: tuple[Bar, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Wanted:
    """What `scripts/bench cold` was asked for."""

    bundle: Path
    model: str
    folders: tuple[Path, ...]
    out: Path
    runs: int
    peers: bool
    samples: Path | None = None
    requests: int = cold_memory.REQUESTS
    every: int = cold_memory.EVERY


def run(wanted: Wanted, progress: Progress) -> ColdReport:
    """Measure the bundle and its peers. Raises UnsupportedError for a bundle of another task, ParityError where answers disagree."""
    bundle = bundles.read(wanted.bundle)
    if bundle.task != TASK:
        raise UnsupportedError(f"the bundle in {wanted.bundle} is for {bundle.task or 'an unknown task'}; its peers make vectors.")
    one = case.open_case(*case.named(wanted.model, wanted.folders), wanted.samples, progress)
    chosen = typical_text(one)
    with progress.step("peers") as step:
        ways, notes = cold_starts.candidates(wanted.bundle, one, one.original.samples.texts[chosen], wanted.out, step, peers=wanted.peers)
        step.result = ", ".join(way.name for way in ways[1:]) or "none"
    with progress.step("starts") as step:
        starts = cold_starts.measure(ways, one.original.reference.outputs[chosen], wanted.runs, step)
        step.result = ", ".join(f"{row.name} {row.cpu_s:.2f} s" for row in starts)
    with progress.step("imports") as step:
        imports = cold_imports.measure(wanted.bundle, wanted.runs, step)
        step.result = ", ".join(f"{tree.name} {tree.to_bundled.median:.2f}" for tree in imports)
    with progress.step("memory") as step:
        memory = cold_memory.measure(wanted.bundle, one.original.samples.texts, step, requests=wanted.requests, every=wanted.every)
        step.result = ", ".join(f"{kind.name} {kind.drift:.1%} of drift" for kind in memory)
    found = tuple(bars(starts, imports, memory))
    tokens = len(one.original.reference.ids[chosen])
    return ColdReport(
        Machine.here(), one.name, bundle.target, bundle.python, tokens, wanted.runs, starts, imports, memory, found, tuple(notes)
    )


def typical_text(one: Case) -> int:
    """Which of the samples to ask for: one of middle length."""
    lengths = [len(ids) for ids in one.original.reference.ids[: len(one.original.samples.texts)]]
    return sorted(range(len(lengths)), key=lambda i: (lengths[i], i))[len(lengths) // 2]


def bars(starts: Sequence[Row], imports: Sequence[Imports], memory: Sequence[Memory]) -> Iterator[Bar]:
    """Every bar that these figures can be held to. Of a peer as it comes and with one thread, the leaner one counts."""
    for peer, least in TIMES.items():
        if rows := [row for row in starts if row.peer == peer]:
            row = min(rows, key=lambda row: row.cpu.median)
            yield Bar(f"CPU to the first answer: {row.name} takes {least:.2f} times hotfoot's, or more", str(row.cpu), row.cpu.low >= least)
    most = starts[0].most_bytes
    yield Bar(f"memory at most: {size(MOST_BYTES)} in any start", size(most), most <= MOST_BYTES)
    zipped = next(tree.to_bundled for tree in imports if tree.name == ZIPPED)
    yield Bar(f"imports {ZIPPED}: {MOST_ZIPPED:.2f} times those as bundled, or less", str(zipped), zipped.high <= MOST_ZIPPED)
    for kind in memory:
        what = f"memory from request {kind.requests[0]} to {kind.requests[-1]}, {kind.name}: within {MOST_DRIFT:.0%}"
        yield Bar(what, f"{kind.drift:.1%}", kind.drift <= MOST_DRIFT)

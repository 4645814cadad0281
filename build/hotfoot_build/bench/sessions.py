"""What each setting of a session costs and gains: one changed at a time, each in a process of its own, timed in turn."""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from hotfoot import targets
from hotfoot.batching import BATCH_SCORES, BATCH_TOKENS
from hotfoot.contract import codec
from hotfoot.contract.errors import UnsupportedError
from hotfoot.contract.platforms import LAMBDA_SESSION
from hotfoot.contract.target import SessionSpec
from hotfoot_build.bench import case, contenders, timing
from hotfoot_build.bench.case import Case, Shape
from hotfoot_build.bench.peer import Peer
from hotfoot_build.bench.report import Grid, Machine
from hotfoot_build.bench.timing import Ratio
from hotfoot_build.progress import Progress

SHAPES = (Shape(1, 16), Shape(1, 128), Shape(8, 128))
MIXED = range(384, 0, -16)  # every length once, longest first as the runtime has it: what an endpoint sees over a while
IDLE_S, IDLES = 0.5, 3
PROCESSES = 3  # for memory
PRECISION = "int8"

SPIN, STOP = "session.intra_op.allow_spinning", "session.force_spinning_stop"
BLOCKS, NO_PREPACKING = "session.dynamic_block_base", "session.disable_prepacking"


@dataclass(frozen=True)
class Setting:
    """One way to open a session."""

    name: str
    threads: int
    session: SessionSpec


@dataclass(frozen=True)
class Group:
    """Settings that are compared with the first of them, by CPU time on one thread and by wall time on several."""

    name: str
    clock: str
    settings: tuple[Setting, ...]


@dataclass(frozen=True)
class Spent:
    """Milliseconds a text by the group's clock and of CPU; ratio to the group's first setting."""

    shape: str
    ms: float
    cpu_ms: float
    ratio: Ratio


@dataclass(frozen=True)
class Memory:
    """Bytes that the session took: when opened, at most while it ran texts of many lengths, and when it had."""

    opened: int
    peak: int
    after: int


@dataclass(frozen=True)
class Result:
    """One setting, measured. idle_cpu_ms: CPU of the process in half a second after a run. load: CPU milliseconds to open."""

    setting: str
    threads: int
    session: SessionSpec
    load_ms: float
    load_ratio: Ratio
    memory: Memory
    idle_cpu_ms: float
    times: tuple[Spent, ...]


@dataclass(frozen=True)
class SessionReport:
    """What `bench sessions` found, by group."""

    machine: Machine
    model: str
    rounds: int
    min_seconds: float
    groups: Mapping[str, tuple[Result, ...]]


def groups(base: SessionSpec, cores: int) -> list[Group]:
    """One thread; and two, where there are two cores. `base` comes first and every other differs from it by what its name says."""
    arena, pattern = replace(base, cpu_arena=not base.cpu_arena), replace(base, mem_pattern=not base.mem_pattern)
    with_arena, with_pattern = f"cpu_arena {_other(base.cpu_arena)}", f"mem_pattern {_other(base.mem_pattern)}"
    one = (
        Setting("as on Lambda", 1, base),
        Setting(with_arena, 1, arena),
        Setting(with_pattern, 1, pattern),
        Setting(f"{with_arena}, {with_pattern}", 1, replace(arena, mem_pattern=pattern.mem_pattern)),
        Setting("prepacking off", 1, _with(base, {NO_PREPACKING: "1"})),
    )
    two = (
        Setting("as on Lambda", 2, base),
        Setting("one thread", 1, base),
        Setting(with_arena, 2, arena),
        Setting("spinning", 2, _with(base, {SPIN: "1"})),
        Setting("spinning, stopped after a run", 2, _with(base, {SPIN: "1", STOP: "1"})),
        Setting("dynamic_block_base 4", 2, _with(base, {BLOCKS: "4"})),
        Setting("dynamic_block_base 16", 2, _with(base, {BLOCKS: "16"})),
    )
    found = [Group("one thread, CPU time", "cpu", one)]
    return [*found, Group("two threads, wall time", "wall", two)] if cores > 1 else found


def _other(on: bool) -> str:
    return "off" if on else "on"


def _with(base: SessionSpec, config: Mapping[str, str]) -> SessionSpec:
    return replace(base, config={**base.config, **config})


@dataclass(frozen=True)
class Wanted:
    """What `scripts/bench sessions` was asked for."""

    model: str
    folders: tuple[Path, ...]
    out: Path
    rounds: int
    min_seconds: float
    shapes: tuple[Shape, ...] = SHAPES
    samples: Path | None = None


def run(wanted: Wanted, progress: Progress) -> SessionReport:
    """Build the int8 artifact and measure every setting on it. Raises what building raises."""
    one = case.open_case(*case.named(wanted.model, wanted.folders), wanted.samples, progress)
    made, notes = contenders.artifacts(one, targets.local(), [PRECISION], wanted.out / one.name, progress)
    if not made:
        raise UnsupportedError(notes[0])
    machine = Machine.here()
    found = {g.name: _measure(g, made[0].graph.parent, one, wanted, progress) for g in groups(LAMBDA_SESSION, machine.cores)}
    return SessionReport(machine, one.name, wanted.rounds, wanted.min_seconds, found)


def _measure(group: Group, artifact: Path, one: Case, wanted: Wanted, progress: Progress) -> tuple[Result, ...]:
    mixed = [tokens for tokens in MIXED if one.fits(Shape(1, tokens))]
    shapes = {str(s): [s.tokens] * s.batch for s in wanted.shapes if one.fits(s)} | {"mixed": mixed}
    with progress.step("memory") as step:
        memory = []
        for setting in group.settings:
            step(setting.name)
            memory.append(_memory(setting, artifact, [*shapes.values(), *_largest(one)]))
        step.result = _by_setting(group, [f"{m.peak / 1e6:.0f} MB" for m in memory])
    with ExitStack() as stack:
        peers = [stack.enter_context(_peer(setting, artifact)) for setting in group.settings]
        for peer, setting in zip(peers, group.settings, strict=True):
            _open(peer, setting)
        idle = [_idle(peer, mixed) for peer in peers]
        times: list[list[Spent]] = [[] for _ in peers]
        for shape, tokens in shapes.items():
            with progress.step("time") as step:
                step(f"{group.name}: {shape}")
                found = _times(peers, {"run": tokens}, len(tokens), group.clock, wanted)
                for spent, figures in zip(times, found, strict=True):
                    spent.append(Spent(shape, *figures))
                step.result = f"{shape}: {_by_setting(group, [f'{ratio.median:.2f}' for *_, ratio in found])}"
        with progress.step("load") as step:
            load = _times(peers, {"open": True}, 1, "cpu", wanted)
            step.result = _by_setting(group, [f"{ratio.median:.2f}" for *_, ratio in load])
    rows = zip(group.settings, load, memory, idle, times, strict=True)
    return tuple(Result(s.name, s.threads, s.session, ms, ratio, m, i, tuple(t)) for s, (ms, _, ratio), m, i, t in rows)


def _by_setting(group: Group, figures: Sequence[str]) -> str:
    return ", ".join(f"{setting.name} {figure}" for setting, figure in zip(group.settings, figures, strict=True))


def _peer(setting: Setting, artifact: Path) -> Peer:
    command = [sys.executable, "-m", f"{__package__}.session_peer", str(artifact)]
    return Peer(setting.name, command, os.environ)


def _memory(setting: Setting, artifact: Path, texts: Sequence[Sequence[int]]) -> Memory:
    """Of fresh processes that open the session and run `texts` once; the median of each figure."""
    found = []
    for _ in range(PROCESSES):
        with _peer(setting, artifact) as peer:
            opened = _open(peer, setting)
            said = [peer.ask(run=tokens) for tokens in texts][-1]
            found.append([count - opened["before"] for count in (opened["now"], said["peak"], said["now"])])
    return Memory(*(int(statistics.median(counts)) for counts in zip(*found, strict=True)))


def _open(peer: Peer, setting: Setting) -> dict[str, Any]:
    return peer.ask(threads=setting.threads, session=codec.plain(setting.session))


def _largest(one: Case) -> list[list[int]]:
    """The largest runs that the runtime makes, at several lengths."""
    lengths = [tokens for tokens in (512, 256, 128, 64) if one.fits(Shape(1, tokens))]
    return [[tokens] * min(BATCH_TOKENS // tokens, BATCH_SCORES // tokens**2) for tokens in lengths]


def _idle(peer: Peer, tokens: list[int]) -> float:
    """CPU milliseconds while nothing is asked: what a pool burns after its work."""
    found = []
    for _ in range(IDLES):
        peer.ask(run=tokens)
        found.append(1e3 * float(peer.ask(idle=IDLE_S)["cpu"]))
    return statistics.median(found)


def _times(peers: Sequence[Peer], message: Mapping[str, Any], texts: int, clock: str, wanted: Wanted) -> list[tuple[float, float, Ratio]]:
    """Milliseconds a text by the clock and of CPU, and the ratio to the first peer's: every peer is asked the same, in turn.

    What a peer says that it took is what counts, not the way there.
    """
    before = [(peer.cpu, peer.wall) for peer in peers]
    samples = timing.interleaved(
        {str(number): partial(peer.run, **message) for number, peer in enumerate(peers)},
        rounds=wanted.rounds,
        min_seconds=wanted.min_seconds,
        clock=lambda: float(sum(getattr(peer, clock) for peer in peers)),
    )
    found = []
    for peer, (cpu, wall), values in zip(peers, before, samples.values(), strict=True):
        ms = 1e3 * timing.typical(values) / texts
        share = 1.0 if clock == "cpu" else (peer.cpu - cpu) / (peer.wall - wall)
        found.append((ms, ms * share, timing.ratio(values, samples["0"])))
    return found


def grids(report: SessionReport) -> list[Grid]:
    """A table a group."""
    found = []
    for name, results in report.groups.items():
        shapes = [spent.shape for spent in results[0].times]
        rows = tuple((r.setting, *(_spent(spent) for spent in r.times)) for r in results)
        clock = "ms a text" + (" (of CPU)" if any(s.cpu_ms != s.ms for r in results for s in r.times) else "")
        found.append(Grid(f"{name}: texts of so many tokens", ("", *shapes), rows, f"{clock}, and how many times the first line's."))
        rows = tuple(
            (r.setting, f"{r.load_ms:.1f} ms\n{r.load_ratio}", *_memory_cells(r.memory), f"{r.idle_cpu_ms:.1f} ms") for r in results
        )
        columns = ("", "CPU to open", "MB opened", "MB at most", "MB after", "CPU idle")
        found.append(Grid(f"{name}: the rest", columns, rows, "Idle: what the process burns in half a second after a run."))
    return found


def _memory_cells(memory: Memory) -> tuple[str, ...]:
    return tuple(f"{1e-6 * count:.0f}" for count in (memory.opened, memory.peak, memory.after))


def _spent(spent: Spent) -> str:
    cpu = "" if spent.cpu_ms == spent.ms else f" ({spent.cpu_ms:.2f})"
    return f"{spent.ms:.2f} ms{cpu}\n{spent.ratio}"


def markdown(report: SessionReport) -> str:
    """The report as a page."""
    how = f"{report.rounds} rounds, each turn at least {report.min_seconds:g} s, a process a setting, all in turn"
    what = f"Measured by `scripts/bench sessions` on {report.machine}, {report.model} in {PRECISION}: {how}."
    return "\n".join(["# What each session setting does", "", what, "", *(grid.markdown() for grid in grids(report))])

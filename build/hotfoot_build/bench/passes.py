"""What the passes gain and cost: every precision of the target beside ONNX Runtime's preset, in one interleaved run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import onnxruntime as ort

from hotfoot import targets
from hotfoot.contract.errors import ParityError, PassError, UnsupportedError
from hotfoot.contract.target import Target
from hotfoot_build import environment
from hotfoot_build.bench import alone, case, contenders, quality, timing
from hotfoot_build.bench.case import Case, Shape
from hotfoot_build.bench.contenders import PRESET, Contender
from hotfoot_build.bench.peer import Peer
from hotfoot_build.bench.quality import Yardsticks
from hotfoot_build.bench.report import Alone, Machine, ModelReport, Report, Row, Time
from hotfoot_build.bench.timing import Candidate, Clock, Samples
from hotfoot_build.progress import Progress, size

TORCH = "PyTorch"


@dataclass(frozen=True)
class Wanted:
    """What `scripts/bench passes` was asked for."""

    models: tuple[str, ...]
    folders: tuple[Path, ...]
    out: Path
    rounds: int
    min_seconds: float
    quick: bool = False
    torch: bool = False
    shapes: tuple[Shape, ...] = case.SHAPES
    samples: Path | None = None
    target: str = targets.LOCAL


def run(wanted: Wanted, progress: Progress) -> Report:
    """Measure every model. Raises InputError for a model that is not there, and what resolving and exporting raise."""
    target = targets.load(wanted.target)
    chosen = [case.named(name, wanted.folders) for name in wanted.models]
    reports = [_model(case.open_case(*one, wanted.samples, progress), target, wanted, progress) for one in chosen]
    return Report(Machine.here(), target.name, wanted.rounds, wanted.min_seconds, tuple(reports))


def _model(one: Case, target: Target, wanted: Wanted, progress: Progress) -> ModelReport:
    out = wanted.out / one.name
    out.mkdir(parents=True, exist_ok=True)
    rows, notes = contenders.artifacts(one, target, target.recipes, out, progress)
    if not rows:
        raise UnsupportedError("; ".join(notes))
    with progress.step("preset") as step:
        rows.append(contenders.preset(one, rows[0], out))
        step.result = f"{size(rows[-1].bytes)}, quantize_dynamic of onnxruntime {ort.__version__}"
    sticks = quality.yardsticks(one, quick=wanted.quick)
    found = {row.name: _quality(row, sticks, notes, progress) for row in rows}
    shapes = [s for s in wanted.shapes if one.fits(s)]
    times = _times(one, rows, shapes, wanted, progress)
    floor = [a for row in rows if row.name.startswith("int8") for a in _floor(one, row, target, shapes, wanted, notes, progress)]
    whole = {row.name: row.bytes for row in rows}
    table = [Row(name, whole.get(name), _share(whole, name), found.get(name, {}), times[name]) for name in times]
    every = (*notes, *sticks.notes, *(f"{one.name} has no positions for {s} tokens" for s in wanted.shapes if not one.fits(s)))
    return ModelReport(one.name, one.task_name, len(sticks.samples.texts), tuple(table), tuple(floor), every)


def _quality(row: Contender, sticks: Yardsticks, notes: list[str], progress: Progress) -> dict[str, float]:
    """The row's measures; none, and a note, where its answers cannot be compared."""
    with progress.step("quality") as step:
        try:
            found = quality.measure(row.model, sticks)
        except ParityError as error:
            found = {}
            notes.append(f"the answers of {row.name}: {error.message}")
        step.result = f"{row.name}: " + ", ".join(f"{name} {value:.5f}" for name, value in found.items())
    return found


def _share(sizes: Mapping[str, int], name: str) -> float | None:
    """Bytes as a share of fp32's; None where there is no such file."""
    return sizes[name] / sizes["fp32"] if name in sizes and "fp32" in sizes else None


def _times(
    one: Case, rows: Sequence[Contender], shapes: Sequence[Shape], wanted: Wanted, progress: Progress
) -> dict[str, tuple[Time, ...]]:
    """By name, a figure a shape."""
    found: dict[str, list[Time]] = {}
    with _torch(one, shapes, wanted, progress) as peer:
        clock = timing.clock_for(1) if peer is None else _with_peer(timing.clock_for(1), peer)
        for index, shape in enumerate(shapes):
            with progress.step("time") as step:
                inputs = one.inputs(shape)
                ways = {(row.name, way): call for row in rows for way, call in row.ways(inputs).items()}
                if peer is not None:
                    ways[TORCH, ""] = partial(peer.run, run=index)
                names = {f"{name} {way}": (name, way) for name, way in ways}
                step(f"{shape} tokens, {len(ways)} candidates, {wanted.rounds} rounds")
                samples = _interleaved({label: ways[key] for label, key in names.items()}, wanted, clock)
                made = _best(shape, {names[label]: values for label, values in samples.items()})
                for name, time in made.items():
                    found.setdefault(name, []).append(time)
                step.result = f"{shape}: " + ", ".join(f"{name} {time.ms:.2f} ms" for name, time in made.items())
    return {name: tuple(times) for name, times in found.items()}


def _interleaved(candidates: Mapping[str, Candidate], wanted: Wanted, clock: Clock) -> Samples:
    return timing.interleaved(candidates, rounds=wanted.rounds, min_seconds=wanted.min_seconds, clock=clock)


def _best(shape: Shape, samples: Mapping[tuple[str, str], tuple[float, ...]]) -> dict[str, Time]:
    """Of each contender the way that is fastest by the median, and its ratio to the preset's fastest."""
    fastest: dict[str, str] = {}
    for name, way in sorted(samples, key=lambda key: timing.typical(samples[key])):
        fastest.setdefault(name, way)
    bar = samples[PRESET, fastest[PRESET]]
    order = dict.fromkeys(name for name, _ in samples)
    best = {name: samples[name, fastest[name]] for name in order}
    return {
        name: Time(str(shape), 1e3 * timing.typical(values) / shape.batch, fastest[name], timing.ratio(values, bar))
        for name, values in best.items()
    }


def _floor(
    one: Case, row: Contender, target: Target, shapes: Sequence[Shape], wanted: Wanted, notes: list[str], progress: Progress
) -> Iterator[Alone]:
    """The whole graph against its products and attention alone; a note for a graph that has none of one of them."""
    session = contenders.open_graph(row.graph, target)
    for shape in shapes:
        feed = contenders.feed(session, one.inputs(shape))
        try:
            isolated = alone.isolate(row.graph, target, feed)
        except PassError as error:
            notes.append(f"the floor of {row.name}: {error.message}")
            return
        with progress.step("floor") as step:
            candidates: dict[str, Candidate] = {"whole": partial(session.run, None, feed), **isolated}
            samples = _interleaved(candidates, wanted, timing.clock_for(1))
            together = [a + b for a, b in zip(samples["gemms"], samples["attention"], strict=True)]
            ratio = timing.ratio(samples["whole"], together)
            ms = {name: 1e3 * timing.typical(values) / shape.batch for name, values in samples.items()}
            step.result = f"{row.name} at {shape}: {ratio} times its products and attention alone"
        yield Alone(row.name, str(shape), ms["whole"], ms["gemms"], ms["attention"], ratio)


@contextmanager
def _torch(one: Case, shapes: Sequence[Shape], wanted: Wanted, progress: Progress) -> Iterator[Peer | None]:
    """The original in the export environment, fed; None where nobody asked for it."""
    if not wanted.torch:
        yield None
        return
    with ExitStack() as stack, progress.step("torch") as step:
        interpreter = environment.python(step)
        script = Path(__file__).with_name("torch_peer.py")
        # -P: the modules beside the script must not stand in for the packages that it imports
        command = [str(interpreter), "-P", str(script), str(one.snapshot.path), one.task.export.auto_class, "1"]
        environ = {k: v for k, v in os.environ.items() if k not in ("PYTHONHOME", "PYTHONPATH")}
        peer = stack.enter_context(Peer("PyTorch", command, environ))
        peer.ask(feeds=[[e.ids.tolist() for e in one.inputs(shape)] for shape in shapes])
        kept = stack.pop_all()
        step.result = "the original model, on one thread"
    with kept:
        yield peer


def _with_peer(clock: Clock, peer: Peer) -> Clock:
    return lambda: clock() + peer.cpu

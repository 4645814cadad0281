"""`--precision auto`: few recipes, in order of how much is known of them, each built and measured as any artifact is."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from hotfoot import targets
from hotfoot.contract.errors import ParityError, PassError, UnsupportedError
from hotfoot.contract.target import Target
from hotfoot.model import Model
from hotfoot_build import damage, graph, parity, passes, stage, weights
from hotfoot_build.bench.timing import Ratio, clock_for
from hotfoot_build.damage import Report
from hotfoot_build.original import Original
from hotfoot_build.parity import Metric
from hotfoot_build.progress import Progress, silent, size
from hotfoot_build.search.climb import Ready, Tried, climb
from hotfoot_build.stage import Plan

GATE = "int8"  # whose thresholds a recipe is held to, whatever its precision: what users of quantized models accept
FOREIGN = "the first of these inside the gate, in this order: int8, int8 with layers kept in fp32, int8-weights, fp16, fp32"
KERNELS = frozenset({"vnni", "i8mm"})  # CPU features that decide how fast integers are multiplied
OTHERS = ("int8-weights", "int8-static", "int8-dynamic", "fp16", "int4-weights")
KEPT = (1, 2, 4, 8)  # layers in fp32, where int8 alone is not inside the gate
TIMED_TEXTS = 12  # of the build's, from the shortest to the longest


@dataclass(frozen=True)
class Recipe:
    """What can be asked of a build: a precision, and settings of its passes."""

    precision: str
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """For tables and plots."""
        kept = self.options.get("mixed", {}).get("layers", ())
        plain = self.options.get("int8_rowwise", {}).get("smooth") == 0
        return f"{self.precision}{f', {len(kept)} in fp32' if kept else ''}{', not smoothed' if plain else ''}"


@dataclass(frozen=True)
class Trial:
    """One recipe as it was measured. error: why it could not be built or run. ms: CPU milliseconds a text, where time can be told.

    ratio: its time over that of the recipe that led then. chosen: it is the one that is built.
    """

    recipe: Recipe
    metrics: tuple[Metric, ...] = ()
    bytes: int = 0
    right: bool = False
    error: str = ""
    ms: float | None = None
    ratio: Ratio | None = None
    chosen: bool = False


@dataclass(frozen=True)
class Found:
    """The recipe to build, every trial in order, the rule that chose, and what each layer costs in int8 where that was looked at."""

    recipe: Recipe
    trials: tuple[Trial, ...]
    rule: str
    damage: Report | None = None


def times_here(target: Target) -> bool:
    """Whether this machine multiplies as the target does, so that its times say something of the target's."""
    have = targets.cpu_features()
    return target.arch == targets.machine_arch() and have.issuperset(target.isa) and KERNELS & have == KERNELS & set(target.isa)


def find(plan: Plan, original: Original, overrides: Mapping[str, float], progress: Progress) -> Found:
    """Try recipes and choose. Raises ParityError where not even fp32 is inside the gate, UnsupportedError where nothing could be built."""
    timed, tried = times_here(plan.target), list[Tried[Trial]]()
    wanted = parity.thresholds(plan.task, GATE, overrides)
    with ExitStack() as rooms, progress.step("search") as step:
        attempt = _Attempt(plan, original, wanted, rooms, step, timed)
        order = _to_time(attempt) if timed else _by_rule(attempt, tried)
        best = climb(order, tried, clock_for(1), step)
        trials = tuple(_measured(t, chosen=best is not None and t.what.recipe == best.recipe) for t in tried)
        if best is None:
            said = "\n".join(f"  {t.recipe.label}: {t.error or _missed(t)}" for t in trials)
            raise ParityError(f"no recipe is inside the gate:\n{said}", hint="Lower a bar with --threshold NAME=VALUE.")
        step.result = f"{best.recipe.label} of {len(trials)} recipes"
    rule = (
        f"over 5 % faster on this machine, surely, and inside {GATE}'s gate"
        if timed
        else f"no times for {plan.target.name} here: {FOREIGN}"
    )
    return Found(best.recipe, trials, rule, attempt.damage)


def _measured(tried: Tried[Trial], *, chosen: bool) -> Trial:
    ms = 1e3 * tried.seconds / TIMED_TEXTS if tried.seconds is not None else None
    return replace(tried.what, ms=ms, ratio=tried.ratio, chosen=chosen)


def _missed(trial: Trial) -> str:
    return ", ".join(f"{m.name} {m.value:.4f} < {m.threshold}" for m in trial.metrics if not m.passed)


@dataclass
class _Attempt:
    """Builds a recipe aside, and measures it through the runtime as the build does."""

    plan: Plan
    original: Original
    wanted: Mapping[str, float]
    rooms: ExitStack
    say: Callable[[str], None]
    timed: bool
    damage: Report | None = None  # what each product costs in int8, once that was asked for

    def __call__(self, recipe: Recipe) -> Ready[Trial]:
        self.say(recipe.label)
        folder = Path(self.rooms.enter_context(tempfile.TemporaryDirectory(prefix="hotfoot-trial-")), "artifact")
        folder.mkdir()
        try:
            stage.write(folder, replace(self.plan, precision=recipe.precision, options=recipe.options), self.original, silent())
            with parity.for_this_host(folder) as runnable:
                model = Model.open(runnable, threads=1, foreign=True)
                found = parity.compare(model, self.original.reference, self.original.samples, self.wanted)
        except (PassError, ParityError, UnsupportedError) as error:
            return Ready(Trial(recipe, error=error.message), right=False, work=None)
        trial = Trial(recipe, found.metrics, weights.size(folder), found.passed)
        self.say(f"{recipe.label}: {size(trial.bytes)}, {_missed(trial) or 'inside the gate'}")
        return Ready(trial, found.passed, _work(model, self.original) if self.timed else None)

    def mixed(self, count: int) -> Recipe:
        """int8 but for the `count` products that cost the most."""
        return Recipe("int8", {"mixed": {"layers": self.worst[:count]}})

    @property
    def worst(self) -> tuple[str, ...]:
        """The products' names, the one that does the most damage in int8 first."""
        self.damage = self.damage or self._measured()
        return self.damage.worst(max(KEPT))

    def _measured(self) -> Report:
        made = stage.recipe(self.plan.target, "int8")
        before, context = made[: made.index("mixed")], stage.context(replace(self.plan, options={}), self.original)
        clean = graph.load(self.original.graph)
        passes.apply(clean, before, context)
        [report] = damage.damage(clean, context, ["int8_rowwise"], say=self.say)
        return report


def _work(model: Model, original: Original) -> Callable[[], object]:
    """Texts from the shortest to the longest, each by itself, as a function gets them."""
    order = np.argsort([len(ids) for ids in original.reference.ids[: len(original.samples.texts)]], kind="stable")
    some = order[np.linspace(0, len(order) - 1, TIMED_TEXTS).round().astype(int)]
    samples, targeted = original.samples, original.reference.targets
    picked = [tuple(every[i] for i in some) if every else () for every in (samples.texts, samples.seconds, targeted)]
    encoded, _ = model.outputs(*picked)
    return lambda: [model.probe((one,)) for one in encoded]


def _to_time(attempt: _Attempt) -> Iterator[Ready[Trial]]:
    """fp32 first, to be beaten; then int8, what hastens it and what mends it; then the others that the target has."""
    known = _precisions(attempt.plan)
    yield attempt(Recipe("fp32"))
    if "int8" in known:
        yield attempt(Recipe("int8"))
    if "int8_rowwise" in known.get("int8", ()):
        yield attempt(Recipe("int8", {"int8_rowwise": {"smooth": 0.0}}))  # two operators a layer fewer
    for count in KEPT if "mixed" in known.get("int8", ()) else ():
        if count <= len(attempt.worst):
            yield attempt(attempt.mixed(count))
    for precision in OTHERS:
        if precision in known:
            yield attempt(Recipe(precision))


def _by_rule(attempt: _Attempt, tried: Sequence[Tried[Trial]]) -> Iterator[Ready[Trial]]:
    """In the order of FOREIGN, as far as it takes to find one that is right."""
    known = _precisions(attempt.plan)
    if "int8" in known:
        yield attempt(Recipe("int8"))
    for count in KEPT if "mixed" in known.get("int8", ()) else ():
        if not any(t.right for t in tried) and count <= len(attempt.worst):
            yield attempt(attempt.mixed(count))
    for precision in ("int8-weights", "fp16", "fp32"):
        if precision in known and not any(t.right for t in tried):
            yield attempt(Recipe(precision))


def _precisions(plan: Plan) -> Mapping[str, tuple[str, ...]]:
    return plan.target.decoder_recipes if plan.task.generate is not None else plan.target.recipes

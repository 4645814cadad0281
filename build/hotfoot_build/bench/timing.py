"""Honest side-by-side times on a machine that others use too.

Two figures taken one after the other differ by what the machine did meanwhile. So candidates run in turn, many times over, and
are compared round by round: what slows a round slows all of its candidates, and their ratio stays.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from hotfoot.contract.errors import InputError

Clock = Callable[[], float]
Candidate = Callable[[], object]
Samples = dict[str, tuple[float, ...]]

LEAST_ROUNDS = 6  # with fewer, not even the widest interval holds the median 95 times in 100
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Ratio:
    """How many times as long one candidate takes as another: the median over the rounds, and the interval that holds it.

    low, high: 95 % confidence by the sign test. It takes no view of how the noise is distributed, and the same samples give the
    same interval. Below 1: the first is faster.
    """

    median: float
    low: float
    high: float
    rounds: int

    def below(self, bar: float) -> bool:
        """The whole interval lies below the bar: at 0.95, that the first is surely over 5 % faster."""
        return self.high < bar

    def above(self, bar: float) -> bool:
        """The whole interval lies above the bar."""
        return self.low > bar

    def significant(self, bar: float = 1.0) -> bool:
        """The whole interval lies on one side of the bar."""
        return self.below(bar) or self.above(bar)

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f}-{self.high:.2f})"


def clock_for(threads: int) -> Clock:
    """CPU time for one thread, as a neighbour's turn is not in it; wall time for several, as waiting for each other counts."""
    return time.process_time if threads == 1 else time.perf_counter


def interleaved(candidates: Mapping[str, Candidate], *, rounds: int, min_seconds: float, clock: Clock) -> Samples:
    """Seconds a call, `rounds` figures a candidate, in step with each other: figure i of all comes from round i.

    Each candidate is warmed up, then has its turn in every round, in an order that changes. A turn is as many calls as fill
    `min_seconds` by `clock`; where these are several, one more comes first and is not counted, as the others have
    emptied the caches. Whatever a candidate raises goes through.
    """
    repeats = {name: _repeats(candidate, min_seconds, clock) for name, candidate in candidates.items()}
    samples: dict[str, list[float]] = {name: [] for name in candidates}
    with _no_collections():
        for number in range(rounds):
            for name in _order(list(candidates), number):
                samples[name].append(_turn(candidates[name], repeats[name], clock))
    return {name: tuple(values) for name, values in samples.items()}


def typical(samples: Sequence[float]) -> float:
    """The figure that stands for all: their median, which no single bad round moves."""
    return statistics.median(samples)


def ratio(first: Sequence[float], second: Sequence[float]) -> Ratio:
    """The first's times over the second's, round by round; both from one `interleaved`. Raises InputError for under 6 rounds."""
    pairs = sorted(a / b for a, b in zip(first, second, strict=True))
    if len(pairs) < LEAST_ROUNDS:
        raise InputError(f"{len(pairs)} round(s) tell nothing for sure; it takes {LEAST_ROUNDS} at least.", where="--rounds")
    outside = _ranks_outside(len(pairs))
    return Ratio(statistics.median(pairs), pairs[outside], pairs[-1 - outside], len(pairs))


def _ranks_outside(count: int) -> int:
    """How many of `count` sorted values may be left out at either end, so that the rest still hold the median with CONFIDENCE.

    Each value is as likely below the true median as above it, so the number below is binomial.
    """
    tail, outside = 0.0, 0
    while True:
        tail += math.comb(count, outside) / 2**count
        if tail > (1 - CONFIDENCE) / 2:
            return outside - 1
        outside += 1


def _repeats(candidate: Candidate, min_seconds: float, clock: Clock) -> int:
    """Calls that fill `min_seconds`; the first, which may set things up, does not count."""
    candidate()
    calls = 1
    while (seconds := _calls(candidate, calls, clock)) < min_seconds:
        # a clock of coarse steps may have seen nothing yet
        calls = max(2 * calls, math.ceil(calls * min_seconds / seconds)) if seconds > min_seconds / 8 else 4 * calls
    return max(1, math.ceil(calls * min_seconds / seconds)) if seconds > 0 else calls


def _turn(candidate: Candidate, repeats: int, clock: Clock) -> float:
    if repeats > 1:
        candidate()
    return _calls(candidate, repeats, clock) / repeats


def _calls(candidate: Candidate, count: int, clock: Clock) -> float:
    start = clock()
    for _ in range(count):
        candidate()
    return clock() - start


def _order(names: list[str], number: int) -> list[str]:
    """Every name is first, second … equally often, and as often before any other as after it."""
    start = number % len(names)
    turned = names[start:] + names[:start]
    return turned[::-1] if number // len(names) % 2 else turned


@contextmanager
def _no_collections() -> Iterator[None]:
    """No garbage is collected meanwhile: it would hit whoever's turn it is."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()

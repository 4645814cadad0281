"""Side-by-side timing, on clocks that tell what the test says."""

from __future__ import annotations

import gc
import math
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import pytest

from hotfoot.contract.errors import InputError
from hotfoot_build.bench import timing


class Machine:
    """A clock, and candidates that move it: by their cost, times how slow the machine is in that round."""

    def __init__(self, slowness: Callable[[float], float] = lambda _now: 1.0, step: float = 0.0) -> None:
        self.now = 0.0
        self.ran: list[str] = []
        self.slowness = slowness
        self.step = step

    def clock(self) -> float:
        return self.now if not self.step else math.floor(self.now / self.step) * self.step

    def candidate(self, name: str, cost: float, first: float = 0.0) -> Callable[[], None]:
        def run() -> None:
            self.now += (cost + (first if name not in self.ran else 0.0)) * self.slowness(self.now)
            self.ran.append(name)

        return run


def blocks(ran: list[str]) -> list[str]:
    """Who had turns, in order: repeats of one name are one turn."""
    return [b for a, b in pairwise(["", *ran]) if a != b]


def test_each_has_as_many_samples_as_rounds_and_they_are_seconds_a_call() -> None:
    machine = Machine()
    samples = timing.interleaved(
        {"a": machine.candidate("a", 0.5), "b": machine.candidate("b", 0.002)}, rounds=7, min_seconds=0.01, clock=machine.clock
    )
    assert {name: len(values) for name, values in samples.items()} == {"a": 7, "b": 7}
    assert samples["a"] == pytest.approx([0.5] * 7)
    assert samples["b"] == pytest.approx([0.002] * 7)


def test_a_turn_fills_the_least_time_and_begins_with_a_call_that_is_not_counted() -> None:
    machine = Machine()
    timing.interleaved(
        {"a": machine.candidate("a", 1.0), "b": machine.candidate("b", 0.25)}, rounds=2, min_seconds=1.0, clock=machine.clock
    )
    turns = "".join(machine.ran[-12:])
    assert turns == "a" + "bbbbb" + "bbbbb" + "a"  # one call of a fills the second; b needs four, and one before them


def test_the_first_call_is_in_no_sample() -> None:
    machine = Machine()
    samples = timing.interleaved({"a": machine.candidate("a", 1.0, first=60.0)}, rounds=3, min_seconds=0.5, clock=machine.clock)
    assert samples["a"] == (1.0, 1.0, 1.0)


def test_a_clock_of_coarse_steps_gets_longer_turns() -> None:
    machine = Machine(step=0.01)
    samples = timing.interleaved({"a": machine.candidate("a", 0.0001)}, rounds=3, min_seconds=0.1, clock=machine.clock)
    assert samples["a"] == pytest.approx([0.0001] * 3, rel=0.15)


def test_nothing_to_fill_is_one_call_a_turn() -> None:
    machine = Machine()
    timing.interleaved({"a": machine.candidate("a", 0.1)}, rounds=4, min_seconds=0.0, clock=machine.clock)
    assert len(machine.ran) == 2 + 4


@pytest.mark.parametrize("count", [2, 3, 4])
def test_the_order_favours_nobody(count: int) -> None:
    names = list("abcd"[:count])
    orders = [timing._order(names, number) for number in range(2 * count)]
    assert all(sorted(order) == names for order in orders)
    for place in range(count):
        assert set(Counter(order[place] for order in orders).values()) == {2}
    for first in names:
        before = Counter(order.index(first) < order.index(other) for order in orders for other in names if other != first)
        assert before[True] == before[False]


def test_the_ratio_stays_when_the_machine_slows_down() -> None:
    machine = Machine(slowness=lambda now: 1.0 + now / 10)
    samples = timing.interleaved(
        {"a": machine.candidate("a", 0.08), "b": machine.candidate("b", 0.1)}, rounds=24, min_seconds=0.0, clock=machine.clock
    )
    assert max(samples["a"]) > 1.3 * min(samples["a"])
    found = timing.ratio(samples["a"], samples["b"])
    assert found.median == pytest.approx(0.8, abs=0.01)
    assert found.below(0.95)


def test_no_garbage_is_collected_meanwhile() -> None:
    seen = []
    machine = Machine()

    def look() -> None:
        machine.now += 1
        seen.append(gc.isenabled())

    timing.interleaved({"a": look}, rounds=2, min_seconds=0.0, clock=machine.clock)
    assert seen == [True, True, False, False]
    assert gc.isenabled()


def test_collection_is_on_again_after_a_failure() -> None:
    calls = []

    def fails_in_the_second_round() -> None:
        calls.append(1)
        if len(calls) == 4:
            raise InputError("no more")

    with pytest.raises(InputError, match="no more"):
        timing.interleaved({"a": fails_in_the_second_round}, rounds=5, min_seconds=0.0, clock=lambda: float(len(calls)))
    assert gc.isenabled()


@pytest.mark.parametrize(("count", "outside"), [(6, 0), (8, 0), (9, 1), (12, 2), (20, 5), (30, 9), (100, 39)])
def test_the_interval_is_the_sign_test_s(count: int, outside: int) -> None:
    """The textbook's ranks: the widest that may be left out at either end at 95 %."""
    assert timing._ranks_outside(count) == outside
    covered = 1 - 2 * sum(math.comb(count, k) for k in range(outside + 1)) / 2**count
    assert covered >= 0.95


def test_ratio_is_paired() -> None:
    # apart, the two overlap throughout; round by round the first is a tenth faster each time
    second = [1.0, 2.0, 3.0, 1.5, 2.5, 9.0, 1.2, 4.0]
    found = timing.ratio([0.9 * s for s in second], second)
    assert (found.median, found.low, found.high) == pytest.approx((0.9, 0.9, 0.9))
    assert found.rounds == 8


def test_one_wild_round_moves_the_interval_little() -> None:
    second = [1.0] * 20
    calm = timing.ratio([0.9 + k / 1000 for k in range(20)], second)
    wild = timing.ratio([0.9 + k / 1000 for k in range(19)] + [500.0], second)
    assert (wild.median, wild.low, wild.high) == (calm.median, calm.low, calm.high)


@pytest.mark.parametrize(("low", "high", "below", "above"), [(0.8, 0.9, True, False), (0.8, 0.96, False, False), (0.96, 1.1, False, True)])
def test_significant_is_wholly_on_one_side(low: float, high: float, below: bool, above: bool) -> None:
    found = timing.Ratio(0.9, low, high, 20)
    assert (found.below(0.95), found.above(0.95), found.significant(0.95)) == (below, above, below or above)


def test_too_few_rounds_are_refused() -> None:
    with pytest.raises(InputError, match=r"--rounds.*6"):
        timing.ratio([1.0] * 5, [1.0] * 5)


def test_one_thread_is_timed_by_cpu_and_several_by_the_wall() -> None:
    import time

    assert timing.clock_for(1) is time.process_time
    assert timing.clock_for(2) is time.perf_counter


def test_a_ratio_reads_as_one() -> None:
    assert str(timing.Ratio(0.756, 0.711, 0.802, 20)) == "0.76 (0.71-0.80)"

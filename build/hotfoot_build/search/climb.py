"""One rule for every search: the first that is right leads, and who comes after must be surely faster to take its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from hotfoot_build.bench.timing import Candidate, Clock, Ratio, interleaved, ratio, typical

T = TypeVar("T")
GAIN = 0.05  # below this a change is not worth a change
ROUNDS, SECONDS = 11, 0.25  # of a comparison: rounds, and the least time a turn takes


@dataclass(frozen=True)
class Tried(Generic[T]):
    """One candidate and what came of it.

    ratio: its time over that of the one who led then; None for the first, and where time cannot be told. seconds: of one call of its
    work, in the comparison that it came with, or the first one's in the next. leads: it took the lead.
    """

    what: T
    right: bool
    ratio: Ratio | None
    seconds: float | None
    leads: bool


@dataclass(frozen=True)
class Ready(Generic[T]):
    """A candidate that was made: whether it is right, and the work that is timed. work is None where time cannot be told here."""

    what: T
    right: bool
    work: Candidate | None


def climb(
    candidates: Iterator[Ready[T]], tried: list[Tried[T]], clock: Clock, say: Callable[[str], None], *, gain: float = GAIN
) -> T | None:
    """Who leads in the end; None where nothing was right.

    candidates: made one after the other, so that the next may depend on what `tried`, which fills up meanwhile, says of those before.
    Where time cannot be told, the first that is right leads.
    """
    leader: Ready[T] | None = None
    at = 0  # where the leader stands in `tried`
    for challenger in candidates:
        if leader is None or not challenger.right or leader.work is None or challenger.work is None:
            leads = leader is None and challenger.right
            tried.append(Tried(challenger.what, challenger.right, None, None, leads))
        else:
            say("timing it beside the best so far")
            found = interleaved({"old": leader.work, "new": challenger.work}, rounds=ROUNDS, min_seconds=SECONDS, clock=clock)
            compared = ratio(found["new"], found["old"])
            leads = compared.below(1 - gain)
            if tried[at].seconds is None:
                tried[at] = replace(tried[at], seconds=typical(found["old"]))
            tried.append(Tried(challenger.what, True, compared, typical(found["new"]), leads))
        leader, at = (challenger, len(tried) - 1) if leads else (leader, at)
    return leader.what if leader is not None else None

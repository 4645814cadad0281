"""When to stop, so that what was answered is written before the platform ends the process."""

from __future__ import annotations

import math
from collections.abc import Callable

from hotfoot.contract.errors import HotfootError

MARGIN_S = 10.0  # kept free before the deadline: to write the last part, and for a run that is slower than those before


class OutOfTimeError(HotfootError):
    """The time ran out. What is written stays; the next attempt goes on behind it.

    further: another attempt is worth its time, for this one wrote something that is there now, or others took its time.
    """

    kind = "overloaded"

    def __init__(self, message: str, *, further: bool = False) -> None:
        super().__init__(message)
        self.further = further


class Deadline:
    """When to stop: before the platform would, with room for one more run of the model as slow as the slowest."""

    def __init__(self, remaining_s: Callable[[], float] = lambda: math.inf) -> None:
        self._remaining_s = remaining_s
        self._margin = min(MARGIN_S, remaining_s() / 4)
        self._slowest, self._worked = 0.0, False

    def is_near(self) -> bool:
        """Whether another run could end too late; 0 s left is near, whatever the margin."""
        return self._remaining_s() <= max(self._margin, 2 * self._slowest)

    def lap(self, seconds: float) -> None:
        """Note what a run of the model took."""
        self._slowest = max(self._slowest, seconds)
        self._worked = True

    @property
    def worked(self) -> bool:
        """Whether the model has run since the deadline was set."""
        return self._worked

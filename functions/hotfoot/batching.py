"""Micro-batches that never change a result.

Two things could make a text's numbers depend on its neighbours: the padded length (vectorised sums take other lanes) and
per-tensor quantization scales. The recipe has no per-tensor scales, and here every text is padded to a length that is a
function of its own length alone. So a text runs at the same shape, row for row, whether it comes alone or in a batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from hotfoot.contract.errors import OutOfTimeError

LENGTH_STEP = 8  # pad to multiples of one AVX2 register of floats: under 8 wasted tokens, and texts of like length share a batch
BATCH_TOKENS = 2048  # padded tokens a run: past this, larger batches gain nothing on a CPU and memory grows with them
BATCH_SCORES = 2 * 512 * 512  # batch x length²: attention scores grow with the square, and they set the peak memory
MARGIN_S = 2.0  # kept free before a deadline: to decode, write and send the answer, and for a batch slower than those before


def padded_length(tokens: int, limit: int) -> int:
    """The length at which a text of `tokens` tokens runs, whatever else is in the batch."""
    return max(tokens, min(limit, -(-tokens // LENGTH_STEP) * LENGTH_STEP))


def plan(lengths: Sequence[int], limit: int, *, together: bool = True) -> list[tuple[int, list[int]]]:
    """Split inputs into runs of equal padded length: (padded length, indices), longest first so that the peak comes at once.

    together: False runs each input alone, for a graph whose operators mix the texts of a batch.
    """
    groups: dict[int, list[int]] = {}
    for index, tokens in enumerate(lengths):
        groups.setdefault(padded_length(tokens, limit), []).append(index)
    runs = []
    for length in sorted(groups, reverse=True):
        size = max(1, min(BATCH_TOKENS // length, BATCH_SCORES // length**2)) if together else 1
        members = groups[length]
        runs += [(length, members[i : i + size]) for i in range(0, len(members), size)]
    return runs


class Deadline:
    """When one request must stop: before the platform would, so that the client hears why. For one thread."""

    def __init__(self, remaining_s: Callable[[], float]) -> None:
        self._remaining_s = remaining_s
        self._margin = min(MARGIN_S, remaining_s() / 4)
        self._slowest = 0.0
        self._started: float | None = None

    def check(self, done: int, inputs: int) -> None:
        """Before each micro-batch: raise OutOfTimeError when this one, as slow as the slowest so far, could end too late."""
        now = time.monotonic()
        if self._started is not None:
            self._slowest = max(self._slowest, now - self._started)
        self._started = now
        left = self._remaining_s()
        if left <= self._margin + self._slowest:
            raise OutOfTimeError(
                f"the request would run past the function's time limit: {done} of its {inputs} inputs (texts, or windows of them) are done"
                f" and {max(0.0, left):.1f} s are left.",
                hint="Send fewer or shorter texts a request, or give the function more time or memory.",
            )

"""Micro-batches that never change a result.

Two things could make a text's numbers depend on its neighbours: the padded length (vectorised sums take other lanes) and
per-tensor quantization scales. The recipe has no per-tensor scales, and here every text runs at a length that is a function of
its own length alone: that length itself, where the graph has no mask, or the next step above it. So a text runs at the same
shape, row for row, whether it comes alone or in a batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from hotfoot.contract.errors import OutOfTimeError

LENGTH_STEP = 8  # pad to multiples of one AVX2 register of floats: under 8 wasted tokens, and texts of like length share a batch
# tokens a run: MiniLM took 48 us a token at 32 x 16, 50 at 4 x 128, and 60 at 16 x 128, where a layer outgrows the L2 cache
BATCH_TOKENS = 512
BATCH_VALUES = 2**24  # numbers that leave the graph, 64 MiB: where each token has a score for every word of a vocabulary
BATCH_SCORES = 2 * 512 * 512  # batch x length²: attention scores grow with the square, and they set the peak memory
MARGIN_S = 2.0  # kept free before a deadline: to decode, write and send the answer, and for a batch slower than those before


def padded_length(tokens: int, limit: int, step: int = LENGTH_STEP) -> int:
    """The length at which a text of `tokens` tokens runs, whatever else is in the batch; with a step of 1 its own."""
    return max(tokens, min(limit, -(-tokens // step) * step))


def plan(
    lengths: Sequence[int], limit: int, *, width: int = 1, step: int = LENGTH_STEP, together: bool = True
) -> list[tuple[int, list[int]]]:
    """Split inputs into runs of equal padded length: (padded length, indices), longest first so that the peak comes at once.

    width: numbers a token that leave the graph. step: what lengths are rounded up to a multiple of. together: False runs each input
    alone, for a graph whose operators mix the texts of a batch.
    """
    groups: dict[int, list[int]] = {}
    for index, tokens in enumerate(lengths):
        groups.setdefault(padded_length(tokens, limit, step), []).append(index)
    runs = []
    for length in sorted(groups, reverse=True):
        size = max(1, min(BATCH_TOKENS // length, BATCH_SCORES // length**2, BATCH_VALUES // (length * width))) if together else 1
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

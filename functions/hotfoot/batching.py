"""Micro-batches that never change a result, and that fit into the memory there is.

Two things could make a text's numbers depend on its neighbours: the padded length (vectorised sums take other lanes) and
per-tensor quantization scales. The recipe has no per-tensor scales, and here every text runs at a length that is a function of
its own length alone: that length itself, where the graph has no mask, or the next step above it. So a text runs at the same
shape, row for row, whether it comes alone or in a batch.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

from hotfoot.contract.errors import OutOfTimeError
from hotfoot.contract.manifest import Activation

LENGTH_STEP = 8  # pad to multiples of one AVX2 register of floats: under 8 wasted tokens, and texts of like length share a batch
# tokens a run: MiniLM took 48 us a token at 32 x 16, 50 at 4 x 128, and 60 at 16 x 128, where a layer outgrows the L2 cache
BATCH_TOKENS = 512
BATCH_VALUES = 2**24  # numbers that leave the graph, 64 MiB: where each token has a score for every word of a vocabulary
BATCH_SCORES = 2 * 512 * 512  # batch x length²: attention scores grow with the square, and they set the peak memory
# bytes that ONNX Runtime's arena holds for each that is live in the largest run: 1.3 to 1.9 after many runs of all lengths (MiniLM in four
# precisions), as what was freed is often too small for what comes next
ARENA = 2
# the largest request that a function takes: 2,000 texts of 292,000 tokens took 78 MiB beside its runs, most of it as offsets of tokens
RESERVE_BYTES = 80 * 2**20
MARGIN_S = 2.0  # kept free before a deadline: to decode, write and send the answer, and for a batch slower than those before


def padded_length(tokens: int, limit: int, step: int = LENGTH_STEP) -> int:
    """The length at which a text of `tokens` tokens runs, whatever else is in the batch; with a step of 1 its own."""
    return max(tokens, min(limit, -(-tokens // step) * step))


def plan(
    lengths: Sequence[int],
    limit: int,
    *,
    width: int = 1,
    step: int = LENGTH_STEP,
    together: bool = True,
    fitting: Callable[[int], int] | None = None,
) -> list[tuple[int, list[int]]]:
    """Split inputs into runs of equal padded length: (padded length, indices), longest first so that the peak comes at once.

    width: numbers a token that leave the graph. step: what lengths are rounded up to a multiple of. together: False runs each input
    alone, for a graph whose operators mix the texts of a batch. fitting: how many inputs of a length fit into memory; one always runs.
    """
    groups: dict[int, list[int]] = {}
    for index, tokens in enumerate(lengths):
        groups.setdefault(padded_length(tokens, limit, step), []).append(index)
    runs = []
    for length in sorted(groups, reverse=True):
        most = min(BATCH_TOKENS // length, BATCH_SCORES // length**2, BATCH_VALUES // (length * width))
        if fitting is not None:
            most = min(most, fitting(length))
        members, size = groups[length], max(1, most) if together else 1
        runs += [(length, members[i : i + size]) for i in range(0, len(members), size)]
    return runs


def live_bytes(activations: Sequence[Activation], length: int) -> float:
    """The most that is live while one text of `length` tokens runs: on the chord between the two nearest lengths that are known."""
    if length <= activations[0].tokens:
        return activations[0].bytes
    for below, above in pairwise(activations):
        if length <= above.tokens:
            return below.bytes + (above.bytes - below.bytes) * (length - below.tokens) / (above.tokens - below.tokens)
    return activations[-1].bytes * (length / activations[-1].tokens) ** 2


def room(limit: int | None, promised: int, at_once: int = 1, statm: Path = Path("/proc/self/statm")) -> int | None:
    """Bytes that each of `at_once` runs may have live; None where nothing limits them or the memory in use is not to be known.

    limit: of this process, in bytes. promised: what caches may yet take. What the process holds now and one large request are left aside.
    """
    if limit is None or not statm.exists():
        return None
    resident = int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return max(0, limit - resident - promised - RESERVE_BYTES) // (ARENA * at_once)


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

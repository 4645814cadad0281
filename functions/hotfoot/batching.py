"""Micro-batches that never change a result.

Two things could make a text's numbers depend on its neighbours: the padded length (vectorised sums take other lanes) and
per-tensor quantization scales. The recipe has no per-tensor scales, and here every text is padded to a length that is a
function of its own length alone. So a text runs at the same shape, row for row, whether it comes alone or in a batch.
"""

from __future__ import annotations

from collections.abc import Sequence

LENGTH_STEP = 8  # pad to multiples of one AVX2 register of floats: under 8 wasted tokens, and texts of like length share a batch
BATCH_TOKENS = 2048  # padded tokens a run: past this, larger batches gain nothing on a CPU and memory grows with them
BATCH_SCORES = 2 * 512 * 512  # batch x length²: attention scores grow with the square, and they set the peak memory


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

"""The range that a tensor's integers are to span, from running histograms: texts of any length, one by one, in bounded memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from hotfoot_build.graph import Graph
from hotfoot_build.passes import _calibration as calibration
from hotfoot_build.passes._calibration import Span

Method = Literal["minmax", "percentile", "entropy"]
METHODS: tuple[Method, ...] = ("minmax", "percentile", "entropy")
Range = tuple[float, float]
Counts = NDArray[np.float64]
BINS = 4096  # over the whole of [-limit, limit)
LEVELS = 128  # integers on each side of zero
TRIALS = 64  # thresholds that the entropy method tries


def find(
    graph: Graph, values: Sequence[ir.Value], texts: Sequence[calibration.Ids], method: Method, percentile: float
) -> dict[ir.Value, Span]:
    """What the integers of each value are to span. percentile: of 100, how many of the numbers lie inside."""
    if method == "minmax":
        found = calibration.spans(graph, values, texts)
        return {value: Span(_coarse(span.low), _coarse(span.high), span.power) for value, span in found.items()}
    histograms = {value: Histogram() for value in values}
    for value, array in calibration.activations(graph, values, texts):
        histograms[value].add(array)
    return {v: Span(*(h.inner(percentile) if method == "percentile" else h.nearest_distribution()), h.power) for v, h in histograms.items()}


def _coarse(value: float) -> float:
    """The next number outwards with 10 significant bits: another CPU's last digits then give the same scale, but for rare ties."""
    if value == 0 or not np.isfinite(value):
        return value
    unit = 2.0 ** (np.floor(np.log2(abs(value))) - 9)
    return float(np.sign(value) * np.ceil(abs(value) / unit) * unit)


@dataclass
class Histogram:
    """How often numbers fall into each of BINS equal parts of [-limit, limit); the limit is a power of two and doubles when needed."""

    limit: float = 2.0**-20
    counts: Counts = field(default_factory=lambda: np.zeros(BINS))

    def add(self, array: NDArray[np.float32]) -> None:
        """Count the numbers of an array of any shape."""
        largest = float(np.abs(array).max(initial=0.0))
        while largest >= self.limit:
            self.limit *= 2
            pairs = self.counts.reshape(-1, 2).sum(axis=1)
            self.counts = np.concatenate([np.zeros(BINS // 4), pairs, np.zeros(BINS // 4)])
        places = np.floor(array.ravel().astype(np.float64) * (BINS / 2 / self.limit)).astype(np.int64) + BINS // 2
        self.counts += np.bincount(places, minlength=BINS)

    @property
    def width(self) -> float:
        """Of one bin."""
        return 2 * self.limit / BINS

    @property
    def power(self) -> float:
        """The mean of the squares."""
        middles = (np.arange(BINS) - BINS / 2 + 0.5) * self.width
        return float((self.counts * middles**2).sum() / max(1.0, float(self.counts.sum())))

    def inner(self, percentile: float) -> Range:
        """The range that leaves out, at each end, half of what is not in `percentile` of 100."""
        outside = self.counts.sum() * (1 - percentile / 100) / 2
        low = int(np.searchsorted(np.cumsum(self.counts), outside, side="right"))
        high = int(np.searchsorted(np.cumsum(self.counts[::-1]), outside, side="right"))
        return -self.limit + low * self.width, self.limit - high * self.width

    def nearest_distribution(self) -> Range:
        """The range, cut at one distance from zero, in which 8 bits change the distribution of sizes least (Kullback-Leibler)."""
        half = BINS // 2
        sizes = self.counts[half:] + self.counts[:half][::-1]
        filled = np.flatnonzero(self.counts)
        if not len(filled):
            return 0.0, 0.0
        most = int(np.flatnonzero(sizes)[-1]) + 1
        trials = np.unique(np.linspace(min(LEVELS, most), most, TRIALS).round().astype(int))
        best = min(trials, key=lambda end: _divergence(sizes, int(end)))
        cut = float(best * self.width)
        low, high = -self.limit + filled[0] * self.width, -self.limit + (filled[-1] + 1) * self.width
        return max(low, -cut), min(high, cut)


def _divergence(sizes: Counts, end: int) -> float:
    """Between the sizes cut at bin `end`, and the same spread evenly over LEVELS steps, empty bins left empty."""
    kept = sizes[:end].copy()
    filled = kept > 0
    levels = np.minimum(np.arange(end) * LEVELS // end, LEVELS - 1)
    sums, bins = np.bincount(levels, kept, LEVELS), np.bincount(levels, filled, LEVELS)
    spread = np.where(filled, (sums / np.maximum(bins, 1))[levels], 0.0)
    kept[-1] += sizes[end:].sum()  # what is cut off saturates
    whole, other = kept / kept.sum(), spread / max(spread.sum(), 1e-30)
    ratio = np.divide(whole, np.maximum(other, 1e-12), out=np.ones_like(whole), where=whole > 0)
    return float((whole * np.log(ratio)).sum())

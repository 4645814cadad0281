"""The picture of `bench cold`: CPU and memory of the starts, the imports, and memory over requests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotfoot_build.bench.cold import MOST_BYTES, MOST_DRIFT, ColdReport
from hotfoot_build.bench.cold_memory import Memory
from hotfoot_build.bench.plot import COLOURS, GREY

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OURS, THEIRS = COLOURS[0], "#adb5bd"


def draw(report: ColdReport, path: Path) -> None:
    """Write the picture, four panels."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {"axes.grid": True, "grid.color": "#e9ecef", "axes.axisbelow": True, "font.size": 10}
    with rc_context({**style, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(13, 7.5), dpi=150, layout="constrained")
        above, under = figure.subfigures(2, 1, squeeze=False, height_ratios=(1.25, 1))[:, 0]
        left, right = above.subplots(1, 2, sharey=True)
        below, beside = under.subplots(1, 2)
        names = [row.name for row in report.starts]
        _bars(left, names, [row.cpu_s for row in report.starts], [f"{row.cpu_s:.2f} s, {row.cpu.median:.1f}x" for row in report.starts])
        left.set(title="CPU from the start to the first vector", xlabel="seconds; better is left")
        _bars(right, names, [1e-6 * row.peak_bytes for row in report.starts], [f"{1e-6 * row.peak_bytes:.0f} MB" for row in report.starts])
        right.set(
            title="memory at most, by then", xlabel=f"MB; better is left; the line is the bar for hotfoot, {1e-6 * MOST_BYTES:.0f} MB"
        )
        right.axvline(1e-6 * MOST_BYTES, color=GREY, linewidth=1.2, linestyle="--", zorder=1)
        left.invert_yaxis()  # both, as they share it
        trees = [tree.name for tree in report.imports]
        labels = [f"{tree.cpu_s:.2f} s, {tree.to_bundled.median:.2f}x" for tree in report.imports]
        _bars(below, trees, [tree.cpu_s for tree in report.imports], labels)
        below.invert_yaxis()
        below.set(title="CPU of the handler's imports, by their bytecode", xlabel="seconds; better is left")
        _lines(beside, report.memory)
        who = (
            f"{report.model}, {report.target} on {report.machine.cpu}, ONNX Runtime {report.machine.onnxruntime}, medians of {report.runs}"
        )
        figure.suptitle(who, fontsize=10, color=GREY)
        figure.savefig(path)


def _bars(axes: Axes, names: Sequence[str], values: Sequence[float], labels: Sequence[str]) -> None:
    """A bar a name, the first in hotfoot's colour, its label behind it."""
    drawn = axes.barh(range(len(names)), values, color=[OURS, *[THEIRS] * (len(names) - 1)], height=0.62)
    axes.bar_label(drawn, labels, padding=4, fontsize=9)
    axes.set_yticks(range(len(names)), names)
    axes.set(xlim=(0, 1.28 * max(values)))
    axes.grid(axis="y", visible=False)


def _lines(axes: Axes, memory: Sequence[Memory]) -> None:
    """A line a kind, and the band that the last one's first figure allows."""
    for kind, colour, marker in zip(memory, (COLOURS[1], OURS), "os", strict=False):
        axes.plot(
            kind.requests, [1e-6 * count for count in kind.resident], color=colour, marker=marker, label=f"{kind.name}: {kind.drift:.1%}"
        )
    first = 1e-6 * memory[-1].resident[0]
    axes.axhspan(first * (1 - MOST_DRIFT), first * (1 + MOST_DRIFT), color=OURS, alpha=0.08, linewidth=0)
    top = max(1e-6 * count for kind in memory for count in kind.resident)
    axes.set(
        title=f"memory over {memory[0].requests[-1]} requests", xlabel="requests", ylabel="MB", ylim=(0, 1.15 * max(top, first * 1.05))
    )
    axes.annotate(f"{MOST_DRIFT:.0%} either way", (memory[0].requests[-1], first * (1 - MOST_DRIFT)), xytext=(0, -4),
                  textcoords="offset points", ha="right", va="top", color=GREY, fontsize=8)  # fmt: skip
    axes.legend(loc="lower left", frameon=False, fontsize=9)

"""The picture of a report: size and time against agreement, and time beside the preset's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotfoot_build.bench.contenders import PRESET
from hotfoot_build.bench.quality import headline
from hotfoot_build.bench.report import ModelReport, Report, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# of one lightness each, so that none is lost; shapes tell them apart without colours, too
COLOURS = ("#1b4965", "#e07a1f", "#c1121f", "#2a9d8f", "#7b2cbf", "#588157", "#d4a017", "#0077b6", "#a4133c")
MARKERS = "osD^vPph<"
GREY = "#6c757d"
TICKS = (0.25, 0.5, 0.7, 1, 1.5, 2, 3, 5, 8, 12)


@dataclass(frozen=True)
class Look:
    """How a contender is drawn, the same in every panel."""

    colour: str
    marker: str


def draw(report: Report, path: Path) -> None:
    """Write the picture, a row of three panels a model."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    looks = looks_of([row.name for model in report.models for row in model.rows])
    style: dict[Any, Any] = {"axes.grid": True, "grid.color": "#e9ecef", "axes.axisbelow": True, "font.size": 10}
    with rc_context({**style, "axes.spines.top": False, "axes.spines.right": False}):
        count = max(len(model.rows) for model in report.models)
        figure = Figure(figsize=(15, (3.4 + 0.3 * count) * len(report.models)), dpi=150, layout="constrained")
        axes = figure.subplots(len(report.models), 3, squeeze=False, width_ratios=(1, 1, 1.2))
        for model, (left, middle, right) in zip(report.models, axes, strict=True):
            rows = [row for row in model.rows if row.quality]
            _scatter(left, rows, [1e-6 * (row.bytes or 0) for row in rows], looks)
            left.set(xlabel="graph, MB", title=f"{model.model}: size")
            shape = _middle_shape(model)
            _scatter(middle, rows, [next(t.ms for t in row.times if t.shape == shape) for row in rows], looks)
            middle.set(xlabel=f"CPU ms a text of {shape} tokens", title=f"{model.model}: time")
            _ratios(right, model, looks)
            right.set(title=f"{model.model}: time beside the {PRESET}")
        dots = [Line2D([], [], color=look.colour, marker=look.marker, linestyle="", markersize=8, label=n) for n, look in looks.items()]
        figure.legend(handles=dots, ncols=len(dots), loc="outside lower center", frameon=False, handletextpad=0.1)
        figure.suptitle(f"{report.target} on {report.machine.cpu}, ONNX Runtime {report.machine.onnxruntime}", fontsize=10, color=GREY)
        figure.savefig(path)


def looks_of(names: Sequence[str]) -> dict[str, Look]:
    """A look a name; the preset's is a grey cross."""
    ours = [name for name in dict.fromkeys(names) if name != PRESET]
    found = {name: Look(COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]) for i, name in enumerate(ours)}
    return found | {PRESET: Look(GREY, "X")}


def apart(points: Sequence[tuple[float, float, str]], width: float, height: float) -> list[tuple[str, float, float]]:
    """For a picture of few points: where each name goes, at its point's height or as far below a name that it would touch."""
    placed: list[tuple[str, float, float]] = []
    for x, y, name in sorted(points, key=lambda point: -point[1]):
        below = [at - height for _, other, at in placed if abs(x - other) < width]  # from the top down
        placed.append((name, x, min([y, *below])))
    return placed


def _middle_shape(model: ModelReport) -> str:
    shapes = [time.shape for time in model.rows[0].times]
    return "128" if "128" in shapes else shapes[0]


def _scatter(axes: Axes, rows: Sequence[Row], across: Sequence[float], looks: Mapping[str, Look]) -> None:
    if not rows:
        return
    name, _ = headline(rows[0].quality)
    for row, x in zip(rows, across, strict=True):
        look, (_, y) = looks[row.name], headline(row.quality)
        axes.scatter(x, y, s=90, color=look.colour, marker=look.marker, edgecolor="white", linewidth=1, zorder=3)
    axes.set(ylabel=name.replace("_", " "), xlim=(0, 1.1 * max(across)))
    axes.margins(y=0.12)
    axes.text(0.98, 0.02, "better is up and left", transform=axes.transAxes, ha="right", color=GREY, fontsize=8)


def _ratios(axes: Axes, model: ModelReport, looks: Mapping[str, Look]) -> None:
    """A dot and its interval a contender and shape, on a scale on which twice and half lie equally far; the preset is the line at 1."""
    from matplotlib.ticker import NullFormatter, NullLocator

    shapes = [time.shape for time in model.rows[0].times]
    rows = [row for row in model.rows if row.name != PRESET]
    for index, row in enumerate(rows):
        look = looks[row.name]
        for place, time in enumerate(row.times):
            y, at = place + 0.8 * ((index + 0.5) / len(rows) - 0.5), time.to_preset
            axes.plot([at.low, at.high], [y, y], color=look.colour, linewidth=3, alpha=0.4, solid_capstyle="round")
            axes.plot(at.median, y, look.marker, color=look.colour, markersize=6)
            # away from the line at 1
            x, step, side = (at.low, -7, "right") if at.high < 1 else (at.high, 7, "left")
            axes.annotate(f"{at.median:.2f}", (x, y), xytext=(step, 0), textcoords="offset points", ha=side, va="center", fontsize=7.5)
    axes.axvline(1, color=GREY, linewidth=1.2, linestyle="--", zorder=1)
    for edge in range(1, len(shapes)):
        axes.axhline(edge - 0.5, color="#ced4da", linewidth=0.8)
    low = 0.8 * min([1.0, *(time.to_preset.low for row in rows for time in row.times)])
    high = 1.25 * max([1.0, *(time.to_preset.high for row in rows for time in row.times)])
    axes.set(xscale="log", xlim=(low, high), ylim=(len(shapes) - 0.5, -0.5))
    ticks = [tick for tick in TICKS if low <= tick <= high]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_yticks(range(len(shapes)), [f"{shape} tokens" for shape in shapes])
    axes.set(xlabel="times the preset's CPU time, with the 95 % interval; better is left")
    axes.grid(axis="y", visible=False)

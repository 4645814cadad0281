"""A budget as a picture: each part of a cold start begins where the one before it ends; below them the whole."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotfoot_build.cold import probe
from hotfoot_build.cold.budget import CLIENT, FEW, OTHER, SMALL, Budget, Figure, Row, rows
from hotfoot_build.package.treemap import COLOURS, FREE, GREY, INK, LABEL_PT, SMALL_PT, TITLE_PT
from hotfoot_build.progress import size

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

PICTURE = "cold.png"
# inches: the parts' names, the bars, the columns of numbers beside them; a row's height, and what is above and below the rows
NAMES, BARS, NUMBERS, MARGIN = 2.65, 6.4, 2.95, 0.25
ROW, HEADING, LEGEND = 0.36, 0.95, 0.75
WALL, CPU = 0.46, 0.12  # of a row: the bars of wall and CPU time
LONGEST = 29  # characters of a name that its column has room for
STARTED = "#495057"  # what is neither the package's nor the model's
OF_LABEL = {
    CLIENT: STARTED,
    OTHER: GREY,
    "tokenizer": COLOURS["tokenizer"],
    "app": COLOURS["code"],
    f"{probe.IMPORT}hotfoot": COLOURS["code"],
}
LEGENDS = {
    "interpreter": STARTED,
    "packages": COLOURS["runtime"],
    "hotfoot": COLOURS["code"],
    "model": COLOURS["model"],
    "tokenizer": COLOURS["tokenizer"],
    "not attributed": GREY,
}
TICKS_MS = (5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2000, 5000, 10_000, 30_000)


def draw(budget: Budget, path: Path) -> None:
    """Write the picture (PNG): medians, the bar of wall time and below it that of CPU time, with the numbers beside them."""
    from matplotlib import rc_context

    style: dict[Any, Any] = {"font.size": LABEL_PT, "font.family": "DejaVu Sans"}
    with rc_context(style):
        picture(budget).savefig(path, format="png", metadata={"Software": None})


def picture(budget: Budget) -> Drawing:
    """The picture, not yet written; a longer list of parts makes it taller."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as NewDrawing

    parts = rows(budget.starts, small=SMALL)
    across, tall = NAMES + BARS + NUMBERS + 2 * MARGIN, (len(parts) + 1.25) * ROW
    down = LEGEND + tall + HEADING
    drawing = NewDrawing(figsize=(across, down), dpi=150, facecolor="white")
    FigureCanvasAgg(drawing)
    axes = drawing.add_axes(((MARGIN + NAMES) / across, LEGEND / down, BARS / across, tall / down))
    end = max(budget.wall_s.median, budget.cpu_s.median, sum(max(row.wall_s.median, 0) for row in parts))
    axes.set(xlim=(0, 1.01e3 * end), ylim=(len(parts) + 0.75, -0.5))
    _frame(axes)
    _rows(axes, parts, budget)
    left = -NAMES / BARS  # of the names, as a share of the axes
    axes.text(left, 1 + 0.62 / tall, _title(budget), transform=axes.transAxes, fontsize=TITLE_PT, color=INK, weight="bold")
    axes.text(left, 1 + 0.37 / tall, _below(budget), transform=axes.transAxes, fontsize=SMALL_PT + 1, color=GREY)
    _legend(axes, left, -0.62 / tall)
    return drawing


def _title(budget: Budget) -> str:
    peak = f"at most {size(budget.peak_bytes.high)} of memory"
    return f"{budget.model_id}: a cold start of {budget.wall_s.median:.2f} s, {budget.cpu_s.median:.2f} s of CPU, {peak}"


def _below(budget: Budget) -> str:
    threads = "1 thread" if budget.threads == 1 else f"{budget.threads} threads"
    where = f"{budget.target}, Python {budget.python}, {budget.memory_mb} MB ({threads}), {budget.cpu}"
    return f"{where}; medians of {len(budget.starts)}; CPU not throttled, files in memory"


def _frame(axes: Axes) -> None:
    most = axes.get_xlim()[1]
    step = next((tick for tick in TICKS_MS if most / tick <= 8), TICKS_MS[-1])
    ticks = range(0, int(most) + 1, step)
    axes.set_xticks(ticks, [f"{tick} ms" if tick else "0" for tick in ticks])
    axes.set_yticks([])
    axes.tick_params(length=0, labelsize=SMALL_PT + 1, labelcolor=GREY)
    axes.grid(axis="x", color=FREE)
    axes.set_axisbelow(True)
    for side in axes.spines.values():
        side.set_visible(False)


def _rows(axes: Axes, parts: tuple[Row, ...], budget: Budget) -> None:
    """The rows from top to bottom, a line from the end of each to the next, and the whole below a rule."""
    _numbers(axes, -0.72, ("wall, ms", "range", "CPU, ms"), GREY)
    ends = [0.0, *accumulate(max(1e3 * row.wall_s.median, 0.0) for row in parts)]
    for place, (row, start) in enumerate(zip(parts, ends, strict=False)):
        colour = OF_LABEL.get(row.label, COLOURS["runtime" if row.label.startswith(probe.IMPORT) or row.label == FEW else "model"])
        _bar(axes, place, start, row, colour)
        if row is not parts[-1]:
            axes.plot([ends[place + 1]] * 2, [place + WALL / 2, place + 1 - WALL / 2], color=GREY, linewidth=0.6)
    whole = Row("", "together", budget.wall_s, budget.cpu_s)
    rule = len(parts) - 0.38
    axes.plot(
        [-NAMES / BARS, 1 + NUMBERS / BARS], [rule, rule], color=GREY, linewidth=0.8, clip_on=False, transform=axes.get_yaxis_transform()
    )
    _bar(axes, len(parts) + 0.15, 0.0, whole, INK)


def _bar(axes: Axes, place: float, start: float, row: Row, colour: str) -> None:
    weight = "normal" if row.label else "bold"
    axes.barh(place, 1e3 * row.wall_s.median, left=start, height=WALL, color=colour)
    axes.barh(place + (WALL + CPU) / 2 + 0.03, 1e3 * row.cpu_s.median, left=start, height=CPU, color=colour, alpha=0.45)
    name = row.name if len(row.name) <= LONGEST else f"{row.name[: LONGEST - 1]}…"
    axes.text(-NAMES / BARS, place, name, transform=axes.get_yaxis_transform(), color=INK, va="center", weight=weight)
    _numbers(axes, place, (f"{1e3 * row.wall_s.median:.1f}", span(row.wall_s), f"{1e3 * row.cpu_s.median:.1f}"), INK, weight)


def _numbers(axes: Axes, place: float, texts: tuple[str, str, str], colour: str, weight: str = "normal") -> None:
    for text, inch in zip(texts, (0.9, 2.0, NUMBERS - 0.05), strict=True):
        axes.text(1 + inch / BARS, place, text, transform=axes.get_yaxis_transform(), color=colour, va="center", ha="right", weight=weight)


def span(found: Figure) -> str:
    """The range in milliseconds, with a digit after the point where that says something."""
    digits = 1 if found.high < 0.1 else 0
    return f"{1e3 * found.low:.{digits}f} - {1e3 * found.high:.{digits}f}"


def _legend(axes: Axes, left: float, height: float) -> None:
    from matplotlib.patches import Patch

    patches = [Patch(color=colour, label=label) for label, colour in LEGENDS.items()]
    patches += [Patch(color=INK, label="wall"), Patch(color=INK, alpha=0.45, label="CPU, all threads (thin)")]
    axes.legend(
        handles=patches, ncols=len(patches), loc="lower left", bbox_to_anchor=(left, height), bbox_transform=axes.transAxes, frameon=False,
        fontsize=SMALL_PT + 1, handlelength=0.9, handleheight=0.9, handletextpad=0.5, columnspacing=1.6, borderpad=0, borderaxespad=0,
    )  # fmt: skip

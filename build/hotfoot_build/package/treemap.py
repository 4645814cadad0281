"""A ledger as a picture: a rectangle a package and file, as large as its bytes, and a bar of the limit below."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotfoot_build.package.ledger import Ledger, PackageRow, PartRow
from hotfoot_build.progress import size

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Text

PICTURE = "ledger.png"
# inches: the map, the bar of the limit below it, the legend below that, and what is between and around them
WIDTH, HEIGHT, BAR, LEGEND = 12.0, 6.6, 0.36, 0.36
MARGIN, GAP, HEADING = 0.25, 0.2, 0.65
ROOMY = 1.2  # the shorter side of a rectangle that shows its files
COLOURS = {"runtime": "#1b4965", "fetch": "#4f7f9c", "tokenizer": "#6d4c8c", "model": "#b5501b", "code": "#2a7f62"}
FREE, INK, GREY = "#e9ecef", "#212529", "#6c757d"
TITLE_PT, LABEL_PT, SMALL_PT = 13, 11, 8
EXTENSION = re.compile(r"\.cpython-[^.]+\.so$")  # all are of one Python and machine, which a label need not repeat
PAD = 0.09  # inches between a label and the edge of its rectangle


@dataclass(frozen=True)
class Rect:
    """A rectangle: its lower left corner, its width and its height."""

    x: float
    y: float
    width: float
    height: float

    @property
    def top(self) -> float:
        """The upper edge."""
        return self.y + self.height

    @property
    def area(self) -> float:
        """Width times height."""
        return self.width * self.height


def squarify(sizes: Sequence[float], into: Rect) -> list[Rect]:
    """Divide `into` among positive `sizes`: rectangles in their order, areas in proportion, each as near to a square as it gets.

    Rows are laid along the shorter side of what is free; a row takes the next size while that makes its worst shape no worse.
    Sizes from large to small give the best shapes.
    """
    scale = into.area / sum(sizes) if sizes else 0.0
    areas = [count * scale for count in sizes]
    placed: list[Rect] = []
    free, start = into, 0
    while start < len(areas):
        end = start + 1
        side = min(free.width, free.height)
        while end < len(areas) and _worst(areas[start : end + 1], side) <= _worst(areas[start:end], side):
            end += 1
        row, free = _lay(areas[start:end], free, last=end == len(areas))
        placed += row
        start = end
    return placed


def _worst(row: Sequence[float], side: float) -> float:
    """The largest ratio of long to short side in a row along `side`."""
    thickness = sum(row) / side
    return max(max(thickness * thickness / area, area / (thickness * thickness)) for area in row)


def _lay(row: Sequence[float], free: Rect, *, last: bool) -> tuple[list[Rect], Rect]:
    """The row's rectangles, and what they leave. The last row takes all that is left, lest rounding leaves a gap."""
    upright = free.width >= free.height  # then the row is a column at the left
    along, across = (free.height, free.width) if upright else (free.width, free.height)
    thickness = across if last else min(sum(row) / along, across)
    edges = [0.0, *(along * part / sum(row) for part in accumulate(row))]
    spans = list(pairwise(edges))
    if upright:
        rects = [Rect(free.x, free.top - high, thickness, high - low) for low, high in spans]
        return rects, Rect(free.x + thickness, free.y, free.width - thickness, free.height)
    top = free.top - thickness
    return [Rect(free.x + low, top, high - low, thickness) for low, high in spans], Rect(
        free.x, free.y, free.width, free.height - thickness
    )


def draw(ledger: Ledger, path: Path) -> None:
    """Write the picture (PNG): the parts, in the runtime its packages, in each its heaviest files; below, the limit and what is left."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {"font.size": LABEL_PT, "font.family": "DejaVu Sans"}
    with rc_context(style):
        bar = BAR if ledger.limit_bytes is not None else 0.0
        below = MARGIN + LEGEND + (bar + GAP if bar else 0.0)
        across, down = WIDTH + 2 * MARGIN, below + HEIGHT + HEADING
        figure = Figure(figsize=(across, down), dpi=150, facecolor="white")
        FigureCanvasAgg(figure)  # measures labels

        def axes_at(bottom: float, height: float) -> Axes:
            """In inches, as is what is drawn in it."""
            axes = figure.add_axes((MARGIN / across, bottom / down, WIDTH / across, height / down))
            axes.set(xlim=(0, WIDTH), ylim=(0, height))
            axes.set_axis_off()
            return axes

        axes = axes_at(below, HEIGHT)
        axes.text(0, HEIGHT + 0.16, _title(ledger), fontsize=TITLE_PT, color=INK, weight="bold", va="bottom")
        _map(axes, ledger)
        if bar:
            _limit(axes_at(MARGIN + LEGEND, bar), ledger)
        _legend(axes_at(MARGIN, LEGEND), ledger)
        figure.savefig(path, format="png", metadata={"Software": None})


def _title(ledger: Ledger) -> str:
    together = f"{ledger.target}: {size(ledger.unzipped_bytes)} unzipped"
    if ledger.limit_bytes is None or ledger.share is None:
        return f"{together}, {size(ledger.zipped_bytes)} zipped; no limit"
    return f"{together} of {size(ledger.limit_bytes)} allowed ({ledger.share:.1%}), {size(ledger.zipped_bytes)} zipped"


def _map(axes: Axes, ledger: Ledger) -> None:
    parts = sorted((part for part in ledger.parts if part.unzipped_bytes), key=lambda part: -part.unzipped_bytes)
    for part, rect in zip(parts, squarify([p.unzipped_bytes for p in parts], Rect(0, 0, WIDTH, HEIGHT)), strict=True):
        colour = COLOURS[part.name]
        inside = [p for p in ledger.packages if p.unzipped_bytes] if part.name == "runtime" else []
        groups: Sequence[PartRow] = inside or [part]
        for group, area in zip(groups, squarify([g.unzipped_bytes for g in groups], rect), strict=True):
            _group(axes, group, area, colour)
        _box(axes, rect, "none", edge="white", line=3.5)


def _group(axes: Axes, group: PartRow, rect: Rect, colour: str) -> None:
    """A package or part: a rectangle and, where there is room, its files in it, in shades of its colour."""
    files = [(EXTENSION.sub(".so", row.name.rpartition("/")[2]), row.unzipped_bytes) for row in group.largest if row.unzipped_bytes]
    rest = group.unzipped_bytes - sum(count for _, count in files)
    files = sorted([*files, *([("smaller files", rest)] if rest else [])], key=lambda file: -file[1])
    _box(axes, rect, colour, edge="none", line=0)
    roomy = min(rect.width, rect.height) >= ROOMY
    areas = squarify([count for _, count in files], rect) if roomy else []
    for index, area in enumerate(areas):
        _box(axes, area, _lighter(colour, min(0.05 * index, 0.25)), edge=_lighter(colour, 0.45), line=0.5)
    taken = _label(axes, group, rect)
    for (name, count), area in zip(files, areas, strict=False):
        _file_label(axes, f"{name}\n{size(count)}", area, taken)
    _box(axes, rect, "none", edge="white", line=1.6)


def _box(axes: Axes, rect: Rect, face: str, *, edge: str, line: float) -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle((rect.x, rect.y), rect.width, rect.height, facecolor=face, edgecolor=edge, linewidth=line))


def _label(axes: Axes, group: PartRow, rect: Rect) -> Rect | None:
    """The name, the bytes and the share at the top, as much of it as has room; gives where."""
    name = f"{group.name} {group.version}" if isinstance(group, PackageRow) else group.name
    count = size(group.unzipped_bytes)
    share = "" if group.share is None else f" · {group.share:.1%}"
    for text, points in (
        (f"{name}\n{count}{share}", LABEL_PT),
        (f"{name}\n{count}{share}", SMALL_PT),
        (f"{group.name}\n{count}", SMALL_PT),
        (group.name, SMALL_PT),
    ):
        pad = PAD * points / LABEL_PT
        label = axes.text(rect.x + pad, rect.top - pad, text, fontsize=points, color="white", va="top", linespacing=1.3)
        extent = _extent(axes, label)
        if extent.width + 2 * pad <= rect.width and extent.height + 2 * pad <= rect.height:
            return extent
        label.remove()
    return None


def _file_label(axes: Axes, text: str, rect: Rect, taken: Rect | None) -> None:
    """A file's name and bytes at the bottom of its rectangle, if they have room beside the label that is there."""
    label = axes.text(rect.x + PAD, rect.y + PAD, text, fontsize=SMALL_PT, color="white", alpha=0.8, va="bottom", linespacing=1.3)
    extent = _extent(axes, label)
    fits = extent.width + 2 * PAD <= rect.width and extent.height + 2 * PAD <= rect.height
    # the label that is there stands in the corner at the left, so that only what lies as low as it is in its way
    free = taken is None or extent.top + PAD <= taken.y or extent.x >= taken.x + taken.width + PAD
    if not (fits and free):
        label.remove()


def _extent(axes: Axes, label: Text) -> Rect:
    box = label.get_window_extent().transformed(axes.transData.inverted())
    return Rect(box.x0, box.y0, box.width, box.height)


def _lighter(colour: str, amount: float) -> str:
    """The colour, mixed with so much white."""
    channels = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return "#" + "".join(f"{round(channel + (255 - channel) * amount):02x}" for channel in channels)


def _limit(axes: Axes, ledger: Ledger) -> None:
    """The limit as a bar, the parts in it one after the other, and what is left."""
    inches = WIDTH / max(ledger.limit_bytes or 0, ledger.unzipped_bytes)
    _box(axes, Rect(0, 0, WIDTH, BAR), FREE, edge="none", line=0)
    start = 0.0
    for part in ledger.parts:
        width = part.unzipped_bytes * inches
        _box(axes, Rect(start, 0, width, BAR), COLOURS[part.name], edge="none", line=0)
        start += width
    left = f"{size(ledger.left_bytes or 0)} left"
    axes.text(WIDTH - PAD, BAR / 2, left, fontsize=SMALL_PT + 1, color=GREY, va="center_baseline", ha="right")


def _legend(axes: Axes, ledger: Ledger) -> None:
    start, middle, dot = 0.0, LEGEND / 3, 0.13
    for part in ledger.parts:
        _box(axes, Rect(start, middle - dot / 2, dot, dot), COLOURS[part.name], edge="none", line=0)
        text = f"{part.name}  {size(part.unzipped_bytes)}, {size(part.zipped_bytes)} zipped"
        label = axes.text(start + dot + PAD, middle, text, fontsize=SMALL_PT + 1, color=INK, va="center_baseline")
        start += dot + _extent(axes, label).width + 0.4

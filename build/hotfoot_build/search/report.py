"""What a search leaves behind, beside the artifact: trials.json, a table and a plot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotfoot.contract import codec
from hotfoot_build.bench.plot import apart
from hotfoot_build.progress import size
from hotfoot_build.search.recipes import Found, Trial

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CHOSEN, RIGHT, WRONG = "#0b3c5d", "#2a9d8f", "#d1495b"
FILES = ("trials.json", "trials.md", "trials.png")


def folder_of(out: Path) -> Path:
    """Where the search for the artifact in `out` is told."""
    return out.with_name(f"{out.name}.search")


def write(folder: Path, found: Found) -> None:
    """Write the three files; each appears whole."""
    folder.mkdir(parents=True, exist_ok=True)
    aside = folder / ".writing"
    for name, make in zip(FILES, (_json, _table, _plot), strict=True):
        make(found, aside)
        aside.replace(folder / name)


def _json(found: Found, path: Path) -> None:
    path.write_text(codec.dumps(found), encoding="utf-8")


def _table(found: Found, path: Path) -> None:
    metrics = [m.name for m in next((t.metrics for t in found.trials if t.metrics), ())]
    lines = [
        f"Chosen: **{found.recipe.label}** ({found.rule})",
        "",
        _row(["recipe", "size", "ms a text", "time to the leader", *metrics, ""]),
    ]
    lines.append(_row(["---"] * (len(metrics) + 5)))
    for trial in found.trials:
        values = [f"{m.value:.4f}{'' if m.passed else ' < ' + format(m.threshold, 'g')}" for m in trial.metrics] or [""] * len(metrics)
        times = [f"{trial.ms:.2f}" if trial.ms is not None else "", str(trial.ratio) if trial.ratio is not None else ""]
        lines.append(_row([trial.recipe.label, size(trial.bytes) if trial.bytes else "", *times, *values, _verdict(trial)]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _verdict(trial: Trial) -> str:
    if trial.chosen:
        return "chosen"
    return trial.error.replace("\n", " ") or ("" if trial.right else "outside the gate")


def _plot(found: Found, path: Path) -> None:
    """Size, and time where there is one, against the measure that comes closest to its bar."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    built = [t for t in found.trials if t.metrics]
    timed = [t for t in built if t.ms is not None]
    look: dict[Any, Any] = {"axes.grid": True, "grid.color": "#e6e6e6", "axes.axisbelow": True, "font.size": 10}
    with rc_context({**look, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(12 if timed else 6.5, 4.6), dpi=150, layout="constrained")
        axes = figure.subplots(1, 2 if timed else 1, squeeze=False)[0]
        name = _closest(built)
        _panel(axes[0], built, [1e-6 * t.bytes for t in built], name, "graph, MB")
        if timed:
            _panel(axes[1], timed, [t.ms or 0.0 for t in timed], name, "CPU ms a text")
        figure.suptitle(f"chosen: {found.recipe.label}", color=CHOSEN)
        figure.savefig(path, format="png")


def _closest(trials: list[Trial]) -> str:
    """The measure that decides: the one with the least room above its bar, over the recipes that lose anything."""
    room: dict[str, float] = {}
    for trial in trials:
        for metric in trial.metrics:
            if metric.threshold < 1:
                room[metric.name] = min(room.get(metric.name, 2.0), (metric.value - metric.threshold) / (1 - metric.threshold))
    return min(room, key=lambda name: room[name], default=trials[0].metrics[0].name)


def _panel(axes: Axes, trials: list[Trial], across: list[float], name: str, label: str) -> None:
    heights = [next(m.value for m in t.metrics if m.name == name) for t in trials]
    bar = next(m.threshold for m in trials[0].metrics if m.name == name)
    axes.axhline(bar, color=WRONG, linewidth=1, linestyle="--")
    axes.text(1.0, bar, "the gate", color=WRONG, ha="right", va="bottom", fontsize=8, transform=axes.get_yaxis_transform())
    colours = {t.recipe.label: CHOSEN if t.chosen else RIGHT if t.right else WRONG for t in trials}
    for trial, x, y in zip(trials, across, heights, strict=True):
        marker, area = ("*", 190) if trial.chosen else ("o", 70)
        axes.scatter(x, y, s=area, color=colours[trial.recipe.label], marker=marker, edgecolor="white", zorder=3)
    axes.set(xlabel=label, ylabel=name.replace("_", " "), xlim=(0, 1.45 * max(across)))
    axes.margins(y=0.15)
    low, high = axes.get_ylim()
    points = [(x, y, t.recipe.label) for t, x, y in zip(trials, across, heights, strict=True)]
    places = {text: y for _, y, text in points}
    for text, x, y in apart(points, 0.3 * axes.get_xlim()[1], 0.05 * (high - low)):
        if y != places[text]:  # moved away from its point: a line leads back
            axes.plot((x, x + 0.022 * axes.get_xlim()[1]), (places[text], y), color=colours[text], linewidth=0.6, alpha=0.6, zorder=1)
        axes.text(x + 0.025 * axes.get_xlim()[1], y, text, color=colours[text], va="center", fontsize=8)

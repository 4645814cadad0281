"""What `bench cold` found, as tables and as a page."""

from __future__ import annotations

from hotfoot_build.bench.cold import Bar, ColdReport
from hotfoot_build.bench.cold_starts import LEAST_COSINE, MEMORY_MB
from hotfoot_build.bench.report import Grid
from hotfoot_build.progress import size


def grids(report: ColdReport) -> list[Grid]:
    """Every table."""
    return [_starts(report), _imports(report), _memory(report), _bars(report.bars)]


def _starts(report: ColdReport) -> Grid:
    rows = [
        (
            row.name,
            f"{row.cpu_s:.3f} s\n{row.cpu}",
            f"{row.wall_s:.3f} s\n{row.wall}",
            f"{size(row.peak_bytes)}\n{size(row.most_bytes)}",
            str(row.threads),
            f"{row.cosine:.4f}",
        )
        for row in report.starts
    ]
    about = (
        f"Medians of {report.runs} starts each, and how many times hotfoot's that is, with the interval that holds the median at 95 %; of"
        " memory the median and the most. Threads: all that are alive at the first vector. hotfoot runs as a function of"
        f" {MEMORY_MB:,} MB, HTTP event in, vector out, behind AWS's runtime client, and computes on one thread; the peers have no HTTP"
        " door, and come with their own number of threads and with one. Every vector is the original's with a cosine of"
        f" {LEAST_COSINE} or more."
    )
    return Grid("From the start to the first vector", ("", "CPU", "wall", "memory", "threads", "cosine"), tuple(rows), about)


def _imports(report: ColdReport) -> Grid:
    rows = [(tree.name, f"{tree.cpu_s:.3f} s", str(tree.to_bundled)) for tree in report.imports]
    about = (
        f"CPU of a fresh process that imports the {report.imports[0].modules} modules of the bundle that the handler does. A zip keeps no"
        " times: bytecode that is held to its source's is stale when it is unpacked."
    )
    return Grid("What the imports cost", ("", "CPU", "times"), tuple(rows), about)


def _memory(report: ColdReport) -> Grid:
    columns = ("after requests", *map(str, report.memory[0].requests), "drift")
    rows = [(kind.name, *(f"{count / 1e6:.1f}" for count in kind.resident), f"{kind.drift:.1%}") for kind in report.memory]
    about = (
        f"MB in memory; {report.memory[0].texts} texts of all lengths. As it comes, a function remembers texts and answers until its share"
        " of memory is full; remembering nothing (HOTFOOT_CACHE_MB=0), only a leak could grow."
    )
    return Grid("Memory over many requests", columns, tuple(rows), about)


def _bars(bars: tuple[Bar, ...]) -> Grid:
    rows = [(bar.what, bar.found, "pass" if bar.met else "miss") for bar in bars]
    return Grid("Bars", ("", "found", ""), tuple(rows), "Of a ratio, the whole interval must hold.")


def markdown(report: ColdReport) -> str:
    """The whole report as a page."""
    how = (
        f"{report.model} for {report.target} in Python {report.python}, a text of {report.tokens} tokens, {report.runs} starts, all in turn"
    )
    lines = ["# What a cold start costs", "", f"Measured by `scripts/bench cold` on {report.machine}: {how}.", ""]
    lines += ["![cold starts beside other ways, imports, and memory over requests](cold.png)", ""]
    lines += [grid.markdown() for grid in grids(report)]
    return "\n".join([*lines, *(["### Notes", "", *(f"- {note}" for note in report.notes), ""] if report.notes else [])])

"""`hotfoot bundle`: make the package, and show where its bytes are."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from hotfoot.contract.bundle import Bundle
from hotfoot_build.package import bundle as packaging
from hotfoot_build.package import ledger, treemap
from hotfoot_build.package.ledger import Ledger, Row
from hotfoot_build.progress import Progress, size

PACKAGES = 10  # of the heaviest in the table; ledger.json has all


def bundle(artifact: Path, destination: Path, python: str | None, package: str | None, console: Console) -> Path:
    """The bundle's folder. Raises what packaging raises."""
    with Progress(console).step("bundle") as step:
        made = packaging.bundle(artifact, destination, progress=step, python=python, package=package)
        written = ledger.read(destination)
        treemap.draw(written, destination / treemap.PICTURE)
        step.result = f"{made.target}, Python {made.python}, package {made.package}"
    console.print(table(written, made))
    return destination


def table(written: Ledger, made: Bundle) -> Table:
    """The parts, the heaviest packages of the runtime and what pruning saved, against the limit."""
    shown = Table("part", caption=_caption(written, made), caption_justify="left")
    for heading in ("unzipped", "zipped", "" if written.limit_bytes is None else "of the limit"):
        shown.add_column(heading, justify="right")
    shown.add_column("hash")
    for part, layer in zip(written.parts, (*made.layers, made.code), strict=True):
        shown.add_row(*_cells(part.name, part), layer.hash[:12])
    shown.add_row("together", size(written.unzipped_bytes), size(written.zipped_bytes), _percent(written.share), end_section=True)
    for package in written.packages[:PACKAGES]:
        shown.add_row(*_cells(f"{package.name} {package.version}", package))
    shown.add_section()
    for rule, count in sorted(written.saved.items(), key=lambda item: -item[1]):
        if count:
            shown.add_row(f"pruned: {rule}", f"-{size(count)}")
    return shown


def _cells(name: str, row: Row) -> tuple[str, str, str, str]:
    return name.strip(), size(row.unzipped_bytes), size(row.zipped_bytes), _percent(row.share)


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def _caption(written: Ledger, made: Bundle) -> str:
    saved = f"pruning saved {size(sum(written.saved.values()))}"
    if made.package == "image":
        return f"an image of it: `docker build` in the folder, or `cdk deploy`; {saved}"
    if written.limit_bytes is None or written.left_bytes is None:
        return f"{written.target} has no limit; {saved}"
    weights = "" if made.weights is None else f"; {size(made.weights.unzipped_bytes)} of weights go to S3"
    return f"{size(written.left_bytes)} left of {size(written.limit_bytes)} on {written.target}{weights}; {saved}"

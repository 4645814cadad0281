"""`hotfoot bundle`: make the package, and show how large its parts are."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from hotfoot_build.package import bundle as packaging
from hotfoot_build.progress import Progress, size


def bundle(artifact: Path, destination: Path, python: str | None, console: Console) -> Path:
    """The bundle's folder. Raises what packaging raises."""
    with Progress(console).step("bundle") as step:
        made = packaging.bundle(artifact, destination, progress=step, python=python)
        step.result = f"{made.target}, Python {made.python}"
    table = Table("part", "unzipped", "zipped", "hash")
    for part in (*made.layers, made.code):
        table.add_row(part.kind, size(part.unzipped_bytes), size(part.zipped_bytes), part.hash[:12])
    table.add_row("together", size(made.unzipped_bytes), size(sum(p.zipped_bytes for p in (*made.layers, made.code))), "")
    console.print(table)
    return destination

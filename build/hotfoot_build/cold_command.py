"""`hotfoot cold`: start a function cold again and again, and show where the time goes."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from hotfoot import targets, task
from hotfoot.contract import bundle as bundles
from hotfoot.contract import codec, manifest
from hotfoot.contract.bundle import BUNDLE, MODEL_PLACE, Bundle
from hotfoot.contract.errors import ArtifactError, InputError, UnsupportedError
from hotfoot.contract.manifest import Manifest
from hotfoot.http.events import direct_event
from hotfoot.settings import MB_PER_VCPU, usable_threads
from hotfoot_build import flags
from hotfoot_build.bench.report import Machine
from hotfoot_build.cold import budget as budgets
from hotfoot_build.cold import starts, waterfall
from hotfoot_build.cold.budget import SMALL, Budget, Row
from hotfoot_build.package import bundle as packaging
from hotfoot_build.progress import Progress, say, size

REPORT = "cold.json"
NEW_TOKENS = 8  # of a task that makes text: the first answer is about starting, not about writing


@dataclass(frozen=True)
class Options:
    """How to measure. text: what the first event asks, None for the task's own sample. out, python: None for the usual ones."""

    runs: int = 10
    memory_mb: int = MB_PER_VCPU
    text: str | None = None
    out: Path | None = None
    python: str | None = None


def cold(artifact: Path, options: Options, console: Console) -> Path:
    """The folder of `cold.json` and the picture. Raises what resolving, bundling and starting raise, before anything is written."""
    progress = Progress(console)
    with opened(artifact, options, progress) as (folder, usual):
        made = bundles.read(folder)
        if not made.bytecode:
            progress.note(
                f"WARNING: this bundle ships no bytecode, so every start compiles its modules anew. `hotfoot doctor` says how to get "
                f"Python {made.python}; then bundle again."
            )
        asked = question(folder, made, options.text)
        with progress.step("cold") as step:
            found = measured(folder, made, asked, options, step)
            step.result = f"{len(found.starts)} starts of {made.model_id} on {made.target}"
    out = options.out or usual
    out.mkdir(parents=True, exist_ok=True)
    (out / REPORT).write_text(codec.dumps(found), encoding="utf-8")
    waterfall.draw(found, out / waterfall.PICTURE)
    for name in found.missing:
        progress.note(f"this bundle's runtime has no {name}, which is therefore no row of its own; bundle again with this hotfoot.")
    if made.weights is not None:
        progress.note(f"the {size(made.weights.unzipped_bytes)} of weights lay beside the graph: to read them from S3 comes on top.")
    console.print(table(found))
    for line in summary(found):
        say(console, line)
    return out


@contextmanager
def opened(artifact: Path, options: Options, progress: Progress) -> Iterator[tuple[Path, Path]]:
    """A bundle to start while the block runs, and where its report goes: that of `artifact`, which is a bundle or what one is made of.

    Raises ArtifactError for neither, UnsupportedError for one that this machine cannot run.
    """
    if (artifact / BUNDLE).is_file():
        made = bundles.read(artifact)
        if options.python not in (None, made.python):
            raise InputError(
                f"is {options.python}, and this bundle is for {made.python}.", hint="Give the artifact instead of it.", where="--python"
            )
        require_here(made.target, made.arch)
        yield artifact, artifact
        return
    folder, _ = flags.folders(artifact)
    if not (folder / manifest.MANIFEST).is_file():
        raise ArtifactError(
            f"{folder} is neither an artifact nor a bundle.", hint="Give a folder that `hotfoot build` or `hotfoot bundle` wrote."
        )
    target = targets.load(manifest.read(folder).target)
    require_here(target.name, target.arch)
    with tempfile.TemporaryDirectory(prefix="hotfoot-cold-") as room:
        with progress.step("bundle") as step:
            package = flags.package(artifact)
            made = packaging.bundle(folder, Path(room) / "bundle", progress=step, python=options.python, package=package)
            step.result = f"{made.target}, Python {made.python}, for the time of this measurement"
        yield Path(room) / "bundle", Path("cold") / folder.resolve().name


def require_here(target: str, arch: str) -> None:
    """Raise UnsupportedError where this machine has another architecture."""
    if arch != (here := targets.machine_arch()):
        raise UnsupportedError(
            f"it is for {target} ({arch}), and this machine is {here}, which cannot run its code.",
            hint=f"Measure on such a machine, or build it for a target of {here}.",
        )


def question(folder: Path, made: Bundle, text: str | None) -> dict[str, Any]:
    """The body of the first request: `text`, or what the model is warmed up with. Raises UnsupportedError for an unknown task.

    The manifest is read only for a sample that depends on it: a bundle runs whichever version of hotfoot made it.
    """
    asked = task.load(made.task or _manifest(folder, made).task)
    parameters = {"max_new_tokens": NEW_TOKENS} if "max_new_tokens" in asked.parameters else {}
    if text is None:
        text = asked.sample(_manifest(folder, made)) if callable(asked.sample) else asked.sample
    return {"inputs": text, "parameters": parameters}


def _manifest(folder: Path, made: Bundle) -> Manifest:
    (layer,) = [layer for layer in made.layers if layer.kind == "model"]
    return manifest.read(folder / layer.path / MODEL_PLACE)


def measured(folder: Path, made: Bundle, asked: dict[str, Any], options: Options, report: Callable[[str], None]) -> Budget:
    """The budget of the bundle in a folder, the first event of each start being an API Gateway request (payload 2.0) for `asked`."""
    body = json.dumps(asked, ensure_ascii=False)
    found = starts.measure(folder, direct_event(body), runs=options.runs, memory_mb=options.memory_mb, say=report)
    machine = Machine.here()
    return Budget(
        model_id=made.model_id,
        model_digest=made.model_digest,
        target=made.target,
        python=made.python,
        memory_mb=options.memory_mb,
        threads=usable_threads(options.memory_mb),
        cpu=machine.cpu,
        cores=machine.cores,
        asked=body,
        bytecode=made.bytecode,
        missing=found.missing,
        wall_s=budgets.figure(start.wall_s for start in found.starts),
        cpu_s=budgets.figure(start.cpu_s for start in found.starts),
        peak_bytes=budgets.figure(start.peak_bytes for start in found.starts),
        own_s=budgets.figure(start.own_s for start in found.starts),
        rows=budgets.rows(found.starts),
        starts=found.starts,
    )


def table(found: Budget) -> Table:
    """A row a part, small imports together, and the whole."""
    shown = Table("part", caption=_caption(found), caption_justify="left")
    for heading in ("wall, ms", "range", "CPU, ms", "share"):
        shown.add_column(heading, justify="right")
    parts = budgets.rows(found.starts, small=SMALL)
    for number, row in enumerate(parts, start=1):
        shown.add_row(*_cells(row, found), end_section=number == len(parts))
    shown.add_row(*_cells(Row("", "together", found.wall_s, found.cpu_s), found))
    return shown


def _cells(row: Row, found: Budget) -> tuple[str, ...]:
    share = row.wall_s.median / found.wall_s.median
    return row.name, f"{1e3 * row.wall_s.median:.1f}", waterfall.span(row.wall_s), f"{1e3 * row.cpu_s.median:.1f}", f"{share:.1%}"


def _caption(found: Budget) -> str:
    threads = "1 thread" if found.threads == 1 else f"{found.threads} threads"
    return (
        f"medians of {len(found.starts)} after one that is not counted, so that the rows need not add up; {found.memory_mb} MB, that is "
        f"{threads}, but CPU is not throttled here, and files lie in memory; reading the probe's clocks took "
        f"{1e3 * found.own_s.median:.1f} ms of it"
    )


def summary(found: Budget) -> list[str]:
    """The line to remember, what to think of it, and what the CPU time would come to at the CPU shares of small functions."""
    lines = [
        f"cold start {found.wall_s.median:.2f} s wall, {found.cpu_s.median:.2f} s of CPU, memory at most {size(found.peak_bytes.high)}"
    ]
    if times := budgets.waited(found):
        lines.append(
            f"the wall time is {times:.1f} times the CPU time: this machine is busy or its disk slow; take the CPU column, or try again"
        )
    if stretched := budgets.estimates(found):
        sizes = ", ".join(f"{seconds:.1f} s at {memory} MB" for memory, seconds in stretched.items())
        lines.append(f"estimate, not measured: with the CPU share of its memory alone it takes {sizes}; Lambda may grant a start more")
    return lines

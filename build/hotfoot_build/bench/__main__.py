"""`scripts/bench`: parse, call one function, print, write."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from hotfoot.contract.errors import EXIT_CODES, HotfootError, InputError
from hotfoot_build import edge
from hotfoot_build.bench import timing
from hotfoot_build.progress import Progress, say

MODELS, OUT = Path("artifacts/models"), Path("artifacts/bench")
ROUNDS, MIN_SECONDS = 20, 0.1
QUICK_ROUNDS, QUICK_SECONDS = timing.LEAST_ROUNDS, 0.02
RUNS = 15  # whole processes, seconds each

app = typer.Typer(
    name="scripts/bench",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    help="Measure what the passes, the session settings, the HTTP door, a cold start and a read from S3 do, side by side, so that"
    " a busy machine hurts all alike.\n\n"
    "Every ratio comes with the interval that holds it in 95 of 100 cases; compare ratios, not milliseconds of two runs.\n\n"
    "  scripts/bench passes --quick                  a first look, wide intervals\n\n"
    "  scripts/bench passes --torch                  with the original in PyTorch beside them\n\n"
    "  scripts/bench passes --models DIR --model embed --model sentiment\n\n"
    "  scripts/bench sessions                        what each setting of the session costs and gains\n\n"
    "  scripts/bench http                            what the HTTP door costs, and batches of mixed lengths gain\n\n"
    "  scripts/bench cold                            a cold start beside sentence-transformers, optimum and fastembed\n\n"
    "  scripts/bench weights                         weights from an emulated S3 into memory",
)
console = Console(stderr=True)
tables = Console(width=None if sys.stdout.isatty() else 120)  # in a file nothing needs to be folded

Models = Annotated[Path, typer.Option("--models", help="Folder of model folders; the demo's are looked for in artifacts/models, too.")]
Out = Annotated[Path, typer.Option(help="Folder of the results.")]
Rounds = Annotated[int | None, typer.Option(help=f"Turns that each candidate has. Default: {ROUNDS}; the least: {timing.LEAST_ROUNDS}.")]
Quick = Annotated[bool, typer.Option("--quick", help="Few rounds and a tenth of the texts: wide intervals, soon.")]


@app.command()
def passes(
    models: Models = MODELS,
    out: Out = OUT,
    model: Annotated[
        list[str] | None, typer.Option(help="A folder's name, or NAME=TASK where the task is not known; may be repeated. Default: embed.")
    ] = None,
    rounds: Rounds = None,
    quick: Quick = False,
    torch: Annotated[bool, typer.Option("--torch", help="Time the original in PyTorch, too.")] = False,
) -> None:
    """Every precision of this machine's target beside ONNX Runtime's dynamic int8: size, agreement, and time at four shapes.

    Writes passes.json, passes.md and passes.png. What it builds lies beside them and is no release: no threshold is held.
    """
    from hotfoot_build.bench import passes as benchmark
    from hotfoot_build.bench import plot, report

    turns, seconds = _effort(rounds, quick)
    wanted = benchmark.Wanted(tuple(model or ["embed"]), tuple(dict.fromkeys((models, MODELS))), out, turns, seconds, quick, torch)
    found = benchmark.run(wanted, Progress(console))
    report.show(found, tables)
    report.write(found, report.markdown(found), out, "passes")
    plot.draw(found, out / "passes.png")
    _say_where(out, "passes.json", "passes.md", "passes.png")


@app.command()
def sessions(
    models: Models = MODELS,
    out: Out = OUT,
    model: Annotated[str, typer.Option(help="A folder's name, or NAME=TASK where the task is not known.")] = "embed",
    rounds: Rounds = None,
    quick: Quick = False,
) -> None:
    """Each session setting against Lambda's: time at four shapes, load, memory and idle CPU of the int8 artifact.

    Writes sessions.json and sessions.md. What is in functions/hotfoot/contract/platforms.py rests on these figures.
    """
    from hotfoot_build.bench import report
    from hotfoot_build.bench import sessions as benchmark

    turns, seconds = _effort(rounds, quick)
    wanted = benchmark.Wanted(model, tuple(dict.fromkeys((models, MODELS))), out, turns, seconds)
    found = benchmark.run(wanted, Progress(console))
    report.tell(found, benchmark.grids(found), benchmark.markdown(found), out, "sessions", tables)
    _say_where(out, "sessions.json", "sessions.md")


@app.command()
def http(
    artifact: Annotated[Path, typer.Argument(help="Folder of an artifact for this machine; the demo leaves one.")] = Path(
        "artifacts/embed"
    ),
    out: Out = OUT,
    rounds: Rounds = None,
    quick: Quick = False,
) -> None:
    """The Lambda handler beside a bare echo, and one request of 256 texts beside a padded batch and one by one.

    Writes http.json and http.md.
    """
    from hotfoot_build.bench import http as benchmark
    from hotfoot_build.bench import report

    turns, seconds = _effort(rounds, quick)
    found = benchmark.run(artifact, turns, seconds, Progress(console))
    report.tell(found, benchmark.grids(found), benchmark.markdown(found), out, "http", tables)
    _say_where(out, "http.json", "http.md")


@app.command()
def cold(
    bundle: Annotated[Path, typer.Argument(help="Folder of a bundle of embeddings for this machine; the demo leaves one.")] = Path(
        "artifacts/bundles/embed"
    ),
    models: Models = MODELS,
    out: Out = OUT,
    model: Annotated[str, typer.Option(help="The model that the bundle was made of: its folder's name, or NAME=TASK.")] = "embed",
    runs: Annotated[
        int | None, typer.Option(help=f"Starts of each process that count. Default: {RUNS}; the least: {timing.LEAST_ROUNDS}.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help=f"{QUICK_ROUNDS} runs: wide intervals, in some four minutes.")] = False,
    peers: Annotated[bool, typer.Option("--peers/--no-peers", help="Start the other ways, too, or hotfoot alone.")] = True,
) -> None:
    """A function from its start to its first vector, beside sentence-transformers, optimum and fastembed: CPU, wall time, memory.

    Then what its imports cost, by how their bytecode was made, and its memory over 500 requests. All peers run offline; fastembed's
    environment is made on first use. A vector that is not the original's fails the bench, a bar that is missed does not: read the last
    table.

    Writes cold.json, cold.md and cold.png.
    """
    from hotfoot_build.bench import cold as benchmark
    from hotfoot_build.bench import cold_plot, cold_report, report

    count, _ = _effort(runs, quick, default=RUNS, option="--runs")
    wanted = benchmark.Wanted(bundle, model, tuple(dict.fromkeys((models, MODELS))), out, count, peers)
    found = benchmark.run(wanted, Progress(console))
    report.tell(found, cold_report.grids(found), cold_report.markdown(found), out, "cold", tables)
    for note in found.notes:
        say(console, note)
    cold_plot.draw(found, out / "cold.png")
    _say_where(out, "cold.json", "cold.md", "cold.png")


@app.command()
def weights(
    megabytes: Annotated[int, typer.Option(help="Size of the object.", min=1)] = 300,
    out: Out = OUT,
    rounds: Rounds = None,
    quick: Quick = False,
) -> None:
    """Weights from an emulated S3 into memory, beside readers that do nothing but read: time and memory.

    Writes weights.json and weights.md.
    """
    from hotfoot_build.bench import report
    from hotfoot_build.bench import weights as benchmark

    turns, _ = _effort(rounds, quick)
    found = benchmark.run(megabytes * 10**6, turns, Progress(console))
    report.tell(found, benchmark.grids(found), benchmark.markdown(found), out, "weights", tables)
    _say_where(out, "weights.json", "weights.md")


def _effort(rounds: int | None, quick: bool, *, default: int = ROUNDS, option: str = "--rounds") -> tuple[int, float]:
    if rounds is not None and rounds < timing.LEAST_ROUNDS:
        raise InputError(f"is {rounds}; it takes {timing.LEAST_ROUNDS} for an interval.", where=option)
    return rounds or (QUICK_ROUNDS if quick else default), QUICK_SECONDS if quick else MIN_SECONDS


def _say_where(out: Path, *names: str) -> None:
    say(console, "The same as files: ", ", ".join(str(out / name) for name in names))


def main() -> None:
    """Run the command line; errors that the user can act on become a message and an exit code."""
    try:
        app(prog_name="scripts/bench")
    except HotfootError as error:
        say(console, (error.kind, "bold red"), f" {error}")
        sys.exit(EXIT_CODES[error.kind])
    except OSError as error:
        say(console, ("system", "bold red"), f" {edge.refusal(error)}")
        sys.exit(edge.SYSTEM)


if __name__ == "__main__":
    main()

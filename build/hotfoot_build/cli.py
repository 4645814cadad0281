"""The command line: parse, call one function, print."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

from hotfoot import targets, task
from hotfoot.contract.errors import EXIT_CODES, HotfootError
from hotfoot_build import edge, flags
from hotfoot_build.flags import ARTIFACT, BEARER, PRECISION, REGION

try:
    import typer
    from rich.console import Console
    from typer.core import TyperGroup

    from hotfoot_build.progress import say
except ModuleNotFoundError as absent:  # the command is installed with the base, which has nothing to run it with
    if absent.name not in ("typer", "rich"):
        raise
    sys.stderr.write(f"hotfoot: the command needs {absent.name}: pip install 'hotfoot[build]'. {edge.WITHOUT}\n")
    raise SystemExit(EXIT_CODES["unsupported"]) from None


class Commands(TyperGroup):
    """All commands; an interrupt is said in a line, and not in the way of the installed typer, which changes."""

    def invoke(self, ctx: Any) -> Any:
        """Run the one that was asked for."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            console.print("interrupted")
            raise SystemExit(edge.INTERRUPTED) from None


app = typer.Typer(
    name="hotfoot",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,  # the environment is among them, and tokens in it
    help=flags.HELP,
)
console = Console(stderr=True)


@app.command()
def build(  # noqa: PLR0913, PLR0917 - one a flag
    context: typer.Context,
    model: Annotated[
        str,
        typer.Argument(help="A hub id (ORG/NAME), a folder, an .onnx file with its config.json; or a \\[build.NAME] of hotfoot.toml."),
    ],
    task_name: Annotated[
        str | None, typer.Option("--task", help="What it is for; `hotfoot tasks` lists them. Or a module of your own.")
    ] = None,
    target: Annotated[str, typer.Option(help="The machine that it will run on; `hotfoot targets` lists them.")] = targets.LOCAL,
    out: Annotated[Path | None, typer.Option(help="Folder of the artifact. Default: artifacts/ and a name.")] = None,
    precision: Annotated[str, typer.Option(help=PRECISION)] = "int8",
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit on the hub; pinned to one commit for every file.")] = None,
    name: Annotated[str | None, typer.Option(help="The id of a local model. Default: its folder's name.")] = None,
    pooling: Annotated[str | None, typer.Option(help="cls, mean, max, last or none, where the model does not say.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="A lower limit than the model's own, special tokens included.")] = None,
    samples: Annotated[Path | None, typer.Option(help="What to prove the artifact on: a text a line, or .jsonl of texts or pairs.")] = None,
    threshold: Annotated[list[str] | None, typer.Option(help="NAME=VALUE: the least agreement to accept; may be repeated.")] = None,
    allow_pickle: Annotated[bool, typer.Option("--allow-pickle", help="Read pickled weights, which can run code.")] = False,
    trust_remote_code: Annotated[bool, typer.Option("--trust-remote-code", help="Run the model's own Python files.")] = False,
    option: Annotated[list[str] | None, typer.Option(help="PASS.NAME=VALUE: a pass's own setting, as JSON; may be repeated.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Build again even when the same request built what is there.")] = False,
    known: Annotated[Path | None, typer.Option(help=flags.KNOWN)] = None,
    labels: Annotated[str | None, typer.Option(help="Zero-shot labels where a request brings none, with commas between.")] = None,
    entailment: Annotated[str | None, typer.Option(help="The model's label that means entailment, where no name says.")] = None,
    package: Annotated[str | None, typer.Option(help=flags.PACKAGE)] = None,
) -> None:
    """Build an artifact: export, optimise, quantize, and prove it against the original model.

    A build that misses a threshold fails with exit code 6 and its numbers, and leaves nothing behind. HF_TOKEN is used for gated
    models and never recorded.
    """
    from hotfoot_build import build_command, named, pipeline

    if task_name is None:
        request = named.request(model, flags.given(context) - {"--force"}, force=force)
    else:
        request = pipeline.BuildRequest(
            model, task_name, target, precision, out, revision, name, pooling, max_tokens, samples, flags.thresholds(threshold or []),
            allow_pickle, trust_remote_code, flags.options(option or []), force, known, flags.labels(labels), entailment, package,
        )  # fmt: skip
    typer.echo(build_command.build(request, model if task_name is None else None, console))


@app.command()
def bundle(
    artifact: Annotated[Path, typer.Argument(help=ARTIFACT)],
    out: Annotated[Path | None, typer.Option(help=flags.BUNDLE)] = None,
    python: Annotated[str | None, typer.Option(help="Python version of the function, as 3.14. Default: the target's.")] = None,
    package: Annotated[str | None, typer.Option(help=flags.PACKAGE)] = None,
) -> None:
    """Make the deployable package: runtime, tokenizer and model layers and the code, for the artifact's target. No Docker."""
    from hotfoot_build import bundle_command

    folder, usual = flags.folders(artifact)
    typer.echo(bundle_command.bundle(folder, out or usual, python, flags.package(artifact) if package is None else package, console))


@app.command()
def cold(
    artifact: Annotated[Path, typer.Argument(help=f"{ARTIFACT} Or a folder that `hotfoot bundle` wrote.")],
    runs: Annotated[int, typer.Option(min=1, help="Starts to measure, each of a new environment; one before them is not counted.")] = 10,
    memory: Annotated[int, typer.Option(min=128, max=10_240, help="MB of the function; its threads follow. No limit is set here.")] = 1769,
    text: Annotated[str | None, typer.Option(help="What the first event asks. Default: the task's own sample.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the report. Default: the bundle's, or cold/ and the artifact's name.")] = None,
    python: Annotated[str | None, typer.Option(help="Python version of the function, as 3.14. Default: the target's.")] = None,
) -> None:
    """Measure cold starts here, in AWS's emulator and client: wall, CPU and memory, and which package or step takes how much of it.

    From an HTTP event's arrival to its answer. Writes cold.json and cold.png. A probe inside the function keeps time; no code of yours
    changes, nothing is deployed. This machine must have the bundle's architecture and Python (see `hotfoot doctor`).
    """
    from hotfoot_build import cold_command

    typer.echo(cold_command.cold(artifact, cold_command.Options(runs, memory, text, out, python), console))


@app.command()
def serve(
    artifacts: Annotated[list[Path], typer.Argument(help=f"{ARTIFACT} Of several the first is the default.")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8080,
) -> None:
    """Serve artifacts over HTTP: the app that runs in AWS, under uvicorn, with a page to try them in.

    Several are told apart by /models/NAME in front of a path, or by the `model` of a request's body; NAME is the artifact's folder.
    """
    from hotfoot import server

    raise SystemExit(server.main([*(str(flags.folders(artifact)[0]) for artifact in artifacts), "--host", host, "--port", str(port)]))


@app.command()
def run(  # noqa: PLR0913, PLR0917 - one a flag
    artifact: Annotated[Path, typer.Argument(help=ARTIFACT)],
    paths: Annotated[list[Path], typer.Argument(help=".txt (a text a line) and .jsonl files, or folders of them.")],
    out: Annotated[Path, typer.Option(help="Folder of the results.")],
    prefix: Annotated[str, typer.Option(help="Path of the results below it.")] = "results",
    mask: Annotated[bool, typer.Option("--mask", help="Write the texts with [LABEL] in place of entities, and no word of them.")] = False,
    whole: Annotated[bool, typer.Option("--whole", help="A .txt file is one text, not a text a line.")] = False,
    field: Annotated[str, typer.Option(help="The text's field in .jsonl files.")] = "text",
    id_field: Annotated[str | None, typer.Option(help="A field of .jsonl files to repeat in the results.")] = None,
    truncate: Annotated[bool, typer.Option("--truncate", help="Cut texts that are too long; else they become error records.")] = False,
    stride: Annotated[int | None, typer.Option(help="Tokens that windows over a long text share, where the task has windows.")] = None,
    part_bytes: Annotated[int, typer.Option(help="Size at which a result goes on in a new part.")] = 8_000_000,
    parameters: Annotated[str, typer.Option(help="The task's own parameters, as a JSON object.")] = "{}",
) -> None:
    """Process files as the S3 pipeline does: the same records, layout and reports, under a folder.

    What has a report is done and skipped; after a crash or Ctrl-C the same command goes on where it stopped. Texts that fail are
    error records, counted at the end; the exit code is 1 when a file could not be read at all.
    """
    import time

    from hotfoot.contract.bulk import BulkOptions
    from hotfoot_build import run_command

    options = BulkOptions(mask, whole, field, id_field, truncate, stride, part_bytes, flags.parameters(parameters))
    start = time.perf_counter()
    totals = run_command.run(flags.folders(artifact)[0], paths, out, prefix, options, console)
    run_command.summary(totals, time.perf_counter() - start, console)
    typer.echo(out)
    if totals.rejected:
        raise typer.Exit(1)


@app.command()
def init(directory: Annotated[Path, typer.Argument(help="Folder of the project; made where there is none.")] = Path()) -> None:
    """Write a commented hotfoot.toml, and the cdk.json to deploy it. Nothing is overwritten."""
    from hotfoot_build import init_command

    for path in init_command.init(directory):
        typer.echo(path)


@app.command()
def verify(artifact: Annotated[Path, typer.Argument(help=ARTIFACT)]) -> None:
    """Check every byte of an artifact against its manifest; all faults are named at once."""
    from hotfoot.contract import manifest

    folder, _ = flags.folders(artifact)
    typer.echo(f"{folder}: whole, digest {manifest.verify(folder).digest}")


@app.command()
def check(
    artifact: Annotated[Path, typer.Argument(help=ARTIFACT)],
    url: Annotated[str | None, typer.Option(help="A deployment of it, to be asked instead; signed for an address of AWS.")] = None,
    token: Annotated[str | None, typer.Option(help=BEARER)] = None,
    region: Annotated[str | None, typer.Option(help=REGION)] = None,
) -> None:
    """Ask again what was asked at build time, and compare: of the artifact on this machine, or of its deployment.

    Exit code 6 when an answer differs, 4 when the address serves another artifact or does not answer.
    """
    from hotfoot_build import replay

    folder, _ = flags.folders(artifact)
    typer.echo(f"{url or folder}: {replay.check(folder, url, token, region)} answers are those of the build")


@app.command()
def playground(
    url: Annotated[str, typer.Option(help="Address of a deployed endpoint.")],
    port: Annotated[int, typer.Option(help="Port on this machine, 0 for a free one.")] = 0,
    token: Annotated[str | None, typer.Option(help=BEARER)] = None,
    region: Annotated[str | None, typer.Option(help=REGION)] = None,
    no_open: Annotated[bool, typer.Option("--no-open", help="Leave the browser alone.")] = False,
) -> None:
    """Try a deployed endpoint in the browser, also one that takes signed requests only: they are signed here, with your AWS credentials."""
    from hotfoot_build import playground_command

    playground_command.start(url, token, region, port, browse=not no_open, ready=typer.echo)


@app.command(name="cache")
def show_cache(
    clear: Annotated[str | None, typer.Option(help="Remove what is of this kind, or `all`; it is made again when it is needed.")] = None,
) -> None:
    """List what hotfoot keeps in the user's cache folder, with sizes; or remove it.

    Old things go by themselves, those unused for longest: all but the newest 3 export environments, 8 exports and 8 layers.
    """
    from hotfoot_build import cache_command

    lines = cache_command.listing() if clear is None else cache_command.clearing(clear, lambda words: say(console, words))
    typer.echo("\n".join(lines))


@app.command()
def doctor(
    target: Annotated[
        str | None, typer.Option(help="Only what building, bundling and deploying for it takes; see `hotfoot targets`.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For scripts: target, ok, and findings with name, status, detail, fix.")] = False,
) -> None:
    """Look at what this machine has for all that hotfoot does, and say how to get the rest. Nothing is installed, no network asked.

    A tick: there. !: optional, or worth a look. A cross: needed and missing, exit code 3; the CDK only with a --target on Lambda.
    """
    from hotfoot_build import doctor_command

    raise typer.Exit(doctor_command.run(target, Console(highlight=False), as_json=as_json))


@app.command()
def tasks() -> None:
    """List the tasks."""
    typer.echo(flags.columns((name, task.load(name).summary) for name in task.names()))


@app.command(name="targets")
def list_targets() -> None:
    """List the targets, and which one `local` means here."""
    here = targets.local().name
    typer.echo(flags.columns((name, targets.load(name).summary + "  <- local" * (name == here)) for name in targets.names()))


def main() -> NoReturn:
    """Run the command line; errors that the user can act on become a message and an exit code."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)
    try:
        app()
    except HotfootError as error:
        _fail(error.kind, str(error), EXIT_CODES[error.kind])
    except ModuleNotFoundError as error:
        message = edge.lack(error)
        if message is None:
            raise
        _fail("unsupported", message, EXIT_CODES["unsupported"])
    except OSError as error:
        _fail("system", edge.refusal(error), edge.SYSTEM)
    sys.exit(0)


def _terminate(_number: int, _frame: object) -> NoReturn:
    """Leave as from an error, so that what is half done is removed; the default would drop everything where it stands."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one must not cut that short
    console.print("terminated")
    raise SystemExit(edge.TERMINATED)


def _fail(kind: str, message: str, code: int) -> NoReturn:
    say(console, (kind, "bold red"), f" {message}")
    sys.exit(code)

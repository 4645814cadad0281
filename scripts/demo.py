"""Two real models from package to answer: built, proven, bundled, run under AWS's Lambda runtime, held against the originals.

Called by scripts/demo, which sets everything up first.
"""

from __future__ import annotations

import json
import math
import platform
import statistics
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from hotfoot import targets
from hotfoot.contract.bundle import Bundle
from hotfoot_build import environment
from hotfoot_build.package.bundle import bundle
from hotfoot_build.package.emulate import Emulator
from hotfoot_build.pipeline import BuildRequest, Built, build
from hotfoot_build.progress import Progress, size
from models import prepare

ROOT = Path(__file__).resolve().parent.parent
ARTIFACTS = ROOT / "artifacts"
WARM_CALLS = 50
MEMORY_MB = 1769  # one vCPU on Lambda

SENTENCES = [
    "A man is playing a guitar on stage.",
    "Someone performs guitar music at a concert.",
    "The stock market fell sharply on Monday.",
]
LETTERS = [
    "Hi, I'm Maria Gonzalez and I live at 42 Elm Street, Springfield, IL 62704. Call 555-123-4567.",
    "Please send the invoice to Thomas Becker, 9 Harbour Road, Portland, before Friday.",
    "The weather will be fine all week.",
]

console = Console()


@dataclass(frozen=True)
class Model:
    """One of the demo's models: what it is for, what it is asked, and how near to the original its answers must be."""

    name: str
    title: str
    task: str
    path: str
    texts: list[str]


MODELS = [
    Model("embed", "all-MiniLM-L6-v2", "feature-extraction", "/embed", SENTENCES),
    Model("pii", "rampart-pii", "token-classification", "/", LETTERS),
]


@dataclass(frozen=True)
class Row:
    """One line of the closing table; None where it was not measured on this machine."""

    model: str
    target: str
    artifact_bytes: int
    original_bytes: int
    package_unzipped_bytes: int
    package_zipped_bytes: int
    agreement: str
    cold_seconds: float | None
    cold_cpu_seconds: float | None
    original_cold_seconds: float | None
    original_cold_cpu_seconds: float | None
    warm_milliseconds: float | None
    remembered_milliseconds: float | None


def main() -> None:
    start = time.perf_counter()
    rows = [row for model in MODELS for row in run(model)]
    table(rows)
    machine = {"arch": platform.machine(), "cpu_features": sorted(targets.cpu_features()), "python": platform.python_version()}
    seconds = round(time.perf_counter() - start, 1)
    report = {"machine": machine, "rows": [asdict(r) for r in rows], "seconds": seconds}
    (ARTIFACTS / "demo.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    console.print(f"\nDone in {seconds} s. The same as JSON: artifacts/demo.json")
    console.print("Serve one yourself: .venv/bin/hotfoot serve artifacts/embed")


def run(model: Model) -> list[Row]:
    console.rule(f"[bold]{model.title}[/bold], {model.task}")
    source = prepare(model.name, ARTIFACTS / "models")
    weights = (source / "model.safetensors").stat().st_size
    built, made, folder = package(model, source, targets.LOCAL)
    original = ask_original(model, source)
    answers, cold, cpu, warm, remembered = ask_lambda(model, folder)
    show(model, answers, original["answers"])
    local = Row(
        model.name, built.manifest.target, artifact_bytes(built), weights, made.unzipped_bytes, made.zipped_bytes, agreement(built),
        cold, cpu, original["first_seconds"], original["first_cpu_seconds"], warm, remembered,
    )  # fmt: skip
    if model.name != "embed":
        return [local]
    built, made, _ = package(model, source, "lambda-arm64")
    console.print("  a bundle for Graviton cannot run on this machine; its files and limits are checked", highlight=False)
    sizes = (artifact_bytes(built), weights, made.unzipped_bytes, made.zipped_bytes)
    return [local, Row(model.name, "lambda-arm64", *sizes, agreement(built), *[None] * 6)]


def package(model: Model, source: Path, target: str) -> tuple[Built, Bundle, Path]:
    name = model.name if target == targets.LOCAL else f"{model.name}-{target}"
    console.print(f"Building {name} for {targets.load(target).name}", highlight=False)
    progress = Progress(console)
    request = BuildRequest(str(source), model.task, target, out=ARTIFACTS / name, name=model.title)
    built = build(request, progress)
    folder = ARTIFACTS / "bundles" / name
    with progress.step("bundle") as step:
        made = bundle(built.path, folder, progress=step)
        step.result = f"{size(made.unzipped_bytes)} unzipped, {size(made.zipped_bytes)} zipped"
    return built, made, folder


def artifact_bytes(built: Built) -> int:
    return sum(f.size for f in (*built.manifest.files, *built.manifest.tokenizer.files))


def agreement(built: Built) -> str:
    wanted = {"cosine_mean": "cosine", "entity_f1": "entity F1"}
    return ", ".join(f"{wanted[m.name]} {m.value:.4f}" for m in built.parity.metrics if m.name in wanted)


def ask_original(model: Model, source: Path) -> dict[str, Any]:
    interpreter = environment.python(lambda message: console.print(f"  {message}", highlight=False))
    with Progress(console).step("original") as step:
        command = [str(interpreter), str(ROOT / "scripts" / "original.py"), model.task, str(source)]
        done = subprocess.run(command, input=json.dumps(model.texts), capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"the original model did not answer:\n{done.stderr[-2000:]}")
        answer: dict[str, Any] = json.loads(done.stdout)
        step.result = f"first answer after {answer['first_seconds']:.1f} s, {answer['first_cpu_seconds']:.1f} s of CPU"
    return answer


def ask_lambda(model: Model, folder: Path) -> tuple[list[Any], float, float, float, float]:
    """Answers, seconds and CPU seconds from the start of the function to its first answer, and medians of warm calls in ms.

    Of the warm calls the first median is over answers that are computed anew, the second over ones from memory.
    """
    with Progress(console).step("lambda") as step, Emulator(folder, memory_mb=MEMORY_MB) as function:
        start = time.perf_counter()
        first = post(function, model.path, model.texts[0])
        cold, cpu = time.perf_counter() - start, function.usage().cpu_seconds
        step(f"{WARM_CALLS} warm calls")
        answers = [first, *(post(function, model.path, text) for text in model.texts[1:])]
        warm, remembered = (median_of_calls(function, model, anew=anew) for anew in (True, False))
        step.result = f"first answer after {cold:.2f} s, {cpu:.2f} s of CPU; warm {warm:.1f} ms, from memory {remembered:.1f} ms"
    return answers, cold, cpu, warm, remembered


def median_of_calls(function: Emulator, model: Model, *, anew: bool) -> float:
    """Milliseconds that the same question takes again."""
    times = []
    for _ in range(WARM_CALLS):
        start = time.perf_counter()
        post(function, model.path, model.texts[0], anew=anew)
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def post(function: Emulator, path: str, text: str, *, anew: bool = False) -> Any:
    """Send an API Gateway HTTP API event (payload 2.0) and read the one answer out of its body."""
    body: dict[str, Any] = {"inputs": text}
    if path == "/":
        body["parameters"] = {"aggregation_strategy": "first"}
    http = {"method": "POST", "path": path, "protocol": "HTTP/1.1", "sourceIp": "127.0.0.1", "userAgent": "demo"}
    context: dict[str, Any] = {"http": http, "stage": "$default", "routeKey": "$default", "requestId": "demo", "domainName": "localhost"}
    context |= {"accountId": "123456789012", "apiId": "demo", "time": "01/Jan/2026:00:00:00 +0000", "timeEpoch": 1767225600000}
    answer = function.invoke(
        {
            "version": "2.0",
            "routeKey": "$default",
            "rawPath": path,
            "rawQueryString": "",
            "headers": {"host": "localhost", "content-type": "application/json", "x-use-cache": "false" if anew else "true"},
            "requestContext": context,
            "body": json.dumps(body),
            "isBase64Encoded": False,
        }
    )
    if answer["statusCode"] != 200:
        raise SystemExit(f"the function answered {answer['statusCode']}: {answer['body']}")
    found = json.loads(answer["body"])
    return found[0] if path == "/embed" else found


def show(model: Model, ours: list[Any], theirs: list[Any]) -> None:
    """The answers beside those of the original."""
    if model.name == "embed":
        grid = Table("sentence", "cosine to the first, hotfoot", "original", "hotfoot to original")
        for text, a, b in zip(model.texts, ours, theirs, strict=True):
            grid.add_row(text, f"{cosine(ours[0], a):.4f}", f"{cosine(theirs[0], b):.4f}", f"{cosine(a, b):.4f}")
    else:
        grid = Table("text", "hotfoot", "original")
        for text, a, b in zip(model.texts, ours, theirs, strict=True):
            grid.add_row(text, entities(text, a), entities(text, b))
    console.print(grid)


def entities(text: str, found: list[dict[str, Any]]) -> str:
    return "\n".join(f"{e['entity_group']} {text[e['start'] : e['end']]}" for e in found) or "(none)"


def cosine(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True)) / (math.hypot(*a) * math.hypot(*b))


def table(rows: list[Row]) -> None:
    """A line a figure, a column a model and target: fits an ordinary terminal."""
    console.rule("[bold]What came of it[/bold]")
    grid = Table("")
    for r in rows:
        grid.add_column(f"{r.model}\n{r.target}", overflow="fold")
    grid.add_row("original weights", *(size(r.original_bytes) for r in rows))
    grid.add_row("artifact", *(size(r.artifact_bytes) for r in rows))
    grid.add_row("package, unzipped", *(size(r.package_unzipped_bytes) for r in rows))
    grid.add_row("package, zipped", *(size(r.package_zipped_bytes) for r in rows))
    grid.add_row("agreement with the original", *(r.agreement for r in rows))
    grid.add_row("cold start", *(figure(r.cold_seconds, "s") for r in rows))
    grid.add_row("CPU time of the cold start", *(figure(r.cold_cpu_seconds, "s") for r in rows))
    grid.add_row("the same of the original", *(figure(r.original_cold_cpu_seconds, "s") for r in rows))
    grid.add_row("warm call, computed anew", *(figure(r.warm_milliseconds, "ms") for r in rows))
    grid.add_row("warm call, from memory", *(figure(r.remembered_milliseconds, "ms") for r in rows))
    console.print(grid)
    console.print("cold start: from the start of the function's process to its first answer, on this machine, at 1,769 MB.")


def figure(value: float | None, unit: str) -> str:
    return f"{value:.2f} {unit}" if value is not None else "not run here"


if __name__ == "__main__":
    main()

"""What the door costs: the handler beside a bare echo, and a request of many texts beside other ways to run them.

The handler's own time is what is left of an invocation without tokenising and running the model. A model's run leaves the caches cold for
whatever follows it, so the echo that it is compared with comes after such a run, too; a kept answer is compared with an echo that
follows another echo.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from hotfoot.cache import Cache
from hotfoot.model import Model
from hotfoot.session import Session
from hotfoot.task import Encoded
from hotfoot_build import calibrate
from hotfoot_build.bench import timing
from hotfoot_build.bench.report import Grid, Machine
from hotfoot_build.bench.timing import Ratio
from hotfoot_build.progress import Progress

TEXTS, SHORTEST, LONGEST = 256, 5, 400  # of one request, in tokens each
STAGES = re.compile(r"(\w+);dur=([\d.]+)")
CONTEXT = SimpleNamespace(
    aws_request_id="8a2cf4a0-1111-4222-8333-444455556666",
    function_name="bench",
    memory_limit_in_mb="1769",
    function_version="1",
    invoked_function_arn="arn:aws:lambda:eu-central-1:123456789012:function:bench",
    get_remaining_time_in_millis=lambda: 29_000,
)


@dataclass(frozen=True)
class Door:
    """One way through the door: microseconds an invocation without the model, and how many times its echo that is."""

    name: str
    us: float
    echo_us: float
    to_echo: Ratio


@dataclass(frozen=True)
class Mix:
    """One request of many texts: milliseconds, and how many times as long the other ways take.

    padded: all as one batch, each as long as the longest. alone: one after the other. Without numbers where that is the same thing.
    """

    name: str
    texts: int
    tokens: int
    ms: float
    padded: Ratio
    alone: Ratio


@dataclass(frozen=True)
class HttpReport:
    """What `bench http` found."""

    machine: Machine
    model: str
    rounds: int
    min_seconds: float
    doors: tuple[Door, ...]
    mixes: tuple[Mix, ...]


class Stopped:
    """A clock that stands still while the model works."""

    def __init__(self) -> None:
        self._off = 0.0

    def __call__(self) -> float:
        """Seconds."""
        return time.perf_counter() - self._off

    def leave_out(self, seconds: float) -> None:
        """As if they had not passed."""
        self._off += seconds


def run(artifact: Path, rounds: int, min_seconds: float, progress: Progress) -> HttpReport:
    """Measure the artifact in `artifact`. Raises ArtifactError for one that cannot be opened."""
    model = Model.open(artifact, threads=1)
    texts = pick(model)
    with progress.step("door") as step:
        doors = _doors(artifact, model, texts[len(texts) // 2], rounds, min_seconds)
        step.result = ", ".join(f"{d.name} {d.to_echo.median:.2f}" for d in doors)
    mixes = []
    for name, chosen in several(texts).items():
        with progress.step("batch") as step:
            step(name)
            mixes.append(_mix(name, model, chosen, rounds, min_seconds))
            step.result = f"{name}: padded {mixes[-1].padded.median:.2f}, alone {mixes[-1].alone.median:.2f}"
    return HttpReport(Machine.here(), model.manifest.model.id, rounds, min_seconds, tuple(doors), tuple(mixes))


def pick(model: Model) -> list[Encoded]:
    """TEXTS of hotfoot's own texts, evenly over those of SHORTEST to LONGEST tokens, shortest first."""
    encoded = model.tokenizer.encode(calibrate.texts(None), truncate="right")
    fitting = sorted((e for e in encoded if SHORTEST <= len(e.ids) <= LONGEST), key=lambda e: len(e.ids))
    return [fitting[i] for i in np.linspace(0, len(fitting) - 1, TEXTS).astype(int)]


def several(texts: Sequence[Encoded]) -> dict[str, list[Encoded]]:
    """Mixes of lengths that a request may bring, shuffled."""
    order = np.random.default_rng(0).permutation(len(texts))
    shuffled = [texts[i] for i in order]
    quarter = len(texts) // 4
    return {
        f"{len(texts)} mixed": shuffled,
        "64 short": list(texts[:quarter]),
        "64 long": list(texts[-quarter:]),
        "31 short, 1 long": [*texts[:31], texts[-1]],
        "8 mixed": shuffled[:8],
        "2 mixed": [texts[len(texts) // 4], texts[-1]],
    }


def _mix(name: str, model: Model, texts: Sequence[Encoded], rounds: int, min_seconds: float) -> Mix:
    session = model.session
    assert isinstance(session, Session)  # noqa: S101 - a decoder has no batches
    longest = max(len(e.ids) for e in texts)
    padded = [_padded(e, longest) for e in texts]
    ways: dict[str, timing.Candidate] = {
        "ours": lambda: session.run(texts),
        "padded": lambda: session.run_batch(padded, longest),
        "alone": lambda: [session.run_batch([e], len(e.ids)) for e in texts],
    }
    samples = timing.interleaved(ways, rounds=rounds, min_seconds=min_seconds, clock=timing.clock_for(1))
    ratios = {way: timing.ratio(samples[way], samples["ours"]) for way in ("padded", "alone")}
    tokens = sum(len(e.ids) for e in texts)
    return Mix(name, len(texts), tokens, 1e3 * timing.typical(samples["ours"]), **ratios)


def _padded(encoded: Encoded, length: int) -> Encoded:
    """As a batch of one length has it. The ids past the end cost what any others do; whether a mask hides them later changes nothing."""
    ids = np.zeros(length, np.int32)
    ids[: len(encoded.ids)] = encoded.ids
    return Encoded(ids, np.zeros(length, np.int32), encoded.item, encoded.marks)


def _doors(artifact: Path, model: Model, text: Encoded, rounds: int, min_seconds: float) -> list[Door]:
    body = {"inputs": model.tokenizer.decode(text.ids.tolist(), skip_special_tokens=True)}
    clock = Stopped()
    with _handler(artifact) as function:
        echo = _echo()
        request = model.task.parse(body["inputs"], {}, model.manifest)

        def invoke(event: Mapping[str, Any]) -> None:
            said = function.handler(event, CONTEXT)["headers"]["server-timing"]
            clock.leave_out(sum(float(ms) for stage, ms in STAGES.findall(said) if stage in ("tokenize", "run")) / 1e3)

        def model_then_echo() -> None:
            started = time.perf_counter()
            model.answer(request, remember=False)
            clock.leave_out(time.perf_counter() - started)
            echo(kept, CONTEXT)

        def items_known() -> None:
            answers, function.app.answers = function.app.answers, Cache(0)
            invoke(kept)
            function.app.answers = answers

        kept, anew = _event(body, {}), _event(body, {"x-use-cache": "false"})
        ways: dict[str, timing.Candidate] = {
            "echo": lambda: echo(kept, CONTEXT),
            "echo after a run": model_then_echo,
            "computed anew": lambda: invoke(anew),
            "texts known, answer made": items_known,
            "answer kept": lambda: invoke(kept),
        }
        samples = timing.interleaved(ways, rounds=rounds, min_seconds=min_seconds, clock=clock)
    against = {"computed anew": "echo after a run", "texts known, answer made": "echo", "answer kept": "echo"}
    return [
        Door(name, 1e6 * timing.typical(samples[name]), 1e6 * timing.typical(samples[to]), timing.ratio(samples[name], samples[to]))
        for name, to in against.items()
    ]


@contextlib.contextmanager
def _handler(artifact: Path) -> Iterator[Any]:
    """The handler's module as a function imports it, its log lines thrown away."""
    wanted = {"HOTFOOT_ARTIFACT": str(artifact), "HOTFOOT_THREADS": "1", "HOTFOOT_CACHE_MB": "64"}
    before = {key: os.environ.get(key) for key in wanted}
    os.environ.update(wanted)
    sys.modules.pop("hotfoot.handlers.http", None)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield importlib.import_module("hotfoot.handlers.http")
    finally:
        for key, value in before.items():
            os.environ.pop(key) if value is None else os.environ.__setitem__(key, value)


def _echo() -> Callable[[Any, Any], Any]:
    """A function that gives the body back: the same adapter, framework, log line and metrics, and nothing else."""
    from mangum import Mangum
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    from hotfoot import observe

    async def answer(request: Request) -> JSONResponse:
        return JSONResponse(await request.json())

    adapter = Mangum(Starlette(routes=[Route("/", answer, methods=["POST"])]), lifespan="off", text_mime_types=["json"])
    metrics, logger = observe.metrics(), observe.logger()

    @metrics.log_metrics
    @logger.inject_lambda_context(clear_state=True, log_event=False)
    def handler(event: Any, context: Any) -> Any:
        started = time.perf_counter()
        wrapped = adapter(event, context)
        spent = 1e3 * (time.perf_counter() - started)
        said = observe.Record("POST", "/", wrapped["statusCode"], context.aws_request_id, total_ms=spent, cache="miss", inputs=1)
        observe.log(said)
        observe.count(said)
        return wrapped

    made: Callable[[Any, Any], Any] = handler
    return made


def _event(body: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
    """As API Gateway sends a request to an HTTP API's function."""
    sent = {"content-type": "application/json", "host": "bench.execute-api.eu-central-1.amazonaws.com", "user-agent": "bench", **headers}
    http = {"method": "POST", "path": "/", "protocol": "HTTP/1.1", "sourceIp": "203.0.113.9", "userAgent": "bench"}
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": "/",
        "rawQueryString": "",
        "headers": {**sent, "x-forwarded-for": "203.0.113.9", "x-forwarded-port": "443", "x-forwarded-proto": "https"},
        "requestContext": {"accountId": "123456789012", "apiId": "bench", "http": http, "requestId": "bench", "stage": "$default"},
        "body": json.dumps(body),
        "isBase64Encoded": False,
    }


def grids(report: HttpReport) -> list[Grid]:
    """Both tables."""
    doors = [(d.name, f"{d.us:.0f} us", f"{d.echo_us:.0f} us", str(d.to_echo)) for d in report.doors]
    mixes = [(m.name, str(m.tokens), f"{m.ms:.1f} ms", str(m.padded), str(m.alone)) for m in report.mixes]
    return [
        Grid("the door", ("", "own time", "echo", "times"), tuple(doors), "Wall time of an invocation without tokenising and running."),
        Grid("many texts", ("", "tokens", "ours", "one padded batch", "one by one"), tuple(mixes), "CPU time; the others over ours."),
    ]


def markdown(report: HttpReport) -> str:
    """The whole report as a page."""
    how = f"{report.model}, {report.rounds} rounds, each turn at least {report.min_seconds:g} s, all candidates in turn, one thread"
    lines = ["# What the door costs", "", f"Measured by `scripts/bench http` on {report.machine}: {how}.", ""]
    return "\n".join([*lines, *(grid.markdown() for grid in grids(report))])

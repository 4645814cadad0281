"""What reading weights from S3 costs, against the most that the emulated S3 gives: time, and memory beside the weights themselves."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from urllib.parse import urlsplit

import numpy as np

from hotfoot import weights as fetching
from hotfoot.contract.errors import HotfootError, UnsupportedError
from hotfoot_build.bench import timing
from hotfoot_build.bench.report import Grid, Machine
from hotfoot_build.bench.timing import Ratio
from hotfoot_build.progress import Progress, size

BUCKET, KEY = "assets", "weights.data"
MOST_TIMES, MOST_MEMORY = 1.10, 1.15
START_S = 30.0


@dataclass(frozen=True)
class WeightsReport:
    """What `bench weights` found. grown: bytes that the process took for a fetch, over those of the file."""

    machine: Machine
    file_bytes: int
    part_bytes: int
    at_once: int
    rounds: int
    seconds: float
    plain_seconds: float
    to_plain: Ratio
    grown: float
    boto3: bool


def run(count: int, rounds: int, progress: Progress) -> WeightsReport:
    """Fetch an object of `count` random bytes, in turn with plain readers of the same ranges. Raises UnsupportedError without moto."""
    body = np.random.default_rng(0).bytes(count)
    digest = hashlib.sha256(body).hexdigest()
    found: dict[str, list[dict[str, float]]] = {"hotfoot": [], "plain": []}
    with _emulated_s3() as url:
        for path, content in ((f"/{BUCKET}", b""), (f"/{BUCKET}/{KEY}", body)):
            _put(url, path, content)
        with progress.step("fetch") as step:
            for number in range(rounds + 1):
                for how in sorted(found, reverse=bool(number % 2)):
                    made = _once(how, url, count, digest)
                    if number:  # the first round fills caches
                        found[how].append(made)
                        step(f"round {number} of {rounds}: {how} {count / 1e6 / made['seconds']:.0f} MB/s")
            step.result = f"{size(count)}, {rounds} rounds"
    ours, plain = ([one["seconds"] for one in found[how]] for how in ("hotfoot", "plain"))
    return WeightsReport(
        machine=Machine.here(),
        file_bytes=count,
        part_bytes=fetching.PART,
        at_once=fetching.AT_ONCE,
        rounds=rounds,
        seconds=timing.typical(ours),
        plain_seconds=timing.typical(plain),
        to_plain=timing.ratio(ours, plain),
        grown=statistics.median(one["grown_bytes"] for one in found["hotfoot"]) / count,
        boto3=any(one["boto3"] for one in found["hotfoot"]),
    )


def _once(how: str, url: str, count: int, digest: str) -> dict[str, float]:
    command = [sys.executable, "-m", "hotfoot_build.bench.weights_once", how, url, BUCKET, KEY, str(count), digest]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise HotfootError(f"a fetch failed: {done.stderr.strip()[-500:]}")
    made: dict[str, float] = json.loads(done.stdout)
    return made


@contextlib.contextmanager
def _emulated_s3() -> Iterator[str]:
    """The server of moto, while the block lasts."""
    if find_spec("moto") is None:
        raise UnsupportedError("moto, which plays S3, is not installed.", hint="Run scripts/setup.")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + START_S
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            if server.poll() is not None or time.monotonic() > deadline:
                raise HotfootError("moto's server does not start.")
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def _put(url: str, path: str, body: bytes) -> None:
    connection = http.client.HTTPConnection(urlsplit(url).netloc)
    with contextlib.closing(connection):
        connection.request("PUT", path, body)
        status = connection.getresponse().status
    if status != http.client.OK:
        raise HotfootError(f"the emulated S3 answered {status} to PUT {path}.")


def grids(report: WeightsReport) -> list[Grid]:
    """What was measured, and the bars."""
    speed = report.file_bytes / 1e6
    rows = (
        ("hotfoot, checked", f"{report.seconds:.2f} s", f"{speed / report.seconds:.0f} MB/s"),
        ("plain readers", f"{report.plain_seconds:.2f} s", f"{speed / report.plain_seconds:.0f} MB/s"),
    )
    bars = (
        (f"time over the plain readers' at most {MOST_TIMES}", str(report.to_plain), _met(report.to_plain.below(MOST_TIMES))),
        (f"memory over the file's size at most {MOST_MEMORY}", f"{report.grown:.3f}", _met(report.grown <= MOST_MEMORY)),
        ("boto3 is not imported", "imported" if report.boto3 else "absent", _met(not report.boto3)),
    )
    about = (
        f"{size(report.file_bytes)}, {report.at_once} ranges of {size(report.part_bytes)} at once; wall time, the server on this machine."
    )
    return [Grid("from S3 into memory", ("", "time", "speed"), rows, about), Grid("bars", ("", "found", "met"), bars)]


def _met(met: bool) -> str:
    return "yes" if met else "NO"


def markdown(report: WeightsReport) -> str:
    """The whole report as a page."""
    how = f"{report.rounds} rounds in turn, each fetch in a process of its own"
    lines = ["# What reading weights from S3 costs", "", f"Measured by `scripts/bench weights` on {report.machine}: {how}.", ""]
    return "\n".join([*lines, *(grid.markdown() for grid in grids(report))])

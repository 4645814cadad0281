"""From the start of a process to its first vector: hotfoot's function beside other ways, each in processes of its own, in turn."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hotfoot.contract.errors import HotfootError, ParityError
from hotfoot.http import events
from hotfoot.task import Array
from hotfoot_build import environment
from hotfoot_build.bench import cold_fastembed, cold_meter, contenders, timing
from hotfoot_build.bench.case import Case
from hotfoot_build.bench.peer import Peer
from hotfoot_build.bench.timing import Ratio
from hotfoot_build.package.emulate import Emulator
from hotfoot_build.progress import Step

MEMORY_MB = 1769  # one vCPU, so that hotfoot runs one thread
LEAST_COSINE = 0.98  # to the original's vector
HOTFOOT = "hotfoot"
SCRIPT = Path(__file__).with_name("cold_peer.py")
WAYS = {"sentence_transformers": "sentence-transformers", "optimum": "optimum", "fastembed": "fastembed"}


@dataclass(frozen=True)
class Start:
    """One process from its start to its first vector: seconds of CPU and on the wall, bytes in memory at most, threads by then."""

    cpu: float
    wall: float
    peak: int
    threads: int
    vector: Array


@dataclass
class Candidate:
    """One way to the vector, and its starts so far. peer: its name in WAYS, None for hotfoot. chosen: threads it was told, 0 for none."""

    name: str
    peer: str | None
    chosen: int
    start: Callable[[], Start]
    starts: list[Start] = field(default_factory=list)

    def __call__(self) -> None:
        """Start once more."""
        self.starts.append(self.start())


@dataclass(frozen=True)
class Row:
    """One candidate: medians, the largest peak, cosine to the original, and how many times hotfoot's CPU and wall time it takes.

    peer: as the candidate has it. threads: alive at the first vector, the main one and every pool's.
    """

    name: str
    peer: str | None
    threads: int
    cpu_s: float
    wall_s: float
    peak_bytes: int
    most_bytes: int
    cosine: float
    cpu: Ratio
    wall: Ratio


def function(bundle: Path, text: str) -> Start:
    """The bundle under AWS's emulator and runtime client: an HTTP event in, a vector out. Raises HotfootError for an answer that is none.

    The emulator, which plays Lambda's service, is up already and does not count.
    """
    with Emulator(bundle, memory_mb=MEMORY_MB) as running:
        started = time.perf_counter()
        vectors = ask(running, text)
        wall = time.perf_counter() - started
        found = cold_meter.used(running.processes())
    return Start(found.cpu, wall, found.peak, found.threads, vectors)


def ask(running: Emulator, inputs: str | Sequence[str]) -> Array:
    """The answer to `inputs`, cut to the model's limit, over the function's HTTP door: a vector, or one a text."""
    answer = running.invoke(events.direct_event(json.dumps({"inputs": inputs, "parameters": {"truncate": True}})))
    if answer["statusCode"] != 200:
        raise HotfootError(f"the function answered {answer['statusCode']}: {answer['body']}")
    found: Array = np.array(json.loads(answer["body"]), np.float32)
    return found.reshape(-1) if isinstance(inputs, str) else found


def peer(command: Sequence[str], environ: dict[str, str], text: str) -> Start:
    """One run of `cold_peer.py`, looked at from outside while it waits after its vector. Raises ArtifactError with its last words."""
    started = time.perf_counter()
    with Peer(command[3], command, environ) as running:
        vector = running.ask(text=text)["vector"]
        wall = time.perf_counter() - started
        found = cold_meter.used([running.pid])
    return Start(found.cpu, wall, found.peak, found.threads, np.array(vector, np.float32))


def candidates(bundle: Path, case: Case, text: str, out: Path, step: Step, *, peers: bool) -> tuple[list[Candidate], list[str]]:
    """hotfoot, and each peer as it comes and with one thread; and a note for each peer that cannot be had here."""
    made, notes = [Candidate(HOTFOOT, None, 1, partial(function, bundle, text))], []
    if not peers:
        return made, ["The peers were left out, as --no-peers asked."]
    folder = prepared(case, out)
    for way, title in WAYS.items():
        try:
            interpreter = (cold_fastembed if way == "fastembed" else environment).python(step)
        except HotfootError as error:
            notes.append(f"{title} is not there: {error}")
            continue
        model = case.snapshot.path if way == "sentence_transformers" else folder
        for threads, name in ((0, title), (1, f"{title}, one thread")):
            command = [str(interpreter), "-P", str(SCRIPT), way, str(model), str(threads)]
            made.append(Candidate(name, way, threads, partial(peer, command, peer_environment(threads), text)))
    return made, notes


def prepared(case: Case, out: Path) -> Path:
    """The original's files that tokenizers read, and ONNX Runtime's own dynamic int8 of its graph: what optimum and fastembed get."""
    folder = out / "cold-peers"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in case.snapshot.path.glob("*.json"):
        shutil.copyfile(file, folder / file.name)
    contenders.quantize(case, folder / "model.onnx")
    return folder


def peer_environment(threads: int) -> dict[str, str]:
    """As a user's, offline. Without PYTHON* variables: one forbids the bytecode that a second start finds. threads: 0 for none said."""
    left_out = ("PYTHON", "OMP_", "OPENBLAS_", "MKL_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(left_out) and k != "HF_TOKEN"}
    # numpy's OpenBLAS starts a pool at its import, which spins for tens of milliseconds
    chosen = {"OMP_NUM_THREADS": str(threads)} if threads else {}
    # ONNX Runtime would write and send what it is used for
    return {**kept, **chosen, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "ORT_DISABLE_TELEMETRY": "1"}


def measure(ways: Sequence[Candidate], original: Array, runs: int, step: Step) -> tuple[Row, ...]:
    """Start every candidate `runs` times, in turn. Raises ParityError for one whose vector is not the original's.

    The first two starts of each do not count: they write bytecode and fill the system's file cache.
    """

    def turn(way: Candidate) -> None:
        step(f"{way.name}, start {len(way.starts) + 1} of {runs + 2}")
        way()

    cpu = timing.interleaved(
        {way.name: partial(turn, way) for way in ways},
        rounds=runs,
        min_seconds=0,
        clock=lambda: sum(start.cpu for way in ways for start in way.starts),
    )
    return tuple(_row(way, ways[0], cpu, original, runs) for way in ways)


def _row(way: Candidate, ours: Candidate, cpu: timing.Samples, original: Array, runs: int) -> Row:
    counted, of_ours = way.starts[-runs:], ours.starts[-runs:]
    agreement = min(cosine(start.vector, original) for start in way.starts)
    if agreement < LEAST_COSINE:
        raise ParityError(
            f"{way.name} answers another vector than the original: their cosine is {agreement:.4f}, and {LEAST_COSINE} is asked.",
            hint="Is the bundle of the model that --model names?",
        )
    return Row(
        name=way.name,
        peer=way.peer,
        threads=round(statistics.median(start.threads for start in counted)),
        cpu_s=timing.typical(cpu[way.name]),
        wall_s=timing.typical([start.wall for start in counted]),
        peak_bytes=round(timing.typical([start.peak for start in counted])),
        most_bytes=max(start.peak for start in counted),
        cosine=agreement,
        cpu=timing.ratio(cpu[way.name], cpu[ours.name]),
        wall=timing.ratio([start.wall for start in counted], [start.wall for start in of_ours]),
    )


def cosine(a: Any, b: Any) -> float:
    """Of two vectors; 0 for vectors of different lengths."""
    if np.shape(a) != np.shape(b):
        return 0.0
    return float(np.dot(a, b) / (np.linalg.norm(a) * np.linalg.norm(b)))

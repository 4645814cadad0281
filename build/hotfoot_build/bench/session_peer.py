"""One artifact in a process of its own, opened with one session setting, told what to do over pipes.

    python -m hotfoot_build.bench.session_peer ARTIFACT < MESSAGES

The first message is {"threads", "session"}; then any of {"run": [TOKENS, …]}, {"open": true}, {"idle": SECONDS}. Every answer has
`cpu` and `wall` seconds, and the `now` and `peak` bytes of the process; the first has the bytes `before` as well.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from hotfoot import targets
from hotfoot.contract import codec
from hotfoot.contract import manifest as manifests
from hotfoot.contract.target import SessionSpec
from hotfoot.session import Session, session_options
from hotfoot.task import Encoded, Marks


class Opened:
    """The artifact, opened; what took how long, and how much memory it holds."""

    def __init__(self, artifact: Path, threads: int, spec: SessionSpec) -> None:
        self.manifest = manifests.read(artifact)
        self.path = artifact / self.manifest.graph().file
        self.target = replace(targets.load(self.manifest.target), session=spec)
        self.threads = threads
        self.session = self.open()

    def open(self) -> Session:
        """The graph, opened once more."""
        opened = ort.InferenceSession(
            str(self.path), session_options(self.target, self.threads), providers=list(self.target.session.providers)
        )
        return Session(opened, self.manifest.graph(), self.manifest)

    def answer(self, message: dict[str, Any]) -> dict[str, float]:
        """Do what the message says."""
        if "run" in message:
            inputs = tuple(encoded(item, tokens) for item, tokens in enumerate(message["run"]))
            return timed(lambda: self.session.run(inputs))
        return timed(self.open if "open" in message else lambda: time.sleep(message["idle"]))


def encoded(item: int, tokens: int) -> Encoded:
    """A text of so many tokens; which ones they are changes no time."""
    ids = np.random.default_rng(item).integers(5, 20, tokens, dtype=np.int32)
    return Encoded(ids, np.zeros_like(ids), item, lambda: Marks((), (), ()))


def memory() -> dict[str, int]:
    """Bytes of this process that are in memory now, and the most there ever were."""
    said = Path("/proc/self/status").read_text(encoding="ascii")
    found = {key: int(re.findall(rf"^{key}:\s+(\d+) kB$", said, re.MULTILINE)[0]) * 1024 for key in ("VmRSS", "VmHWM")}
    return {"now": found["VmRSS"], "peak": found["VmHWM"]}


def timed(call: Callable[[], object]) -> dict[str, float]:
    """Seconds of CPU and of the clock on the wall."""
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}


def main(arguments: Sequence[str]) -> None:
    """Open as the first line says, then answer line by line until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints must not come between
    opened: Opened | None = None
    for line in sys.stdin:
        message = json.loads(line)
        if opened is None:
            before, wall, cpu = memory()["now"], time.perf_counter(), time.process_time()
            opened = Opened(Path(arguments[0]), message["threads"], codec.build(SessionSpec, message["session"], "session"))
            answer: dict[str, float] = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall, "before": before}
        else:
            answer = opened.answer(message)
        answers.write(json.dumps({**answer, **memory()}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(sys.argv[1:])

"""An opened artifact: parse -> encode -> run -> decode."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hotfoot import settings, task
from hotfoot.contract import manifest as manifests
from hotfoot.contract.manifest import Manifest
from hotfoot.session import Session, open_session
from hotfoot.task import Array, Encoded, Request, Task
from hotfoot.tokenizer import Tokenizer, open_tokenizer


@dataclass(frozen=True)
class Prediction:
    """The answer as JSON (arrays are lists of numbers to be), what it took, and where the time went in milliseconds."""

    answer: Any
    tokens: int
    characters: int
    timings: Mapping[str, float]


@dataclass(frozen=True)
class Model:
    """An artifact, ready to answer. Thread-safe."""

    manifest: Manifest
    task: Task
    tokenizer: Tokenizer
    session: Session

    @classmethod
    def open(cls, directory: Path | str, *, threads: int | None = None, foreign: bool = False) -> Model:
        """Open the artifact in `directory`. `threads` overrides what the machine grants.

        foreign: open it on a machine that it was not built for, as the build stage does to measure it.

        Raises ArtifactError for a damaged or foreign artifact, UnsupportedError for an unknown task or target.
        """
        artifact, here = Path(directory), settings.read()
        manifest = manifests.read(artifact)
        return cls(
            manifest=manifest,
            task=task.load(manifest.task),
            tokenizer=open_tokenizer(artifact, manifest, here.layer_root),
            session=open_session(artifact, manifest, threads or here.threads, foreign=foreign),
        )

    def predict(self, inputs: Any, parameters: Mapping[str, Any] | None = None) -> Prediction:
        """Answer one request, as the HTTP API takes it: `inputs` a text or a list, `parameters` the task's own.

        Raises InputError with the path of what is wrong.
        """
        return self.answer(self.task.parse(inputs, parameters or {}, self.manifest))

    def answer(self, request: Request) -> Prediction:
        """Answer a request that is already parsed."""
        start = time.perf_counter()
        encoded = self.task.encode(request, self.tokenizer)
        tokenized = time.perf_counter()
        outputs = self.task.run(self.session, encoded)
        ran = time.perf_counter()
        answer = self.task.decode(request, encoded, outputs, self.manifest)
        done = time.perf_counter()
        return Prediction(
            answer=answer,
            tokens=sum(len(e.ids) for e in encoded),
            characters=sum(map(len, request.texts)),
            timings={"tokenize": 1e3 * (tokenized - start), "run": 1e3 * (ran - tokenized), "post": 1e3 * (done - ran)},
        )

    def outputs(self, texts: tuple[str, ...]) -> tuple[tuple[Encoded, ...], list[Array]]:
        """What the graph says of each text, cut to the limit as the original does: for parity and tests."""
        encoded = self.tokenizer.encode(texts, truncate=self.manifest.tokenizer.truncation_side)
        return encoded, self.task.run(self.session, encoded)

    def warm_up(self) -> None:
        """Run the task's sample once, so that the first request pays for no lazy initialisation."""
        request = self.task.parse(self.task.sample, {}, self.manifest)
        self.answer(replace(request, truncate=self.manifest.tokenizer.truncation_side))  # the limit may be below its length

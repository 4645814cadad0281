"""An opened artifact: parse -> encode -> run -> decode."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hotfoot import settings, task
from hotfoot.batching import Deadline
from hotfoot.contract import manifest as manifests
from hotfoot.contract.errors import ArtifactError
from hotfoot.contract.manifest import TOKENIZER_DIR, Manifest, Side
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
    def open(cls, directory: Path | str, *, threads: int | None = None, foreign: bool = False, verify: bool = False) -> Model:
        """Open the artifact in `directory`. `threads` overrides what the machine grants.

        foreign: open it on a machine that it was not built for, as the build stage does to measure it. verify: read every byte
        of it first, as a long-lived process should; else the other files' sizes are compared and only the tokenizer is read.

        Raises ArtifactError for a damaged or foreign artifact, UnsupportedError for an unknown task or target.
        """
        artifact, here = Path(directory), settings.read()
        manifest = manifests.read(artifact)
        check_files(artifact, manifest, verify=verify)
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

    def answer(self, request: Request, *, most_tokens: int | None = None, deadline: Deadline | None = None) -> Prediction:
        """Answer a request that is already parsed, within its bounds where there are any.

        Raises InputError for a text, TooLargeError for more tokens, OutOfTimeError when the deadline is near.
        """
        start = time.perf_counter()
        encoded = self.task.encode(request, self.tokenizer if most_tokens is None else Metered(self.tokenizer, most_tokens))
        tokenized = time.perf_counter()
        outputs = self.task.run(self.session if deadline is None else Timed(self.session, deadline), encoded)
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


@dataclass(frozen=True)
class Metered:
    """A tokenizer that refuses more than `most` tokens a call, for tasks to use as they use any other."""

    tokenizer: Tokenizer
    most: int

    @property
    def max_tokens(self) -> int:
        """The longest input, special tokens included."""
        return self.tokenizer.max_tokens

    def encode(
        self, texts: Sequence[str], *, truncate: Side | None, paths: Sequence[str] = (), stride: int | None = None
    ) -> tuple[Encoded, ...]:
        """As the tokenizer's own; raises TooLargeError, too."""
        return self.tokenizer.encode(texts, truncate=truncate, paths=paths, stride=stride, most=self.most)


@dataclass(frozen=True)
class Timed:
    """A session that stops in time, for tasks to use as they use any other."""

    session: Session
    deadline: Deadline

    def run(self, inputs: Sequence[Encoded]) -> list[Array]:
        """As the session's own; raises OutOfTimeError, too."""
        return self.session.run(inputs, self.deadline)


def check_files(artifact: Path, manifest: Manifest, *, verify: bool) -> None:
    """Raise ArtifactError that names every file which is not what the manifest says: by size, or with `verify` by content.

    The tokenizer is left to those who open it: it may lie in a layer.
    """
    if verify and (artifact / TOKENIZER_DIR).is_dir():
        manifests.verify(artifact)
        return
    faults = manifests.faults_of(artifact, manifest.files) if verify else []
    for entry in () if verify else manifest.files:
        path = artifact / entry.path
        size = path.stat().st_size if path.is_file() else None
        if size != entry.size:
            faults.append(f"{entry.path}: " + ("missing" if size is None else f"{size} bytes, the manifest says {entry.size}"))
    listed = {entry.path for entry in manifest.files}
    faults += [f"{g.file}: graph {g.role!r} names a file that the manifest does not list" for g in manifest.graphs if g.file not in listed]
    if faults:
        raise ArtifactError(
            f"the artifact in {artifact} was changed after the build:\n" + "\n".join(f"  {fault}" for fault in faults) + "\n",
            hint="Build or bundle it again.",
        )

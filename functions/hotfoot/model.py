"""An opened artifact: parse -> encode -> run -> decode."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hotfoot import cache, settings, task
from hotfoot.batching import Deadline, room
from hotfoot.contract import manifest as manifests
from hotfoot.contract.errors import ArtifactError
from hotfoot.contract.manifest import TOKENIZER_DIR, WEIGHTS, Manifest, Side
from hotfoot.reading import start_pool
from hotfoot.remembering import Outputs, Remembering
from hotfoot.session import Probe, Session, numerics, open_session
from hotfoot.settings import Settings
from hotfoot.task import Array, Encoded, Fit, Means, Request, Task
from hotfoot.tokenizer import Tokenizer, add, open_tokenizer

if TYPE_CHECKING:
    from hotfoot.decoder import Decoder


@dataclass(frozen=True)
class Prediction:
    """The answer as JSON (arrays are lists of numbers to be), what it took, and where the time went in milliseconds.

    inputs: texts, pairs or windows that the graph's output was wanted for; remembered: how many of them it was known for already.
    unknown: tokens that stand for what the vocabulary does not have; texts of many of them look alike to the model.
    """

    answer: Any
    tokens: int
    characters: int
    timings: Mapping[str, float]
    inputs: int = 0
    remembered: int = 0
    unknown: int = 0


@dataclass(frozen=True)
class Model:
    """An artifact, ready to answer. Thread-safe. memory: the graph's outputs that are remembered, None where none are."""

    manifest: Manifest
    task: Task
    tokenizer: Tokenizer
    session: Session | Decoder
    memory: Outputs | None = None

    @classmethod
    def open(
        cls, directory: Path | str, *, threads: int | None = None, foreign: bool = False, verify: bool = False, cache_bytes: int = 0
    ) -> Model:
        """Open the artifact in `directory`. `threads` overrides what the machine grants.

        foreign: open it on a machine that it was not built for, as the build stage does to measure it. verify: read every byte
        of it first, as a long-lived process should; else the other files' sizes are compared and only the tokenizer is read.
        cache_bytes: what the process may remember in all, of which this takes its `cache.shares` for encodings and outputs; 0, as
        whoever measures wants it, remembers nothing.

        Raises ArtifactError for a damaged or foreign artifact, UnsupportedError for an unknown task or target.
        """
        artifact, here, shares = Path(directory), settings.read(), cache.shares(cache_bytes)
        manifest = manifests.read(artifact)
        check_files(artifact, manifest, verify=verify, elsewhere=here.weights is not None)
        start_pool(threads or here.threads)
        session = opened(artifact, manifest, threads or here.threads, foreign=foreign, weights=here.weights)
        return cls(
            manifest=manifest,
            task=task.load(manifest.task),
            tokenizer=open_tokenizer(artifact, manifest, here.layer_root, shares.encodings),
            session=session,
            memory=memory_of(manifest, here, shares.outputs) if isinstance(session, Session) else None,
        )

    def predict(self, inputs: Any, parameters: Mapping[str, Any] | None = None) -> Prediction:
        """Answer one request, as the HTTP API takes it: `inputs` a text or a list, `parameters` the task's own.

        Raises InputError with the path of what is wrong.
        """
        return self.answer(self.task.parse(inputs, parameters or {}, self.manifest))

    def answer(
        self, request: Request, *, most_tokens: int | None = None, deadline: Deadline | None = None, remember: bool = True
    ) -> Prediction:
        """Answer a request that is already parsed, within its bounds where there are any.

        remember: False makes everything anew and keeps nothing of it. Raises InputError for a text, TooLargeError for more tokens,
        OutOfTimeError when the deadline is near.
        """
        start = time.perf_counter()
        tokenizer = self.tokenizer if remember else self.tokenizer.forgetful()
        encoded = self.task.encode(request, tokenizer if most_tokens is None else Metered(tokenizer, most_tokens))
        tokenized = time.perf_counter()
        outputs, remembered = self._run(request, encoded, deadline, remember=remember)
        ran = time.perf_counter()
        answer = self.task.decode(request, encoded, outputs, self.manifest)
        done = time.perf_counter()
        return Prediction(
            answer=answer,
            tokens=sum(len(e.ids) for e in encoded),
            characters=sum(map(len, (*request.texts, *request.beside))),
            timings={"tokenize": 1e3 * (tokenized - start), "run": 1e3 * (ran - tokenized), "post": 1e3 * (done - ran)},
            inputs=len(encoded),
            remembered=remembered,
            unknown=self._unknown(encoded),
        )

    def _unknown(self, encoded: tuple[Encoded, ...]) -> int:
        unknown = self.tokenizer.unknown_id
        return 0 if unknown is None else sum(int(np.count_nonzero(e.ids == unknown)) for e in encoded)

    def _run(self, request: Request, encoded: tuple[Encoded, ...], deadline: Deadline | None, *, remember: bool) -> tuple[list[Any], int]:
        """The graph's outputs, and for how many inputs they were remembered. What a task makes text of is chosen anew each time."""
        if self.task.generate is not None:
            return self.generate(request, encoded, lambda done: None if deadline is None else deadline.check(done, len(encoded))), 0
        session = self.session if deadline is None else Timed(self.session, deadline)
        if self.memory is None or not remember:
            return self.task.run(session, encoded), 0
        remembering = Remembering(session, self.memory)
        return self.task.run(remembering, encoded), remembering.remembered

    def generate(self, request: Request, encoded: tuple[Encoded, ...], check: Callable[[int], None]) -> list[Any]:
        """What a task that makes text makes of each input; `check` is called before every run of a graph. Raises what that raises."""
        from hotfoot.decoder import Decoder

        if self.task.generate is None or not isinstance(self.session, Decoder):
            raise ArtifactError(f"the task {self.task.name} or the artifact's graph makes no text.")
        means = Means(self.session, lambda ids: self.tokenizer.decode(ids, skip_special_tokens=True), check)
        return self.task.generate(request, encoded, means)

    def outputs(
        self, texts: tuple[str, ...], seconds: tuple[str, ...] = (), targets: tuple[NDArray[np.int64], ...] = ()
    ) -> tuple[tuple[Encoded, ...], list[Array]]:
        """What the task's probe keeps of each text or pair, cut to the limit as the original does: for parity and tests.

        targets: what the decoder of an encoder-decoder reads with each.
        """
        encoded = self.tokenizer.encode_cut(texts, seconds, self.manifest.tokenizer.truncation_side, self.task.cuts)
        if targets:
            encoded = tuple(replace(e, target=t.astype(np.int32)) for e, t in zip(encoded, targets, strict=True))
        return encoded, self.probe(encoded)

    def probe(self, inputs: tuple[Encoded, ...]) -> list[Array]:
        """What the task's probe keeps of each input."""
        return self.task.run(Probing(self.session, self.task.probe), inputs)

    @property
    def sample(self) -> Any:
        """An input that this artifact answers."""
        return self.task.sample(self.manifest) if callable(self.task.sample) else self.task.sample

    def warm_up(self) -> None:
        """Run the task's sample, so that the first request pays for no lazy initialisation, and fit what runs then into the memory left.

        Nothing of the sample is remembered.
        """
        request = self.task.parse(self.sample, {"max_new_tokens": 2} if self.task.generate else {}, self.manifest)
        request = replace(request, truncate=self.manifest.tokenizer.truncation_side)  # the limit may be below its length
        self.answer(request, remember=False)
        if self.memory is not None and self.memory.shared is not None:  # once more, to know what a token takes before the first request
            made = self.answer(request, remember=False)
            self.memory.warm(made.tokens, made.timings["run"] / 1e3, self.manifest.max_tokens)
        self.fit()

    def fit(self, at_once: int = 1) -> None:
        """Let each of `at_once` runs take its share of the memory that is left now, once the caches are full. It changes no result."""
        if isinstance(self.session, Session):
            here = settings.read()
            self.session.room = room(settings.memory_limit(here.memory_mb), here.cache_bytes, at_once)


@dataclass
class Metered:
    """A tokenizer that refuses more than `most` tokens of one request, for tasks to use as they use any other."""

    tokenizer: Tokenizer
    most: int
    used: int = 0

    @property
    def max_tokens(self) -> int:
        """The longest input, special tokens included."""
        return self.tokenizer.max_tokens

    def encode(
        self, texts: Sequence[str], *, truncate: Side | None, paths: Sequence[str] = (), stride: int | None = None
    ) -> tuple[Encoded, ...]:
        """As the tokenizer's own; raises TooLargeError, too."""
        return self._counted(self.tokenizer.encode(texts, truncate=truncate, paths=paths, stride=stride, most=self.most), paths)

    def encode_pairs(
        self, firsts: Sequence[str], seconds: Sequence[str], fit: Fit, paths: Sequence[tuple[str, str]]
    ) -> tuple[Encoded, ...]:
        """As the tokenizer's own; raises TooLargeError, too."""
        return self._counted(self.tokenizer.encode_pairs(firsts, seconds, fit, paths, most=self.most), [path for _, path in paths])

    def _counted(self, encoded: tuple[Encoded, ...], paths: Sequence[str]) -> tuple[Encoded, ...]:
        """One call holds to the bound by itself; a request of texts and pairs makes two."""
        self.used = add(self.used, sum(len(e.ids) for e in encoded), self.most, paths[-1] if paths else "inputs")
        return encoded

    def id_of(self, token: str) -> int | None:
        """The id of a token by its own spelling, None for one outside the vocabulary."""
        return self.tokenizer.id_of(token)

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        """Ids back to text."""
        return self.tokenizer.decode(ids, skip_special_tokens=skip_special_tokens)


@dataclass(frozen=True)
class Probing:
    """A session that keeps no more of an output than the probe does."""

    session: Session | Decoder
    keep: Probe

    def run(self, inputs: Sequence[Encoded]) -> list[Array]:
        """As the session's own, probed micro-batch by micro-batch."""
        return self.session.run(inputs, probe=self.keep)


@dataclass(frozen=True)
class Timed:
    """A session that stops in time, for tasks to use as they use any other."""

    session: Session | Decoder
    deadline: Deadline

    def run(self, inputs: Sequence[Encoded]) -> list[Array]:
        """As the session's own; raises OutOfTimeError, too."""
        return self.session.run(inputs, self.deadline)


def opened(artifact: Path, manifest: Manifest, threads: int, *, foreign: bool, weights: str | None) -> Session | Decoder:
    """The artifact's graphs, ready to run: one encoder's, or those of a decoder. weights: where theirs are, None for beside them."""
    open_graphs: Callable[..., Session | Decoder] = open_session
    if any(graph.role == "decoder" for graph in manifest.graphs):
        from hotfoot.decoder import open_decoder  # which most have no use for, as of what follows

        open_graphs = open_decoder
    if weights is None:
        return open_graphs(artifact, manifest, threads, foreign=foreign)
    from hotfoot.weights import hold, returning_memory

    with returning_memory():
        return open_graphs(artifact, manifest, threads, foreign=foreign, held=hold(manifest, weights, settings.s3_access()))


def memory_of(manifest: Manifest, here: Settings, most_bytes: int) -> Outputs | None:
    """What remembers an encoder's outputs, with the table of the environment behind it where that names one; None for no bytes."""
    if not most_bytes:
        return None
    if here.cache_table is None or here.cache_secret is None:
        return Outputs(most_bytes)
    from hotfoot.shared_cache import SharedCache

    return Outputs(most_bytes, SharedCache(here.cache_table, here.cache_secret, f"{manifest.digest} {numerics()} "))


def check_files(artifact: Path, manifest: Manifest, *, verify: bool, elsewhere: bool = False) -> None:
    """Raise ArtifactError that names every file which is not what the manifest says: by size, or with `verify` by content.

    The tokenizer is left to those who open it: it may lie in a layer. elsewhere: so are the weights.
    """
    if verify and (artifact / TOKENIZER_DIR).is_dir() and not elsewhere:
        manifests.verify(artifact)
        return
    here = [entry for entry in manifest.files if not (elsewhere and entry.path == WEIGHTS)]
    faults = manifests.faults_of(artifact, here) if verify else []
    for entry in () if verify else here:
        path = artifact / entry.path
        size = path.stat().st_size if path.is_file() else None
        if size != entry.size:
            faults.append(f"{entry.path}: " + ("missing" if size is None else f"{size} bytes, the manifest says {entry.size}"))
    listed = {entry.path for entry in manifest.files}
    faults += [f"{g.file}: graph {g.role!r} names a file that the manifest does not list" for g in manifest.graphs if g.file not in listed]
    if faults:
        away = f"{WEIGHTS}: missing" in faults
        raise ArtifactError(
            f"the artifact in {artifact} was changed after the build:\n" + "\n".join(f"  {fault}" for fault in faults) + "\n",
            hint="Build or bundle it again, or say in HOTFOOT_WEIGHTS where its weights are." if away else "Build or bundle it again.",
        )

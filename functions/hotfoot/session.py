"""ONNX Runtime sessions from manifest and target, and the padded runs over them."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from hotfoot import targets
from hotfoot.batching import LENGTH_STEP, Deadline, live_bytes, plan
from hotfoot.contract.errors import ArtifactError
from hotfoot.contract.manifest import GraphSpec, Manifest
from hotfoot.contract.target import Target
from hotfoot.task import Array, Encoded

if TYPE_CHECKING:
    from hotfoot.weights import Held

Probe = Callable[[NDArray[np.int64], Array], Array]


class Session:
    """One encoder graph, ready to run. Thread-safe, as ONNX Runtime's run is. room: bytes that a run may have live, None for any."""

    def __init__(self, ort_session: ort.InferenceSession, graph: GraphSpec, manifest: Manifest) -> None:
        self._ort = ort_session
        self._inputs = {t.name: np.dtype(t.dtype) for t in graph.inputs}
        self._output = graph.outputs[0]
        self._tokenizer = manifest.tokenizer
        self._max_tokens = manifest.max_tokens
        self._together = manifest.independent_rows
        # a graph without a mask sees no padding
        self._step = LENGTH_STEP if "attention_mask" in self._inputs else 1
        # (batch, tokens, ...) is cut back to the text's own length; (batch, ...) has no token axis
        self._per_token = "sequence" in graph.outputs[0].shape
        width = graph.outputs[0].shape[-1]
        self._width = width if self._per_token and isinstance(width, int) else 1
        self._activations = graph.activations
        self.room: int | None = None

    @property
    def providers(self) -> list[str]:
        """What ONNX Runtime really runs on."""
        return list(self._ort.get_providers())

    def run(self, inputs: Sequence[Encoded], deadline: Deadline | None = None, probe: Probe | None = None) -> list[Array]:
        """One output an input, in order: (tokens, …) without padding, or (…) where the graph pools.

        probe: what to keep of each, so that no more than one micro-batch of whole outputs is held. Raises OutOfTimeError when the
        deadline comes before the last micro-batch.
        """
        results: list[Array | None] = [None] * len(inputs)
        done = 0
        lengths, fitting = [len(e.ids) for e in inputs], self._fitting()
        for length, members in plan(
            lengths, self._max_tokens, width=self._width, step=self._step, together=self._together, fitting=fitting
        ):
            if deadline is not None:
                deadline.check(done, len(inputs))
            batch = self.run_batch([inputs[i] for i in members], length)
            done += len(members)
            for index, row in zip(members, batch, strict=True):
                results[index] = probe(inputs[index].ids.astype(np.int64), row) if probe else row
        return [r for r in results if r is not None]

    def _fitting(self) -> Callable[[int], int] | None:
        """How many inputs of a length the room holds; None where either is not known."""
        room, activations = self.room, self._activations
        return None if room is None or not activations else lambda length: int(room / live_bytes(activations, length))

    def run_batch(self, inputs: Sequence[Encoded], length: int) -> list[Array]:
        """One run of the graph, every input padded to `length`; of tokens, those that the input `reads`."""
        feed = {name: self._pad(name, inputs, length) for name in self._inputs}
        output: Array = self._ort.run([self._output.name], feed)[0]
        if not self._per_token:
            return list(output)
        rows = [self._cut(row, len(e.ids)) for row, e in zip(output, inputs, strict=True)]
        return [row if e.reads is None else row[e.reads] for row, e in zip(rows, inputs, strict=True)]

    def _cut(self, row: Array, tokens: int) -> Array:
        return row[:tokens] if self._tokenizer.pad_side == "right" else row[-tokens:]

    def _pad(self, name: str, inputs: Sequence[Encoded], length: int) -> NDArray[np.generic]:
        fill = {"input_ids": self._tokenizer.pad_id, "token_type_ids": self._tokenizer.pad_type_id}.get(name, 0)
        padded = np.full((len(inputs), length), fill, dtype=self._inputs[name])
        for row, encoded in zip(padded, inputs, strict=True):
            tokens = len(encoded.ids)
            self._cut(row, tokens)[:] = _values(name, encoded)
        return padded


def _values(name: str, encoded: Encoded) -> NDArray[np.generic] | int:
    if name == "input_ids":
        return encoded.ids
    if name == "token_type_ids":
        return encoded.type_ids
    if name == "attention_mask":
        return 1
    raise ArtifactError(
        f"the graph wants an input {name!r}, which hotfoot does not make; it makes input_ids, attention_mask and token_type_ids."
    )


def open_session(artifact: Path, manifest: Manifest, threads: int, *, foreign: bool = False, held: Held | None = None) -> Session:
    """Open the artifact's graph for this machine. held: its weights, where they do not lie beside it.

    Raises ArtifactError when the CPU lacks what the target relies on, or ONNX Runtime took another provider than asked for.
    """
    target = targets.load(manifest.target)
    if not foreign:
        require_isa(target)
    graph = manifest.graph()
    return Session(open_graph(artifact, graph, target, threads, held), graph, manifest)


def open_graph(artifact: Path, graph: GraphSpec, target: Target, threads: int, held: Held | None = None) -> ort.InferenceSession:
    """Open one graph as the target's data says. Raises ArtifactError when it cannot be, or not on the provider asked for."""
    options = session_options(target, threads)
    if held is not None:
        held.give(options)
    try:
        session = ort.InferenceSession(str(artifact / graph.file), options, providers=list(target.session.providers))
    except Exception as error:  # ORT's own exception types share no public base
        raise ArtifactError(f"ONNX Runtime {ort.__version__} cannot open {graph.file}: {error}") from error
    if session.get_providers()[0] != target.session.providers[0]:
        raise ArtifactError(f"target {target.name} asks for {target.session.providers[0]}, ONNX Runtime gave {session.get_providers()[0]}")
    return session


def require_isa(target: Target) -> None:
    """Raise ArtifactError if this CPU lacks a feature of the target: int8 sums would saturate, in silence."""
    missing = sorted(set(target.isa) - targets.cpu_features())
    if target.arch != targets.machine_arch():
        raise ArtifactError(
            f"the artifact is for {target.arch}, this machine is {targets.machine_arch()}", hint="Build it for a target of this machine."
        )
    if missing:
        raise ArtifactError(f"the artifact is for {target.name}, this CPU lacks {', '.join(missing)}", hint="Build it with --target local.")


def numerics(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """What the last bits of an output depend on beside the artifact: ONNX Runtime, and the vector units it chooses its kernels by.

    Two machines that differ here are told apart, though their bits may be the same.
    """
    line = re.search(r"^(?:flags|Features)\s*:(.*)$", cpuinfo.read_text(errors="replace"), re.MULTILINE) if cpuinfo.exists() else None
    units = sorted(set(re.findall(r"\b(?:(?:avx|amx|fma|asimd|sve)\w*|f16c|fphp|sme2?|i8mm|bf16)\b", line.group(1)))) if line else []
    return " ".join([ort.__version__, platform.machine(), *units])


def session_options(target: Target, threads: int) -> ort.SessionOptions:
    """Session options from the target's data. The graph was optimised at build time, so loading does not do it again."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.intra_op_num_threads = threads  # an explicit number also keeps ORT from pinning threads outside a cpuset
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = target.session.cpu_arena
    options.enable_mem_pattern = target.session.mem_pattern
    options.log_severity_level = 3
    for key, value in target.session.config.items():
        options.add_session_config_entry(key, value)
    return options

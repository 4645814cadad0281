"""Graphs with a cache, and the runs over them: a decoder, alone or behind the encoder whose output it reads.

One text at a time. A product over one row sums in another order than one over several, so that in a batch of texts a token that
wins by a hair could change with its neighbours; alone it cannot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from hotfoot import targets
from hotfoot.batching import Deadline
from hotfoot.contract.errors import ArtifactError, InputError
from hotfoot.contract.manifest import GraphSpec, Manifest
from hotfoot.session import Probe, open_graph, require_isa
from hotfoot.task import Array, Encoded

if TYPE_CHECKING:
    from hotfoot.weights import Held

CHUNK = 256  # tokens a run: a long prompt's logits and scores would fill the memory
PAST, PRESENT = "past.", "present."


@dataclass(frozen=True)
class State:
    """What a decoder has read: its cache (by the graph's input names), how many tokens that is, and how many the encoder read.

    Never changed, so that a search may go on from one state more than once.
    """

    cache: Mapping[str, ort.OrtValue]
    tokens: int
    source: int


class Decoder:
    """A decoder's graph, and the encoder's where there is one, ready to run. Thread-safe, as ONNX Runtime's run is."""

    def __init__(self, graphs: Mapping[str, tuple[ort.InferenceSession, GraphSpec]], manifest: Manifest) -> None:
        self._graphs = graphs
        self._ort, self._graph = graphs["decoder"]
        self._outputs = [t.name for t in self._graph.outputs]
        self._limit = int(manifest.facts.get("target_tokens", manifest.max_tokens))

    @property
    def providers(self) -> list[str]:
        """What ONNX Runtime really runs on."""
        return list(self._ort.get_providers())

    @property
    def limit(self) -> int:
        """The most tokens that the decoder may have read and made together."""
        return self._limit

    def begin(self, inputs: Encoded) -> State:
        """The state before the decoder's first token: with an encoder, after its run over the inputs; else the inputs do not matter."""
        empty = {t.name: _empty(t.shape, t.dtype) for t in self._graph.inputs if t.name.startswith(PAST)}
        if "encoder" not in self._graphs:
            return State(empty, 0, 0)
        session, graph = self._graphs["encoder"]
        ids = inputs.ids[None]
        feed = _feed(graph, {"input_ids": ids, "attention_mask": np.ones_like(ids)})
        names = [t.name for t in graph.outputs]
        cross = session.run_with_ort_values(names, feed)
        return State({**empty, **dict(zip(names, cross, strict=True))}, 0, len(inputs.ids))

    def feed(self, state: State, ids: Sequence[int] | NDArray[np.int32]) -> tuple[Array, State]:
        """The logits, shape (vocabulary,), after the last of `ids`, and the state that has read them, `state` staying as it is.

        Raises InputError when that is more than the limit.
        """
        row = np.asarray(ids, np.int32)
        for start in range(0, len(row), CHUNK):
            logits, state = self._run(state, row[start : start + CHUNK])
        return logits[-1], state

    def run(self, inputs: Sequence[Encoded], deadline: Deadline | None = None, probe: Probe | None = None) -> list[Array]:
        """Of each input the logits at every token of its target, or of its own where it has none: (tokens, vocabulary).

        probe: what to keep of each. Raises OutOfTimeError when the deadline comes before the last input.
        """
        results = []
        for done, encoded in enumerate(inputs):
            if deadline is not None:
                deadline.check(done, len(inputs))
            row = encoded.ids if encoded.target is None else encoded.target
            state, parts = self.begin(encoded), []
            for start in range(0, len(row), CHUNK):
                logits, state = self._run(state, row[start : start + CHUNK])
                parts.append(logits)
            whole = np.concatenate(parts)
            results.append(probe(row.astype(np.int64), whole) if probe else whole)
        return results

    def _run(self, state: State, row: NDArray[np.int32]) -> tuple[Array, State]:
        total = state.tokens + len(row)
        if total > self._limit:
            raise InputError(f"{total} tokens are more than the {self._limit} that the model can hold.", hint="Shorten the text.")
        given: dict[str, NDArray[Any]] = {
            "input_ids": row[None],
            "attention_mask": np.ones((1, total), np.int32),
            "position_ids": np.arange(state.tokens, total)[None],
            "encoder_attention_mask": np.ones((1, state.source), np.int32),
        }
        made = self._ort.run_with_ort_values(self._outputs, {**state.cache, **_feed(self._graph, given)})
        grown = {PAST + name.removeprefix(PRESENT): value for name, value in zip(self._outputs[1:], made[1:], strict=True)}
        logits: Array = made[0].numpy()[0]
        return logits, State({**state.cache, **grown}, total, state.source)


def _empty(shape: Sequence[int | str], dtype: str) -> ort.OrtValue:
    """A cache of one row and no tokens: (batch, heads, tokens, size)."""
    return ort.OrtValue.ortvalue_from_numpy(np.zeros((1, int(shape[1]), 0, int(shape[3])), np.dtype(dtype)))


def _feed(graph: GraphSpec, given: Mapping[str, NDArray[Any]]) -> dict[str, ort.OrtValue]:
    """Those of the given inputs that the graph has, in its types."""
    wanted = {t.name: np.dtype(t.dtype) for t in graph.inputs}
    return {name: ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(a, wanted[name])) for name, a in given.items() if name in wanted}


def open_decoder(artifact: Path, manifest: Manifest, threads: int, *, foreign: bool = False, held: Held | None = None) -> Decoder:
    """Open the graphs of a generative artifact for this machine. held: their weights, where they do not lie beside them.

    Raises ArtifactError when the CPU lacks what the target relies on, ONNX Runtime took another provider than asked for, or a graph
    wants what hotfoot does not make.
    """
    target = targets.load(manifest.target)
    if not foreign:
        require_isa(target)
    made = {"input_ids", "attention_mask", "position_ids", "encoder_attention_mask"}
    cached = {t.name for g in manifest.graphs if g.role == "encoder" for t in g.outputs}
    for graph in manifest.graphs:
        strange = [t.name for t in graph.inputs if t.name not in made | cached and not t.name.startswith(PAST)]
        if strange:
            raise ArtifactError(f"graph {graph.role!r} wants an input {strange[0]!r}, which hotfoot does not make.")
    return Decoder({g.role: (open_graph(artifact, g, target, threads, held), g) for g in manifest.graphs}, manifest)

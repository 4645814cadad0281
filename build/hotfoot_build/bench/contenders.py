"""What is compared: hotfoot's artifacts, one a precision, and ONNX Runtime's own preset for dynamic int8."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from hotfoot.contract.errors import HotfootError, PassError
from hotfoot.contract.target import Target
from hotfoot.model import Model
from hotfoot.session import Probe, session_options
from hotfoot.task import Array, Encoded
from hotfoot_build import cache, graph, stage, weights
from hotfoot_build.bench.case import Case
from hotfoot_build.bench.timing import Candidate
from hotfoot_build.progress import Progress
from hotfoot_build.stage import Plan

PRESET = "ORT preset"


@dataclass(frozen=True)
class Contender:
    """One row of the tables. `model` answers as an artifact does, on one thread; `bytes` is the size of the graph, its weights included."""

    name: str
    model: Model
    graph: Path
    bytes: int

    def ways(self, inputs: tuple[Encoded, ...]) -> Mapping[str, Candidate]:
        """The ways to run a batch, by what to call them: hotfoot's session has its one, the preset is tried in both."""
        session: Any = self.model.session
        if isinstance(session, PresetSession) and len(inputs) > 1:
            return {"one batch": partial(session.run_batch, inputs), "text by text": partial(session.run, inputs)}
        return {"": partial(session.run, inputs)}


def artifacts(case: Case, target: Target, precisions: Iterable[str], out: Path, progress: Progress) -> tuple[list[Contender], list[str]]:
    """An artifact a precision, below `out`; and a note for each that cannot be built."""
    made, notes = [], []
    for precision in precisions:
        folder = out / precision
        # times are taken past the artifact's limit, too, up to the positions that the model has
        whole = {"position_slice": {"rows": 0}} if "position_slice" in stage.recipe(target, precision) else {}
        plan = Plan(case.task_name, case.task, target, precision, case.snapshot, case.facts, whole)
        try:
            with cache.replacing(folder) as fresh:
                stage.write(fresh, plan, case.original, progress)
        except HotfootError as error:
            notes.append(f"{precision} is not made of {case.name}: {error.message}")
            continue
        made.append(Contender(precision, Model.open(folder, threads=1, foreign=True), folder / stage.GRAPH, weights.size(folder)))
    return made, notes


def preset(case: Case, like: Contender, out: Path) -> Contender:
    """What ONNX Runtime makes of the exporter's graph: dynamic int8, a scale a column, then all of its own optimisations.

    Raises PassError for a graph that it cannot quantize.
    """
    path = out / "preset.onnx"
    quantize(case, path)
    # the tokenizer, the limits and the task are the artifact's: only the graph and how it is run differ
    return Contender(PRESET, replace(like.model, session=PresetSession(path, case)), path, path.stat().st_size)  # type: ignore[arg-type]


def quantize(case: Case, path: Path) -> None:
    """Write ONNX Runtime's own dynamic int8 of the exporter's graph to `path`. Raises PassError for a graph that it cannot quantize."""
    from onnxruntime import quantization

    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.ERROR)  # it advises a shape inference that changes nothing here
    try:
        quantization.quantize_dynamic(case.original.graph, path, per_channel=True, weight_type=quantization.QuantType.QInt8)
    except Exception as error:  # whatever its checks and shape inference raise
        raise PassError(f"onnxruntime.quantization cannot quantize {case.name}: {error}") from error
    finally:
        root.setLevel(level)


class PresetSession:
    """A graph as ONNX Runtime's documentation runs it: every optimisation on, the defaults else, and one thread."""

    def __init__(self, path: Path, case: Case) -> None:
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = 1, 1, 3
        self._ort = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        there = [o.name for o in self._ort.get_outputs()]
        self._outputs = [graph.choose_output(there, case.task.export.output), *case.task.export.beside]
        self._embedding = case.facts.embedding or {}

    def run(self, inputs: Sequence[Encoded], *, probe: Probe | None = None) -> list[Array]:
        """One output an input, each run alone and without padding: its scale a tensor would mix the texts of a batch."""
        outputs = [self._pool(self.run_batch([encoded])[0]) for encoded in inputs]
        return outputs if probe is None else [probe(e.ids.astype(np.int64), o) for e, o in zip(inputs, outputs, strict=True)]

    def run_batch(self, inputs: Sequence[Encoded]) -> Array:
        """The graph's own output for texts of one length, which is not pooled."""
        found: list[Array] = self._ort.run(self._outputs, feed(self._ort, inputs))
        return found[0] if len(found) == 1 else np.stack(found, axis=-1)

    def _pool(self, output: Array) -> Array:
        """Token vectors as the model's files say; other outputs as they are."""
        pooling = self._embedding.get("pooling", "none")
        if pooling == "none" or output.ndim < 2:
            return output
        pooled = {"mean": output.mean(axis=0), "max": output.max(axis=0), "cls": output[0], "last": output[-1]}[pooling]
        vector: Array = pooled / np.linalg.norm(pooled) if self._embedding.get("normalize") else pooled
        return vector


def open_graph(path: Path, target: Target) -> ort.InferenceSession:
    """A graph as the target's own session opens it, on one thread."""
    return ort.InferenceSession(str(path), session_options(target, 1), providers=list(target.session.providers))


def feed(session: ort.InferenceSession, inputs: Sequence[Encoded]) -> dict[str, Any]:
    """The graph's inputs for texts of one length."""
    rows = {"input_ids": [e.ids for e in inputs], "token_type_ids": [e.type_ids for e in inputs]}
    rows["attention_mask"] = [np.ones_like(e.ids) for e in inputs]
    return {i.name: np.stack(rows[i.name]).astype(np.int32 if "int32" in i.type else np.int64) for i in session.get_inputs()}

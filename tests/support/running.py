"""Run a graph as it is, for the tests of the passes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from hotfoot_build import graph


def session(path: Path) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def saved(current: graph.Graph, folder: Path, name: str = "model.onnx") -> ort.InferenceSession:
    graph.canonicalize(current)
    graph.write(current, folder / name)
    return session(folder / name)


def ids_of(length: int, seed: int = 0, batch: int = 1) -> NDArray[np.int64]:
    return np.random.default_rng(seed + length).integers(5, 70, (batch, length))


def ask(found: ort.InferenceSession, ids: NDArray[np.int64], mask: NDArray[np.int64] | None = None) -> NDArray[np.float32]:
    mask = np.ones_like(ids) if mask is None else mask
    known = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    feed = {i.name: known[i.name].astype(np.int32 if "int32" in i.type else np.int64) for i in found.get_inputs()}
    output: NDArray[np.float32] = found.run(None, feed)[0]
    return output

"""Ask a graph directly, without the runtime: what a pass left is compared with what it found."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from numpy.typing import NDArray

from hotfoot import targets, task
from hotfoot_build import graph, passes
from hotfoot_build.facts import read_json
from hotfoot_build.passes import Context
from support import tiny

LENGTHS = (1, 2, 15, 16, 17, 63, 64)
Ids = NDArray[np.int64]


def context(name: str, **facts: object) -> Context:
    """A tiny model's context on this machine; `facts` are its embedding facts."""
    config = read_json(tiny.models() / name / "config.json")
    return Context(targets.local(), task.load({**tiny.TASKS, **tiny.MORE}[name]), facts, "right", config)


def session(path: Path) -> ort.InferenceSession:
    """The file as it is, on one thread."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def opened(current: graph.Graph) -> ort.InferenceSession:
    """The graph as it would be saved."""
    with tempfile.TemporaryDirectory() as folder:
        graph.canonicalize(current)
        graph.write(current, Path(folder, "model.onnx"))
        return session(Path(folder, "model.onnx"))


def passed(path: Path, recipe: tuple[str, ...], chosen: Context) -> graph.Graph:
    """The graph of a file after a recipe."""
    current = graph.load(path)
    passes.apply(current, recipe, chosen)
    return current


def ids_of(length: int, batch: int = 1, seed: int = 0) -> Ids:
    """Random token ids that every tiny vocabulary has."""
    return np.random.default_rng(seed + length).integers(5, 60, (batch, length))


def every_value(model: onnx.ModelProto, batch: int, length: int) -> dict[str, NDArray[np.generic]]:
    """All values of one run, by name. Makes each an output of `model`."""
    names = [o for n in model.graph.node if n.op_type != "Constant" for o in n.output if o]
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    found = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    ids = ids_of(length, batch)
    known = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    feed = {i.name: known[i.name].astype(np.int32 if "int32" in i.type else np.int64) for i in found.get_inputs()}
    return dict(zip(names, found.run(names, feed), strict=True))


def padded(length: int, batch: int) -> tuple[Ids, Ids]:
    """Ids and their mask: the last row is half padding."""
    ids = ids_of(length, batch)
    mask = np.ones_like(ids)
    mask[-1, length // 2 + 1 :] = 0
    return ids, mask


def ask(found: ort.InferenceSession, ids: Ids, mask: Ids | None = None) -> NDArray[np.float32]:
    """The first output; token types are zeros."""
    known = {"input_ids": ids, "attention_mask": np.ones_like(ids) if mask is None else mask, "token_type_ids": np.zeros_like(ids)}
    feed = {i.name: known[i.name].astype(np.int32 if "int32" in i.type else np.int64) for i in found.get_inputs()}
    output: NDArray[np.float32] = found.run(None, feed)[0]
    return output


def real_rows(output: NDArray[np.float32], mask: Ids) -> NDArray[np.float32]:
    """Token outputs without those of padding, other outputs whole: what stands behind padding is nobody's answer."""
    return output[mask.astype(bool)] if output.ndim == 3 else output


def randomise_biases(current: graph.Graph) -> None:
    """Give every vector of zeros random numbers: a fresh model's biases are zeros, and would hide where one is lost."""
    rng = np.random.default_rng(7)
    for name, value in list(current.ir.initializers.items()):
        array = graph.weight_of(value)
        if array is not None and array.ndim == 1 and array.dtype == np.float32 and not array.any():
            value.const_value = ir.tensor(rng.normal(size=array.shape).astype(np.float32), name=name)

"""Graphs of a few nodes, and a context with texts, for the tests of the quantizing passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from hotfoot import targets, task
from hotfoot_build import graph
from hotfoot_build.passes import Context
from support import tiny

Floats = NDArray[np.float32]
Shape = Sequence[str | int]
TOKENS = ("batch", "sequence")


def texts(*lengths: int, seed: int = 0) -> tuple[NDArray[np.int64], ...]:
    """Ids that every tiny vocabulary has, of these lengths."""
    rng = np.random.default_rng(seed)
    return tuple(rng.integers(5, 70, length) for length in lengths)


RAGGED = texts(4, 9, 3, 17, 40, 8, 25, 60, 11, 33, 5, 48)


def context(name: str = "feature-extraction", calibration: Sequence[NDArray[np.int64]] = RAGGED, **facts: object) -> Context:
    """Of a tiny model, or of a task by its name."""
    known = {**tiny.TASKS, **tiny.MORE}
    return Context(targets.local(), task.load(known.get(name, name)), facts, "right", calibration=tuple(calibration))


def made(
    folder: Path,
    nodes: Sequence[onnx.NodeProto],
    weights: Mapping[str, NDArray[Any]],
    inputs: Mapping[str, Shape],
    output: Shape,
    *,
    integers: Sequence[str] = ("input_ids",),
) -> graph.Graph:
    """A graph of these nodes that gives `y`; inputs that are no integers are floats."""
    kinds = {name: TensorProto.INT32 if name in integers else TensorProto.FLOAT for name in inputs}
    proto = helper.make_graph(
        list(nodes),
        "small",
        [helper.make_tensor_value_info(name, kinds[name], list(shape)) for name, shape in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, list(output))],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(proto, opset_imports=opsets, ir_version=9), str(folder / "small.onnx"))
    return graph.load(folder / "small.onnx")


def product(folder: Path, weight: Floats, bias: Floats | None = None, *, rows: Shape = TOKENS) -> graph.Graph:
    """y = x @ weight (+ bias) for x of shape (*rows, depth)."""
    depth, columns = weight.shape
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y" if bias is None else "p"], name="product")]
    weights = {"w": weight}
    if bias is not None:
        nodes.append(helper.make_node("Add", ["p", "b"], ["y"]))
        weights["b"] = bias
    return made(folder, nodes, weights, {"x": (*rows, depth)}, (*rows, columns))


def embedded(folder: Path, weights: Sequence[Floats], *, table: Floats | None = None) -> graph.Graph:
    """Ids looked up in a table, then one product after the other with a Gelu in between."""
    rng = np.random.default_rng(7)
    table = rng.normal(size=(80, weights[0].shape[0])).astype(np.float32) if table is None else table
    nodes, value = [helper.make_node("Gather", ["table", "input_ids"], ["x0"])], "x0"
    for number, _ in enumerate(weights):
        last = number == len(weights) - 1
        nodes.append(helper.make_node("MatMul", [value, f"w{number}"], ["y" if last else f"p{number}"], name=f"product.{number}"))
        if not last:
            value = f"g{number}"
            nodes.append(helper.make_node("Gelu", [f"p{number}"], [value], domain="com.microsoft"))
    stored = {"table": table, **{f"w{number}": weight for number, weight in enumerate(weights)}}
    return made(folder, nodes, stored, {"input_ids": TOKENS}, (*TOKENS, weights[-1].shape[1]))


def nodes_of(current: graph.Graph, op: str) -> list[ir.Node]:
    """The nodes of one operator, in order."""
    return [node for node in current.ir if node.op_type == op]


def attribute(node: ir.Node, name: str) -> int:
    """An integer attribute that must be there."""
    return node.attributes[name].as_int()


def relative_error(found: Floats, wanted: Floats) -> float:
    """The length of the difference, by the length of what is wanted."""
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))

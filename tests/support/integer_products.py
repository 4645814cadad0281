"""The int8 products of a built artifact, each on its own: what goes in, and the integers that must come out on every CPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from hotfoot import targets
from hotfoot.contract import manifest as manifests
from hotfoot.task import Encoded

MICROSOFT = "com.microsoft"


@dataclass(frozen=True)
class Products:
    """model: an ONNX graph of every product, its sums as int32 (`<name>.integers`), and as float32 by the operator that artifacts use
    with all scales one (`<name>.floats`). rows: uint8 by input, (rows, depth). exact: the int32 sums by name, (rows, columns).
    """

    model: bytes
    rows: Mapping[str, NDArray[np.uint8]]
    exact: Mapping[str, NDArray[np.int32]]

    def run(self) -> dict[str, NDArray[np.int32] | NDArray[np.float32]]:
        """The outputs on this machine, by name."""
        session = ort.InferenceSession(self.model, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        return dict(zip(names, session.run(names, dict(self.rows)), strict=True))


def of(artifact: Path, encoded: Encoded) -> Products:
    """The products of an artifact's graph, on the rows that one text gives there and on the worst that could come."""
    spec = manifests.read(artifact).graph()
    proto = onnx.load(artifact / spec.file)
    found = [node for node in proto.graph.node if node.op_type == "MatMulIntegerToFloat"]
    weights = {stored.name: numpy_helper.to_array(stored) for stored in proto.graph.initializer}
    values = {"input_ids": encoded.ids, "attention_mask": np.ones_like(encoded.ids), "token_type_ids": encoded.type_ids}
    feed = {given.name: values[given.name][None].astype(given.dtype) for given in spec.inputs}
    seen = _seen(proto, sorted({node.input[0] for node in found}), feed)
    nodes, rows, exact = [], {}, {}
    constants: dict[str, NDArray[np.generic]] = {"one": np.array(1, np.float32)}
    for node in found:
        matrix, zero = weights[node.input[1]], weights[node.input[4]]
        name, given = node.output[0], f"{node.output[0]}.rows"
        rows[given] = np.concatenate([seen[node.input[0]], _worst(matrix)])
        # float64 holds every sum exactly, and multiplies faster than integers
        exact[name] = ((rows[given].astype(np.float64) - zero) @ matrix).astype(np.int32)
        stored, weight_zero = _for_this_cpu(matrix)
        own = {f"{name}.w": stored, f"{name}.zw": weight_zero, f"{name}.z": zero, f"{name}.ones": np.ones(matrix.shape[1], np.float32)}
        constants |= own
        w, zw, z, ones = own
        nodes.append(helper.make_node("MatMulInteger", [given, w, z, zw], [f"{name}.integers"]))
        inputs = [given, w, "one", ones, z, zw]
        nodes.append(helper.make_node("MatMulIntegerToFloat", inputs, [f"{name}.floats"], domain=MICROSOFT))
    return Products(_model(nodes, constants, rows), rows, exact)


def _worst(matrix: NDArray[np.int8]) -> NDArray[np.uint8]:
    """Rows all at the top, all at the bottom, and those that make the largest and the least sum of the heaviest column."""
    heaviest = matrix[:, np.abs(matrix.astype(np.int32)).sum(axis=0).argmax()]
    most = np.where(heaviest > 0, 255, 0)
    return np.stack([np.full_like(most, 255), np.zeros_like(most), most, 255 - most]).astype(np.uint8)


def _for_this_cpu(matrix: NDArray[np.int8]) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
    """The weights and their zero point: as they are, or on an x86 CPU without VNNI, which would saturate, as the same integers in uint8."""
    if targets.machine_arch() == "arm64" or "vnni" in targets.cpu_features():
        return matrix, np.array(0, np.int8)
    return (matrix.astype(np.int16) + 128).astype(np.uint8), np.array(128, np.uint8)


def _seen(proto: onnx.ModelProto, names: list[str], feed: Mapping[str, NDArray[np.generic]]) -> dict[str, NDArray[np.uint8]]:
    """What the graph multiplies when it is fed so: uint8 by tensor name, (rows, depth)."""
    shown = onnx.ModelProto()
    shown.CopyFrom(proto)
    shown.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(shown.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return {name: found.reshape(-1, found.shape[-1]) for name, found in zip(names, session.run(names, dict(feed)), strict=True)}


def _model(nodes: list[onnx.NodeProto], constants: Mapping[str, NDArray[np.generic]], rows: Mapping[str, NDArray[np.uint8]]) -> bytes:
    kinds = {"integers": TensorProto.INT32, "floats": TensorProto.FLOAT}
    outputs = [(name, kinds[name.rpartition(".")[2]]) for node in nodes for name in node.output]
    graph = helper.make_graph(
        nodes,
        "products",
        [helper.make_tensor_value_info(name, TensorProto.UINT8, array.shape) for name, array in rows.items()],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(MICROSOFT, 1)]
    serialized: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    return serialized

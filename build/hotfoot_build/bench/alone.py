"""The work that no pass can remove: a graph's products with weights and its attention, timed alone.

What the whole graph takes beyond their sum is what fusing could still gain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper

from hotfoot.contract.errors import PassError
from hotfoot.contract.target import Target
from hotfoot.session import session_options

PRODUCTS = (
    "MatMul",
    "Gemm",
    "FusedMatMul",
    "MatMulInteger",
    "MatMulIntegerToFloat",
    "DynamicQuantizeMatMul",
    "QLinearMatMul",
    "QGemm",
    "MatMulNBits",
)
ATTENTIONS = ("Attention", "MultiHeadAttention", "QAttention")  # fused: scores, softmax and context in one

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Parts:
    """The nodes of a graph that do its real work."""

    gemms: tuple[NodeProto, ...]
    attention: tuple[NodeProto, ...]


@dataclass(frozen=True)
class Alone:
    """A graph of some nodes of another, opened, and what to feed it."""

    session: ort.InferenceSession
    feed: Arrays

    def __call__(self) -> None:
        """Run all of them once."""
        self.session.run(None, self.feed)


def parts(graph: onnx.GraphProto) -> Parts:
    """Products with a stored matrix; and the softmax with the product before and the one behind it, or what fuses the three."""
    stored = {i.name: len(i.dims) for i in graph.initializer}
    nodes = list(graph.node)  # kept: protobuf hands out another object each time it is asked
    gemms = [n for n in nodes if n.op_type in PRODUCTS and any(stored.get(name, 0) >= 2 for name in n.input)]
    weighted = {id(n) for n in gemms}
    products = {id(n) for n in nodes if n.op_type in PRODUCTS} - weighted
    maker = {name: n for n in nodes for name in n.output}
    readers: dict[str, list[NodeProto]] = {}
    for node in nodes:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    found = {id(n) for n in nodes if n.op_type in ATTENTIONS}
    for softmax in (n for n in nodes if n.op_type == "Softmax"):
        before = _nearest(softmax, lambda n: [maker[i] for i in n.input if i in maker], products, weighted)
        behind = _nearest(softmax, lambda n: [r for o in n.output for r in readers.get(o, [])], products, weighted)
        found |= {id(softmax), *before, *behind}
    return Parts(tuple(gemms), tuple(n for n in nodes if id(n) in found))


def _nearest(start: NodeProto, following: Callable[[NodeProto], list[NodeProto]], wanted: set[int], walls: set[int]) -> set[int]:
    """The first `wanted` nodes on every way from `start`; no way leads through a wall."""
    found, seen, queue = set[int](), set[int](), [start]
    while queue:
        for node in following(queue.pop()):
            if id(node) in wanted:
                found.add(id(node))
            elif id(node) not in walls and id(node) not in seen:
                seen.add(id(node))
                queue.append(node)
    return found


def isolate(path: Path, target: Target, inputs: Arrays) -> dict[str, Alone]:
    """`gemms` and `attention` of the graph at `path` as graphs of their own, at the shapes that `inputs` give them.

    Each node keeps its own weights, as the whole graph's would not stay in the near caches either. Their other inputs are the
    graph's real ones, of which nodes of one kind and shape share the first: theirs would have been written just before.
    Raises PassError for a graph without such nodes.
    """
    model = onnx.load(str(path))
    found = parts(model.graph)
    if not found.gemms or not found.attention:
        raise PassError(f"{path.name} has {len(found.gemms)} products with weights and {len(found.attention)} nodes of attention")
    seen = _run_with(model, [*found.gemms, *found.attention], target, inputs)
    return {"gemms": _graph_of(model, found.gemms, seen, target), "attention": _graph_of(model, found.attention, seen, target)}


def _run_with(model: onnx.ModelProto, nodes: Sequence[NodeProto], target: Target, inputs: Arrays) -> dict[str, NDArray[Any]]:
    """What every node of `nodes` reads and writes for these inputs."""
    wanted = {name: None for n in nodes for name in (*n.input, *n.output)}
    stored = {i.name for i in model.graph.initializer}
    names = [name for name in wanted if name and name not in stored and name not in inputs]
    tapped = onnx.ModelProto()
    tapped.CopyFrom(model)
    present = {o.name for o in tapped.graph.output}
    tapped.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in present)
    session = _open(tapped, target)
    return {**dict(zip(names, session.run(names, dict(inputs)), strict=True)), **inputs}


def _graph_of(model: onnx.ModelProto, nodes: Sequence[NodeProto], seen: Arrays, target: Target) -> Alone:
    stored = {i.name: i for i in model.graph.initializer}
    used: dict[str, TensorProto] = {}
    doors: dict[tuple[Any, ...], str] = {}
    feed: dict[str, NDArray[Any]] = {}
    copies = []
    for node in nodes:
        copy = NodeProto()
        copy.CopyFrom(node)
        for index, name in enumerate(node.input):
            if name in stored:
                used[name] = stored[name]
            elif name:
                array = seen[name]
                door = doors.setdefault((node.op_type, index, array.dtype.name, array.shape), f"door.{len(doors)}")
                feed.setdefault(door, array)
                copy.input[index] = door
        copies.append(copy)
    last = nodes[-1].output[0]
    inputs, output = [_door(name, array) for name, array in feed.items()], _door(last, seen[last])
    graph = helper.make_graph(copies, "alone", inputs, [output], list(used.values()))
    made = helper.make_model(graph, opset_imports=list(model.opset_import), ir_version=model.ir_version)
    return Alone(_open(made, target), feed)


def _door(name: str, array: NDArray[Any]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def _open(model: onnx.ModelProto, target: Target) -> ort.InferenceSession:
    return ort.InferenceSession(model.SerializeToString(), session_options(target, 1), providers=list(target.session.providers))

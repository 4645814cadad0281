"""An ONNX graph on its way through the passes: load, look, change, and bring into one canonical form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray
from onnx_ir.passes import common

from hotfoot.contract.errors import PassError, UnsupportedError
from hotfoot.contract.manifest import GraphSpec, TensorSpec
from hotfoot_build import branches

MICROSOFT = "com.microsoft"  # ONNX Runtime's own operators
OTHER_NAMES = {"last_hidden_state": ("token_embeddings",)}
PRODUCTS = ("FusedGemm", "FusedMatMul", "Gemm", "MatMul")
LARGE = 1_800_000_000  # bytes of weights; protobuf's limit of 2 GiB counts the nodes as well


@dataclass
class Graph:
    """One graph of an artifact. `role` is its name in the manifest; `model` is changed in place by the passes."""

    role: str
    model: ir.Model

    @property
    def ir(self) -> ir.Graph:
        """The graph proper."""
        return self.model.graph

    @property
    def opset(self) -> int:
        """The version of the standard operators."""
        return self.model.opset_imports[""]

    def op_counts(self) -> dict[str, int]:
        """Operators by type, constants left out: a stored constant is data, not work."""
        counts = Counter(node.op_type for node in self.ir if node.op_type != "Constant")
        return dict(sorted(counts.items()))

    def weight_bytes(self) -> int:
        """Bytes of all initializers."""
        return sum(v.const_value.nbytes for v in self.ir.initializers.values() if v.const_value is not None)


def load(path: Path, role: str = "model") -> Graph:
    """Read an ONNX file, its external data mapped into memory, and take the branches that every input takes.

    Raises PassError for one that is not ONNX, UnsupportedError for one with other branches or loops, which the passes do not enter.
    """
    try:
        model = ir.load(path)
    except Exception as error:
        raise PassError(f"{path.name} cannot be read as ONNX: {error}") from error
    branches.inline(model)
    attributes = [(n.op_type, a.type) for n in model.graph for a in n.attributes.values()]
    branching = sorted({op for op, kind in attributes if kind in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)})
    if branching or model.functions:
        raise UnsupportedError(f"{path.name} has {', '.join(branching) or 'functions'}, which hotfoot's passes do not enter.")
    return Graph(role, model)


def describe(graph: Graph, file: str) -> GraphSpec:
    """The graph's door, and the file that it lies in."""
    return GraphSpec(graph.role, file, tuple(map(_door, graph.ir.inputs)), tuple(map(_door, graph.ir.outputs)))


def is_large(graph: Graph) -> bool:
    """True when the weights do not fit into one protobuf message, which ends at 2 GB."""
    return graph.weight_bytes() > LARGE


def write(graph: Graph, path: Path) -> None:
    """Write the graph as it is; the weights of a large one go into `PATH.data` beside it."""
    ir.save(graph.model, path, external_data=f"{path.name}.data" if is_large(graph) else None)


def canonicalize(graph: Graph) -> None:
    """Drop what has no effect (unused nodes, doc strings, exporter metadata) and number every name in order of use.

    The same graph then gives the same bytes.
    """
    common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(graph.model)
    common.RemoveUnusedNodesPass()(graph.model)
    common.TopologicalSortPass()(graph.model)
    common.ClearMetadataAndDocStringPass()(graph.model)
    common.RemoveUnusedOpsetsPass()(graph.model)
    graph.model.producer_name, graph.model.producer_version, graph.model.domain = "hotfoot", None, None
    graph.model.model_version, graph.ir.name = None, graph.role
    graph.ir.metadata_props.clear()
    outer = {v.name for v in (*graph.ir.inputs, *graph.ir.outputs)}
    weights: dict[ir.Value, None] = {}  # an ordered set
    for number, node in enumerate(graph.ir):
        node.name = f"{node.op_type}_{number}"
        weights.update(dict.fromkeys(v for v in node.inputs if v is not None and v.is_initializer()))
        for index, output in enumerate(node.outputs):
            if output.name not in outer:
                output.name = f"{node.name}_{index}"
            # inferred shapes carry the exporter's symbol names; the session infers its own
            if not output.is_graph_output():
                output.shape = None
    _number_weights(graph.ir, list(weights))


def _number_weights(graph: ir.Graph, weights: list[ir.Value]) -> None:
    graph.initializers.clear()
    for number, value in enumerate(weights):
        value.name = f"w{number}"
        graph.register_initializer(value)


def _door(value: ir.Value) -> TensorSpec:
    if value.dtype is None or value.shape is None:
        raise PassError(f"the graph's {value.name} has no declared type and shape")
    shape = tuple(d if isinstance(d, int) else str(d) for d in value.shape)
    return TensorSpec(str(value.name), value.dtype.numpy().name, shape)


def mixes_rows(graph: Graph) -> list[str]:
    """Operators that make one text's numbers depend on its neighbours in the batch; empty for hotfoot's own recipes.

    A scale over a whole tensor does, and so does a sum over the tokens' axis, which ONNX Runtime orders by the batch's size. A product in
    blocks does where the kernel of some CPU sums the last of an odd number of rows in another order, and a product of halves, whose
    matrix a CPU turns into floats at each call and splits by rows and threads.
    """
    found = {n.op_type for n in graph.ir if n.op_type in ("DynamicQuantizeLinear", "DynamicQuantizeMatMul")}
    found |= {n.op_type for n in graph.ir if n.op_type == "MatMulNBits" and not _keeps_rows_apart(n)}
    found |= {n.op_type for n in graph.ir if n.op_type in PRODUCTS and _is_half(n.inputs[1])}
    for node in graph.ir:
        if node.op_type in ("ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2"):
            axes = weight_of(node.inputs[1]) if len(node.inputs) > 1 else None
            values = axes.tolist() if axes is not None else list(node.attributes["axes"].value) if "axes" in node.attributes else [0]
            rank = len(node.inputs[0].shape) if node.inputs[0] is not None and node.inputs[0].shape is not None else None
            if any(axis not in (-1, (rank or 0) - 1) for axis in values):
                found.add(node.op_type)
    return sorted(found)


def _is_half(value: ir.Value | None) -> bool:
    return value is not None and value.is_initializer() and value.dtype == ir.DataType.FLOAT16


def _keeps_rows_apart(node: ir.Node) -> bool:
    """Found by trial on x86 (AVX-512 with VNNI, AVX2) and arm64 (with and without int8 matrix instructions), ONNX Runtime 1.32."""
    level, bits, block, depth = (node.attributes[name].as_int() for name in ("accuracy_level", "bits", "block_size", "K"))
    if level != 4:  # of two rows and more
        return True
    return block <= 64 if bits == 8 else block == 32 and depth % 32 == 0


def choose_output(names: Sequence[str], wanted: str) -> str:
    """The output that a task reads: `wanted`, sentence-transformers' name for token vectors, or the only one there is.

    Raises UnsupportedError that lists them.
    """
    found = next((n for n in (wanted, *OTHER_NAMES.get(wanted, ())) if n in names), names[0] if len(names) == 1 else None)
    if found is None:
        raise UnsupportedError(f"the graph has no output {wanted!r}; it has {', '.join(names)}.")
    return found


def choose_outputs(names: Sequence[str], wanted: str, beside: Sequence[str]) -> tuple[str, ...]:
    """The outputs that a task reads together: all by their names, or the one that choose_output finds and that must hold them all."""
    every = (wanted, *beside)
    return every if all(name in names for name in every) else (choose_output(names, wanted),)


def constant(graph: Graph, name: str, array: NDArray[Any] | np.generic) -> ir.Value:
    """An initializer, made once a name and content; another content of the same name gets a number behind it."""
    own, number = name, 1
    while (found := graph.ir.initializers.get(own)) is not None:
        if found.const_value is not None and np.array_equal(found.const_value.numpy(), array):
            return found
        number += 1
        own = f"{name}.{number}"
    tensor = ir.tensor(np.asarray(array), name=own)
    value = ir.Value(name=own, const_value=tensor, type=ir.TensorType(tensor.dtype), shape=ir.Shape(np.shape(array)))
    graph.ir.register_initializer(value)
    return value


def insert(
    graph: Graph,
    before: ir.Node | None,
    op: str,
    inputs: Sequence[ir.Value | None],
    attributes: Mapping[str, Any] | None = None,
    domain: str = "",
) -> ir.Value:
    """Add a node with one output before `before` (at the end for None) and return that output."""
    node = ir.node(op, inputs, attributes=attributes or {}, domain=domain)
    if domain:
        graph.model.opset_imports.setdefault(domain, 1)
    if before is None:
        graph.ir.append(node)
    else:
        graph.ir.insert_before(before, node)
    return node.outputs[0]


def reduce(graph: Graph, before: ir.Node | None, op: str, value: ir.Value, axis: int) -> ir.Value:
    """A Reduce* over one axis, kept as size 1. The axes are an attribute in older opsets and an input in newer ones."""
    if graph.opset >= (13 if op == "ReduceSum" else 18):
        axes = constant(graph, f"axis.{axis}", np.array([axis], np.int64))
        return insert(graph, before, op, [value, axes], {"keepdims": 1})
    return insert(graph, before, op, [value], {"axes": [axis], "keepdims": 1})


def take_place(graph: Graph, node: ir.Node, result: ir.Value) -> None:
    """Let `result` stand where the node's one output stood, as an output of the graph too, and drop the node."""
    old = node.outputs[0]
    result.type, result.shape = old.type, old.shape
    if old.is_graph_output():
        result.name, old.name = old.name, None
        graph.ir.outputs[:] = [result if o is old else o for o in graph.ir.outputs]
    ir.convenience.replace_all_uses_with(old, result)
    graph.ir.remove(node, safe=True)


def weight_of(value: ir.Value | None) -> NDArray[Any] | None:
    """The array of an initializer or Constant, None for anything computed."""
    if value is None:
        return None
    tensor = value.const_value if value.is_initializer() else ir.convenience.get_const_tensor(value)
    return None if tensor is None else tensor.numpy()

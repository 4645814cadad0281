"""How much memory a run of a graph takes beside its weights: what is live at once, by the sizes of its values.

It follows from the graph alone, so that it is the same wherever it is built, and the runtime sizes its micro-batches by it.
"""

from __future__ import annotations

from math import prod

import onnx_ir as ir

from hotfoot.contract.manifest import Activation
from hotfoot_build import shapes
from hotfoot_build.shapes.known import Known, attribute

LEAST = 8  # tokens: the shortest length that a text runs at
VIEWS = ("Identity", "Reshape", "Squeeze", "Unsqueeze")  # another shape over the same bytes
TRUTHS = ("And", "Equal", "Greater", "GreaterOrEqual", "IsNaN", "Less", "LessOrEqual", "Not", "Or", "Xor")
QUANTIZED = {"QuantizeLinear": (0,), "DynamicQuantizeLinear": (0, 2)}  # which outputs are of one byte a number
FLOATS = ("DequantizeLinear", "DynamicQuantizeMatMul", "MatMulIntegerToFloat", "MatMulNBits")  # whatever they take
HALF = 2 + 4  # bytes: most of the CPU's kernels know no halves, so that ONNX Runtime makes a copy in floats of each


def of(graph: ir.Graph, max_tokens: int) -> tuple[Activation, ...]:
    """The peak of one text at lengths that double up to `max_tokens`, shortest first; empty where the size of a value does not follow.

    Between two of them the peak lies below their chord: it is the largest of sums of powers of the length.
    """
    lengths = [max_tokens]
    while lengths[-1] > LEAST:
        lengths.append(max(LEAST, lengths[-1] // 2))
    found = [Activation(length, most) for length in reversed(lengths) if (most := peak(graph, length)) is not None]
    return tuple(found) if len(found) == len(lengths) else ()


def peak(graph: ir.Graph, length: int, batch: int = 1) -> int | None:
    """Bytes live at once, the nodes run in order, of `batch` texts of `length` tokens; None where a size does not follow.

    ONNX Runtime may take less, as it computes some results in the place of an input.
    """
    names = {str(d.value) for v in graph.inputs for d in v.shape or () if isinstance(d, ir.SymbolicDim)}
    known = shapes.infer(graph, {name: batch if name == "batch" else length for name in names})
    owners, widths = _owners(graph), _widths(graph)
    last = {owners.get(v, v): place for place, node in enumerate(graph) for v in node.inputs if v is not None}
    live = {v: _bytes(v, known, widths) for v in graph.inputs}
    most = 0
    for place, node in enumerate(graph):
        live |= {o: _bytes(o, known, widths) for o in node.outputs if o not in owners}
        sizes = [size for size in live.values() if size is not None]
        if len(sizes) < len(live):
            return None
        most = max(most, sum(sizes))
        live = {v: size for v, size in live.items() if last.get(v, -1) > place or v.is_graph_output()}
    return most


def _owners(graph: ir.Graph) -> dict[ir.Value, ir.Value]:
    """Views, each with the value whose bytes it shows."""
    owners: dict[ir.Value, ir.Value] = {}
    for node in graph:
        source, view = node.inputs[0] if node.inputs else None, node.outputs[0]
        if node.op_type in VIEWS and source is not None and not view.is_graph_output():
            owners[view] = owners.get(source, source)
    return owners


def _bytes(value: ir.Value, known: Known, widths: dict[ir.Value, int]) -> int | None:
    """None where an axis does not follow; an output that nobody reads takes nothing."""
    if not value.uses() and not value.is_graph_output():
        return 0
    axes = known.axes_of(value)
    sizes = [size for size in axes or () if isinstance(size, int)]
    return None if axes is None or len(sizes) < len(axes) else prod(sizes) * widths[value]


def _widths(graph: ir.Graph) -> dict[ir.Value, int]:
    """Bytes of one number of each value."""
    widths = {v: _width(v.dtype) for v in (*graph.inputs, *graph.initializers.values())}
    for node in graph:
        for number, output in enumerate(node.outputs):
            widths[output] = _width(output.dtype) if output.dtype is not None else _made(node, number, widths)
    return widths


def _width(kind: ir.DataType | None) -> int:
    return 4 if kind is None else HALF if kind == ir.DataType.FLOAT16 else max(1, int(kind.itemsize))


def _made(node: ir.Node, number: int, widths: dict[ir.Value, int]) -> int:
    """Bytes of a number that the node gives, where nothing declares its type."""
    if node.op_type in TRUTHS or number in QUANTIZED.get(node.op_type, ()):
        return 1
    if node.op_type == "Cast":
        return _width(ir.DataType(attribute(node, "to", ir.DataType.FLOAT)))
    if node.op_type == "ConstantOfShape":
        return _width(fill.dtype if (fill := attribute(node, "value", None)) is not None else None)
    if node.op_type == "Shape":
        return 8
    source = node.inputs[1 if node.op_type == "Where" else 0] if node.inputs and node.op_type not in FLOATS else None
    return 4 if source is None else widths.get(source, 4)

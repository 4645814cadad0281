"""Sizes that follow from the axes of a graph's inputs: the axes of its values, and what its shape arithmetic comes to.

Exporters write sizes that they could have known as operators (Shape, Gather, Concat), and a choice between two sizes as a branch.
A size is a number, or the name of an input's axis, which stands for some number of at least 1, or None where it does not follow.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from hotfoot_build.shapes import axes, numbers
from hotfoot_build.shapes.known import Known, Size, Sizes

__all__ = ["Known", "Size", "Sizes", "infer"]


def infer(graph: ir.Graph, lengths: Mapping[str, int] | None = None) -> Known:
    """What follows for every value of the graph, whose nodes must be in order. lengths: of the inputs' axes, for those of one run."""
    known = Known({}, {})
    for value in graph.inputs:
        if value.shape is not None:
            sizes = (_size(value, i, d) for i, d in enumerate(value.shape))
            known.axes[value] = tuple((lengths or {}).get(s, s) if isinstance(s, str) else s for s in sizes)
    for node in graph:
        _learn(node, known)
    return known


def _size(value: ir.Value, index: int, size: int | ir.SymbolicDim) -> Size:
    # an axis without a name of its own is like no other
    return size if isinstance(size, int) else str(size.value or f"{value.name}.{index}")


def _learn(node: ir.Node, known: Known) -> None:
    if node.op_type == "Split":
        known.axes.update(zip(node.outputs, axes.of_parts(node, known) or (), strict=False))
        return
    if node.op_type == "DynamicQuantizeLinear":
        known.axes.update(dict.fromkeys(node.outputs[1:], ()))
    output, found = node.outputs[0], axes.of_result(node, known)
    if found is not None:
        known.axes[output] = found
    elements = numbers.of_result(node, known)
    if elements is not None and (found is None or len(found) <= 1):
        known.numbers[output] = elements

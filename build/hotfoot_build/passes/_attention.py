"""What several passes know of attention: where it stands in a graph, and how its heads are split and merged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from hotfoot_build.graph import Graph, weight_of

SPLIT, SPLIT_KEYS = (0, 2, 1, 3), (0, 2, 3, 1)  # (batch, tokens, heads, width) to heads first; of keys also to columns


@dataclass(frozen=True)
class Heads:
    """Between (batch, tokens, hidden) and (batch, heads, tokens, width): a Reshape and a Transpose that nothing else reads.

    hidden: the value on the side of the hidden layers.
    """

    reshape: ir.Node
    transpose: ir.Node
    hidden: ir.Value


@dataclass(frozen=True)
class Attention:
    """softmax(query · keys + …) · values. Heads are None where the way to them is not a plain split (rotary positions …)."""

    scores: ir.Node
    softmax: ir.Node
    context: ir.Node
    query: Heads | None
    key: Heads | None
    value: Heads | None
    merge: Heads | None


def find(graph: Graph) -> list[Attention]:
    """Every attention of the graph, in order."""
    found = []
    for softmax in graph.ir:
        if softmax.op_type != "Softmax" or softmax.inputs[0] is None:
            continue
        scores, context = _scores(softmax.inputs[0]), only_reader(softmax.outputs[0])
        if scores is None or context is None or not is_product(context) or context.inputs[0] is not softmax.outputs[0]:
            continue
        query, key = (_split(v) for v in scores.inputs[:2])
        found.append(Attention(scores, softmax, context, query, key, _split(context.inputs[1]), _merge(context.outputs[0])))
    return found


def is_product(node: ir.Node | None) -> bool:
    """A product of two computed values."""
    return (
        node is not None and node.op_type in ("MatMul", "FusedMatMul") and all(v is not None and weight_of(v) is None for v in node.inputs)
    )


def only_reader(value: ir.Value) -> ir.Node | None:
    """The one node that reads a value, once; None for several, none, or an output of the graph."""
    uses = list(value.uses())
    return uses[0][0] if len(uses) == 1 and not value.is_graph_output() else None


def _scores(value: ir.Value | None) -> ir.Node | None:
    """The product that a softmax's input comes from, through masks and biases that are added; None for none, or several."""
    node = value.producer() if value is not None else None
    if node is None or is_product(node):
        return node
    if node.op_type not in ("Add", "Mul", "Div", "Where") or only_reader(node.outputs[0]) is None:
        return None
    found = [n for n in map(_scores, node.inputs[1:] if node.op_type == "Where" else node.inputs) if n is not None]
    return found[0] if len(found) == 1 else None


def perm_of(node: ir.Node) -> tuple[int, ...]:
    """The axes of a Transpose."""
    return tuple(node.attributes["perm"].as_ints()) if "perm" in node.attributes else ()


def _split(value: ir.Value | None) -> Heads | None:
    transpose = value.producer() if value is not None else None
    if transpose is None or transpose.op_type != "Transpose" or perm_of(transpose) not in (SPLIT, SPLIT_KEYS):
        return None
    reshape = transpose.inputs[0].producer() if transpose.inputs[0] is not None else None
    if reshape is None or reshape.op_type != "Reshape" or reshape.inputs[0] is None:
        return None
    alone = only_reader(transpose.outputs[0]) is not None and only_reader(reshape.outputs[0]) is not None
    return Heads(reshape, transpose, reshape.inputs[0]) if alone else None


def _merge(value: ir.Value) -> Heads | None:
    transpose = only_reader(value)
    if transpose is None or transpose.op_type != "Transpose" or perm_of(transpose) != SPLIT:
        return None
    reshape = only_reader(transpose.outputs[0])
    return Heads(reshape, transpose, reshape.outputs[0]) if reshape is not None and reshape.op_type == "Reshape" else None


def vector_of(value: ir.Value | None) -> NDArray[np.float32] | None:
    """A constant of one axis, as a bias is; None for anything else."""
    found = weight_of(value)
    return found if found is not None and found.ndim == 1 and found.dtype == np.float32 else None


def biased(node: ir.Node | None) -> tuple[ir.Value, ir.Value] | None:
    """(bias, the rest) of an Add with a constant vector; None for anything else."""
    if node is None or node.op_type != "Add":
        return None
    first, second = node.inputs
    if first is None or second is None:
        return None
    if vector_of(first) is not None:
        return first, second
    return (second, first) if vector_of(second) is not None else None

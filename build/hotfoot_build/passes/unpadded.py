"""No padding, no mask: texts run together only with texts of their own length, so the graph need not look for padding.

The mask is one everywhere then. What is computed from it alone is one number, and adding 0, choosing by True and the like fall away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common

from hotfoot_build import running
from hotfoot_build.graph import Graph, insert, weight_of
from hotfoot_build.passes import Counts, Pass

MASK, IDS = "attention_mask", "input_ids"
SMALL = 16  # elements of a constant that is looked at
LAYOUT = ("Expand", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze")  # of data that is all one number
NUMBERS: Mapping[str, Callable[..., Any]] = {
    "Add": np.add,
    "And": np.logical_and,
    "Div": np.divide,
    "Equal": np.equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Max": np.maximum,
    "Min": np.minimum,
    "Mul": np.multiply,
    "Neg": np.negative,
    "Not": np.logical_not,
    "Or": np.logical_or,
    "Sub": np.subtract,
    "Where": np.where,
}
# what a number does nothing to, on which side of it
NEUTRAL = {("Add", 0): 0, ("Add", 1): 0, ("Sub", 1): 0, ("Mul", 0): 1, ("Mul", 1): 1, ("Div", 1): 1}
NEUTRAL |= {("And", 0): True, ("And", 1): True, ("Or", 0): False, ("Or", 1): False}


@dataclass(frozen=True)
class Options:
    """None: the pass does one thing."""


def applies(graph: Graph, _options: Options) -> str | None:
    """Only for an encoder's graph with a mask."""
    if strange := running.strange_inputs(graph):
        return f"the graph reads {', '.join(strange)}"
    return None if any(v.name == MASK for v in graph.ir.inputs) else "the graph reads no mask"


def run(graph: Graph, _options: Options) -> None:
    """Take the mask out, in place."""
    shapes, known = running.shapes(graph), _numbers(graph)
    for node in list(graph.ir):
        kept = _kept(node, known)
        if kept is not None and shapes.get(kept) == shapes[node.outputs[0]]:
            ir.convenience.replace_all_uses_with(node.outputs[0], kept)
    common.RemoveUnusedNodesPass()(graph.model)
    mask = next(v for v in graph.ir.inputs if v.name == MASK)
    if mask.uses():
        ids = next(v for v in graph.ir.inputs if v.name == IDS)
        first, size = graph.ir[0], mask.dtype or ir.DataType.INT64
        shape = insert(graph, first, "Shape", [ids])
        ones = insert(graph, first, "ConstantOfShape", [shape], {"value": ir.tensor(np.ones(1, size.numpy()))})
        ir.convenience.replace_all_uses_with(mask, ones)
    graph.ir.inputs.remove(mask)


def _numbers(graph: Graph) -> dict[ir.Value, Any]:
    """The values that are one number throughout when no text is padded."""
    known: dict[ir.Value, Any] = {v: np.ones((), v.dtype.numpy() if v.dtype else np.int64) for v in graph.ir.inputs if v.name == MASK}
    for node in graph.ir:
        number = None if node.domain or len(node.outputs) != 1 else _number(node, known)
        if number is not None:
            known[node.outputs[0]] = number
    return known


def _number(node: ir.Node, known: Mapping[ir.Value, Any]) -> Any:
    """What the node gives, where that follows from a number that came of the mask; None elsewhere."""
    if not any(v in known for v in node.inputs):
        return None
    first = known.get(node.inputs[0]) if node.inputs[0] is not None else None
    if node.op_type in LAYOUT:
        return first
    if node.op_type == "Cast" and first is not None:
        return first.astype(ir.DataType(node.attributes["to"].as_int()).numpy())
    given = [_constant_number(v, known) for v in node.inputs]
    if node.op_type == "Concat" and all(g is not None and g == given[0] for g in given):
        return given[0]
    if node.op_type in NUMBERS and all(g is not None for g in given):
        with np.errstate(all="ignore"):
            return np.asarray(NUMBERS[node.op_type](*given), dtype=None if node.op_type != "Where" else given[1].dtype)
    return None


def _constant_number(value: ir.Value | None, known: Mapping[ir.Value, Any]) -> Any:
    if value in known or value is None:
        return known.get(value) if value is not None else None
    array = weight_of(value)
    if array is None or not 0 < array.size <= SMALL or not np.all(array == array.flat[0]):
        return None
    return np.asarray(array.flat[0])


def _kept(node: ir.Node, known: Mapping[ir.Value, Any]) -> ir.Value | None:
    """The input that the node gives as it is, because of a number that came of the mask."""
    if node.domain or node.outputs[0] in known:
        return None
    first = node.inputs[0] if node.inputs else None
    if node.op_type == "Where" and first is not None and first in known:
        return node.inputs[1 if known[first] else 2]
    for index, value in enumerate(node.inputs):
        neutral = NEUTRAL.get((node.op_type, index))
        if neutral is not None and value is not None and value in known and known[value] == neutral:
            return node.inputs[1 - index]
    return None


def check(graph: Graph, _before: Counts, _options: Options) -> str | None:
    """Nothing may ask for the mask."""
    return "the mask is still an input" if any(v.name == MASK for v in graph.ir.inputs) else None


PASS = Pass(
    name="unpadded",
    summary="no mask, as no text is padded",
    options=lambda _context: Options(),
    applies=applies,
    run=run,
    check=check,
)

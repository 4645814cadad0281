"""Sizes that follow from the inputs' axes are worked out here, once, and not by operators at every call.

Exporters spell them out, each in its own way: `Reshape(x, Concat(Gather(Shape(x), 0), …))` for a size that Reshape can copy, a scale
made of a Shape, an Expand before an operator that broadcasts anyway. What remains is the same graph, whoever exported it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray
from onnx_ir.passes import common

from hotfoot_build import shapes
from hotfoot_build.graph import Graph, constant
from hotfoot_build.passes import Context, Counts, Pass
from hotfoot_build.shapes import Known, Sizes
from hotfoot_build.shapes.axes import ELEMENTWISE, SAME, broadcast
from hotfoot_build.shapes.known import attribute, slices, tensor_of

ALONG_AN_AXIS = ("CumSum", "LayerNormalization", "LogSoftmax", "LpNormalization", "SkipLayerNormalization", "Softmax", "Trilu")


@dataclass(frozen=True)
class Options:
    """Nothing to choose."""


def options(_context: Context) -> Options:
    """The same for every target."""
    return Options()


def applies(graph: Graph, _options: Options) -> str | None:
    """Only where something follows."""
    return None if _changes(graph) else "no operator computes a size that follows from the inputs"


def run(graph: Graph, _options: Options) -> None:
    """Put constants in the place of computed sizes, compute what is left once, and drop what then does nothing, in place."""
    while changes := _changes(graph):
        for change in changes:
            change()
        common.RemoveUnusedNodesPass()(graph.model)
        common.CommonSubexpressionEliminationPass()(graph.model)


def _changes(graph: Graph) -> list[Callable[[], None]]:
    """What can be done at once; an Expand goes alone, as two may each be without effect because of the other."""
    known = shapes.infer(graph.ir)
    found: list[Callable[[], None]] = []
    first: dict[tuple[Sizes, int], ir.Value] = {}
    for node in graph.ir:
        output, numbers, target = node.outputs[0], _settled(node, known), _target(node, known)
        other = _again(node, known, first) or _passed_on(node, known)
        if numbers is not None and output.uses():
            found.append(partial(_put_constant, graph, output, numbers))
        elif target is not None:
            found.append(partial(_put_target, graph, node, target))
        elif other is not None and output.uses():
            found.append(partial(ir.convenience.replace_all_uses_with, output, other))
    if found:
        return found
    expands = (n for n in graph.ir if n.op_type == "Expand" and _broadcasts_anyway(graph, n, known))
    return [partial(ir.convenience.replace_all_uses_with, n.outputs[0], v) for n in islice(expands, 1) if (v := n.inputs[0]) is not None]


def _put_constant(graph: Graph, output: ir.Value, numbers: NDArray[np.int64 | np.bool_]) -> None:
    name = f"size.{numbers.ndim}.{'.'.join(map(str, numbers.ravel()))}"
    ir.convenience.replace_all_uses_with(output, constant(graph, name, numbers))


def _put_target(graph: Graph, reshape: ir.Node, target: list[int]) -> None:
    name = f"sizes.{'.'.join(map(str, target))}"
    reshape.replace_input_with(1, constant(graph, name, np.array(target, np.int64)))


def _settled(node: ir.Node, known: Known) -> NDArray[np.int64 | np.bool_] | None:
    """What shape arithmetic comes to, where that is numbers alone."""
    output = node.outputs[0]
    axes, numbers = known.axes.get(output), known.integers_of(output)
    if numbers is None or axes is None or tensor_of(output) is not None or output.is_graph_output():
        return None
    truths = all(isinstance(n, bool) for n in numbers) and len(numbers) > 0
    return np.array(numbers if axes else numbers[0], np.bool_ if truths else np.int64)


def _again(node: ir.Node, known: Known, first: dict[tuple[Sizes, int], ir.Value]) -> ir.Value | None:
    """The value that was the first to come to the same sizes."""
    output = node.outputs[0]
    axes, numbers = known.axes.get(output), known.numbers_of(output)
    if axes is None or numbers is None or None in numbers or tensor_of(output) is not None or output.is_graph_output():
        return None
    earlier = first.setdefault((numbers, len(axes)), output)
    return None if earlier is output else earlier


def _target(node: ir.Node, known: Known) -> list[int] | None:
    """The constant that does what a Reshape's computed sizes do: 0 copies an axis, -1 takes what is left over."""
    if node.op_type != "Reshape" or node.inputs[1] is None or tensor_of(node.inputs[1]) is not None or attribute(node, "allowzero", 0):
        return None
    wanted, data = known.numbers_of(node.inputs[1]), known.axes_of(node.inputs[0]) or ()
    if wanted is None:
        return None
    copied = [0 if isinstance(w, str) and i < len(data) and data[i] == w else w for i, w in enumerate(wanted)]
    found = [c if isinstance(c, int) else -1 for c in copied]
    return found if found.count(-1) <= 1 else None


def _passed_on(node: ir.Node, known: Known) -> ir.Value | None:
    """The input of an Expand, Slice, Tile or Reshape that gives just that."""
    if node.op_type not in ("Expand", "Reshape", "Slice", "Tile") or node.outputs[0].is_graph_output():
        return None
    before, after = known.axes_of(node.inputs[0]), known.axes_of(node.outputs[0])
    if before is None or before != after or None in after:
        return None
    backwards = node.op_type == "Slice" and any(step != 1 for _, _, step in (slices(node, known) or {}).values())
    return None if backwards else node.inputs[0]


def _broadcasts_anyway(graph: Graph, expand: ir.Node, known: Known) -> bool:
    """True where the operators behind it come to the same end without it, each with the others' narrow results."""
    before = known.axes_of(expand.inputs[0])
    narrow = {expand.outputs[0]: before}
    for node in graph.ir:
        if not any(v in narrow for v in node.inputs if v is not None):
            continue
        output, after = node.outputs[0], known.axes_of(node.outputs[0])
        plain = node.op_type in ELEMENTWISE or (node.op_type in SAME and node.op_type not in ALONG_AN_AXIS)
        left = broadcast(*(narrow[v] if v in narrow else known.axes_of(v) for v in node.inputs if v is not None)) if plain else None
        if left is None or after is None or None in after:
            return False
        if left != after:
            narrow[output] = left
    return before is not None and not any(v.is_graph_output() for v in narrow)


def check(graph: Graph, before: Counts, options: Options) -> str | None:
    """Nothing may be added, and nothing that follows be left."""
    grown = {op: n for op, n in graph.op_counts().items() if n > before.get(op, 0)}
    if grown:
        return f"it added operators: {grown}"
    return "some sizes that follow are still computed" if applies(graph, options) is None else None


PASS = Pass(
    name="static_shapes",
    summary="sizes worked out once instead of at every call",
    options=options,
    applies=applies,
    run=run,
    check=check,
)

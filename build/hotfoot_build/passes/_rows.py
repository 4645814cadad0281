"""Which operators treat the rows of an axis apart, and what they must read for one row of their result."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import onnx_ir as ir

from hotfoot_build.shapes import Known, Sizes
from hotfoot_build.shapes.axes import ELEMENTWISE, SAME
from hotfoot_build.shapes.known import attribute, axes_argument, from_front, product, slices

Needs = list[int | None]  # for each input: the axis of which only the row is read, None for all of it


def passed_up(node: ir.Node, axis: int, known: Known) -> Needs | None:
    """What a node must read when only the row on `axis` of its output is wanted; None where the rows are not apart in it."""
    result = known.axes_of(node.outputs[0])
    if result is None or any(v is not None and known.axes_of(v) is None for v in node.inputs):
        return None
    if node.op_type in ELEMENTWISE:
        return _elementwise(node, axis, result, known)
    if node.op_type in SAME:
        return _same(node, axis, len(result))
    rule = RULES.get(node.op_type)
    return None if rule is None else rule(node, axis, known)


def _elementwise(node: ir.Node, axis: int, result: Sizes, known: Known) -> Needs | None:
    found: Needs = []
    for value in node.inputs:
        sizes = known.axes_of(value) or ()
        own = axis - (len(result) - len(sizes))
        broadcasts = own < 0 or sizes[own] == 1
        if not broadcasts and sizes[own] != result[axis]:
            return None
        found.append(None if broadcasts else own)
    return found


def _same(node: ir.Node, axis: int, rank: int) -> Needs | None:
    op, last = node.op_type, from_front(attribute(node, "axis", -1), rank)
    if op in ("CumSum", "DynamicQuantizeLinear", "Trilu") or axis == rank - 1 or any(o.uses() for o in node.outputs[1:]):
        return None
    if (op.endswith("Softmax") and last == axis) or (op.endswith("Normalization") and last <= axis):
        return None
    both = op.startswith("Skip")
    return [axis if i == 0 or (both and i == 1) else None for i in range(len(node.inputs))]


def _matmul(node: ir.Node, axis: int, known: Known) -> Needs | None:
    rank, own = len(known.axes_of(node.outputs[0]) or ()), len(known.axes_of(node.inputs[0]) or ())
    if axis != rank - 2 or attribute(node, "transBatchA", 0):
        return None
    return [own - 1 if attribute(node, "transA", 0) else own - 2, *[None] * (len(node.inputs) - 1)]


def _transpose(node: ir.Node, axis: int, known: Known) -> Needs | None:
    rank = len(known.axes_of(node.outputs[0]) or ())
    return [attribute(node, "perm", range(rank)[::-1])[axis]]


def _reshape(node: ir.Node, axis: int, known: Known) -> Needs | None:
    own = _origin(node, axis, known)
    return None if own is None or sizes_for_rows(node, axis, 1, known) is None else [own, None]


def _origin(node: ir.Node, axis: int, known: Known) -> int | None:
    """The axis of a Reshape's input that `axis` of its result is: of the same size, with as many elements before it."""
    data, result = known.axes_of(node.inputs[0]) or (), known.axes_of(node.outputs[0]) or ()
    before = product(*result[:axis])
    fits = (i for i, size in enumerate(data) if size == result[axis] and before is not None and product(*data[:i]) == before)
    return next(fits, None)


def sizes_for_rows(node: ir.Node, axis: int, rows: int, known: Known) -> list[int | None] | None:
    """What a Reshape must ask for once `axis` has so many rows: 0 copies, -1 takes what is left over, None is what it asked for.

    None for the whole where that cannot be said.
    """
    data, wanted, own = known.axes_of(node.inputs[0]) or (), known.numbers_of(node.inputs[1]), _origin(node, axis, known)
    if wanted is None or attribute(node, "allowzero", 0):
        return None
    found: list[int | None] = []
    for i, size in enumerate(wanted):
        same = size == 0 or (isinstance(size, str) and i < len(data) and data[i] == size)
        if i == axis:
            found.append(0 if same and i == own else -1 if size == -1 else rows)
        elif i == own and size == 0:
            return None
        else:
            found.append(0 if same and i != own else size if isinstance(size, int) else None)
    free = found.count(None) == 1 and -1 not in found
    return [-1 if free and f is None else f for f in found]


def _unsqueeze(node: ir.Node, axis: int, known: Known) -> Needs | None:
    rank, new = len(known.axes_of(node.outputs[0]) or ()), axes_argument(node, known, 1) or []
    return [axis - sum(from_front(a, rank) < axis for a in new), *[None] * (len(node.inputs) - 1)]


def _squeeze(node: ir.Node, axis: int, known: Known) -> Needs | None:
    rank, gone = len(known.axes_of(node.inputs[0]) or ()), axes_argument(node, known, 1) or []
    kept = [i for i in range(rank) if i not in {from_front(a, rank) for a in gone}]
    return [kept[axis], *[None] * (len(node.inputs) - 1)]


def _slice(node: ir.Node, axis: int, known: Known) -> Needs | None:
    rank, parts = len(known.axes_of(node.inputs[0]) or ()), slices(node, known)
    cut = parts is None or axis in {from_front(a, rank) for a in parts}
    return None if cut else [axis, *[None] * (len(node.inputs) - 1)]


def _concat(node: ir.Node, axis: int, known: Known) -> Needs | None:
    rank = len(known.axes_of(node.outputs[0]) or ())
    return None if from_front(attribute(node, "axis", 0), rank) == axis else [axis] * len(node.inputs)


def _split(node: ir.Node, axis: int, known: Known) -> Needs | None:
    rank = len(known.axes_of(node.inputs[0]) or ())
    return None if from_front(attribute(node, "axis", 0), rank) == axis else [axis, *[None] * (len(node.inputs) - 1)]


def _gather_elements(node: ir.Node, axis: int, known: Known) -> Needs | None:
    data, index = known.axes_of(node.inputs[0]) or (), known.axes_of(node.inputs[1]) or ()
    if from_front(attribute(node, "axis", 0), len(data)) == axis:
        return [None, axis]
    return [axis, axis] if data[axis] == index[axis] else None


RULES: Mapping[str, Callable[[ir.Node, int, Known], Needs | None]] = {
    "Concat": _concat,
    "FusedMatMul": _matmul,
    "GatherElements": _gather_elements,
    "MatMul": _matmul,
    "Reshape": _reshape,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}

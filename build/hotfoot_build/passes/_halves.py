"""Which nodes of a float32 graph may compute in float16, and which must not: decided from the first to the last.

What a value is decides what its readers do. `half` came of a computation in float16, or may be rounded to it. `full` came of integers
(masks, positions) and can be rounded where it meets halves. A `sum` (of squares, of exponentials) and what is derived from it alone,
until it meets a half again, stays float32: halves end at 65504, and below 0.00006 they lose digits. `large` came of a constant beyond
the limit, as a mask's; no text that is looked at shows how large, so that it stays float32 up to the softmax that ends it. `big` was
seen to come near what halves can hold.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Literal

import numpy as np
import onnx_ir as ir

from hotfoot_build.graph import Graph, weight_of
from hotfoot_build.passes._products import is_kept

State = Literal["half", "full", "sum", "large", "big"]
Size = Literal["huge", "tiny"]
FLOAT = ir.DataType.FLOAT
SMALLEST = 6.2e-5  # below it halves lose digits
# sums of many terms, and functions whose results leave the range of halves
SUMS = {"CumSum", "Exp", "Log", "Pow", "ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceMean", "ReduceProd", "ReduceSum"}
SUMS |= {"Reciprocal", "ReduceSumSquare", "Sqrt"}
# of bounded results: what is large or summed ends here. The first sum in float32 whatever they read; the others do not say so
NORMS = {"LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"}
ENDS = {"LogSoftmax", "LpNormalization", "Sigmoid", "Softmax", "Tanh"}
PRODUCTS = {"FusedGemm", "FusedMatMul", "Gemm", "MatMul"}
NUMBERS = {"ArgMax", "ArgMin", "NonZero", "Shape", "Size"}  # of integers, whatever they read
TRUTHS = {"And", "Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual", "Not", "Or", "Xor"}


def floats(graph: Graph) -> set[ir.Value]:
    """Every float32 value of the graph, by the type that each operator gives."""
    found = {v for v in (*graph.ir.inputs, *graph.ir.initializers.values()) if v.dtype == FLOAT}
    for node in graph.ir:
        if _gives_floats(node, found):
            found.update(node.outputs)
    return found


def _gives_floats(node: ir.Node, known: set[ir.Value]) -> bool:
    attributes = node.attributes
    if node.op_type == "Cast":
        return attributes["to"].as_int() == FLOAT
    if node.op_type == "Constant":
        return (array := weight_of(node.outputs[0])) is not None and array.dtype == np.float32
    if node.op_type == "ConstantOfShape":
        return "value" not in attributes or attributes["value"].as_tensor().dtype == FLOAT
    if node.op_type in NUMBERS or node.op_type in TRUTHS:
        return False
    first = node.inputs[1] if node.op_type == "Where" else node.inputs[0] if node.inputs else None
    return first in known


def states(graph: Graph, known: set[ir.Value], big: Collection[ir.Value], limit: float) -> Iterator[tuple[ir.Node, bool, State]]:
    """Each node that reads or gives floats, whether it computes in float32, and what it gives. big: values seen beyond the limit."""
    found: dict[ir.Value, State] = {v: "full" for v in graph.ir.inputs if v in known}
    for node in graph.ir:
        read = [v for v in node.inputs if v in known and v is not None]
        if not read and not any(v in known for v in node.outputs):
            continue
        constants = [array for v in read if (array := weight_of(v)) is not None]
        computed = {found[v] for v in read if weight_of(v) is None}
        wide, state = _decide(node, computed, _sizes(constants, limit), looked_up=bool(constants) and not computed)
        if any(v in big for v in node.outputs):
            wide, state = True, "big"
        elif is_kept(node):
            wide = True
        found.update(dict.fromkeys(node.outputs, state))
        yield node, wide, state


def _sizes(constants: list[np.ndarray], limit: float) -> set[Size]:
    """How the constants lie to what halves hold: beyond the limit, or a single number that they lose the digits of, as an epsilon."""
    found: set[Size] = set()
    for array in constants:
        largest = float(np.abs(array).max(initial=0.0))
        if largest > limit:
            found.add("huge")
        elif array.size == 1 and 0 < largest < SMALLEST:
            found.add("tiny")
    return found


def _decide(node: ir.Node, read: set[State], constants: set[Size], *, looked_up: bool) -> tuple[bool, State]:
    """Whether the node computes in float32, and what it gives. read: what its computed inputs are."""
    op, square = node.op_type, node.op_type == "Mul" and node.inputs[0] is node.inputs[1]
    if op in NORMS or op in ENDS:
        return op in ENDS or bool(constants) or bool(read & {"sum", "large", "big"}), "full" if read == {"full"} else "half"
    if op in PRODUCTS:
        return _decide_product(read, constants)
    if "huge" in constants or "large" in read:
        return True, "large"
    if not read:
        return not looked_up or bool(constants), "half" if looked_up and not constants else "full"
    if op in SUMS or square or constants:
        return True, "full" if read == {"full"} else "sum"
    if read & {"sum", "big"}:
        return True, "sum" if read <= {"sum", "full"} else "half"
    return read == {"full"}, "full" if read == {"full"} else "half"


def _decide_product(read: set[State], constants: set[Size]) -> tuple[bool, State]:
    if "full" in read:  # of a mask or of positions: rows are summed over many tokens, or angles are made
        return True, "full"
    return bool(constants) or bool(read & {"large", "big"}), "half"

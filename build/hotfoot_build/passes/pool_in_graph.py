"""Embeddings leave the graph as one vector a text: pooled, and at unit length where the model normalises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from hotfoot.contract.errors import PassError
from hotfoot.contract.manifest import Side
from hotfoot_build.graph import MICROSOFT, Graph, constant, insert, reduce
from hotfoot_build.passes import Context, Counts, Pass, unrecorded
from hotfoot_build.vector_head import Step

POOLINGS = ("cls", "mean", "max", "last")


@dataclass(frozen=True)
class Options:
    """How token vectors become one: a name of POOLINGS, or "none"; what happens to it then, and whether it ends at unit length."""

    pooling: str
    normalize: bool
    pad_side: Side
    head: tuple[Step, ...] = ()
    weights: Mapping[str, NDArray[np.float32]] | None = unrecorded(None)


def options(context: Context) -> Options:
    """As the model's own modules say."""
    pooling, normalize = context.facts.get("pooling", "none"), bool(context.facts.get("normalize", False))
    return Options(pooling, normalize, context.pad_side, context.head, context.head_weights)


def applies(graph: Graph, options: Options) -> str | None:
    """Only where the task pools."""
    if options.pooling == "none":
        return "the task reads every token"
    pooled = len(graph.ir.outputs[0].shape or ()) == 2
    return "the graph already gives one vector a text" if pooled and not options.normalize else None


def run(graph: Graph, options: Options) -> None:
    """Append the pooling to the graph in place."""
    hidden = graph.ir.outputs[0]
    name, shape = str(hidden.name), list(hidden.shape or ())
    width = shape[-1]
    hidden.name = f"{name}.unpooled"
    # a graph that the user brings may pool by itself
    pool = {"mean": _mean, "max": _max, "cls": _first, "last": _last}[options.pooling]
    vector = pool(graph, hidden, options.pad_side) if len(shape) == 3 else hidden
    for step in options.head:
        vector = _unit(graph, vector) if step.kind == "normalize" else _dense(graph, vector, step, options.weights or {})
        width = step.outputs or width
    if options.normalize:
        vector = _unit(graph, vector)
    vector.name, vector.type, vector.shape = name, ir.TensorType(ir.DataType.FLOAT), ir.Shape(["batch", width])
    graph.ir.outputs[:] = [vector]


def _unit(graph: Graph, vector: ir.Value) -> ir.Value:
    return insert(graph, None, "LpNormalization", [vector], {"axis": -1, "p": 2})  # a zero vector stays zero


def _dense(graph: Graph, vector: ir.Value, step: Step, weights: Mapping[str, NDArray[np.float32]]) -> ir.Value:
    names = [name for name in (f"{step.place}.weight", f"{step.place}.bias") if name in weights]
    if not names or weights[names[0]].shape != (step.outputs, step.inputs):
        raise PassError(f"there are no weights of {step.outputs} x {step.inputs} for module {step.place}.")
    found = [constant(graph, f"head.{name}", weights[name]) for name in names]
    product = insert(graph, None, "Gemm", [vector, *found], {"transB": 1})
    if not step.activation:
        return product
    return insert(graph, None, step.activation, [product], domain=MICROSOFT if step.activation == "Gelu" else "")


def _mask(graph: Graph) -> ir.Value | None:
    """attention_mask as floats of shape (batch, 1, tokens); None for a graph that is never given padding."""
    mask = next((v for v in graph.ir.inputs if v.name == "attention_mask"), None)
    if mask is None:
        return None
    floats = insert(graph, None, "Cast", [mask], {"to": int(ir.DataType.FLOAT)})
    return insert(graph, None, "Unsqueeze", [floats, constant(graph, "axis.1", np.array([1], np.int64))])


def _drop_axis_1(graph: Graph, value: ir.Value) -> ir.Value:
    return insert(graph, None, "Squeeze", [value, constant(graph, "axis.1", np.array([1], np.int64))])


def _mean(graph: Graph, hidden: ir.Value, _pad_side: Side) -> ir.Value:
    # A product sums token by token, so that padding adds exact zeros and never changes the order of the others. Of two equal
    # rows, because ONNX Runtime sums a product of a single row in lanes, whose split depends on the padded length.
    mask = _mask(graph)
    if mask is None:
        return _mean_of_all(graph, hidden)
    sums = insert(graph, None, "MatMul", [insert(graph, None, "Concat", [mask, mask], {"axis": 1}), hidden])
    total = insert(graph, None, "Gather", [sums, constant(graph, "zero", np.int64(0))], {"axis": 1})
    count = _drop_axis_1(graph, reduce(graph, None, "ReduceSum", mask, -1))
    return insert(graph, None, "Div", [total, insert(graph, None, "Max", [count, constant(graph, "one", np.float32(1))])])


def _mean_of_all(graph: Graph, hidden: ir.Value) -> ir.Value:
    tokens = insert(graph, None, "Shape", [hidden], {"start": 1, "end": 2})
    size = insert(graph, None, "Concat", [constant(graph, "two", np.array([2], np.int64)), tokens], {"axis": 0})
    ones = insert(graph, None, "ConstantOfShape", [size], {"value": ir.tensor(np.ones(1, np.float32))})
    total = insert(
        graph, None, "Gather", [insert(graph, None, "MatMul", [ones, hidden]), constant(graph, "zero", np.int64(0))], {"axis": 1}
    )
    return insert(graph, None, "Div", [total, insert(graph, None, "Cast", [tokens], {"to": int(ir.DataType.FLOAT)})])


def _max(graph: Graph, hidden: ir.Value, _pad_side: Side) -> ir.Value:
    row = _mask(graph)
    if row is None:
        return _drop_axis_1(graph, reduce(graph, None, "ReduceMax", hidden, 1))
    mask = insert(graph, None, "Transpose", [row], {"perm": [0, 2, 1]})
    real = insert(graph, None, "Cast", [mask], {"to": int(ir.DataType.BOOL)})
    lowest = constant(graph, "lowest", np.float32(np.finfo(np.float32).min))
    return _drop_axis_1(graph, reduce(graph, None, "ReduceMax", insert(graph, None, "Where", [real, hidden, lowest]), 1))


def _first(graph: Graph, hidden: ir.Value, pad_side: Side) -> ir.Value:
    if pad_side == "right":
        return insert(graph, None, "Gather", [hidden, constant(graph, "zero", np.int64(0))], {"axis": 1})
    return _at_cumulative(graph, hidden, of_last=False)


def _last(graph: Graph, hidden: ir.Value, pad_side: Side) -> ir.Value:
    if pad_side == "left":
        return insert(graph, None, "Gather", [hidden, constant(graph, "minus.one", np.int64(-1))], {"axis": 1})
    return _at_cumulative(graph, hidden, of_last=True)


def _at_cumulative(graph: Graph, hidden: ir.Value, *, of_last: bool) -> ir.Value:
    """The first or last real token: where the running sum of the mask is 1, or the whole sum, at a token that is real.

    Picked by a product with a one-hot row: one term and zeros, so the vector is exact.
    """
    mask = _mask(graph)
    if mask is None:
        return insert(graph, None, "Gather", [hidden, constant(graph, "edge", np.int64(-1 if of_last else 0))], {"axis": 1})
    running = insert(graph, None, "CumSum", [mask, constant(graph, "axis.last", np.int64(2))])
    wanted = reduce(graph, None, "ReduceSum", mask, -1) if of_last else constant(graph, "one", np.float32(1))
    there = insert(graph, None, "Cast", [insert(graph, None, "Equal", [running, wanted])], {"to": int(ir.DataType.FLOAT)})
    return _drop_axis_1(graph, insert(graph, None, "MatMul", [insert(graph, None, "Mul", [there, mask]), hidden]))


def check(graph: Graph, _before: Counts, _options: Options) -> str | None:
    """One vector a text must leave."""
    shape = graph.ir.outputs[0].shape
    return None if shape is not None and len(shape) == 2 else f"the pooled output has shape {shape}"


PASS = Pass(
    name="pool_in_graph",
    summary="one vector a text leaves the graph",
    options=options,
    applies=applies,
    run=run,
    check=check,
)

"""Embeddings leave the graph as one vector a text: pooled, and at unit length where the model normalises."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from hotfoot.contract.manifest import Side
from hotfoot_build.graph import Graph, constant, insert, reduce
from hotfoot_build.passes import Context, Counts, Pass

POOLINGS = ("cls", "mean", "max", "last")


@dataclass(frozen=True)
class Options:
    """How token vectors become one: a name of POOLINGS, or "none"."""

    pooling: str
    normalize: bool
    pad_side: Side


def options(context: Context) -> Options:
    """As the model's own modules say."""
    return Options(context.facts.get("pooling", "none"), bool(context.facts.get("normalize", False)), context.pad_side)


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
    if options.normalize:
        length = insert(graph, None, "Sqrt", [reduce(graph, None, "ReduceSum", insert(graph, None, "Mul", [vector, vector]), -1)])
        floor = constant(graph, "norm.floor", np.float32(1e-12))
        vector = insert(graph, None, "Div", [vector, insert(graph, None, "Max", [length, floor])])
    vector.name, vector.type, vector.shape = name, ir.TensorType(ir.DataType.FLOAT), ir.Shape(["batch", width])
    graph.ir.outputs[:] = [vector]


def _mask(graph: Graph) -> ir.Value:
    """attention_mask as floats of shape (batch, 1, tokens)."""
    mask = next(v for v in graph.ir.inputs if v.name == "attention_mask")
    floats = insert(graph, None, "Cast", [mask], {"to": int(ir.DataType.FLOAT)})
    return insert(graph, None, "Unsqueeze", [floats, constant(graph, "axis.1", np.array([1], np.int64))])


def _drop_axis_1(graph: Graph, value: ir.Value) -> ir.Value:
    return insert(graph, None, "Squeeze", [value, constant(graph, "axis.1", np.array([1], np.int64))])


def _mean(graph: Graph, hidden: ir.Value, _pad_side: Side) -> ir.Value:
    # A product sums token by token, so that padding adds exact zeros and never changes the order of the others. Of two equal
    # rows, because ONNX Runtime sums a product of a single row in lanes, whose split depends on the padded length.
    mask = _mask(graph)
    sums = insert(graph, None, "MatMul", [insert(graph, None, "Concat", [mask, mask], {"axis": 1}), hidden])
    total = insert(graph, None, "Gather", [sums, constant(graph, "zero", np.int64(0))], {"axis": 1})
    count = _drop_axis_1(graph, reduce(graph, None, "ReduceSum", mask, -1))
    return insert(graph, None, "Div", [total, insert(graph, None, "Max", [count, constant(graph, "one", np.float32(1))])])


def _max(graph: Graph, hidden: ir.Value, _pad_side: Side) -> ir.Value:
    mask = insert(graph, None, "Transpose", [_mask(graph)], {"perm": [0, 2, 1]})
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

"""Keep what the task reads: one output, int32 inputs, every weight once, no exporter leftovers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common

from hotfoot.contract.errors import PassError
from hotfoot_build.graph import Graph, choose_outputs, constant, insert
from hotfoot_build.passes import Context, Counts, Pass

# tokenisers make 32-bit ids, and a 64-bit input costs a copy and Cast nodes
INT32_READERS = ("Gather", "Shape", "Cast")


@dataclass(frozen=True)
class Options:
    """The output that the task reads, and those that it reads beside it."""

    output: str
    beside: tuple[str, ...] = ()


def options(context: Context) -> Options:
    """By the task."""
    return Options(context.task.export.output, context.task.export.beside)


def run(graph: Graph, options: Options) -> None:
    """Cut the graph down in place. A graph of a pair or with a cache keeps every output: hotfoot's own export gave it no other."""
    if graph.role == "model":
        _keep_output(graph, options)
    common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(graph.model)
    common.RemoveUnusedNodesPass()(graph.model)
    common.DeduplicateInitializersPass(size_limit=1 << 40)(graph.model)
    common.IdentityEliminationPass()(graph.model)
    common.CommonSubexpressionEliminationPass()(graph.model)
    common.RemoveUnusedNodesPass()(graph.model)
    common.ClearMetadataAndDocStringPass()(graph.model)
    for value in graph.ir.inputs:
        if graph.role == "model":
            _name_axes(value, ("batch", "sequence"))
        if value.dtype == ir.DataType.INT64:
            _narrow(graph, value)
    if graph.role == "model":
        output = graph.ir.outputs[0]
        rank = len(output.shape) if output.shape is not None else 0
        _name_axes(output, ("batch", "sequence") if rank == 3 else ("batch",))


def _keep_output(graph: Graph, options: Options) -> None:
    outputs = {str(o.name): o for o in graph.ir.outputs}
    chosen = [outputs[name] for name in choose_outputs(list(outputs), options.output, options.beside)]
    kept = chosen[0] if len(chosen) == 1 else _stack(graph, chosen)
    graph.ir.outputs[:] = [kept]
    kept.name = "_and_".join((options.output, *options.beside))


def _stack(graph: Graph, values: list[ir.Value]) -> ir.Value:
    """Outputs of shape (batch, tokens) as one of shape (batch, tokens, outputs)."""
    last = constant(graph, "axis.-1", np.array([-1], np.int64))
    columns = [insert(graph, None, "Unsqueeze", [value, last]) for value in values]
    stacked = insert(graph, None, "Concat", columns, {"axis": -1})
    stacked.type, stacked.shape = values[0].type, ir.Shape([*(values[0].shape or ()), len(values)])
    return stacked


def _name_axes(value: ir.Value, names: tuple[str, ...]) -> None:
    if value.shape is None:
        raise PassError(f"the graph's {value.name} has no declared shape")
    dims = [d if isinstance(d, int) else None for d in value.shape]
    value.shape = ir.Shape([*names, *dims[len(names) :]])


def _narrow(graph: Graph, value: ir.Value) -> None:
    wide: ir.Value | None = None
    readers = list(value.uses())
    value.type = ir.TensorType(ir.DataType.INT32)
    for node, index in readers:
        if node.op_type in INT32_READERS:
            continue
        if node.op_type == "Unsqueeze" and all(n.op_type in ("Cast", "Unsqueeze") for n, _ in node.outputs[0].uses()):
            _retype(node)
            continue
        if wide is None:
            cast = ir.node("Cast", [value], attributes={"to": int(ir.DataType.INT64)})
            graph.ir.insert_before(graph.ir[0], cast)
            wide = cast.outputs[0]
        node.replace_input_with(index, wide)


def _retype(node: ir.Node) -> None:
    """An Unsqueeze chain passes its type on until a Cast ends it."""
    node.outputs[0].type = ir.TensorType(ir.DataType.INT32)
    for reader, _ in node.outputs[0].uses():
        if reader.op_type == "Unsqueeze":
            _retype(reader)


def check(graph: Graph, before: Counts, options: Options) -> str | None:
    """Nothing may be computed twice or for no one."""
    may_grow = ("Cast", "Concat", "Unsqueeze") if options.beside else ("Cast",)
    grown = {op: n for op, n in graph.op_counts().items() if n > before.get(op, 0) and op not in may_grow}
    return f"pruning added operators: {grown}" if grown else None


PASS = Pass(
    name="prune",
    summary="keep the task's output, drop dead flow, take 32-bit ids",
    options=options,
    applies=lambda _graph, _options: None,
    run=run,
    check=check,
)

"""Texts that come alone have one segment: its row goes into the table of the positions, and token_type_ids are not asked for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from hotfoot_build.graph import Graph, constant, weight_of
from hotfoot_build.passes import Context, Counts, Pass
from hotfoot_build.passes._attention import only_reader

SEGMENTS = "token_type_ids"


@dataclass(frozen=True)
class Options:
    """alone: no text comes with a second one, and the tokenizer puts a single one into segment 0."""

    alone: bool


def options(context: Context) -> Options:
    """By the task and the tokenizer."""
    return Options(context.one_segment)


def applies(graph: Graph, options: Options) -> str | None:
    """Only where the graph looks segments up that are always the same."""
    if not options.alone:
        return "texts may come in pairs"
    segments = _input(graph)
    if segments is None:
        return f"the graph reads no {SEGMENTS}"
    found = _look_up(graph)
    return (
        None
        if found is not None and _into_positions(found) is not None
        else f"{SEGMENTS} are read otherwise than by a sum with the positions"
    )


def _input(graph: Graph) -> ir.Value | None:
    return next((v for v in graph.ir.inputs if v.name == SEGMENTS), None)


def _look_up(graph: Graph) -> ir.Node | None:
    """The only reader of the segments, when it looks rows of a table up and only a sum reads them."""
    segments = _input(graph)
    node = only_reader(segments) if segments is not None else None
    reader = only_reader(node.outputs[0]) if node is not None and node.op_type == "Gather" else None
    return node if node is not None and weight_of(node.inputs[0]) is not None and reader is not None and reader.op_type == "Add" else None


def _into_positions(look_up: ir.Node) -> ir.Node | None:
    """The look-up of positions that is added to the same sum."""
    above: ir.Node | None = only_reader(look_up.outputs[0])
    while above is not None and above.op_type == "Add":
        for value in above.inputs:
            node = value.producer() if value is not None else None
            table = weight_of(node.inputs[0]) if node is not None and node.op_type in ("Gather", "Slice") and node is not look_up else None
            alone = node is not None and only_reader(node.outputs[0]) is not None and len(node.inputs[0].uses()) == 1  # type: ignore[union-attr]
            if alone and table is not None and table.ndim == 2 and table.dtype == np.float32 and not _reads_input(node):
                return node
        above = only_reader(above.outputs[0])
    return None


def _reads_input(node: ir.Node | None) -> bool:
    """Whether a look-up goes by the ids themselves: those are words."""
    return node is not None and any(v is not None and v.is_graph_input() for v in node.inputs)


def run(graph: Graph, _options: Options) -> None:
    """Add the row to every position, in place."""
    look_up = _look_up(graph)
    positions = _into_positions(look_up) if look_up is not None else None
    segments = _input(graph)
    add = only_reader(look_up.outputs[0]) if look_up is not None else None
    if look_up is None or positions is None or segments is None or add is None:
        raise AssertionError("applies found them")
    rows, table = weight_of(look_up.inputs[0]), weight_of(positions.inputs[0])
    if rows is None or table is None or positions.inputs[0] is None:
        raise AssertionError("applies found them constant")
    positions.replace_input_with(0, constant(graph, f"{positions.inputs[0].name}.segment", table + rows[0]))
    other = add.inputs[1] if add.inputs[0] is look_up.outputs[0] else add.inputs[0]
    if other is None:
        raise AssertionError("a sum has two sides")
    ir.convenience.replace_all_uses_with(add.outputs[0], other)
    graph.ir.remove([add, look_up], safe=True)
    graph.ir.inputs.remove(segments)


def check(graph: Graph, before: Counts, _options: Options) -> str | None:
    """One look-up and one sum must be gone, and the input with them."""
    after = graph.op_counts()
    gone = {op: before.get(op, 0) - after.get(op, 0) for op in ("Add", "Gather")}
    return None if _input(graph) is None and gone == {"Add": 1, "Gather": 1} else f"{SEGMENTS} are still read, {gone} are gone"


PASS = Pass(
    name="one_segment",
    summary="no token_type_ids where texts come alone",
    options=options,
    applies=applies,
    run=run,
    check=check,
)

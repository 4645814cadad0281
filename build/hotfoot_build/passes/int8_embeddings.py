"""Large embedding tables as int8, one scale a row: the table is most of a small model's file, and a look-up reads few rows.

In front of a decoder the table is most often that of the decoder's output, too, and there it is in blocks: so it is here, and can be
stored once for both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from hotfoot_build import shapes
from hotfoot_build.graph import Graph, constant, insert, weight_of
from hotfoot_build.passes import Context, Counts, Pass, int8_weights
from hotfoot_build.passes import _blocks as blocks
from hotfoot_build.passes._tied import read_rows
from hotfoot_build.passes.int8_rowwise import quantize_columns

MIN_ROWS = 4096  # below this (positions, segments) the bytes do not matter
MIN_COLUMNS = 16  # a row's scale must cost little beside the row


@dataclass(frozen=True)
class Options:
    """Tables with fewer rows stay as they are."""

    min_rows: int


def options(_context: Context) -> Options:
    """The same for every target: rows are turned back into floats before any product."""
    return Options(MIN_ROWS)


def eligible(graph: Graph, options: Options) -> list[ir.Node]:
    """Look-ups over the rows of a large float table that nothing else reads."""
    found = []
    for node in graph.ir:
        table = weight_of(node.inputs[0]) if node.op_type == "Gather" and not node.domain else None
        if (
            table is None
            or table.ndim != 2
            or table.dtype != np.float32
            or table.shape[0] < options.min_rows
            or table.shape[1] < MIN_COLUMNS
        ):
            continue
        axis = node.attributes.get("axis")
        only_looked_up = all(n.op_type == "Gather" and i == 0 for n, i in node.inputs[0].uses())  # type: ignore[union-attr]
        if only_looked_up and (axis is None or axis.value == 0):
            found.append(node)
    return found


def applies(graph: Graph, options: Options) -> str | None:
    """Only where there is a large table of its own."""
    return None if eligible(graph, options) else f"no embedding table of {options.min_rows} rows or more that only look-ups read"


def run(graph: Graph, options: Options) -> None:
    """Replace the look-ups in place: rows of integers times their scale."""
    known = shapes.infer(graph.ir) if graph.role == "encoder" else None
    for node in eligible(graph, options):
        source, ids = node.inputs[0], node.inputs[1]
        table = weight_of(source)
        if table is None or source is None:
            continue
        if known is not None and len(known.axes_of(ids) or ()) == 2 and table.shape[1] % int8_weights.BLOCK == 0:
            read_rows(graph, node, f"{source.name}.8bits", blocks.nearest(table.T, int8_weights.layout(int8_weights.Options())))
            continue
        integers, scales = quantize_columns(np.ascontiguousarray(table.T), 127)
        rows = insert(graph, node, "Gather", [constant(graph, f"{source.name}.int8", np.ascontiguousarray(integers.T)), ids])
        scale = insert(graph, node, "Gather", [constant(graph, f"{source.name}.scale", scales[:, None]), ids])
        floats = insert(graph, node, "Cast", [rows], {"to": int(ir.DataType.FLOAT)})
        ir.convenience.replace_all_uses_with(node.outputs[0], insert(graph, node, "Mul", [floats, scale]))
        graph.ir.remove(node, safe=True)


def check(graph: Graph, before: Counts, options: Options) -> str | None:
    """Every table found must be gone, each look-up now being two."""
    left = len(eligible(graph, options))
    if left or graph.op_counts().get("Gather", 0) <= before.get("Gather", 0):
        return f"{left} large embedding table(s) are still float"
    return None


PASS = Pass(
    name="int8_embeddings",
    summary="embedding tables as int8 with one scale a row",
    options=options,
    applies=applies,
    run=run,
    check=check,
)

"""Where the head reads one row of the tokens (the first, or the last), the last layer computes no other.

Keys and values still come from every token; queries, the attention's output, the feed-forward part and the norms only of the row
that is read. The pick moves up through every operator that treats the rows apart, as far as all that read it read that row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from hotfoot_build import shapes
from hotfoot_build.graph import Graph, constant, insert, weight_of
from hotfoot_build.passes import Context, Counts, Pass
from hotfoot_build.passes._rows import Needs, passed_up, sizes_for_rows
from hotfoot_build.shapes import Known
from hotfoot_build.shapes.known import attribute, from_front, tensor_of

PRODUCTS = ("FusedMatMul", "MatMul")
# The row, twice: ONNX Runtime sums the product of a single row in lanes, whose split depends on the padded length, and the same
# text padded to another length must give the same bits.
ROWS = 2


@dataclass(frozen=True)
class Options:
    """Nothing to choose."""


@dataclass(frozen=True)
class Region:
    """What may work on the row alone.

    index: which row, 0 or -1. heads: the nodes that pick it. nodes: those above them whose every reader wants that row, each with
    its axis in the result, from the last to the first. edges: (node, input, axis) where a value with all rows enters.
    """

    index: int
    heads: tuple[ir.Node, ...]
    nodes: tuple[tuple[ir.Node, int], ...]
    edges: tuple[tuple[ir.Node, int, int], ...]


def options(_context: Context) -> Options:
    """The same for every target."""
    return Options()


def applies(graph: Graph, _options: Options) -> str | None:
    """Only where a row is picked, and products stand above the pick."""
    found = region(graph, shapes.infer(graph.ir))
    if found is None:
        return "no single row of the tokens is read"
    products = [n for n, _ in found.nodes if n.op_type in PRODUCTS]
    return None if products else "all rows are read of what the one row is picked from"


def region(graph: Graph, known: Known) -> Region | None:
    """The nodes of which every reader wants the picked row alone; None where no row is picked, or two are."""
    heads = _heads(graph, known)
    indices = {_index(n) for n in heads}
    index = indices.pop() if len(indices) == 1 else None
    if index is None:
        return None
    needs: dict[ir.Value, set[int | None]] = {v: {None} for v in graph.ir.outputs}
    nodes: list[tuple[ir.Node, int]] = []
    edges: list[tuple[ir.Node, int, int]] = []
    for node in reversed(graph.ir):
        wanted = {axis for output in node.outputs for axis in needs.get(output, ())}
        axis = next(iter(wanted)) if len(wanted) == 1 else None
        found: Needs | None = [from_front(attribute(node, "axis", 0), 3), None] if node in heads else None
        if axis is not None and node not in heads:
            found = passed_up(node, axis, known)
            nodes += [(node, axis)] if found is not None else []
        for i, value in enumerate(node.inputs):
            own = found[i] if found is not None else None
            if value is not None:
                needs.setdefault(value, set()).add(own)
                edges += [(node, i, own)] if own is not None else []
    inside = {output for node, _ in nodes for output in node.outputs}
    return Region(index, tuple(heads), tuple(nodes), tuple(e for e in edges if e[0].inputs[e[1]] not in inside))


def _heads(graph: Graph, known: Known) -> list[ir.Node]:
    tokens = next((s[1] for v in graph.ir.inputs if (s := known.axes_of(v)) is not None and len(s) == 2), None)
    found = []
    for node in graph.ir:
        data = known.axes_of(node.inputs[0]) if node.op_type == "Gather" and not node.domain else None
        if data is None or len(data) != 3 or _index(node) not in (0, -1) or tensor_of(node.outputs[0]) is not None:
            continue
        if isinstance(tokens, str) and data[from_front(attribute(node, "axis", 0), 3)] == tokens:
            found.append(node)
    return found


def _index(node: ir.Node) -> int | None:
    """The one row that a Gather picks, taking its axis away."""
    index = weight_of(node.inputs[1])
    return int(index) if index is not None and index.ndim == 0 else None


def run(graph: Graph, _options: Options) -> None:
    """Pick the row where the region begins instead of where it ends, in place."""
    known = shapes.infer(graph.ir)
    found = region(graph, known)
    if found is None:
        return
    for node, axis in found.nodes:
        if node.op_type == "Reshape":
            _resize(graph, node, sizes_for_rows(node, axis, ROWS, known) or [])
    rows = constant(graph, f"head.rows.{found.index}", np.full(ROWS, found.index, np.int64))
    picked: dict[tuple[ir.Value, int], ir.Value] = {}
    for node, i, axis in reversed(found.edges):  # the first reader in the graph's order comes first
        value = node.inputs[i]
        if value is None or node in found.heads:
            continue
        if (value, axis) not in picked:
            picked[value, axis] = insert(graph, node, "Gather", [value, rows], {"axis": axis})
        node.replace_input_with(i, picked[value, axis])
    for node in found.heads:
        node.replace_input_with(1, constant(graph, "head.row", np.array(0, np.int64)))


def _resize(graph: Graph, node: ir.Node, sizes: list[int | None]) -> None:
    """Let a Reshape ask for these sizes; those that are None come from what it asked for so far."""
    asked = node.inputs[1]
    known = [s for s in sizes if s is not None]
    if len(known) == len(sizes):
        node.replace_input_with(1, constant(graph, f"sizes.{'.'.join(map(str, known))}", np.array(known, np.int64)))
        return
    parts = [constant(graph, f"sizes.{s}", np.array([s], np.int64)) if s is not None else None for s in sizes]
    places = [constant(graph, f"place.{i}", np.array([i], np.int64)) for i in range(len(sizes))]
    made = [p or insert(graph, node, "Gather", [asked, place], {"axis": 0}) for p, place in zip(parts, places, strict=True)]
    node.replace_input_with(1, insert(graph, node, "Concat", made, {"axis": 0}))


def check(graph: Graph, before: Counts, _options: Options) -> str | None:
    """Only picks may be added, of rows and of sizes, and no product of all rows may be left for the head alone."""
    after = graph.op_counts()
    changed = {op: after.get(op, 0) - before.get(op, 0) for op in {*before, *after} if after.get(op, 0) != before.get(op, 0)}
    if not {"Gather"} <= set(changed) <= {"Concat", "Gather"} or min(changed.values()) < 0:
        return f"it changed operators: {changed}"
    left = region(graph, shapes.infer(graph.ir))
    return None if left is None else f"{len(left.nodes)} operators still compute all rows for the head alone"


PASS = Pass(
    name="head_only",
    summary="the last layer computes only the row that the head reads",
    options=options,
    applies=applies,
    run=run,
    check=check,
)

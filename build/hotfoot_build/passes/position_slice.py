"""Positions that count from 0 are a slice of their table, which ends at the longest input: no ids to make, and no look-up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common

from hotfoot_build.graph import Graph, constant, insert, weight_of
from hotfoot_build.passes import Context, Counts, Pass


@dataclass(frozen=True)
class Options:
    """rows: the longest input, past which no position is read; 0 keeps them all."""

    rows: int = 0


def options(context: Context) -> Options:
    """By the artifact's limit."""
    return Options(context.max_tokens)


def applies(graph: Graph, _options: Options) -> str | None:
    """Only where positions that count from 0 are looked up."""
    return None if _look_ups(graph) else "no look-up of positions that count from 0"


def _look_ups(graph: Graph) -> list[ir.Node]:
    """Gather(table, Slice(0…n of shape (1, n), from 0, to the length)), each."""
    found = []
    for node in graph.ir:
        table, ids = (node.inputs[0], node.inputs[1]) if node.op_type == "Gather" and len(node.inputs) == 2 else (None, None)
        cut, rows = ids.producer() if ids is not None else None, weight_of(table)
        counted = weight_of(cut.inputs[0]) if cut is not None and cut.op_type == "Slice" else None
        if rows is None or rows.ndim != 2 or cut is None or counted is None or counted.ndim != 2 or counted.shape[0] != 1:
            continue
        plain = [weight_of(v) for v in (cut.inputs[1], *cut.inputs[3:])]  # start, axes, steps
        usual = all(p is not None and p.tolist() == [wanted] for p, wanted in zip(plain, (0, 1, 1), strict=False)) and len(plain) >= 2
        if usual and np.array_equal(counted[0], np.arange(counted.shape[1])) and counted.shape[1] == rows.shape[0]:
            found.append(node)
    return found


def run(graph: Graph, options: Options) -> None:
    """Slice the tables themselves, in place."""
    for node in _look_ups(graph):
        table, cut = node.inputs[0], node.inputs[1].producer() if node.inputs[1] is not None else None
        rows = weight_of(table)
        if table is None or rows is None or cut is None or cut.inputs[2] is None:
            raise AssertionError("found as a constant table and a Slice with an end")
        if 0 < options.rows < len(rows):
            table = constant(graph, f"{table.name}.{options.rows}", rows[: options.rows].copy())
        zero = constant(graph, "slice.zero", np.array([0], np.int64))
        # (tokens, hidden) is added to (batch, tokens, hidden) as it is
        sliced = insert(graph, node, "Slice", [table, zero, _length(graph, cut.inputs[2]), zero])
        ir.convenience.replace_all_uses_with(node.outputs[0], sliced)
        graph.ir.remove(node, safe=True)
    common.RemoveUnusedNodesPass()(graph.model)


def _length(graph: Graph, end: ir.Value) -> ir.Value:
    """Where the slice ends, of shape (1,): straight from the ids where it is their length, spelled out as Shape, Gather and Unsqueeze."""
    chain = [end.producer()]
    while (node := chain[-1]) is not None and node.op_type in ("Unsqueeze", "Gather") and node.inputs[0] is not None:
        chain.append(node.inputs[0].producer())
    names = [node.op_type for node in chain if node is not None]
    ids = chain[-1].inputs[0] if names == ["Unsqueeze", "Gather", "Shape"] and chain[-1] is not None else None
    axis = weight_of(chain[1].inputs[1]) if ids is not None and chain[1] is not None else None
    if ids is None or axis is None or axis.size != 1 or chain[0] is None:
        return end
    number = int(axis.reshape(-1)[0])
    return insert(graph, chain[0], "Shape", [ids], {"start": number, "end": number + 1})


def check(graph: Graph, before: Counts, _options: Options) -> str | None:
    """The look-ups must be gone."""
    after = graph.op_counts()
    fewer = after.get("Gather", 0) < before.get("Gather", 0)
    return None if fewer and not _look_ups(graph) else f"{len(_look_ups(graph))} look-ups are left"


PASS = Pass(
    name="position_slice",
    summary="positions as a slice of their table",
    options=options,
    applies=applies,
    run=run,
    check=check,
)

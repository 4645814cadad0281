"""Hidden layers as (tokens, batch, hidden), so that attention reads its heads where they lie.

ONNX Runtime's FusedMatMul takes an operand whose batch axes stand inside (`transBatch`): of (tokens, batch, heads, width) it makes
the products of each text and head without a copy. Query, keys and values then need no Transpose; only the result does. Everything else
in the layers works row by row, and a row is a row in either order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common

from hotfoot_build import running
from hotfoot_build.graph import MICROSOFT, Graph, constant, insert, weight_of
from hotfoot_build.passes import Counts, Pass
from hotfoot_build.passes._attention import SPLIT, SPLIT_KEYS, Attention, Heads, find, perm_of
from hotfoot_build.running import Shapes, is_hidden

# operators that work on each (batch, tokens) row by itself, given that their other operands are rows too, or one for all rows
ROW_WISE = {
    "Abs",
    "Add",
    "BiasGelu",
    "Cast",
    "Div",
    "Erf",
    "FastGelu",
    "Gelu",
    "LayerNormalization",
    "MatMul",
    "Mul",
    "Neg",
    "Pow",
    "QuickGelu",
}
ROW_WISE |= {"Relu", "Sigmoid", "SimplifiedLayerNormalization", "Split", "Sqrt", "Sub", "Tanh"}
SWAP = (1, 0, 2)


@dataclass(frozen=True)
class Options:
    """None: the pass does one thing."""


@dataclass(frozen=True)
class Region:
    """The values that change their order, and what lies at its edge: values that come in, and reads that stay as they are."""

    values: set[ir.Value]
    entries: list[ir.Value]
    exits: list[tuple[ir.Node, int]]


def applies(graph: Graph, _options: Options) -> str | None:
    """Only where more transpositions go than come."""
    if strange := running.strange_inputs(graph):
        return f"the graph reads {', '.join(strange)}"
    attentions, shapes = _attentions(graph)
    if not attentions:
        return "no attention whose heads come straight from their projections"
    region = _region(attentions, shapes)
    left = {node.inputs[index] for node, index in region.exits} | (region.values & set(graph.ir.outputs))
    added = len(region.entries) + len(left - set(region.entries))
    return None if added < 3 * len(attentions) else f"{added} transpositions would come for {3 * len(attentions)} that go"


def _attentions(graph: Graph) -> tuple[list[Attention], dict[ir.Value, Shapes]]:
    """Those that can read their heads in place, and the shapes of every value."""
    found = [a for a in find(graph) if a.query and a.key and a.value and a.merge and _plain(a, a.query, a.key, a.value)]
    if not found:
        return [], {}
    shapes = running.shapes(graph)
    return [a for a in found if all(h is not None and is_hidden(shapes.get(h.hidden)) for h in (a.query, a.key, a.value, a.merge))], shapes


def _plain(attention: Attention, query: Heads, key: Heads, value: Heads) -> bool:
    perms = perm_of(query.transpose), perm_of(key.transpose), perm_of(value.transpose)
    flags = [(n, f) for n in (attention.scores, attention.context) for f in ("transA", "transB", "transBatchA", "transBatchB")]
    return perms == (SPLIT, SPLIT_KEYS, SPLIT) and not any(node.attributes[f].as_int() for node, f in flags if f in node.attributes)


def _region(attentions: list[Attention], shapes: dict[ir.Value, Shapes]) -> Region:
    heads = [h for a in attentions for h in (a.query, a.key, a.value) if h is not None]
    splits = {h.reshape for h in heads}
    merges = {a.merge.reshape for a in attentions if a.merge is not None}
    waiting = [h.hidden for h in heads] + [m.outputs[0] for m in merges]
    region = Region(set(), [], [])
    while waiting:
        value = waiting.pop()
        if value in region.values:
            continue
        region.values.add(value)
        producer = value.producer()
        if producer is not None and producer not in merges:
            if _row_wise(producer, shapes):
                waiting += [*_rows(producer, shapes), *producer.outputs]
            else:
                region.entries.append(value)
        for node, index in value.uses():
            if node in splits:
                continue
            if _row_wise(node, shapes):
                waiting += [*_rows(node, shapes), *node.outputs]
            else:
                region.exits.append((node, index))
    return region


def _rows(node: ir.Node, shapes: dict[ir.Value, Shapes]) -> list[ir.Value]:
    return [v for v in node.inputs if v is not None and is_hidden(shapes.get(v))]


def _row_wise(node: ir.Node, shapes: dict[ir.Value, Shapes]) -> bool:
    """Whether the node gives the same rows in any order of rows."""
    if node.op_type not in ROW_WISE or node.inputs[0] is None or not all(is_hidden(shapes.get(v)) for v in node.outputs):
        return False
    axis = node.attributes["axis"].as_int() if "axis" in node.attributes else -1
    others = [v for v in node.inputs if v is not None and not is_hidden(shapes.get(v))]
    arrays = [weight_of(v) for v in others]
    if axis not in (-1, 2) or any(a is None for a in arrays):
        return False
    if node.op_type == "MatMul":
        return len(others) == 1 and others[0] is node.inputs[1] and arrays[0] is not None and arrays[0].ndim == 2
    return all(a is not None and max([1, *a.shape[:-1]]) == 1 for a in arrays)


def run(graph: Graph, _options: Options) -> None:
    """Turn the layers around, in place."""
    attentions, shapes = _attentions(graph)
    region = _region(attentions, shapes)
    outside = set(region.exits)
    for value in region.entries:  # as it is for those outside, turned for those inside
        inside = [use for use in value.uses() if tuple(use) not in outside]
        _turn(graph, value, inside)
    left = [v for v in dict.fromkeys(node.inputs[index] for node, index in region.exits) if v is not None]
    for value in left:
        if value not in region.entries:
            _turn(graph, value, [use for use in value.uses() if tuple(use) in outside])
    for index, output in enumerate(graph.ir.outputs):
        if output in region.values and output not in region.entries:
            graph.ir.outputs[index] = _turned_output(graph, output)
    for attention in attentions:
        _read_in_place(graph, attention, shapes)
    common.RemoveUnusedNodesPass()(graph.model)  # the sizes that the heads were split by


def _turn(graph: Graph, value: ir.Value, uses: Iterable[tuple[ir.Node, int]]) -> None:
    """Let `uses` read the value with batch and tokens exchanged."""
    node, producer, readers = ir.node("Transpose", [value], attributes={"perm": SWAP}), value.producer(), list(uses)
    if producer is None:
        raise AssertionError("only computed values are in the region")
    graph.ir.insert_after(producer, node)
    for reader, index in readers:
        reader.replace_input_with(index, node.outputs[0])


def _turned_output(graph: Graph, output: ir.Value) -> ir.Value:
    """The output as (batch, tokens, hidden) under its own name."""
    turned = insert(graph, None, "Transpose", [output], {"perm": SWAP})
    turned.name, output.name, turned.type, turned.shape = output.name, f"{output.name}.turned", output.type, output.shape
    return turned


def _read_in_place(graph: Graph, attention: Attention, shapes: dict[ir.Value, Shapes]) -> None:
    query, key, value, merge = attention.query, attention.key, attention.value, attention.merge
    if query is None or key is None or value is None or merge is None:
        raise AssertionError("only whole attentions are taken")
    for heads in (query, key, value):
        _, _, count, width = shapes[heads.reshape.outputs[0]][0]
        heads.reshape.replace_input_with(1, constant(graph, f"heads.{count}.{width}", np.array([0, 0, count, width], np.int64)))
    alpha = attention.scores.attributes["alpha"].as_float() if "alpha" in attention.scores.attributes else 1.0
    _product(graph, attention.scores, query.transpose, key.transpose, {"alpha": alpha, "transB": 1, "transBatchA": 1, "transBatchB": 1})
    weights = attention.context.attributes["alpha"].as_float() if "alpha" in attention.context.attributes else 1.0
    _product(graph, attention.context, None, value.transpose, {"alpha": weights, "transBatchB": 1})
    merge.transpose.attributes["perm"] = ir.AttrInt64s("perm", [2, 0, 1, 3])
    hidden = shapes[merge.hidden][0][2]
    merge.reshape.replace_input_with(1, constant(graph, f"hidden.{hidden}", np.array([0, 0, hidden], np.int64)))


def _product(graph: Graph, old: ir.Node, left: ir.Node | None, right: ir.Node, attributes: dict[str, float | int]) -> None:
    """The same product, reading what was transposed for it as it is."""
    inputs = [left.inputs[0] if left is not None else old.inputs[0], right.inputs[0]]
    made = insert(graph, old, "FusedMatMul", inputs, attributes, MICROSOFT)
    ir.convenience.replace_all_uses_with(old.outputs[0], made)
    for node in [n for n in (old, left, right) if n is not None]:
        graph.ir.remove(node, safe=True)


def check(graph: Graph, before: Counts, _options: Options) -> str | None:
    """Fewer transpositions than before, and none of those that the pass is for."""
    after, (left, _) = graph.op_counts().get("Transpose", 0), _attentions(graph)
    fewer = after < before.get("Transpose", 0)
    return None if fewer and not left else f"{len(left)} attentions still transpose their heads, by {after} transpositions in all"


PASS = Pass(
    name="sequence_first",
    summary="attention reads its heads in place",
    options=lambda _context: Options(),
    applies=applies,
    run=run,
    check=check,
)

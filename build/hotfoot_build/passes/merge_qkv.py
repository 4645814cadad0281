"""Products that read one tensor (query, key and value) become one, with the matrices side by side, and a Split.

The sums are the same column by column, to the bit. On a CPU it pays with nothing but short texts: MiniLM on one thread took between 3 %
less and 2 % more time up to 64 tokens (int8 gained, fp32 hardly), and 1 to 6 % more for 384 tokens or 8 texts of 128, where the Split
copies more than the fewer products save. So no recipe for CPUs has it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from hotfoot_build.graph import Graph, constant, insert, weight_of
from hotfoot_build.passes import Context, Counts, Pass
from hotfoot_build.passes._products import Bias, Product, bias_of, is_kept, product_of


@dataclass(frozen=True)
class Options:
    """The fewest products that are merged."""

    least: int = 2


def options(_context: Context) -> Options:
    """The same for every target."""
    return Options()


def eligible(graph: Graph, options: Options) -> list[list[Product]]:
    """Groups of plain products of one tensor, in the graph's order. Their widths may differ, as those of grouped heads do."""
    groups: dict[ir.Value, list[Product]] = {}
    for node in graph.ir:
        product = product_of(node) if node.op_type == "MatMul" and not is_kept(node) else None
        if product is not None and not product.turned and not node.outputs[0].is_graph_output():
            groups.setdefault(product.rows, []).append(product)
    return [group for group in groups.values() if len(group) >= options.least]


def applies(graph: Graph, options: Options) -> str | None:
    """Only where products share what they read."""
    return None if eligible(graph, options) else f"no {options.least} products read one tensor"


def run(graph: Graph, options: Options) -> None:
    """Merge each group in place."""
    for group in eligible(graph, options):
        _merge(graph, group)


def _merge(graph: Graph, group: list[Product]) -> None:
    first = group[0].node
    # by the weights' names: layers that share them keep sharing
    matrix = constant(graph, _name(p.stored for p in group), np.concatenate([p.matrix for p in group], axis=1))
    merged = insert(graph, first, "MatMul", [group[0].rows, matrix])
    biases = [b for p in group if (b := bias_of(p)) is not None and b.add is not None and not b.add.outputs[0].is_graph_output()]
    if len(biases) == len(group):
        merged = insert(graph, first, "Add", [merged, _side_by_side(graph, biases)])
    old = [b.add for b in biases if b.add is not None] if len(biases) == len(group) else [p.node for p in group]
    widths = constant(graph, f"widths.{'.'.join(str(p.columns) for p in group)}", np.array([p.columns for p in group], np.int64))
    split = ir.node("Split", [merged, widths], attributes={"axis": -1}, num_outputs=len(group))
    graph.ir.insert_before(first, split)
    for node, part in zip(old, split.outputs, strict=True):
        part.type = node.outputs[0].type
        ir.convenience.replace_all_uses_with(node.outputs[0], part)
        graph.ir.remove(node, safe=True)
    for product in group:
        if product.node not in old:
            graph.ir.remove(product.node, safe=True)


def _side_by_side(graph: Graph, biases: list[Bias]) -> ir.Value:
    vectors = [weight_of(b.vector) for b in biases]
    return constant(graph, _name(b.vector for b in biases), np.concatenate([v for v in vectors if v is not None]))


def _name(values: Iterable[ir.Value]) -> str:
    return "+".join(str(v.name) for v in values)


def check(graph: Graph, before: Counts, options: Options) -> str | None:
    """Every group must be one product and one Split, and nothing else may be new."""
    after = graph.op_counts()
    splits, gone = (sign * (after.get(op, 0) - before.get(op, 0)) for op, sign in (("Split", 1), ("MatMul", -1)))
    grown = sorted(op for op, n in after.items() if n > before.get(op, 0) and op != "Split")
    left = len(eligible(graph, options))
    if left or grown or splits < 1 or gone < splits * (options.least - 1):
        return f"{gone} products went for {splits} splits, {left} groups are left, and there is more of {', '.join(grown) or 'nothing'}"
    return None


PASS = Pass(
    name="merge_qkv",
    summary="query, key and value as one product",
    options=options,
    applies=applies,
    run=run,
    check=check,
)

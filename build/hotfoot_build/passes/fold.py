"""Biases move into their neighbours, so that there are fewer of them to add. Exact but for the order of float sums.

A key's bias adds the same number to all scores of a query, which softmax takes away again. A value's bias leaves the attention
as it came in, as the weights of a query sum to one, and becomes part of the output projection's. The bias in front of a residual
sum goes into the shift of the normalisation that the residual comes from, and the product that reads it too takes that back.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from hotfoot_build.graph import Graph, constant
from hotfoot_build.passes import Counts, Pass
from hotfoot_build.passes._attention import Attention, biased, find, only_reader, vector_of
from hotfoot_build.passes.int8_rowwise import matrix_of


@dataclass(frozen=True)
class Options:
    """Which biases move."""

    keys: bool = True
    values: bool = True
    residuals: bool = True


def applies(graph: Graph, options: Options) -> str | None:
    """Only where there is a bias to move."""
    return None if _movable(graph, options) else "no bias that a neighbour can take"


def _movable(graph: Graph, options: Options) -> int:
    attentions = find(graph)
    keys = sum(_key_bias(a) is not None for a in attentions) if options.keys else 0
    values = sum(_value_bias(a) is not None for a in attentions) if options.values else 0
    return keys + values + (len(_residuals(graph)) if options.residuals else 0)


def run(graph: Graph, options: Options) -> None:
    """Move them, in place."""
    for attention in find(graph):
        if options.keys and (found := _key_bias(attention)):
            _drop(graph, found)
        if options.values and (pair := _value_bias(attention)):
            value, output, projection = pair
            (bias, _), (old, _) = biased(value) or (None, None), biased(output) or (None, None)
            added = _through(vector_of(bias), matrix_of(projection))
            _replace(graph, output, old, added)
            _drop(graph, value)
    for norm, product, bias_of_product, residual in _residuals(graph) if options.residuals else []:
        (bias, _) = biased(residual) or (None, None)
        shift = vector_of(bias)
        _replace(graph, norm, norm.inputs[2], shift)
        _replace(graph, bias_of_product, _vector_input(bias_of_product), -_through(shift, matrix_of(product)))
        _drop(graph, residual)


def _through(vector: NDArray[np.float32] | None, matrix: NDArray[np.float32] | None) -> NDArray[np.float32]:
    if vector is None or matrix is None:
        raise AssertionError("found as a bias in front of a product")
    return (vector.astype(np.float64) @ matrix.astype(np.float64)).astype(np.float32)


def _replace(graph: Graph, node: ir.Node, old: ir.Value | None, added: NDArray[np.float32] | None) -> None:
    """Let the node read `old` plus `added`."""
    vector = vector_of(old)
    if old is None or vector is None or added is None:
        raise AssertionError("found as a constant vector")
    node.replace_input_with(list(node.inputs).index(old), constant(graph, f"{old.name}.folded", vector + added))


def _drop(graph: Graph, add: ir.Node) -> None:
    """The Add's other side, in its place."""
    found = biased(add)
    if found is None:
        raise AssertionError("found as a bias")
    ir.convenience.replace_all_uses_with(add.outputs[0], found[1])
    graph.ir.remove(add, safe=True)


def _key_bias(attention: Attention) -> ir.Node | None:
    """The Add of the key's bias, when only a split into heads lies between it and the scores."""
    add = attention.key.hidden.producer() if attention.key is not None else None
    return add if add is not None and biased(add) and only_reader(add.outputs[0]) is not None else None


def _value_bias(attention: Attention) -> tuple[ir.Node, ir.Node, ir.Node] | None:
    """The Add of the value's bias, that of the output projection's, and the projection."""
    add = attention.value.hidden.producer() if attention.value is not None else None
    bias = biased(add)
    projection = only_reader(attention.merge.hidden) if attention.merge is not None else None
    matrix = matrix_of(projection) if projection is not None else None
    if add is None or bias is None or projection is None or matrix is None or projection.op_type != "MatMul":
        return None
    output, vector = only_reader(projection.outputs[0]), vector_of(bias[0])
    # grouped heads would be repeated on their way: the widths tell
    fits = vector is not None and matrix.shape[0] == vector.shape[0] and only_reader(add.outputs[0]) is not None
    return (add, output, projection) if fits and output is not None and biased(output) else None


def _residuals(graph: Graph) -> list[tuple[ir.Node, ir.Node, ir.Node, ir.Node]]:
    """(normalisation, the product that reads it, what adds that one's bias, the Add in front of the residual sum) of each feed-forward."""
    found = []
    for norm in graph.ir:
        if norm.op_type != "LayerNormalization" or len(norm.inputs) < 3 or vector_of(norm.inputs[2]) is None:
            continue
        readers = [node for node, _ in norm.outputs[0].uses()]
        products = [n for n in readers if n.op_type == "MatMul" and matrix_of(n) is not None]
        sums = [n for n in readers if n.op_type == "Add"]
        if len(readers) != 2 or len(products) != 1 or len(sums) != 1 or norm.outputs[0].is_graph_output():
            continue
        activation = only_reader(products[0].outputs[0])
        other = next((v.producer() for v in sums[0].inputs if v is not None and v is not norm.outputs[0]), None)
        if activation is None or _vector_input(activation) is None or other is None or not biased(other):
            continue
        if only_reader(other.outputs[0]) is not None:
            found.append((norm, products[0], activation, other))
    return found


def _vector_input(node: ir.Node) -> ir.Value | None:
    """The bias of an Add or BiasGelu."""
    return next((v for v in node.inputs if vector_of(v) is not None), None) if node.op_type in ("Add", "BiasGelu") else None


def check(graph: Graph, before: Counts, options: Options) -> str | None:
    """What could move must be gone, and nothing may be new."""
    left, after = _movable(graph, options), graph.op_counts()
    grown = {op: n for op, n in after.items() if n > before.get(op, 0)}
    return f"{left} biases are left, and there is more of {grown}" if left or grown else None


PASS = Pass(
    name="fold",
    summary="biases into the normalisations and projections beside them",
    options=lambda _context: Options(),
    applies=applies,
    run=run,
    check=check,
)

"""Smoothing: channels of an activation that are far larger than the others are made smaller, and the weights that read them larger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from hotfoot_build import running
from hotfoot_build.graph import Graph, constant, weight_of
from hotfoot_build.passes._products import product_of

NORMS = ("LayerNormalization", "SimplifiedLayerNormalization")
STEPS = 4  # factors are powers of 2^(1/4): coarser than what another CPU's order of sums could change, so the bytes stay the same
Channels = NDArray[np.float32]


def fit(graph: Graph, products: Sequence[ir.Node], calibration: Sequence[NDArray[np.int64]], share: float) -> dict[ir.Value, Channels]:
    """A factor a channel, float32 of shape (channels,), for what leaves a normalisation and only `products` read as a matrix's rows.

    calibration: ids of shape (tokens,) each, run one by one. share: of a channel's size that goes into the weights.
    """
    readers: dict[ir.Value, list[ir.Node]] = {}
    for node in products:
        if node.inputs[0] is not None and _is_normed(node.inputs[0]):
            readers.setdefault(node.inputs[0], []).append(node)
    if not readers:
        return {}
    sizes = _sizes(graph, list(readers), calibration)
    factors = {}
    for group in _sharing(readers):  # layers that share weights must share the factors, or each would keep weights of its own
        size = np.sqrt(np.mean([sizes[value] ** 2 for value in group], axis=0))
        factors.update(dict.fromkeys(group, _factors(size, [node for value in group for node in readers[value]], share)))
    return factors


def _is_normed(value: ir.Value) -> bool:
    producer = value.producer()
    return producer is not None and producer.op_type in NORMS


def _sharing(readers: Mapping[ir.Value, Sequence[ir.Node]]) -> list[list[ir.Value]]:
    """The values in groups: those that one weight reads, directly or by way of others, are together."""
    groups: list[tuple[list[ir.Value], set[ir.Value | None]]] = []
    for value, nodes in readers.items():
        values, weights = [value], {node.inputs[1] for node in nodes}
        for group in [g for g in groups if g[1] & weights]:
            groups.remove(group)
            values, weights = [*group[0], *values], group[1] | weights
        groups.append((values, weights))
    return [values for values, _ in groups]


def _sizes(graph: Graph, values: Sequence[ir.Value], calibration: Sequence[NDArray[np.int64]]) -> dict[ir.Value, NDArray[np.float64]]:
    """The root mean square of each channel over all tokens."""
    squares: dict[ir.Value, NDArray[np.float64]] = {}
    tokens = 0
    with running.opened(graph, values) as run:
        for ids in calibration:
            for value, array in zip(values, run(running.feed(graph, ids[None])), strict=True):
                rows = array.reshape(-1, array.shape[-1]).astype(np.float64)
                squares[value] = squares.get(value, np.zeros(1)) + (rows**2).sum(axis=0)
            tokens += len(ids)
    return {value: np.sqrt(total / tokens) for value, total in squares.items()}


def _factors(size: NDArray[np.float64], readers: Sequence[ir.Node], share: float) -> Channels:
    matrices = [product.matrix for product in map(product_of, readers) if product is not None]
    weights = np.max([np.abs(matrix).max(axis=1) for matrix in matrices], axis=0).astype(np.float64)
    exponents = (1 - share) * np.log2(np.maximum(weights, 1e-12)) - share * np.log2(np.maximum(size, 1e-12))
    factors: Channels = np.exp2(np.rint((exponents - np.median(exponents)) * STEPS) / STEPS).astype(np.float32)
    return factors


def apply(graph: Graph, value: ir.Value, factors: Channels | None, products: Sequence[ir.Node]) -> ir.Value:
    """The value times its factors: in the normalisation's own scale and shift where only `products` read it, else beside it."""
    producer = value.producer()
    if factors is None or producer is None:
        return value
    if not value.is_graph_output() and all(node in products for node, _ in value.uses()):
        for index in range(1, len(producer.inputs)):
            old = producer.inputs[index]
            if (vector := weight_of(old)) is not None and old is not None:
                producer.replace_input_with(index, constant(graph, f"{old.name}.smooth", vector * factors))
        return value
    node = ir.node("Mul", [value, constant(graph, f"{value.name}.smooth", factors)])
    graph.ir.insert_after(producer, node)
    return node.outputs[0]

"""What the fp32 graph computes on the texts of a build, one text at a time so that no padding enters, and never all of it at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from hotfoot.contract.errors import PassError
from hotfoot_build import running
from hotfoot_build.graph import Graph, insert
from hotfoot_build.passes._products import Product

Ids = NDArray[np.int64]
MEMORY = 1 << 30  # bytes of second moments at a time
ROWS = 1024  # rows that are multiplied at once: products of few rows would spend their time on reading the sums
AT_ONCE = 64  # activations that leave a run together


def spread(calibration: Sequence[Ids], count: int) -> tuple[Ids, ...]:
    """`count` of the texts, from the shortest to the longest in even steps; all of them where there are no more."""
    order = sorted(range(len(calibration)), key=lambda i: (len(calibration[i]), i))
    kept = np.linspace(0, len(order) - 1, min(count, len(order))).round().astype(int)
    return tuple(calibration[order[i]] for i in kept)


def feed(graph: Graph, ids: Ids) -> dict[str, NDArray[np.generic]]:
    """The graph's inputs for one text: an encoder's, or a decoder's whose cache is empty.

    Raises PassError for a graph that wants more, as a decoder behind an encoder does.
    """
    row = ids[None]
    known = {"input_ids": row, "attention_mask": np.ones_like(row), "token_type_ids": np.zeros_like(row)}
    known["position_ids"] = np.arange(len(ids))[None]
    found: dict[str, NDArray[np.generic]] = {}
    for value in graph.ir.inputs:
        name, dtype = str(value.name), np.dtype(np.int64) if value.dtype is None else value.dtype.numpy()
        if name in known:
            found[name] = known[name].astype(dtype)
        elif name.startswith("past.") and value.shape is not None:
            sizes = [size if isinstance(size, int) else 0 for size in value.shape]  # (batch, heads, tokens, head size)
            found[name] = np.zeros([1, *sizes[1:]], dtype)
        else:
            raise PassError(
                f"the graph reads {name}, which no text gives: its activations cannot be looked at.",
                hint="Choose settings that need no calibration (for int4_weights: rounding = nearest).",
            )
    return found


def moments_of(graph: Graph, products: Sequence[Product], texts: Sequence[Ids]) -> Iterator[tuple[ir.Value, NDArray[np.float32]]]:
    """For the matrix of each product: the mean of x·xᵀ over the rows x that it is multiplied with, float32 of shape (depth, depth).

    Rows of all products of one matrix count. The graph must not change before the last one is given.
    """
    groups = {p.stored: tuple(dict.fromkeys(q.rows for q in products if q.stored is p.stored)) for p in products}
    depths = {groups[p.stored]: p.depth for p in products}
    for batch in _batches(depths):
        for group, moments in _moments(graph, batch, texts).items():
            yield from ((stored, moments) for stored, own in groups.items() if own == group)


def _batches(wanted: Mapping[tuple[ir.Value, ...], int]) -> Iterator[dict[tuple[ir.Value, ...], int]]:
    batch: dict[tuple[ir.Value, ...], int] = {}
    for group, depth in wanted.items():
        if batch and 4 * sum(d * d for d in (*batch.values(), depth)) > MEMORY:
            yield batch
            batch = {}
        batch[group] = depth
    if batch:
        yield batch


def _moments(
    graph: Graph, wanted: Mapping[tuple[ir.Value, ...], int], texts: Sequence[Ids]
) -> dict[tuple[ir.Value, ...], NDArray[np.float32]]:
    sums = {group: np.zeros((depth, depth), np.float32) for group, depth in wanted.items()}
    waiting: dict[tuple[ir.Value, ...], list[NDArray[np.float32]]] = {group: [] for group in wanted}
    counts = dict.fromkeys(wanted, 0)
    values = list(dict.fromkeys(value for group in wanted for value in group))

    def add(group: tuple[ir.Value, ...]) -> None:
        if waiting[group]:
            rows = np.concatenate(waiting[group])
            sums[group] += rows.T @ rows
            counts[group] += len(rows)
            waiting[group].clear()

    with running.opened(graph, values) as run:
        for ids in texts:
            found = dict(zip(values, run(feed(graph, ids)), strict=True))
            for group, depth in wanted.items():
                waiting[group] += [found[value].reshape(-1, depth) for value in group]
                if sum(map(len, waiting[group])) >= ROWS:
                    add(group)
        for group in wanted:
            add(group)
    return {group: total / np.float32(max(1, counts[group])) for group, total in sums.items()}


@dataclass(frozen=True)
class Span:
    """The least and the largest number of a value, and the mean of their squares."""

    low: float
    high: float
    power: float


def spans(graph: Graph, values: Sequence[ir.Value], texts: Sequence[Ids]) -> dict[ir.Value, Span]:
    """Of each float value over the texts. Only four numbers a value leave the graph."""
    reduced = ("ReduceMin", "ReduceMax", "ReduceSumSquare")
    asked = [insert(graph, None, op, [value], {"keepdims": 0}) for op in reduced for value in values]
    asked += [insert(graph, None, "Size", [value]) for value in values]
    found = np.zeros((4, len(values)))
    found[:2] = [[np.inf], [-np.inf]]
    try:
        with running.opened(graph, asked) as run:
            for ids in texts:
                low, high, squares, sizes = np.array(run(feed(graph, ids)), np.float64).reshape(4, -1)
                found = np.array([np.fmin(found[0], low), np.fmax(found[1], high), found[2] + squares, found[3] + sizes])
    finally:
        graph.ir.remove([node for value in asked if (node := value.producer()) is not None], safe=True)
    powers = found[2] / np.maximum(found[3], 1)
    return {value: Span(*map(float, numbers)) for value, *numbers in zip(values, found[0], found[1], powers, strict=True)}


def activations(graph: Graph, values: Sequence[ir.Value], texts: Sequence[Ids]) -> Iterator[tuple[ir.Value, NDArray[np.float32]]]:
    """Every value of every text, a few values at a time. The graph must not change before the last is given."""
    for start in range(0, len(values), AT_ONCE):
        some = values[start : start + AT_ONCE]
        with running.opened(graph, some) as run:
            for ids in texts:
                yield from zip(some, run(feed(graph, ids)), strict=True)

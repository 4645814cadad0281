"""What each product costs: how far the graph's output moves when that product alone is quantized, and how far with the worst left out.

    1 - cosine of the output with the fp32 graph's, all numbers of a text's output as one vector

Measured on a few texts from the shortest to the longest, so that it takes minutes and says which layers to name for the mixed pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hotfoot.task import Array
from hotfoot.tasks._vectors import cosine
from hotfoot_build import passes, running
from hotfoot_build.graph import Graph
from hotfoot_build.passes import Context
from hotfoot_build.passes import _calibration as calibration
from hotfoot_build.passes._products import keep, product_of, products

TEXTS = 32
Say = Callable[[str], None]
Outputs = list[Array]


@dataclass(frozen=True)
class Damage:
    """1 - cosine when only `product` (a node's name) is quantized: the mean over the texts, and the worst of them."""

    product: str
    mean: float
    worst: float


@dataclass(frozen=True)
class Point:
    """1 - cosine when all are quantized but the `kept` whose damage is the largest."""

    kept: int
    mean: float
    worst: float


@dataclass(frozen=True)
class Report:
    """One scheme (a pass by its name): its products, the worst first, and what leaving the worst of them in fp32 brings."""

    scheme: str
    texts: int
    products: tuple[Damage, ...]
    curve: tuple[Point, ...]

    def worst(self, count: int) -> tuple[str, ...]:
        """Names for the mixed pass: the `count` products with the largest damage."""
        return tuple(d.product for d in self.products[:count])


def damage(graph: Graph, context: Context, schemes: Sequence[str], *, texts: int = TEXTS, say: Say | None = None) -> tuple[Report, ...]:
    """Measure each scheme on an fp32 graph, which stays as it is.

    texts: how many of the calibration's are run, and calibrated on. say: hears how far it is. A product that a scheme leaves alone (a
    head of few labels, one that was marked to be kept) is in no report.
    """
    chosen = calibration.spread(context.calibration, texts)
    narrowed = replace(context, calibration=chosen)
    before = _outputs(graph, chosen)
    return tuple(_report(graph, narrowed, scheme, before, say or (lambda _words: None)) for scheme in schemes)


def _report(graph: Graph, context: Context, scheme: str, before: Outputs, say: Say) -> Report:
    names = _quantized(graph, context, scheme)
    found = []
    for number, name in enumerate(names, 1):
        say(f"{scheme}: {number} of {len(names)} products")
        found.append(Damage(name, *_error(graph, context, scheme, set(names) - {name}, before)))
    found.sort(key=lambda d: (-d.mean, d.product))
    curve = []
    for kept in _counts(len(found)):
        say(f"{scheme}: the worst {kept} in fp32")
        curve.append(Point(kept, *_error(graph, context, scheme, {d.product for d in found[:kept]}, before)))
    return Report(scheme, len(before), tuple(found), tuple(curve))


def _counts(products_: int) -> list[int]:
    """0, 1, 2, 4 ... and no more than half."""
    doubled = [1 << n for n in range(products_.bit_length()) if (1 << n) <= products_ / 2]
    return [0, *doubled]


def _quantized(graph: Graph, context: Context, scheme: str) -> list[str]:
    """Names of the products that the scheme changes."""
    copy = _apply(graph, context, scheme, set())
    left = {str(node.name) for node in copy.ir if product_of(node) is not None}
    return [name for p in products(graph, min_columns=1) if (name := str(p.node.name)) not in left]


def _apply(graph: Graph, context: Context, scheme: str, kept: set[str]) -> Graph:
    """A copy with the scheme applied to all products but `kept`."""
    copy = Graph(graph.role, graph.model.clone())
    for node in copy.ir:
        if node.name in kept:
            keep(node)
    own = {name: options for name, options in context.overrides.items() if name == scheme}
    passes.apply(copy, (scheme,), replace(context, overrides=own))
    return copy


def _error(graph: Graph, context: Context, scheme: str, kept: set[str], before: Outputs) -> tuple[float, float]:
    after = _outputs(_apply(graph, context, scheme, kept), context.calibration)
    errors = [1 - cosine(a, b) for a, b in zip(after, before, strict=True)]
    return float(np.mean(errors)), float(np.max(errors))


def _outputs(graph: Graph, texts: Sequence[calibration.Ids]) -> Outputs:
    """The first output of each text."""
    opened: AbstractContextManager[Any] = running.opened(graph, graph.ir.outputs[:1])
    with opened as run:
        return [run(calibration.feed(graph, ids))[0] for ids in texts]

"""Static int8: one scale a tensor, found once on the texts of the build, and one a weight column.

No scale is computed at run time, and a text's answer depends on no other. The price is accuracy, as one scale has to serve every token.
Four things make up for it: what leaves a normalisation is smoothed (see _smooth), so that its channels are of like size; the range of
each tensor is that of texts without padding, below zero as far as they go and no further; the weights are rounded with feedback (see
_feedback), which counts where they have few integers; and a tensor whose largest numbers leave the others too few steps (on MiniLM what
leaves the first four Gelus) is left to the pass after this one, with a scale a token. MiniLM's mean cosine at ±127 and ±64:

    minmax                                   0.9925   0.9912
    ... smoothed                             0.9959   0.9947
    ... and weights rounded with feedback    0.9962   0.9957
    ... and noisy tensors left out           0.9988   0.9980    (int8_rowwise alone: 0.9991   0.9981)

at 0.81 to 0.91 of int8_rowwise's time. Of the other methods percentile gives as much at 99.999, but 0.85 at 99.9 without smoothing;
entropy 0.92 without and 0.98 with it: both cut off large values that MiniLM lives by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from hotfoot.contract.errors import InputError
from hotfoot_build.graph import Graph, constant, insert
from hotfoot_build.passes import Context, Counts, Pass, unrecorded
from hotfoot_build.passes import _calibration as calibration
from hotfoot_build.passes import _feedback as feedback
from hotfoot_build.passes import _integers as integers
from hotfoot_build.passes import _smooth as smooth
from hotfoot_build.passes._calibration import Span
from hotfoot_build.passes._integers import Columns, Quantized
from hotfoot_build.passes._products import MIN_COLUMNS, Product, products, replace_matrix
from hotfoot_build.passes._ranges import METHODS, Method, find
from hotfoot_build.passes.int4_weights import ROUNDINGS, Rounding
from hotfoot_build.passes.int8_rowwise import quantize_columns

TEXTS = 256
NOISE = 2e-3  # on MiniLM what lies above it does nine tenths of the damage
NOISY = "hotfoot.noisy"  # a node's metadata, as that of kept products
SMOOTH = 0.7  # 0.5 to 0.8 gave the same on MiniLM
PERCENTILE = 99.999
STEPS = 255


@dataclass(frozen=True)
class Options:
    """weight_range: the largest |weight| as an integer, by the target's instruction set.

    method: how a range is found on `texts` of the calibration's texts: all values (minmax), all but the outermost (percentile: how many
    of 100 it keeps), or those whose distribution in 8 bits is nearest to the original (entropy). smooth: how much of a channel's size
    goes from the activations into the weights, from 0 to 1. rounding: of the weights, as in int4_weights. noise: the most that rounding
    may add to a tensor, as a share of its own power; what would get more is left alone (1 leaves nothing).
    """

    weight_range: int
    method: Method = "minmax"
    percentile: float = PERCENTILE
    smooth: float = SMOOTH
    rounding: Rounding = "feedback"
    noise: float = NOISE
    texts: int = TEXTS
    min_columns: int = MIN_COLUMNS
    calibration: tuple[NDArray[np.int64], ...] = unrecorded(())


def options(context: Context) -> Options:
    """By the target's instruction set."""
    return Options(context.target.int8_range, calibration=context.calibration)


def applies(graph: Graph, options: Options) -> str | None:
    """Only where there is a product to quantize. Raises InputError for options that there are not, or without texts."""
    for name, value, known in (("method", options.method, METHODS), ("rounding", options.rounding, ROUNDINGS)):
        if value not in known:
            raise InputError(f"int8_static.{name} is {value!r}; it must be one of {', '.join(known)}.", where="options")
    if not 50 < options.percentile <= 100:
        raise InputError(f"int8_static.percentile is {options.percentile}; it must be above 50 and at most 100.", where="options")
    if not options.calibration:
        raise InputError("int8_static finds its scales on texts, and there are none to calibrate on.")
    found = products(graph, options.min_columns)
    return None if found else f"no product with a constant matrix of {options.min_columns} columns or more"


def run(graph: Graph, options: Options) -> None:
    """Replace every product in place; those that read one tensor share its integers."""
    texts = calibration.spread(options.calibration, options.texts)
    if options.smooth:
        _smooth(graph, products(graph, options.min_columns), texts, options.smooth)
    found = products(graph, options.min_columns)
    values = list(dict.fromkeys(p.rows for p in found))
    spans = find(graph, values, texts, options.method, options.percentile)
    noisy = {value for value in values if _noise(spans[value]) > options.noise}
    for product in [p for p in found if p.rows in noisy]:
        product.node.metadata_props[NOISY] = "static"
    found = [p for p in found if p.rows not in noisy]
    columns = _columns(graph, found, texts, options)

    scales = {p.node: scale_of(spans[p.rows]) for p in found}  # by the node: what it reads is another value once the product before is gone

    def quantize(product: Product) -> Quantized:
        scale, zero = scales[product.node]
        name = f"static.{product.rows.name}"
        step, middle = constant(graph, f"{name}.scale", scale), constant(graph, f"{name}.zero", zero)
        return insert(graph, product.node, "QuantizeLinear", [product.rows, step, middle]), step, middle

    integers.replace(graph, found, quantize, lambda product: columns[product.stored])


def _noise(span: Span) -> float:
    """What rounding to whole steps adds, as a share of the power: an error is anywhere in a step, its square a twelfth on average."""
    return float(scale_of(span)[0]) ** 2 / 12 / max(span.power, float(np.finfo(np.float32).tiny))


def scale_of(span: Span) -> tuple[np.float32, np.uint8]:
    """Scale and zero point that put the span, and 0 with it, on the integers from 0 to 255."""
    low, high = min(span.low, 0.0), max(span.high, 0.0)
    scale = max((high - low) / STEPS, float(np.finfo(np.float32).tiny))
    return np.float32(scale), np.uint8(np.clip(np.rint(-low / scale), 0, STEPS))


def _columns(graph: Graph, found: list[Product], texts: Sequence[calibration.Ids], options: Options) -> Mapping[ir.Value, Columns]:
    """The integers of each matrix."""
    matrices = {p.stored: p for p in found}
    if options.rounding == "nearest":
        return {stored: quantize_columns(p.matrix, options.weight_range) for stored, p in matrices.items()}
    return {
        stored: feedback.in_columns(matrices[stored].matrix, moments, options.weight_range)
        for stored, moments in calibration.moments_of(graph, found, texts)
    }


def _smooth(graph: Graph, found: list[Product], texts: Sequence[calibration.Ids], share: float) -> None:
    """Make the channels of what leaves a normalisation more alike, in place; the graph computes the same."""
    nodes = [p.node for p in found if p.node.op_type != "FusedMatMul" and p.node.inputs[1] is p.stored]  # a table stays as look-ups read it
    for value, factors in smooth.fit(graph, nodes, texts, share).items():
        readers, scaled = [p for p in found if p.rows is value and p.node in nodes], smooth.apply(graph, value, factors, nodes)
        for product in readers:
            product.node.replace_input_with(0, scaled)
            replace_matrix(graph, product, f"{product.stored.name}.smooth", product.matrix / factors[:, None])


def check(graph: Graph, before: Counts, options: Options) -> str | None:
    """One integer product for each float one, and none left but those that would be noisy."""
    left = [p.node for p in products(graph, options.min_columns) if NOISY not in p.node.metadata_props]
    return integers.check(graph, before, len(left), "QuantizeLinear")


PASS = Pass(
    name="int8_static",
    summary="int8 products with one scale a tensor, found on texts",
    options=options,
    applies=applies,
    run=run,
    check=check,
)

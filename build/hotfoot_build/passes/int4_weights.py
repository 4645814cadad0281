"""Weights of 4 bits in blocks of a column; activations stay floats between the products (MatMulNBits). Half of int8's bytes.

Four bits are few: rounding each weight by itself, with the largest one's scale, leaves MiniLM a mean cosine of 0.955. A scale and zero
point that fit the block best bring it to 0.975; errors weighed by the activations that they meet on the build's texts, and made up for
by the weights not yet rounded (see _feedback), to 0.991. Without texts to calibrate on the first remains. It takes the time of fp32 on
long texts: what it saves is bytes.

Blocks of 32 are what keeps a text's answer the same in every batch; those of 128 would save a twentieth of MiniLM's file and leave 0.985.
Zero points cost no time. At accuracy level 1 the mean cosine is 0.0002 higher, short texts take 1.7 times as long, and a single row of a
decoder four times.

Some products take 8 bits: of one row a text, as sums in 4 bits differ there between one row and several; of a depth that blocks do
not divide, for the same reason on arm64; and of a tied table, which look-ups share then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from hotfoot.contract.errors import InputError
from hotfoot_build import shapes
from hotfoot_build.graph import Graph
from hotfoot_build.passes import Context, Counts, Pass, int8_weights, unrecorded
from hotfoot_build.passes import _blocks as blocks
from hotfoot_build.passes import _calibration as calibration
from hotfoot_build.passes import _feedback as feedback
from hotfoot_build.passes._blocks import Blocks, Layout
from hotfoot_build.passes._products import MIN_COLUMNS, Product
from hotfoot_build.passes._tied import is_tied

BLOCK, LEVEL, TEXTS = 32, 4, 256
Rounding = Literal["feedback", "nearest"]
ROUNDINGS: tuple[Rounding, ...] = ("feedback", "nearest")


@dataclass(frozen=True)
class Options:
    """block_size, symmetric, accuracy_level: as in int8_weights. rounding: `feedback` looks at `texts` of the calibration's texts."""

    block_size: int = BLOCK
    symmetric: bool = False
    accuracy_level: int = LEVEL
    min_columns: int = MIN_COLUMNS
    rounding: Rounding = "nearest"
    texts: int = TEXTS
    calibration: tuple[NDArray[np.int64], ...] = unrecorded(())


def options(context: Context) -> Options:
    """With feedback where there are texts."""
    return Options(rounding="feedback" if context.calibration else "nearest", calibration=context.calibration)


def applies(graph: Graph, options: Options) -> str | None:
    """Only where there is a product to quantize. Raises InputError for options that there are not, or that need texts."""
    blocks.check_layout("int4_weights", options.block_size, options.accuracy_level)
    if options.rounding not in ROUNDINGS:
        raise InputError(f"int4_weights.rounding is {options.rounding!r}; it must be one of {', '.join(ROUNDINGS)}.", where="options")
    if options.rounding == "feedback" and not options.calibration:
        raise InputError("int4_weights.rounding is feedback, and there are no texts to calibrate on.", where="options")
    return None if eligible(graph, options) else f"no product with a constant matrix of {options.min_columns} columns or more"


def eligible(graph: Graph, options: Options) -> list[Product]:
    """Products that can be computed in blocks."""
    return int8_weights.eligible(graph, int8_weights.Options(accuracy_level=options.accuracy_level, min_columns=options.min_columns))


def layouts(graph: Graph, options: Options) -> dict[ir.Value, Layout]:
    """How each matrix is stored: in 4 bits where all its products can be."""
    four = Layout(4, options.block_size, options.symmetric, options.accuracy_level)
    eight = Layout(8, int8_weights.BLOCK, symmetric=True, level=options.accuracy_level)
    known, found = shapes.infer(graph.ir), dict[ir.Value, Layout]()
    for product in eligible(graph, options):
        wide = (
            int8_weights.once_a_text(product, known)
            or product.depth % options.block_size
            or is_tied(product)
            or found.get(product.stored, four) is eight
        )
        found[product.stored] = eight if wide else four
    return found


def run(graph: Graph, options: Options) -> None:
    """Replace every product in place."""
    chosen, found = layouts(graph, options), eligible(graph, options)
    made = {v: blocks.nearest(_matrix(found, v), layout) for v, layout in chosen.items() if layout.bits == 8}
    made |= _four_bits(graph, {v: layout for v, layout in chosen.items() if layout.bits == 4}, found, options)
    for product in found:
        int8_weights.replace(graph, product, made[product.stored])


def _matrix(found: list[Product], stored: ir.Value) -> blocks.Floats:
    return next(p.matrix for p in found if p.stored is stored)


def _four_bits(graph: Graph, chosen: dict[ir.Value, Layout], found: list[Product], options: Options) -> dict[ir.Value, Blocks]:
    if options.rounding == "nearest":
        return {v: blocks.nearest(_matrix(found, v), layout) for v, layout in chosen.items()}
    texts, some = calibration.spread(options.calibration, options.texts), [p for p in found if p.stored in chosen]
    return {
        stored: feedback.in_blocks(_matrix(found, stored), moments, chosen[stored])
        for stored, moments in calibration.moments_of(graph, some, texts)
    }


def check(graph: Graph, before: Counts, options: Options) -> str | None:
    """One MatMulNBits a product, and none left."""
    return int8_weights.check(graph, before, int8_weights.Options(accuracy_level=options.accuracy_level, min_columns=options.min_columns))


PASS = Pass(
    name="int4_weights",
    summary="weights of 4 bits in blocks, float activations",
    options=options,
    applies=applies,
    run=run,
    check=check,
)

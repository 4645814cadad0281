"""Weights of 8 bits in blocks of a column; activations stay floats between the products (MatMulNBits).

Nearer to the original than int8_rowwise, and slower but for single rows: MiniLM's mean cosine is 0.9994 at 1.2 to 1.7 times its time.

The defaults are measured (one thread, AVX-512 with VNNI). Accuracy level 4 rounds activations to 8 bits a block inside the product.
Level 1 gives 0.9998 and unpacks the weights at every call: five times as long on short texts, and for a decoder's one row (2048 x 8192)
75 ms instead of 0.3. Blocks of 64: those of 32 give 0.9996 and take a tenth longer, those of 128 give 0.9989 and are no faster. And at
level 4, in blocks of up to 64, a row's sums do not depend on the number of rows: a text's answer is the same in every batch, on x86
with and without VNNI, and on arm64.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from hotfoot_build import shapes
from hotfoot_build.graph import Graph
from hotfoot_build.passes import Context, Counts, Pass
from hotfoot_build.passes import _blocks as blocks
from hotfoot_build.passes._blocks import Blocks, Layout
from hotfoot_build.passes._products import MIN_COLUMNS, Product, bias_of, products, put
from hotfoot_build.passes._tied import look_up
from hotfoot_build.shapes import Known

BLOCK, LEVEL = 64, 4


@dataclass(frozen=True)
class Options:
    """block_size: weights that share a scale. symmetric: no zero points. accuracy_level: as ONNX Runtime has it."""

    block_size: int = BLOCK
    symmetric: bool = True
    accuracy_level: int = LEVEL
    min_columns: int = MIN_COLUMNS


def options(_context: Context) -> Options:
    """The same for every target: no sum saturates."""
    return Options()


def layout(options: Options) -> Layout:
    """Of every product."""
    return Layout(8, options.block_size, options.symmetric, options.accuracy_level)


def eligible(graph: Graph, options: Options) -> list[Product]:
    """Products that can be computed in blocks; below level 4 not those of one row a text, where one row sums in another order."""
    found = products(graph, options.min_columns)
    if options.accuracy_level == LEVEL:
        return found
    known = shapes.infer(graph.ir)
    return [p for p in found if not once_a_text(p, known)]


def once_a_text(product: Product, known: Known) -> bool:
    """Whether the product has one row a text, as a head has that reads the first token."""
    return len(known.axes_of(product.rows) or (0, 0, 0)) < 3  # what is not known is taken for tokens


def applies(graph: Graph, options: Options) -> str | None:
    """Only where there is a product to quantize. Raises InputError for a block or level that there is not."""
    blocks.check_layout("int8_weights", options.block_size, options.accuracy_level)
    return None if eligible(graph, options) else f"no product with a constant matrix of {options.min_columns} columns or more"


def run(graph: Graph, options: Options) -> None:
    """Replace every product in place."""
    made: dict[ir.Value, Blocks] = {}
    for product in eligible(graph, options):
        if product.stored not in made:
            made[product.stored] = blocks.nearest(product.matrix, layout(options))
        replace(graph, product, made[product.stored])


def replace(graph: Graph, product: Product, quantized: Blocks) -> None:
    """Put a MatMulNBits in the product's place, with its bias; look-ups in the same table then read the integers too."""
    bias = bias_of(product)
    put(graph, product, bias, blocks.emit(graph, product, quantized, bias))
    look_up(graph, product, quantized)


def check(graph: Graph, before: Counts, options: Options) -> str | None:
    """One MatMulNBits a product, and none left."""
    after, left = graph.op_counts(), len(eligible(graph, options))
    made = after.get("MatMulNBits", 0) - before.get("MatMulNBits", 0)
    gone = sum(before.get(op, 0) - after.get(op, 0) for op in ("MatMul", "Gemm", "FusedMatMul"))
    return f"{made} products in blocks were made of {gone} float ones, and {left} are left" if left or made != gone else None


PASS = Pass(
    name="int8_weights",
    summary="weights of 8 bits in blocks, float activations",
    options=options,
    applies=applies,
    run=run,
    check=check,
)

"""ONNX Runtime's own dynamic scheme: one scale a tensor, taken from the values of each call, and one a weight column.

The scale spans all texts of a call, and their padding, so that a text's answer would depend on its neighbours: such an artifact runs
them one by one (graph.mixes_rows sees it). It is here to be compared with. On MiniLM: a mean cosine of 0.9931 in 0.8 to 0.9 of
int8_rowwise's time.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from hotfoot_build.graph import Graph
from hotfoot_build.passes import Context, Counts, Pass
from hotfoot_build.passes import _integers as integers
from hotfoot_build.passes._integers import Columns, Quantized
from hotfoot_build.passes._products import MIN_COLUMNS, Product, products
from hotfoot_build.passes.int8_rowwise import quantize_columns


@dataclass(frozen=True)
class Options:
    """weight_range: the largest |weight| as an integer, by the target's instruction set."""

    weight_range: int
    min_columns: int = MIN_COLUMNS


def options(context: Context) -> Options:
    """By the target's instruction set."""
    return Options(context.target.int8_range)


def applies(graph: Graph, options: Options) -> str | None:
    """Only where there is a product to quantize."""
    found = products(graph, options.min_columns)
    return None if found else f"no product with a constant matrix of {options.min_columns} columns or more"


def run(graph: Graph, options: Options) -> None:
    """Replace every product in place; those that read one tensor share its integers."""

    def quantize(product: Product) -> Quantized:
        node = ir.node("DynamicQuantizeLinear", [product.rows], num_outputs=3)
        graph.ir.insert_before(product.node, node)
        rows, scale, zero = node.outputs
        return rows, scale, zero

    def weights(product: Product) -> Columns:
        return quantize_columns(product.matrix, options.weight_range)

    integers.replace(graph, products(graph, options.min_columns), quantize, weights)


def check(graph: Graph, before: Counts, options: Options) -> str | None:
    """One integer product for each float one."""
    return integers.check(graph, before, len(products(graph, options.min_columns)), "DynamicQuantizeLinear")


PASS = Pass(
    name="int8_dynamic",
    summary="int8 products with one scale a tensor, taken at each call",
    options=options,
    applies=applies,
    run=run,
    check=check,
)

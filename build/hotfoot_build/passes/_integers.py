"""int8 products with one scale for a whole tensor of activations: MatMulIntegerToFloat over shared integers, the bias added inside."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from hotfoot_build.graph import MICROSOFT, Graph, constant, insert
from hotfoot_build.passes import Counts
from hotfoot_build.passes._products import Product, bias_of, put

Quantized = tuple[ir.Value, ir.Value, ir.Value]  # uint8 rows, float scale, uint8 zero point
Columns = tuple[NDArray[np.int8], NDArray[np.float32]]  # a matrix as integers, and the scale of each column


def replace(graph: Graph, found: list[Product], quantize: Callable[[Product], Quantized], weights: Callable[[Product], Columns]) -> None:
    """Put integer products in the place of float ones.

    quantize: gives an activation as integers, in front of its first product. weights: gives the matrix of each.
    """
    made: dict[ir.Value, Quantized] = {}
    for product in found:
        if product.rows not in made:
            made[product.rows] = quantize(product)
        integers, scale, zero = made[product.rows]
        columns, scales = weights(product)
        name, bias = product.stored.name, bias_of(product)
        inputs = [
            integers,
            constant(graph, f"{name}.int8", columns),  # by the weight's name: layers that share one keep sharing it
            scale,
            constant(graph, f"{name}.scale", scales),
            zero,
            constant(graph, "int8.weight_zero_point", np.int8(0)),
            *([bias.vector] if bias is not None else []),
        ]
        put(graph, product, bias, insert(graph, product.node, "MatMulIntegerToFloat", inputs, domain=MICROSOFT))


def check(graph: Graph, before: Counts, left: int, quantizer: str) -> str | None:
    """One integer product for each float one, none left, and no more quantized tensors than products."""
    after = graph.op_counts()
    made, rows = (after.get(op, 0) - before.get(op, 0) for op in ("MatMulIntegerToFloat", quantizer))
    gone = sum(before.get(op, 0) - after.get(op, 0) for op in ("MatMul", "Gemm", "FusedMatMul"))
    if left or made != gone or not min(1, made) <= rows <= made:
        return f"{made} integer products of {rows} quantized tensors were made of {gone} float ones, and {left} are left"
    return None

"""Tied embeddings: a table that a product reads as its matrix and look-ups read row by row. Quantized once, for both."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from hotfoot_build import shapes
from hotfoot_build.graph import Graph, constant, insert, take_place
from hotfoot_build.passes._blocks import Blocks
from hotfoot_build.passes._products import Product


def is_tied(product: Product) -> bool:
    """Whether the rows of the product's matrix are looked up too."""
    return product.turned and any(_looks_up(node, index) for node, index in product.stored.uses())


def _looks_up(node: ir.Node, index: int) -> bool:
    axis = node.attributes["axis"].as_int() if "axis" in node.attributes else 0
    return node.op_type == "Gather" and index == 0 and axis == 0


def look_up(graph: Graph, product: Product, quantized: Blocks) -> None:
    """Let look-ups in the table of a product that is gone read its integers, in place: rows of them times the scale of each block.

    Only where nothing but look-ups by ids of shape (batch, tokens) is left to read the floats.
    """
    layout, uses = quantized.layout, list(product.stored.uses())
    if not uses or not product.turned or layout.bits != 8 or not layout.symmetric or product.depth % layout.block:
        return
    known = shapes.infer(graph.ir)
    if not all(_looks_up(node, index) and len(known.axes_of(node.inputs[1]) or ()) == 2 for node, index in uses):
        return
    for node, _ in uses:
        read_rows(graph, node, f"{product.stored.name}.8bits", quantized)


def read_rows(graph: Graph, node: ir.Node, name: str, quantized: Blocks) -> None:
    """Let a look-up by ids of shape (batch, tokens) read integers of 8 bits in whole, symmetric blocks, in place."""
    ids, middle, width = node.inputs[1], quantized.layout.middle, int(np.prod(quantized.integers.shape[1:]))
    last = constant(graph, "axis.-1", np.array([-1], np.int64))
    rows = insert(graph, node, "Gather", [constant(graph, name, quantized.integers), ids])
    scales = insert(graph, node, "Gather", [constant(graph, f"{name}.scale", quantized.scales), ids])
    floats = insert(graph, node, "Cast", [rows], {"to": int(ir.DataType.FLOAT)})
    steps = insert(graph, node, "Sub", [floats, constant(graph, f"middle.{middle}", np.float32(middle))])
    values = insert(graph, node, "Mul", [steps, insert(graph, node, "Unsqueeze", [scales, last])])
    flat = constant(graph, f"flat.{width}", np.array([0, 0, width], np.int64))
    take_place(graph, node, insert(graph, node, "Reshape", [values, flat]))

"""What the quantizing passes share: which products have a constant matrix, which of them are to stay as they are, and their bias."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from hotfoot_build.graph import MICROSOFT, Graph, constant, insert, take_place, weight_of

KEEP = "hotfoot.keep"  # a node's metadata while the passes run; the saved graph has none
MIN_COLUMNS = 64  # a narrow product (a head of a few labels) has nothing to gain and its scores to lose
PLAIN = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transBatchA": 0, "transBatchB": 0}


@dataclass(frozen=True, eq=False)
class Product:
    """Rows times a constant matrix: a MatMul, a FusedMatMul, or a Gemm.

    stored: the initializer that holds the matrix, as (columns, depth) where `turned`. depth: the length of a row that goes in,
    columns: of one that comes out.
    """

    node: ir.Node
    stored: ir.Value
    turned: bool
    depth: int
    columns: int

    @property
    def rows(self) -> ir.Value:
        """What it is multiplied with now: other than before, once the product in front has given way."""
        value = self.node.inputs[0]
        if value is None:
            raise AssertionError("a product has rows")
        return value

    @property
    def matrix(self) -> NDArray[np.float32]:
        """The matrix as float32 of shape (depth, columns)."""
        array = weight_of(self.stored)
        if array is None:
            raise AssertionError("a product is made of a constant matrix only")
        return array.T if self.turned else array


@dataclass(frozen=True, eq=False)
class Bias:
    """A vector of shape (columns,) that is added to a product, and the Add that does it; None where the Gemm itself does."""

    vector: ir.Value
    add: ir.Node | None


def products(graph: Graph, min_columns: int = MIN_COLUMNS) -> list[Product]:
    """Products with a constant float matrix of `min_columns` columns or more, in the graph's order, without those to be kept."""
    found = [p for node in graph.ir if not is_kept(node) and (p := product_of(node)) is not None]
    return [p for p in found if p.columns >= min_columns]


def keep(node: ir.Node) -> None:
    """Mark a node for the quantizing passes: it stays in fp32."""
    node.metadata_props[KEEP] = "fp32"


def is_kept(node: ir.Node) -> bool:
    """Whether the node was marked to stay in fp32: every pass that makes products less precise leaves it alone."""
    return KEEP in node.metadata_props


def product_of(node: ir.Node) -> Product | None:
    """The node as a product with a constant matrix, None where it is no such thing."""
    if (node.op_type, node.domain) not in (("MatMul", ""), ("Gemm", ""), ("FusedMatMul", MICROSOFT)):
        return None
    values: dict[str, Any] = {name: attribute.value for name, attribute in node.attributes.items()}
    if any(values.get(name, plain) != plain for name, plain in PLAIN.items()):
        return None
    stored, turned = node.inputs[1], bool(values.get("transB", 0))
    above = stored.producer() if stored is not None else None
    if above is not None and _turns(above):  # a table that a look-up reads too
        stored, turned = above.inputs[0], not turned
    matrix, rows = weight_of(stored), node.inputs[0]
    if stored is None or not stored.is_initializer() or rows is None or weight_of(rows) is not None:
        return None
    if matrix is None or matrix.ndim != 2 or matrix.dtype != np.float32:
        return None
    depth, columns = matrix.shape[::-1] if turned else matrix.shape
    return Product(node, stored, turned, depth, columns)


def _turns(node: ir.Node) -> bool:
    return node.op_type == "Transpose" and ("perm" not in node.attributes or tuple(node.attributes["perm"].as_ints()) == (1, 0))


def bias_of(product: Product) -> Bias | None:
    """The bias that the product's operator could add itself: the Gemm's own, or that of an Add which alone reads the product."""
    node = product.node
    own = node.inputs[2] if node.op_type == "Gemm" and len(node.inputs) > 2 else None
    if own is not None:
        return Bias(own, None) if _is_vector(own, product.columns) else None
    uses = list(node.outputs[0].uses())
    if len(uses) != 1 or node.outputs[0].is_graph_output() or uses[0][0].op_type != "Add":
        return None
    add, index = uses[0]
    vector = add.inputs[1 - index]
    return Bias(vector, add) if vector is not None and _is_vector(vector, product.columns) else None


def _is_vector(value: ir.Value, columns: int) -> bool:
    array = weight_of(value)
    return array is not None and array.dtype == np.float32 and array.shape == (columns,) and value.is_initializer()


def replace_matrix(graph: Graph, product: Product, name: str, matrix: NDArray[np.float32]) -> None:
    """Let the product read another matrix (depth, columns), in place."""
    node = product.node
    turns = "transB" in node.attributes and node.attributes["transB"].as_int()
    node.replace_input_with(1, constant(graph, name, np.ascontiguousarray(matrix.T if turns else matrix)))


def put(graph: Graph, product: Product, bias: Bias | None, result: ir.Value) -> None:
    """Let `result` stand where the product stood, in place: where its bias was added, if `bias` says that the result has it in.

    A bias of a Gemm's own that `bias` leaves out is added behind.
    """
    node, above = product.node, product.node.inputs[1]
    own = node.inputs[2] if node.op_type == "Gemm" and len(node.inputs) > 2 else None
    if bias is None and own is not None:
        result = insert(graph, node, "Add", [result, own])
    take_place(graph, bias.add if bias is not None and bias.add is not None else node, result)
    if bias is not None and bias.add is not None:
        graph.ir.remove(node, safe=True)
    turned = above.producer() if above is not None else None
    if turned is not None and not turned.outputs[0].uses():
        graph.ir.remove(turned, safe=True)

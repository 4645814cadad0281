"""One table for two uses: where the output product's matrix is the embedding table turned round, it reads the table itself.

Tied embeddings are one parameter of the model; an exporter writes the table for the look-up and a transposed copy for the product,
a fifth of a small decoder again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from hotfoot_build.graph import MICROSOFT, Graph, constant, insert, take_place, weight_of
from hotfoot_build.passes import Context, Counts, Pass


@dataclass(frozen=True)
class Options:
    """Nothing to choose."""


def options(_context: Context) -> Options:
    """The same for every target."""
    return Options()


def tables(graph: Graph) -> list[ir.Value]:
    """The float matrices whose rows are looked up."""
    looked_up = [n.inputs[0] for n in graph.ir if n.op_type == "Gather" and not n.domain]
    found = [v for v in dict.fromkeys(looked_up) if v is not None and (w := weight_of(v)) is not None and w.ndim == 2]
    return [v for v in found if v.dtype == ir.DataType.FLOAT]


def copies(graph: Graph) -> list[tuple[ir.Node, ir.Value]]:
    """Products with a table turned round, and the table."""
    found = []
    for table in tables(graph):
        rows = weight_of(table)
        for node in graph.ir:
            matrix = weight_of(node.inputs[1]) if _is_product(node) else None
            if matrix is not None and rows is not None and matrix.shape == rows.shape[::-1] and np.array_equal(matrix, rows.T):
                found.append((node, table))
    return found


def _is_product(node: ir.Node) -> bool:
    """A MatMul, or one that ONNX Runtime has put a factor into."""
    turned = [node.attributes[name].as_int() for name in ("transA", "transB") if name in node.attributes]
    return (node.op_type, node.domain) in (("MatMul", ""), ("FusedMatMul", MICROSOFT)) and not any(turned)


def applies(graph: Graph, _options: Options) -> str | None:
    """Only where a product has a copy."""
    return None if copies(graph) else "no product with the transposed table of a look-up"


def run(graph: Graph, _options: Options) -> None:
    """Let the products read the table, in place."""
    for node, table in copies(graph):
        rows = node.inputs[0]
        factor = node.attributes["alpha"].as_float() if "alpha" in node.attributes else 1.0
        if factor != 1.0:  # in front of it again, for those who look for plain products
            rows = insert(graph, node, "Mul", [rows, constant(graph, f"factor.{factor}", np.float32(factor))])
        take_place(graph, node, insert(graph, node, "FusedMatMul", [rows, table], {"transB": 1}, domain=MICROSOFT))


def check(graph: Graph, _before: Counts, _options: Options) -> str | None:
    """No copy may be left."""
    left = len(copies(graph))
    return f"{left} product(s) still have a copy of an embedding table" if left else None


PASS = Pass(
    name="share_embeddings",
    summary="tied embeddings stored once",
    options=options,
    applies=applies,
    run=run,
    check=check,
)

"""Branches of a graph that every input takes alike: an exporter writes If where its tracer met a choice between two sizes."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes import common

from hotfoot_build import shapes


def inline(model: ir.Model) -> None:
    """Put the branch that always holds in the place of its If, in place; an If whose condition does not follow stays."""
    if not any(node.op_type == "If" for node in model.graph):
        return
    # a constant is seen through many times, and as an initializer more quickly
    common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    while found := _decided(model.graph):
        for node, branch in found:
            _take(model.graph, node, branch)
    # the branches of two nodes may have used one name, each for itself
    common.NameFixPass()(model)


def _decided(graph: ir.Graph) -> list[tuple[ir.Node, ir.Graph]]:
    known = shapes.infer(graph)
    found = []
    for node in graph:
        condition = known.integers_of(node.inputs[0]) if node.op_type == "If" and not node.domain else None
        if condition is not None:
            branch = node.attributes["then_branch" if condition[0] else "else_branch"]
            found.append((node, branch.as_graph()))
    return found


def _take(graph: ir.Graph, node: ir.Node, branch: ir.Graph) -> None:
    for value in list(branch.initializers.values()):
        branch.initializers.pop(str(value.name))
        value.name = f"{node.name}.{value.name}"
        graph.register_initializer(value)
    outputs, inner = list(branch.outputs), list(branch)
    branch.outputs.clear()
    branch.remove(inner)
    graph.insert_before(node, inner)
    for old, new in zip(node.outputs, outputs, strict=True):
        # the outside may know the name
        ir.convenience.replace_all_uses_with(old, _named_like(graph, node, old, new) if old.is_graph_output() else new)
    graph.remove(node, safe=True)


def _named_like(graph: ir.Graph, before: ir.Node, old: ir.Value, new: ir.Value) -> ir.Value:
    kept = ir.node("Identity", [new], outputs=[ir.Value(name=old.name, type=old.type, shape=old.shape)])
    graph.insert_before(before, kept)
    graph.outputs[:] = [kept.outputs[0] if o is old else o for o in graph.outputs]
    old.name = None
    return kept.outputs[0]

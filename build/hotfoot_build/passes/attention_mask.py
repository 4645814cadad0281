"""One mask of shape (batch, 1, 1, tokens), made once, added to every layer's scores: (1 - attention_mask) · lowest.

Exporters mask the scores in many ways: a sum, or a choice between score and filler, with fillers from -10000 to -inf. Which of
them a graph does is read off by following the mask's two values, 0 and 1, through its operators; only what leaves a score as it
is for a 1, and puts it out of reach for a 0, is replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common

from hotfoot_build import shapes
from hotfoot_build.graph import Graph, constant, insert
from hotfoot_build.passes import Context, Counts, Pass
from hotfoot_build.shapes import Known
from hotfoot_build.shapes.axes import broadcast
from hotfoot_build.shapes.known import tensor_of

MASK = "attention_mask"
PLAIN = ["Mul", "Sub", "Cast", "Unsqueeze"]  # the one mask, from its end
LOWEST = np.finfo(np.float32).min
FILLER = -1e4  # the weakest "never" in use: its exponential is 0 in float32
SWALLOWS = -1e30  # a filler below it is what it is whatever score is added, so a choice may become a sum

PAIRS: Mapping[str, Callable[[Any, Any], Any]] = {
    "Add": np.add,
    "And": np.logical_and,
    "Equal": np.equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Mul": np.multiply,
    "Or": np.logical_or,
    "Sub": np.subtract,
}


@dataclass(frozen=True)
class Options:
    """Nothing to choose."""


@dataclass(frozen=True)
class Found:
    """sums: masks that are added to scores, or chosen beside a filler. choices: (Where, index of the scores among its inputs)."""

    sums: tuple[ir.Value, ...]
    choices: tuple[tuple[ir.Node, int], ...]


def options(_context: Context) -> Options:
    """The same for every target."""
    return Options()


def eligible(graph: Graph) -> Found:
    """What does as the one mask does, and is not it."""
    known = shapes.infer(graph.ir)
    mask = next((v for v in graph.ir.inputs if v.name == MASK), None)
    batch_tokens = known.axes_of(mask)
    if mask is None or batch_tokens is None or len(batch_tokens) != 2:
        return Found((), ())
    wide = (batch_tokens[0], 1, 1, batch_tokens[1])
    sums, choices = [], []
    for node in graph.ir:
        output = node.outputs[0]
        if output.is_graph_output():
            continue
        if known.axes_of(output) == wide and _puts_out_of_reach(output, mask, known) and not is_plain(output):
            readers = {n.op_type for n, _ in output.uses()}
            sums += [output] if readers and readers <= {"Add", "Where"} else []
        if node.op_type == "Where" and known.axes_of(output) != wide:
            scores = _scores(node, mask, known)
            if scores and known.axes_of(output) == broadcast(known.axes_of(node.inputs[scores]), wide):
                choices.append((node, scores))
    return Found(tuple(sums), tuple(choices))


def _puts_out_of_reach(value: ir.Value, mask: ir.Value, known: Known) -> bool:
    never, always = (follow(value, mask, bit, known) for bit in (0, 1))
    if never is None or always is None or never.dtype != np.float32:
        return False
    return bool(always == 0) and float(never) <= FILLER


def _scores(node: ir.Node, mask: ir.Value, known: Known) -> int:
    """Where the scores stand among a Where's inputs, if it chooses a filler for every 0 of the mask; otherwise 0."""
    padding, real = (follow(node.inputs[0], mask, bit, known) for bit in (0, 1))
    if padding is None or real is None or bool(padding) == bool(real):
        return 0
    scores = 2 if padding else 1
    filler = follow(node.inputs[3 - scores], mask, 0, known)
    return scores if filler is not None and filler.dtype == np.float32 and float(filler) <= SWALLOWS else 0


def follow(value: ir.Value | None, mask: ir.Value, bit: int, known: Known) -> np.generic | None:
    """What a value holds for a token whose mask is `bit`; None where it depends on anything else, or on another axis."""
    if value is None or value is mask:
        return None if value is None else np.int64(bit)
    tensor = tensor_of(value)
    if tensor is not None:
        found: np.generic | None = tensor.numpy().ravel()[0] if tensor.size == 1 else None
        return found
    node, axes, (batch, tokens) = value.producer(), known.axes_of(value), known.axes_of(mask) or (None, None)
    if node is None or node.domain or axes is None or len(axes) < 2 or (axes[0], axes[-1]) != (batch, tokens):
        return None
    inputs = [follow(v, mask, bit, known) for v in node.inputs[: 1 if node.op_type in ("Expand", "Reshape", "Unsqueeze") else None]]
    return None if any(i is None for i in inputs) else _apply(node, inputs)


def _apply(node: ir.Node, inputs: list[Any]) -> np.generic | None:
    result: np.generic | None = None
    if node.op_type in ("Expand", "Identity", "Reshape", "Unsqueeze"):
        result = inputs[0]
    elif node.op_type == "Cast":
        result = inputs[0].astype(ir.DataType(node.attributes["to"].value).numpy())
    elif node.op_type == "Not":
        result = np.logical_not(inputs[0])
    elif node.op_type == "Where":
        result = inputs[1] if inputs[0] else inputs[2]
    elif node.op_type in PAIRS:
        with np.errstate(all="ignore"):
            result = PAIRS[node.op_type](*inputs)
    return result


def is_plain(value: ir.Value) -> bool:
    """True for the one mask itself."""
    steps, node, filler = [], value.producer(), None
    while node is not None:
        steps.append(node.op_type)
        constants = [t for v in node.inputs if v is not None and (t := tensor_of(v)) is not None]
        filler = constants[0].numpy().min() if node.op_type == "Mul" and constants else filler
        node = next((p for v in node.inputs if v is not None and tensor_of(v) is None and (p := v.producer()) is not None), None)
    return steps == PLAIN and filler == LOWEST


def applies(graph: Graph, _options: Options) -> str | None:
    """Only where scores are masked by attention_mask in another way."""
    return None if eligible(graph) != Found((), ()) else f"no scores are masked by {MASK} in another way"


def run(graph: Graph, _options: Options) -> None:
    """Make the one mask and let every sum and choice use it, in place."""
    found = eligible(graph)
    mask = next(v for v in graph.ir.inputs if v.name == MASK)
    first = graph.ir[0]
    wide = insert(graph, first, "Unsqueeze", [mask, constant(graph, "mask.axes", np.array([1, 2], np.int64))])
    floats = insert(graph, first, "Cast", [wide], {"to": int(ir.DataType.FLOAT)})
    padding = insert(graph, first, "Sub", [constant(graph, "mask.one", np.float32(1)), floats])
    made = insert(graph, first, "Mul", [padding, constant(graph, "mask.lowest", LOWEST)])
    for node, scores in found.choices:
        ir.convenience.replace_all_uses_with(node.outputs[0], insert(graph, node, "Add", [node.inputs[scores], made]))
    for value in found.sums:
        ir.convenience.replace_all_uses_with(value, made)
    common.RemoveUnusedNodesPass()(graph.model)
    common.CommonSubexpressionEliminationPass()(graph.model)


def check(graph: Graph, _before: Counts, _options: Options) -> str | None:
    """Every mask must be the one."""
    left = eligible(graph)
    return None if left == Found((), ()) else f"{len(left.sums)} sums and {len(left.choices)} choices are still masked in another way"


PASS = Pass(
    name="attention_mask",
    summary="one additive mask, made once for all layers",
    options=options,
    applies=applies,
    run=run,
    check=check,
)

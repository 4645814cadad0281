"""Weights and products in float16: half the bytes, and on GPUs the faster units.

Sums, softmax, mask arithmetic and whatever comes near the end of float16's range stay float32 (see _halves), with casts in between. The
inputs and outputs of the graph keep their types.

On a CPU ONNX Runtime turns halves back into floats in front of most operators, and drops the roundings in between: only the file is
smaller there (MiniLM: 45 MB of 90, mean cosine 1.00000, 1.1 to 2.3 times fp32's time, as weights are turned at every call). Such weights
are not packed beforehand, and how they are summed then hangs on rows and threads: texts run one by one (graph.mixes_rows sees it). And an
overflow does not show on a CPU. So texts must tell beforehand what would overflow; without them the pass refuses.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from hotfoot.contract.errors import InputError
from hotfoot_build.graph import Graph, constant, weight_of
from hotfoot_build.passes import Context, Counts, Pass, unrecorded
from hotfoot_build.passes import _calibration as calibration
from hotfoot_build.passes import _halves as halves

HALF, FLOAT = ir.DataType.FLOAT16, ir.DataType.FLOAT
LIMIT = 16384.0  # a quarter of the largest half: other texts go further than those looked at
TEXTS = 64


@dataclass(frozen=True)
class Options:
    """limit: what reaches beyond it on `texts` of the calibration's texts is computed in float32. With 0 texts nothing is looked at."""

    limit: float = LIMIT
    texts: int = TEXTS
    calibration: tuple[NDArray[np.int64], ...] = unrecorded(())


def options(context: Context) -> Options:
    """The same for every target."""
    return Options(calibration=context.calibration)


def applies(graph: Graph, options: Options) -> str | None:
    """Only where there are floats. Raises InputError where there are no texts to look for overflow on."""
    if options.texts and not options.calibration:
        raise InputError(
            "float16 looks for what would overflow on texts, and there are none.", hint="Give it texts, or ask it for texts = 0."
        )
    return None if any(v.dtype == FLOAT for v in graph.ir.initializers.values()) else "no float32 weights"


def run(graph: Graph, options: Options) -> None:
    """Change types and add casts, in place."""
    _drop_casts(graph)
    known = halves.floats(graph)
    decided = list(halves.states(graph, known, _big(graph, known, options), options.limit))
    typed = {v: FLOAT if wide else HALF for node, wide, _ in decided for v in node.outputs if v in known and not _is_cast(node)}
    casts: dict[tuple[ir.Value, ir.DataType], ir.Value] = {}
    for given, dtype in typed.items():
        if given.type is not None and not given.is_graph_output():
            given.type = ir.TensorType(dtype)
    for node, wide, _ in decided:
        wanted = FLOAT if wide else HALF
        for index, value in enumerate(node.inputs):
            if value in known and value is not None:
                node.replace_input_with(index, _as(graph, value, typed.get(value, FLOAT), wanted, casts))
    for index, output in enumerate(graph.ir.outputs):
        if typed.get(output) == HALF:
            _widen_output(graph, index, output)


def _is_cast(node: ir.Node) -> bool:
    return node.op_type == "Cast"


def _drop_casts(graph: Graph) -> None:
    """Casts from float32 to float32, which exporters leave around normalisations."""
    known = halves.floats(graph)
    for node in list(graph.ir):
        if _is_cast(node) and node.inputs[0] in known and node.outputs[0] in known and not node.outputs[0].is_graph_output():
            ir.convenience.replace_all_uses_with(node.outputs[0], node.inputs[0])
            graph.ir.remove(node, safe=True)


def _big(graph: Graph, known: set[ir.Value], options: Options) -> set[ir.Value]:
    """Values that go beyond the limit on the texts."""
    texts = calibration.spread(options.calibration, options.texts)
    if not texts:
        return set()
    values = [v for node in graph.ir for v in node.outputs if v in known and weight_of(v) is None]
    spans = calibration.spans(graph, values, texts)
    return {value for value, span in spans.items() if not max(abs(span.low), abs(span.high)) <= options.limit}


def _as(
    graph: Graph, value: ir.Value, given: ir.DataType, wanted: ir.DataType, casts: dict[tuple[ir.Value, ir.DataType], ir.Value]
) -> ir.Value:
    """The value in the wanted type: a constant once more, or through a cast that all readers share."""
    array = weight_of(value)
    if array is not None:
        return value if wanted == FLOAT else constant(graph, f"{value.name}.half", array.astype(np.float16))
    if given == wanted:
        return value
    if (value, wanted) not in casts:
        node = ir.node("Cast", [value], attributes={"to": int(wanted)})
        producer = value.producer()
        if producer is not None:
            graph.ir.insert_after(producer, node)
        else:
            graph.ir.insert_before(graph.ir[0], node)
        casts[value, wanted] = node.outputs[0]
    return casts[value, wanted]


def _widen_output(graph: Graph, index: int, value: ir.Value) -> None:
    """Give the graph's output as float32, under its name."""
    node = ir.node("Cast", [value], attributes={"to": int(FLOAT)})
    graph.ir.append(node)
    output = node.outputs[0]
    output.name, output.type, output.shape = value.name, ir.TensorType(FLOAT), value.shape
    value.name, value.type = f"{output.name}.half", ir.TensorType(HALF)
    graph.ir.outputs[index] = output


def check(graph: Graph, before: Counts, _options: Options) -> str | None:
    """Nothing but casts may come or go, and there must be halves."""
    after = graph.op_counts()
    changed = {op for op in {*before, *after} - {"Cast"} if before.get(op, 0) != after.get(op, 0)}
    stored = any(v.dtype == HALF for v in graph.ir.initializers.values())
    return f"it changed {', '.join(sorted(changed))}" if changed else None if stored else "no weight became float16"


PASS = Pass(
    name="float16",
    summary="weights and products in float16, sums in float32",
    options=options,
    applies=applies,
    run=run,
    check=check,
)

"""Row-wise dynamic int8: one scale a token, one a weight column, and a sum of integers in between.

    m = max |x| over a row;  q = round(x · 127/m) + 128 as uint8;  y = (q - 128)·W8 · s_w/127 · m

(after a Gelu: m = max x, 223 steps above a zero point of 32)

MatMulIntegerToFloat multiplies by the column scales, one Mul by the row's largest. A row's result depends on that row alone, so a
text's answer is the same in every batch, which one scale a tensor (as ONNX Runtime's dynamic quantization has it) cannot give.
Products that read one tensor (query, key and value) share its quantized form.

What leaves a normalisation is smoothed first (x·c, W/c): a few channels are far larger than the others there, and a row's largest
would leave the rest few steps. c weighs a channel's size over the calibration texts against its weights', as in SmoothQuant
(Xiao et al., 2023), but with one scale a row instead of one a tensor. On MiniLM: mean cosine 0.9972 -> 0.9991 at ±127, 0.9960 -> 0.9980
at ±64; after a Gelu it did harm, on the attention's result nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from hotfoot_build.graph import MICROSOFT, Graph, constant, insert, reduce, take_place, weight_of
from hotfoot_build.passes import Context, Counts, Pass, unrecorded
from hotfoot_build.passes import _smooth as smooth
from hotfoot_build.passes._products import MIN_COLUMNS, is_kept

ZERO_POINT = 128
LEAST_GELU = 0.1701  # no value of x·Φ(x) lies below minus this
GELU_ZERO_POINT = 32
SMOOTH = 0.6  # 0.5 to 0.8 gave the same on MiniLM
CALIBRATION_TEXTS = 128  # of the build's, spread over all of them

Rows = tuple[ir.Value, ir.Value, ir.Value, int]  # uint8 rows, the largest of each row, uint8 zero point, steps between 0 and the largest


@dataclass(frozen=True)
class Options:
    """weight_range: the largest |weight| as an integer, by the target's instruction set.

    smooth: how much of a channel's size goes from the activations into the weights, from 0 (none: off) to 1 (all).
    """

    weight_range: int
    min_columns: int
    smooth: float = 0.0
    calibration: tuple[NDArray[np.int64], ...] = unrecorded(())


def options(context: Context) -> Options:
    """By the target's instruction set; smoothed where there are texts to see the channels' sizes by."""
    calibration = context.calibration[:: max(1, len(context.calibration) // CALIBRATION_TEXTS)]
    return Options(context.target.int8_range, MIN_COLUMNS, SMOOTH if calibration else 0.0, calibration)


def eligible(graph: Graph, options: Options) -> list[ir.Node]:
    """Products with a constant matrix that is wide enough."""
    return [n for n in graph.ir if (w := matrix_of(n)) is not None and w.shape[1] >= options.min_columns and not is_kept(n)]


def matrix_of(node: ir.Node) -> NDArray[np.float32] | None:
    """The constant right-hand side of a MatMul, or of a Gemm that is a plain product, as (rows, columns)."""
    if node.op_type not in ("MatMul", "Gemm") or node.domain:
        return None
    weight = weight_of(node.inputs[1])
    if weight is None or weight.ndim != 2 or weight.dtype != np.float32:
        return None
    if node.op_type == "MatMul":
        return weight
    values: dict[str, Any] = {name: attribute.value for name, attribute in node.attributes.items()}
    plain = values.get("alpha", 1.0) == 1.0 and values.get("beta", 1.0) == 1.0 and not values.get("transA", 0)
    return (weight.T if values.get("transB", 0) else weight) if plain else None


def applies(graph: Graph, options: Options) -> str | None:
    """Only where there is a product to quantize."""
    return None if eligible(graph, options) else f"no product with a constant matrix of {options.min_columns} columns or more"


def run(graph: Graph, options: Options) -> None:
    """Replace every eligible product in place."""
    quantized: dict[ir.Value, Rows] = {}
    products = eligible(graph, options)
    smoothing = smooth.fit(graph, products, options.calibration, options.smooth) if options.smooth else {}
    for node in products:
        activation, stored, weight = node.inputs[0], node.inputs[1], matrix_of(node)
        if activation is None or stored is None or weight is None:
            continue
        channels = smoothing.get(activation)
        if activation not in quantized:
            quantized[activation] = _quantize_rows(graph, node, smooth.apply(graph, activation, channels, products))
        result = _integer_product(graph, node, quantized[activation], weight if channels is None else weight / channels[:, None], options)
        if node.op_type == "Gemm" and len(node.inputs) > 2 and node.inputs[2] is not None:
            result = insert(graph, node, "Add", [result, node.inputs[2]])
        take_place(graph, node, result)


def _integer_product(graph: Graph, node: ir.Node, rows: Rows, weight: NDArray[np.float32], options: Options) -> ir.Value:
    integers, largest, zero_point, steps = rows
    columns, scales = quantize_columns(weight, options.weight_range)
    name = node.inputs[1].name if node.inputs[1] is not None else None  # by the weight's: layers that share one keep sharing it
    inputs = [
        integers,
        constant(graph, f"{name}.int8", columns),
        constant(graph, "int8.one", np.float32(1)),
        constant(graph, f"{name}.scale.{steps}", scales / np.float32(steps)),
        zero_point,
        constant(graph, "int8.weight_zero_point", np.int8(0)),
    ]
    return insert(graph, node, "Mul", [insert(graph, node, "MatMulIntegerToFloat", inputs, domain=MICROSOFT), largest])


def quantize_columns(weight: NDArray[np.float32], largest: int) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """(rows, columns) as int8 within ±largest and one float scale a column: weight ≈ integers · scales."""
    scales = np.maximum(np.abs(weight).max(axis=0), np.finfo(np.float32).tiny) / np.float32(largest)
    integers = np.clip(np.rint(weight / scales), -largest, largest).astype(np.int8)
    return integers, scales.astype(np.float32)


def widen_weights(graph: Graph) -> None:
    """Turn the int8 weights into uint8 around 128, in place: the same integers, on the kernel that no x86 CPU saturates in.

    It is slower there, and right: for measuring, on a CPU without VNNI, an artifact that is built for one with it.
    """
    for node in graph.ir:
        weight = weight_of(node.inputs[1]) if node.op_type == "MatMulIntegerToFloat" else None
        if weight is None or weight.dtype != np.int8:
            continue
        shifted = (weight.astype(np.int16) + ZERO_POINT).astype(np.uint8)
        node.replace_input_with(1, constant(graph, f"{node.name}.uint8", shifted))
        node.replace_input_with(5, constant(graph, "uint8.weight_zero_point", np.uint8(ZERO_POINT)))


def _quantize_rows(graph: Graph, before: ir.Node, activation: ir.Value) -> Rows:
    """The rows as uint8: divided by their largest, then into steps.

    What leaves a Gelu has almost no negative side, so its zero point lies low: nearly twice the steps for the same row, and
    no absolute values to take.
    """
    after_gelu = made_by(activation, "Gelu", "BiasGelu")
    zero = GELU_ZERO_POINT if after_gelu else ZERO_POINT
    steps = 255 - zero if after_gelu else 127
    largest = reduce(graph, before, "ReduceMax", activation if after_gelu else insert(graph, before, "Abs", [activation]), -1)
    if not _never_zero(activation):  # a row of zeros stays zeros
        least = LEAST_GELU * steps / zero if after_gelu else 1e-30
        largest = insert(graph, before, "Max", [largest, constant(graph, f"int8.floor.{zero}", np.float32(least))])
    if after_gelu:  # wide: a division a row and products beat divisions
        factor = insert(graph, before, "Div", [constant(graph, f"int8.steps.{zero}", np.float32(steps)), largest])
        scaled, step = insert(graph, before, "Mul", [activation, factor]), constant(graph, "int8.one", np.float32(1))
    else:  # narrow: one operator fewer beats them
        scaled, step = insert(graph, before, "Div", [activation, largest]), constant(graph, f"int8.step.{zero}", np.float32(1 / steps))
    # this rounds half to even, adds the zero point and saturates, in one vectorised kernel
    zero_point = constant(graph, f"int8.zero_point.{zero}", np.uint8(zero))
    return insert(graph, before, "QuantizeLinear", [scaled, step, zero_point]), largest, zero_point, steps


def made_by(value: ir.Value, *operators: str) -> bool:
    """Whether one of the operators gives the value."""
    producer = value.producer()
    return producer is not None and producer.op_type in operators


def _never_zero(value: ir.Value) -> bool:
    """Whether no row can be all zeros: the shift of a normalisation is left where its input has no variance."""
    producer = value.producer()
    if producer is not None and producer.op_type == "Mul" and producer.inputs[0] is not None:  # smoothed
        producer = producer.inputs[0].producer()
    shift = (
        weight_of(producer.inputs[2])
        if producer is not None and producer.op_type == "LayerNormalization" and len(producer.inputs) > 2
        else None
    )
    return shift is not None and bool(np.any(np.abs(shift) > 1e-6))


def check(graph: Graph, before: Counts, options: Options) -> str | None:
    """No eligible product may be left, and none may be made twice."""
    after, left = graph.op_counts(), len(eligible(graph, options))
    made = after.get("MatMulIntegerToFloat", 0) - before.get("MatMulIntegerToFloat", 0)
    gone = sum(before.get(op, 0) - after.get(op, 0) for op in ("MatMul", "Gemm"))
    if left or made != gone:
        return f"{made} integer products were made of {gone} float ones, and {left} are left"
    return None


PASS = Pass(
    name="int8_rowwise",
    summary="int8 products with one scale a token and one a column",
    options=options,
    applies=applies,
    run=run,
    check=check,
)

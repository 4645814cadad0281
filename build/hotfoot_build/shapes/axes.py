"""The axes of what each operator gives, by the axes of what it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from hotfoot_build.shapes.known import Known, Size, Sizes, attribute, axes_argument, from_front, product, quotient, slices, tensor_of

# one name a line would take the page
# fmt: off
# one input, whose axes are the result's
SAME = frozenset((
    "Abs", "BiasGelu", "Cast", "Ceil", "Clip", "Cos", "CumSum", "DequantizeLinear", "Dropout", "DynamicQuantizeLinear", "Erf",
    "Exp", "FastGelu", "Floor", "Gelu", "HardSigmoid", "Identity", "IsNaN", "LayerNormalization", "LeakyRelu", "Log", "LogSoftmax",
    "LpNormalization", "Neg", "Not", "QuantizeLinear", "QuickGelu", "RMSNormalization", "Reciprocal", "Relu", "Round", "Selu",
    "Sigmoid", "Sign", "SimplifiedLayerNormalization", "Sin", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization",
    "Softmax", "Softplus", "Sqrt", "Tanh", "Trilu",
))
ELEMENTWISE = frozenset((
    "Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min", "Mod", "Mul", "Or", "PRelu",
    "Pow", "Sub", "Where", "Xor",
))
# fmt: on


def of_result(node: ir.Node, known: Known) -> Sizes | None:
    """The axes of the node's first output, None where not even their count follows."""
    if node.op_type in SAME:
        return known.axes_of(node.inputs[0])
    if node.op_type in ELEMENTWISE:
        return broadcast(*(known.axes_of(v) for v in node.inputs))
    rule = RULES.get(node.op_type)
    return None if rule is None else rule(node, known)


def broadcast(*every: Sizes | None) -> Sizes | None:
    """The axes of an elementwise result, None where one operand's are not known."""
    shapes = [s for s in every if s is not None]
    if len(shapes) != len(every):
        return None
    rank = max(map(len, shapes))
    columns = zip(*((1,) * (rank - len(s)) + s for s in shapes), strict=True)
    return tuple(_wider(sizes) for sizes in columns)


def _wider(sizes: Sequence[Size]) -> Size:
    wide = {s for s in sizes if s != 1}
    number = next((s for s in wide if isinstance(s, int)), None)
    if number is not None:
        return number
    return 1 if not wide else wide.pop() if len(wide) == 1 else None


def _constant(node: ir.Node, _known: Known) -> Sizes | None:
    tensor = tensor_of(node.outputs[0])
    return None if tensor is None else tuple(tensor.shape.numpy())


def _matmul(node: ir.Node, known: Known) -> Sizes | None:
    a, b = known.axes_of(node.inputs[0]), known.axes_of(node.inputs[1])
    if a is None or b is None or min(len(a), len(b)) < 2:
        return None
    if attribute(node, "transBatchA", 0):
        a = _batch_first(a)
    if attribute(node, "transBatchB", 0):
        b = _batch_first(b)
    outer = broadcast(a[:-2], b[:-2])
    rows, columns = a[-1 if attribute(node, "transA", 0) else -2], b[-2 if attribute(node, "transB", 0) else -1]
    return None if outer is None else (*outer, rows, columns)


def _batch_first(sizes: Sizes) -> Sizes:
    """The axes of a product's operand whose rows come before the batch, in the usual order."""
    return (*sizes[1:-1], sizes[0], sizes[-1])


def _matmul_blocks(node: ir.Node, known: Known) -> Sizes | None:
    data = known.axes_of(node.inputs[0])
    return None if data is None else (*data[:-1], attribute(node, "N", None))


def _gather(node: ir.Node, known: Known) -> Sizes | None:
    data, index = known.axes_of(node.inputs[0]), known.axes_of(node.inputs[1])
    if data is None or index is None:
        return None
    axis = from_front(attribute(node, "axis", 0), len(data))
    return (*data[:axis], *index, *data[axis + 1 :])


def _unsqueeze(node: ir.Node, known: Known) -> Sizes | None:
    data, axes = known.axes_of(node.inputs[0]), axes_argument(node, known, 1)
    if data is None or axes is None:
        return None
    rank, rest = len(data) + len(axes), iter(data)
    new = {from_front(a, rank) for a in axes}
    return tuple(1 if i in new else next(rest) for i in range(rank))


def _squeeze(node: ir.Node, known: Known) -> Sizes | None:
    data, axes = known.axes_of(node.inputs[0]), axes_argument(node, known, 1)
    if data is None or axes is None:
        return None
    gone = {from_front(a, len(data)) for a in axes}
    return tuple(d for i, d in enumerate(data) if i not in gone)


def _transpose(node: ir.Node, known: Known) -> Sizes | None:
    data = known.axes_of(node.inputs[0])
    return None if data is None else tuple(data[i] for i in attribute(node, "perm", range(len(data))[::-1]))


def _reshape(node: ir.Node, known: Known) -> Sizes | None:
    data, wanted = known.axes_of(node.inputs[0]), known.numbers_of(node.inputs[1])
    if wanted is None:
        length = known.axes_of(node.inputs[1])
        count = length[0] if length is not None and len(length) == 1 else None
        return (None,) * count if isinstance(count, int) else None
    if not attribute(node, "allowzero", 0):
        kept = (*(data or ()), *((None,) * len(wanted)))
        wanted = tuple(k if d == 0 else d for d, k in zip(wanted, kept, strict=False))
    return tuple(left_over(data, wanted) if d == -1 else d for d in wanted)


def left_over(data: Sizes | None, wanted: Sizes) -> Size:
    """What -1 stands for among the sizes of a Reshape: all elements over those of the other axes."""
    others = product(*(d for d in wanted if d != -1))
    return None if data is None else quotient(product(*data), others)


def _concat(node: ir.Node, known: Known) -> Sizes | None:
    shapes = [known.axes_of(v) for v in node.inputs]
    first = shapes[0]
    if first is None or any(s is None for s in shapes):
        return None
    axis = from_front(attribute(node, "axis", 0), len(first))
    parts = [s[axis] for s in shapes if s is not None]
    numbers = [p for p in parts if isinstance(p, int)]
    return (*first[:axis], sum(numbers) if len(numbers) == len(parts) else None, *first[axis + 1 :])


def _slice(node: ir.Node, known: Known) -> Sizes | None:
    data, parts = known.axes_of(node.inputs[0]), slices(node, known)
    if data is None or parts is None:
        return None if data is None else (None,) * len(data)
    sizes = list(data)
    for axis, (start, stop, step) in parts.items():
        sizes[axis] = _sliced(data[axis], start, stop, step)
    return tuple(sizes)


def _sliced(size: Size, start: Size, stop: Size, step: int) -> Size:
    if isinstance(size, int) and isinstance(start, int) and isinstance(stop, int):
        return len(range(*slice(start, stop, step).indices(size)))
    if start != 0 or step != 1:
        return None
    if isinstance(stop, int):
        return size if stop >= np.iinfo(np.int32).max else None
    # a table cut to a length: were the table shorter, no input of that length could run
    return stop if stop == size or isinstance(size, int) else None


def _expand(node: ir.Node, known: Known) -> Sizes | None:
    return broadcast(known.axes_of(node.inputs[0]), known.numbers_of(node.inputs[1]))


def _range(node: ir.Node, known: Known) -> Sizes | None:
    start, stop, step = (known.numbers_of(v) for v in node.inputs)
    return stop if start == (0,) and step == (1,) and stop is not None else (None,)


def _reduced(node: ir.Node, known: Known) -> Sizes | None:
    data, axes = known.axes_of(node.inputs[0]), axes_argument(node, known, 1)
    if data is None or axes is None:
        return None
    gone, kept = {from_front(a, len(data)) for a in axes}, attribute(node, "keepdims", 1)
    return tuple(1 if i in gone else d for i, d in enumerate(data) if kept or i not in gone)


def _tile(node: ir.Node, known: Known) -> Sizes | None:
    data, times = known.axes_of(node.inputs[0]), known.numbers_of(node.inputs[1])
    if data is None or times is None:
        return None if data is None else (None,) * len(data)
    return tuple(product(d, t) for d, t in zip(data, times, strict=True))


def _conv(node: ir.Node, known: Known) -> Sizes | None:
    data, weight = known.axes_of(node.inputs[0]), known.axes_of(node.inputs[1])
    if data is None or weight is None:
        return None
    plain = attribute(node, "auto_pad", "NOTSET") == "NOTSET" and all(s == 1 for s in attribute(node, "strides", ()))
    dilations = attribute(node, "dilations", (1,) * len(weight[2:]))
    reach = [d * (k - 1) if isinstance(k, int) else None for d, k in zip(dilations, weight[2:], strict=True)]
    pads = attribute(node, "pads", (0,) * 2 * len(reach))
    kept = [plain and a + b == r for a, b, r in zip(pads[: len(reach)], pads[len(reach) :], reach, strict=True)]
    return (data[0], weight[0], *(size if same else None for size, same in zip(data[2:], kept, strict=True)))


def _attention(node: ir.Node, known: Known) -> Sizes | None:
    query, value = known.axes_of(node.inputs[0]), known.axes_of(node.inputs[2])
    return (*query[:2], value[2]) if query is not None and value is not None and len(query) == len(value) == 3 else None


RULES: Mapping[str, Callable[[ir.Node, Known], Sizes | None]] = {
    "Concat": _concat,
    "Constant": _constant,
    "Conv": _conv,
    "ConstantOfShape": lambda node, known: known.numbers_of(node.inputs[0]),
    "Expand": _expand,
    "FusedGemm": _matmul,
    "FusedMatMul": _matmul,
    "Gather": _gather,
    "GatherElements": lambda node, known: known.axes_of(node.inputs[1]),
    "Gemm": _matmul,
    "MatMul": _matmul,
    "MatMulIntegerToFloat": _matmul,
    "MatMulNBits": _matmul_blocks,
    "MultiHeadAttention": _attention,
    "Range": _range,
    "ReduceL2": _reduced,
    "ReduceMax": _reduced,
    "ReduceMean": _reduced,
    "ReduceMin": _reduced,
    "ReduceSum": _reduced,
    "Reshape": _reshape,
    "Shape": lambda node, known: (len(found),) if (found := shape_of(node, known)) is not None else None,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}


def shape_of(node: ir.Node, known: Known) -> Sizes | None:
    """What a Shape node gives."""
    found = known.axes_of(node.inputs[0])
    return None if found is None else found[attribute(node, "start", 0) : attribute(node, "end", None)]


def of_parts(node: ir.Node, known: Known) -> list[Sizes] | None:
    """The axes of each output of a Split."""
    data = known.axes_of(node.inputs[0])
    if data is None:
        return None
    axis, count = from_front(attribute(node, "axis", 0), len(data)), len(node.outputs)
    asked = known.numbers_of(node.inputs[1]) if len(node.inputs) > 1 else attribute(node, "split", None)
    size = data[axis]
    even = size // count if isinstance(size, int) and size % count == 0 else None
    return [(*data[:axis], part, *data[axis + 1 :]) for part in (asked or (even,) * count)]

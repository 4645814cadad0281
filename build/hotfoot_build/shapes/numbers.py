"""The arithmetic on sizes that exporters write as operators, done once."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

import onnx_ir as ir

from hotfoot_build.shapes.axes import shape_of
from hotfoot_build.shapes.known import MOST_NUMBERS, Known, Size, Sizes, attribute, product, quotient, slices


def of_result(node: ir.Node, known: Known) -> Sizes | None:
    """The elements of the node's output, None where they do not follow or are data."""
    rule = None if node.domain else RULES.get(node.op_type)
    found = None if rule is None else rule(node, known)
    return found if found is not None and len(found) <= MOST_NUMBERS and any(n is not None for n in found) else None


def _passed_on(node: ir.Node, known: Known) -> Sizes | None:
    return known.numbers_of(node.inputs[0])


def _cast(node: ir.Node, known: Known) -> Sizes | None:
    found, kind = known.numbers_of(node.inputs[0]), attribute(node, "to", None)
    if found is None or kind not in (ir.DataType.INT64, ir.DataType.BOOL):
        return None
    if kind == ir.DataType.INT64:
        return tuple(int(n) if isinstance(n, int) else n for n in found)
    return tuple(bool(n) if n is not None else None for n in found)  # a name is a number of at least 1


def _gather(node: ir.Node, known: Known) -> Sizes | None:
    data, index = known.numbers_of(node.inputs[0]), known.integers_of(node.inputs[1])
    if data is None or index is None or any(not -len(data) <= i < len(data) for i in index):
        return None
    return tuple(data[i] for i in index)


def _slice(node: ir.Node, known: Known) -> Sizes | None:
    data, parts = known.numbers_of(node.inputs[0]), slices(node, known)
    if data is None or parts is None or list(parts) not in ([0], [-1]):
        return None
    ((start, stop, step),) = parts.values()
    return data[start:stop:step] if isinstance(start, int) and isinstance(stop, int) else None


def _concat(node: ir.Node, known: Known) -> Sizes | None:
    parts: list[Sizes] = []
    for value in node.inputs:
        found, axes = known.numbers_of(value), known.axes_of(value)
        if found is None and (axes is None or len(axes) != 1 or not isinstance(axes[0], int)):
            return None
        parts.append(found if found is not None else (None,) * int(axes[0] if axes and isinstance(axes[0], int) else 0))
    return tuple(n for part in parts for n in part)


def _filled(node: ir.Node, known: Known) -> Sizes | None:
    count, fill = known.integers_of(node.inputs[0]), attribute(node, "value", None)
    if count is None or len(count) != 1 or fill is None or fill.dtype != ir.DataType.INT64:
        return None
    return (int(fill.numpy().ravel()[0]),) * min(count[0], MOST_NUMBERS + 1)


def _paired(rule: Callable[[Size, Size], Size]) -> Callable[[ir.Node, Known], Sizes | None]:
    def apply(node: ir.Node, known: Known) -> Sizes | None:
        a, b = known.numbers_of(node.inputs[0]), known.numbers_of(node.inputs[1])
        if a is None or b is None:
            return None
        count = max(len(a), len(b))
        if {len(a), len(b)} - {1, count}:
            return None
        a, b = (n * count if len(n) == 1 else n for n in (a, b))
        return tuple(rule(x, y) for x, y in zip(a, b, strict=True))

    return apply


def _add(a: Size, b: Size) -> Size:
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    return b if a == 0 else a if b == 0 else None


def _subtract(a: Size, b: Size) -> Size:
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    return a if b == 0 else 0 if a is not None and a == b else None


def _divide(a: Size, b: Size) -> Size:
    if isinstance(a, int) and a < 0:
        return None  # rounds towards zero
    return a // b if isinstance(a, int) and isinstance(b, int) and b > 0 else quotient(a, b)


def _equal(a: Size, b: Size) -> Size:
    if a is None or b is None:
        return None
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    if isinstance(a, str) and isinstance(b, str):
        return True if a == b else None
    number = a if isinstance(a, int) else b
    return False if isinstance(number, int) and number < 1 else None  # a name is a number of at least 1


def _compared(rule: Callable[[int, int], bool]) -> Callable[[Size, Size], Size]:
    return lambda a, b: rule(a, b) if isinstance(a, int) and isinstance(b, int) else None


def _not(node: ir.Node, known: Known) -> Sizes | None:
    found = known.numbers_of(node.inputs[0])
    return None if found is None else tuple(None if n is None else not n for n in found)


def _where(node: ir.Node, known: Known) -> Sizes | None:
    flags, yes, no = (known.numbers_of(v) for v in node.inputs)
    if flags is None or yes is None or no is None:
        return None
    count = max(len(flags), len(yes), len(no))
    if {len(flags), len(yes), len(no)} - {1, count}:
        return None
    flags, yes, no = (n * count if len(n) == 1 else n for n in (flags, yes, no))
    return tuple(y if f is True else n if f is False else y if y == n else None for f, y, n in zip(flags, yes, no, strict=True))


def _both(a: Size, b: Size) -> Size:
    return False if a is False or b is False else True if a is True and b is True else None


def _either(a: Size, b: Size) -> Size:
    return True if a is True or b is True else False if a is False and b is False else None


RULES: Mapping[str, Callable[[ir.Node, Known], Sizes | None]] = {
    "Add": _paired(_add),
    "And": _paired(_both),
    "Cast": _cast,
    "Concat": _concat,
    "ConstantOfShape": _filled,
    "Div": _paired(_divide),
    "Equal": _paired(_equal),
    "Gather": _gather,
    "Greater": _paired(_compared(operator.gt)),
    "GreaterOrEqual": _paired(_compared(operator.ge)),
    "Identity": _passed_on,
    "Less": _paired(_compared(operator.lt)),
    "LessOrEqual": _paired(_compared(operator.le)),
    "Mul": _paired(product),
    "Not": _not,
    "Or": _paired(_either),
    "Reshape": _passed_on,
    "Shape": shape_of,
    "Slice": _slice,
    "Squeeze": _passed_on,
    "Sub": _paired(_subtract),
    "Unsqueeze": _passed_on,
    "Where": _where,
}

"""What is known of a graph's values, and how nodes name their axes."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import onnx_ir as ir

Size = int | str | None
Sizes = tuple[Size, ...]

MOST_NUMBERS = 64  # shapes are short; a longer tensor of integers is data
NUMBERS_DTYPES = (ir.DataType.INT64, ir.DataType.BOOL)  # one kind of integer, so that a number can be written back


@dataclass(frozen=True)
class Known:
    """What follows from the axes of a graph's inputs. A value that is in neither is not known at all.

    axes: the size of each axis. numbers: the elements of a short tensor of integers or truth values; a scalar has one.
    """

    axes: dict[ir.Value, Sizes]
    numbers: dict[ir.Value, Sizes]

    def axes_of(self, value: ir.Value | None) -> Sizes | None:
        """The size of each axis of a computed value or a constant."""
        if value is None:
            return None
        tensor = tensor_of(value)
        return self.axes.get(value) if tensor is None else tuple(tensor.shape.numpy())

    def numbers_of(self, value: ir.Value | None) -> Sizes | None:
        """The elements of shape arithmetic or a constant, None where it is neither, or long."""
        if value is None:
            return None
        tensor = tensor_of(value)
        if tensor is None:
            return self.numbers.get(value)
        if tensor.size > MOST_NUMBERS or len(tensor.shape) > 1 or tensor.dtype not in NUMBERS_DTYPES:
            return None
        return tuple(tensor.numpy().ravel().tolist())

    def integers_of(self, value: ir.Value | None) -> list[int] | None:
        """`numbers_of`, where none is a name or unknown."""
        found = self.numbers_of(value)
        integers = [n for n in found or () if isinstance(n, int)]
        return integers if found is not None and len(integers) == len(found) else None


def product(*sizes: Size) -> Size:
    """Sizes multiplied: a number, or a name such as `2*batch`, its factors in order."""
    number, names = 1, list[str]()
    for size in sizes:
        if size is None:
            return None
        factor, more = factors(size)
        number *= factor
        names += more
    return "*".join([*([str(number)] if number != 1 else []), *sorted(names)]) if names and number else number


def quotient(above: Size, below: Size) -> Size:
    """`above` over `below` where that comes out even, a name cancelled against its like."""
    if above is None or below is None:
        return None
    (number, names), (divisor, others) = factors(above), factors(below)
    for name in others:
        if name not in names:
            return None
        names.remove(name)
    return product(number // divisor, *names) if divisor and number % divisor == 0 else None


def factors(size: int | str) -> tuple[int, list[str]]:
    """A size as a number and names."""
    parts = [str(size)] if isinstance(size, int) else size.split("*")
    numbers = [int(p) for p in parts if p.lstrip("-").isdigit()]
    return prod(numbers), [p for p in parts if not p.lstrip("-").isdigit()]


def tensor_of(value: ir.Value) -> ir.TensorProtocol | None:
    """The tensor of an initializer or a Constant's output."""
    return value.const_value if value.is_initializer() else ir.convenience.get_const_tensor(value)


def attribute(node: ir.Node, name: str, default: Any) -> Any:
    """An attribute's value, or what the operator takes where there is none."""
    found = node.attributes.get(name)
    return default if found is None else found.value


def from_front(axis: int, rank: int) -> int:
    """An axis counted from the front."""
    return axis + rank if axis < 0 else axis


def axes_argument(node: ir.Node, known: Known, index: int) -> list[int] | None:
    """The axes that a node works on: an attribute in older opsets and the input at `index` in newer ones."""
    given = attribute(node, "axes", None)
    if given is not None:
        return [int(axis) for axis in given]
    return known.integers_of(node.inputs[index]) if len(node.inputs) > index else None


def slices(node: ir.Node, known: Known) -> dict[int, tuple[Size, Size, int]] | None:
    """By axis, the (start, stop, step) of a Slice; None where its axes or steps are computed."""
    given = [node.inputs[i] if i < len(node.inputs) else None for i in range(5)]
    length = next((n for v in given[1:3] if (n := known.axes_of(v)) is not None), (None,))
    count = length[0] if len(length) == 1 else None
    if not isinstance(count, int):
        return None
    starts, stops = (known.numbers_of(v) or (None,) * count for v in given[1:3])
    axes = list(range(count)) if given[3] is None else known.integers_of(given[3])
    steps = [1] * count if given[4] is None else known.integers_of(given[4])
    if axes is None or steps is None:
        return None
    return {axis: (start, stop, step) for axis, start, stop, step in zip(axes, starts, stops, steps, strict=True)}

"""Weights that several graphs of an artifact have in common lie once beside them: an encoder and its decoder read one vocabulary."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import onnx_ir as ir

from hotfoot_build.graph import Graph, canonicalize, is_large

FILE = "shared.data"
LEAST = 1 << 16  # bytes: below it a weight is not worth its place in another file
ALIGNMENT = 4096  # so that ONNX Runtime maps it into memory as it lies


def part_out(graphs: Sequence[Graph], folder: Path) -> int:
    """Put large weights that more than one of the graphs has into `folder`/shared.data, in place; gives the bytes that this saves.

    The graphs must be written into the same folder. A graph too large for one message keeps its weights in a file of its own.
    """
    if len(graphs) < 2 or any(map(is_large, graphs)):
        return 0
    found: dict[str, list[ir.Value]] = {}
    for graph in graphs:
        canonicalize(graph)  # drops what nothing reads, and puts the rest in order
        for key, value in {_key(v): v for v in graph.ir.initializers.values() if v.const_value is not None}.items():
            if _size(value) >= LEAST:
                found.setdefault(key, []).append(value)
    common = [values for values in found.values() if len(values) > 1]
    with (folder / FILE).open("wb") as file:
        for values in common:
            file.write(b"\0" * (-file.tell() % ALIGNMENT))
            offset = file.tell()
            file.write(_bytes(values[0]))
            for value in values:
                _point(value, offset, file.tell() - offset, folder)
    if not common:
        (folder / FILE).unlink()
    return sum(_size(value) for values in common for value in values[1:])


def _size(value: ir.Value) -> int:
    """Bytes of an initializer."""
    return 0 if value.const_value is None else int(value.const_value.nbytes)


def _bytes(value: ir.Value) -> bytes:
    if value.const_value is None:
        raise AssertionError("only initializers are shared")
    return bytes(value.const_value.tobytes())


def _key(value: ir.Value) -> str:
    tensor = value.const_value
    if tensor is None or tensor.nbytes < LEAST:
        return f"small {value.name}"
    return f"{tensor.dtype} {tuple(tensor.shape.numpy())} {hashlib.sha256(_bytes(value)).hexdigest()}"


def _point(value: ir.Value, offset: int, length: int, folder: Path) -> None:
    tensor = value.const_value
    if tensor is None or not isinstance(tensor.shape, ir.Shape):
        raise AssertionError("only initializers are shared")
    value.const_value = ir.ExternalTensor(FILE, offset, length, tensor.dtype, shape=tensor.shape, name=str(value.name), base_dir=folder)

"""An artifact's large weights, each once, in one file beside its graphs.

ONNX Runtime maps such a file into memory and lets go of what it has repacked: MiniLM in int8 opens in half the CPU time and 20 MB less
than from one file with everything. It is also what may travel on its own, and where an encoder and its decoder read one vocabulary.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import onnx_ir as ir

from hotfoot.contract.manifest import WEIGHTS, GraphSpec
from hotfoot_build.graph import Graph, canonicalize, describe

LEAST = 1 << 16  # bytes: below it a weight is not worth its place in another file
ALIGNMENT = 4096  # so that ONNX Runtime maps it into memory as it lies


def save(graphs: Sequence[Graph], folder: Path) -> tuple[GraphSpec, ...]:
    """Write the graphs into `folder` in canonical form, and their large weights into weights.data there, if they have any."""
    _part_out(graphs, folder)
    for graph in graphs:
        ir.save(graph.model, folder / _name(graph))
    return tuple(describe(graph, _name(graph)) for graph in graphs)


def size(folder: Path) -> int:
    """Bytes of an artifact's graphs and their weights."""
    return sum(path.stat().st_size for path in (*folder.glob("*.onnx"), folder / WEIGHTS) if path.exists())


def _name(graph: Graph) -> str:
    return f"{graph.role}.onnx"


def _part_out(graphs: Sequence[Graph], folder: Path) -> None:
    found: dict[str, list[ir.Value]] = {}
    for graph in graphs:
        canonicalize(graph)  # drops what nothing reads, and puts the rest in order
        for key, value in _large(graph.ir.initializers.values()):
            found.setdefault(key, []).append(value)
    if not found:
        return
    with (folder / WEIGHTS).open("wb") as file:
        for values in found.values():
            file.write(b"\0" * (-file.tell() % ALIGNMENT))
            offset = file.tell()
            file.write(_bytes(values[0]))
            for value in values:
                _point(value, offset, file.tell() - offset, folder)


def _large(values: Iterable[ir.Value]) -> Iterable[tuple[str, ir.Value]]:
    """Those worth the file, by what they hold."""
    for value in values:
        tensor = value.const_value
        if tensor is not None and tensor.nbytes >= LEAST:
            yield f"{tensor.dtype} {tuple(tensor.shape.numpy())} {hashlib.sha256(_bytes(value)).hexdigest()}", value


def _bytes(value: ir.Value) -> bytes:
    if value.const_value is None:
        raise AssertionError("only initializers have bytes")
    return bytes(value.const_value.tobytes())


def _point(value: ir.Value, offset: int, length: int, folder: Path) -> None:
    tensor = value.const_value
    if tensor is None or not isinstance(tensor.shape, ir.Shape):
        raise AssertionError("only initializers have a place in the file")
    value.const_value = ir.ExternalTensor(WEIGHTS, offset, length, tensor.dtype, shape=tensor.shape, name=str(value.name), base_dir=folder)

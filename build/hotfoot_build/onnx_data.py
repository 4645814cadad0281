"""Where an ONNX file keeps its tensors: the names of its external data files, without loading them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import GraphProto, NodeProto, TensorProto
from onnx.external_data_helper import uses_external_data

from hotfoot.contract.errors import ArtifactError
from hotfoot_build.model_files import is_inside


def external_data(file: Path) -> tuple[str, ...]:
    """Names, relative to the graph's folder and sorted, of the files that hold its external tensors.

    Raises ArtifactError for a file that is no ONNX model, or that names data outside its folder.
    """
    try:
        proto = onnx.load(file, load_external_data=False)
    except DecodeError:
        raise ArtifactError(f"{file} is not an ONNX model.", hint="It may be cut off, or a git-lfs pointer.") from None
    if not proto.graph.node:
        raise ArtifactError(f"{file} is not an ONNX model: it has no nodes.")
    nodes = [n for function in proto.functions for n in function.node]
    tensors = (t for t in (*_tensors(proto.graph), *_node_tensors(nodes)) if uses_external_data(t))
    found = {entry.value for tensor in tensors for entry in tensor.external_data if entry.key == "location"}
    if outside := sorted(n for n in found if not n or not is_inside(n)):
        raise ArtifactError(f"{file} names data outside its folder: {', '.join(map(repr, outside))}.", hint="Do not trust this file.")
    return tuple(sorted(PurePosixPath(n).as_posix() for n in found))


def _tensors(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _node_tensors(graph.node)


def _node_tensors(nodes: Iterable[NodeProto]) -> Iterator[TensorProto]:
    for attribute in (a for node in nodes for a in node.attribute):
        yield from (attribute.t, *attribute.tensors)
        for graph in (attribute.g, *attribute.graphs):
            yield from _tensors(graph)

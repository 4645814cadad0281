"""Run a half-made encoder graph and look inside: what its values are, and which of their axes are the batch and the tokens."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
from numpy.typing import NDArray

from hotfoot.contract.errors import PassError
from hotfoot_build.graph import Graph, is_large, write

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
# two runs whose sizes are no sizes of a model's own: what follows them in both is an axis of them
PROBES = ((3, 7), (2, 11))
Shapes = tuple[tuple[int, ...], ...]


def strange_inputs(graph: Graph) -> list[str]:
    """The graph's inputs that are no encoder's: past keys, a decoder's mask ..."""
    return [str(v.name) for v in graph.ir.inputs if v.name not in INPUTS]


def feed(graph: Graph, ids: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """The graph's inputs for ids of shape (batch, tokens), without padding."""
    known = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    return {str(v.name): known[str(v.name)].astype(np.int64 if v.dtype is None else v.dtype.numpy()) for v in graph.ir.inputs}


@contextmanager
def opened(graph: Graph, wanted: Sequence[ir.Value]) -> Iterator[Any]:
    """A function from feeds to the arrays of `wanted`, computed in fp32 by ONNX Runtime. Raises PassError for a graph that it refuses."""
    before = list(graph.ir.outputs)
    graph.ir.outputs.extend(v for v in dict.fromkeys(wanted) if v not in before)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    with tempfile.TemporaryDirectory(prefix="hotfoot-run-") as folder:
        path = Path(folder, "graph.onnx")
        try:
            write(graph, path)
            names = [str(v.name) for v in wanted]  # writing gave one to each
            source = str(path) if is_large(graph) else path.read_bytes()
            session = ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # ORT's own exception types share no public base
            raise PassError(f"ONNX Runtime {ort.__version__} cannot run the half-made graph: {error}") from error
        finally:
            graph.ir.outputs[:] = before

        def run(given: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
            return list(session.run(names, dict(given)))

        yield run


def shapes(graph: Graph) -> dict[ir.Value, Shapes]:
    """The shape of every computed value at each of PROBES, (batch, tokens)."""
    values = [v for node in graph.ir for v in node.outputs if v.name != ""]  # without a name: an output that is left out
    # ids that every vocabulary has, and no model pads with
    runs = [np.full(size, 3, np.int64) + np.arange(size[1]) % 2 for size in PROBES]
    with opened(graph, values) as run:
        found = [[np.shape(array) for array in run(feed(graph, ids))] for ids in runs]
    return dict(zip(values, zip(*found, strict=True), strict=True))


def is_hidden(shape: Shapes | None) -> bool:
    """Whether a value is (batch, tokens, anything)."""
    return shape is not None and all(len(s) == 3 and s[:2] == size for s, size in zip(shape, PROBES, strict=True))

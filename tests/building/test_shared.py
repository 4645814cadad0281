"""Weights that graphs have in common: once beside them, read by both, and nothing else moved."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from hotfoot_build import graph, shared

ROWS, WIDTH = 200, 128  # 100 kB
COMMON = np.random.default_rng(0).standard_normal((ROWS, WIDTH)).astype(np.float32)


def made(folder: Path, role: str, table: NDArray[np.float32], extra: NDArray[np.float32]) -> graph.Graph:
    nodes = [helper.make_node("Gather", ["table", "ids"], ["rows"]), helper.make_node("Add", ["rows", "extra"], ["out"])]
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "tokens"])
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, ["batch", "tokens", WIDTH])
    weights = [numpy_helper.from_array(table, "table"), numpy_helper.from_array(extra, "extra")]
    model = helper.make_model(
        helper.make_graph(nodes, role, [ids], [out], weights), opset_imports=[helper.make_opsetid("", 18)], ir_version=10
    )
    onnx.save(model, str(folder / f"{role}.source.onnx"))
    return graph.load(folder / f"{role}.source.onnx", role)


def test_what_both_have_is_stored_once(tmp_path: Path) -> None:
    small = [np.full(WIDTH, value, np.float32) for value in (1, 2)]
    graphs = [made(tmp_path, role, COMMON, extra) for role, extra in zip(("encoder", "decoder"), small, strict=True)]
    assert shared.part_out(graphs, tmp_path) == COMMON.nbytes
    assert (tmp_path / shared.FILE).stat().st_size == COMMON.nbytes
    ids = np.array([[3, 199], [0, 7]])
    for current, extra in zip(graphs, small, strict=True):
        path = tmp_path / f"{current.role}.onnx"
        graph.save(current, path)
        assert path.stat().st_size < 5000
        found = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"ids": ids})[0]
        assert np.array_equal(found, COMMON[ids] + extra)
        again = graph.load(path, current.role)  # a later look, as parity's, reads it as any other
        assert any(np.array_equal(v.const_value.numpy(), COMMON) for v in again.ir.initializers.values() if v.const_value is not None)


def test_the_same_graphs_give_the_same_bytes(tmp_path: Path) -> None:
    written = []
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        graphs = [made(folder, role, COMMON, COMMON[:1] * value) for role, value in (("encoder", 1), ("decoder", 2))]
        shared.part_out(graphs, folder)
        for current in graphs:
            graph.save(current, folder / f"{current.role}.onnx")
        written.append([(folder / name).read_bytes() for name in ("encoder.onnx", "decoder.onnx", shared.FILE)])
    assert written[0] == written[1]


@pytest.mark.parametrize("other", [COMMON + 1, COMMON.astype(np.float32)[:, ::-1].copy(), COMMON[:100]])
def test_what_differs_stays(tmp_path: Path, other: NDArray[np.float32]) -> None:
    graphs = [made(tmp_path, role, table, COMMON[:1]) for role, table in (("encoder", COMMON), ("decoder", other))]
    assert shared.part_out(graphs, tmp_path) == 0
    assert not (tmp_path / shared.FILE).exists()


def test_one_graph_keeps_its_own(tmp_path: Path) -> None:
    assert shared.part_out([made(tmp_path, "model", COMMON, COMMON[:1])], tmp_path) == 0
    assert not (tmp_path / shared.FILE).exists()


def test_several_weights_begin_where_they_can_be_mapped(tmp_path: Path) -> None:
    second = COMMON[:150] * 2
    graphs = []
    for role in ("encoder", "decoder"):
        current = made(tmp_path, role, COMMON, COMMON[:1])
        node = next(n for n in current.ir if n.op_type == "Add")
        node.replace_input_with(1, graph.constant(current, "second", second))
        graphs.append(current)
    assert shared.part_out(graphs, tmp_path) == COMMON.nbytes + second.nbytes
    graph.save(graphs[0], tmp_path / "encoder.onnx")
    model = onnx.load(str(tmp_path / "encoder.onnx"), load_external_data=False)
    offsets = [int(e.value) for i in model.graph.initializer for e in i.external_data if e.key == "offset"]
    assert len(offsets) == 2
    assert all(offset % shared.ALIGNMENT == 0 for offset in offsets)

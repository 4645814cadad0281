"""Large weights: once beside the graphs, read by all, and nothing else moved."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from hotfoot.contract.manifest import WEIGHTS
from hotfoot_build import graph, weights

ROWS, WIDTH = 200, 128  # 100 kB
COMMON = np.random.default_rng(0).standard_normal((ROWS, WIDTH)).astype(np.float32)


def made(folder: Path, role: str, table: NDArray[np.float32], extra: NDArray[np.float32]) -> graph.Graph:
    nodes = [helper.make_node("Gather", ["table", "ids"], ["rows"]), helper.make_node("Add", ["rows", "extra"], ["out"])]
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "tokens"])
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, ["batch", "tokens", WIDTH])
    held = [numpy_helper.from_array(table, "table"), numpy_helper.from_array(extra, "extra")]
    model = helper.make_model(
        helper.make_graph(nodes, role, [ids], [out], held), opset_imports=[helper.make_opsetid("", 18)], ir_version=10
    )
    onnx.save(model, str(folder / f"{role}.source.onnx"))
    return graph.load(folder / f"{role}.source.onnx", role)


def run(path: Path, ids: NDArray[np.int64]) -> NDArray[np.float32]:
    found: NDArray[np.float32] = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"ids": ids})[0]
    return found


def test_what_both_have_is_stored_once(tmp_path: Path) -> None:
    small = [np.full(WIDTH, value, np.float32) for value in (1, 2)]
    graphs = [made(tmp_path, role, COMMON, extra) for role, extra in zip(("encoder", "decoder"), small, strict=True)]
    specs = weights.save(graphs, tmp_path)
    assert [spec.file for spec in specs] == ["encoder.onnx", "decoder.onnx"]
    assert (tmp_path / WEIGHTS).stat().st_size == COMMON.nbytes
    ids = np.array([[3, 199], [0, 7]])
    for spec, extra in zip(specs, small, strict=True):
        path = tmp_path / spec.file
        assert path.stat().st_size < 5000
        assert np.array_equal(run(path, ids), COMMON[ids] + extra)
        again = graph.load(path, spec.role)  # a later look, as parity's, reads it as any other
        assert any(np.array_equal(v.const_value.numpy(), COMMON) for v in again.ir.initializers.values() if v.const_value is not None)


def test_the_same_graphs_give_the_same_bytes(tmp_path: Path) -> None:
    written = []
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        weights.save([made(folder, role, COMMON, COMMON[:1] * value) for role, value in (("encoder", 1), ("decoder", 2))], folder)
        written.append([(folder / name).read_bytes() for name in ("encoder.onnx", "decoder.onnx", WEIGHTS)])
    assert written[0] == written[1]


def test_what_differs_in_values_or_shape_is_stored_for_each(tmp_path: Path) -> None:
    tables = [COMMON, COMMON + 1, COMMON[:, ::-1].copy(), COMMON.reshape(-1, WIDTH)[:150]]
    graphs = [made(tmp_path, f"g{number}", table, COMMON[:1]) for number, table in enumerate(tables)]
    ids = np.array([[3, 149]])
    for spec, table in zip(weights.save(graphs, tmp_path), tables, strict=True):
        assert np.array_equal(run(tmp_path / spec.file, ids), table[ids] + COMMON[:1])
    assert (tmp_path / WEIGHTS).stat().st_size >= sum(table.nbytes for table in tables)


def test_a_single_graph_parts_with_its_large_weights_only(tmp_path: Path) -> None:
    (spec,) = weights.save([made(tmp_path, "model", COMMON, COMMON[:1])], tmp_path)
    assert (tmp_path / WEIGHTS).read_bytes() == COMMON.tobytes()
    found = onnx.load(str(tmp_path / spec.file), load_external_data=False).graph.initializer
    assert sorted(len(i.external_data) > 0 for i in found) == [False, True]


def test_without_large_weights_there_is_no_file(tmp_path: Path) -> None:
    weights.save([made(tmp_path, "model", COMMON[:8], COMMON[:1])], tmp_path)
    assert not (tmp_path / WEIGHTS).exists()


def test_several_weights_begin_where_they_can_be_mapped(tmp_path: Path) -> None:
    current = made(tmp_path, "model", COMMON, COMMON[:1])
    second = COMMON[:150] * 2
    node = next(n for n in current.ir if n.op_type == "Add")
    node.replace_input_with(1, graph.constant(current, "second", second))
    weights.save([current], tmp_path)
    model = onnx.load(str(tmp_path / "model.onnx"), load_external_data=False)
    offsets = [int(e.value) for i in model.graph.initializer for e in i.external_data if e.key == "offset"]
    assert len(offsets) == 2
    assert all(offset % weights.ALIGNMENT == 0 for offset in offsets)

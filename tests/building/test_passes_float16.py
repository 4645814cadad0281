"""Halves where they do no harm: what would overflow, vanish or lose its digits stays float32."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray
from onnx import helper

from hotfoot.contract.errors import InputError
from hotfoot_build import graph, passes
from hotfoot_build.passes._products import keep, product_of
from support import small_graphs as small
from support import tiny
from support.running import ask, ids_of, saved, session

LAYERS = 2
CLEAN = ("prune", "ort_rewrite")
HALF = ir.DataType.FLOAT16


def normal(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def halved(name: str) -> graph.Graph:
    current = graph.load(tiny.exported(name))
    passes.apply(current, (*CLEAN, "float16"), small.context(name))
    return current


@pytest.mark.parametrize("name", ["embed", "tags", "classes", "score", "shared", "modernbert", "mpnet"])
def test_the_answers_are_the_exported_ones_but_for_the_digits(name: str, tmp_path: Path) -> None:
    current = halved(name)
    doors = [[(v.name, v.dtype) for v in (*current.ir.inputs, *current.ir.outputs)]]
    found, before = saved(current, tmp_path), session(tiny.exported(name))
    assert {dtype for _, dtype in doors[0]} == {ir.DataType.INT32, ir.DataType.FLOAT}
    assert (tmp_path / "model.onnx").stat().st_size < 0.62 * tiny.exported(name).stat().st_size  # shapes and names weigh, in tiny ones
    for length in (1, 2, 15, 60):
        ids, mask = ids_of(length, batch=3), np.ones((3, length), np.int64)
        mask[1, (length + 1) // 2 :] = 0
        ours, theirs = ask(found, ids, mask), ask(before, ids, mask)
        assert np.isfinite(ours).all()
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=6e-3 * max(1.0, float(np.abs(theirs).max())))


def test_only_casts_come_and_softmax_and_masks_stay_float32() -> None:
    current = graph.load(tiny.exported("embed"))
    passes.apply(current, CLEAN, small.context("embed"))
    before = current.op_counts()
    passes.apply(current, ("float16",), small.context("embed"))
    after = current.op_counts()
    assert {op: n for op, n in after.items() if op != "Cast"} == {op: n for op, n in before.items() if op != "Cast"}
    assert after["Cast"] - before["Cast"] == 2 * LAYERS + 1  # around each softmax and its mask, and the output
    weights = [v for v in current.ir.initializers.values() if v.uses() and v.dtype == HALF]
    assert all(np.isfinite(np.asarray(graph.weight_of(v), np.float32)).all() for v in weights)
    products = [node for node in current.ir if node.op_type == "MatMul" and graph.weight_of(node.inputs[1]) is not None]
    assert [node.inputs[1].dtype for node in products if node.inputs[1] is not None] == [HALF] * (6 * LAYERS)


def test_what_stands_in_the_padding_has_no_effect(tmp_path: Path) -> None:
    """A mask of -3.4e38 is infinite in float16, and a sum with it no number."""
    found = saved(halved("embed"), tmp_path)
    ids, mask = ids_of(24, batch=2), np.ones((2, 24), np.int64)
    mask[0, 9:] = 0
    other = np.where(mask == 1, ids, (ids * 7) % 65 + 5)
    ours, theirs = ask(found, ids, mask), ask(found, other, mask)
    assert np.isfinite(ours).all()
    assert np.array_equal(ours[mask == 1], theirs[mask == 1])


def test_layers_that_share_a_weight_share_its_half() -> None:
    current = halved("shared")
    matrices = [w for v in current.ir.initializers.values() if v.uses() and v.dtype == HALF and (w := graph.weight_of(v)) is not None]
    assert len([w for w in matrices if w.shape in ((64, 64), (64, 128), (128, 64))]) == 7  # of six layers, and the pooler's


def feed_forward(folder: Path, size: float) -> graph.Graph:
    """As T5 has it: what leaves the second product reaches `size`, and a sum of squares after it would reach far more."""
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["x"]),
        helper.make_node("MatMul", ["x", "up"], ["u"]),
        helper.make_node("Relu", ["u"], ["r"]),
        helper.make_node("MatMul", ["r", "down"], ["d"], name="down"),
        helper.make_node("Add", ["x", "d"], ["s"]),
        helper.make_node("Pow", ["s", "two"], ["squares"]),
        helper.make_node("ReduceMean", ["squares", "last"], ["mean"]),
        helper.make_node("Add", ["mean", "epsilon"], ["above"]),
        helper.make_node("Sqrt", ["above"], ["root"]),
        helper.make_node("Div", ["s", "root"], ["n"]),
        helper.make_node("Mul", ["n", "scale"], ["scaled"]),
        helper.make_node("MatMul", ["scaled", "out"], ["y"], name="out"),
    ]
    table, up, down = normal(80, 64), normal(64, 96, seed=1), normal(96, 64, seed=2)
    most = np.abs(np.maximum(table @ up, 0) @ down).max()
    weights = {"table": table, "up": up, "down": down * np.float32(size / most), "out": normal(64, 64, seed=3), "scale": normal(64, seed=4)}
    constants = {"two": np.array(2, np.float32), "last": np.array([-1]), "epsilon": np.array(1e-6, np.float32)}
    return small.made(folder, nodes, {**weights, **constants}, {"input_ids": small.TOKENS}, (*small.TOKENS, 64))


def in_halves(current: graph.Graph) -> list[str]:
    found = [p for node in current.ir if (p := node.inputs[1] if node.op_type == "MatMul" else None) is not None and p.dtype == HALF]
    return [str(v.name).removesuffix(".half") for v in found]


@pytest.mark.parametrize(
    ("size", "halves"), [(100.0, ["up", "down", "out"]), (66_000.0, ["up", "out"]), (1e6, ["up", "out"])], ids=["small", "beyond", "far"]
)
def test_a_product_that_would_overflow_stays_float32(size: float, halves: list[str], tmp_path: Path) -> None:
    ids = np.arange(80, dtype=np.int32)[None]
    wanted = saved(feed_forward(tmp_path, size), tmp_path).run(None, {"input_ids": ids})[0]
    current = feed_forward(tmp_path, size)
    passes.apply(current, ("float16",), small.context(calibration=[np.arange(80)]))
    assert in_halves(current) == halves
    answer = saved(current, tmp_path).run(None, {"input_ids": ids})[0]
    assert np.isfinite(answer).all()
    assert small.relative_error(answer, wanted) < 3e-3


def test_without_texts_the_pass_refuses_unless_told_not_to_look(tmp_path: Path) -> None:
    """A CPU would not show it: ONNX Runtime computes in float32 there, and drops the roundings."""
    current = feed_forward(tmp_path, 100_000.0)
    with pytest.raises(InputError, match=r"would overflow on texts, and there are none"):
        passes.apply(current, ("float16",), small.context(calibration=()))
    passes.apply(current, ("float16",), replace(small.context(calibration=()), overrides={"float16": {"texts": 0}}))
    assert in_halves(current) == ["up", "down", "out"]


def test_a_kept_product_stays_float32(tmp_path: Path) -> None:
    current = feed_forward(tmp_path, 100.0)
    for node in current.ir:
        if node.name == "down":
            keep(node)
    passes.apply(current, ("float16",), small.context())
    assert in_halves(current) == ["up", "out"]


def test_numbers_that_halves_lose_the_digits_of_stay_float32(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["x"]),
        helper.make_node("Mul", ["x", "tiny"], ["t"]),
        helper.make_node("Mul", ["t", "huge"], ["y"]),
    ]
    weights = {"table": normal(80, 64), "tiny": np.array(1e-7, np.float32), "huge": np.array(1e7, np.float32)}
    current = small.made(tmp_path, nodes, weights, {"input_ids": small.TOKENS}, (*small.TOKENS, 64))
    passes.apply(current, ("float16",), small.context())
    ids = np.arange(80, dtype=np.int32)[None]
    np.testing.assert_allclose(saved(current, tmp_path).run(None, {"input_ids": ids})[0], weights["table"][ids], rtol=1e-3)


def test_positions_keep_their_digits(tmp_path: Path) -> None:
    """Angles of up to 4000 radians: halves would be off by one."""
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["x"]),
        helper.make_node("Cast", ["input_ids"], ["floats"], to=1),
        helper.make_node("Unsqueeze", ["floats", "last"], ["column"]),
        helper.make_node("MatMul", ["column", "speeds"], ["angles"]),
        helper.make_node("Cos", ["angles"], ["cosines"]),
        helper.make_node("Mul", ["x", "cosines"], ["y"]),
    ]
    weights = {"table": normal(80, 64), "speeds": np.linspace(0.01, 50, 64, dtype=np.float32)[None], "last": np.array([-1])}
    current = small.made(tmp_path, nodes, weights, {"input_ids": small.TOKENS}, (*small.TOKENS, 64))
    ids = np.arange(80, dtype=np.int32)[None]
    wanted = saved(current, tmp_path).run(None, {"input_ids": ids})[0]
    current = graph.load(tmp_path / "small.onnx")
    passes.apply(current, ("float16",), small.context())
    assert in_halves(current) == []
    np.testing.assert_allclose(saved(current, tmp_path).run(None, {"input_ids": ids})[0], wanted, atol=5e-3)


def test_a_graph_without_floats_is_left_alone(tmp_path: Path) -> None:
    nodes = [helper.make_node("Cast", ["input_ids"], ["y"], to=1)]
    current = small.made(tmp_path, nodes, {}, {"input_ids": small.TOKENS}, small.TOKENS)
    [record] = passes.apply(current, ("float16",), replace(small.context()))
    assert (record.applied, record.reason) == (False, "no float32 weights")
    assert product_of(next(iter(current.ir))) is None

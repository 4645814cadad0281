"""One scale a tensor: taken at each call (int8_dynamic), or found on texts (int8_static)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import helper

from hotfoot import targets
from hotfoot.contract.manifest import PassRecord
from hotfoot_build import graph, passes
from hotfoot_build.passes import int8_rowwise, int8_static
from hotfoot_build.passes._calibration import Span
from hotfoot_build.passes._ranges import METHODS
from support import small_graphs as small
from support import tiny
from support.running import ask, saved, session

LAYERS = 2
CLEAN = ("prune", "ort_rewrite")
RANGE = targets.local().int8_range
TABLE = np.random.default_rng(7).normal(size=(80, 64)).astype(np.float32)


def normal(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def applied(current: graph.Graph, *recipe: str, **options: object) -> PassRecord:
    return passes.apply(current, recipe, replace(small.context(), overrides={recipe[0]: options}))[0]


@pytest.mark.parametrize(("name", "quantizer"), [("int8_dynamic", "DynamicQuantizeLinear"), ("int8_static", "QuantizeLinear")])
def test_query_key_and_value_share_one_quantized_input(name: str, quantizer: str) -> None:
    current = graph.load(tiny.exported("embed"))
    passes.apply(current, (*CLEAN, name), replace(small.context("embed"), overrides={name: {} if name == "int8_dynamic" else {"noise": 1}}))
    counts = current.op_counts()
    assert (counts["MatMulIntegerToFloat"], counts[quantizer]) == (6 * LAYERS, 4 * LAYERS)
    assert graph.mixes_rows(current) == (["DynamicQuantizeLinear"] if name == "int8_dynamic" else [])
    assert counts["MatMul"] + counts.get("FusedMatMul", 0) == 2 * LAYERS  # the products of activations


def by_hand(x: NDArray[np.float32], weight: NDArray[np.float32], low: float, high: float) -> NDArray[np.float64]:
    """The formula in exact integers."""
    columns, scales = int8_rowwise.quantize_columns(weight, RANGE)
    scale, zero = int8_static.scale_of(Span(low, high, 1))
    steps = np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.int64) - int(zero)
    result: NDArray[np.float64] = (steps @ columns.astype(np.int64)) * scales.astype(np.float64) * float(scale)
    return result


def test_the_dynamic_product_is_the_formula(tmp_path: Path) -> None:
    weight, bias, x = normal(96, 64), normal(64, seed=1), normal(2, 9, 96, seed=2)
    current = small.product(tmp_path, weight, bias)
    applied(current, "int8_dynamic")
    assert current.op_counts() == {"DynamicQuantizeLinear": 1, "MatMulIntegerToFloat": 1}
    wanted = by_hand(x, weight, float(x.min()), float(x.max())) + bias
    np.testing.assert_allclose(saved(current, tmp_path).run(None, {"x": x})[0], wanted, rtol=1e-4, atol=1e-4)


def test_the_static_product_is_the_formula_and_saturates_beyond_its_range(tmp_path: Path) -> None:
    weight, bias = normal(64, 96), normal(96, seed=1)
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["x"]),
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["y"]),
    ]
    table = TABLE.copy()
    table[75:] *= 10  # words that no text of the calibration has
    stored = {"table": table, "w": weight, "b": bias}
    current = small.made(tmp_path, nodes, stored, {"input_ids": small.TOKENS}, (*small.TOKENS, 96))
    applied(current, "int8_static", rounding="nearest")
    assert current.op_counts() == {"Gather": 1, "MatMulIntegerToFloat": 1, "QuantizeLinear": 1}
    seen = table[np.unique(np.concatenate(small.RAGGED))]
    [node] = small.nodes_of(current, "QuantizeLinear")
    scale = graph.weight_of(node.inputs[1])
    assert scale == pytest.approx((seen.max() - seen.min()) / 255, rel=4e-3)  # rounded outwards to ten bits
    ids = np.arange(70, 80, dtype=np.int32)[None]
    low, high = (float(np.sign(v) * np.ceil(abs(v) * 256) / 256) for v in (seen.min(), seen.max()))
    wanted = by_hand(table[ids], weight, low, high) + bias
    np.testing.assert_allclose(saved(current, tmp_path).run(None, {"input_ids": ids})[0], wanted, rtol=1e-3, atol=0.1)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_keeps_the_answers_near(method: str, tmp_path: Path) -> None:
    current = graph.load(tiny.exported("embed"))
    passes.apply(
        current, (*CLEAN, "int8_static", "int8_rowwise"), replace(small.context("embed"), overrides={"int8_static": {"method": method}})
    )
    found, before = saved(current, tmp_path), session(tiny.exported("embed"))
    for ids in small.texts(5, 30, 60, seed=3):
        error = small.relative_error(ask(found, ids[None]), ask(before, ids[None]))
        assert error < (0.25 if method == "entropy" else 0.08)


def test_a_text_s_padding_is_in_no_range() -> None:
    """Ranges come of each text alone: the same with texts of other lengths between them, and other than with padding."""
    found = []
    for texts in (small.RAGGED, small.RAGGED[::-1]):
        current = graph.load(tiny.exported("embed"))
        passes.apply(current, (*CLEAN, "int8_static"), small.context("embed", calibration=texts))
        scales = [graph.weight_of(node.inputs[1]) for node in small.nodes_of(current, "QuantizeLinear")]
        found.append([float(scale) for scale in scales if scale is not None])
    assert found[0] == found[1]
    lone = tiny.optimised("embed", (*CLEAN, "int8_static"), small.context("embed", calibration=small.texts(1, 1)))
    assert len(small.nodes_of(lone, "QuantizeLinear")) > 0


def with_outliers(folder: Path) -> graph.Graph:
    """Two products; what the second reads is small but for one word, which is huge."""
    table = TABLE.copy()
    table[75] *= 300
    return small.embedded(folder, [np.eye(64, dtype=np.float32), normal(64, 64)], table=table)


def test_a_tensor_that_one_scale_would_drown_in_noise_is_left_to_the_rows(tmp_path: Path) -> None:
    texts = (*small.RAGGED, np.array([75, 30, 31]))
    ids = np.array([[30, 31, 32, 40]], np.int32)
    wanted = saved(with_outliers(tmp_path), tmp_path).run(None, {"input_ids": ids})[0]
    errors, counts = {}, {}
    for noise in (int8_static.NOISE, 1.0):
        current = with_outliers(tmp_path)
        known = replace(small.context(calibration=texts), overrides={"int8_static": {"noise": noise}})
        records = passes.apply(current, ("int8_static", "int8_rowwise"), known)
        counts[noise] = [r.ops_after.get("MatMulIntegerToFloat", 0) for r in records]
        errors[noise] = small.relative_error(saved(current, tmp_path).run(None, {"input_ids": ids})[0], wanted)
    assert counts == {int8_static.NOISE: [0, 2], 1.0: [2, 2]}
    assert errors[int8_static.NOISE] < 0.02
    assert errors[1.0] > 0.2


def test_smoothing_changes_the_weights_and_not_the_answers(tmp_path: Path) -> None:
    """Only the scale of the normalisation, where nothing else reads it; a residual keeps what it had."""
    scale = np.geomspace(0.05, 20, 64).astype(np.float32)
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["x"]),
        helper.make_node("LayerNormalization", ["x", "scale", "shift"], ["n"]),
        helper.make_node("MatMul", ["n", "w"], ["p"]),
        helper.make_node("Add", ["p", "n"], ["y"]),
    ]
    weights = {"table": TABLE, "scale": scale, "shift": normal(64), "w": normal(64, 64)}
    ids = small.texts(30, seed=4)[0][None].astype(np.int32)
    errors = {}
    for share in (0.0, 0.7):
        current = small.made(tmp_path, nodes, weights, {"input_ids": small.TOKENS}, (*small.TOKENS, 64))
        wanted = saved(current, tmp_path).run(None, {"input_ids": ids})[0]
        current = small.made(tmp_path, nodes, weights, {"input_ids": small.TOKENS}, (*small.TOKENS, 64))
        applied(current, "int8_static", smooth=share, noise=1, rounding="nearest")
        assert current.op_counts().get("Mul", 0) == (1 if share else 0)
        errors[share] = small.relative_error(saved(current, tmp_path).run(None, {"input_ids": ids})[0], wanted)
    assert errors[0.7] < 0.8 * errors[0.0]


def test_few_integers_are_better_rounded_with_feedback(tmp_path: Path) -> None:
    table = normal(80, 12) @ normal(12, 64, seed=1)
    ids = small.texts(60, seed=4)[0][None].astype(np.int32)
    wanted = saved(small.embedded(tmp_path, [normal(64, 64)], table=table), tmp_path).run(None, {"input_ids": ids})[0]
    errors = {}
    for rounding in ("feedback", "nearest"):
        current = small.embedded(tmp_path, [normal(64, 64)], table=table)
        applied(current, "int8_static", rounding=rounding, weight_range=15, noise=1)
        weights = [
            w for w in map(graph.weight_of, current.ir.initializers.values()) if w is not None and w.dtype == np.int8 and w.ndim == 2
        ]
        assert np.abs(weights[0].astype(int)).max() <= 15
        errors[rounding] = small.relative_error(saved(current, tmp_path).run(None, {"input_ids": ids})[0], wanted)
    assert errors["feedback"] < 0.8 * errors["nearest"]


def test_weights_stay_in_the_target_s_range() -> None:
    for largest in (64, 127):
        for name in ("int8_dynamic", "int8_static"):
            known = replace(small.context("embed"), target=tiny.narrow(targets.local(), largest))
            current = graph.load(tiny.exported("embed"))
            passes.apply(current, (*CLEAN, name), known)
            integers = [graph.weight_of(node.inputs[1]) for node in small.nodes_of(current, "MatMulIntegerToFloat")]
            assert max(int(np.abs(w.astype(int)).max()) for w in integers if w is not None) == largest

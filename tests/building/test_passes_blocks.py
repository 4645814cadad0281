"""Weights in blocks: the integers are right, the product is theirs, and every node says how exactly it computes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import helper

from hotfoot.contract.errors import InputError
from hotfoot.contract.manifest import PassRecord
from hotfoot_build import graph, passes
from hotfoot_build.passes import _blocks as blocks
from hotfoot_build.passes import _feedback as feedback
from hotfoot_build.passes._blocks import Layout
from support import small_graphs as small
from support import tiny
from support.running import saved

LAYERS = 2
CLEAN = ("prune", "ort_rewrite")
BITS = {"int8_weights": 8, "int4_weights": 4}


def normal(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def applied(current: graph.Graph, name: str, **options: object) -> PassRecord:
    known = replace(small.context(calibration=()), overrides={name: options})
    return passes.apply(current, (name,), known)[0]


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize(("depth", "block"), [(64, 32), (101, 16), (40, 64)])
def test_weights_are_right_to_half_a_step(depth: int, block: int, bits: int, symmetric: bool) -> None:
    weight = normal(depth, 24) * np.geomspace(0.01, 10, 24, dtype=np.float32)
    weight[:16, 3] = 0  # a block of zeros has no scale
    made = blocks.nearest(weight, Layout(bits, block, symmetric, 4))
    assert made.integers.shape == (24, -(-depth // block), block)
    error = blocks.padded(np.abs(made.floats(depth) - weight), block)
    steps = np.abs(made.scales)[..., None]
    if bits == 8:
        assert (error <= steps * 0.501).all()
    else:  # its largest weights may be clipped, where that pays
        assert (error <= steps * 0.501).mean() > 0.9
    assert (made.floats(depth)[:16, 3] == 0).all() if block == 16 else True


@pytest.mark.parametrize("symmetric", [True, False])
def test_a_fitted_scale_beats_that_of_the_largest_weight(symmetric: bool) -> None:
    weight = normal(128, 64)
    made = blocks.nearest(weight, Layout(4, 32, symmetric, 4)).floats(128)
    shaped = blocks.padded(weight, 32)
    scale = np.abs(shaped).max(-1, keepdims=True) / 7
    plain = (np.clip(np.rint(shaped / scale), -8, 7) * scale).reshape(64, -1).T
    assert np.square(made - weight).sum() < 0.8 * np.square(plain - weight).sum()


def test_what_costs_more_is_more_exact() -> None:
    weight, importance = normal(64, 32), np.where(np.arange(64) % 8 == 0, 100, 1).astype(np.float32)
    layout = Layout(4, 32, symmetric=False, level=4)
    plain, weighed = (np.square(blocks.nearest(weight, layout, cost).floats(64) - weight) for cost in (None, importance))
    assert weighed[::8].sum() < 0.7 * plain[::8].sum()


def activations(depth: int, rows: int, seed: int = 1) -> NDArray[np.float32]:
    """Rows whose channels go together, as those of a real model do."""
    mixing = normal(depth // 4, depth, seed=seed)
    return normal(rows, depth // 4, seed=seed + 1) @ mixing + 0.1 * normal(rows, depth, seed=seed + 2)


@pytest.mark.parametrize("depth", [96, 101])
def test_feedback_makes_the_product_s_error_small(depth: int) -> None:
    weight, x, other = normal(depth, 48), activations(depth, 2000), activations(depth, 500)
    layout = Layout(4, 32, symmetric=False, level=4)
    moments = (x.T @ x / len(x)).astype(np.float32)
    fed = feedback.in_blocks(weight, moments, layout).floats(depth)
    nearest = blocks.nearest(weight, layout).floats(depth)
    for rows in (x, other):  # those it was fitted to, and others of the kind
        assert small.relative_error(rows @ fed, rows @ weight) < 0.7 * small.relative_error(rows @ nearest, rows @ weight)
    integers, scales = feedback.in_columns(weight, moments, 15)
    assert np.abs(integers).max() <= 15
    rounded = np.rint(weight / scales) * scales
    assert small.relative_error(other @ (integers * scales), other @ weight) < 0.7 * small.relative_error(other @ rounded, other @ weight)


def test_feedback_without_activations_rounds_to_the_nearest() -> None:
    weight, layout = normal(64, 16), Layout(8, 32, symmetric=True, level=4)
    fed = feedback.in_blocks(weight, np.zeros((64, 64), np.float32), layout)
    assert np.array_equal(fed.integers, blocks.nearest(weight, layout).integers)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("level", [0, 1, 4])
@pytest.mark.parametrize("name", BITS)
@pytest.mark.parametrize(("depth", "columns"), [(64, 64), (101, 97), (33, 64)])
def test_the_product_is_that_of_the_integers(name: str, depth: int, columns: int, level: int, symmetric: bool, tmp_path: Path) -> None:
    weight, bias, x = normal(depth, columns), normal(columns, seed=1), normal(2, 9, depth, seed=2)
    current = small.product(tmp_path, weight, bias)
    applied(current, name, accuracy_level=level, symmetric=symmetric)
    assert current.op_counts() == {"MatMulNBits": 1}  # the bias is in it
    [node] = small.nodes_of(current, "MatMulNBits")
    made = blocks.nearest(
        weight,
        Layout(small.attribute(node, "bits"), small.attribute(node, "block_size"), len(node.inputs) < 4 or node.inputs[3] is None, level),
    )
    answer = saved(current, tmp_path).run(None, {"x": x})[0]
    # at level 4 each block of activations is rounded to 8 bits
    assert small.relative_error(answer, x @ made.floats(depth) + bias) < (1e-2 if level == 4 else 1e-5)
    assert small.relative_error(answer, x @ weight + bias) < {8: 0.02, 4: 0.15}[small.attribute(node, "bits")]


def test_a_gemm_keeps_its_bias_and_may_hold_its_matrix_turned(tmp_path: Path) -> None:
    weight, x = normal(96, 64), normal(5, 64, seed=1)
    for bias, ops in ((normal(96, seed=2), {"MatMulNBits": 1}), (normal(1, 1, seed=2), {"Add": 1, "MatMulNBits": 1})):
        node = helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1)
        current = small.made(tmp_path, [node], {"w": weight, "b": bias}, {"x": ("rows", 64)}, ("rows", 96))
        applied(current, "int8_weights")
        assert current.op_counts() == ops
        assert small.relative_error(saved(current, tmp_path).run(None, {"x": x})[0], x @ weight.T + bias) < 0.02


def test_a_bias_is_only_taken_from_an_add_that_nothing_else_reads_around(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["s"]),
        helper.make_node("Mul", ["s", "p"], ["y"]),
    ]
    weight, bias, x = normal(64, 64), normal(64, seed=1), normal(1, 3, 64, seed=2)
    current = small.made(tmp_path, nodes, {"w": weight, "b": bias}, {"x": (*small.TOKENS, 64)}, (*small.TOKENS, 64))
    applied(current, "int8_weights")
    assert current.op_counts() == {"Add": 1, "MatMulNBits": 1, "Mul": 1}
    wanted = (x @ weight + bias) * (x @ weight)
    assert small.relative_error(saved(current, tmp_path).run(None, {"x": x})[0], wanted) < 0.02


def tied(folder: Path, kind: str, table: NDArray[np.float32]) -> graph.Graph:
    """A table that is looked up in, and whose turned form is the matrix of the last product."""
    words = len(table)
    look_up = helper.make_node("Gather", ["table", "input_ids"], ["x"])
    nodes = {
        "fused": [look_up, helper.make_node("FusedMatMul", ["x", "table"], ["y"], domain="com.microsoft", transB=1)],
        "turned": [look_up, helper.make_node("Transpose", ["table"], ["t"], perm=[1, 0]), helper.make_node("MatMul", ["x", "t"], ["y"])],
    }[kind]
    return small.made(folder, nodes, {"table": table}, {"input_ids": small.TOKENS}, (*small.TOKENS, words))


@pytest.mark.parametrize("name", BITS)
@pytest.mark.parametrize("kind", ["fused", "turned"])
def test_a_tied_table_is_stored_once_in_8_bits(kind: str, name: str, tmp_path: Path) -> None:
    table, ids = normal(300, 64), small.texts(7)[0][None].astype(np.int32)
    current = tied(tmp_path, kind, table)
    applied(current, name)
    assert not {"MatMul", "FusedMatMul", "Transpose"} & set(current.op_counts())
    [node] = small.nodes_of(current, "MatMulNBits")
    assert small.attribute(node, "bits") == 8
    answer = saved(current, tmp_path).run(None, {"input_ids": ids})[0]
    assert (tmp_path / "model.onnx").stat().st_size < 0.35 * table.nbytes
    assert small.relative_error(answer, table[ids] @ table.T) < 0.02


def test_a_table_that_something_else_reads_keeps_its_floats_for_that(tmp_path: Path) -> None:
    table, ids = normal(300, 64), small.texts(7)[0][None].astype(np.int32)
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["x"]),
        helper.make_node("FusedMatMul", ["x", "table"], ["p"], domain="com.microsoft", transB=1),
        helper.make_node("ReduceMax", ["table"], ["m"], keepdims=0),
        helper.make_node("Add", ["p", "m"], ["y"]),
    ]
    current = small.made(tmp_path, nodes, {"table": table}, {"input_ids": small.TOKENS}, (*small.TOKENS, 300))
    applied(current, "int8_weights")
    assert current.op_counts() == {"Add": 1, "Gather": 1, "MatMulNBits": 1, "ReduceMax": 1}
    answer = saved(current, tmp_path).run(None, {"input_ids": ids})[0]
    assert small.relative_error(answer, table[ids] @ table.T + table.max()) < 0.02


@pytest.mark.parametrize(("depth", "rows", "bits"), [(64, small.TOKENS, 4), (64, ("batch",), 8), (72, small.TOKENS, 8)])
def test_products_that_4_bits_would_make_depend_on_the_batch_take_8(depth: int, rows: small.Shape, bits: int, tmp_path: Path) -> None:
    """One row a text; or a depth that blocks of 32 do not divide."""
    current = small.product(tmp_path, normal(depth, 64), rows=rows)
    applied(current, "int4_weights")
    [node] = small.nodes_of(current, "MatMulNBits")
    assert small.attribute(node, "bits") == bits
    assert graph.mixes_rows(current) == []


def test_below_level_4_a_product_of_one_row_a_text_stays_float(tmp_path: Path) -> None:
    for name in BITS:
        current = small.product(tmp_path, normal(64, 64), rows=("batch",))
        record = applied(current, name, accuracy_level=1)
        assert (record.applied, current.op_counts()) == (False, {"MatMul": 1})


@pytest.mark.parametrize(("name", "block", "mixes"), [("int8_weights", 64, False), ("int8_weights", 128, True), ("int4_weights", 64, True)])
def test_blocks_whose_sums_depend_on_the_number_of_rows_are_seen(name: str, block: int, mixes: bool, tmp_path: Path) -> None:
    current = small.product(tmp_path, normal(128, 64))
    applied(current, name, block_size=block)
    assert graph.mixes_rows(current) == (["MatMulNBits"] if mixes else [])


@pytest.mark.parametrize("name", BITS)
def test_every_node_says_its_accuracy_level(name: str) -> None:
    for level in (1, 4):
        asked = replace(small.context("embed"), overrides={name: {"accuracy_level": level}})
        current = graph.load(tiny.exported("embed"))
        passes.apply(current, (*CLEAN, name), asked)
        levels = [small.attribute(node, "accuracy_level") for node in small.nodes_of(current, "MatMulNBits")]
        assert levels == [level] * (6 * LAYERS)


@pytest.mark.parametrize("name", BITS)
def test_at_level_4_a_huge_channel_costs_its_block_and_at_level_1_nothing(name: str, tmp_path: Path) -> None:
    """One channel a thousand times the others, as some language models have it: why the level can be chosen."""
    weight, x = normal(64, 64), normal(1, 8, 64, seed=1)
    x[..., 5] *= 1000
    weight[5] /= 1000
    errors = {}
    for level in (1, 4):
        current = small.product(tmp_path, weight)
        applied(current, name, accuracy_level=level, block_size=32)
        [node] = small.nodes_of(current, "MatMulNBits")
        made = blocks.nearest(weight, Layout(BITS[name], 32, len(node.inputs) < 4, level)).floats(64)
        errors[level] = small.relative_error(saved(current, tmp_path).run(None, {"x": x})[0], x @ made)
    assert errors[1] < 1e-5
    assert errors[4] > 100 * errors[1]


@pytest.mark.parametrize("name", BITS)
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"block_size": 48}, r"block_size is 48; it must be a power of two from 16 to 256"),
        ({"accuracy_level": 3}, r"accuracy_level is 3; it must be one of 0, 1, 4"),
    ],
)
def test_blocks_and_levels_that_there_are_not(name: str, options: dict[str, int], said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        applied(small.product(tmp_path, normal(64, 64)), name, **options)

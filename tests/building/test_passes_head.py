"""The last layer computes the row that the head reads, and the answers stay what they were."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from hotfoot.contract.manifest import Side
from hotfoot_build import graph, passes, shapes
from hotfoot_build.passes import Context
from support import tiny
from support.asking import LENGTHS, ask, context, ids_of, opened, padded, randomise_biases

BEFORE = ("prune", "static_shapes", "attention_mask", "ort_rewrite", "pool_in_graph")
INT8 = ("int8_rowwise",)
# model, and how many nodes it takes: one pick, and one more for each further value with rows of its own (positions, angles, sizes)
MODELS = {"classes": 1, "score": 1, "shared": 1, "embed": 1, "mpnet": 2, "modernbert": 5, "deberta": 8}


def chosen(name: str) -> Context:
    return context(name, pooling="cls", normalize=True) if name in ("embed", "mpnet") else context(name)


def before_and_after(name: str, more: tuple[str, ...] = ()) -> tuple[graph.Graph, graph.Graph]:
    """The same graph without the pass and with it; no bias is zero, so none can be lost unseen."""
    made = []
    for recipe in (more, ("head_only", *more)):
        current = graph.load(tiny.exported(name))
        randomise_biases(current)
        passes.apply(current, (*BEFORE, *recipe), chosen(name))
        made.append(current)
    return made[0], made[1]


def products_of_all_tokens(current: graph.Graph) -> int:
    """Products with a constant matrix that are computed for every token."""
    known = shapes.infer(current.ir)
    products = [n for n in current.ir if n.op_type == "MatMul" and graph.weight_of(n.inputs[1]) is not None]
    return sum("sequence" in (known.axes_of(n.outputs[0]) or ()) for n in products)


@pytest.mark.parametrize("name", MODELS)
def test_the_answers_are_the_same_and_only_picks_are_new(name: str) -> None:
    plain, short = before_and_after(name)
    old, new = plain.op_counts(), short.op_counts()
    assert sum(new.values()) - sum(old.values()) == MODELS[name]
    assert {op for op in new if new[op] != old[op]} <= {"Gather", "Concat"}
    first, second = opened(plain), opened(short)
    for length in LENGTHS:
        ids, mask = padded(length, 3)
        np.testing.assert_allclose(ask(second, ids, mask), ask(first, ids, mask), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("name", "spared"), [("classes", 4), ("score", 4), ("shared", 4), ("embed", 4), ("mpnet", 4), ("modernbert", 3)])
def test_of_the_last_layer_only_keys_and_values_are_of_all_tokens(name: str, spared: int) -> None:
    # query, attention output and both of the feed-forward; ModernBERT makes query, key and value in one product
    plain, short = before_and_after(name)
    assert products_of_all_tokens(plain) - products_of_all_tokens(short) == spared


@pytest.mark.parametrize("name", ["classes", "embed"])
def test_int8_rows_are_the_same_too(name: str) -> None:
    first, second = map(opened, before_and_after(name, INT8))
    for length in LENGTHS:
        ids, mask = padded(length, 2)
        np.testing.assert_allclose(ask(second, ids, mask), ask(first, ids, mask), rtol=0, atol=1e-5)


@pytest.mark.parametrize(("pooling", "side", "picked"), [("last", "left", True), ("last", "right", False), ("cls", "left", False)])
def test_the_last_token_where_padding_stands_on_the_left(pooling: str, side: Side, picked: bool) -> None:
    asked = replace(context("embed", pooling=pooling, normalize=True), pad_side=side)
    plain, short = (graph.load(tiny.exported("embed")) for _ in range(2))
    passes.apply(plain, BEFORE, asked)
    record = passes.apply(short, (*BEFORE, "head_only"), asked)[-1]
    assert record.applied is picked  # elsewhere the row is found by the mask, in a product over all of them
    assert record.reason == ("" if picked else "no single row of the tokens is read")
    ids, mask = ids_of(12, 2), np.ones((2, 12), np.int64)
    mask[1, :5] = 0
    np.testing.assert_allclose(ask(opened(short), ids, mask), ask(opened(plain), ids, mask), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["classes", "score"])
def test_padding_changes_no_bit(name: str) -> None:
    found = opened(before_and_after(name)[1])
    for length in (5, 8, 17, 31, 40):
        ids = ids_of(length)
        alone = ask(found, ids)
        for more in (1, 3, 17):
            wide, mask = np.ones((3, length + more), np.int64), np.ones((3, length + more), np.int64)
            wide[1, :length], mask[1, length:] = ids, 0
            assert np.array_equal(ask(found, wide, mask)[1:2], alone)


@pytest.mark.parametrize(("name", "facts"), [("tags", {}), ("embed", {"pooling": "mean"})])
def test_a_head_that_reads_every_token_is_left_alone(name: str, facts: dict[str, str]) -> None:
    record = passes.apply(graph.load(tiny.exported(name)), (*BEFORE, "head_only"), context(name, **facts))[-1]
    assert record.reason == "no single row of the tokens is read"


def pooled(path: Path, *, also: str) -> Path:
    """h = x·w; the first row of h, plus what `also` makes of h: the graph's only output."""
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["x"]),
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Gather", ["h", "first"], ["row"], axis=1),
        helper.make_node("ReduceMax", ["h", "tokens"], ["most"], keepdims=0),
        helper.make_node("Gather", ["h", "end"], ["last"], axis=1),
        helper.make_node("Identity", ["row"], ["again"]),
        helper.make_node("Add", ["row", also], ["y"]),
    ]
    rng = np.random.default_rng(0)
    weights = {"table": rng.normal(size=(70, 8)), "w": rng.normal(size=(8, 8))}
    stored = [numpy_helper.from_array(a.astype(np.float32), n) for n, a in weights.items()]
    stored += [numpy_helper.from_array(np.array(a, np.int64), n) for n, a in {"first": 0, "end": -1, "tokens": [1]}.items()]
    kept = {"row", "x", "h", also}
    made = helper.make_graph(
        [n for n in nodes if n.output[0] in (kept | {"y"})],
        "pooled",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "sequence"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 8])],
        stored,
    )
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), str(path))
    return path


@pytest.mark.parametrize(
    ("also", "reason"),
    [
        ("again", ""),
        ("most", "all rows are read of what the one row is picked from"),
        ("last", "no single row of the tokens is read"),
    ],
)
def test_rows_that_something_else_reads_are_computed(also: str, reason: str, tmp_path: Path) -> None:
    path = pooled(tmp_path / "pooled.onnx", also=also)
    plain, short = graph.load(path), graph.load(path)
    assert passes.apply(short, ("head_only",), context("embed"))[0].reason == reason
    ids = ids_of(9, 2)
    np.testing.assert_allclose(ask(opened(short), ids), ask(opened(plain), ids), atol=1e-6)


def test_a_second_run_finds_nothing_left() -> None:
    current = before_and_after("classes")[1]
    assert passes.apply(current, ("head_only",), context("classes"))[0].reason == "no single row of the tokens is read"

"""Query, key and value as one product: the same numbers, column by column."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from hotfoot import targets
from hotfoot_build import graph, passes
from hotfoot_build.passes._products import keep
from support import tiny
from support.asking import LENGTHS, ask, context, ids_of, opened, padded, passed, randomise_biases, session

LAYERS = 2
BEFORE = ("prune", "static_shapes", "attention_mask", "ort_rewrite")


def pair(name: str, after: tuple[str, ...] = ()) -> tuple[graph.Graph, graph.Graph]:
    """The same graph without the pass and with it; no bias is zero."""
    made = []
    for recipe in (after, ("merge_qkv", *after)):
        current = graph.load(tiny.exported(name))
        randomise_biases(current)
        passes.apply(current, (*BEFORE, *recipe), context(name))
        made.append(current)
    return made[0], made[1]


@pytest.mark.parametrize(("name", "precision"), [("embed", ()), ("score", ()), ("embed", ("int8_rowwise",))])
def test_the_answers_are_the_same_to_the_bit(name: str, precision: tuple[str, ...]) -> None:
    first, second = map(opened, pair(name, precision))
    for length in LENGTHS:
        ids, mask = padded(length, 3)
        assert np.array_equal(ask(first, ids, mask), ask(second, ids, mask))


def test_three_products_and_biases_are_one() -> None:
    old, new = (current.op_counts() for current in pair("embed"))
    assert old["MatMul"] - new["MatMul"] == 2 * LAYERS
    assert old["Add"] - new["Add"] == 2 * LAYERS
    assert new["Split"] == LAYERS


def test_int8_quantizes_the_one_product() -> None:
    old, new = (current.op_counts() for current in pair("embed", ("int8_rowwise",)))
    assert (old["MatMulIntegerToFloat"], new["MatMulIntegerToFloat"]) == (6 * LAYERS, 4 * LAYERS)
    assert old["QuantizeLinear"] == new["QuantizeLinear"]


def test_layers_that_share_weights_go_on_sharing() -> None:
    old, new = pair("shared")
    assert new.op_counts()["Split"] == 6
    for current in (old, new):
        graph.canonicalize(current)
    assert new.weight_bytes() < old.weight_bytes() + 1000  # one more bias and the widths; a matrix has 49,152


def test_it_fits_into_the_recipes() -> None:
    for precision in ("fp32", "int8"):
        recipe = list(targets.local().recipes[precision])
        place = recipe.index("int8_rowwise") if precision == "int8" else len(recipe)
        chosen = context("embed", pooling="mean", normalize=True)
        plain = passed(tiny.exported("embed"), tuple(recipe), chosen)
        merged = passed(tiny.exported("embed"), (*recipe[:place], "merge_qkv", *recipe[place:]), chosen)
        ids = ids_of(24, 2)
        assert np.array_equal(ask(opened(plain), ids), ask(opened(merged), ids))


def grouped(path: Path, *, biased: tuple[str, ...]) -> Path:
    """Four heads of queries over one of keys and values: products of 64, 16 and 16 columns, and their sum over all."""
    rng = np.random.default_rng(0)
    widths = {"q": 64, "k": 16, "v": 16}
    stored: dict[str, NDArray[np.float32]] = {"table": rng.normal(size=(70, 32)).astype(np.float32)}
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["x"])]
    for name, width in widths.items():
        stored[f"w{name}"] = rng.normal(size=(32, width)).astype(np.float32)
        stored[f"b{name}"] = rng.normal(size=width).astype(np.float32)
        made = f"{name}0" if name in biased else name
        nodes.append(helper.make_node("MatMul", ["x", f"w{name}"], [made]))
        if name in biased:
            nodes.append(helper.make_node("Add", [made, f"b{name}"], [name]))
    nodes.append(helper.make_node("Concat", ["v", "q", "k"], ["y"], axis=-1))
    built = helper.make_graph(
        nodes,
        "grouped",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "sequence"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "sequence", 96])],
        [numpy_helper.from_array(array, name) for name, array in stored.items()],
    )
    onnx.save(helper.make_model(built, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), str(path))
    return path


@pytest.mark.parametrize(("biased", "adds"), [((), 0), (("q", "k", "v"), 1), (("q", "v"), 2)])
def test_heads_of_other_widths(biased: tuple[str, ...], adds: int, tmp_path: Path) -> None:
    path = grouped(tmp_path / "grouped.onnx", biased=biased)
    current = passed(path, ("merge_qkv",), context("embed"))
    counts = current.op_counts()
    assert (counts["MatMul"], counts["Split"], counts.get("Add", 0)) == (1, 1, adds)
    ids = ids_of(9, 2)
    np.testing.assert_allclose(ask(opened(current), ids), ask(session(path), ids), rtol=0, atol=1e-6)


def test_a_product_that_is_to_stay_stays(tmp_path: Path) -> None:
    current = graph.load(grouped(tmp_path / "grouped.onnx", biased=()))
    keep(next(n for n in current.ir if n.op_type == "MatMul"))
    passes.apply(current, ("merge_qkv",), context("embed"))
    assert current.op_counts()["MatMul"] == 2


def test_where_nothing_is_shared_it_says_so(tmp_path: Path) -> None:
    current = passed(grouped(tmp_path / "grouped.onnx", biased=()), ("merge_qkv",), context("embed"))
    assert passes.apply(current, ("merge_qkv",), context("embed"))[0].reason == "no 2 products read one tensor"

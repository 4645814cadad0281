"""Each pass does what it says: op counts, the same answers, and sums that are right to the last bit."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from hotfoot import targets, task
from hotfoot.contract.errors import InputError, PassError, UnsupportedError
from hotfoot.contract.manifest import Side
from hotfoot_build import graph, passes
from hotfoot_build.passes import Context, int8_rowwise, ort_rewrite, pool_in_graph
from support import tiny
from support.running import ask, ids_of, saved, session

LAYERS = 2
LENGTHS = (1, 2, 15, 16, 17, 63, 96)


def context(task_name: str = "feature-extraction", **facts: object) -> Context:
    return Context(targets.local(), task.load(task_name), facts, "right")


def original(name: str) -> ort.InferenceSession:
    return session(tiny.exported(name))


def test_every_pass_of_every_recipe_is_in_the_folder() -> None:
    asked = {name for target in map(targets.load, targets.names()) for recipe in target.recipes.values() for name in recipe}
    assert asked <= set(passes.names())
    for name in passes.names():
        found = passes.load(name)
        assert found.name == name
        assert found.summary


def test_an_unknown_pass_lists_those_there_are() -> None:
    with pytest.raises(UnsupportedError, match="int8_rowwise"):
        passes.load("fuse_everything")


def test_prune_keeps_one_output_and_takes_32_bit_ids(tmp_path: Path) -> None:
    current = tiny.optimised("embed", ("prune",), context())
    found = saved(current, tmp_path)
    assert [o.name for o in found.get_outputs()] == ["last_hidden_state"]
    assert {i.type for i in found.get_inputs()} == {"tensor(int32)"}
    assert [i.shape for i in found.get_inputs()] == [["batch", "sequence"]] * 3
    for length in LENGTHS:
        ids = ids_of(length, batch=2)
        assert np.array_equal(ask(found, ids), ask(original("embed"), ids))


@pytest.mark.parametrize("name", ["embed", "plain", "tags", "classes", "score"])
def test_the_fp32_recipe_gives_the_exported_answers_at_every_length(name: str, tmp_path: Path) -> None:
    current = tiny.optimised(name, ("prune", "ort_rewrite"), context(tiny.TASKS[name]))
    found, before = saved(current, tmp_path), original(name)
    for length in LENGTHS:
        ids = ids_of(min(length, 60), batch=3)
        np.testing.assert_allclose(ask(found, ids), ask(before, ids), rtol=0, atol=2e-5)


def test_rewriting_finds_every_gelu() -> None:
    current = tiny.optimised("embed", ("prune", "ort_rewrite"), context())
    counts = current.op_counts()
    assert counts["BiasGelu"] == LAYERS
    assert "Erf" not in counts
    assert counts["LayerNormalization"] == 2 * LAYERS + 1
    assert "SkipLayerNormalization" not in counts


def test_a_gelu_that_is_not_found_fails_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    blind = replace(
        ort_rewrite.PASS,
        options=lambda _c: ort_rewrite.Options((*ort_rewrite.DISABLED, "GeluFusionL1", "GeluFusionL2", "BiasGeluFusion", "GeluFusion")),
    )
    monkeypatch.setattr(ort_rewrite, "PASS", blind)
    with pytest.raises(PassError, match=r"ort_rewrite: 2 of 2 Gelu"):
        tiny.optimised("embed", ("prune", "ort_rewrite"), context())


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("pooling", pool_in_graph.POOLINGS)
@pytest.mark.parametrize("side", ["left", "right"])
def test_pooling_in_the_graph_is_pooling_by_hand(pooling: str, normalize: bool, side: Side, tmp_path: Path) -> None:
    chosen = replace(context(pooling=pooling, normalize=normalize), pad_side=side)
    found = saved(tiny.optimised("embed", ("prune", "pool_in_graph"), chosen), tmp_path)
    assert found.get_outputs()[0].shape == ["batch", 64]
    ids, mask = ids_of(12, batch=3), np.ones((3, 12), np.int64)
    for row, tokens in zip(mask, (12, 7, 1), strict=True):
        padding = row[tokens:] if side == "right" else row[: 12 - tokens]
        padding[:] = 0
    hidden = ask(original("embed"), ids, mask)
    for row, kept, vector in zip(hidden, mask.astype(bool), ask(found, ids, mask), strict=True):
        tokens = row[kept]
        wanted = {"mean": tokens.mean(0), "max": tokens.max(0), "cls": tokens[0], "last": tokens[-1]}[pooling]
        wanted = wanted / np.linalg.norm(wanted) if normalize else wanted
        np.testing.assert_allclose(vector, wanted, atol=1e-5)


def test_a_task_that_reads_tokens_is_not_pooled() -> None:
    current = graph.load(tiny.exported("tags"))
    record = passes.apply(current, ("prune", "pool_in_graph"), context("token-classification"))[1]
    assert not record.applied
    assert record.reason == "the task reads every token"


def test_query_key_and_value_share_one_quantized_input() -> None:
    counts = tiny.optimised("embed", ("prune", "ort_rewrite", "int8_rowwise"), context()).op_counts()
    assert counts["MatMulIntegerToFloat"] == 6 * LAYERS
    assert counts["QuantizeLinear"] == 4 * LAYERS  # q, k and v together; attention output; the two of the feed-forward
    assert counts["MatMul"] + counts.get("FusedMatMul", 0) == 2 * LAYERS  # the products of activations


def test_a_head_of_few_labels_stays_float() -> None:
    current = tiny.optimised("tags", ("prune", "ort_rewrite", "int8_rowwise"), context("token-classification"))
    heads = [n for n in current.ir if n.op_type == "MatMul" and graph.weight_of(n.inputs[1]) is not None]
    assert len(heads) == 1


def test_weights_stay_in_the_target_s_range() -> None:
    for largest in (64, 127):
        chosen = replace(context(), target=tiny.narrow(targets.local(), largest))
        current = tiny.optimised("embed", ("prune", "ort_rewrite", "int8_rowwise"), chosen)
        integers = [graph.weight_of(n.inputs[1]) for n in current.ir if n.op_type == "MatMulIntegerToFloat"]
        assert max(int(np.abs(w.astype(int)).max()) for w in integers if w is not None) == largest


def product_graph(weight: NDArray[np.float32], path: Path) -> Path:
    """y = x @ weight, as the smallest graph that the pass sees."""
    rows, columns = weight.shape
    made = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "sequence", rows])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "sequence", columns])],
        [numpy_helper.from_array(weight, "w")],
    )
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), str(path))
    return path


def quantized_product(weight: NDArray[np.float32], folder: Path, largest: int = 127) -> ort.InferenceSession:
    current = graph.load(product_graph(weight, folder / "product.onnx"))
    chosen = replace(context(), target=tiny.narrow(targets.local(), largest))
    passes.apply(current, ("int8_rowwise",), chosen)
    return saved(current, folder)


def by_hand(x: NDArray[np.float32], weight: NDArray[np.float32], largest: int) -> NDArray[np.float32]:
    """The recipe's formula in numpy, in exact integers."""
    columns, scales = int8_rowwise.quantize_columns(weight, largest)
    most = np.maximum(np.abs(x).max(-1, keepdims=True), np.float32(1e-30))
    integers = np.clip(np.rint(x * (np.float32(127) / most)), -128, 127).astype(np.int64)
    sums = integers @ columns.astype(np.int64)
    result: NDArray[np.float32] = sums.astype(np.float32) * scales * (most * np.float32(1 / 127))
    return result


@pytest.mark.parametrize("rows", [64, 100, 384, 1536])
def test_the_product_is_the_formula(rows: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(rows)
    weight = rng.normal(size=(rows, 96)).astype(np.float32)
    x = rng.normal(size=(2, 9, rows)).astype(np.float32)
    x[0, 3] = 0  # a row of zeros has no scale
    x[1, 1, 5] = 1e4  # an outlier spoils its own row only
    largest = targets.local().int8_range
    answer = quantized_product(weight, tmp_path, largest).run(None, {"x": x})[0]
    np.testing.assert_allclose(answer, by_hand(x, weight, largest), rtol=2e-6, atol=1e-6)
    assert (answer[0, 3] == 0).all()


def test_what_leaves_a_gelu_has_a_zero_point_of_its_own(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    weight = rng.normal(size=(96, 64)).astype(np.float32)
    made = helper.make_graph(
        [helper.make_node("Gelu", ["x"], ["g"], domain="com.microsoft"), helper.make_node("MatMul", ["g", "w"], ["y"])],
        "gelu",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "sequence", 96])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "sequence", 64])],
        [numpy_helper.from_array(weight, "w")],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(made, opset_imports=opsets, ir_version=9), str(tmp_path / "gelu.onnx"))
    current = graph.load(tmp_path / "gelu.onnx")
    passes.apply(current, ("int8_rowwise",), context())
    assert "Abs" not in current.op_counts()
    x = np.concatenate([rng.normal(size=(1, 6, 96)) * 3, np.full((1, 1, 96), -0.7518)], axis=1).astype(np.float32)  # the least of Gelu
    gelu = x * np.array([[[0.5 * (1 + math.erf(v / math.sqrt(2))) for v in row] for row in text] for text in x])
    assert gelu.min() >= -int8_rowwise.LEAST_GELU
    columns, scales = int8_rowwise.quantize_columns(weight, targets.local().int8_range)
    most = np.maximum(gelu.max(-1, keepdims=True), int8_rowwise.LEAST_GELU * 223 / 32)
    steps = np.rint(gelu * 223 / most)
    assert (steps.min(), steps.max()) == (-32, 223)  # the whole of uint8 around the zero point, and no more
    wanted = (steps @ columns.astype(np.float64)) * scales * most / 223
    one_step = float(most.max() / 223 * np.abs(weight).max())  # ONNX Runtime's erf may fall to the other side of a half
    np.testing.assert_allclose(saved(current, tmp_path).run(None, {"x": x})[0], wanted, rtol=1e-4, atol=one_step)


def test_the_largest_sums_do_not_saturate(tmp_path: Path) -> None:
    weight = np.ones((512, 64), np.float32)
    x = np.ones((1, 4, 512), np.float32)
    for sign in (1, -1):
        answer = quantized_product(sign * weight, tmp_path, targets.local().int8_range).run(None, {"x": x})[0]
        assert answer == pytest.approx(sign * 512, rel=1e-6)


def test_a_target_without_32_bit_sums_keeps_pairs_within_16_bits() -> None:
    for target in map(targets.load, targets.names()):
        if not {"vnni", "dotprod"} & set(target.isa):
            assert 2 * 255 * target.int8_range <= np.iinfo(np.int16).max, target.name


def test_unsigned_weights_give_the_same_integers(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    weight, x = rng.normal(size=(96, 80)).astype(np.float32), rng.normal(size=(1, 7, 96)).astype(np.float32)
    largest = targets.local().int8_range
    signed = quantized_product(weight, tmp_path, largest)
    current = graph.load(tmp_path / "model.onnx")
    int8_rowwise.widen_weights(current)
    widened = saved(current, tmp_path, "widened.onnx")
    assert graph.weight_of(next(n for n in current.ir if n.op_type == "MatMulIntegerToFloat").inputs[1]).dtype == np.uint8  # type: ignore[union-attr]
    assert np.array_equal(signed.run(None, {"x": x})[0], widened.run(None, {"x": x})[0])


def test_large_embedding_tables_become_int8_and_small_ones_do_not(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    tables = {"large": rng.normal(size=(5000, 32)).astype(np.float32), "small": rng.normal(size=(512, 32)).astype(np.float32)}
    nodes = [helper.make_node("Gather", [name, "ids"], [f"{name}.rows"]) for name in tables]
    nodes.append(helper.make_node("Add", [f"{name}.rows" for name in tables], ["y"]))
    made = helper.make_graph(
        nodes,
        "tables",
        [helper.make_tensor_value_info("ids", TensorProto.INT32, ["batch", "sequence"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "sequence", 32])],
        [numpy_helper.from_array(array, name) for name, array in tables.items()],
    )
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), str(tmp_path / "tables.onnx"))
    current = graph.load(tmp_path / "tables.onnx")
    passes.apply(current, ("int8_embeddings",), context())
    dtypes = sorted(str(w.dtype) for n in current.ir if n.op_type == "Gather" and (w := graph.weight_of(n.inputs[0])) is not None)
    assert dtypes == ["float32", "float32", "int8"]  # the small table, the scales, the large table
    ids = rng.integers(0, 512, (2, 6), dtype=np.int32)
    wanted = tables["large"][ids] + tables["small"][ids]
    largest = np.abs(tables["large"]).max(axis=1).max()
    np.testing.assert_allclose(saved(current, tmp_path).run(None, {"ids": ids})[0], wanted, atol=float(largest) / 254 + 1e-6)


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_what_stands_in_the_padding_has_no_effect(precision: str, tmp_path: Path) -> None:
    recipe = [name for name in targets.local().recipes[precision] if name not in ("unpadded", "sequence_first")]
    found = saved(tiny.optimised("embed", tuple(recipe), context(pooling="mean", normalize=True)), tmp_path)
    ids, mask = ids_of(24, batch=2), np.ones((2, 24), np.int64)
    mask[0, 9:] = 0
    other = np.where(mask == 1, ids, (ids * 7) % 65 + 5)
    assert np.array_equal(ask(found, ids, mask), ask(found, other, mask))


def test_the_same_graph_gives_the_same_bytes(tmp_path: Path) -> None:
    recipe = targets.local().recipes["int8"]
    for name in ("a.onnx", "b.onnx"):
        saved(tiny.optimised("embed", recipe, context(pooling="mean", normalize=True)), tmp_path, name)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_a_saved_graph_carries_nothing_of_the_exporter(tmp_path: Path) -> None:
    saved(tiny.optimised("embed", targets.local().recipes["int8"], context(pooling="mean")), tmp_path)
    model = onnx.load(str(tmp_path / "model.onnx"))
    assert model.producer_name == "hotfoot"
    assert not model.doc_string
    assert not model.metadata_props
    assert not [n for n in model.graph.node if n.doc_string or n.metadata_props]
    assert {o.domain for o in model.opset_import} == {"", "com.microsoft"}


def test_hotfoot_s_own_recipes_keep_rows_apart() -> None:
    for precision, recipe in targets.local().recipes.items():
        asked = replace(context(pooling="mean", normalize=True), calibration=tuple(ids_of(n)[0] for n in (9, 30)))
        current = tiny.optimised("embed", recipe, asked)
        # one scale a tensor is what the one is, and halves are no CPU's own; the build sees it, and runs its texts one by one
        mixing = {"int8-dynamic": ["DynamicQuantizeLinear"], "fp16": ["MatMul"]}
        assert graph.mixes_rows(current) == mixing.get(precision, []), precision


def test_an_option_may_be_asked_for_by_its_pass() -> None:
    asked = replace(context(pooling="mean"), overrides={"int8_rowwise": {"weight_range": 64}})
    current = graph.load(tiny.exported("embed"))
    records = passes.apply(current, targets.local().recipes["int8"], asked)
    assert {r.name: r.options for r in records}["int8_rowwise"]["weight_range"] == 64
    weights = [w for w in map(graph.weight_of, current.ir.initializers.values()) if w is not None and w.dtype == np.int8 and w.ndim == 2]
    assert max(int(np.abs(w.astype(np.int16)).max()) for w in weights) == 64


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"int4_weights": {}}, r"int4_weights is not in this recipe, which has prune, static_shapes"),
        ({"int8_rowwise": {"range": 64}}, r"int8_rowwise has no option 'range'; it has .*weight_range"),
    ],
)
def test_an_option_that_no_pass_has_is_refused(overrides: dict[str, dict[str, int]], said: str) -> None:
    with pytest.raises(InputError, match=said):
        passes.apply(graph.load(tiny.exported("embed")), targets.local().recipes["int8"], replace(context(), overrides=overrides))

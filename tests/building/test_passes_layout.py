"""The passes that move things about change no answer: no mask, fewer biases, tokens before texts; and smoothing keeps products."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from hotfoot import targets, task
from hotfoot_build import graph, passes, running
from hotfoot_build.passes import Context, _smooth, fold, sequence_first, unpadded
from hotfoot_build.passes._attention import find
from support import tiny
from support.running import ask, ids_of, saved, session

LAYERS = 2
EVERY = ("embed", "tags", "classes", "score", "plain", "shared", "mpnet", "electra", "camembert", "modernbert")
CLEAN = ("prune", "static_shapes", "attention_mask", "ort_rewrite", "unpadded")


def context(name: str, **facts: object) -> Context:
    return Context(targets.local(), task.load({**tiny.TASKS, **tiny.MORE}[name]), facts, "right")


def with_biases(name: str, folder: Path) -> Path:
    """The exported graph with biases as a trained model has them: random models have none."""
    current, rng = graph.load(tiny.exported(name)), np.random.default_rng(0)
    for value in current.ir.initializers.values():
        array = graph.weight_of(value)
        if array is not None and array.ndim == 1 and array.dtype == np.float32 and not array.any():
            value.const_value = ir.tensor(rng.normal(0, 0.5, array.shape).astype(np.float32), name=value.name)
    graph.write(current, folder / "biased.onnx")
    return folder / "biased.onnx"


@pytest.mark.parametrize("name", EVERY)
def test_every_architecture_keeps_its_answers(name: str, tmp_path: Path) -> None:
    source = with_biases(name, tmp_path)
    current = graph.load(source)
    records = passes.apply(current, (*CLEAN, "fold", "sequence_first"), context(name))
    assert {r.name for r in records if r.applied} >= {"unpadded"}
    original, found = session(source), saved(current, tmp_path)
    assert "attention_mask" not in [i.name for i in found.get_inputs()]
    for length in (1, 2, 15, 16, 17, 60):
        for batch in (1, 3):
            ids = ids_of(length, batch=batch)
            np.testing.assert_allclose(ask(found, ids), ask(original, ids), rtol=2e-4, atol=2e-4)


def test_a_bert_layer_keeps_five_additions_and_one_transposition(tmp_path: Path) -> None:
    current = graph.load(with_biases("embed", tmp_path))
    passes.apply(current, CLEAN, context("embed"))
    plain = current.op_counts()
    passes.apply(current, ("fold",), context("embed"))
    folded = current.op_counts()
    assert plain["Add"] - folded["Add"] == 3 * LAYERS  # of keys, of values, in front of the feed-forward's residual
    passes.apply(current, ("sequence_first",), context("embed"))
    turned = current.op_counts()
    assert folded["Transpose"] == 4 * LAYERS
    assert turned["Transpose"] == LAYERS + 2  # the result of each attention; once in, once out
    assert turned["FusedMatMul"] == 2 * LAYERS


def test_the_mask_goes_with_what_is_computed_from_it() -> None:
    current = graph.load(tiny.exported("embed"))
    passes.apply(current, CLEAN[:-1], context("embed"))
    masked = current.op_counts()
    passes.apply(current, ("unpadded",), context("embed"))
    assert masked["Add"] - current.op_counts()["Add"] == LAYERS
    assert not {"Sub", "Cast", "Where"} & set(current.op_counts())


@pytest.mark.parametrize("name", ["embed", "electra", "score", "shared"])
def test_positions_are_sliced_and_a_lone_segment_goes_into_them(name: str, tmp_path: Path) -> None:
    source = with_biases(name, tmp_path)
    current = graph.load(source)
    asked = replace(context(name), one_segment=True, max_tokens=60)
    records = {r.name: r for r in passes.apply(current, (*CLEAN, "position_slice", "one_segment"), asked)}
    assert records["position_slice"].applied
    tables = [w.shape[0] for n in current.ir if n.op_type == "Slice" and (w := graph.weight_of(n.inputs[0])) is not None]
    assert tables == [60]  # cut to the longest input
    original, found = session(source), saved(current, tmp_path)
    had = "token_type_ids" in [i.name for i in original.get_inputs()]
    assert records["one_segment"].applied == had
    assert [i.name for i in found.get_inputs()] == ["input_ids"]
    for length in (1, 17, 60):
        ids = ids_of(length, batch=2)
        np.testing.assert_allclose(ask(found, ids), ask(original, ids), rtol=2e-4, atol=2e-4)


def test_texts_that_may_come_in_pairs_keep_their_segments() -> None:
    current = graph.load(tiny.exported("tags"))
    [*_, record] = passes.apply(current, (*CLEAN, "position_slice", "one_segment"), context("tags"))
    assert (record.applied, record.reason) == (False, "texts may come in pairs")
    assert "token_type_ids" in [v.name for v in current.ir.inputs]


def test_the_passes_say_why_they_leave_a_graph_alone() -> None:
    text = '<ir_version: 9, opset_import: ["" : 18]> g (int32[b,s] input_ids, float[b,s] past) => (float[b,s] y) {y = Neg(past)}'
    decoder = graph.Graph("model", ir.from_onnx_text(text))
    for module in (unpadded, sequence_first):
        assert module.PASS.applies(decoder, module.Options()) == "the graph reads past"
    text = '<ir_version: 9, opset_import: ["" : 18]> g (int32[b,s] input_ids) => (float[b,s] y) {y = Cast<to = 1>(input_ids)}'
    plain = graph.Graph("model", ir.from_onnx_text(text))
    assert unpadded.PASS.applies(plain, unpadded.Options()) == "the graph reads no mask"
    assert fold.PASS.applies(plain, fold.Options()) == "no bias that a neighbour can take"
    assert sequence_first.PASS.applies(plain, sequence_first.Options()) == "no attention whose heads come straight from their projections"


def test_rotary_keys_keep_their_bias() -> None:
    current = graph.load(tiny.exported("modernbert"))
    passes.apply(current, CLEAN, context("modernbert"))
    assert all(attention.query is None and attention.key is None for attention in find(current))


def normed(shift: bool, *, residual: bool) -> graph.Graph:
    """LayerNormalization -> MatMul, with or without a second reader of the normalised rows; channel 3 is far larger than the others."""
    rng = np.random.default_rng(1)
    arrays = {
        "gain": np.ones(32, np.float32),
        "shift": np.full(32, 0.1 * shift, np.float32),
        "w": rng.normal(size=(32, 64)).astype(np.float32),
    }
    arrays["table"] = rng.normal(size=(80, 32)).astype(np.float32)
    arrays["table"][:, 3] *= 40
    after = "z = MatMul(y, w)" + (" out = Concat<axis = 2>(z, y)" if residual else " out = Identity(z)")
    width = 96 if residual else 64
    text = (
        f'<ir_version: 9, opset_import: ["" : 18]> g (int32[batch,sequence] input_ids) => (float[batch,sequence,{width}] out) '
        f"{{x = Gather(table, input_ids) y = LayerNormalization(x, gain, shift) {after}}}"
    )
    made = graph.Graph("model", ir.from_onnx_text(text))
    for name, array in arrays.items():
        tensor = ir.tensor(array, name=name)
        value = next((v for n in made.ir for v in n.inputs if v is not None and v.name == name), None)
        if value is not None:
            value.const_value, value.type, value.shape = tensor, ir.TensorType(tensor.dtype), ir.Shape(array.shape)
            made.ir.register_initializer(value)
    return made


@pytest.mark.parametrize("residual", [False, True])
def test_smoothing_makes_room_for_the_small_channels(residual: bool, tmp_path: Path) -> None:
    ids = np.random.default_rng(2).integers(5, 80, (1, 40))
    wanted = saved(normed(True, residual=residual), tmp_path, "fp32.onnx").run(None, {"input_ids": ids.astype(np.int32)})[0][..., :64]
    errors = []
    for share in (0.0, 0.6):
        current = normed(True, residual=residual)
        asked = replace(context("embed"), calibration=(ids[0],), overrides={"int8_rowwise": {"smooth": share}})
        passes.apply(current, ("int8_rowwise",), asked)
        assert current.op_counts().get("Mul", 0) == 1 + (share > 0 and residual)  # in the normalisation itself, where nothing else reads it
        found = saved(current, tmp_path).run(None, {"input_ids": ids.astype(np.int32)})[0]
        errors.append(float(np.abs(found[..., :64] - wanted).mean()))
        if residual:
            np.testing.assert_allclose(
                found[..., 64:],
                saved(normed(True, residual=True), tmp_path, "b.onnx").run(None, {"input_ids": ids.astype(np.int32)})[0][..., 64:],
                atol=1e-6,
            )
    print(errors)
    assert errors[1] < errors[0] / 2


def test_factors_are_coarse_so_that_every_machine_finds_the_same() -> None:
    current, ids = normed(True, residual=False), np.arange(5, 75)
    product = next(n for n in current.ir if n.op_type == "MatMul")
    [factors] = _smooth.fit(current, [product], [ids], 0.6).values()
    steps = np.log2(factors) * _smooth.STEPS
    np.testing.assert_allclose(steps, np.rint(steps), atol=1e-5)
    assert factors[3] == factors.min() < np.median(factors) == 1


def test_layers_that_share_weights_share_them_in_int8_too() -> None:
    current = graph.load(tiny.exported("shared"))
    asked = replace(context("shared"), calibration=tuple(ids_of(n)[0] for n in (9, 30)))
    passes.apply(current, targets.local().recipes["int8"], asked)
    matrices = [w for v in current.ir.initializers.values() if (w := graph.weight_of(v)) is not None and w.dtype == np.int8 and w.ndim == 2]
    # of six layers' worth: query, key and value read another kind of rows in the first layer, and have a copy for it
    assert len(matrices) <= 7 + 3
    made = sum(node.op_type == "MatMulIntegerToFloat" for node in current.ir)
    assert made >= 6 * 6


def test_a_constant_is_made_once_a_content() -> None:
    current = normed(True, residual=False)
    first, second = (graph.constant(current, "name", np.array([n], np.float32)) for n in (1, 2))
    assert first is not second
    assert [graph.constant(current, "name", np.array([n], np.float32)) for n in (2, 1)] == [second, first]


def test_without_texts_nothing_is_smoothed_and_the_record_says_so() -> None:
    current = normed(True, residual=False)
    [record] = passes.apply(current, ("int8_rowwise",), context("embed"))
    assert record.options == {"weight_range": targets.local().int8_range, "min_columns": 64, "smooth": 0.0}


def test_a_row_without_variance_gives_no_nan(tmp_path: Path) -> None:
    for shift in (False, True):
        current = normed(shift, residual=False)
        table = next(v for v in current.ir.initializers.values() if v.name == "table")
        table.const_value = ir.tensor(np.ones((80, 32), np.float32), name="table")
        passes.apply(current, ("int8_rowwise",), context("embed"))
        answer = saved(current, tmp_path).run(None, {"input_ids": np.full((1, 4), 7, np.int32)})[0]
        assert np.isfinite(answer).all()
        assert answer.any() == shift


def test_shapes_are_seen_by_running() -> None:
    current = graph.load(tiny.exported("embed"))
    passes.apply(current, CLEAN, context("embed"))
    found = running.shapes(current)
    norms = [n.outputs[0] for n in current.ir if n.op_type == "LayerNormalization"]
    assert all(running.is_hidden(found[v]) for v in norms)
    scores = [n.outputs[0] for n in current.ir if n.op_type == "Softmax"]
    assert all(found[v] == ((3, 2, 7, 7), (2, 2, 11, 11)) for v in scores)
    assert [str(o.name) for o in current.ir.outputs] == ["last_hidden_state"]  # as before

"""The fused operators are all there, as the config says, and the answers stay what they were."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from hotfoot.contract.errors import PassError
from hotfoot_build import graph, passes
from support import tiny
from support.asking import LENGTHS, ask, context, ids_of, opened, padded, passed, randomise_biases, real_rows, session

BEFORE = ("prune", "static_shapes", "attention_mask", "ort_rewrite", "pool_in_graph", "head_only")
LAYERS = {"embed": 2, "classes": 2, "score": 2, "shared": 6, "mpnet": 2, "electra": 2, "camembert": 2, "tags": 2, "plain": 2}
# RoBERTa's positions have as many rows as its words, so that the norm of their sum is one of a residual as well
EMBEDDING_NORM = ("classes", "camembert", "plain", "mpnet")


def fused(name: str, **overrides: Any) -> tuple[graph.Graph, graph.Graph]:
    """The same graph without the pass and with it; no bias is zero."""
    chosen = context(name, pooling="mean", normalize=True) if name in ("embed", "mpnet", "plain") else context(name)
    made = []
    for recipe in (BEFORE, (*BEFORE, "fuse")):
        current = graph.load(tiny.exported(name))
        randomise_biases(current)
        passes.apply(current, recipe, replace(chosen, overrides={"fuse": overrides} if "fuse" in recipe and overrides else {}))
        made.append(current)
    return made[0], made[1]


@pytest.mark.parametrize("name", LAYERS)
def test_every_layer_is_fused_and_answers_as_before(name: str) -> None:
    plain, short = fused(name)
    layers, counts = LAYERS[name], short.op_counts()
    assert counts["MultiHeadAttention"] == layers
    assert counts["SkipLayerNormalization"] == 2 * layers + (name in EMBEDDING_NORM)
    assert counts["FastGelu" if name == "shared" else "BiasGelu"] == layers
    assert not {"Softmax", "Transpose", "FusedMatMul"} & set(counts) - ({"Transpose"} if name == "mpnet" else set())
    first, second = opened(plain), opened(short)
    for length in LENGTHS:
        ids, mask = padded(length, 3)
        a, b = (real_rows(ask(found, ids, mask), mask) for found in (first, second))
        np.testing.assert_allclose(a, b, rtol=0, atol=5e-6)


def test_texts_that_run_without_padding_have_no_mask() -> None:
    chosen = context("score")
    before = ("prune", "static_shapes", "attention_mask", "ort_rewrite", "unpadded")
    short = passed(tiny.exported("score"), (*before, "fuse"), chosen)
    attentions = [n for n in short.ir if n.op_type == "MultiHeadAttention"]
    assert len(attentions) == 2
    assert all(len(n.inputs) < 5 or n.inputs[4] is None for n in attentions)
    ids = ids_of(17, 2)
    np.testing.assert_allclose(ask(opened(short), ids), ask(session(tiny.exported("score")), ids), rtol=0, atol=5e-6)


@pytest.mark.parametrize(
    ("overrides", "gone", "kept"),
    [({"skip_norms": False}, "Softmax", "LayerNormalization"), ({"attention": False}, "LayerNormalization", "Softmax")],
)
def test_either_may_be_asked_for_alone(overrides: dict[str, bool], gone: str, kept: str) -> None:
    plain, short = fused("classes", **overrides)
    counts = short.op_counts()
    assert gone not in counts
    assert counts[kept] >= 2
    ids, mask = padded(16, 2)
    np.testing.assert_allclose(ask(opened(short), ids, mask), ask(opened(plain), ids, mask), rtol=0, atol=5e-6)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (
            {"num_hidden_layers": 3},
            "wanted 3 MultiHeadAttention, found 2; wanted 6 SkipLayerNormalization, found 4; wanted 3 BiasGelu, found 2",
        ),
        ({"hidden_act": "gelu_new"}, "fuse: wanted 2 FastGelu, found 0"),
    ],
)
def test_a_shortfall_fails_the_build(config: dict[str, Any], said: str) -> None:
    chosen = context("embed", pooling="mean")
    with pytest.raises(PassError, match=said):
        passed(tiny.exported("embed"), (*BEFORE, "fuse"), replace(chosen, config={**chosen.config, **config}))


@pytest.mark.parametrize("config", [{}, {"model_type": "modernbert", "num_hidden_layers": 2}, {"model_type": "bert"}])
def test_a_model_of_another_kind_is_left_alone(config: dict[str, Any]) -> None:
    current = graph.load(tiny.exported("embed"))
    record = passes.apply(current, (*BEFORE, "fuse"), replace(context("embed", pooling="mean"), config=config))[-1]
    assert record.reason == "config.json is of no model whose layers are known to be BERT's"


def test_a_sum_that_goes_on_is_no_skip_of_its_norm(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["x"]),
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Add", ["x", "h"], ["sum"]),
        helper.make_node("LayerNormalization", ["sum", "scale", "shift"], ["norm"], axis=-1),
        helper.make_node("Add", ["norm", "sum"], ["next"]),
        helper.make_node("LayerNormalization", ["next", "scale", "shift"], ["y"], axis=-1),
    ]
    rng = np.random.default_rng(0)
    stored = {"table": rng.normal(size=(70, 8)), "w": rng.normal(size=(8, 8)), "scale": np.ones(8), "shift": rng.normal(size=8)}
    made = helper.make_graph(
        nodes,
        "norms",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "sequence"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "sequence", 8])],
        [numpy_helper.from_array(array.astype(np.float32), name) for name, array in stored.items()],
    )
    path = tmp_path / "norms.onnx"
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), str(path))
    chosen = replace(context("embed"), overrides={"fuse": {"layers": 1, "attention": False, "gelu": ""}})
    with pytest.raises(PassError, match="wanted 2 SkipLayerNormalization, found 1"):
        passed(path, ("fuse",), chosen)

"""Whoever exported a model, and with whichever attention: the optimised graph is the same, and so are its answers."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from hotfoot import targets, task
from hotfoot.model import Model
from hotfoot_build import graph, passes
from support import tiny
from support.asking import LENGTHS, ask, context, opened, padded, passed, real_rows, session

NAMES = ["embed", "classes", "score"]
MORE = ["tags", "plain", "shared", "camembert", "modernbert"]
NORMAL = ("prune", "static_shapes", "attention_mask")


@cache
def exported_with(attention: str, name: str) -> Path:
    """A tiny model's graph from optimum, with the attention that it is asked for."""
    spec, out = task.load({**tiny.TASKS, **tiny.MORE}[name]).export, tiny.room() / attention / name
    arguments = [str(tiny.models() / name), spec.auto_class, spec.optimum_task, attention, str(out)]
    script = Path(tiny.__file__).with_name("export_as.py")
    done = subprocess.run([str(tiny.interpreter()), str(script), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return out / "model.onnx"


def alike(name: str) -> None:
    for precision, recipe in targets.local().recipes.items():
        if precision not in ("fp32", "int8"):
            continue
        ours, theirs = (passed(exported_with(a, name), recipe, context(name, pooling="mean")) for a in ("eager", "sdpa"))
        assert ours.op_counts() == theirs.op_counts(), precision
        first, second = opened(ours), opened(theirs)
        for length in LENGTHS:
            ids, mask = padded(length, 3)
            a, b = (real_rows(ask(found, ids, mask), mask) for found in (first, second))
            np.testing.assert_allclose(a, b, rtol=0, atol=5e-6 if precision == "fp32" else 0.05)


@pytest.mark.parametrize("name", NAMES)
def test_eager_and_sdpa_become_one_graph(name: str) -> None:
    before = [graph.load(exported_with(a, name)).op_counts() for a in ("eager", "sdpa")]
    assert before[0] != before[1]
    alike(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", MORE)
def test_further_models_become_one_graph(name: str) -> None:
    alike(name)


@pytest.mark.parametrize("name", ["embed", "classes", "score"])
def test_both_scales_are_one_factor_of_the_scores(name: str) -> None:
    current = passed(exported_with("sdpa", name), (*NORMAL, "ort_rewrite"), context(name))
    counts = current.op_counts()
    assert (counts["FusedMatMul"], counts.get("Sqrt", 0), counts.get("Div", 0)) == (2, 0, 0)
    factors = [n.attributes["alpha"].value for n in current.ir if n.op_type == "FusedMatMul"]
    assert factors == pytest.approx([32**-0.5] * 2, rel=1e-6)


@pytest.mark.parametrize("name", ["tags", "classes", "score"])
def test_a_brought_sdpa_file_builds_like_hotfoot_s_own(name: str, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    shutil.copyfile(exported_with("sdpa", name), mine / "model.onnx")
    for file in ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        shutil.copyfile(tiny.models() / name / file, mine / file)
    built = tiny.run_build(tiny.request(name, tmp_path / "out", model=str(mine / "model.onnx")))
    own = tiny.artifact(name)
    assert built.manifest.recipe[-1].ops_after == own.manifest.recipe[-1].ops_after
    text = ("Maria Gonzalez lives in Springfield",)
    ours, theirs = (Model.open(b.path).outputs(text)[1][0] for b in (built, own))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=5e-6)


def scores_graph(path: Path, nodes: list[onnx.NodeProto]) -> Path:
    """Softmax of masked scores (batch, 2, sequence, sequence): `nodes` make `masked` of `scores` and of attention_mask."""
    frame = [
        helper.make_node("Gather", ["table", "input_ids"], ["x"]),
        helper.make_node("Transpose", ["x"], ["columns"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["x", "columns"], ["product"]),
        helper.make_node("Unsqueeze", ["product", "one"], ["narrow"]),
        helper.make_node("Concat", ["narrow", "narrow"], ["scores"], axis=1),
        *nodes,
        helper.make_node("Softmax", ["masked"], ["logits"], axis=-1),
    ]
    stored: dict[str, NDArray[Any]] = {name: np.array(value, np.float32) for name, value in FLOAT_CONSTANTS.items()}
    stored |= {"zero": np.array(0), "one": np.array([1]), "two": np.array([2])}
    stored["table"] = np.random.default_rng(0).normal(size=(70, 8)).astype(np.float32)
    made = helper.make_graph(
        frame,
        "scores",
        [helper.make_tensor_value_info(n, TensorProto.INT64, ["batch", "sequence"]) for n in ("input_ids", "attention_mask")],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 2, "sequence", "sequence"])],
        [numpy_helper.from_array(array, name) for name, array in stored.items()],
    )
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), str(path))
    return path


WIDE = [
    helper.make_node("Unsqueeze", ["attention_mask", "one"], ["rows"]),
    helper.make_node("Unsqueeze", ["rows", "two"], ["wide"]),
]
FLOATS = [*WIDE, helper.make_node("Cast", ["wide"], ["real"], to=TensorProto.FLOAT), helper.make_node("Sub", ["1.0", "real"], ["padding"])]
TRUTHS = [*WIDE, helper.make_node("Cast", ["wide"], ["is_real"], to=TensorProto.BOOL), helper.make_node("Not", ["is_real"], ["is_pad"])]
SUM = helper.make_node("Add", ["scores", "mask"], ["masked"])
MASKS = {
    "times -10000": [*FLOATS, helper.make_node("Mul", ["padding", "-1e4"], ["mask"]), SUM],
    "times lowest": [*FLOATS, helper.make_node("Mul", ["lowest", "padding"], ["mask"]), SUM],
    "chosen filler": [*TRUTHS, helper.make_node("Where", ["is_pad", "-inf", "0.0"], ["mask"]), SUM],
    "chosen real": [*TRUTHS, helper.make_node("Where", ["is_real", "0.0", "lowest"], ["mask"]), SUM],
    "chosen scores": [*TRUTHS, helper.make_node("Where", ["is_real", "scores", "lowest"], ["masked"])],
    "filled scores": [
        *WIDE,
        helper.make_node("Equal", ["wide", "zero"], ["is_pad"]),
        helper.make_node("Where", ["is_pad", "-inf", "scores"], ["masked"]),
    ],
    "expanded": [
        *TRUTHS,
        helper.make_node("Shape", ["scores"], ["sizes"]),
        helper.make_node("Expand", ["is_pad", "sizes"], ["every"]),
        helper.make_node("Where", ["every", "lowest", "scores"], ["masked"]),
    ],
}
FLOAT_CONSTANTS = {"1.0": 1, "0.0": 0, "-10": -10, "-1e4": -1e4, "-inf": -np.inf, "lowest": np.finfo(np.float32).min}
CANONICAL = {"Add": 1, "Cast": 1, "Concat": 1, "Gather": 1, "MatMul": 1, "Mul": 1, "Softmax": 1, "Sub": 1, "Transpose": 1, "Unsqueeze": 2}


@pytest.mark.parametrize("form", MASKS)
def test_every_way_to_mask_is_the_one_mask(form: str, tmp_path: Path) -> None:
    path = scores_graph(tmp_path / "scores.onnx", MASKS[form])
    current = passed(path, NORMAL, context("tags"))
    assert current.op_counts() == CANONICAL
    ids, mask = padded(9, 3)
    np.testing.assert_allclose(ask(opened(current), ids, mask), ask(session(path), ids, mask), rtol=0, atol=1e-7)


ROW = [
    helper.make_node("Unsqueeze", ["attention_mask", "one"], ["rows"]),
    helper.make_node("Transpose", ["rows"], ["column"], perm=[0, 2, 1]),
    helper.make_node("Unsqueeze", ["column", "one"], ["wide"]),
]
OTHERS = {
    # padding by the query's place and not by the key's
    "queries": [*ROW, *FLOATS[2:], helper.make_node("Mul", ["padding", "lowest"], ["mask"]), SUM],
    # a score of its own for real tokens
    "bonus": [*TRUTHS, helper.make_node("Where", ["is_pad", "lowest", "1.0"], ["mask"]), SUM],
    "weak": [*FLOATS, helper.make_node("Mul", ["padding", "-10"], ["mask"]), SUM],
    # swallowed by a large score where a choice would not be
    "weak choice": [*TRUTHS, helper.make_node("Where", ["is_pad", "-1e4", "scores"], ["masked"])],
    "turned": [*TRUTHS, helper.make_node("Where", ["is_real", "lowest", "0.0"], ["mask"]), SUM],
}


@pytest.mark.parametrize("form", OTHERS)
def test_what_only_looks_like_it_is_left_alone(form: str, tmp_path: Path) -> None:
    path = scores_graph(tmp_path / "scores.onnx", OTHERS[form])
    current = graph.load(path)
    records = passes.apply(current, NORMAL, context("tags"))
    assert records[-1].reason == "no scores are masked by attention_mask in another way"
    ids, mask = padded(9, 3)
    np.testing.assert_allclose(ask(opened(current), ids, mask), ask(session(path), ids, mask), rtol=0, atol=1e-7)


def test_large_scores_do_not_reach_over_the_padding(tmp_path: Path) -> None:
    # a filler of -10000 is no filler beside scores of thousands: what stands in the padding would answer
    large = [helper.make_node("Mul", ["scores", "-1e4"], ["large"])]
    nodes = [*large, *MASKS["times -10000"][:-1], helper.make_node("Add", ["large", "mask"], ["masked"])]
    path = scores_graph(tmp_path / "scores.onnx", nodes)
    ids, mask = padded(9, 2)
    other = np.where(mask == 1, ids, (ids * 7) % 50 + 5)
    leaking, tight = session(path), opened(passed(path, NORMAL, context("tags")))
    rows = np.broadcast_to(mask[:, None, :, None], (2, 2, 9, 9)).astype(bool)
    assert not np.array_equal(ask(leaking, ids, mask)[rows], ask(leaking, other, mask)[rows])
    assert np.array_equal(ask(tight, ids, mask)[rows], ask(tight, other, mask)[rows])

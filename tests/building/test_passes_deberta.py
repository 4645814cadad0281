"""Graphs whose exporter left choices between sizes in them: the choice is made at build time, and holds at every length."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from hotfoot import targets, task
from hotfoot.contract.errors import UnsupportedError
from hotfoot_build import branches, graph, passes
from support import tiny
from support.asking import LENGTHS, Ids, ask, context, ids_of, opened, padded, passed, real_rows, session

BATCHES = (1, 3)
Floats = NDArray[np.float32]
OTHERS = ["mpnet", "electra", "camembert", "modernbert", "shared", "plain", "classes", "score", "embed"]


def questions() -> dict[str, tuple[Ids, Ids]]:
    """Ids and mask of every length and batch size, all real and with padding."""
    asked = {}
    for length in LENGTHS:
        for batch in BATCHES:
            asked[f"whole {length}x{batch}"] = ids_of(length, batch), np.ones((batch, length), np.int64)
            asked[f"padded {length}x{batch}"] = padded(length, batch)
    return asked


def by_torch(name: str, folder: Path) -> dict[str, Floats]:
    """The original's answers to `questions`."""
    spec = task.load({**tiny.TASKS, **tiny.MORE}[name]).export
    arrays = {f"{label}.{kind}": a for label, pair in questions().items() for kind, a in zip(("ids", "mask"), pair, strict=True)}
    np.savez(folder / "asked.npz", allow_pickle=False, **arrays)
    script = Path(tiny.__file__).with_name("ask_original.py")
    files = [str(folder / "asked.npz"), str(folder / "answers.npz")]
    arguments = [str(tiny.models() / name), spec.auto_class, spec.output, *files]
    done = subprocess.run([str(tiny.interpreter()), str(script), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    with np.load(folder / "answers.npz") as answers:
        return dict(answers)


def holds_at_every_length(name: str, folder: Path, precision: str, tolerance: float) -> None:
    """With the masks that padding needs, and by the whole recipe, which may do without."""
    whole = tuple(step for step in targets.local().recipes[precision] if step != "pool_in_graph")
    recipes = {"padded": tuple(step for step in whole if step not in ("unpadded", "one_segment")), "whole": whole}
    found = {kind: opened(passed(tiny.exported(name), recipe, context(name))) for kind, recipe in recipes.items()}
    wanted = by_torch(name, folder)
    for label, (ids, mask) in questions().items():
        ours, theirs = (real_rows(a, mask) for a in (ask(found[label.split()[0]], ids, mask), wanted[label]))
        largest = max(1.0, float(np.abs(theirs).max()))
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance * largest, err_msg=label)


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 2e-5), ("int8", 0.1)])
@pytest.mark.parametrize("name", ["deberta", "deberta-tags"])
def test_deberta_holds_at_every_length(name: str, precision: str, tolerance: float, tmp_path: Path) -> None:
    holds_at_every_length(name, tmp_path, precision, tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_other_architectures_hold_at_every_length(name: str, tmp_path: Path) -> None:
    holds_at_every_length(name, tmp_path, "fp32", 2e-5)


def test_the_exporter_s_branches_are_gone() -> None:
    raw = onnx.load(str(tiny.exported("deberta")))
    assert sum(n.op_type == "If" for n in raw.graph.node) == 2
    counts = graph.load(tiny.exported("deberta")).op_counts()
    assert "If" not in counts


def test_sizes_are_worked_out_once() -> None:
    plain, short = (passed(tiny.exported("deberta"), r, context("deberta")).op_counts() for r in (("prune",), ("prune", "static_shapes")))
    sizes = ("Shape", "Concat", "Gather", "Slice", "Squeeze", "Unsqueeze", "Where", "Equal", "ConstantOfShape", "Sqrt")
    before, after = (sum(counts.get(op, 0) for op in sizes) for counts in (plain, short))
    assert after < before / 4
    assert short["MatMul"] == plain["MatMul"]


@pytest.mark.parametrize(("name", "products"), [("deberta", 13), ("deberta-tags", 12)])
def test_its_products_are_quantized(name: str, products: int) -> None:
    # query, key, value, output and feed-forward of two layers, and the pooler; products of constants are done at build time
    assert (
        passed(tiny.exported(name), ("prune", "static_shapes", "ort_rewrite", "int8_rowwise"), context(name)).op_counts()[
            "MatMulIntegerToFloat"
        ]
        == products
    )


def branching(path: Path, sizes: list[str], *, swap: bool = False, named: str = "y") -> Path:
    """y = x, where two of the inputs' sizes are equal, and 2·x otherwise; `swap` asks for the opposite."""
    once = helper.make_graph([helper.make_node("Identity", ["x"], ["same"])], "once", [], [value("same")])
    two = numpy_helper.from_array(np.array(2, np.float32), "two")
    twice = helper.make_graph([helper.make_node("Mul", ["x", "two"], ["other"])], "twice", [], [value("other")], [two])
    then, otherwise = (twice, once) if swap else (once, twice)
    nodes = [
        helper.make_node("Cast", ["input_ids"], ["x"], to=TensorProto.FLOAT),
        helper.make_node("Shape", ["input_ids"], ["a.shape"]),
        helper.make_node("Shape", ["attention_mask"], ["b.shape"]),
        helper.make_node("Gather", ["a.shape", "at.a"], ["a"]),
        helper.make_node("Gather", ["b.shape", "at.b"], ["b"]),
        helper.make_node("Equal", ["a", "b"], ["equal"]),
        helper.make_node("Not" if swap else "Identity", ["equal"], ["condition"]),
        helper.make_node("If", ["condition"], ["chosen" if named != "chosen" else "y"], then_branch=then, else_branch=otherwise),
        *([helper.make_node("Identity", ["chosen"], ["y"])] if named != "chosen" else []),
    ]
    axes = ["batch", "sequence"]
    made = helper.make_graph(
        nodes,
        "branching",
        [helper.make_tensor_value_info(n, TensorProto.INT64, axes) for n in ("input_ids", "attention_mask")],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, axes)],
        [numpy_helper.from_array(np.array(axes.index(size)), f"at.{x}") for x, size in zip("ab", sizes, strict=True)],
    )
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), str(path))
    return path


def value(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, None)


@pytest.mark.parametrize("named", ["y", "chosen"])
@pytest.mark.parametrize("swap", [False, True])
def test_the_branch_that_always_holds_takes_the_place(swap: bool, named: str, tmp_path: Path) -> None:
    path = branching(tmp_path / "model.onnx", ["sequence", "sequence"], swap=swap, named=named)
    current = graph.load(path)
    assert "If" not in current.op_counts()
    assert "Mul" not in current.op_counts()
    ids = ids_of(7, 2)
    assert np.array_equal(ask(opened(current), ids), ids.astype(np.float32))
    assert np.array_equal(ask(session(path), ids), ids.astype(np.float32))


def test_a_choice_that_inputs_decide_is_refused(tmp_path: Path) -> None:
    path = branching(tmp_path / "model.onnx", ["sequence", "batch"])
    with pytest.raises(UnsupportedError, match=r"model\.onnx has If"):
        graph.load(path)
    model = ir.load(path)
    branches.inline(model)
    assert [n.op_type for n in model.graph].count("If") == 1


def test_deberta_keeps_its_rows_apart() -> None:
    for precision in ("fp32", "int8"):
        current = graph.load(tiny.exported("deberta"))
        passes.apply(current, targets.local().recipes[precision], context("deberta"))
        assert graph.mixes_rows(current) == []

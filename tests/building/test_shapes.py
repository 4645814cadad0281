"""What is said of a graph's sizes is what its values turn out to have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from hotfoot import targets
from hotfoot_build import branches, graph, passes, shapes
from hotfoot_build.shapes import Known, Size
from hotfoot_build.shapes.axes import broadcast, left_over
from hotfoot_build.shapes.known import product, quotient
from support import tiny
from support.asking import ask, context, every_value, ids_of, opened, session

NAMES = ["embed", "classes", "score", "tags", "plain", "shared"]
MORE = ["mpnet", "electra", "modernbert", "deberta", "deberta-tags"]
MOST_KNOWN = 0.99  # of the values, a graph's operators being those of a text model


@pytest.mark.parametrize(
    ("above", "below", "wanted"),
    [
        (12, 4, 3),
        (12, 5, None),
        ("batch", 1, "batch"),
        ("2*batch", 2, "batch"),
        ("batch*sequence", "sequence", "batch"),
        ("4*batch*sequence", "2*batch", "2*sequence"),
        ("batch", "sequence", None),
        ("batch", None, None),
        (0, 0, None),
    ],
)
def test_quotients_of_sizes(above: Size, below: Size, wanted: Size) -> None:
    assert quotient(above, below) == wanted


def test_products_of_sizes_have_one_spelling() -> None:
    assert product("sequence", 2, "batch") == product("batch", "2*sequence") == "2*batch*sequence"
    assert product(3, 4) == 12
    assert product("batch", 0) == 0
    assert product("batch", None) is None


@pytest.mark.parametrize(
    ("every", "wanted"),
    [
        ([("batch", 1, 8), (8,)], ("batch", 1, 8)),
        ([("batch", "sequence"), ("batch", 1)], ("batch", "sequence")),
        ([("a", 1), ("b", 1)], (None, 1)),  # either may be 1
        ([(None, 4), (7, 4)], (7, 4)),
        ([("batch",), None], None),
    ],
)
def test_elementwise_operands(every: list[shapes.Sizes | None], wanted: shapes.Sizes | None) -> None:
    assert broadcast(*every) == wanted


def test_what_minus_one_stands_for() -> None:
    assert left_over(("batch", "sequence", 64), ("batch", "sequence", 2, -1)) == 32
    assert left_over(("batch", 2, "sequence", 32), (-1, "sequence", 32)) == "2*batch"
    assert left_over(("batch", 10), (-1, 4)) is None


def compare(path: Path, batch: int, length: int) -> float:
    """Hold what is known to a run's values; the share of values whose every axis is known."""
    model = ir.load(path)
    branches.inline(model)
    known = shapes.infer(model.graph)
    (first, second), *_ = (known.axes[v] for v in model.graph.inputs)
    meant = {str(first): batch, str(second): length}

    def numbers(sizes: shapes.Sizes) -> list[int | None]:
        return [int(np.prod([meant.get(p) or int(p) for p in s.split("*")])) if isinstance(s, str) else s for s in sizes]

    values = every_value(ir.to_proto(model), batch, length)
    whole = 0
    for node in model.graph:
        for output in node.outputs:
            if output.name not in values:
                continue
            said, elements = known.axes.get(output), known.numbers.get(output)
            array = values[str(output.name)]
            if said is not None:
                assert [s if n is None else n for n, s in zip(numbers(said), array.shape, strict=True)] == list(array.shape), output
            if elements is not None:
                flat = array.ravel().tolist()
                assert [f if n is None else n for n, f in zip(numbers(elements), flat, strict=True)] == flat, output
            whole += said is not None and None not in said
    return whole / len(values)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_inferred_is_what_comes_out(name: str) -> None:
    shares = [compare(tiny.exported(name), batch, length) for batch, length in ((3, 7), (2, 31), (1, 1))]
    assert min(shares) >= MOST_KNOWN


@pytest.mark.slow
@pytest.mark.parametrize("name", MORE)
def test_of_further_architectures_too(name: str) -> None:
    shares = [compare(tiny.exported(name), batch, length) for batch, length in ((3, 7), (2, 31), (1, 1))]
    assert min(shares) >= MOST_KNOWN


# the second: products whose rows come before the batch, and weights in blocks
FURTHER = [("prune", "static_shapes", "ort_rewrite", "pool_in_graph"), targets.local().recipes["int4-weights"]]


@pytest.mark.parametrize("recipe", FURTHER)
def test_of_optimised_graphs_too(tmp_path: Path, recipe: tuple[str, ...]) -> None:
    current = graph.load(tiny.exported("embed"))
    passes.apply(current, recipe, context("embed", pooling="mean", normalize=True))
    graph.write(current, tmp_path / "model.onnx")
    assert compare(tmp_path / "model.onnx", 3, 7) >= MOST_KNOWN


def test_of_scales_too(tmp_path: Path) -> None:
    current = graph.load(tiny.exported("embed"))
    passes.apply(current, targets.local().recipes["int8-dynamic"], context("embed", pooling="mean", normalize=True))
    assert graph.mixes_rows(current) == ["DynamicQuantizeLinear"]
    graph.write(current, tmp_path / "model.onnx")
    assert compare(tmp_path / "model.onnx", 3, 7) == 1


def made(path: Path, nodes: list[onnx.NodeProto], output: tuple[str, list[str | int]], constants: dict[str, NDArray[np.generic]]) -> Path:
    """A graph of input_ids."""
    built = helper.make_graph(
        nodes,
        "made",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "sequence"])],
        [helper.make_tensor_value_info(output[0], TensorProto.FLOAT, output[1])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    onnx.save(helper.make_model(built, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), str(path))
    return path


def test_of_two_expands_that_need_each_other_one_stays(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["input_ids"], ["x"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMax", ["x", "last"], ["rows"]),
        helper.make_node("Shape", ["input_ids"], ["sizes"]),
        helper.make_node("Expand", ["rows", "sizes"], ["a"]),
        helper.make_node("Expand", ["scalar", "sizes"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    constants = {"last": np.array([-1]), "scalar": np.ones((1, 1), np.float32)}
    path = made(tmp_path / "model.onnx", nodes, ("y", ["batch", "sequence"]), constants)
    current = graph.load(path)
    passes.apply(current, ("static_shapes",), context("embed"))
    assert current.op_counts()["Expand"] == 1
    ids = ids_of(5, 3)
    assert np.array_equal(ask(opened(current), ids), ask(session(path), ids))


def test_an_expand_whose_size_is_read_changes_no_size(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["input_ids"], ["x"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMax", ["x", "last"], ["rows"]),
        helper.make_node("Shape", ["input_ids"], ["sizes"]),
        helper.make_node("Expand", ["rows", "sizes"], ["wide"]),
        helper.make_node("Neg", ["wide"], ["negative"]),
        helper.make_node("Shape", ["negative"], ["wide.sizes"]),
        helper.make_node("Gather", ["wide.sizes", "one"], ["tokens"]),
        helper.make_node("Cast", ["tokens"], ["count"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["negative", "x"], ["sum"]),
        helper.make_node("Mul", ["sum", "count"], ["y"]),
    ]
    path = made(tmp_path / "model.onnx", nodes, ("y", ["batch", "sequence"]), {"last": np.array([-1]), "one": np.array(1)})
    current = graph.load(path)
    passes.apply(current, ("static_shapes",), context("embed"))
    ids = ids_of(5, 3)
    assert np.array_equal(ask(opened(current), ids), ask(session(path), ids))
    assert "Expand" not in current.op_counts()  # the count is read off the input itself


def test_a_slice_backwards_is_no_slice_that_does_nothing(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["input_ids"], ["x"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["x", "last"], ["column"]),
        helper.make_node("Mul", ["column", "twice"], ["pair"]),
        helper.make_node("Slice", ["pair", "from", "to", "last", "step"], ["turned"]),
        helper.make_node("Slice", ["turned", "zero", "end", "last"], ["y"]),
    ]
    constants = {
        "last": np.array([-1]),
        "twice": np.array([1, 2], np.float32),
        "from": np.array([-1]),
        "to": np.array([-3]),
        "step": np.array([-1]),
        "zero": np.array([0]),
        "end": np.array([np.iinfo(np.int64).max]),
    }
    path = made(tmp_path / "model.onnx", nodes, ("y", ["batch", "sequence", 2]), constants)
    current = graph.load(path)
    passes.apply(current, ("static_shapes",), context("embed"))
    ids = ids_of(4, 2)
    assert np.array_equal(ask(opened(current), ids), np.stack([2 * ids, ids], -1).astype(np.float32))


def test_an_unnamed_axis_is_like_no_other() -> None:
    first, second = (ir.Value(name=n, shape=ir.Shape([None, None]), type=ir.TensorType(ir.DataType.FLOAT)) for n in "ab")
    node = ir.node("Add", [first, second])
    known: Known = shapes.infer(ir.Graph([first, second], node.outputs, nodes=[node], opset_imports={"": 18}))
    assert known.axes_of(first) == ("a.0", "a.1")
    assert known.axes_of(node.outputs[0]) == (None, None)

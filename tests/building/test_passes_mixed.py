"""Products that are named stay in fp32 whatever quantizes the others, and damage says which to name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hotfoot import targets
from hotfoot.contract import codec
from hotfoot.contract.errors import PassError
from hotfoot_build import graph, passes
from hotfoot_build.damage import Report, damage
from hotfoot_build.passes import Context
from support import small_graphs as small
from support import tiny
from support.running import ask, ids_of, saved, session

LAYERS = 2
CLEAN = ("prune", "ort_rewrite")
SCHEMES = ("int8_rowwise", "int8_dynamic", "int8_static", "int8_weights", "int4_weights", "float16")
MADE = {"int8_weights": "MatMulNBits", "int4_weights": "MatMulNBits", "float16": ""}
QUERY, DOWN = "/encoder/layer.1/attention/self/query/MatMul", "/encoder/layer.0/output/dense/MatMul"


def asked(name: str, *layers: str, **more: dict[str, object]) -> Context:
    return replace(small.context(name), overrides={"mixed": {"layers": list(layers)}, **more})


def float_products(current: graph.Graph) -> list[str]:
    """Names of the nodes whose matrix is still float32."""
    found = [(node, graph.weight_of(node.inputs[1])) for node in current.ir if node.op_type == "MatMul"]
    return [str(node.name) for node, weight in found if weight is not None and weight.dtype == np.float32]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_named_products_stay_in_fp32(scheme: str, tmp_path: Path) -> None:
    current = graph.load(tiny.exported("embed"))
    records = passes.apply(current, (*CLEAN, "mixed", scheme), asked("embed", QUERY, DOWN))
    assert records[2].options == {"layers": [QUERY, DOWN]}
    assert float_products(current) == sorted([DOWN, QUERY])
    before, after = session(tiny.exported("embed")), saved(current, tmp_path)
    ids = ids_of(40, batch=2)
    assert small.relative_error(ask(after, ids), ask(before, ids)) < (0.5 if scheme == "int4_weights" else 0.1)
    assert b"hotfoot.keep" not in (tmp_path / "model.onnx").read_bytes()


@pytest.mark.parametrize("scheme", ["int8_rowwise", "int8_static"])
def test_a_kept_product_beside_smoothed_ones_reads_what_it_read(scheme: str, tmp_path: Path) -> None:
    """Query stays and key and value are smoothed: the normalisation in front of all three keeps its scale."""
    current = graph.load(tiny.exported("embed"))
    rng = np.random.default_rng(0)
    passes.apply(current, CLEAN, small.context("embed"))
    norm = next(n for n in current.ir if n.name == QUERY).inputs[0].producer()  # type: ignore[union-attr]
    scale = norm.inputs[1]  # type: ignore[union-attr]
    scale.const_value.numpy()[:] = np.geomspace(0.1, 10, 64)[rng.permutation(64)]  # type: ignore[union-attr]
    graph.write(current, tmp_path / "wide.onnx")
    passes.apply(current, ("mixed", scheme), asked("embed", QUERY))
    ids = ids_of(40, batch=2)
    assert small.relative_error(ask(saved(current, tmp_path), ids), ask(session(tmp_path / "wide.onnx"), ids)) < 0.2


def test_without_names_nothing_is_marked_and_the_record_says_so() -> None:
    current = graph.load(tiny.exported("embed"))
    record = passes.apply(current, (*CLEAN, "mixed"), small.context("embed"))[2]
    assert (record.applied, record.reason) == (False, "no layers are named to stay in fp32")


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(PassError, match=r"no product is called 'encoder/layer\.1/self/query/MatMul'") as refused:
        passes.apply(graph.load(tiny.exported("embed")), (*CLEAN, "mixed"), asked("embed", "encoder/layer.1/self/query/MatMul"))
    assert QUERY in str(refused.value.hint)


@pytest.mark.parametrize("precision", [p for p in targets.local().recipes if p != "fp32"])
def test_every_recipe_takes_the_names(precision: str) -> None:
    current = graph.load(tiny.exported("embed"))
    records = passes.apply(current, targets.local().recipes[precision], asked("embed", DOWN))
    assert {r.name: r.applied for r in records}["mixed"]
    assert float_products(current) == [DOWN]


def harmful(folder: Path) -> graph.Graph:
    """Three products; the second's weights have one huge entry a column, which leaves the others few steps."""
    rng = np.random.default_rng(0)
    weights = [(rng.normal(size=(64, 64)) / 8).astype(np.float32) for _ in range(3)]
    weights[1][rng.integers(0, 64, 64), np.arange(64)] = 40
    return small.embedded(folder, weights)


def test_damage_finds_the_product_that_costs_the_most(tmp_path: Path) -> None:
    current = harmful(tmp_path)
    before, heard = [n.op_type for n in current.ir], list[str]()
    report, other = damage(current, small.context(), ("int8_rowwise", "int8_weights"), texts=6, say=heard.append)
    assert [n.op_type for n in current.ir] == before
    assert (report.scheme, report.texts, other.scheme) == ("int8_rowwise", 6, "int8_weights")
    assert report.worst(1) == ("product.1",)
    assert {d.product for d in report.products} == {"product.0", "product.1", "product.2"}
    assert all(0 <= d.mean <= d.worst for d in report.products)
    assert [p.kept for p in report.curve] == [0, 1]
    assert report.curve[1].mean < 0.7 * report.curve[0].mean  # the other two lose more where weights have a smaller range
    assert heard[0] == "int8_rowwise: 1 of 3 products"
    assert heard[-1] == "int8_weights: the worst 1 in fp32"
    assert codec.loads(Report, codec.dumps(report), "report") == report


def test_damage_of_one_product_is_that_of_the_others_kept(tmp_path: Path) -> None:
    """Measured once more through the mixed pass, by hand."""
    current = harmful(tmp_path)
    [report] = damage(current, small.context(), ("int8_weights",), texts=len(small.RAGGED))
    names = [d.product for d in report.products]
    passes.apply(current, ("mixed", "int8_weights"), asked("embed", *[n for n in names if n != "product.2"]))
    found, original = saved(current, tmp_path), session(tmp_path / "small.onnx")
    errors = [1 - cosine(found.run(None, {"input_ids": ids})[0], original.run(None, {"input_ids": ids})[0]) for ids in asked_ids()]
    assert {d.product: d.mean for d in report.products}["product.2"] == pytest.approx(float(np.mean(errors)), rel=1e-6)


def asked_ids() -> list[NDArray[np.int32]]:
    return [ids[None].astype(np.int32) for ids in small.RAGGED]


def cosine(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    x, y = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    return float(x @ y / (np.linalg.norm(x) * np.linalg.norm(y)))


def test_damage_reads_a_pass_s_own_settings_and_leaves_heads_out() -> None:
    current = graph.load(tiny.exported("tags"))
    passes.apply(current, CLEAN, small.context("tags"))
    known = asked("tags", "unused", int4_weights={"rounding": "nearest"})
    [coarse] = damage(current, known, ("int4_weights",), texts=3)
    [fine] = damage(current, known, ("int8_weights",), texts=3)
    assert len(coarse.products) == len(fine.products) == 6 * LAYERS  # not the head of five labels
    assert [p.kept for p in coarse.curve] == [0, 1, 2, 4]
    assert fine.curve[0].mean < coarse.curve[0].mean / 10

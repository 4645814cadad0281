"""What is learned from texts: of unequal lengths, one by one, with no padding in it and in bounded memory."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray
from onnx import helper

from hotfoot.contract.errors import InputError, PassError
from hotfoot_build import graph, passes
from hotfoot_build.passes import _calibration as calibration
from hotfoot_build.passes import _ranges as ranges
from hotfoot_build.passes._products import products
from support import small_graphs as small
from support.running import saved

TABLE = np.random.default_rng(7).normal(size=(80, 64)).astype(np.float32)


def normal(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def looked_up(folder: Path) -> tuple[graph.Graph, list[ir.Value], NDArray[np.float32]]:
    """A graph whose product reads rows of a table, that value, and all rows of the texts."""
    current = small.embedded(folder, [normal(64, 96), normal(96, 64)], table=TABLE)
    return current, [p.rows for p in products(current)], TABLE[np.concatenate(small.RAGGED)]


def test_texts_are_spread_from_the_shortest_to_the_longest() -> None:
    assert [len(t) for t in calibration.spread(small.RAGGED, 4)] == [3, 9, 25, 60]
    assert sorted(len(t) for t in calibration.spread(small.RAGGED, 100)) == sorted(len(t) for t in small.RAGGED)
    assert calibration.spread((), 5) == ()


def test_spans_are_those_of_all_rows_and_leave_the_graph_as_it_is(tmp_path: Path) -> None:
    current, values, rows = looked_up(tmp_path)
    before = [node.op_type for node in current.ir]
    span = calibration.spans(current, values, small.RAGGED)[values[0]]
    assert [node.op_type for node in current.ir] == before
    assert (span.low, span.high) == (rows.min(), rows.max())
    assert span.power == pytest.approx(float(np.square(rows).mean()), rel=1e-5)


@pytest.mark.parametrize("at_once", [1, 50, 1000])
def test_moments_are_those_of_all_rows(at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "ROWS", at_once)
    monkeypatch.setattr(calibration, "MEMORY", 1)  # a product at a time
    current, _, rows = looked_up(tmp_path)
    found = list(calibration.moments_of(current, products(current), small.RAGGED))
    assert [value.name for value, _ in found] == ["w0", "w1"]
    np.testing.assert_allclose(found[0][1], rows.T @ rows / len(rows), atol=1e-4)


def test_products_of_one_matrix_count_together(tmp_path: Path) -> None:
    weight = normal(64, 64)
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["x"]),
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("MatMul", ["h", "w"], ["y"]),
    ]
    current = small.made(tmp_path, nodes, {"table": TABLE, "w": weight}, {"input_ids": small.TOKENS}, (*small.TOKENS, 64))
    [(value, moments)] = calibration.moments_of(current, products(current), small.RAGGED)
    rows = TABLE[np.concatenate(small.RAGGED)]
    both = np.concatenate([rows, rows @ weight])
    assert value.name == "w"
    np.testing.assert_allclose(moments, both.T @ both / len(both), rtol=1e-3, atol=1e-3)


def test_a_histogram_grows_and_keeps_its_counts() -> None:
    rng, histogram, every = np.random.default_rng(0), ranges.Histogram(), []
    for scale in (0.01, 1, 30, 0.1):
        every.append((rng.normal(size=(7, 50)) * scale).astype(np.float32))
        histogram.add(every[-1])
    whole = np.concatenate([a.ravel() for a in every])
    assert histogram.counts.sum() == whole.size
    assert histogram.limit == 2.0 ** np.ceil(np.log2(np.abs(whole).max()))
    low, high = histogram.inner(100)
    assert low <= whole.min() <= low + histogram.width
    assert high - histogram.width <= whole.max() <= high
    assert histogram.power == pytest.approx(float(np.square(whole).mean()), rel=0.01)
    low, high = histogram.inner(90)
    assert (whole < low).mean() <= 0.05 <= (whole < low + histogram.width).mean()
    assert (whole > high).mean() <= 0.05 <= (whole > high - histogram.width).mean()


def test_entropy_cuts_off_what_is_far_and_rare() -> None:
    rng, histogram = np.random.default_rng(0), ranges.Histogram()
    histogram.add(np.concatenate([rng.normal(size=100_000), [60.0]]).astype(np.float32))
    low, high = histogram.nearest_distribution()
    assert 2 < high < 30
    assert -6 < low < -3
    assert ranges.Histogram().nearest_distribution() == (0.0, 0.0)


@pytest.mark.parametrize("method", ranges.METHODS)
def test_every_method_takes_texts_of_unequal_lengths(method: ranges.Method, tmp_path: Path) -> None:
    current, values, rows = looked_up(tmp_path)
    found = ranges.find(current, values, small.texts(4, 9, 3), method, 99.0)
    assert list(found) == values
    for span in found.values():
        assert span.low < 0 < span.high
    assert found[values[0]].high <= rows.max() * 1.01


def test_memory_does_not_grow_with_the_texts(tmp_path: Path) -> None:
    """512 texts of 60 tokens would be 8 MB of the first activation alone."""
    current, values, _ = looked_up(tmp_path)
    texts = small.texts(*[60] * 512)
    peaks = {}
    for count in (8, 512):
        tracemalloc.start()
        ranges.find(current, values, texts[:count], "percentile", 99.9)
        peaks[count] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peaks[512] < peaks[8] + 500_000


def decoder(folder: Path, *, more: str = "past.0.key") -> graph.Graph:
    """A product over ids and positions, with a cache whose tokens come before the text's own."""
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["x"]),
        helper.make_node("Cast", ["position_ids"], ["positions"], to=1),
        helper.make_node("Unsqueeze", ["positions", "last"], ["column"]),
        helper.make_node("Add", ["x", "column"], ["h"]),
        helper.make_node("ReduceSum", [more], ["cached"], keepdims=0),
        helper.make_node("Add", ["h", "cached"], ["rows"]),
        helper.make_node("MatMul", ["rows", "w"], ["y"]),
    ]
    weights = {"table": TABLE, "w": normal(64, 64), "last": np.array([-1])}
    inputs: dict[str, small.Shape] = {"input_ids": small.TOKENS, "position_ids": small.TOKENS, more: ("batch", 2, "past", 8)}
    return small.made(folder, nodes, weights, inputs, (*small.TOKENS, 64), integers=("input_ids", "position_ids"))


def test_a_decoder_is_looked_at_with_an_empty_cache(tmp_path: Path) -> None:
    current = decoder(tmp_path)
    [(_, moments)] = calibration.moments_of(current, products(current), small.RAGGED)
    rows = np.concatenate([TABLE[ids] + np.arange(len(ids), dtype=np.float32)[:, None] for ids in small.RAGGED])
    np.testing.assert_allclose(moments, rows.T @ rows / len(rows), rtol=1e-3, atol=1e-2)
    passes.apply(current, ("int4_weights",), small.context())
    assert current.op_counts()["MatMulNBits"] == 1


def test_an_input_that_no_text_gives_is_refused_with_the_way_out(tmp_path: Path) -> None:
    current = decoder(tmp_path, more="cross.0.key")
    with pytest.raises(PassError, match=r"reads cross\.0\.key") as refused:
        passes.apply(current, ("int4_weights",), small.context())
    assert "rounding = nearest" in str(refused.value.hint)
    known = replace(small.context(), overrides={"int4_weights": {"rounding": "nearest"}})
    passes.apply(current, ("int4_weights",), known)
    assert current.op_counts()["MatMulNBits"] == 1


def test_4_bits_are_better_with_texts_than_without(tmp_path: Path) -> None:
    """Words that go together, as those of a language do."""
    weights = [normal(64, 96), normal(96, 64)]
    table = normal(80, 12) @ normal(12, 64, seed=1)
    other = small.texts(50, seed=9)[0][None].astype(np.int32)
    wanted = saved(small.embedded(tmp_path, weights, table=table), tmp_path).run(None, {"input_ids": other})[0]
    errors = {}
    for texts in (small.texts(*[30] * 40), ()):
        current = small.embedded(tmp_path, weights, table=table)
        [record] = passes.apply(current, ("int4_weights",), small.context(calibration=texts))
        assert record.options["rounding"] == ("feedback" if texts else "nearest")
        assert "calibration" not in record.options
        errors[bool(texts)] = small.relative_error(saved(current, tmp_path).run(None, {"input_ids": other})[0], wanted)
    assert errors[True] < 0.7 * errors[False]


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("int4_weights", {"rounding": "feedback"}, r"rounding is feedback, and there are no texts"),
        ("int4_weights", {"rounding": "up"}, r"rounding is 'up'; it must be one of feedback, nearest"),
        ("int8_static", {}, r"int8_static finds its scales on texts, and there are none"),
        ("int8_static", {"method": "guess"}, r"method is 'guess'; it must be one of minmax, percentile, entropy"),
        ("int8_static", {"percentile": 0.999}, r"percentile is 0.999; it must be above 50 and at most 100"),
    ],
)
def test_without_texts_what_needs_them_is_refused(name: str, options: dict[str, object], said: str, tmp_path: Path) -> None:
    known = replace(small.context(calibration=()), overrides={name: options})
    with pytest.raises(InputError, match=said):
        passes.apply(small.product(tmp_path, normal(64, 64)), (name,), known)

"""Every precision of the recipes, over several architectures: the answers are near, the bytes the same again, and the build proves it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from hotfoot import targets
from hotfoot.contract.errors import InputError
from hotfoot.model import Model
from hotfoot_build import graph, passes
from hotfoot_build.passes._products import products
from support import small_graphs as small
from support import tiny
from support.running import ask, ids_of, saved, session

PRECISIONS = tuple(p for p in targets.local().recipes if p != "fp32")
# random weights are as hard as weights can be: of the output's length, a text at a time
ERRORS = {"fp16": 4e-3, "int8": 0.05, "int8-static": 0.06, "int8-weights": 0.02, "int8-dynamic": 0.08, "int4-weights": 0.35}
MODELS = ("embed", "tags", "classes", "shared", "modernbert")
TEXTS = small.texts(*[int(n) for n in np.random.default_rng(1).integers(2, 60, 40)])


@cache
def optimised(name: str, precision: str) -> graph.Graph:
    """Not to be changed."""
    current = graph.load(tiny.exported(name))
    passes.apply(current, targets.local().recipes[precision], small.context(name, TEXTS))
    return current


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", MODELS)
def test_the_answers_are_near_at_every_length(name: str, precision: str, tmp_path: Path) -> None:
    before, after = session(tiny.exported(name)), saved(optimised(name, precision), tmp_path)
    for length in (2, 15, 16, 60):
        ids = ids_of(length, batch=3)
        assert small.relative_error(ask(after, ids), ask(before, ids)) < ERRORS[precision], length


@pytest.mark.parametrize("precision", [p for p in PRECISIONS if p != "fp16"])
@pytest.mark.parametrize("name", MODELS)
def test_no_wide_product_is_left_and_shared_weights_stay_shared(name: str, precision: str) -> None:
    plain, current = optimised(name, "fp32"), optimised(name, precision)
    assert not products(current)
    before = products(plain)
    made = [node for node in current.ir if node.op_type in ("MatMulIntegerToFloat", "MatMulNBits")]
    assert len(made) == len(before) > 0
    # of six layers that share theirs: the first reads what is not smoothed, and the last one's keys and values are smoothed by themselves
    own = 5 if name == "shared" and precision in ("int8", "int8-static") else 0
    assert len({node.inputs[1] for node in made}) <= len({p.stored for p in before}) + own


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_same_graph_gives_the_same_bytes(precision: str, tmp_path: Path) -> None:
    written = []
    for number in range(2):
        current = graph.load(tiny.exported("embed"))
        passes.apply(current, targets.local().recipes[precision], small.context("embed", TEXTS))
        graph.canonicalize(current)
        graph.write(current, tmp_path / f"{number}.onnx")
        written.append((tmp_path / f"{number}.onnx").read_bytes())
    assert written[0] == written[1]


@pytest.mark.parametrize("precision", PRECISIONS)
def test_weights_beyond_one_message_lie_beside_the_graph(precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Larger than LARGE before the passes and after: every write and every look inside goes through a second file."""
    ids = ids_of(20, batch=2)
    wanted = ask(saved(optimised("embed", precision), tmp_path, "small.onnx"), ids)
    monkeypatch.setattr(graph, "LARGE", 10_000)
    current = graph.load(tiny.exported("embed"))
    passes.apply(current, targets.local().recipes[precision], small.context("embed", TEXTS))
    found = saved(current, tmp_path, "large.onnx")
    assert (tmp_path / "large.onnx.data").stat().st_size > 10_000
    assert np.array_equal(ask(found, ids), wanted)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", ["embed", "classes"])
def test_the_build_proves_it(name: str, precision: str) -> None:
    built = tiny.artifact(name, precision)
    assert built.manifest.precision == precision
    assert [r.name for r in built.manifest.recipe] == list(targets.local().recipes[precision])
    assert built.manifest.independent_rows == (precision not in ("int8-dynamic", "fp16"))
    assert all(m.passed for m in built.parity.metrics)
    recorded = {r.name: r.options for r in built.manifest.recipe}
    assert not [options for options in recorded.values() if "calibration" in options]
    model = Model.open(built.path)
    assert model.predict(model.task.sample).answer


def test_the_texts_are_none_of_a_build_s_options() -> None:
    asked = replace(small.context("embed"), overrides={"int4_weights": {"calibration": [[1, 2]]}})
    with pytest.raises(InputError, match="int4_weights has no option 'calibration'"):
        passes.apply(graph.load(tiny.exported("embed")), targets.local().recipes["int4-weights"], asked)


def test_sizes_are_as_the_bits_say() -> None:
    """Bytes of the products' weights, scales included, by fp32's."""
    whole = sum(p.matrix.nbytes for p in {p.stored: p for p in products(optimised("embed", "fp32"))}.values())
    shares = {"int8-weights": 1 / 4 + 1 / 64, "int4-weights": 1 / 8 + 1 / 32 + 1 / 256}
    for precision, share in shares.items():
        nodes = [node for node in optimised("embed", precision).ir if node.op_type == "MatMulNBits"]
        stored = {v for node in nodes for v in node.inputs[1:4] if v is not None}
        assert sum(w.nbytes for v in stored if (w := graph.weight_of(v)) is not None) == pytest.approx(whole * share, rel=0.02)

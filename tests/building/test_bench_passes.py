"""`scripts/bench passes` on a tiny model: what is built, measured and written. No test asks how long anything took."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest

from hotfoot import targets
from hotfoot.contract import codec
from hotfoot.contract.errors import ArtifactError, InputError, PassError
from hotfoot.model import Model
from hotfoot_build import weights
from hotfoot_build.bench import alone, case, contenders, datasets, passes, plot, quality, report
from hotfoot_build.bench.case import Shape
from hotfoot_build.bench.datasets import Sentences, Similarities
from hotfoot_build.bench.report import Report
from hotfoot_build.bench.timing import Ratio
from hotfoot_build.calibrate import Samples
from hotfoot_build.exchange import Reference
from support import tiny

SHAPES = (Shape(1, 16), Shape(2, 24), Shape(1, 384))


def similarities() -> Similarities:
    texts = ("red green blue", "one two three", "red two blue", "green", "three one")
    return Similarities(texts, np.random.default_rng(0).random((5, 5)))


@cache
def measured(model: str = "embed=feature-extraction", *, torch: bool = True) -> tuple[Report, Path]:
    """The real thing, once a test session: as few rounds as there may be, and no time to fill."""
    out = tiny.room() / "bench" / model
    wanted = passes.Wanted(
        (model,), (tiny.models(),), out, rounds=6, min_seconds=0.0, torch=torch, shapes=SHAPES, samples=tiny.texts()
    )  # fmt: skip
    with tiny.own_cache(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets, "lee", similarities)
        return passes.run(wanted, tiny.quiet()), out


@pytest.mark.slow
def test_every_precision_stands_beside_the_preset_and_the_original() -> None:
    found, _ = measured()
    [model] = found.models
    names = [row.name for row in model.rows]
    recipes = list(targets.local().recipes)
    left_out = {note.split(" ", 1)[0] for note in model.notes}
    assert names == [*(r for r in recipes if r not in left_out), contenders.PRESET, passes.TORCH]
    assert {"fp32", "int8"} <= set(names)
    assert (model.model, model.task, found.target, found.rounds) == ("embed", "feature-extraction", targets.local().name, 6)


def test_each_has_a_time_and_a_ratio_at_every_shape_that_the_model_takes() -> None:
    [model] = measured()[0].models
    for row in model.rows:
        assert [time.shape for time in row.times] == ["16", "2x24"]
        assert all(time.ms > 0 and time.to_preset.low <= time.to_preset.median <= time.to_preset.high for time in row.times)
    assert "embed has no positions for 384 tokens" in model.notes
    preset = next(row for row in model.rows if row.name == contenders.PRESET)
    assert all(time.to_preset == Ratio(1.0, 1.0, 1.0, 6) for time in preset.times)
    assert preset.times[1].way in ("one batch", "text by text")


def test_sizes_and_answers_are_those_of_the_files() -> None:
    found, out = measured()
    rows = {row.name: row for row in found.models[0].rows}
    fp32 = weights.size(out / "embed" / "fp32")
    int8 = weights.size(out / "embed" / "int8")
    assert (rows["fp32"].bytes, rows["fp32"].of_fp32) == (fp32, 1.0)
    assert (rows["int8"].bytes, rows["int8"].of_fp32) == (int8, int8 / fp32)
    assert (rows[passes.TORCH].bytes, rows[passes.TORCH].quality) == (None, {})
    assert rows["fp32"].quality["cosine_mean"] > 0.99999
    assert 0.9 < rows[contenders.PRESET].quality["cosine_mean"] < rows["fp32"].quality["cosine_mean"]
    assert rows["fp32"].quality["lee_pearson"] == pytest.approx(rows["int8"].quality["lee_pearson"], abs=0.1)


def test_the_floor_is_measured_for_int8() -> None:
    [model] = measured()[0].models
    int8 = [row.name for row in model.rows if row.name.startswith("int8")]
    assert [(a.name, a.shape) for a in model.alone] == [(name, shape) for name in int8 for shape in ("16", "2x24")]
    for part in model.alone:
        assert min(part.whole_ms, part.gemms_ms, part.attention_ms) > 0


def test_the_files_hold_what_was_measured(tmp_path: Path) -> None:
    found, _ = measured()
    report.write(found, report.markdown(found), tmp_path, "passes")
    plot.draw(found, tmp_path / "passes.png")
    assert codec.loads(Report, (tmp_path / "passes.json").read_text(encoding="utf-8"), "passes.json") == found
    page = (tmp_path / "passes.md").read_text(encoding="utf-8")
    for row in found.models[0].rows:
        assert f"| {row.name} |" in page
        assert all(f"{time.ms:.2f} ms {time.to_preset}" in page for time in row.times)
    assert "- embed has no positions for 384 tokens" in page
    head = (tmp_path / "passes.png").read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", head[16:24])
    assert width > height > 500


def test_a_classifier_is_asked_what_people_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accuracy is counted over the sentences, by the labels' names."""
    model, texts = Model.open(tiny.artifact("classes").path), ("red", "green", "blue blue")
    names = model.manifest.labels
    monkeypatch.setattr(quality, "POLES", {name: index % 2 == 0 for index, name in enumerate(names)})
    said = quality._positive(model, texts)
    _, logits = model.outputs(texts)
    assert said == [int(np.argmax(row)) % 2 == 0 for row in logits]
    sticks = sticks_of("classes", Sentences(texts, (said[0], not said[1], said[2])))
    assert quality.measure(model, sticks)["vader_accuracy"] == pytest.approx(2 / 3)


def sticks_of(name: str, sentences: Sentences) -> quality.Yardsticks:
    with tiny.own_cache():
        one = case.open_case(name, tiny.TASKS[name], tiny.models() / name, tiny.texts(), tiny.quiet())
    return replace(quality.yardsticks(one, quick=False), sentences=sentences)


def test_quick_takes_a_tenth() -> None:
    with tiny.own_cache():
        one = case.open_case("plain", "feature-extraction", tiny.models() / "plain", tiny.texts(), tiny.quiet())
    sticks = quality.yardsticks(one, quick=True)
    every = one.original.samples.texts
    assert sticks.samples.texts == every[::10]
    assert [o.tolist() for o in sticks.reference.outputs] == [o.tolist() for o in one.original.reference.outputs[::10]]


def test_groups_are_thinned_whole() -> None:
    samples = Samples(tuple("abcdefgh"), tuple("ABCDEFGH"), (3, 5))
    reference = Reference(tuple(np.full(1, i, np.float32) for i in range(8)), tuple(np.full(1, i) for i in range(8)))
    fewer, kept = quality._thinned(samples, reference)
    assert (fewer.texts, fewer.seconds, fewer.groups) == (("a", "b", "c"), ("A", "B", "C"), (3,))
    assert len(kept.outputs) == len(kept.ids) == 3


def test_texts_that_cannot_be_had_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> Similarities:
        raise ArtifactError("no index")

    notes: list[str] = []
    assert quality._had("the Lee corpus", refuse, notes) is None
    assert notes == ["the Lee corpus: no index"]
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with tiny.own_cache(), pytest.raises(ArtifactError, match=r"vaderSentiment==3\.3\.2 cannot be fetched; pip said:\n"):
        datasets.vader()


def test_pearson_is_over_pairs() -> None:
    vectors = np.array([[1, 0], [0, 2], [1, 1]], np.float32)
    human = np.array([[1, 0.1, 0.8], [0.1, 1, 0.8], [0.8, 0.8, 1]])
    assert Similarities(("a", "b", "c"), human).pearson(vectors) == pytest.approx(1)


def test_ratings_are_read_where_people_agree() -> None:
    lines = "1_1\t2.3\tA fine film.\t[...]\n1_2\t-0.4\tIt is a film.\t[...]\n1_3\t-1.9\t A bore. \t[...]\n"
    assert datasets._rated(lines) == [("A fine film.", True), ("A bore.", False)]


ONE_LAYER = """
<ir_version: 9, opset_import: ["" : 17]>
g (float[1,4,8] x, float[1,1,4] mask) => (float[1,4,8] y)
{
  q = MatMul(x, wq)
  k = MatMul(x, wk)
  kt = Transpose<perm = [0, 2, 1]>(k)
  v = MatMul(x, wv)
  scores = MatMul(q, kt)
  masked = Add(scores, mask)
  probabilities = Softmax<axis = -1>(masked)
  context = MatMul(probabilities, v)
  out = MatMul(context, wo)
  z = Add(out, x)
  pooled = Transpose<perm = [0, 2, 1]>(z)
  y = MatMul(masked, z)
}
"""


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    """One layer of attention, and a product after it that is none of its."""
    model = onnx.parser.parse_model(ONE_LAYER)
    random = np.random.default_rng(0)
    for weight in ("wq", "wk", "wv", "wo"):
        model.graph.initializer.append(onnx.numpy_helper.from_array(random.standard_normal((8, 8)).astype(np.float32), weight))
    path = tmp_path / "layer.onnx"
    onnx.save(model, path)
    return path


def test_the_work_of_a_graph_is_its_weights_and_its_attention(layer: Path) -> None:
    found = alone.parts(onnx.load(layer).graph)
    assert [n.output[0] for n in found.gemms] == ["q", "k", "v", "out"]
    assert [n.output[0] for n in found.attention] == ["scores", "probabilities", "context"]


def test_parts_alone_compute_what_they_do_in_the_graph(layer: Path) -> None:
    x = np.random.default_rng(1).standard_normal((1, 4, 8)).astype(np.float32)
    inputs = {"x": x, "mask": np.zeros((1, 1, 4), np.float32)}
    isolated = alone.isolate(layer, targets.local(), inputs)
    weights = {i.name: onnx.numpy_helper.to_array(i) for i in onnx.load(layer).graph.initializer}
    q, k, v = (x @ weights[name] for name in ("wq", "wk", "wv"))
    scores = np.exp(q @ k.transpose(0, 2, 1))
    context = scores / scores.sum(axis=-1, keepdims=True) @ v
    [last] = isolated["attention"].session.run(None, dict(isolated["attention"].feed))
    assert last == pytest.approx(context, abs=1e-4)
    assert len(isolated["gemms"].feed) == 1  # all four read one shape, so they read one array
    isolated["gemms"]()


def test_a_graph_without_attention_has_no_floor(tmp_path: Path) -> None:
    text = '<ir_version: 9, opset_import: ["" : 17]> g (float[n] x) => (float[n] y) { y = Relu(x) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "relu.onnx")
    with pytest.raises(PassError, match="0 products with weights and 0 nodes of attention"):
        alone.isolate(tmp_path / "relu.onnx", targets.local(), {"x": np.zeros(1, np.float32)})


def test_models_are_found_by_name(tmp_path: Path) -> None:
    for name in ("embed", "mine"):
        (tmp_path / "b" / name).mkdir(parents=True)
        (tmp_path / "b" / name / "config.json").write_text("{}", encoding="utf-8")
    folders = (tmp_path / "a", tmp_path / "b")
    assert case.named("embed", folders) == ("embed", "feature-extraction", tmp_path / "b" / "embed")
    assert case.named("mine=fill-mask", folders) == ("mine", "fill-mask", tmp_path / "b" / "mine")
    with pytest.raises(InputError, match=r"'mine', of which the task is not known; say NAME=TASK"):
        case.named("mine", folders)
    with pytest.raises(InputError, match=r"no folder of that name holds a model; there are: embed, mine"):
        case.named("pii", folders)


def test_names_of_points_keep_apart() -> None:
    placed = plot.apart([(1, 0.9, "a"), (1, 0.5, "b"), (2, 0.9, "c"), (9, 0.9, "far"), (1, 0.88, "d")], width=3, height=0.05)
    assert placed == [("a", 1, 0.9), ("c", 2, pytest.approx(0.85)), ("far", 9, 0.9), ("d", 1, pytest.approx(0.8)), ("b", 1, 0.5)]


def test_every_contender_looks_different() -> None:
    names = ["fp32", "int8", contenders.PRESET, "PyTorch", "fp32", *(f"int8-{n}" for n in range(6))]
    looks = plot.looks_of(names)
    assert set(looks) == set(names)
    assert len({(look.colour, look.marker) for look in looks.values()}) == len({look.marker for look in looks.values()}) == len(looks)


def test_answers_that_cannot_be_compared_are_said_and_not_drawn(tmp_path: Path) -> None:
    found, _ = measured()
    [model] = found.models
    rows = tuple(replace(row, quality={}) if row.name == "int8" else row for row in model.rows)
    lacking = replace(found, models=(replace(model, rows=rows), replace(model, rows=tuple(replace(r, quality={}) for r in rows))))
    plot.draw(lacking, tmp_path / "passes.png")
    assert (tmp_path / "passes.png").stat().st_size > 10_000
    [line] = [line for line in report.markdown(replace(found, models=lacking.models[:1])).splitlines() if line.startswith("| int8 | ")][:1]
    assert line.endswith("| - | - | - | - | - |")


def test_a_row_whose_texts_mix_is_a_note() -> None:
    """Parity refuses it; the other rows are measured all the same."""
    with tiny.own_cache():
        one = case.open_case("plain", "feature-extraction", tiny.models() / "plain", tiny.texts(), tiny.quiet())
        made, _ = contenders.artifacts(one, targets.local(), ["fp32"], tiny.room() / "bench" / "mixing", tiny.quiet())
    sticks = quality.yardsticks(one, quick=False)
    wrong = replace(sticks, reference=Reference(tuple(o[:1] for o in sticks.reference.outputs), sticks.reference.ids))
    notes: list[str] = []
    assert passes._quality(made[0], wrong, notes, tiny.quiet()) == {}
    assert notes[0].startswith("the answers of fp32: text 0 gives an output of shape")


def test_the_machine_is_named(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor : 0\nmodel name\t: Abacus 3000\nflags : avx2\n", encoding="utf-8")
    assert report.Machine.here(tmp_path / "cpuinfo").cpu == "Abacus 3000"
    assert json.loads(codec.dumps(report.Machine.here()))["cores"] >= 1


def test_a_precision_that_cannot_be_built_is_a_note() -> None:
    target = replace(targets.local(), recipes={"fp32": ("prune", "ort_rewrite"), "broken": ("no_such_pass",)})
    with tiny.own_cache():
        one = case.open_case("plain", "feature-extraction", tiny.models() / "plain", tiny.texts(), tiny.quiet())
        made, notes = contenders.artifacts(one, target, target.recipes, tiny.room() / "bench" / "broken", tiny.quiet())
    assert [c.name for c in made] == ["fp32"]
    assert [note.partition(":")[0] for note in notes] == ["broken is not made of plain"]

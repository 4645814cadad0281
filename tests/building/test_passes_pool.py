"""A pooled vector goes through the model's own modules, as sentence-transformers itself would have it."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file

from hotfoot.contract.errors import ArtifactError, InputError, PassError, UnsupportedError
from hotfoot.model import Model
from hotfoot_build import facts, model_files, vector_head
from hotfoot_build.vector_head import Step
from support import tiny
from support.asking import ask, context, ids_of, opened, passed, session

PREFIX = "sentence_transformers.models."
TORCH = "torch.nn.modules."


def gelu(x: NDArray[np.float32]) -> NDArray[np.float32]:
    result: NDArray[np.float32] = x * np.vectorize(lambda v: 0.5 * (1 + math.erf(v / math.sqrt(2))))(x).astype(np.float32)
    return result


BY_HAND: dict[str, Callable[[Any], Any]] = {"": lambda x: x, "Gelu": gelu, "Relu": lambda x: np.maximum(x, 0), "Tanh": np.tanh}


def chain(folder: Path, *kinds: str) -> Path:
    """The tiny dense model with other modules behind its pooling; each `Dense` gets the folder of its place."""
    shutil.copytree(tiny.models() / "dense", folder)
    modules = [{"idx": i, "name": str(i), "path": f"{i}_{k}" if i else "", "type": PREFIX + k} for i, k in enumerate(kinds)]
    (folder / "modules.json").write_text(json.dumps(modules))
    return folder


def dense(folder: Path, inputs: int, outputs: int, activation: str, *, bias: bool = True, **config: Any) -> None:
    """A Dense module's files."""
    rng = np.random.default_rng(outputs)
    folder.mkdir(exist_ok=True)
    asked = {"in_features": inputs, "out_features": outputs, "bias": bias, "activation_function": TORCH + activation}
    (folder / "config.json").write_text(json.dumps(asked | config))
    weights = {"linear.weight": rng.normal(size=(outputs, inputs)).astype(np.float32) / 8}
    if bias:
        weights["linear.bias"] = rng.normal(size=outputs).astype(np.float32)
    save_file(weights, folder / "model.safetensors")


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_a_dense_module_is_part_of_the_artifact(precision: str) -> None:
    built = tiny.artifact("dense", precision)
    assert built.manifest.facts["dimensions"] == 16  # and not the transformer's 64
    assert built.manifest.facts["normalize"]
    assert {m.name: m.value for m in built.parity.metrics}["cosine_min"] >= (0.9999 if precision == "fp32" else 0.99)
    vector = Model.open(built.path).predict("the quick fox").answer[0]
    assert vector.shape == (16,)
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("kinds", "layers", "unit"),
    [
        (("Dense", "Dropout", "Dense", "Normalize"), {2: (64, 96, "activation.GELU", True), 4: (96, 24, "linear.Identity", False)}, True),
        (("Normalize", "Dense"), {3: (64, 32, "activation.ReLU", False)}, False),
    ],
)
def test_any_order_that_the_library_runs(kinds: tuple[str, ...], layers: dict[int, Any], unit: bool, tmp_path: Path) -> None:
    folder = chain(tmp_path / "model", "Transformer", "Pooling", *kinds)
    for place, (inputs, outputs, activation, bias) in layers.items():
        dense(folder / f"{place}_Dense", inputs, outputs, activation, bias=bias)
    built = tiny.run_build(tiny.request("dense", tmp_path / "out", model=str(folder)))
    assert built.manifest.facts["dimensions"] == list(layers.values())[-1][1]
    assert built.manifest.facts["normalize"] is unit
    assert all(m.passed for m in built.parity.metrics)


@pytest.mark.parametrize("activation", BY_HAND)
@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_a_step_is_what_it_is_by_hand(pooling: str, activation: str) -> None:
    rng = np.random.default_rng(1)
    weight, bias = rng.normal(size=(24, 64)).astype(np.float32), rng.normal(size=24).astype(np.float32)
    steps = (Step("normalize", 2), Step("dense", 3, activation, 64, 24))
    chosen = replace(context("embed", pooling=pooling, normalize=True), head=steps, head_weights={"3.weight": weight, "3.bias": bias})
    found = opened(passed(tiny.exported("embed"), ("prune", "pool_in_graph"), chosen))
    ids = ids_of(12, batch=3)
    hidden = ask(session(tiny.exported("embed")), ids)
    vector = hidden.mean(1) if pooling == "mean" else hidden[:, 0]
    wanted = BY_HAND[activation]((vector / np.linalg.norm(vector, axis=-1, keepdims=True)) @ weight.T + bias)
    np.testing.assert_allclose(ask(found, ids), wanted / np.linalg.norm(wanted, axis=-1, keepdims=True), atol=2e-6)


def test_weights_of_another_shape_fail_the_build() -> None:
    chosen = replace(
        context("embed", pooling="mean", normalize=True),
        head=(Step("dense", 2, "Tanh", 64, 24),),
        head_weights={"2.weight": np.zeros((24, 32), np.float32)},
    )
    with pytest.raises(PassError, match="24 x 64 for module 2"):
        passed(tiny.exported("embed"), ("prune", "pool_in_graph"), chosen)


def test_two_modules_of_one_name_are_refused(tmp_path: Path) -> None:
    folder = chain(tmp_path / "model", "Transformer", "Pooling", "Dense", "Normalize")
    listed = json.loads((folder / "modules.json").read_text())
    listed[3]["name"] = "2"
    (folder / "modules.json").write_text(json.dumps(listed))
    with pytest.raises(ArtifactError, match="names two modules 2"):
        facts.embedding(folder, None)


@pytest.mark.parametrize("kind", ["LSTM", "CNN", "LayerNorm", "WordWeights", "CLIPModel"])
def test_a_module_that_would_be_left_out_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    folder = chain(tmp_path / "model", "Transformer", "Pooling", kind)
    with pytest.raises(UnsupportedError, match=f"modules.json lists Transformer, Pooling, {kind}"):
        facts.embedding(folder, None)


def test_pooling_comes_second(tmp_path: Path) -> None:
    folder = chain(tmp_path / "model", "Transformer", "Dense", "Pooling")
    with pytest.raises(UnsupportedError, match="Transformer, Dense, Pooling"):
        facts.embedding(folder, None)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"activation_function": "torch.nn.modules.activation.Sigmoid"}, r"2_Dense ends in torch\.nn\.modules\.activation\.Sigmoid"),
        ({"activation_function": "mine.Tanh"}, r"2_Dense ends in mine\.Tanh"),
        ({"module_input_name": "token_embeddings"}, "of token_embeddings"),
        ({"module_output_name": "other"}, "makes other"),
        ({"out_features": "many"}, "out_features in 2_Dense/config.json is 'many'"),
    ],
)
def test_a_dense_module_that_would_come_out_otherwise_is_refused(config: dict[str, Any], said: str, tmp_path: Path) -> None:
    folder = chain(tmp_path / "model", "Transformer", "Pooling", "Dense")
    dense(folder / "2_Dense", 64, 16, "activation.Tanh", **config)
    with pytest.raises(UnsupportedError, match=said):
        vector_head.read(folder, model_files.modules(folder))


def test_token_vectors_pass_no_head(tmp_path: Path) -> None:
    folder = chain(tmp_path / "model", "Transformer", "Pooling", "Dense", "Normalize")
    asked = facts.embedding(folder, "none")
    assert facts.head(folder, asked) == ()
    assert [s.kind for s in facts.head(folder, facts.embedding(folder, None))] == ["dense"]


def test_a_pickled_module_needs_a_word_and_is_read_then(tmp_path: Path) -> None:
    folder = chain(tmp_path / "model", "Transformer", "Pooling", "Dense", "Normalize")
    script = "import sys, torch, safetensors.torch as s; torch.save(s.load_file(sys.argv[1]), sys.argv[2])"
    files = [str(folder / "2_Dense" / name) for name in ("model.safetensors", "pytorch_model.bin")]
    subprocess.run([str(tiny.interpreter()), "-c", script, *files], check=True)
    (folder / "2_Dense" / "model.safetensors").unlink()
    asked = tiny.request("dense", tmp_path / "out", model=str(folder))
    with pytest.raises(UnsupportedError, match=r"2_Dense/pytorch_model\.bin"):
        tiny.run_build(asked)
    built = tiny.run_build(replace(asked, allow_pickle=True))
    texts = ("the quick fox", "Maria")
    ours, safe = (Model.open(p).outputs(texts)[1] for p in (built.path, tiny.artifact("dense").path))
    assert all(np.array_equal(a, b) for a, b in zip(ours, safe, strict=True))


def test_an_onnx_file_brings_no_dense_weights(tmp_path: Path) -> None:
    folder = chain(tmp_path / "model", "Transformer", "Pooling", "Dense", "Normalize")
    shutil.copyfile(tiny.exported("embed"), folder / "model.onnx")
    with pytest.raises(UnsupportedError, match="Give the model's folder"):
        tiny.run_build(tiny.request("dense", tmp_path / "out", model=str(folder / "model.onnx")))


def test_a_model_that_is_made_to_be_cut_is_cut_unless_asked_otherwise(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny.models() / "embed", folder)
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"truncate_dim": 24}))
    built = tiny.run_build(tiny.request("embed", tmp_path / "out", model=str(folder)))
    assert (built.manifest.facts["dimensions"], built.manifest.facts["default_dimensions"]) == (64, 24)
    model = Model.open(built.path)
    short, whole, asked = (model.predict("the quick fox", p).answer[0] for p in ({}, {"dimensions": 64}, {"dimensions": 8}))
    assert (len(short), len(whole), len(asked)) == (24, 64, 8)
    np.testing.assert_allclose(short, whole[:24] / np.linalg.norm(whole[:24]), rtol=1e-6)
    with pytest.raises(InputError, match="from 1 to 64"):
        model.predict("the quick fox", {"dimensions": 65})
    whole_card = {"truncate_dim": "all"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(whole_card))
    with pytest.raises(UnsupportedError, match=r"truncate_dim .* is 'all'"):
        facts.embedding(folder, None)

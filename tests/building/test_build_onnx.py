"""Graphs that the user brings: exported elsewhere, with their own names, operators and faults."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnxruntime.quantization import QuantType, quantize_dynamic

from hotfoot.contract.errors import ParityError, UnsupportedError
from hotfoot.model import Model
from hotfoot_build import graph
from support import tiny


def bring(name: str, folder: Path) -> Path:
    """The exported graph with its config and tokenizer: what a user who has ONNX would bring."""
    folder.mkdir()
    shutil.copyfile(tiny.exported(name), folder / "model.onnx")
    for file in ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        shutil.copyfile(tiny.models() / name / file, folder / file)
    return folder / "model.onnx"


@pytest.mark.parametrize("name", ["tags", "plain"])
def test_an_onnx_file_of_the_user_s_own(name: str, tmp_path: Path) -> None:
    built = tiny.run_build(tiny.request(name, tmp_path / "out", "int8", model=str(bring(name, tmp_path / "mine"))))
    assert built.manifest.labels == tiny.artifact(name).manifest.labels
    ours, theirs = (
        Model.open(built.path).outputs(("Maria in Paris",))[1][0],
        Model.open(tiny.artifact(name).path).outputs(("Maria in Paris",))[1][0],
    )
    np.testing.assert_allclose(ours, theirs, atol=0.05)


def test_a_graph_whose_scales_span_the_batch_runs_texts_one_by_one(tmp_path: Path) -> None:
    mine = bring("plain", tmp_path / "mine")
    quantize_dynamic(str(mine), str(mine), weight_type=QuantType.QInt8)
    loose = {"cosine_mean": 0.5, "cosine_p1": 0.5, "cosine_min": 0.5}
    built = tiny.run_build(tiny.request("plain", tmp_path / "out", model=str(mine), thresholds=loose))
    assert not built.manifest.independent_rows
    model = Model.open(built.path)
    texts = ("the fox", "Maria Gonzalez lives in Springfield", "naïve café", "dog")
    together = model.outputs(texts)[1]
    for text, vector in zip(texts, together, strict=True):
        assert np.array_equal(model.outputs((text,))[1][0], vector)


def test_a_config_that_names_too_few_labels_is_refused(tmp_path: Path) -> None:
    mine = bring("tags", tmp_path / "mine")
    config = json.loads((mine.parent / "config.json").read_text())
    (mine.parent / "config.json").write_text(json.dumps({**config, "id2label": {"0": "O", "1": "X"}}))
    with pytest.raises(UnsupportedError, match="names 2 labels, the graph gives 5"):
        tiny.run_build(tiny.request("tags", tmp_path / "out", model=str(mine)))


def test_a_dependence_on_neighbours_would_fail_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = bring("plain", tmp_path / "mine")
    quantize_dynamic(str(mine), str(mine), weight_type=QuantType.QInt8)
    monkeypatch.setattr(graph, "mixes_rows", lambda _graph: [])
    with pytest.raises(ParityError, match="another result alone than in a batch"):
        tiny.run_build(tiny.request("plain", tmp_path / "out", model=str(mine)))


def test_a_graph_with_branches_is_refused(tmp_path: Path) -> None:
    mine = bring("tags", tmp_path / "mine")
    model = onnx.load(str(mine))
    out = onnx.helper.make_tensor_value_info("picked", onnx.TensorProto.FLOAT, None)
    branch = onnx.helper.make_graph([onnx.helper.make_node("Identity", ["logits"], ["picked"])], "branch", [], [out])
    # by what the text is, which no build can know
    model.graph.node.append(onnx.helper.make_node("ReduceMax", ["input_ids"], ["largest"], keepdims=0))
    model.graph.node.append(onnx.helper.make_node("Cast", ["largest"], ["flag"], to=onnx.TensorProto.BOOL))
    model.graph.node.append(onnx.helper.make_node("If", ["flag"], ["chosen"], then_branch=branch, else_branch=branch))
    onnx.save(model, str(mine))
    with pytest.raises(UnsupportedError, match=r"model\.onnx has If"):
        tiny.run_build(tiny.request("tags", tmp_path / "out", model=str(mine)))


def test_the_output_is_chosen_by_name_and_not_by_place() -> None:
    assert graph.choose_output(["pooler_output", "last_hidden_state"], "last_hidden_state") == "last_hidden_state"
    assert graph.choose_output(["token_embeddings", "sentence_embedding"], "last_hidden_state") == "token_embeddings"
    assert graph.choose_output(["scores"], "logits") == "scores"
    with pytest.raises(UnsupportedError, match="it has a, b"):
        graph.choose_output(["a", "b"], "logits")

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hotfoot.contract import manifest as manifests
from hotfoot.contract.errors import ArtifactError, InputError, UnsupportedError
from hotfoot.model import Model
from hotfoot.session import Session
from support.rigged import Rig, rigged_artifact
from support.serving import TASKS, artifact, model

LONG = "good " * 80


def rewritten(folder: Path, **changes: str) -> None:
    (folder / "manifest.json").write_text(manifests.dumps(replace(manifests.read(folder), **changes)), encoding="utf-8")  # type: ignore[arg-type]


def test_an_artifact_is_opened_and_answers() -> None:
    opened = Model.open(str(artifact("text-classification")), threads=1)
    assert opened.predict("good").answer[0][0]["label"] == "POSITIVE"
    assert opened.manifest.digest == manifests.read(artifact("text-classification")).digest


def test_a_prediction_counts_tokens_and_characters() -> None:
    found = model("text-classification").predict(["good", "🦊 bad"])
    assert found.tokens == 3 + 4
    assert found.characters == 4 + 5
    assert set(found.timings) == {"tokenize", "run", "post"}
    assert all(0 <= t < 10_000 for t in found.timings.values())


def test_the_threads_of_the_environment_count_unless_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTFOOT_THREADS", "3")
    for given, used in ((None, 3), (1, 1)):
        opened = Model.open(artifact("text-classification"), threads=given)
        assert opened.session._ort.get_session_options().intra_op_num_threads == used


def test_a_tokenizer_layer_serves_an_artifact_without_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = rigged_artifact(tmp_path / "artifact", "text-classification")
    place = tmp_path / "opt" / "hotfoot" / "tokenizers" / manifests.read(folder).tokenizer.hash
    place.parent.mkdir(parents=True)
    shutil.move(folder / "tokenizer", place)
    with pytest.raises(ArtifactError, match="is in none of"):
        Model.open(folder, threads=1)
    monkeypatch.setenv("HOTFOOT_LAYER_ROOT", str(tmp_path / "opt"))
    assert Model.open(folder, threads=1).predict("bad").answer[0][0]["label"] == "NEGATIVE"


def test_a_damaged_artifact_is_not_opened(tmp_path: Path) -> None:
    folder = rigged_artifact(tmp_path, "text-classification")
    text = (folder / "manifest.json").read_text(encoding="utf-8")
    (folder / "manifest.json").write_text(text.replace('"NEGATIVE"', '"POSITIVE "'), encoding="utf-8")
    with pytest.raises(ArtifactError, match="was changed after the build"):
        Model.open(folder, threads=1)


def shortened(folder: Path) -> None:
    (folder / "model.onnx").write_bytes((folder / "model.onnx").read_bytes()[:-1])


def altered(folder: Path) -> None:
    content = bytearray((folder / "model.onnx").read_bytes())
    content[-40] ^= 1
    (folder / "model.onnx").write_bytes(content)


@pytest.mark.parametrize("verify", [False, True])
def test_every_file_must_be_there_at_its_size(tmp_path: Path, verify: bool) -> None:
    folder = rigged_artifact(tmp_path, "text-classification")
    (folder / "LICENSE").write_text("mine", encoding="utf-8")
    listed = manifests.describe(folder, [folder / "model.onnx", folder / "LICENSE"])
    (folder / "manifest.json").write_text(manifests.dumps(replace(manifests.read(folder), files=listed)), encoding="utf-8")
    size = (folder / "model.onnx").stat().st_size
    assert Model.open(folder, threads=1, verify=verify)
    (folder / "LICENSE").unlink()
    shortened(folder)
    with pytest.raises(ArtifactError) as caught:
        Model.open(folder, threads=1, verify=verify)
    assert "  LICENSE: missing\n" in str(caught.value)
    assert f"  model.onnx: {size - 1} bytes, the manifest says {size}" in str(caught.value)


def test_contents_are_read_where_asked(tmp_path: Path) -> None:
    folder = rigged_artifact(tmp_path, "text-classification")
    altered(folder)
    with pytest.raises(ArtifactError, match=r"model\.onnx: content differs from the manifest's sha256"):
        Model.open(folder, threads=1, verify=True)


def test_contents_are_read_without_the_tokenizer_where_a_layer_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = rigged_artifact(tmp_path / "artifact", "text-classification")
    place = tmp_path / "opt" / "hotfoot" / "tokenizers" / manifests.read(folder).tokenizer.hash
    place.parent.mkdir(parents=True)
    shutil.move(folder / "tokenizer", place)
    monkeypatch.setenv("HOTFOOT_LAYER_ROOT", str(tmp_path / "opt"))
    assert Model.open(folder, threads=1, verify=True)
    altered(folder)
    with pytest.raises(ArtifactError, match=r"model\.onnx: content differs"):
        Model.open(folder, threads=1, verify=True)


def test_a_graph_outside_the_list_of_files_is_not_run(tmp_path: Path) -> None:
    folder = rigged_artifact(tmp_path, "text-classification")
    (folder / "manifest.json").write_text(manifests.dumps(replace(manifests.read(folder), files=())), encoding="utf-8")
    with pytest.raises(ArtifactError, match=r"model\.onnx: graph 'model' names a file that the manifest does not list"):
        Model.open(folder, threads=1)


@pytest.mark.parametrize(
    ("changes", "said"), [({"task": "fortune-telling"}, "no task 'fortune-telling'"), ({"target": "toaster"}, "no target 'toaster'")]
)
def test_an_unknown_task_or_target_is_named(tmp_path: Path, changes: dict[str, str], said: str) -> None:
    folder = rigged_artifact(tmp_path, "text-classification")
    rewritten(folder, **changes)
    with pytest.raises(UnsupportedError, match=said):
        Model.open(folder, threads=1)


def test_nothing_to_open(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"no manifest\.json in"):
        Model.open(tmp_path / "nowhere")


def test_outputs_are_cut_to_the_limit_as_the_original_does() -> None:
    opened = model("token-classification")
    encoded, outputs = opened.outputs((LONG, "maria"))
    assert [len(e.ids) for e in encoded] == [64, 3]
    assert [o.shape for o in outputs] == [(64, 5), (3, 5)]
    assert outputs[1][1].tolist() == [0, 8, 0, 0, 0]


@pytest.mark.parametrize("task", TASKS)
def test_warming_up_works_below_the_length_of_the_sample(tmp_path: Path, task: str) -> None:
    # there is no pair of 4 tokens
    limit = 30 if task in ("question-answering", "text-ranking", "zero-shot-classification") else 4
    Model.open(rigged_artifact(tmp_path, task, Rig(max_tokens=limit)), threads=1).warm_up()


@pytest.mark.parametrize("task", TASKS)
def test_a_bad_request_leaves_the_model_well(task: str) -> None:
    opened = model(task)
    before = opened.predict(opened.sample)
    for wrong in (None, [], [LONG], ["good", 3], {"x": 1}):
        with pytest.raises(InputError):
            opened.predict(wrong)
    after = opened.predict(opened.sample)
    assert np.array(after.answer).tolist() == np.array(before.answer).tolist()
    assert after.tokens == before.tokens


def test_a_list_answers_as_its_texts_do_alone() -> None:
    texts = ["good", "bad " * 9, "fine hello", "good bad", "world " * 11] * 7
    for task in ("text-classification", "token-classification"):
        opened = model(task)
        together = opened.predict(texts).answer
        alone = [opened.predict([text]).answer[0] for text in texts]
        assert together == alone


def room_of(opened: Model) -> int | None:
    assert isinstance(opened.session, Session)
    return opened.session.room


def test_what_runs_at_once_follows_the_memory_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Model.open(artifact("text-classification"), threads=1)
    assert room_of(opened) is None  # whoever measures is bound by nothing
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", str(2**16))
    monkeypatch.setenv("HOTFOOT_CACHE_MB", "0")
    opened.warm_up()
    alone = room_of(opened)
    assert alone is not None
    assert 2**34 < alone < 2**35  # half of 64 GiB and less
    monkeypatch.setenv("HOTFOOT_CACHE_MB", "1024")
    opened.fit(at_once=4)
    assert room_of(opened) == pytest.approx((alone - 2**29) / 4, rel=0.01)
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "1")
    opened.fit()
    assert room_of(opened) == 0
    assert opened.predict(["good", "bad"]).answer == model("text-classification").predict(["good", "bad"]).answer


def test_sixteen_threads_get_what_one_gets() -> None:
    opened = model("text-classification")
    cases: list[tuple[Any, dict[str, Any]]] = [
        ("good", {}),
        (LONG, {"truncate": True}),
        (["bad", "fine"], {"top_k": 1}),
        (LONG, {"truncate": True, "truncation_direction": "left"}),
    ]
    alone = [opened.predict(inputs, parameters).answer for inputs, parameters in cases]

    def again(index: int) -> bool:
        if index % 5 == 4:
            with pytest.raises(InputError):
                opened.predict(LONG)
            return True
        inputs, parameters = cases[index % 5]
        return bool(opened.predict(inputs, parameters).answer == alone[index % 5])

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(again, range(500)))

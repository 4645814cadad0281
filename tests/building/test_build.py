"""From a model to an artifact that answers like it: the whole build on tiny models of each kind."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hotfoot import targets
from hotfoot.contract import manifest
from hotfoot.contract.errors import ArtifactError, InputError, ParityError, PassError, UnsupportedError
from hotfoot.contract.manifest import WEIGHTS
from hotfoot.model import Model
from hotfoot_build import calibrate, graph, parity, pipeline, replay, weights
from hotfoot_build.resolve import Snapshot
from support import tiny
from support.hub import serve

EVERY = [(name, precision) for name in tiny.TASKS for precision in ("fp32", "int8")]


@pytest.mark.parametrize(("name", "precision"), EVERY)
def test_every_kind_of_model_builds_and_is_proven(name: str, precision: str) -> None:
    built = tiny.artifact(name, precision)
    assert manifest.verify(built.path) == built.manifest
    assert all(m.passed for m in built.parity.metrics)
    assert built.parity.texts == len(calibrate.texts(tiny.texts()))
    assert built.manifest.target == targets.local().name
    assert built.manifest.precision == precision
    assert built.manifest.independent_rows
    assert {r.name for r in built.manifest.recipe} == set(targets.local().recipes[precision])
    model = Model.open(built.path)
    assert model.predict(model.task.sample).answer


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("name", tiny.MORE)
def test_further_architectures_are_proven_too(name: str, precision: str, tmp_path: Path) -> None:
    built = tiny.run_build(tiny.request(name, tmp_path / "out", precision))
    assert all(m.passed for m in built.parity.metrics)
    assert built.manifest.independent_rows


def test_the_manifest_says_what_the_model_s_files_say() -> None:
    embed, classes, score = (tiny.artifact(n).manifest for n in ("embed", "classes", "score"))
    assert embed.facts == {"pooling": "mean", "normalize": True, "prompts": {}, "default_prompt": None, "dimensions": 64}
    assert embed.max_tokens == 96  # the least of 128 positions, 128 of the tokenizer and 96 of sentence-transformers
    assert embed.model.license == "apache-2.0"
    assert embed.model.notices == ("LICENSE",)
    assert "LICENSE" in {f.path for f in embed.files}
    assert classes.labels == tuple(f"class {i}" for i in range(12))
    assert classes.max_tokens == 64  # 66 rows in the position table, of which the padding index takes two
    assert classes.tokenizer.pad_id == 1
    assert score.facts == {"function_to_apply": "sigmoid"}


def test_the_shipped_tokenizer_neither_pads_nor_cuts() -> None:
    built = tiny.artifact("embed")
    shipped = json.loads((built.path / "tokenizer" / "tokenizer.json").read_text())
    assert json.loads((tiny.models() / "embed" / "tokenizer.json").read_text())["padding"] is not None
    assert shipped["padding"] is None
    assert shipped["truncation"] is None
    prediction = Model.open(built.path).predict("the fox")
    assert prediction.tokens < 10


def test_the_same_inputs_give_the_same_digest_wherever_they_lie(tmp_path: Path) -> None:
    elsewhere = tmp_path / "deep" / "embed"
    shutil.copytree(tiny.models() / "embed", elsewhere)
    os.utime(elsewhere / "config.json", (1, 1))
    again = tiny.run_build(tiny.request("embed", tmp_path / "out", "int8", model=str(elsewhere)))
    first = tiny.artifact("embed", "int8")
    assert again.manifest.digest == first.manifest.digest
    assert (again.path / "model.onnx").read_bytes() == (first.path / "model.onnx").read_bytes()


def test_other_inputs_give_another_digest(tmp_path: Path) -> None:
    digests = {tiny.artifact("embed", "fp32").manifest.digest, tiny.artifact("embed", "int8").manifest.digest}
    changed = tmp_path / "embed"
    shutil.copytree(tiny.models() / "embed", changed)
    config = json.loads((changed / "sentence_bert_config.json").read_text())
    (changed / "sentence_bert_config.json").write_text(json.dumps({**config, "max_seq_length": 48}))
    digests.add(tiny.run_build(tiny.request("embed", tmp_path / "a", model=str(changed))).manifest.digest)
    digests.add(tiny.run_build(tiny.request("embed", tmp_path / "b", name="other/name")).manifest.digest)
    digests.add(tiny.run_build(tiny.request("embed", tmp_path / "c", target="lambda-arm64")).manifest.digest)
    assert len(digests) == 5


@pytest.mark.parametrize("target", ["lambda-arm64", "lambda-x86_64"])
def test_an_artifact_for_another_machine_is_proven_here_and_not_opened(target: str, tmp_path: Path) -> None:
    built = tiny.run_build(tiny.request("tags", tmp_path / "out", "int8", target=target))
    assert all(m.passed for m in built.parity.metrics)
    if targets.load(target).arch != targets.machine_arch():
        with pytest.raises(ArtifactError, match="Build it for a target of this machine"):
            Model.open(built.path)


def test_a_missed_threshold_fails_with_numbers_and_leaves_what_was_there(tmp_path: Path) -> None:
    out = tmp_path / "out"
    tiny.run_build(tiny.request("embed", out))
    before = {p: p.read_bytes() for p in out.rglob("*") if p.is_file()}
    with pytest.raises(ParityError, match=r"cosine_mean 0\.99\d+, at least 1\.1 is asked: missed"):
        tiny.run_build(tiny.request("embed", out, "int8", thresholds={"cosine_mean": 1.1}))
    assert {p: p.read_bytes() for p in out.rglob("*") if p.is_file()} == before
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_an_unknown_threshold_lists_the_measures(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cosine_mean, cosine_min, cosine_p1"):
        tiny.run_build(tiny.request("embed", tmp_path / "out", thresholds={"accuracy": 0.9}))


def test_a_second_build_of_the_same_is_up_to_date(tmp_path: Path) -> None:
    asked = tiny.request("embed", tmp_path / "out")
    first = tiny.run_build(asked)
    stamp = (first.path / "manifest.json").stat().st_ino
    assert tiny.run_build(asked).manifest == first.manifest
    assert (first.path / "manifest.json").stat().st_ino == stamp
    tiny.run_build(replace(asked, force=True))
    assert (first.path / "manifest.json").stat().st_ino != stamp


def test_a_damaged_artifact_is_built_anew(tmp_path: Path) -> None:
    asked = tiny.request("embed", tmp_path / "out")
    first = tiny.run_build(asked)
    (first.path / "model.onnx").write_bytes(b"not a graph")
    tiny.run_build(asked)
    manifest.verify(first.path)


def test_a_folder_that_is_no_artifact_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(ArtifactError, match="will not be overwritten"):
        tiny.run_build(tiny.request("embed", tmp_path))
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_pickled_weights_need_a_word(tmp_path: Path) -> None:
    asked = tiny.request("tags", tmp_path / "out", model=str(tiny.models() / "pickled"))
    with pytest.raises(UnsupportedError, match="--allow-pickle"):
        tiny.run_build(asked)
    built = tiny.run_build(replace(asked, allow_pickle=True))
    text = "Maria lives in Paris"
    safe, pickled = Model.open(tiny.artifact("tags").path), Model.open(built.path)
    assert np.array_equal(safe.outputs((text,))[1][0], pickled.outputs((text,))[1][0])


def test_a_module_that_would_be_left_out_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "embed"
    shutil.copytree(tiny.models() / "embed", other)
    (other / "modules.json").write_text((other / "modules.json").read_text().replace("Normalize", "LSTM"))
    with pytest.raises(UnsupportedError, match="Transformer, Pooling, LSTM"):
        tiny.run_build(tiny.request("embed", tmp_path / "out", model=str(other)))


def test_a_checkpoint_without_the_task_s_head_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"the weights lack classifier\.bias, classifier\.weight"):
        tiny.run_build(tiny.request("tags", tmp_path / "out", model=str(tiny.models() / "embed")))


@pytest.mark.parametrize("pooling", ["cls", "none"])
def test_pooling_is_the_user_s_choice_where_the_model_names_none(pooling: str, tmp_path: Path) -> None:
    built = tiny.run_build(tiny.request("plain", tmp_path / "out", pooling=pooling))
    vector = Model.open(built.path).predict("the quick fox").answer[0]
    assert vector.shape == ((64,) if pooling != "none" else (Model.open(built.path).predict("the quick fox").tokens, 64))
    assert built.manifest.facts["normalize"] == (pooling != "none")


def test_pooling_against_the_model_s_own_modules_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="--pooling cls goes against"):
        tiny.run_build(tiny.request("embed", tmp_path / "out", pooling="cls"))


def test_a_lower_limit_is_kept_and_a_higher_one_refused(tmp_path: Path) -> None:
    built = tiny.run_build(tiny.request("embed", tmp_path / "out", max_tokens=20))
    assert built.manifest.max_tokens == 20
    assert Model.open(built.path).predict("fox " * 200, {"truncate": True}).tokens == 20
    with pytest.raises(UnsupportedError, match="above the model's own limit of 96"):
        tiny.run_build(tiny.request("embed", tmp_path / "two", max_tokens=97))


def test_texts_of_the_user_s_own(tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text('{"text": "Maria in Paris"}\n\n"the quick fox"\n')
    built = tiny.run_build(tiny.request("tags", tmp_path / "out", samples=tmp_path / "mine.jsonl"))
    assert built.parity.texts == 2
    (tmp_path / "bad.jsonl").write_text('{"text": "fine"}\n{"body": "no text"}\n')
    with pytest.raises(InputError, match="line 2"):
        tiny.run_build(tiny.request("tags", tmp_path / "out", samples=tmp_path / "bad.jsonl"))


def test_a_crash_of_the_export_names_its_last_words(tmp_path: Path) -> None:
    broken = tmp_path / "embed"
    shutil.copytree(tiny.models() / "embed", broken)
    (broken / "model.safetensors").write_bytes(b"\x10" * 64)
    with pytest.raises((PassError, UnsupportedError)):
        tiny.run_build(tiny.request("embed", tmp_path / "out", model=str(broken)))
    assert not (tmp_path / "out").exists()


def test_the_widened_copy_for_other_hosts_answers_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    built = tiny.run_build(tiny.request("embed", tmp_path / "out", "int8", target="lambda-arm64"))
    texts = ("the quick brown fox", "Maria")
    plain = Model.open(built.path, foreign=True).outputs(texts)[1]
    monkeypatch.setattr(targets, "cpu_features", lambda: frozenset({"avx2"}))
    monkeypatch.setattr(targets, "machine_arch", lambda: "x86_64")
    with parity.for_this_host(built.path) as widened:
        assert widened != built.path
        copy = Model.open(widened, foreign=True).outputs(texts)[1]
    assert all(np.array_equal(a, b) for a, b in zip(plain, copy, strict=True))


@pytest.mark.parametrize("name", ["embed", "shared"])
def test_a_host_without_vnni_proves_weights_that_lie_beside_their_graph(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The whole build there; it opens a copy with other weights, and what it writes is of the artifact."""
    monkeypatch.setattr(targets, "cpu_features", lambda: frozenset({"avx2"}))
    monkeypatch.setattr(targets, "machine_arch", lambda: "x86_64")
    monkeypatch.setattr(weights, "LEAST", 1_000)
    built = tiny.run_build(tiny.request(name, tmp_path / "out", "int8", target="lambda-arm64"))
    assert WEIGHTS in {f.path for f in built.manifest.files}
    assert replay.read(built.path).digest == manifest.read(built.path).digest
    with parity.for_this_host(built.path) as widened:
        assert (widened / WEIGHTS).read_bytes() != (built.path / WEIGHTS).read_bytes()
        manifest.verify(widened)
        outputs = [Model.open(path, foreign=True).outputs(("the quick brown fox", "Maria"))[1] for path in (built.path, widened)]
    assert all(np.array_equal(a, b) for a, b in zip(*outputs, strict=True))


def command(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """The command line, as a user starts it."""
    tiny.models()
    base = {k: v for k, v in os.environ.items() if not k.startswith("HF_")}
    own = {"XDG_CACHE_HOME": str(tiny.room() / "cache"), "HOTFOOT_EXPORT_PYTHON": str(tiny.interpreter()), "COLUMNS": "200"}
    code = "from hotfoot_build.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False, env={**base, **own, **environ}
    )


def test_the_command_line_builds_from_a_hub_and_records_no_token(tmp_path: Path) -> None:
    token = "hf_canary_3141592653"
    with serve() as hub:
        repo = hub.repo("org/embed", gated=True)
        sha = repo.commit_folder(tiny.models() / "embed")
        hub.grant(token, repo)
        out, texts = str(tmp_path / "out"), str(tiny.texts())
        arguments = ("build", "org/embed", "--task", "feature-extraction", "--precision", "fp32", "--out", out, "--samples", texts)
        refused = command(*arguments, HF_ENDPOINT=hub.url)
        assert refused.returncode == 2
        assert "HF_TOKEN" in refused.stderr
        done = command(*arguments, HF_ENDPOINT=hub.url, HF_TOKEN=token)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(tmp_path / "out")
    for step in ("resolve", "export", "tokenizer", "passes", "parity", "budget"):
        assert step in done.stderr
    made = manifest.verify(tmp_path / "out")
    assert (made.model.id, made.model.revision) == ("org/embed", sha)
    files = [*(tmp_path / "out").rglob("*"), *(tiny.room() / "cache").rglob("*")]
    assert not [p for p in files if p.is_file() and token.encode() in p.read_bytes()]
    assert token not in done.stderr


def test_exit_codes_and_words(tmp_path: Path) -> None:
    model = str(tiny.models() / "embed")
    few = ("--samples", str(tiny.texts()))
    missed = command("build", model, "--task", "feature-extraction", "--threshold", "cosine_p1=1.5", "--out", str(tmp_path / "a"), *few)
    assert missed.returncode == 6
    assert "cosine_p1" in missed.stderr
    assert not (tmp_path / "a").exists()
    unknown = command("build", model, "--task", "poetry")
    assert unknown.returncode == 3
    assert "There are: feature-extraction, fill-mask, " in unknown.stderr
    assert command("build", model, "--task", "feature-extraction", "--target", "toaster").returncode == 3
    assert command("build", str(tmp_path / "nowhere"), "--task", "feature-extraction").returncode == 2
    assert command("verify", str(tmp_path)).returncode == 4
    assert "Traceback" not in missed.stderr + unknown.stderr


def test_lists_for_people() -> None:
    listed = command("targets")
    assert f"{targets.local().name}" in listed.stdout
    assert "<- local" in listed.stdout
    assert set(targets.local().recipes) <= set(pipeline.PRECISIONS)
    assert "sentence-similarity" in command("tasks").stdout


def test_hotfoot_s_own_texts_are_many_and_reach_every_limit() -> None:
    every = calibrate.texts(None)
    assert len(every) >= 1000
    assert len(set(every)) > 0.99 * len(every)
    assert max(len(t.split()) for t in every) > 400


def test_a_weight_that_layers_share_stays_one() -> None:
    fp32, int8 = tiny.artifact("shared", "fp32"), tiny.artifact("shared", "int8")
    sizes = [weights.size(b.path) for b in (fp32, int8)]
    parameters = (tiny.models() / "shared" / "model.safetensors").stat().st_size
    assert sizes[0] < 1.1 * parameters + 60_000  # six layers of nodes come on top of the weights
    assert sizes[1] < sizes[0]


def test_a_tokenizer_of_sentencepiece_alone_becomes_a_tokenizer_json() -> None:
    assert not (tiny.models() / "pieces" / "tokenizer.json").exists()
    built = tiny.artifact("pieces")
    assert (built.path / "tokenizer" / "tokenizer.json").is_file()
    assert built.manifest.max_tokens == 64


def test_a_model_too_large_for_one_message_keeps_its_weights_beside_the_graph(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(graph, "LARGE", 10_000)  # on the way
    monkeypatch.setattr(weights, "LEAST", 1_000)
    built = tiny.run_build(tiny.request("embed", tmp_path / "out", "int8"))
    assert {"model.onnx", WEIGHTS} <= {f.path for f in built.manifest.files}
    text = ("the quick brown fox",)
    small, large = Model.open(tiny.artifact("embed", "int8").path), Model.open(built.path)
    assert np.array_equal(small.outputs(text)[1][0], large.outputs(text)[1][0])


def test_the_cache_keeps_no_text_of_the_user_s(tmp_path: Path) -> None:
    canary = "Wilhelmina Quackenbush of 7 Canary Row"
    (tmp_path / "mine.txt").write_text(f"{canary}\nthe fox\n")
    tiny.run_build(tiny.request("tags", tmp_path / "out", samples=tmp_path / "mine.txt"))
    everywhere = [*(tiny.room() / "cache").rglob("*"), *(tmp_path / "out").rglob("*")]
    assert [p for p in everywhere if p.is_file() and canary.encode() in p.read_bytes()] == []


def test_default_outputs_differ_where_the_builds_do() -> None:
    snapshot, target = resolved("org/model"), targets.load("lambda-arm64")
    asked = [tiny.request("embed", Path()), tiny.request("embed", Path(), "int8"), tiny.request("tags", Path())]
    names = {str(pipeline.default_out(request, snapshot, target)) for request in asked}
    names.add(str(pipeline.default_out(asked[0], resolved("other/model"), target)))
    assert len(names) == 4
    assert "artifacts/org--model-feature-extraction-fp32-lambda-arm64" in names


def resolved(name: str) -> Snapshot:
    ref = manifest.ModelRef(name, "sha256:0", "BertModel", "", ())
    return Snapshot(Path(), ref, "hub", (), None, pickled=False, fast_tokenizer=True, remote_code=())


def test_force_takes_no_export_from_the_cache(tmp_path: Path) -> None:
    asked = tiny.request("embed", tmp_path / "out")
    tiny.run_build(asked)
    exports = tiny.room() / "cache" / "hotfoot" / "exports"
    newest = max(exports.iterdir(), key=lambda f: f.stat().st_mtime)
    (newest / "model.onnx").write_bytes(b"damaged")
    assert tiny.run_build(replace(asked, force=True)).manifest.digest == tiny.artifact("embed").manifest.digest

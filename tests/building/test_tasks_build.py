"""The tasks over pairs of texts and over masks, through the real build."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import onnx
import pytest

from hotfoot.contract.errors import ParityError, UnsupportedError
from hotfoot.model import Model
from hotfoot_build import calibrate, graph, parity, replay
from hotfoot_build.exchange import Reference
from support import tiny

FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")


@pytest.mark.parametrize(("name", "texts", "samples"), [("answers", 20, 5), ("ranks", 70, 2), ("masks", 21, 5), ("nli", 50, 5)])
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_each_is_proven_and_gives_its_answers_again(name: str, texts: int, samples: int, precision: str) -> None:
    built = tiny.artifact(name, precision)
    assert built.parity.texts == texts
    assert all(m.passed for m in built.parity.metrics)
    assert built.manifest.independent_rows
    kept = replay.read(built.path)
    assert len(kept.samples) == samples
    assert replay.check(built.path, None) == samples
    model = Model.open(built.path)
    model.warm_up()
    assert model.predict(model.sample).answer


def test_two_outputs_leave_the_graph_as_one() -> None:
    names = [o.name for o in onnx.load(str(tiny.exported("answers"))).graph.output]
    assert names == ["start_logits", "end_logits"]
    manifest = tiny.artifact("answers").manifest
    [output] = manifest.graph().outputs
    assert (output.name, output.shape) == ("start_logits_and_end_logits", ("batch", "sequence", 2))
    assert manifest.labels == ()
    assert manifest.facts == {"null_id": 2}


@pytest.mark.slow
def test_a_graph_without_token_types_takes_pairs_too() -> None:
    for name in ("answers-roberta", "ranks-roberta"):
        assert "token_type_ids" not in {t.name for t in tiny.artifact(name).manifest.graph().inputs}
    asked = {"question": "who?", "context": "Maria lives in Springfield"}
    assert Model.open(tiny.artifact("answers-roberta").path).predict(asked).answer["end"] <= 26


def test_the_limit_cuts_pairs_as_the_original_did() -> None:
    model, samples = Model.open(tiny.artifact("ranks").path), calibrate.samples("rankings", tiny.pairs("rankings"))
    lengths = [len(e.ids) for e in model.outputs(samples.texts, samples.seconds)[0]]
    assert max(lengths) == 128
    assert lengths.count(128) >= 1  # whose ids parity has compared with the original's


def test_the_limit_cuts_the_text_and_never_a_hypothesis() -> None:
    model, samples = Model.open(tiny.artifact("nli").path), calibrate.samples("hypotheses", tiny.pairs("hypotheses"))
    encoded = model.outputs(samples.texts, samples.seconds)[0]
    assert max(len(e.ids) for e in encoded) == 64
    assert sum(len(e.ids) == 64 for e in encoded) >= 5
    for pair, hypothesis in zip(encoded, samples.seconds, strict=True):
        assert pair.second is not None
        assert pair.ids[slice(*pair.second)].tolist() == model.tokenizer.encode([hypothesis], truncate=None)[0].ids[1:-1].tolist()


# transformers takes the last output of a model whose names do not say, without a word
def test_which_output_is_entailment_is_known_or_the_build_stops(tmp_path: Path) -> None:
    assert tiny.artifact("nli").manifest.facts == {"entailment": 0, "contradiction": 2}
    assert tiny.artifact("nli-two").manifest.facts == {"entailment": 1, "contradiction": 0}
    nameless = Path(shutil.copytree(tiny.models() / "nli", tmp_path / "nameless"))
    config = json.loads((nameless / "config.json").read_text())
    config |= {"id2label": {str(i): f"LABEL_{i}" for i in range(3)}, "label2id": {f"LABEL_{i}": i for i in range(3)}}
    (nameless / "config.json").write_text(json.dumps(config))
    with pytest.raises(UnsupportedError, match=r"none of the model's labels \(LABEL_0, LABEL_1, LABEL_2\) is called entailment"):
        tiny.run_build(tiny.request("nli", tmp_path / "out", model=str(nameless)))
    assert not (tmp_path / "out").exists()
    told = tiny.request("nli", tmp_path / "out", model=str(nameless), entailment="LABEL_0", labels=("music", " sport"))
    built = tiny.run_build(told)
    assert built.manifest.facts == {"entailment": 0, "contradiction": 2, "candidate_labels": ["music", "sport"]}
    # the tokens of their hypotheses ship with the tokenizer
    remembering = Model.open(built.path, cache_bytes=2**22)
    remembering.predict("the fox")
    assert remembering.tokenizer.encodings is not None
    assert remembering.tokenizer.encodings.stats.misses == 1  # the text's own
    same = Model.open(tiny.artifact("nli").path).predict("the fox", {"candidate_labels": ["music", "sport"]})
    assert Model.open(built.path).predict("the fox").answer == same.answer
    assert tiny.run_build(replace(told, labels=("music",))).manifest.facts["candidate_labels"] == ["music"]  # and not what was there


def test_labels_of_the_user_s_own_are_for_one_task(tmp_path: Path) -> None:
    for asked in ({"labels": ("music",)}, {"entailment": "LABEL_0"}):
        with pytest.raises(UnsupportedError, match="--labels and --entailment have no meaning for text-ranking"):
            tiny.run_build(tiny.request("ranks", tmp_path / "out", **asked))


@pytest.mark.slow
def test_a_hypothesis_that_leaves_no_room_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        UnsupportedError, match=r"'This example is .*' has \d+ tokens: with 3 special ones it leaves no room .*, as the limit is 9\."
    ):
        tiny.run_build(tiny.request("nli", tmp_path / "out", max_tokens=9))


def bring(name: str, folder: Path, files: tuple[str, ...] = FILES) -> Path:
    folder.mkdir()
    shutil.copyfile(tiny.exported(name), folder / "model.onnx")
    for file in files:
        shutil.copyfile(tiny.models() / name / file, folder / file)
    return folder / "model.onnx"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["answers", "ranks-roberta", "masks-roberta", "nli"])
def test_an_onnx_file_of_the_users_own(name: str, tmp_path: Path) -> None:
    built = tiny.run_build(tiny.request(name, tmp_path / "out", model=str(bring(name, tmp_path / "mine"))))
    ours, theirs = Model.open(built.path), Model.open(tiny.artifact(name).path)
    assert ours.manifest.facts == theirs.manifest.facts
    assert json.dumps(ours.predict(ours.sample).answer) == json.dumps(theirs.predict(theirs.sample).answer)


@pytest.mark.slow
def test_one_output_that_holds_both_will_do(tmp_path: Path) -> None:
    mine = bring("answers", tmp_path / "mine")
    model = onnx.load(str(mine))
    starts = [o.name for o in model.graph.output]
    shape = [onnx.helper.make_node("Unsqueeze", [name, "last"], [f"{name}.2"]) for name in starts]
    model.graph.node.extend([*shape, onnx.helper.make_node("Concat", [f"{name}.2" for name in starts], ["both"], axis=-1)])
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([-1]), "last"))
    del model.graph.output[:]
    model.graph.output.append(onnx.helper.make_tensor_value_info("both", onnx.TensorProto.FLOAT, ["b", "s", 2]))
    onnx.save(model, str(mine))
    built = tiny.run_build(tiny.request("answers", tmp_path / "out", model=str(mine)))
    sample = Model.open(built.path).sample
    assert Model.open(built.path).predict(sample).answer == pytest.approx(Model.open(tiny.artifact("answers").path).predict(sample).answer)


def test_outputs_are_chosen_together_or_not_at_all() -> None:
    assert graph.choose_outputs(["end", "hidden", "start"], "start", ("end",)) == ("start", "end")
    assert graph.choose_outputs(["both"], "start", ("end",)) == ("both",)
    with pytest.raises(UnsupportedError, match="no output 'start'; it has end, hidden"):
        graph.choose_outputs(["end", "hidden"], "start", ("end",))


def test_an_onnx_file_whose_mask_is_not_named_is_refused(tmp_path: Path) -> None:
    mine = bring("masks", tmp_path / "mine", ("config.json", "tokenizer.json"))
    with pytest.raises(UnsupportedError, match="name no mask_token"):
        tiny.run_build(tiny.request("masks", tmp_path / "out", model=str(mine)))


@pytest.mark.slow
def test_a_tokenizer_without_a_mask_is_refused(tmp_path: Path) -> None:
    maskless = Path(shutil.copytree(tiny.models() / "masks", tmp_path / "maskless"))
    for file in ("tokenizer_config.json", "special_tokens_map.json"):
        written = json.loads((maskless / file).read_text())
        written.pop("mask_token")
        (maskless / file).write_text(json.dumps(written))
    with pytest.raises(UnsupportedError, match="has no mask token"):
        tiny.run_build(tiny.request("masks", tmp_path / "out", model=str(maskless)))


def test_a_head_of_several_labels_ranks_nothing(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="the model has 12 labels; a ranking takes one score"):
        tiny.run_build(tiny.request("ranks", tmp_path / "out", model=str(tiny.models() / "classes")))


def test_a_cross_encoder_as_sentence_transformers_saves_it(tmp_path: Path) -> None:
    saved = Path(shutil.copytree(tiny.models() / "ranks", tmp_path / "saved"))
    modules = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"}]
    (saved / "modules.json").write_text(json.dumps(modules))
    (saved / "sentence_bert_config.json").write_text(json.dumps({"transformer_task": "sequence-classification"}))
    card = {"activation_fn": "torch.nn.modules.linear.Identity", "default_prompt_name": None, "model_type": "CrossEncoder"}
    (saved / "config_sentence_transformers.json").write_text(json.dumps(card))
    built = tiny.run_build(tiny.request("ranks", tmp_path / "out", model=str(saved)))
    assert built.manifest.facts == {"function_to_apply": "none"}
    assert built.manifest.max_tokens == 128


def test_a_question_that_leaves_no_room_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"has \d+ tokens: with 3 special ones it leaves no room .*, as the limit is 12\."):
        tiny.run_build(tiny.request("answers", tmp_path / "out", max_tokens=12))


OWN = '''
"""A task with a probe of its own, which the export environment cannot import."""
from dataclasses import replace
from hotfoot.task import load

def probe(ids, output):
    assert len(ids) == len(output)
    return output[:1] * 2

TASK = replace(load("token-classification"), name="first-token", probe=probe)
'''


@pytest.mark.slow
def test_a_probe_of_the_users_own_is_asked_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acmeprobe.py").write_text(dedent(OWN))
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme" / "__init__.py").write_text("")
    (tmp_path / "acmeprobe.py").rename(tmp_path / "acme" / "first.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        built = tiny.run_build(tiny.request("tags", tmp_path / "out", task="acme.first"))
        model = Model.open(built.path)
    finally:
        for name in [n for n in sys.modules if n.split(".")[0] == "acme"]:
            del sys.modules[name]
    [kept] = model.outputs(("Maria in Paris",))[1]
    whole = replace(model, task=replace(model.task, probe=lambda _ids, output: output)).outputs(("Maria in Paris",))[1][0]
    assert np.array_equal(kept, whole[:1] * 2)


# --- the gate


def measured(name: str, change: Any, wanted: dict[str, float]) -> dict[str, float]:
    """What parity says when the original's outputs are changed by `change`."""
    model, corpus = (
        Model.open(tiny.artifact(name).path),
        {"answers": "questions", "ranks": "rankings", "nli": "hypotheses"}.get(name, "texts"),
    )
    path = tiny.texts() if corpus == "texts" else tiny.pairs(corpus)
    samples = calibrate.samples(model.task.corpus, path)
    if model.task.corpus == "masked":
        samples = samples.with_masks("[MASK]")
    encoded, outputs = model.outputs(samples.texts, samples.seconds)
    reference = Reference(tuple(change(i, o) for i, o in enumerate(outputs)), tuple(e.ids.astype(np.int64) for e in encoded))
    found = parity.measure(model, reference, samples, wanted)
    return {m.name: m.value for m in found.metrics}


@pytest.mark.parametrize("name", ["answers", "ranks", "masks", "nli"])
def test_the_gate_sees_what_is_the_same(name: str) -> None:
    wanted = dict(Model.open(tiny.artifact(name).path).task.thresholds["fp32"])
    assert all(value == pytest.approx(1.0, abs=1e-6) for value in measured(name, lambda _, o: o, wanted).values())


def swapped(output: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Of the best token and the next, each in the other's place."""
    return output[:, [0, 2, 1, *range(3, output.shape[1])]]


@pytest.mark.parametrize(
    ("name", "change", "missed"),
    [
        ("answers", lambda i, o: np.roll(o, 3, axis=0) if i % 2 else o, "exact_match 0.5"),
        ("ranks", lambda _, o: -o, "kendall -1.0"),
        ("masks", lambda i, o: swapped(o) if i % 2 else o, "top1 0.5"),
        ("nli", lambda _, o: -o, "kendall -1.0"),
        ("nli", lambda _, o: o[::-1], "label_agreement 0.0"),
    ],
)
def test_the_gate_sees_what_is_not(name: str, change: Any, missed: str) -> None:
    wanted = dict(Model.open(tiny.artifact(name).path).task.thresholds["int8"])
    with pytest.raises(ParityError, match=missed):
        measured(name, change, wanted)


@pytest.mark.parametrize("name", ["answers", "ranks", "masks", "nli"])
def test_a_number_that_is_none_never_passes(name: str) -> None:
    wanted = dict.fromkeys(Model.open(tiny.artifact(name).path).task.thresholds["int4"], -9.0)
    with pytest.raises(ParityError, match="missed"):
        measured(name, lambda i, o: unknown(o) if i == 3 else o, wanted)


def unknown(output: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The output of a model that has lost its numbers; where the first is a token's id, that stays."""
    found = np.full_like(output, np.nan)
    if output.ndim == 2 and output.shape[1] > 2:
        found[:, 0] = output[:, 0]
    return found

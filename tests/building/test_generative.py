"""Models that make text, of each kind: exported, fused, quantized and served, they say what transformers says."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from numpy.typing import NDArray

from hotfoot import targets
from hotfoot.contract.errors import ParityError, PassError, UnsupportedError
from hotfoot.contract.manifest import WEIGHTS
from hotfoot.decoder import Decoder
from hotfoot.generation import Answer
from hotfoot.model import Model
from hotfoot.task import Array, Encoded, Marks
from hotfoot_build import graph, stage
from hotfoot_build.passes import fuse_gqa
from hotfoot_build.pipeline import Built
from support import generating, tiny

LAYERS = 2
MODELS = (*generating.DECODERS, *generating.PAIRS)


def encoded(ids: NDArray[Any]) -> Encoded:
    return Encoded(ids.astype(np.int32), np.zeros(len(ids), np.int32), 0, lambda: Marks((), (), ()))


def answer(model: Model, ids: NDArray[Any], **parameters: Any) -> list[int]:
    """The decoder's tokens as transformers gives them: of an encoder-decoder with the one that it starts with."""
    request = model.task.parse("x", {"max_new_tokens": 24, **parameters}, model.manifest)
    made: list[Answer] = model.generate(request, (encoded(ids),), lambda _done: None)
    return [*model.manifest.facts.get("start", ()), *made[0].ids]


def whole(decoder: Decoder, ids: NDArray[Any], sizes: list[int]) -> Array:
    """Logits at every token, read in pieces of these sizes."""
    parts, state, at = [], decoder.begin(encoded(ids)), 0
    for size in sizes:
        for token in range(at, at + size) if size == 1 else [slice(at, at + size)]:
            logits, state = decoder._run(state, ids[token : token + 1] if isinstance(token, int) else ids[token])
            parts.append(logits)
        at += size
    return np.concatenate(parts)


def decoder_of(name: str, precision: str = "fp32") -> Decoder:
    session = generating.opened(name, precision).session
    assert isinstance(session, Decoder)
    return session


def counts(built: Built, role: str = "decoder") -> Counter[str]:
    return Counter(n.op_type for n in onnx.load(built.path / f"{role}.onnx").graph.node)


@pytest.mark.parametrize("name", [*MODELS, *(pytest.param(name, marks=pytest.mark.slow) for name in generating.FURTHER)])
def test_greedy_answers_are_those_of_transformers(name: str) -> None:
    model, expected = generating.opened(name), generating.expected(name)
    answers = [name for name in expected if name.startswith("made.")]
    assert len(answers) == 5
    for made in answers:
        prompt = expected[made.replace("made", "prompt")]
        assert answer(model, prompt) == expected[made].tolist(), made


@pytest.mark.parametrize("name", MODELS)
def test_the_build_finds_fp32_equal(name: str) -> None:
    built = generating.artifact(name)
    found = {m.name: m.value for m in built.parity.metrics}
    assert found["argmax_agreement"] >= 0.999
    assert found["perplexity_ratio"] >= 0.99999
    assert built.parity.tokens > 500


@pytest.mark.parametrize("name", generating.DECODERS)
@pytest.mark.parametrize("size", [1, 2, 4, 8, 9, 15, 16, 17, 40, 63, 100])
def test_logits_are_those_of_transformers_at_every_length_and_step(name: str, size: int) -> None:
    expected, decoder = generating.expected(name), decoder_of(name)
    steps = min(20, 100 - size)
    found = whole(decoder, expected["ids"], [size, *[1] * steps])
    assert np.abs(found - expected["logits"][: size + steps]).max() < 1e-4


@pytest.mark.parametrize("name", generating.DECODERS)
def test_several_tokens_on_top_of_a_cache_are_as_good_as_one_pass(name: str) -> None:
    expected, decoder = generating.expected(name), decoder_of(name)
    ids = expected["ids"][:12]
    assert np.abs(whole(decoder, ids, [7, 5]) - whole(decoder, ids, [12])).max() < 1e-4
    assert np.abs(whole(decoder, ids, [7, 5]) - expected["logits"][:12]).max() < 1e-4


@pytest.mark.parametrize("name", generating.DECODERS)
def test_rows_of_unequal_lengths_may_run_together(name: str) -> None:
    """The graph's own promise, for whoever runs batches: padding at the end of a row changes nothing."""
    built, ids = generating.artifact(name), generating.expected(name)["ids"]
    session = ort.InferenceSession(str(built.path / "decoder.onnx"), providers=["CPUExecutionProvider"])
    rows = [ids[:5], ids[20:29], ids[40:43]]
    alone = [whole(decoder_of(name), np.r_[row, ids[60:64]], [len(row), 1, 1, 1, 1]) for row in rows]
    lengths = np.array([len(row) for row in rows])
    padded = np.stack([np.r_[row, np.full(9 - len(row), 77)] for row in rows])
    past = {i.name: np.zeros((3, i.shape[1], 0, i.shape[3]), np.float32) for i in session.get_inputs() if i.name.startswith("past.")}
    for step in range(5):
        total = lengths.max() + step
        given = {"input_ids": padded, "attention_mask": np.arange(total) < (lengths + step)[:, None]}
        given["position_ids"] = np.tile(np.arange(9), (3, 1)) if step == 0 else (lengths + step - 1)[:, None]
        feed = {i.name: given[i.name].astype(np.int32 if "int32" in i.type else np.int64) for i in session.get_inputs() if i.name in given}
        logits, *present = session.run(None, {**feed, **past})
        past = dict(zip(past, present, strict=True))
        for row, (found, length) in enumerate(zip(logits, lengths, strict=True)):
            if step == 0:
                assert np.abs(found[:length] - alone[row][:length]).max() < 1e-4
            else:
                assert np.abs(found[0] - alone[row][length + step - 1]).max() < 1e-4
        padded = np.tile(ids[60 + step], (3, 1))


@pytest.mark.parametrize("name", generating.PAIRS)
def test_a_decoder_behind_an_encoder_gives_the_originals_logits(name: str) -> None:
    model, expected = generating.opened(name), generating.expected(name)
    source = replace(encoded(expected["ids"]), target=expected["ids"][:90].astype(np.int32))
    found = model.session.run([source])[0]
    assert found.shape == expected["logits"].shape
    assert np.abs(found - expected["logits"]).max() < 1e-4


@pytest.mark.parametrize("name", MODELS)
def test_a_text_among_others_is_answered_as_alone(name: str) -> None:
    model = generating.opened(name)
    texts = ["the quick", "Maria Gonzalez lives at 42 Elm Street", "naïve"]
    parameters = {"max_new_tokens": 12}
    together = model.predict(texts, parameters).answer
    assert together == [model.predict(text, parameters).answer[0] for text in texts]
    assert len({str(a) for a in together}) > 1


def test_attention_is_one_operator_a_layer() -> None:
    for name, window in (("llama", None), ("mistral", 8), ("gpt2", None)):
        built = generating.artifact(name)
        nodes = [n for n in onnx.load(built.path / "decoder.onnx").graph.node if n.op_type == "GroupQueryAttention"]
        assert len(nodes) == LAYERS
        assert "Softmax" not in counts(built)
        windows = {a.i for n in nodes for a in n.attribute if a.name == "local_window_size"} - {-1}
        assert windows == ({window} if window else set())
        rotary = {a.i for n in nodes for a in n.attribute if a.name == "do_rotary"} - {0}
        assert rotary == (set() if name == "gpt2" else {1})
        doors = {t.name for t in built.manifest.graph("decoder").inputs if "." not in t.name}
        assert doors == {"input_ids", "attention_mask"} | ({"position_ids"} if name == "gpt2" else set())


def test_a_llama_is_left_with_what_it_computes() -> None:
    found = counts(generating.artifact("llama"))
    mask = {"ReduceSum": 1, "Sub": 1, "Shape": 1, "Squeeze": 1, "Cast": 1}
    layers = {"SimplifiedLayerNormalization": 2, "MatMul": 7, "GroupQueryAttention": 1, "Add": 2, "QuickGelu": 1, "Mul": 1}
    wanted = {**mask, **{op: n * LAYERS for op, n in layers.items()}, "Gather": 1, "FusedMatMul": 1}
    wanted["SimplifiedLayerNormalization"] += 1
    assert found == wanted


def test_a_layer_that_is_not_recognised_fails_the_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    generating.artifact("llama")
    seen = fuse_gqa.find
    monkeypatch.setattr(fuse_gqa, "find", lambda current: seen(current)[:1])
    with pytest.raises(PassError, match="fuse_gqa: 1 of 2 layers' attention was recognised"):
        tiny.run_build(generating.request("llama", tmp_path / "out"))


def test_the_past_has_one_pair_a_layer_of_the_decoder() -> None:
    built = generating.artifact("bart")  # 3 encoder and 1 decoder layers
    encoder, decoder = built.manifest.graph("encoder"), built.manifest.graph("decoder")
    assert [t.name for t in encoder.outputs] == ["cross.0.key", "cross.0.value"]
    assert [t.name for t in decoder.outputs] == ["logits", "present.0.key", "present.0.value"]
    assert counts(built, "encoder")["Softmax"] == 3
    assert counts(built)["Softmax"] == 2


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_tied_embeddings_are_stored_once(name: str) -> None:
    assert size(name, "fp32") <= 1.1
    assert size(name, "int8") <= 0.35
    found = onnx.load(generating.artifact(name, "int8").path / "decoder.onnx").graph
    large = [i.name for i in found.initializer if np.prod(i.dims) >= 4200 * 64]
    assert len(large) == 1
    assert {n.op_type for n in found.node if large[0] in n.input} == {"Gather", "MatMulNBits"}


@pytest.mark.parametrize("name", generating.PAIRS)
def test_encoder_and_decoder_have_one_vocabulary(name: str) -> None:
    assert size(name, "fp32") <= 1.1
    assert size(name, "int8") <= 0.35
    for precision in ("fp32", "int8"):
        built = generating.artifact(name, precision)
        places = []
        for role in ("encoder", "decoder"):
            held = onnx.load(built.path / f"{role}.onnx", load_external_data=False).graph.initializer
            kept = [i for i in held if i.external_data and np.prod(i.dims) == 4200 * 64]
            places.append([(e.key, e.value) for i in kept for e in i.external_data])
        assert dict(places[0])["location"] == WEIGHTS
        assert places[0] == places[1]


def size(name: str, precision: str) -> float:
    """The artifact's graphs against the model's own weights."""
    files = generating.artifact(name, precision).manifest.files
    return sum(f.size for f in files) / (generating.folder(name) / "model.safetensors").stat().st_size


@pytest.mark.parametrize("name", MODELS)
def test_int8_weights_pass_the_gate(name: str) -> None:
    built = generating.artifact(name, "int8")
    nodes = [n for g in built.manifest.graphs for n in onnx.load(built.path / g.file).graph.node]
    assert not [n for n in nodes if n.op_type in ("MatMul", "Gemm", "FusedMatMul") and _large_constant(built, n)]
    levels = {a.i for n in nodes if n.op_type == "MatMulNBits" for a in n.attribute if a.name == "accuracy_level"}
    assert levels == {4}


@pytest.mark.parametrize("name", ["llama", pytest.param("bart", marks=pytest.mark.slow)])
def test_int4_weights_pass_the_gate(name: str) -> None:
    built = generating.artifact(name, "int4-weights")
    nodes = [n for g in built.manifest.graphs for n in onnx.load(built.path / g.file).graph.node if n.op_type == "MatMulNBits"]
    bits = Counter(a.i for n in nodes for a in n.attribute if a.name == "bits")
    assert bits[4] > bits[8] > 0  # the tied table keeps 8
    assert all(any(a.name == "accuracy_level" for a in n.attribute) for n in nodes)


def _large_constant(built: Built, node: onnx.NodeProto) -> bool:
    return any(i.name in node.input and np.prod(i.dims) >= 64 * 64 for i in onnx.load(built.path / "decoder.onnx").graph.initializer)


def test_a_build_that_is_too_far_off_fails(tmp_path: Path) -> None:
    with pytest.raises(ParityError, match=r"argmax_agreement 0\.\d+, at least 1\.0 is asked: missed"):
        tiny.run_build(generating.request("llama", tmp_path / "out", "int4-weights", thresholds={"argmax_agreement": 1.0}))


def test_a_text_past_the_window_is_compared() -> None:
    assert generating.artifact("mistral").parity.texts == generating.artifact("llama").parity.texts + 1


def test_a_graph_of_the_users_own_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "brought"
    folder.mkdir()
    for file in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (folder / file).write_bytes((generating.folder("llama") / file).read_bytes())
    for file, name in (("decoder.onnx", "model.onnx"), (WEIGHTS, WEIGHTS)):
        (folder / name).write_bytes((generating.artifact("llama").path / file).read_bytes())
    with pytest.raises(UnsupportedError, match="a graph with a cache of hotfoot's own making"):
        tiny.run_build(generating.request("llama", tmp_path / "out", "fp32", model=str(folder / "model.onnx")))


def test_every_target_has_recipes_for_graphs_that_make_text() -> None:
    for name in targets.names():
        target = targets.load(name)
        assert set(target.decoder_recipes) == {"fp32", "int8", "int4-weights"}
        assert stage.recipe(target, "int8", "decoder") != stage.recipe(target, "int8")
    with pytest.raises(UnsupportedError, match="no recipe for int8-static"):
        stage.recipe(targets.local(), "int8-static", "encoder")


def test_fusing_leaves_a_graph_without_a_cache_alone() -> None:
    for name in ("bart", "t5"):
        built = generating.artifact(name)
        for role in ("encoder", "decoder"):
            current = graph.load(built.path / f"{role}.onnx", role)
            assert fuse_gqa.applies(current, fuse_gqa.Options(128)) == "no decoder with a cache of its own"

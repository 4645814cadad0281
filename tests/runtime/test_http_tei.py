"""The Text Embeddings Inference dialect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnxruntime
import pytest

from hotfoot.model import Model
from support.serving import artifact, client, model, opened


def test_embed_always_answers_a_list_of_vectors() -> None:
    http = client("feature-extraction")
    assert http.post("/embed", json={"inputs": "east"}).json() == [[1.0, 0.0, 0.0, 0.0]]
    assert http.post("/embed", json={"inputs": ["east", "north"]}).json() == [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]]


def test_embed_takes_its_options_beside_inputs() -> None:
    http = client("sentence-similarity")
    whole = {"truncate": True, "truncation_direction": "Left", "normalize": True, "prompt_name": None, "dimensions": 2}
    answer = http.post("/embed", json={"inputs": "north " * 90 + "east", **whole})
    assert answer.status_code == 200, answer.text
    assert len(answer.json()[0]) == 2


def test_embed_makes_unit_vectors_unless_told_not_to(tmp_path: Path) -> None:
    """The dialect's default is `normalize`, also for a model without that step; elsewhere the model's own counts."""
    plain = opened(tmp_path, "feature-extraction", facts={"normalize": False})
    http = client(plain)
    for body in ({}, {"normalize": True}, {"normalize": None}):
        assert http.post("/embed", json={"inputs": "up", **body}).json() == [[0.0, 0.0, 1.0, 0.0]]
    for answer in (http.post("/embed", json={"inputs": "up", "normalize": False}), http.post("/", json={"inputs": "up"})):
        assert answer.json() == [[0.0, 0.0, 3.0, 0.0]]
    assert http.post("/", json={"inputs": "up", "parameters": {"normalize": True}}).json() == [[0.0, 0.0, 1.0, 0.0]]


def test_truncation_direction_decides_what_is_kept() -> None:
    http = client("feature-extraction")
    text = "east " * 70 + "north " * 70
    for direction, kept in (("Left", [0.0, 1.0, 0.0, 0.0]), ("Right", [1.0, 0.0, 0.0, 0.0])):
        assert http.post("/embed", json={"inputs": text, "truncate": True, "truncation_direction": direction}).json() == [kept]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dimensions": 99}, "dimensions: is 99; it must be from 1 to 4."),
        ({"normalize": "yes"}, "normalize: must be a boolean, not a text."),
        ({"normalize": False}, "normalize: cannot be false"),
        ({"truncation_direction": "Up"}, "truncation_direction: is 'up'"),
        ({"prompt_name": "query"}, "prompt_name: is 'query'"),
        ({"pooling": "cls"}, "pooling: is not a parameter of this task."),
    ],
)
def test_embed_names_the_option_as_it_was_sent(options: dict[str, Any], said: str) -> None:
    answer = client("feature-extraction").post("/embed", json={"inputs": "east", **options})
    assert answer.status_code == 422
    assert answer.json()["error"].startswith(said)


def test_similarity() -> None:
    body = {"inputs": {"source_sentence": "east", "sentences": ["west", "east"]}, "parameters": {"truncate": True}}
    assert client("feature-extraction").post("/similarity", json=body).json() == [-1.0, 1.0]


def test_predict_is_flat_for_one_text_and_a_list_for_a_batch() -> None:
    http = client("text-classification")
    one = http.post("/predict", json={"inputs": "good", "raw_scores": True}).json()
    assert one == [{"label": "POSITIVE", "score": 3.0}, {"label": "NEGATIVE", "score": -2.0}]
    assert http.post("/predict", json={"inputs": ["good"], "raw_scores": True}).json() == one
    batch = http.post("/predict", json={"inputs": [["good"], ["bad"]], "raw_scores": True}).json()
    assert batch == [one, [{"label": "NEGATIVE", "score": 4.0}, {"label": "POSITIVE", "score": -1.0}]]


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        (["good", ""], "inputs[1]: is empty."),
        ([["good"], ["good", 5]], "inputs[1][1]: must be a text, not a number."),
        ([["good"], ["good", "bad " * 100]], "inputs[1][1]: "),
        ({"text": "good"}, "inputs: must be a text, not an object."),
        ([["a", "b", "c"]], "inputs[0]: holds 3 items"),
        ([[]], "inputs[0]: holds 0 items"),
        ([["good"], [5]], "inputs[1][0]: must be a text, not a number."),
        ([], "inputs: is an empty list"),
    ],
)
def test_predict_refuses_what_is_no_sequence(inputs: Any, said: str) -> None:
    answer = client("text-classification").post("/predict", json={"inputs": inputs})
    assert answer.status_code == 422
    assert answer.json()["error"].startswith(said)


def test_tokenize_gives_spans_of_the_text_as_sent() -> None:
    http = client("text-classification")
    text = "🦊 Good, Héllo"
    found = http.post("/tokenize", json={"inputs": text}).json()[0]
    assert all(text[t["start"] : t["stop"]] == t["text"] for t in found if not t["special"])
    assert found[0] == {"id": 2, "text": "[CLS]", "special": True, "start": None, "stop": None}
    bare = http.post("/tokenize", json={"inputs": [text], "add_special_tokens": False}).json()[0]
    assert bare == [t for t in found if t["text"] not in ("[CLS]", "[SEP]")]


def test_tokenize_counts_a_text_past_the_limit() -> None:
    http = client("text-classification")
    limit = http.get("/info").json()["max_tokens"]
    found = http.post("/tokenize", json={"inputs": "hello " * 2 * limit}).json()[0]
    assert len(found) == 2 * limit + 2


def test_decode_turns_ids_back_into_text() -> None:
    http = client("text-classification")
    ids = [t["id"] for t in http.post("/tokenize", json={"inputs": "hello world"}).json()[0]]
    assert http.post("/decode", json={"ids": ids}).json() == ["hello world"]
    assert http.post("/decode", json={"ids": [ids, ids], "skip_special_tokens": False}).json() == ["[CLS] hello world [SEP]"] * 2


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        ("x", "ids: must be a list"),
        ([], "ids: must be a list"),
        (["x"], "ids[0]: must be a token id, not a text."),
        ([5, True], "ids[1]: must be a token id, not a boolean."),
        ([[5], 6], "ids[1]: must be a list of token ids, not a number."),
        ([-1], "ids[0]: is -1, which is not in the vocabulary."),
        ([[5, 2**40]], "ids[0][1]: is 1099511627776, which is not in the vocabulary."),
        ([99999], "ids[0]: is 99999, which is not in the vocabulary."),
    ],
)
def test_decode_refuses_what_is_no_token(ids: Any, said: str) -> None:
    answer = client("text-classification").post("/decode", json={"ids": ids})
    assert answer.status_code == 422
    assert answer.json()["error"].startswith(said)


def test_info_says_what_is_served() -> None:
    info = client("feature-extraction").get("/info").json()
    manifest = model("feature-extraction").manifest
    wanted = {
        "model_id": "rigged/tiny",
        "model_sha": "0" * 40,
        "task": "feature-extraction",
        "tasks": ["feature-extraction", "sentence-similarity"],
        "target": manifest.target,
        "precision": "fp32",
        "digest": manifest.digest,
        "max_tokens": 64,
        "labels": [],
        "dimensions": 4,
        "license": "apache-2.0",
        "onnxruntime": onnxruntime.__version__,
        "threads": 1,
        "device": "cpu",
    }
    assert {name: info[name] for name in wanted} == wanted
    assert client("text-classification").get("/info").json()["labels"] == ["NEGATIVE", "POSITIVE"]


def test_health() -> None:
    assert client("text-classification").get("/health").json() == {"status": "ok"}


def test_metrics_on_lambda_names_the_namespace() -> None:
    answer = client("text-classification", namespace="shop/models").get("/metrics")
    assert answer.status_code == 404
    assert "CloudWatch, namespace shop/models" in answer.json()["error"]


def test_tokens_are_metered_and_may_be_read_anew() -> None:
    answer = client("text-classification").post("/tokenize", json={"inputs": ["good bad", "fine"]})
    assert (answer.headers["x-compute-tokens"], answer.headers["x-compute-characters"]) == (str(4 + 3), str(8 + 4))
    remembering = Model.open(artifact("text-classification"), threads=1, cache_bytes=2**22)
    http = client(remembering, cache_bytes=2**22)
    for _ in range(2):
        http.post("/tokenize", json={"inputs": "a text of its own"}, headers={"x-use-cache": "false"})
    assert remembering.tokenizer.encodings is not None
    assert remembering.tokenizer.encodings.stats.entries == 0


@pytest.mark.parametrize(
    ("inputs", "where"),
    [
        ("good " * 90, "inputs"),
        (["good " * 90, "bad"], "inputs[0]"),
        ([["bad"], ["good " * 90]], "inputs[1][0]"),
        ([["bad", "good " * 90]], "inputs[0][1]"),
    ],
)
def test_predict_names_what_is_too_long_as_it_was_sent(inputs: Any, where: str) -> None:
    error = client("text-classification").post("/predict", json={"inputs": inputs}).json()["error"]
    assert error.startswith(f"{where}: the "), error

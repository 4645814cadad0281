"""The Hugging Face dialect: shapes, parameters, options, and which task a path or a body means."""

from __future__ import annotations

import math
from typing import Any

import pytest

from support.serving import HF_ROUTES, TASKS, client, sample


def softmax(*logits: float) -> list[float]:
    total = sum(map(math.exp, logits))
    return [math.exp(x) / total for x in logits]


@pytest.mark.parametrize("path", HF_ROUTES)
@pytest.mark.parametrize("task", TASKS)
def test_every_route_gives_the_same_answer(task: str, path: str) -> None:
    answer = client(task).post(path.format(task=task), json={"inputs": sample(task)})
    assert answer.status_code == 200, answer.text
    assert answer.json() == client(task).post("/", json={"inputs": sample(task)}).json()


def test_text_classification_is_one_ranking_an_input() -> None:
    http = client("text-classification")
    bad, good = softmax(4.0, -1.0), softmax(-2.0, 3.0)
    one = http.post("/", json={"inputs": "bad"}).json()
    assert [[s["label"] for s in ranking] for ranking in one] == [["NEGATIVE", "POSITIVE"]]
    assert [s["score"] for s in one[0]] == pytest.approx(bad)
    two = http.post("/", json={"inputs": ["bad", "good"]}).json()
    assert two[0] == one[0]
    assert [s["score"] for s in two[1]] == pytest.approx(sorted(good, reverse=True))
    # the mean of two rigged words
    mixed = http.post("/", json={"inputs": "good bad", "parameters": {"top_k": 1}}).json()
    assert mixed == [[{"label": "NEGATIVE", "score": 0.5}]]


def test_top_k_and_function_to_apply() -> None:
    http = client("text-classification")
    raw = http.post("/", json={"inputs": "good", "parameters": {"function_to_apply": "none", "top_k": 1}}).json()
    assert raw == [[{"label": "POSITIVE", "score": 3.0}]]


def test_token_classification_spans_are_code_points_of_the_text() -> None:
    text = "🦊 Maria Gonzalez lives in Springfield"
    entities = client("token-classification").post("/", json={"inputs": text}).json()
    assert [(e["entity_group"], text[e["start"] : e["end"]]) for e in entities] == [("PER", "Maria Gonzalez"), ("LOC", "Springfield")]
    assert all(text[e["start"] : e["end"]] == e["word"] for e in entities)


def test_embeddings_are_the_rigged_directions() -> None:
    http = client("feature-extraction")
    assert http.post("/", json={"inputs": ["east", "up", "east north"]}).json() == [
        [1.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, 1.0, 0.0],
        pytest.approx([2**-0.5, 2**-0.5, 0.0, 0.0]),
    ]


def test_parameters_may_stand_beside_inputs() -> None:
    http = client("feature-extraction")
    beside = http.post("/", json={"inputs": "hello world", "dimensions": 2})
    inside = http.post("/", json={"inputs": "hello world", "parameters": {"dimensions": 2}})
    assert beside.json() == inside.json()
    assert len(beside.json()[0]) == 2
    twice = http.post("/", json={"inputs": "hello", "dimensions": 2, "parameters": {"dimensions": 3}})
    assert (twice.status_code, twice.json()["error"]) == (422, "dimensions: is given twice, here and in parameters.")


@pytest.mark.parametrize("task", ["feature-extraction", "sentence-similarity"])
def test_embedding_artifacts_serve_both_tasks(task: str) -> None:
    http = client(task)
    pair = {"source_sentence": "east", "sentences": ["north", "west", "up", "east"]}
    for path in ("/", "/pipeline/sentence-similarity"):
        assert http.post(path, json={"inputs": pair}).json() == [0.0, -1.0, 0.0, 1.0]
    for path in ("/", "/pipeline/feature-extraction"):
        assert http.post(path, json={"inputs": ["north"]}).json() == [[0.0, 1.0, 0.0, 0.0]]


@pytest.mark.parametrize("path", ["/pipeline/fill-mask", "/pipeline/os.path", "/models/other/model", "/pipeline/text-classification/other"])
def test_unknown_task_or_model_is_404_that_says_what_is_served(path: str) -> None:
    answer = client("text-classification").post(path, json={"inputs": "good"})
    assert answer.status_code == 404
    assert "text-classification" in answer.json()["error"] or "rigged/tiny" in answer.json()["error"]


def test_the_body_may_name_the_model() -> None:
    http = client("text-classification")
    assert http.post("/", json={"inputs": "good", "model": "rigged/tiny"}).status_code == 200
    other = http.post("/", json={"inputs": "good", "model": "gpt2"})
    assert (other.status_code, other.json()["error_type"]) == (404, "UnknownModel")


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        ({"use_cache": False, "wait_for_model": True, "use_gpu": True}, 200, ""),
        ({"use_cache": None}, 200, ""),
        (None, 200, ""),
        ({"use_cache": "no"}, 422, "options.use_cache: must be a boolean, not a text."),
        ({"speed": True}, 422, "options.speed: is not an option."),
        ([], 422, "options: must be an object, not a list."),
    ],
)
def test_options(options: Any, status: int, said: str) -> None:
    answer = client("text-classification").post("/", json={"inputs": "good", "options": options})
    assert answer.status_code == status
    assert said in answer.text


def test_truncation_is_the_same_for_a_text_and_a_list() -> None:
    long = "hello " * 100
    for task, name in (("text-classification", "truncation"), ("feature-extraction", "truncate")):
        http = client(task)
        bare = http.post("/", json={"inputs": long, "parameters": {name: True}})
        listed = http.post("/", json={"inputs": ["hello", long], "parameters": {name: True}})
        assert (bare.status_code, listed.status_code) == (200, 200)
        assert listed.json() == [http.post("/", json={"inputs": "hello"}).json()[0], bare.json()[0]]
        refused = http.post("/", json={"inputs": ["hello", long]})
        assert refused.status_code == 422
        assert refused.json()["error"].startswith("inputs[1]: the text has 102 tokens, the limit is 64")


def test_unknown_members_are_named() -> None:
    answer = client("text-classification").post("/", json={"inputs": "good", "stream": True})
    assert answer.status_code == 422
    assert answer.json()["error"].startswith("stream: is not known here. There are: inputs, parameters, options, model, ")

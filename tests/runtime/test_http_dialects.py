"""What holds in every dialect alike: cuts, texts that are none, wrong types, and the order of what comes back."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from support.serving import client

LONG = "hello " * 100  # 102 tokens, where 64 are the limit
JSON = {"content-type": "application/json"}


# how texts are sent, one or several, each to be cut where it is too long
BATCHES: list[tuple[str, str, Callable[[Any], dict[str, Any]]]] = [
    ("feature-extraction", "/embed", lambda texts: {"inputs": texts, "truncate": True}),
    ("feature-extraction", "/", lambda texts: {"inputs": texts, "parameters": {"truncation": True}}),
    ("text-classification", "/", lambda texts: {"inputs": texts, "parameters": {"truncate": True}}),
    ("token-classification", "/invocations", lambda texts: {"inputs": texts, "parameters": {"truncation": True}}),
]


@pytest.mark.parametrize(("task", "path", "put"), BATCHES, ids=lambda value: value if isinstance(value, str) else "")
def test_a_cut_is_made_for_a_text_and_a_list_alike(task: str, path: str, put: Callable[[Any], dict[str, Any]]) -> None:
    http = client(task)
    short, long = "north Springfield bad", "Maria east good " + LONG

    def rows(texts: str | list[str]) -> list[Any]:
        answer = http.post(path, json=put(texts))
        assert answer.status_code == 200, answer.text
        # of a bare text one task gives its entities, the others a list of one
        return [answer.json()] if isinstance(texts, str) and task == "token-classification" else list(answer.json())

    assert rows([long]) == rows(long) != rows(short)
    assert rows([short, long]) == [*rows(short), *rows(long)]


def test_predict_cuts_a_text_and_a_list_alike() -> None:
    http = client("text-classification")
    long, cut = "good " + LONG, {"truncate": True, "raw_scores": True}
    bare = http.post("/predict", json={"inputs": long, **cut}).json()
    assert http.post("/predict", json={"inputs": [[long]], **cut}).json() == [bare]
    short = http.post("/predict", json={"inputs": "bad", "raw_scores": True}).json()
    assert http.post("/predict", json={"inputs": [["bad"], [long]], **cut}).json() == [short, bare]


REFUSED: list[tuple[str, str, dict[str, Any], str]] = [
    ("feature-extraction", "/embed", {"inputs": ["east", LONG], "truncate": False}, "inputs[1]: "),
    ("feature-extraction", "/", {"inputs": ["east", LONG]}, "inputs[1]: "),
    ("feature-extraction", "/v1/embeddings", {"input": ["east", LONG]}, "input[1]: "),
    ("feature-extraction", "/similarity", {"inputs": {"source_sentence": "east", "sentences": ["up", LONG]}}, "inputs.sentences[1]: "),
    ("text-classification", "/predict", {"inputs": [["good"], [LONG]]}, "inputs[1][0]: "),
    ("text-classification", "/invocations", {"inputs": ["good", LONG]}, "inputs[1]: "),
    ("text-ranking", "/rerank", {"query": "query", "texts": ["stage", LONG]}, "texts[1]: "),
    ("text-ranking", "/v1/rerank", {"query": "query", "documents": ["stage", LONG]}, "documents[1]: "),
    ("text-ranking", "/v2/rerank", {"query": "query", "documents": ["stage", LONG]}, "documents[1]: "),
]


@pytest.mark.parametrize(("task", "path", "body", "where"), REFUSED, ids=lambda value: str(value)[:24])
def test_without_a_cut_the_long_one_is_named(task: str, path: str, body: dict[str, Any], where: str) -> None:
    answer = client(task).post(path, json=body)
    said = answer.json()["error"]
    assert answer.status_code == (400 if path == "/v1/embeddings" else 422)
    text = said["message"] if isinstance(said, dict) else said
    assert text.startswith(where), text
    assert "the limit is 64" in text


@pytest.mark.parametrize("documents", [["stage", LONG], [LONG]])
@pytest.mark.parametrize(("path", "name"), [("/rerank", "texts"), ("/v1/rerank", "documents"), ("/v2/rerank", "documents")])
def test_a_ranking_cuts_when_asked(path: str, name: str, documents: list[str]) -> None:
    answer = client("text-ranking").post(path, json={"query": "guitar", name: documents, "truncate": True})
    assert answer.status_code == 200, answer.text


LONE = "ok\\ud800bad"
NO_TEXT = [
    ("text-classification", "/", f'{{"inputs": ["good", "{LONE}"]}}', "inputs[1]"),
    ("text-classification", "/predict", f'{{"inputs": [["good"], ["good", "{LONE}"]]}}', "inputs[1][1]"),
    ("text-classification", "/invocations", f'{{"inputs": "x", "{LONE}": 1}}', "the body"),
    ("text-classification", "/tokenize", f'{{"inputs": "{LONE}"}}', "inputs"),
    ("feature-extraction", "/v1/embeddings", f'{{"input": ["a", "{LONE}"]}}', "input[1]"),
    ("text-ranking", "/rerank", f'{{"query": "q", "texts": ["a", "{LONE}"]}}', "texts[1]"),
    ("text-ranking", "/v1/rerank", f'{{"query": "{LONE}", "documents": ["a"]}}', "query"),
    ("text-ranking", "/v2/rerank", f'{{"query": "q", "documents": [{{"text": "{LONE}"}}]}}', "documents[0].text"),
    ("question-answering", "/", f'{{"inputs": {{"question": "q", "context": "{LONE}"}}}}', "inputs.context"),
    (
        "zero-shot-classification",
        "/",
        f'{{"inputs": "x", "parameters": {{"candidate_labels": ["a", "{LONE}"]}}}}',
        "parameters.candidate_labels[1]",
    ),
    ("fill-mask", "/", f'{{"inputs": "[MASK]", "parameters": {{"targets": "{LONE}"}}}}', "parameters.targets"),
]


@pytest.mark.parametrize(("task", "path", "raw", "where"), NO_TEXT, ids=lambda value: str(value)[:24])
def test_half_a_surrogate_pair_is_named_and_a_whole_one_is_text(task: str, path: str, raw: str, where: str) -> None:
    http = client(task)
    answer = http.post(path, content=raw, headers=JSON)
    said = answer.json()["error"]
    if path == "/v1/embeddings":
        assert (answer.status_code, said["param"]) == (400, where)
        said = said["message"]
    else:
        assert answer.status_code == 422
    assert said.startswith(f"{where}: has a lone surrogate")
    if where != "the body":
        whole = http.post(path, content=raw.replace("\\ud800", "\\ud83e\\udd8a"), headers=JSON)
        assert whole.status_code == 200, whole.text


# a right body, and the member of it that is spoilt
SPOILT: list[tuple[str, str, dict[str, Any], str]] = [
    ("feature-extraction", "/v1/embeddings", {"input": "east"}, "input"),
    ("feature-extraction", "/embed", {"inputs": "east"}, "inputs"),
    ("text-classification", "/invocations", {"inputs": "good"}, "inputs"),
    ("text-ranking", "/rerank", {"query": "query", "texts": ["stage"]}, "texts"),
    ("text-ranking", "/v1/rerank", {"query": "query", "documents": ["stage"]}, "documents"),
    ("text-ranking", "/v2/rerank", {"query": "query", "documents": ["stage"]}, "documents"),
    ("text-ranking", "/v2/rerank", {"query": "query", "documents": ["stage"]}, "query"),
]
WRONG: Sequence[Any] = (None, 123, True, 1.5, {"x": 1}, ["a", None], ["a", 5], [["a", "b", "c"]], [["a"]], [], [""], {"question": "q"})


@pytest.mark.parametrize("value", WRONG, ids=repr)
@pytest.mark.parametrize(("task", "path", "body", "name"), SPOILT, ids=lambda value: str(value)[:24])
def test_a_wrong_type_is_named_in_the_dialects_own_shape(task: str, path: str, body: dict[str, Any], name: str, value: Any) -> None:
    http = client(task)
    answer = http.post(path, json={**body, name: value})
    openai = path.startswith("/v1/embed")
    assert answer.status_code == (400 if openai else 422), answer.text
    if openai:
        error = answer.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["param"].startswith(name)
    else:
        assert set(answer.json()) == {"error", "error_type"}
        assert answer.json()["error"].startswith(name)
    assert http.post(path, json=body).status_code == 200


@pytest.mark.parametrize(("task", "path", "body", "name"), SPOILT, ids=lambda value: str(value)[:24])
@pytest.mark.parametrize("raw", ["[]", "{", "[[", '"text"'])
def test_a_body_that_is_no_object_is_refused(task: str, path: str, body: dict[str, Any], name: str, raw: str) -> None:
    http = client(task)
    answer = http.post(path, content=raw, headers=JSON)
    assert answer.status_code in (400, 422)
    assert "the body" in json.dumps(answer.json()["error"])
    deep = http.post(path, content=f'{{"{name}": {"[" * 1000}"x"{"]" * 1000}}}', headers=JSON)
    assert deep.status_code in (400, 422)
    assert http.post(path, json=body).status_code == 200


def shuffled() -> list[str]:
    """Sixty-four texts of mixed lengths, some of them twice."""
    rng = random.Random(1)  # noqa: S311 - nothing secret
    words = ("east", "north", "up", "good", "bad", "music", "hello")
    texts = [" ".join(rng.choices(words, k=rng.randint(1, 20))) for _ in range(48)]
    texts += texts[:16]
    rng.shuffle(texts)
    return texts


def test_row_by_row_it_is_the_text_alone() -> None:
    texts = shuffled()
    http = client("feature-extraction")
    data = http.post("/v1/embeddings", json={"input": texts}).json()["data"]
    assert [row["index"] for row in data] == list(range(64))
    rows = [row["embedding"] for row in data]
    assert rows == [http.post("/v1/embeddings", json={"input": text}).json()["data"][0]["embedding"] for text in texts]
    assert http.post("/embed", json={"inputs": texts}).json() == rows
    assert len({json.dumps(row) for row in rows}) > 40
    assert all(rows[a] == rows[b] for a in range(64) for b in range(a) if texts[a] == texts[b])
    labels = client("text-classification")
    batch = labels.post("/predict", json={"inputs": [[text] for text in texts], "truncate": True}).json()
    assert batch == [labels.post("/predict", json={"inputs": text, "truncate": True}).json() for text in texts]

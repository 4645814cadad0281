"""Plain HTTP against every route that predicts, at a server and at Lambda, as text and as gzip: what comes back is what the rigs say."""

from __future__ import annotations

from typing import Any

import pytest

from hotfoot.http.app import Options, create_app
from support.clients import ARTIFACTS, DOORS, LONG, Doors, agree, raw, sigmoid, softmax
from support.rigged import WORDS, table_of, wordpiece
from support.serving import model

VECTORS = WORDS["feature-extraction"]
POSITIVE, NEGATIVE = softmax(3.0, -2.0)
GOOD = [{"label": "POSITIVE", "score": POSITIVE}, {"label": "NEGATIVE", "score": NEGATIVE}]
BAD = [{"label": "NEGATIVE", "score": 4.0}, {"label": "POSITIVE", "score": -1.0}]
RAW = [{"label": "POSITIVE", "score": 3.0}, {"label": "NEGATIVE", "score": -2.0}]
SURE = softmax(8.0, 0.0, 0.0, 0.0, 0.0)[0]
PLACE = {"entity_group": "LOC", "score": SURE, "word": "Springfield", "start": 5, "end": 16}
EAST, NORTH, UP = [1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]
SIMILAR = {"source_sentence": "east", "sentences": ["west", "up", "east"]}
DOCUMENTS = ["market", "guitar", "orchestra", "stage"]  # with "query" their logits are -7.2, 20, 19 and 18
ASKED = {"question": "Who?", "context": "hello"}
TEXTS, QUERIED = {"query": "query", "texts": DOCUMENTS}, {"query": "query", "documents": DOCUMENTS}
CLS, SEP = ({"id": token, "text": text, "special": True, "start": None, "stop": None} for token, text in ((2, "[CLS]"), (3, "[SEP]")))
UNLIKELY = {"score": softmax(5.0, 4.0, 3.0, 2.0, *[0.0] * 112)[-1], "token": 0, "token_str": "[PAD]", "sequence": "world"}
ROWS = table_of("feature-extraction", wordpiece([*VECTORS, "text", "word", "hello", "world"]), VECTORS, 4)
WORD = {"id": 5, "text": "Good", "special": False, "start": 0, "stop": 4}


def scored(*logits: tuple[int, float], key: str = "score") -> list[dict[str, Any]]:
    return [{"index": index, key: sigmoid(logit)} for index, logit in logits]


ORDER = ((1, 20.0), (2, 19.0), (3, 18.0), (0, -7.2))
JINA = [{**one, "document": {"text": DOCUMENTS[one["index"]]}} for one in scored(*ORDER, key="relevance_score")]
COHERE = {"results": scored(*ORDER, key="relevance_score"), "meta": {"api_version": {"version": "2"}}}

# artifact, route, body, answer
CASES: list[tuple[str, str, dict[str, Any], Any]] = [
    ("labels", "/predict", {"inputs": "good"}, GOOD),
    ("labels", "/predict", {"inputs": [["good"], ["bad"]], "raw_scores": True}, [RAW, BAD]),
    (
        "labels",
        "/predict",
        {"inputs": ["good", "fine"], "raw_scores": True},
        [{"label": "POSITIVE", "score": 2.0}, {"label": "NEGATIVE", "score": -1.0}],
    ),
    (
        "labels",
        "/predict",
        {"inputs": "good " + LONG, "truncate": True, "truncation_direction": "Left", "raw_scores": True},
        [{"label": "NEGATIVE", "score": 0.0}, {"label": "POSITIVE", "score": 0.0}],
    ),
    ("labels", "/", {"inputs": ["good"], "parameters": {"top_k": 1}}, [GOOD[:1]]),
    ("labels", "/invocations", {"inputs": ["good", "bad"], "parameters": {"function_to_apply": "none"}}, [RAW, BAD]),
    ("labels", "/pipeline/text-classification", {"inputs": "good"}, [GOOD]),
    ("labels", "/tokenize", {"inputs": "Good"}, [[CLS, WORD, SEP]]),
    ("labels", "/tokenize", {"inputs": ["Good"] * 2, "add_special_tokens": False}, [[WORD]] * 2),
    ("labels", "/decode", {"ids": [2, 5, 6, 3]}, ["good bad"]),
    ("labels", "/decode", {"ids": [[2, 5], [6]], "skip_special_tokens": False}, ["[CLS] good", "bad"]),
    ("tags", "/", {"inputs": "🦊 in Springfield"}, [PLACE]),
    ("tags", "/invocations", {"inputs": ["🦊 in Springfield", "x"]}, [[PLACE], []]),
    ("answers", "/", {"inputs": ASKED}, {"score": 0.25, "start": 0, "end": 5, "answer": "hello"}),
    ("answers", "/invocations", {"inputs": [ASKED]}, [{"score": 0.25, "start": 0, "end": 5, "answer": "hello"}]),
    ("masks", "/", {"inputs": "[MASK] world", "parameters": {"targets": ["[PAD]"], "top_k": 1}}, [UNLIKELY]),
    ("choices", "/", {"inputs": {"sequences": ["a text"], "candidate_labels": "sport"}}, [[{"label": "sport", "score": 1.0}]]),
    ("choices", "/invocations", {"inputs": "a text", "parameters": {"candidate_labels": ["sport"]}}, [{"label": "sport", "score": 1.0}]),
    ("vectors", "/", {"inputs": "east"}, [EAST]),
    ("vectors", "/embed", {"inputs": "east"}, [EAST]),
    ("vectors", "/embed", {"inputs": ["east", [2, 6, 3]]}, [EAST, NORTH]),
    ("vectors", "/embed", {"inputs": ["north " * 90 + "east " * 90], "truncate": True, "truncation_direction": "Right"}, [NORTH]),
    ("vectors", "/embed", {"inputs": "east up", "dimensions": 2}, [[1.0, 0.0]]),
    ("raw", "/embed", {"inputs": "up"}, [UP]),
    ("raw", "/embed", {"inputs": "up", "normalize": False, "prompt_name": "query"}, [[0.0, 0.5, 1.5, 0.0]]),
    ("tokens", "/embed_all", {"inputs": ["east", "up north"]}, [ROWS[[2, 5, 3]].tolist(), ROWS[[2, 7, 6, 3]].tolist()]),
    ("tokens", "/embed_all", {"inputs": "east"}, [ROWS[[2, 5, 3]].tolist()]),
    ("vectors", "/similarity", {"inputs": SIMILAR}, [-1.0, 0.0, 1.0]),
    ("similar", "/similarity", {"inputs": SIMILAR, "parameters": {"truncate": True}}, [-1.0, 0.0, 1.0]),
    ("similar", "/", {"inputs": SIMILAR}, [-1.0, 0.0, 1.0]),
    (
        "vectors",
        "/v1/embeddings",
        {"input": "up"},
        {
            "object": "list",
            "data": [{"object": "embedding", "index": 0, "embedding": UP}],
            "model": "rigged/tiny",
            "usage": {"prompt_tokens": 3, "total_tokens": 3},
        },
    ),
    ("ranks", "/rerank", TEXTS, scored(*ORDER)),
    (
        "ranks",
        "/rerank",
        {**TEXTS, "raw_scores": True, "return_text": True},
        [{"index": i, "score": logit, "text": DOCUMENTS[i]} for i, logit in ORDER],
    ),
    (
        "ranks",
        "/rerank",
        {**TEXTS, "texts": ["stage", f"guitar {LONG}"], "truncate": True, "raw_scores": True},
        [{"index": 0, "score": 18.0}, {"index": 1, "score": 40 / 61}],
    ),
    (
        "ranks",
        "/v1/rerank",
        {**QUERIED, "top_n": 2},
        {"model": "rigged/tiny", "object": "list", "usage": {"total_tokens": 20}, "results": JINA[:2]},
    ),
    (
        "ranks",
        "/v1/rerank",
        {**QUERIED, "return_documents": False},
        {"model": "rigged/tiny", "object": "list", "usage": {"total_tokens": 20}, "results": scored(*ORDER, key="relevance_score")},
    ),
    ("ranks", "/v2/rerank", {**QUERIED, "model": "rigged/tiny", "priority": 3}, COHERE),
    ("ranks", "/v2/rerank", {**QUERIED, "documents": [{"text": d} for d in DOCUMENTS]}, COHERE),
    ("ranks", "/", {"inputs": TEXTS}, scored(*ORDER)),
    ("ranks", "/invocations", {"inputs": ["guitar", "market"], "parameters": {"query": "query"}}, [sigmoid(20.0), sigmoid(-7.2)]),
    ("goes-on", "/", {"inputs": ["x"], "parameters": {"max_new_tokens": 3}}, [{"generated_text": "and"}]),
    ("summary", "/invocations", {"inputs": "x", "parameters": {"max_new_tokens": 3}}, [{"summary_text": "and"}]),
    ("translated", "/", {"inputs": ["x", "y"], "parameters": {"max_new_tokens": 3}}, [{"translation_text": "and"}] * 2),
]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize(("artifact", "path", "body", "wanted"), CASES, ids=lambda value: str(value)[:60])
def test_the_right_answer(doors: Doors, door: str, packed: bool, artifact: str, path: str, body: dict[str, Any], wanted: Any) -> None:
    answer = raw(doors.url(door, artifact), "POST", path, body, packed=packed)
    assert answer.status == 200, answer.body
    agree(answer.document, wanted)


def test_no_route_that_predicts_is_left_out() -> None:
    there = {
        operation.path
        for operation in create_app(model("text-classification"), Options(threads=1)).operations
        if operation.method == "POST"
    }
    tried = {path for _, path, _, _ in CASES}
    # the same function with the model named behind the task
    assert there - {"/pipeline/{task}", "/pipeline/{task}/{id:path}"} == tried - {"/pipeline/text-classification"}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("artifact", ["labels", "answers", "vectors", "goes-on"])
def test_what_is_said_of_the_artifact(doors: Doors, door: str, artifact: str) -> None:
    url = doors.url(door, artifact)
    for path in ("/health", "/ping"):
        assert raw(url, "GET", path).document == {"status": "ok"}
    info = raw(url, "GET", "/info")
    assert info.document["digest"] == info.headers["x-model-digest"]
    assert info.document["task"] == ARTIFACTS[artifact][0]
    assert info.document == raw(url, "GET", "/").document
    # the sample that the artifact gives of itself is one that it answers
    assert raw(url, "POST", "/", {"inputs": info.document["sample"]}).status == 200


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("headers", [{}, {"content-type": "text/plain"}, {"content-type": "application/json; charset=utf-8"}], ids=str)
def test_what_cannot_be_read_is_400_and_the_next_is_answered(doors: Doors, door: str, headers: dict[str, str]) -> None:
    url = doors.url(door, "labels")
    for body in (b"", b"{", b'{"inputs": "a\xff"}', b"\x1f\x8b"):
        answer = raw(url, "POST", "/predict", body, headers)
        assert (answer.status, answer.document["error_type"]) == (400, "Malformed"), answer.body
    broken = raw(url, "POST", "/predict", b"no gzip", {**headers, "content-encoding": "gzip"})
    assert (broken.status, broken.document["error"]) == (400, "the body is not gzip, which content-encoding says it is.")
    agree(raw(url, "POST", "/predict", {"inputs": "good"}, headers).document, GOOD)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("path", ["/", "/invocations", "/predict", "/tokenize"])
def test_a_text_that_is_none_is_422(doors: Doors, door: str, path: str) -> None:
    url = doors.url(door, "labels")
    answer = raw(url, "POST", path, b'{"inputs": "ok\\ud800bad"}')
    assert (answer.status, answer.document["error"][:28]) == (422, "inputs: has a lone surrogate")
    assert raw(url, "POST", path, b'{"inputs": "\\ud83e\\udd8a good"}').status == 200


@pytest.mark.parametrize("door", DOORS)
def test_metrics_are_the_servers_own(doors: Doors, door: str) -> None:
    if door == "process":
        process = doors.url(door, "labels").partition("/models/")[0]
        assert b"hotfoot_" in raw(process, "GET", "/metrics").body
    else:
        refused = raw(doors.url(door, "labels"), "GET", "/metrics")
        assert (refused.status, "CloudWatch, namespace hotfoot" in refused.document["error"]) == (404, True)

"""Answers from memory: the same bytes, honest headers, and only where the request lets them be."""

from __future__ import annotations

import gc
import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from hotfoot.http.app import CACHED_KEY_BYTES, Options, create_app
from hotfoot.model import Model
from hotfoot.observe import Record
from support.serving import TASKS, artifact, client, model, opened, sample

MEMORY = 2**22


@pytest.mark.parametrize("task", TASKS)
def test_the_second_time_is_the_same_answer_from_memory(task: str) -> None:
    records: list[Record] = []
    http = client(task, cache_bytes=MEMORY, report=records.append)
    body = {"inputs": sample(task)}
    first, second = http.post("/", json=body), http.post("/", json=body)
    assert first.status_code == 200, first.text
    assert second.content == first.content
    assert (first.headers["x-cache"], second.headers["x-cache"]) == ("miss", "hit")
    assert (first.headers["x-compute-type"], second.headers["x-compute-type"]) == ("cpu", "cache")
    for name in ("x-compute-tokens", "x-compute-characters", "x-model-digest", "content-type"):
        assert second.headers[name] == first.headers[name]
    assert float(second.headers["x-compute-time"]) == 0
    inputs = records[0].inputs
    assert inputs > 0
    assert [(r.cache, r.inputs, r.remembered) for r in records] == [("miss", inputs, 0), ("hit", inputs, inputs)]


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        ({"options": {"use_cache": False}}, {}),
        ({}, {"x-use-cache": "false"}),
        ({}, {"x-use-cache": "0"}),
        ({"options": {"use_cache": True}}, {"x-use-cache": "false"}),
    ],
)
def test_use_cache_false_computes_anew(body: dict[str, Any], headers: dict[str, str]) -> None:
    http = client("text-classification", cache_bytes=MEMORY)
    http.post("/", json={"inputs": "good"})
    for _ in range(2):
        answer = http.post("/", json={"inputs": "good", **body}, headers=headers)
        assert (answer.headers["x-cache"], answer.headers["x-compute-type"]) == ("bypass", "cpu")


def test_no_memory_is_a_bypass() -> None:
    http = client("text-classification")
    assert [http.post("/", json={"inputs": "good"}).headers["x-cache"] for _ in range(2)] == ["bypass", "bypass"]


def test_what_differs_is_not_the_same_request() -> None:
    http = client("text-classification", cache_bytes=MEMORY)
    plain = http.post("/", json={"inputs": "good"})
    for path, body, headers in (
        ("/", {"inputs": "good", "parameters": {"top_k": 1}}, {}),
        ("/", {"inputs": "bad"}, {}),
        ("/predict", {"inputs": "good"}, {}),
        ("/", {"inputs": "good"}, {"x-answer-shape": "classic"}),
    ):
        answer = http.post(path, json=body, headers=headers)
        assert answer.headers["x-cache"] == "miss"
        assert answer.content != plain.content
        assert http.post(path, json=body, headers=headers).headers["x-cache"] == "hit"


def test_compressed_bodies_and_plain_ones_do_not_meet() -> None:
    http = client("text-classification", cache_bytes=MEMORY)
    raw = json.dumps({"inputs": "good"}).encode()
    packed = {"content-encoding": "gzip", "content-type": "application/json"}
    found = http.post("/", content=gzip.compress(raw, mtime=0), headers=packed)
    assert http.post("/", content=gzip.compress(raw, mtime=0), headers=packed).headers["x-cache"] == "hit"
    assert http.post("/", content=gzip.compress(raw, mtime=0), headers={"content-type": "application/json"}).status_code == 400
    assert http.post("/", content=raw, headers={"content-type": "application/json"}).content == found.content


def test_errors_are_not_kept() -> None:
    http = client("text-classification", cache_bytes=MEMORY)
    for _ in range(2):
        answer = http.post("/", json={"inputs": 5})
        assert (answer.status_code, answer.headers["x-cache"]) == (422, "bypass")


def test_a_token_is_asked_for_before_memory_is() -> None:
    http = client("text-classification", cache_bytes=MEMORY, token="secret")
    right = {"authorization": "Bearer secret"}
    assert http.post("/", json={"inputs": "good"}, headers=right).headers["x-cache"] == "miss"
    assert http.post("/", json={"inputs": "good"}).status_code == 401
    assert http.post("/", json={"inputs": "good"}, headers=right).headers["x-cache"] == "hit"


def test_memory_stays_within_its_bound() -> None:
    app = create_app(model("text-classification"), Options(threads=1, cache_bytes=20_000))
    http = TestClient(app)
    for number in range(300):
        http.post("/", json={"inputs": f"good {number}"})
    stats = app.answers.stats
    assert 10 < stats.entries < 100
    assert stats.bytes <= 20_000
    assert http.post("/", json={"inputs": "good 299"}).headers["x-cache"] == "hit"
    assert http.post("/", json={"inputs": "good 0"}).headers["x-cache"] == "miss"


def test_a_large_body_is_answered_and_not_kept() -> None:
    http = client("text-classification", cache_bytes=2**26)
    body = {"inputs": ["good " * 10] * 2000}
    assert len(json.dumps(body)) > CACHED_KEY_BYTES
    assert [http.post("/", json=body).headers["x-cache"] for _ in range(2)] == ["miss", "miss"]


def test_items_are_remembered_inside_another_request() -> None:
    remembering = Model.open(artifact("text-classification"), threads=1, cache_bytes=MEMORY)
    http = client(remembering, cache_bytes=MEMORY)
    alone = http.post("/", json={"inputs": "good"})
    both = http.post("/", json={"inputs": ["good", "bad"]})
    assert both.headers["x-cache"] == "miss"
    assert both.json()[0] == alone.json()[0]
    # every text has been read, in other requests: nothing is left to compute
    swapped = http.post("/", json={"inputs": ["bad", "good"], "parameters": {"top_k": 1}})
    assert (swapped.headers["x-cache"], swapped.headers["x-compute-type"]) == ("hit", "cache")
    assert [r[0] for r in swapped.json()] == [both.json()[1][0], both.json()[0][0]]


def test_sampled_text_is_never_kept(tmp_path: Path) -> None:
    http = client(opened(tmp_path, "text-generation"), cache_bytes=MEMORY)
    sampled = {"inputs": "hello", "parameters": {"do_sample": True, "max_new_tokens": 2}}
    greedy = {"inputs": "hello", "parameters": {"max_new_tokens": 2}}
    assert [http.post("/", json=sampled).headers["x-cache"] for _ in range(2)] == ["bypass", "bypass"]
    assert [http.post("/", json=greedy).headers["x-cache"] for _ in range(2)] == ["miss", "hit"]


def test_headers_and_slashes_make_no_new_entries() -> None:
    app = create_app(model("text-classification"), Options(threads=1, cache_bytes=MEMORY))
    http = TestClient(app)
    for path in ("/predict", "/predict/", "/predict////"):
        assert http.post(path, json={"inputs": "good"}).status_code == 200
    assert app.answers.stats.entries == 1
    refused = http.post("/predict", json={"inputs": "good"}, headers={"x-answer-shape": "x" * 5000})
    assert (refused.status_code, len(refused.content) < 300) == (400, True)


def test_a_kept_answer_holds_no_more_memory_than_is_counted() -> None:
    app = create_app(model("text-classification"), Options(threads=1, cache_bytes=2**24))
    http = TestClient(app)
    http.post("/", json={"inputs": "warm"})
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(400):
        http.post("/", json={"inputs": f"good {number}"})
    gc.collect()
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert app.answers.stats.entries == 401
    assert held < 1.5 * app.answers.stats.bytes + 100_000

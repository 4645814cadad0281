"""What stands before the routes: a token, the time while a model is opened, and the pages for people."""

from __future__ import annotations

import asyncio
import gzip
import json
from concurrent.futures import Future
from typing import Any

import pytest
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from hotfoot.contract.errors import ArtifactError
from hotfoot.http.app import Options, create_app
from hotfoot.http.loading import Loading
from support.loops import apart
from support.serving import client, model

OWN = "/models/rigged/tiny"
TOKEN = {"authorization": "Bearer secret"}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "secret"},
        {"authorization": "Basic secret"},
        {"authorization": "Bearer"},
        {"authorization": "Bearer secre"},
        {"authorization": "Bearer sécret".encode("latin-1")},
    ],
)
def test_without_the_token_nothing_is_answered(headers: Any) -> None:
    http = client("text-classification", token="secret")
    for method, path in (("POST", "/"), ("POST", "/nowhere"), ("GET", "/info"), ("GET", "/v1/models"), ("GET", "/openapi.json")):
        answer = http.request(method, path, json={"inputs": "good"}, headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == 'Bearer realm="hotfoot"'
        error = answer.json()["error"]
        assert "Send `Authorization: Bearer …`." in (error["message"] if path.startswith("/v1") else error)


def test_with_the_token_all_is_as_ever() -> None:
    http = client("text-classification", token="secret")
    assert (
        http.post("/", json={"inputs": "good"}, headers=TOKEN).json()
        == client("text-classification").post("/", json={"inputs": "good"}).json()
    )
    assert http.post("/", json={"inputs": "good"}, headers={"authorization": "bearer  secret "}).status_code == 200


def test_health_pages_and_preflights_need_none() -> None:
    http = client("text-classification", token="secret")
    for path in ("/health", "/ping", "/docs"):
        assert http.get(path).status_code == 200
    assert http.get("/", headers={"accept": "text/html"}).status_code == 200
    assert http.options("/predict").status_code == 204
    # the same path as JSON says what the model is
    assert http.get("/", headers={"accept": "application/json"}).status_code == 401


class Slow:
    """An app that is still being opened, with a clock that stands where it is put."""

    def __init__(self, expected_s: float = 9.0) -> None:
        self.now = 0.0
        self.app: Future[ASGIApp] = Future()
        self.loading = Loading(self.app, expected_s, lambda: self.now)

    def open(self) -> None:
        self.app.set_result(create_app(model("text-classification"), Options(threads=1)))


@pytest.mark.parametrize(("method", "path"), [("POST", "/"), ("GET", "/health"), ("POST", "/embed"), ("GET", "/info")])
def test_while_a_model_is_opened_the_answer_is_503(method: str, path: str) -> None:
    slow = Slow()
    http = TestClient(slow.loading)
    slow.now = 2.5
    answer = http.request(method, path, json={"inputs": "good"})
    assert answer.status_code == 503
    assert answer.json()["estimated_time"] == 6.5
    assert answer.json()["error_type"] == "Loading"
    assert "x-wait-for-model: true" in answer.json()["error"]
    assert answer.headers["retry-after"] == "7"
    assert answer.headers["access-control-allow-origin"] == "*"
    slow.now = 100
    assert http.request(method, path, json={}).json()["estimated_time"] == 0.1
    slow.open()
    assert http.post("/", json={"inputs": "good"}).status_code == 200


def test_openai_clients_read_it_in_their_own_shape() -> None:
    answer = TestClient(Slow().loading).post("/v1/embeddings", json={"input": "x"})
    assert (answer.status_code, answer.json()["error"]["type"]) == (503, "server_error")
    assert answer.json()["estimated_time"] == 9.0


PACKED = gzip.compress(json.dumps({"inputs": "good", "options": {"wait_for_model": True}}).encode())


@pytest.mark.parametrize(
    ("body", "headers", "waits"),
    [
        (b'{"inputs": "good"}', {"x-wait-for-model": "true"}, True),
        (b'{"inputs": "good", "options": {"wait_for_model": true}}', {}, True),
        (PACKED, {"content-encoding": "gzip"}, True),
        (b'{"inputs": "good", "options": {"wait_for_model": false}}', {}, False),
        (b'{"inputs": "good", "options": []}', {}, False),
        (b"{", {}, False),
        (b"\xff", {"content-encoding": "gzip"}, False),
    ],
)
@pytest.mark.parametrize("pieces", [1, 3])
def test_who_asks_to_wait_waits(body: bytes, headers: dict[str, str], waits: bool, pieces: int) -> None:
    async def run() -> tuple[int, bool]:
        slow, sent = Slow(), []
        step = -(-len(body) // pieces)
        messages = [
            {"type": "http.request", "body": body[i : i + step], "more_body": i + step < len(body)} for i in range(0, len(body), step)
        ]
        waiting = iter(messages)

        async def receive() -> Any:
            return next(waiting, None) or await asyncio.Event().wait()

        async def send(message: Any) -> None:
            sent.append(message)

        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        scope = {"type": "http", "method": "POST", "path": "/", "headers": raw, "query_string": b"", "http_version": "1.1"}
        task = asyncio.ensure_future(slow.loading(scope, receive, send))
        await asyncio.sleep(0.05)
        patient = not task.done()
        slow.open()
        await asyncio.wait_for(task, 10)
        status: int = sent[0]["status"]
        return status, patient

    assert apart(run()) == ((200, True) if waits else (503, False))


def test_pages_are_for_browsers() -> None:
    http = client("text-classification")
    for path in ("/", "/docs", "/models/rigged/tiny/"):
        page = http.get(path, headers={"accept": "text/html,application/xhtml+xml"})
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert page.text.lstrip().lower().startswith("<!doctype html>")
    assert http.get("/").json() == http.get("/info").json()
    assert http.get("/info").json()["sample"] == model("text-classification").sample


def test_sagemaker_routes() -> None:
    http = client("text-classification")
    assert http.get("/ping").status_code == 200
    assert http.post("/invocations", json={"inputs": "good"}).content == http.post("/", json={"inputs": "good"}).content


def test_classic_shapes() -> None:
    classic = {"x-answer-shape": "classic"}
    http = client("text-classification")
    today = http.post("/", json={"inputs": "good"}).json()
    assert http.post("/", json={"inputs": "good"}, headers=classic).json() == today[0]
    assert http.post("/", json={"inputs": ["good"]}, headers=classic).json() == today
    by_default = client("text-classification", shape="classic")
    assert by_default.post("/", json={"inputs": "good"}).json() == today[0]
    assert by_default.post("/", json={"inputs": "good"}, headers={"x-answer-shape": "current"}).json() == today
    refused = http.post("/", json={"inputs": "good"}, headers={"x-answer-shape": "old"})
    assert (refused.status_code, "must be one of current, classic" in refused.text) == (400, True)


def test_classic_zero_shot() -> None:
    http = client("zero-shot-classification")
    body = {"inputs": ["good", "bad"], "parameters": {"candidate_labels": ["good", "bad"]}}
    today = http.post("/", json=body).json()
    found = http.post("/", json=body, headers={"x-answer-shape": "classic"}).json()
    assert [f["sequence"] for f in found] == ["good", "bad"]
    assert [[{"label": n, "score": s} for n, s in zip(f["labels"], f["scores"], strict=True)] for f in found] == today
    one = http.post("/", json={**body, "inputs": "good"}, headers={"x-answer-shape": "classic"}).json()
    assert one == found[0]


@pytest.mark.parametrize(
    "path", ["/info", "/metrics", "/openapi.json", "/v1/models", "/models/rigged/tiny/info", "/models/rigged/tiny/metrics"]
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_browsers_accept_opens_no_more_than_the_page(path: str, method: str) -> None:
    http = client("text-classification", token="secret", scrape=lambda: b"hotfoot_requests_total 1\n")
    html = {"accept": "text/html"}
    assert http.request(method, path, headers=html).status_code == 401
    assert http.request(method, path, headers={**html, **TOKEN}).status_code == 200
    unknown = http.get("/models/nope/x", headers=html)
    assert (unknown.status_code, "rigged" in unknown.text) == (401, False)
    assert http.get("/models/rigged/tiny/", headers=html).status_code == 200


def test_a_preflight_is_answered_while_a_model_is_opened() -> None:
    answer = TestClient(Slow().loading).options("/embed")
    assert (answer.status_code, "POST" in answer.headers["access-control-allow-methods"]) == (204, True)


def test_a_503_has_the_headers_of_every_answer() -> None:
    answer = TestClient(Slow().loading).get("/health")
    assert {"x-compute-type", "x-compute-time", "server-timing", "x-cache", "x-request-id"} <= set(answer.headers)


@pytest.mark.parametrize(
    ("path", "openai"), [("/v1/rerank", False), ("/models/a/v1/embeddings", True), ("/v1/embeddings", True), ("/v2/rerank", False)]
)
def test_each_dialect_is_told_in_its_own_shape_while_a_model_is_opened(path: str, openai: bool) -> None:
    error = TestClient(Slow().loading).post(path, json={}).json()["error"]
    assert isinstance(error, dict) == openai


def test_who_waits_for_a_model_that_cannot_be_opened_is_told_so() -> None:
    slow = Slow()

    async def run() -> list[Any]:
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": b"{}", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/", "headers": [(b"x-wait-for-model", b"true")]}
        task = asyncio.ensure_future(slow.loading(scope, receive, send))
        await asyncio.sleep(0.05)
        slow.app.set_exception(ArtifactError("no graph in /secret/place"))
        await asyncio.wait_for(task, 10)
        return sent

    start, body = apart(run())
    assert start["status"] == 500
    assert json.loads(body["body"])["error_type"] == "Internal"
    assert b"/secret" not in body["body"]


async def _nothing(*_: Any) -> Any:
    raise AssertionError("neither is called")


def test_once_a_model_is_open_nothing_stands_before_it() -> None:
    slow, came = Slow(), []

    async def app(_scope: Any, _receive: Any, _send: Any) -> None:
        came.append(asyncio.current_task())

    async def run() -> bool:
        slow.app.set_result(app)
        before = asyncio.all_tasks()
        await slow.loading({"type": "http", "method": "GET", "path": "/", "headers": []}, _nothing, _nothing)
        return asyncio.all_tasks() == before

    assert apart(run())
    assert len(came) == 1

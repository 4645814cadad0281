"""What the adapter does between Lambda's events and the app: nothing of either side may be lost or fail there."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from mangum import Mangum
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hotfoot.contract.peers import Peer
from hotfoot.http.limits import check_answer
from hotfoot.observe import Record
from runtime.test_handler_http import ANSWER, GOOD, body_of, call, fresh
from support import events
from support.events import Context, headers_of
from support.serving import artifact

QUERY = "q=a+b&q=c%2Bd"


async def told(request: Request) -> Response:
    """The query as it arrived, and two cookies."""
    answer = JSONResponse(request.query_params.getlist("q"))
    for name in ("one", "two"):
        answer.set_cookie(name, "1")
    return answer


@pytest.fixture(scope="module")
def lambda_function() -> Iterator[ModuleType]:
    yield fresh(artifact("text-classification"))
    sys.modules.pop("hotfoot.handlers.http", None)


def asked(name: str) -> dict[str, Any]:
    """The recorded event with a query, as its sender writes one."""
    event = events.request(name, "/told", method="GET")
    decoded = ["a b", "c+d"]
    if event.get("version") == "2.0":
        return {**event, "rawQueryString": QUERY, "queryStringParameters": {"q": ",".join(decoded)}}
    if "elb" in event["requestContext"]:  # a load balancer decodes nothing
        raw = ["a+b", "c%2Bd"]
        key, value = ("multiValueQueryStringParameters", raw) if "multiValueHeaders" in event else ("queryStringParameters", raw[-1])
        return {**event, key: {"q": value}}
    return {**event, "queryStringParameters": {"q": decoded[-1]}, "multiValueQueryStringParameters": {"q": decoded}}


@pytest.mark.parametrize("name", events.HTTP)
def test_queries_arrive_and_cookies_leave_whole(lambda_function: ModuleType, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lambda_function, "adapter", Mangum(Starlette(routes=[Route("/told", told)]), lifespan="off"))
    answer = lambda_function.answer(asked(name), Context())
    assert answer["statusCode"] == 200
    one_only = name == "alb"  # without multi-value headers a load balancer sends the last of several
    assert json.loads(answer["body"]) == (["c+d"] if one_only else ["a b", "c+d"])
    many = answer.get("cookies") or answer.get("multiValueHeaders", {}).get("set-cookie")
    if many is None:  # there a header that comes twice is two spellings of its name
        many = [value for key, value in answer["headers"].items() if key.lower() == "set-cookie"]
    assert [cookie.partition("=")[0] for cookie in many] == ["one", "two"]


@pytest.mark.parametrize("name", events.HTTP)
@pytest.mark.parametrize("value", ["🦊", "modèle", "a\u2028b", "mod\udce8le"])
def test_headers_beyond_ascii_harm_nothing(lambda_function: ModuleType, name: str, value: str) -> None:
    sent = {"x-request-id": value, "user-agent": value, "x-answer-shape": "current"}
    answer = call(lambda_function, events.request(name, "/predict", GOOD, headers=sent))
    assert body_of(answer, 200) == ANSWER
    assert all(header.isascii() for header in events.headers_of(answer).values())


@pytest.mark.parametrize("name", events.HTTP)
def test_a_body_past_lambdas_limit_is_413_with_both_sizes(lambda_function: ModuleType, name: str) -> None:
    body = json.dumps({"inputs": "x" * (7 * 2**20)})
    event = events.request(name, "/predict", body, headers={"content-length": str(len(body))})
    said = body_of(call(lambda_function, event), 413)["error"]
    assert said.startswith(f"the request body has {len(body)} bytes, the limit is {6 * 2**20}.")
    assert body_of(call(lambda_function, events.request(name, "/predict", GOOD)), 200) == ANSWER


def test_an_answer_that_does_not_fit_is_told_once(monkeypatch: pytest.MonkeyPatch, lambda_function: ModuleType) -> None:
    records: list[Record] = []
    inner = lambda_function.report

    def report(record: Record) -> None:
        records.append(record)
        inner(record)

    monkeypatch.setattr(lambda_function, "report", report)
    monkeypatch.setattr(lambda_function, "check_size", lambda _: check_answer(9, 8))
    answer = lambda_function.handler(events.request("apigateway_v2", "/predict", {"inputs": "good bad"}), Context())
    assert answer["statusCode"] == 413
    assert [(r.route, r.status, r.tokens) for r in records] == [("/predict", 413, 4)]
    assert records[0].total_ms > 0


@pytest.mark.parametrize(
    ("path", "openai"), [("/v1/embeddings", True), ("/embed", False), ("/models/x/v1/embeddings", True), ("/v1/rerank", False)]
)
@pytest.mark.parametrize("kind", events.HTTP)
def test_what_the_adapter_cannot_read_is_refused_in_its_paths_shape(
    kind: str, path: str, openai: bool, lambda_function: ModuleType
) -> None:
    answer = lambda_function.handler(events.request(kind, path, "!!!", base64=True), Context())
    assert answer["statusCode"] == 400
    assert isinstance(json.loads(answer["body"])["error"], dict) == openai
    assert {"x-model-digest", "server-timing", "x-cache"} <= set(headers_of(answer))


@pytest.mark.parametrize("body", [5, {"inputs": "x"}, ["x"], True])
def test_a_body_that_is_no_text_is_400(body: Any, lambda_function: ModuleType) -> None:
    event = {**events.request("apigateway_v2", "/", {}), "body": body}
    assert lambda_function.handler(event, Context())["statusCode"] == 400


@pytest.mark.parametrize("change", [{"rawQueryString": None}, {"headers": {"a\ud800": "b"}}])
def test_odd_events_are_answered(change: dict[str, Any], lambda_function: ModuleType) -> None:
    event = {**events.request("apigateway_v2", "/predict", {"inputs": "good"}), **change}
    assert lambda_function.handler(event, Context())["statusCode"] in (200, 400)


def test_who_pretends_to_be_forwarded_is_no_fault_of_ours(monkeypatch: pytest.MonkeyPatch, lambda_function: ModuleType) -> None:
    site = lambda_function.app.site
    monkeypatch.setattr(site, "peers", (Peer("other", "org/other", "fill-mask", "arn:aws:lambda:x"),))
    event = events.request("apigateway_v2", "/", {"inputs": "x", "model": "other"}, headers={"x-hotfoot-forwarded": "1"})
    answer = lambda_function.handler(event, Context())
    assert (answer["statusCode"], json.loads(answer["body"])["error_type"]) == (404, "UnknownModel")

"""A request handed on to another function: through boto3 against a stand-in of Lambda's Invoke API, a real ASGI app behind it."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from mangum import Mangum
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hotfoot.contract.errors import HotfootError, OutOfTimeError, OverloadedError, TooLargeError
from hotfoot.contract.peers import Peer
from hotfoot.http import peers
from hotfoot.http.errors import problem
from support import events
from support.events import Context
from support.invoking import Function, FunctionError, RefusedError, Server, invoking

ARN = "arn:aws:lambda:eu-central-1:123456789012:function:hotfoot-text-pii:live"
PEER = Peer("pii", "org/ner", "token-classification", ARN)
TEXT = "Maria, whose name nobody should read in an error"


async def echo(request: Request) -> Response:
    """What arrived, as an answer."""
    body = await request.body()
    said = {"path": request.url.path, "mark": request.headers.get(peers.MARK), "body": base64.b64encode(body).decode()}
    status = 422 if b"wrong" in body else 200
    return JSONResponse(said, status, headers={"X-Compute-Time": "0.5", "x-request-id": "theirs"})


async def picture(_request: Request) -> Response:
    return Response(bytes(range(256)), media_type="application/octet-stream")


APP = Starlette(routes=[Route("/png", picture, methods=["POST"]), Route("/{rest:path}", echo, methods=["POST"])])


def real(event: dict[str, Any]) -> Any:
    """A function as they are: an ASGI app behind the adapter."""
    loop = asyncio.new_event_loop()  # the adapter would make one in the server's thread, and leave it open
    asyncio.set_event_loop(loop)
    try:
        return Mangum(APP, lifespan="off")(event, Context())  # type: ignore[arg-type]
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def failing(error: Exception) -> Function:
    def function(_event: dict[str, Any]) -> Any:
        raise error

    return function


@pytest.fixture
def lambdas() -> Iterator[Server]:
    with invoking({ARN: real}) as server:
        yield server


@pytest.mark.parametrize("kind", events.HTTP)
def test_any_http_event_goes_on_as_it_came(kind: str, lambdas: Server) -> None:
    event = events.request(kind, "/embed", {"inputs": TEXT})
    before = json.dumps(event)
    answer = peers.ask(PEER, event, 20_000)
    said = json.loads(answer.body)
    assert (answer.status, said["mark"]) == (200, "1")
    assert said["path"].endswith("/embed")
    assert json.loads(base64.b64decode(said["body"])) == {"inputs": TEXT}
    assert (answer.headers["x-compute-time"], answer.headers["x-request-id"]) == ("0.5", "theirs")
    assert answer.headers["content-type"] == "application/json"
    assert "content-length" not in answer.headers
    assert json.dumps(event) == before
    assert lambdas.invoked == [ARN]


def test_bytes_go_and_come_back_as_they_are(lambdas: Server) -> None:
    sent = bytes(range(256))
    event = events.request("apigateway_v2", "/x", base64.b64encode(sent).decode(), base64=True)
    assert base64.b64decode(json.loads(peers.ask(PEER, event, 20_000).body)["body"]) == sent
    assert peers.ask(PEER, events.request("apigateway_v2", "/png", "{}"), 20_000).body == sent
    assert len(lambdas.invoked) == 2


def test_a_refusal_of_the_peer_is_its_answer(lambdas: Server) -> None:
    answer = peers.ask(PEER, events.request("apigateway_v2", "/", {"inputs": "wrong"}), 20_000)
    assert answer.status == 422
    assert lambdas.invoked == [ARN]


@pytest.mark.parametrize("kind", events.HTTP)
def test_what_was_handed_on_is_not_handed_on_again(kind: str, lambdas: Server) -> None:
    """Whatever two functions are told of each other, they cannot play ball with a request."""
    event = events.request(kind, "/", {"inputs": TEXT})
    assert not peers.is_forwarded(event)
    with pytest.raises(HotfootError, match="asked for through another deployment"):
        peers.ask(PEER, peers.marked(event), 20_000)
    assert lambdas.invoked == []
    assert peers.is_forwarded(events.request(kind, "/", headers={"X-Hotfoot-Forwarded": "1"}))


@pytest.mark.parametrize(
    ("error", "kind", "status"),
    [
        (RefusedError(429, "TooManyRequestsException"), OverloadedError, 429),
        (RefusedError(502, "EC2ThrottledException"), OverloadedError, 429),
        (RefusedError(500, "ServiceException"), OverloadedError, 429),
        (RefusedError(413, "RequestTooLargeException"), TooLargeError, 413),
        (RefusedError(403, "AccessDeniedException"), HotfootError, 500),
        (RefusedError(404, "ResourceNotFoundException"), HotfootError, 500),
        (FunctionError("Sandbox.Timedout", "RequestId: 1 Error: Task timed out after 3.00 seconds"), OutOfTimeError, 504),
        (FunctionError("Function.ResponseSizeTooLarge", "Response payload size exceeded"), TooLargeError, 413),
        (FunctionError("Runtime.ExitError", "signal: killed"), HotfootError, 500),
        (FunctionError("KeyError", TEXT), HotfootError, 500),
    ],
)
def test_a_peer_that_fails_is_one_clear_error(error: Exception, kind: type[HotfootError], status: int, lambdas: Server) -> None:
    lambdas.functions[ARN] = failing(error)
    with pytest.raises(HotfootError) as caught:
        peers.ask(PEER, events.request("apigateway_v2", "/", {"inputs": TEXT}), 20_000)
    assert type(caught.value) is kind
    assert caught.value.__cause__ is None
    said = str(caught.value)
    assert "pii" in said or kind is TooLargeError
    assert not any(part in said for part in ("Maria", "secret.py", "Traceback", "arn:"))
    assert problem(caught.value, "id").status == status
    assert lambdas.invoked == [ARN]  # once: what was not answered may have been done


@pytest.mark.parametrize("answer", [None, [], {}, {"statusCode": "200"}, "text", {"warm": True}])
def test_what_is_no_http_answer_is_a_fault(answer: Any, lambdas: Server) -> None:
    lambdas.functions[ARN] = lambda _event: answer
    with pytest.raises(HotfootError, match="the function of pii failed: no HTTP answer") as caught:
        peers.ask(PEER, events.request("apigateway_v2", "/", {"inputs": TEXT}), 20_000)
    assert caught.value.kind == "internal"


def test_a_slow_peer_is_not_waited_for_longer_than_there_is_time(lambdas: Server) -> None:
    enough = threading.Event()

    def slow(_event: dict[str, Any]) -> Any:
        enough.wait(30)
        return {"statusCode": 200}

    lambdas.functions[ARN] = slow
    started = time.monotonic()
    with pytest.raises(OutOfTimeError, match=r"pii did not answer within the 1\.0 s") as caught:
        peers.ask(PEER, events.request("apigateway_v2", "/", {"inputs": TEXT}), 2_400)
    assert time.monotonic() - started < 10
    enough.set()
    assert "/models/pii" in str(caught.value)
    assert lambdas.invoked == [ARN]


def test_without_time_nobody_is_asked(lambdas: Server) -> None:
    with pytest.raises(OutOfTimeError, match=r"within the 0\.9 s"):
        peers.ask(PEER, events.request("apigateway_v2", "/", {"inputs": TEXT}), 900)
    assert lambdas.invoked == []


def test_there_is_one_client(lambdas: Server) -> None:
    for remaining in (28_950, 28_600, 28_001):
        peers.ask(PEER, events.request("apigateway_v2", "/", {"inputs": TEXT}), remaining)
    assert peers.client.cache_info().currsize == 1
    assert len(lambdas.invoked) == 3


def test_no_lambda_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    with invoking({}) as server:
        pass
    for name, value in {
        "ACCESS_KEY_ID": "x",
        "SECRET_ACCESS_KEY": "x",
        "DEFAULT_REGION": "eu-central-1",
        "ENDPOINT_URL": server.url,
    }.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    with pytest.raises(HotfootError, match="pii cannot be called: EndpointConnectionError"):
        peers.ask(PEER, events.request("apigateway_v2", "/", {"inputs": TEXT}), 20_000)
    peers.client.cache_clear()

"""Lambda's Invoke API on the loopback device, and an HTTP API in front of the same functions, for boto3 and for real clients."""

from __future__ import annotations

import base64
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from hotfoot.http import peers
from support import events

INVOKE = "/2015-03-31/functions/"
Function = Callable[[dict[str, Any]], Any]
Headers = Mapping[str, str]


@dataclass
class RefusedError(Exception):
    """Lambda does not call the function."""

    status: int
    code: str


@dataclass
class FunctionError(Exception):
    """The function was called and failed; kind as `Sandbox.Timedout`."""

    kind: str
    message: str


class Server(ThreadingHTTPServer):
    """functions: by ARN. routes: route key to ARN, as an HTTP API has them. invoked: the ARNs that Invoke was asked for."""

    daemon_threads = True

    def __init__(self, functions: Mapping[str, Function], routes: Mapping[str, str] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.functions, self.routes = dict(functions), dict(routes or {})
        self.invoked: list[str] = []

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"


def choose(routes: Mapping[str, str], method: str, path: str) -> str:
    """What the route that fits best leads to: the exact path, else the longest greedy one, else `$default`; a method before ANY."""

    def rank(key: str) -> tuple[int, int] | None:
        verb, _, pattern = key.partition(" ")
        if key == "$default":
            return (0, 0)
        stem = pattern.removesuffix("{proxy+}")
        fits = path == pattern if stem == pattern else path.startswith(stem) and path != stem
        return (len(stem) + (10_000 if stem == pattern else 0), int(verb == method)) if fits and verb in (method, "ANY") else None

    fitting = {key: found for key in routes if (found := rank(key)) is not None}
    return routes[max(fitting, key=lambda key: fitting[key])]


def carried(body: bytes, headers: Headers) -> dict[str, Any]:
    """The event's members for a body: text where its type says so and it is text, else base64; what is packed is none."""
    if "content-encoding" not in headers and any(kind in headers.get("content-type", "") for kind in ("json", "text/")):
        with suppress(UnicodeDecodeError):
            return {"body": body.decode(), "isBase64Encoded": False}
    return {"body": base64.b64encode(body).decode(), "isBase64Encoded": True}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or each answer waits 40 ms between its head and its body
    server: Server

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class calls it so
        """Say nothing."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path.startswith(INVOKE):
            self._invoke(unquote(self.path.removeprefix(INVOKE).removesuffix("/invocations")), json.loads(body))
        else:
            self._api(body)

    def do_GET(self) -> None:
        self.do_POST()

    def _invoke(self, arn: str, event: dict[str, Any]) -> None:
        self.server.invoked.append(arn)
        try:
            found, extra = self.server.functions[arn](event), {}
        except KeyError:
            self._answer(404, {"x-amzn-errortype": "ResourceNotFoundException"}, b'{"Message":"none"}')
            return
        except RefusedError as error:
            self._answer(error.status, {"x-amzn-errortype": error.code}, b'{"Message":"no","Reason":"none"}')
            return
        except FunctionError as error:
            found = {"errorType": error.kind, "errorMessage": error.message, "stackTrace": ['File "/var/task/secret.py", line 1']}
            extra = {"X-Amz-Function-Error": "Unhandled"}
        self._answer(200, {"content-type": "application/json", **extra}, json.dumps(found).encode())

    def _api(self, body: bytes) -> None:
        parts = urlsplit(self.path)
        event = events.load("apigateway_v2")
        event["requestContext"]["http"].update(method=self.command, path=unquote(parts.path))
        headers = {name.lower(): value for name, value in self.headers.items()}
        event |= {"rawPath": unquote(parts.path), "rawQueryString": parts.query, "headers": headers, **carried(body, headers)}
        try:
            answer = self.server.functions[choose(self.server.routes, self.command, unquote(parts.path))](event)
        except FunctionError:
            self._answer(500, {"content-type": "application/json"}, b'{"message":"Internal Server Error"}')
            return
        said = answer.get("body", "")
        sent = base64.b64decode(said) if answer.get("isBase64Encoded") else said.encode()
        kept = {name: value for name, value in (answer.get("headers") or {}).items() if name.lower() != "content-length"}
        self._answer(answer["statusCode"], kept, sent)

    def _answer(self, status: int, headers: Headers, body: bytes) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            self.wfile.write(body)
        except BrokenPipeError:  # whoever asked has stopped waiting
            self.close_connection = True


@contextmanager
def serving(functions: Mapping[str, Function], routes: Mapping[str, str] | None = None) -> Iterator[Server]:
    """The server, while the block lasts."""
    server = Server(functions, routes)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def invoking(functions: Mapping[str, Function]) -> Iterator[Server]:
    """The server as the one that a function's boto3 client calls its peers at."""
    told = {"ACCESS_KEY_ID": "test", "SECRET_ACCESS_KEY": "test", "DEFAULT_REGION": "eu-central-1"}
    with serving(functions) as running, pytest.MonkeyPatch.context() as patch:
        for name, value in {**told, "ENDPOINT_URL": running.url, "CONFIG_FILE": os.devnull}.items():
            patch.setenv(f"AWS_{name}", value)
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
        peers.client.cache_clear()
        yield running
        peers.client.cache_clear()

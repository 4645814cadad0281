"""The ASGI app while artifacts are opened: whoever asks is told how long it may take, or waits if they ask to."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hotfoot.contract.errors import HotfootError
from hotfoot.http import body, headers, openai
from hotfoot.http.errors import Problem
from hotfoot.wire import dumps

PATIENT_BYTES = 2**20  # of a body that is looked into for `wait_for_model`; a larger one can say it in a header


class Loading:
    """Answers 503 until `app` is there, and then is that app.

    expected_s: how long opening may take, in seconds, so that the answer can say what is left.
    """

    def __init__(self, app: Future[ASGIApp], expected_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._app, self._expected_s, self._clock = app, expected_s, clock
        self._started = clock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One ASGI connection."""
        if not self._app.done():
            patient, receive = await asked_to_wait(scope, receive) if scope["type"] == "http" else (True, receive)
            if not patient:
                await self._refuse(scope, send)
                return
            # not the future itself: a client that goes must not cancel it for the others
            await asyncio.wait([asyncio.ensure_future(asyncio.wrap_future(self._app))])
        await self._app.result()(scope, receive, send)

    async def _refuse(self, scope: Scope, send: Send) -> None:
        left = max(0.1, round(self._expected_s - (self._clock() - self._started), 1))
        found = Problem(503, "Loading", "the model is still being opened. Ask again, or with `x-wait-for-model: true` to wait for it.")
        status, said = (openai.problem if scope["path"].startswith("/v1/") else Problem.answer)(found)
        document = dumps({**said, "estimated_time": left})
        fields = {"content-type": "application/json", "retry-after": str(int(left + 1)), "x-request-id": headers.request_id(scope)}
        await send(headers.start(status, fields, len(document)))
        await send({"type": "http.response.body", "body": document})


async def asked_to_wait(scope: Scope, receive: Receive) -> tuple[bool, Receive]:
    """Whether the request says so, in its header or its `options`; and its body to be read once more."""
    if headers.flag(scope, b"x-wait-for-model", default=False):
        return True, receive
    if scope["method"] != "POST":
        return False, receive
    messages: list[Message] = []
    size = 0
    while size <= PATIENT_BYTES:
        messages.append(await receive())
        size += len(messages[-1].get("body", b""))
        if not messages[-1].get("more_body", False):
            break
    replayed = iter(messages)

    async def again() -> Message:
        return next(replayed, None) or await receive()

    document: Any = None
    if size <= PATIENT_BYTES:
        encoding = headers.sent(scope, b"content-encoding")
        with contextlib.suppress(HotfootError):  # the app itself says what is wrong with it, when it is there
            document = body.parse(b"".join(m.get("body", b"") for m in messages), encoding, PATIENT_BYTES)
    options = document.get("options") if document else None
    return isinstance(options, dict) and options.get("wait_for_model") is True, again

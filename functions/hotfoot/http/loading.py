"""The ASGI app while artifacts are opened: whoever asks is told how long it may take, or waits if they ask to."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hotfoot.contract.errors import HotfootError
from hotfoot.http import body, headers, openai
from hotfoot.http.errors import Problem, problem
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
        if not self._app.done() and scope["type"] == "http":
            if scope["method"] == "OPTIONS":  # or a browser would not let its page read the 503
                await _answer(scope, send, 204, b"", headers.PREFLIGHT)
                return
            patient, receive = await asked_to_wait(scope, receive)
            if not patient:
                left = max(0.1, round(self._expected_s - (self._clock() - self._started), 1))
                words = "the model is still being opened. Ask again, or with `x-wait-for-model: true` to wait for it."
                await _refuse(scope, send, Problem(503, "Loading", words, {"retry-after": str(int(left + 1))}), estimated_time=left)
                return
        if not self._app.done():
            # not the future itself: a client that goes must not cancel it for the others
            await asyncio.wait([asyncio.ensure_future(asyncio.wrap_future(self._opened()))])
        try:
            app = self._app.result()
        except Exception as error:  # noqa: BLE001 - whoever started the opening tells of it, and ends; those who waited are told so
            await _refuse(scope, send, problem(error, headers.request_id(scope)))
            return
        await app(scope, receive, send)

    def _opened(self) -> Future[None]:
        """Done when the opening has ended, well or not."""
        ended: Future[None] = Future()
        self._app.add_done_callback(lambda _: ended.set_result(None))
        return ended


async def _refuse(scope: Scope, send: Send, found: Problem, **more: float) -> None:
    status, said = (openai.problem if openai.speaks(scope["path"]) else Problem.answer)(found)
    await _answer(scope, send, status, dumps({**said, **more}), {"content-type": "application/json", **found.headers})


async def _answer(scope: Scope, send: Send, status: int, document: bytes, fields: Mapping[str, str]) -> None:
    common = {**headers.of_answer(headers.Meter(), "cpu"), "x-request-id": headers.request_id(scope)}
    await send(headers.start(status, {**common, **fields}, len(document)))
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

"""What every dialect asks for: a prediction as JSON bytes, made in a bounded number of threads."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

from hotfoot import task
from hotfoot.batching import Deadline
from hotfoot.contract.errors import OverloadedError
from hotfoot.http.headers import Meter
from hotfoot.http.limits import Limits, check_answer, check_texts
from hotfoot.model import Model
from hotfoot.wire import dumps

T = TypeVar("T")
EMBEDDERS = ("feature-extraction", "sentence-similarity")  # one graph, two ways to read it


@dataclass(frozen=True)
class Reply:
    """A JSON answer and what it took."""

    body: bytes
    meter: Meter = field(default_factory=Meter)
    status: int = 200


class Gate:
    """Runs work in threads, and refuses it when too much waits. Bound to no event loop."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._slots = threading.BoundedSemaphore(limits.in_flight)
        self._threads = ThreadPoolExecutor(limits.running, thread_name_prefix="predict") if limits.running else None

    async def run(self, work: Callable[[], T]) -> T:
        """The result of `work`. Raises OverloadedError at once when the queue is full."""
        if self._threads is None:
            return work()
        if not self._slots.acquire(blocking=False):
            raise OverloadedError(
                f"{self._limits.in_flight} requests are running or waiting, the most this server takes.", hint="Try again shortly."
            )
        future = self._threads.submit(work)
        # also when the client has gone and the task is cancelled: the slot belongs to the thread's work
        future.add_done_callback(lambda _: self._slots.release())
        return await asyncio.wrap_future(future)


class Service:
    """One opened artifact behind the HTTP routes."""

    def __init__(self, model: Model, limits: Limits) -> None:
        self.model, self.limits = model, limits
        self._gate = Gate(limits)
        own = model.manifest.task
        self.models: Mapping[str, Model] = {own: model}
        if own in EMBEDDERS:
            self.models = {own: model, **{name: replace(model, task=task.load(name)) for name in EMBEDDERS if name != own}}

    @cached_property
    def device(self) -> str:
        """`cpu` or `gpu`: where ONNX Runtime really runs."""
        return "cpu" if self.model.session.providers[0] == "CPUExecutionProvider" else "gpu"

    async def predict(
        self,
        task_name: str,
        inputs: Any,
        parameters: Mapping[str, Any],
        deadline: Deadline | None,
        shape: Callable[[Any], Any] = lambda answer: answer,
    ) -> Reply:
        """Answer with one of the artifact's tasks; `shape` turns the task's answer into the dialect's.

        Raises InputError, TooLargeError (texts, tokens or answer), OverloadedError, OutOfTimeError.
        """
        model, arrived = self.models[task_name], time.perf_counter()

        def work() -> Reply:
            started = time.perf_counter()
            request = model.task.parse(inputs, parameters, model.manifest)
            check_texts(len(request.texts), self.limits)
            parsed = time.perf_counter()
            found = model.answer(request, most_tokens=self.limits.tokens, deadline=deadline)
            answered = time.perf_counter()
            body = dumps(shape(found.answer))
            check_answer(len(body), self.limits.response_bytes)
            timings = dict(found.timings)
            timings["queue"] = 1e3 * (started - arrived)
            timings["tokenize"] = timings.get("tokenize", 0.0) + 1e3 * (parsed - started)
            timings["post"] = timings.get("post", 0.0) + 1e3 * (time.perf_counter() - answered)
            return Reply(body, Meter(found.tokens, found.characters, len(request.texts), timings))

        return await self._gate.run(work)

    async def run(self, work: Callable[[], Any]) -> Reply:
        """JSON made by other work, under the same limits."""

        def whole() -> Reply:
            body = dumps(work())
            check_answer(len(body), self.limits.response_bytes)
            return Reply(body)

        return await self._gate.run(whole)

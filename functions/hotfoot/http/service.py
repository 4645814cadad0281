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
from hotfoot.model import Model, Prediction
from hotfoot.wire import dumps

T = TypeVar("T")
Shape = Callable[[Prediction], Any]
EMBEDDERS = ("feature-extraction", "sentence-similarity")  # one graph, two ways to read it


@dataclass(frozen=True)
class Reply:
    """An answer and what it took. headers: those that differ from every answer's; keep: the same request may get it again."""

    body: bytes
    meter: Meter = field(default_factory=Meter)
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    keep: bool = False


def plainly(found: Prediction) -> Any:
    """The task's own answer, which is that of the Hugging Face dialect."""
    return found.answer


class Gate:
    """Runs work in threads, and refuses it when too much waits. Bound to no event loop."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.in_flight, self._counting = 0, threading.Lock()  # what runs or waits now
        self._threads = ThreadPoolExecutor(limits.running, thread_name_prefix="predict") if limits.running else None

    async def run(self, work: Callable[[], T]) -> T:
        """The result of `work`. Raises OverloadedError at once when the queue is full."""
        if self._threads is None:
            return work()
        with self._counting:
            if self.in_flight >= self._limits.in_flight:
                raise OverloadedError(
                    f"{self._limits.in_flight} requests are running or waiting, the most this server takes.", hint="Try again shortly."
                )
            self.in_flight += 1
        future = self._threads.submit(work)
        # also when the client has gone and the task is cancelled: the place belongs to the thread's work
        future.add_done_callback(lambda _: self._leave())
        return await asyncio.wrap_future(future)

    def _leave(self) -> None:
        with self._counting:
            self.in_flight -= 1


class Service:
    """One opened artifact behind the HTTP routes. name: what it is called beside others, by default its model's id.

    gate: shared by all artifacts of a server, as they share its cores. shape: of the answers in the Hugging Face dialect, where a
    request does not say.
    """

    def __init__(self, model: Model, limits: Limits, gate: Gate, name: str | None = None, shape: str = "current") -> None:
        self.model, self.limits, self.gate, self.shape = model, limits, gate, shape
        self.id, self.digest = model.manifest.model.id, model.manifest.digest
        self.name = name or self.id
        own = model.manifest.task
        self.pools = model.manifest.facts.get("pooling") != "none"
        self.models: Mapping[str, Model] = {own: model}
        if own in EMBEDDERS and self.pools:
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
        shape: Shape = plainly,
        *,
        remember: bool = False,
    ) -> Reply:
        """Answer with one of the artifact's tasks; `shape` turns the prediction into the dialect's document.

        inputs: the task's, or what makes them where that takes time: it is called in the thread that predicts. remember: outputs of the
        graph may come from memory, and the answer may be kept. Raises InputError, TooLargeError (texts, tokens or answer),
        OverloadedError, OutOfTimeError.
        """
        model, arrived = self.models[task_name], time.perf_counter()

        def work() -> Reply:
            started = time.perf_counter()
            request = model.task.parse(inputs() if callable(inputs) else inputs, parameters, model.manifest)
            check_texts(len(request.texts), self.limits)
            parsed, keep = time.perf_counter(), remember and settled(request)
            found = model.answer(request, most_tokens=self.limits.tokens, deadline=deadline, remember=keep)
            answered = time.perf_counter()
            body = dumps(shape(found))
            check_answer(len(body), self.limits.response_bytes)
            timings = dict(found.timings)
            timings["queue"] = 1e3 * (started - arrived)
            timings["tokenize"] = timings.get("tokenize", 0.0) + 1e3 * (parsed - started)
            timings["post"] = timings.get("post", 0.0) + 1e3 * (time.perf_counter() - answered)
            meter = Meter(
                tokens=found.tokens,
                characters=found.characters,
                texts=len(request.texts),
                timings=timings,
                cache="bypass" if not keep else "hit" if 0 < found.inputs == found.remembered else "miss",
                inputs=found.inputs,
                remembered=found.remembered,
                unknown=found.unknown,
            )
            return Reply(body, meter, keep=keep)

        return await self.gate.run(work)

    async def run(self, work: Callable[[], tuple[Any, Meter]]) -> Reply:
        """JSON made by other work, and what it took, under the same limits."""

        def whole() -> Reply:
            started = time.perf_counter()
            document, meter = work()
            body = dumps(document)
            check_answer(len(body), self.limits.response_bytes)
            return Reply(body, replace(meter, timings={"tokenize": 1e3 * (time.perf_counter() - started)}))

        return await self.gate.run(whole)


def settled(request: task.Request) -> bool:
    """Whether the same request gets the same answer each time: all but sampled text."""
    return not getattr(request.options.get("rules"), "sample", False)

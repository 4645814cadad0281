"""A request that would run past the function's time limit gets its answer before the platform cuts it off."""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from hotfoot import batching
from hotfoot.batching import MARGIN_S, Deadline
from hotfoot.contract.errors import OutOfTimeError
from hotfoot.model import Model
from hotfoot.session import Session
from hotfoot.task import Array, Encoded
from support import events
from support.events import Context
from support.serving import artifact, client, model

WORDS = {"/": "text-classification", "/embed": "feature-extraction", "/predict": "text-classification", "/similarity": "feature-extraction"}


class Clock:
    """Time that passes only when a graph runs."""

    def __init__(self, left: float) -> None:
        self.left, self.now = left, 0.0

    def monotonic(self) -> float:
        return self.now

    def remaining(self) -> float:
        return self.left - self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock(30.0)
    monkeypatch.setattr(batching, "time", SimpleNamespace(monotonic=made.monotonic))  # the event loop keeps its own
    return made


def slow(monkeypatch: pytest.MonkeyPatch, of: Model, clock: Clock, seconds: float) -> list[int]:
    """Let each run of the graph take `seconds`; gives the sizes of the runs, as they come."""
    sizes: list[int] = []
    assert isinstance(of.session, Session)
    inner = of.session.run_batch

    def run_batch(inputs: Sequence[Encoded], length: int) -> list[Array]:
        clock.now += seconds
        sizes.append(len(inputs))
        return inner(inputs, length)

    monkeypatch.setattr(of.session, "run_batch", run_batch)
    return sizes


def test_a_deadline_keeps_room_for_the_answer_and_one_more_run(clock: Clock) -> None:
    deadline = Deadline(clock.remaining)
    deadline.check(0, 9)
    clock.now = 10.0
    deadline.check(2, 9)  # 20 s are left, a run takes 10
    clock.now = 18.0
    with pytest.raises(OutOfTimeError) as caught:  # 12 s, which 10 and the margin are
        deadline.check(4, 9)
    assert MARGIN_S == 2.0
    assert str(caught.value) == (
        "the request would run past the function's time limit: 4 of its 9 inputs (texts, or windows of them) are done and 12.0 s are left."
        " Send fewer or shorter texts a request, or give the function more time or memory."
    )


@pytest.mark.parametrize(("left", "ok"), [(0.4, True), (0.0, False), (-1.0, False)])
def test_a_short_limit_has_a_short_margin(clock: Clock, left: float, ok: bool) -> None:
    clock.left = left
    deadline = Deadline(clock.remaining)
    if ok:
        deadline.check(0, 1)
    else:
        with pytest.raises(OutOfTimeError):
            deadline.check(0, 1)


def test_runs_stop_in_time_and_say_how_far_they_came(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    of = model("text-classification")
    # six lengths, so six runs, the longest first
    texts = ["good " * n for n in (1, 10, 20, 30, 40, 50)]
    request = of.task.parse(texts, {}, of.manifest)
    sizes = slow(monkeypatch, of, clock, 6.0)
    assert len(of.answer(request).answer) == 6  # nothing stops what has no deadline
    sizes.clear()
    clock.now = 0.0
    with pytest.raises(OutOfTimeError, match=r"4 of its 6 inputs \(texts, or windows of them\) are done and 6\.0 s are left"):
        of.answer(request, deadline=Deadline(clock.remaining))
    assert sizes == [1, 1, 1, 1]
    clock.now, clock.left = 0.0, 40.0
    assert len(of.answer(request, deadline=Deadline(clock.remaining)).answer) == 6


@pytest.fixture(scope="module")
def function() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOTFOOT_ARTIFACT", str(artifact("text-classification")))
        patch.setenv("HOTFOOT_CACHE_MB", "0")  # a remembered answer is always in time
        sys.modules.pop("hotfoot.handlers.http", None)
        yield importlib.import_module("hotfoot.handlers.http")
    sys.modules.pop("hotfoot.handlers.http", None)


@dataclasses.dataclass(frozen=True)
class Running(Context):
    """A context whose time passes with the clock."""

    clock: Clock = dataclasses.field(default_factory=lambda: Clock(30.0))

    def get_remaining_time_in_millis(self) -> int:
        return round(1e3 * self.clock.remaining())


@pytest.mark.parametrize("name", events.HTTP)
@pytest.mark.parametrize("path", ["/", "/predict"])
def test_a_function_answers_504(function: ModuleType, clock: Clock, monkeypatch: pytest.MonkeyPatch, name: str, path: str) -> None:
    slow(monkeypatch, function.model, clock, 9.0)
    texts: list[Any] = ["good", "good " * 20, "good " * 40, "good " * 60]
    body = {"inputs": [[text] for text in texts] if path == "/predict" else texts}
    answer = function.handler(events.request(name, path, body), Running(clock=clock))
    assert answer["statusCode"] == 504
    document = json.loads(answer["body"])
    assert document["error_type"] == "Timeout"
    assert document["error"].startswith("the request would run past the function's time limit: 3 of its 4 inputs")
    clock.now = 0.0
    assert function.handler(events.request(name, path, {"inputs": "good"}), Running(clock=clock))["statusCode"] == 200


def test_every_route_that_predicts_has_the_deadline(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server's requests have none; the same requests with a function's context have."""
    pair = {"source_sentence": "east", "sentences": ["north " * 30, "up"]}
    clock.left = 0.0
    for path, task in WORDS.items():
        of = model(task)
        body = {"inputs": pair if path == "/similarity" else "good"}
        http = client(of)
        assert http.post(path, json=body).status_code == 200
        app: Any = http.app

        async def in_function(scope: Any, receive: Any, send: Any, app: Any = app) -> None:
            await app({**scope, "aws.context": Running(clock=clock)}, receive, send)

        monkeypatch.setattr(http, "app", in_function)
        http._transport.app = in_function  # type: ignore[attr-defined]
        assert http.post(path, json=body).status_code == 504

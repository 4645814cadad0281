"""The function for objects when its time runs out: what is left goes on in new messages, and only what never fits fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import StringIO
from types import ModuleType
from typing import Any

import pytest

from hotfoot import observe
from hotfoot.bulk import queues, readers
from hotfoot.session import Session
from support.bulk import call, fresh, made, put
from support.events import Context
from support.objects import Objects, boto_server

QUEUE = "hotfoot-bulk"  # as the recorded messages say
RUN_MS = 11_000


@dataclass
class Clock:
    """What is left of an invocation."""

    left_ms: int = 0


@dataclass(frozen=True)
class Hurried(Context):
    """An invocation by that clock."""

    clock: Clock = field(default_factory=Clock)

    def get_remaining_time_in_millis(self) -> int:
        """What is left."""
        return self.clock.left_ms


@pytest.fixture
def objects() -> Iterator[Objects]:
    with boto_server() as running:
        yield running.objects


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> StringIO:
    stream = StringIO()
    monkeypatch.setattr(observe.logger().registered_handler, "stream", stream)
    return stream


@pytest.fixture(scope="module")
def function() -> ModuleType:
    return fresh()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Two records a batch, and every run of the model takes 11 seconds."""
    clock, whole, run = Clock(), readers.batches, Session.run

    def slow(session: Session, inputs: Any) -> Any:
        clock.left_ms -= RUN_MS
        return run(session, inputs)

    monkeypatch.setattr(readers, "batches", lambda found: whole(found, 2, 100))
    monkeypatch.setattr(Session, "run", slow)
    return clock


def invoke(function: ModuleType, clock: Clock, *records: Any, left_ms: int = 40_000) -> list[str]:
    """The ids of the messages that failed; in 40 seconds three runs are in time."""
    clock.left_ms = left_ms
    return call(function, *records, context=Hurried(clock=clock))


@pytest.mark.usefixtures("log")
def test_an_object_goes_on_in_new_messages_until_it_is_done(
    function: ModuleType, objects: Objects, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    """However many it takes: no message is received twice, so the queue's tries are never used up."""
    record = put(objects, b"good\nbad\nfine\n" * 14)
    assert invoke(function, clock, record) == []
    continued = 0
    while (sent := objects.sent.pop(QUEUE, None)) is not None:
        continued += 1
        assert sent == [record["body"]]
        assert invoke(function, clock, {**record, "messageId": f"new{continued}"}) == []
    assert continued == 6
    assert sorted(made(objects)) == ["_report.json", *(f"part-0000{i}.jsonl" for i in range(7))]
    records = [json.loads(line) for name, body in sorted(made(objects).items()) if "part" in name for line in body.splitlines()]
    assert [r["line"] for r in records] == list(range(1, 43))
    assert capsys.readouterr().out.count('"ContinuedMessages":[1.0]') == continued


def test_a_repeated_message_changes_nothing(function: ModuleType, objects: Objects, clock: Clock) -> None:
    """As after a crash between the new message and the end of the old one: both are there."""
    record = put(objects, b"good\nbad\n" * 4)
    assert invoke(function, clock, record) == []
    [body] = objects.sent.pop(QUEUE)
    assert invoke(function, clock, record, {**record, "messageId": "m2", "body": body}, left_ms=900_000) == []
    records = [json.loads(line) for name, body in sorted(made(objects).items()) if "part" in name for line in body.splitlines()]
    assert [r["line"] for r in records] == list(range(1, 9))
    assert objects.sent == {}


def test_what_was_not_begun_is_not_charged(function: ModuleType, objects: Objects, clock: Clock) -> None:
    large, small = put(objects, b"good\n" * 20), {**put(objects, key="in/small.txt"), "messageId": "m2"}
    assert invoke(function, clock, large, small) == []
    assert objects.sent == {QUEUE: [large["body"], small["body"]]}
    assert not [key for key in objects.files("results") if "small" in key]
    assert invoke(function, clock, small, left_ms=900_000) == []
    assert [key.rpartition("/")[2] for key in objects.files("results") if "small" in key] == ["_report.json", "part-00000.jsonl"]


def test_without_getting_further_it_is_a_failure(function: ModuleType, objects: Objects, clock: Clock, log: StringIO) -> None:
    """Or it would go round for ever."""
    assert invoke(function, clock, put(objects), {**put(objects, key="b.txt"), "messageId": "m2"}, left_ms=0) == ["m1", "m2"]
    assert log.getvalue().count('"further":false') == 2
    assert objects.requests == []
    assert objects.sent == {}


def test_without_a_new_message_the_old_one_comes_back(function: ModuleType, objects: Objects, clock: Clock, log: StringIO) -> None:
    record = put(objects, b"good\n" * 20)
    objects.forbidden = {QUEUE}
    assert invoke(function, clock, record) == ["m1"]
    assert '"detail":"AccessDeniedException"' in log.getvalue()
    objects.forbidden = set()
    assert invoke(function, clock, {**record, "eventSourceARN": "arn:aws:sqs"}) == ["m1"]
    assert "does not say which queue" in log.getvalue()
    assert objects.sent == {}
    assert invoke(function, clock, record, left_ms=900_000) == []
    assert "_report.json" in made(objects)


def test_the_queue_is_looked_up_once(objects: Objects) -> None:
    for body in ("a", "b"):
        queues.send_again("arn:aws:sqs:eu-central-1:123456789012:hotfoot-bulk", body)
    assert objects.requests == [("GetQueueUrl", QUEUE), ("SendMessage", QUEUE), ("SendMessage", QUEUE)]
    assert objects.sent == {QUEUE: ["a", "b"]}

"""The Lambda entry point for objects, with recorded messages and the real boto3 against a store in this process."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from io import StringIO
from types import ModuleType
from typing import Any

import pytest

from hotfoot import observe
from hotfoot.contract.errors import ArtifactError, HotfootError
from support import events
from support.bulk import HANDLER, KEY, call, fresh, made, message, put
from support.events import Context
from support.objects import Objects, Server, boto_server, forget_clients
from support.serving import artifact


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with boto_server() as running:
        yield running


@pytest.fixture
def objects(server: Server) -> Objects:
    server.objects = Objects()
    return server.objects


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> StringIO:
    """What the function's logger writes; its own stream is the stdout of whichever test came first."""
    stream = StringIO()
    monkeypatch.setattr(observe.logger().registered_handler, "stream", stream)
    return stream


@pytest.fixture(scope="module")
def function() -> ModuleType:
    return fresh()


@pytest.mark.parametrize("name", ["sqs_eventbridge_created", "sqs_s3_created", "sqs_s3_sns"])
def test_recorded_messages(function: ModuleType, objects: Objects, name: str) -> None:
    put(objects)
    event = json.loads(json.dumps(events.load(name)).replace("IYV3p45BT0ac8hjHg1houSdS1a.Mro8e", "v1"))
    assert function.handler(event, Context()) == {"batchItemFailures": []}
    digest = function.model.manifest.digest[:12]
    assert list(objects.files("results")) == [f"out/tiny/{digest}/{KEY}/v1/{name}" for name in ("_report.json", "part-00000.jsonl")]
    assert json.loads(made(objects)["_report.json"])["key"] == KEY


def test_no_retry_with_another_spelling(function: ModuleType, objects: Objects) -> None:
    assert call(function, message("texts", "in/this+is.txt", version="v1")) == []
    assert {key for method, key in objects.requests if key.startswith("in/")} == {"in/this+is.txt"}


def test_a_batch_of_all_kinds(function: ModuleType, objects: Objects) -> None:
    [test_event] = events.load("sqs_s3_test_event")["Records"]
    foreign = {**test_event, "messageId": "foreign", "body": "not JSON"}
    hidden = {k: v for k, v in foreign.items() if k != "messageId"}
    assert call(function, test_event, put(objects), foreign) == ["foreign"]
    assert json.loads(made(objects)["_report.json"])["records"] == 2
    assert call(function, hidden, foreign, None, 5, {}, {"messageId": "bare"}, put(objects)) == ["foreign", "bare"]
    assert len(objects.files("results")) == 4


def test_all_failed_and_none(function: ModuleType, objects: Objects) -> None:
    objects.forbidden = {"a.txt", "b.txt"}
    records = [message("texts", f"{name}.txt", number=i, version="v1") for i, name in enumerate("ab")]
    assert call(function, *records) == ["m0", "m1"]
    assert call(function) == []


@pytest.mark.parametrize(
    "event",
    [{}, [], None, {"Records": 5}, {"Records": [{"eventSource": "aws:s3", "s3": {}}]}, {"inputs": "x"}, events.load("alb")],
    ids=repr,
)
def test_other_events_are_refused(function: ModuleType, event: Any) -> None:
    with pytest.raises(HotfootError, match="SQS"):
        function.handler(event, Context())


def test_warm_up(function: ModuleType) -> None:
    assert function.handler({"warmup": True}, Context())["warm"] is True


class TestWhatIsDone:
    def test_deleted(self, function: ModuleType, objects: Objects, log: StringIO) -> None:
        assert call(function, message("texts", "a.txt", version="v1"), message("texts", "a.txt"), message("texts", "a.txt", etag="x")) == []
        assert log.getvalue().count('"reason":"deleted"') == 3
        assert objects.files("results") == {}

    def test_replaced(self, function: ModuleType, objects: Objects, log: StringIO) -> None:
        old, new = objects.put("texts", KEY, b"good"), objects.put("texts", KEY, b"bad")
        assert old
        assert new
        assert call(function, message("texts", KEY, etag=old.etag)) == []
        assert '"reason":"replaced"' in log.getvalue()
        assert objects.files("results") == {}
        assert call(function, message("texts", KEY, etag=new.etag)) == []
        assert f"/{new.etag}/_report.json" in next(iter(objects.files("results")))

    def test_twice_and_a_new_version(self, function: ModuleType, objects: Objects) -> None:
        first = put(objects)
        assert call(function, first, first) == []
        before = objects.files("results")
        assert call(function, first) == []
        assert objects.files("results") == before
        assert call(function, put(objects, b"bad")) == []
        assert len(objects.files("results")) == 4

    def test_an_unversioned_bucket(self, function: ModuleType, objects: Objects) -> None:
        stored = objects.put("texts", KEY, b"good")
        assert stored
        assert call(function, message("texts", KEY), message("texts", KEY, version="null", etag=stored.etag)) == []
        assert [len(found) for found in objects.versions.values()] == [1, 1, 1]
        assert f"/{stored.etag}/" in next(iter(objects.files("results")))

    def test_rejected(self, function: ModuleType, objects: Objects) -> None:
        assert call(function, put(objects, key="a.csv")) == []
        assert json.loads(made(objects)["_report.json"])["status"] == "rejected"

    @pytest.mark.parametrize("key", ["out/tiny/x/a.txt/v1/part-00000.jsonl", "out/_report.json", "folder/"])
    def test_own_results_and_folders(self, function: ModuleType, objects: Objects, key: str) -> None:
        objects.put("results", key, b"good")
        assert call(function, message("results", key, version="v1")) == []
        assert list(objects.files("results")) == [key]

    def test_empty(self, function: ModuleType, objects: Objects) -> None:
        assert call(function, put(objects, b"")) == []
        assert list(made(objects)) == ["_report.json"]


class TestWhatFails:
    def test_access_denied(self, function: ModuleType, objects: Objects, log: StringIO) -> None:
        record = put(objects)
        objects.forbidden = {KEY}
        assert call(function, record, put(objects, key="b.txt")) == ["m1"]
        assert '"detail":"AccessDenied"' in log.getvalue()
        assert len(objects.files("results")) == 2

    def test_throttled_for_a_moment(self, function: ModuleType, objects: Objects) -> None:
        record = put(objects)
        objects.busy = 1
        assert call(function, record) == []
        assert len(objects.files("results")) == 2

    def test_one_of_several_objects(self, function: ModuleType, objects: Objects) -> None:
        [record] = events.load("sqs_s3_created")["Records"]
        body = json.loads(record["body"])
        [created] = body["Records"]
        body["Records"] = [json.loads(json.dumps(created).replace("a%2Bb+%C3%BC.txt", name)) for name in ("1.txt", "2.txt")]
        for name in ("1.txt", "2.txt"):
            objects.put("texts", f"in/{name}", b"good")
        objects.forbidden = {"in/1.txt"}
        text = json.dumps(body).replace("IYV3p45BT0ac8hjHg1houSdS1a.Mro8e", "v1")
        assert call(function, {**record, "messageId": "both", "body": text}) == ["both"]
        assert len(objects.files("results")) == 2


def test_mask_end_to_end(objects: Objects) -> None:
    function = fresh("token-classification", mask=True, id_field="id", stride=0, truncate=True)
    assert call(function, put(objects, "Maria lives in Springfield, é\n".encode())) == []
    record = json.loads(made(objects)["part-00000.jsonl"])
    assert record["text"] == "[PER] lives in [LOC], é"
    assert "Maria" not in str(record)


def test_no_text_in_any_log(objects: Objects, log: StringIO, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    """Everything at DEBUG, right and wrong texts, and results that do hold the text: none of it is told to anybody."""
    forget_clients()
    for name in ("boto3", "botocore", "urllib3"):
        logging.getLogger(name).setLevel(logging.NOTSET)
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, observe.logger().service)
    function = fresh("token-classification", id_field="id")
    body = b'{"text": "canary Maria", "id": "canary"}\n{"text": "canary"\n"canary"\n' + json.dumps({"text": "canary " * 90}).encode()
    record = put(objects, body, "a.jsonl")
    objects.forbidden = {"b.txt"}
    failing = [message("texts", "b.txt", number=2, version="v1"), {**record, "messageId": "m3", "body": "canary"}]
    assert call(function, record, *failing) == ["m2", "m3"]
    assert b"canary" in made(objects)["part-00000.jsonl"]
    told = capfd.readouterr()
    assert '"message":"failed"' in log.getvalue()
    assert '"message":"done"' in log.getvalue()
    assert "canary" not in log.getvalue() + told.out + told.err + caplog.text
    assert "canary" not in made(objects)["_report.json"].decode()
    assert [name for name in ("boto3", "botocore", "urllib3") if logging.getLogger(name).isEnabledFor(logging.DEBUG)] == []


def test_no_event_in_the_log(objects: Objects, log: StringIO, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POWERTOOLS_LOGGER_LOG_EVENT", "true")
    function = fresh()
    assert call(function, {**put(objects), "messageId": "m3", "body": '{"inputs": "canary"}'}) == ["m3"]
    assert function.handler({"warmup": True, "inputs": "canary"}, Context())["warm"]
    assert '"message":"failed"' in log.getvalue()
    assert "canary" not in log.getvalue() + capfd.readouterr().out


def test_without_a_bucket_it_does_not_start() -> None:
    done = started(HOTFOOT_RESULTS_BUCKET="")
    assert done.returncode != 0
    assert "ArtifactError: HOTFOOT_RESULTS_BUCKET in the environment is not set." in done.stderr


def started(**variables: str) -> subprocess.CompletedProcess[str]:
    """A fresh process that imports the handler."""
    code = f"import sys, {HANDLER} as b; print([m for m in ('boto3', 'botocore.session', 'starlette', 'uvicorn') if m in sys.modules])"
    environment = {"HOTFOOT_ARTIFACT": str(artifact("text-classification")), "PATH": "/usr/bin:/bin", **variables}
    return subprocess.run([sys.executable, "-W", "error", "-c", code], env=environment, capture_output=True, text=True, check=False)


def test_start_needs_no_boto3() -> None:
    done = started(HOTFOOT_RESULTS_BUCKET="b")
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_wrong_options_stop_the_start() -> None:
    with pytest.raises(ArtifactError, match="masks: unknown field"):
        fresh(masks=True)


def test_metrics(function: ModuleType, objects: Objects, capsys: pytest.CaptureFixture[str]) -> None:
    call(function, put(objects, b"good\n\xff\n"), put(objects, key="a.csv"), {"messageId": "x", "body": "?"})
    [line] = [json.loads(line) for line in capsys.readouterr().out.splitlines() if "_aws" in line]
    assert {k: line[k] for k in ("Objects", "Texts", "FailedRecords", "RejectedObjects", "FailedMessages")} == {
        "Objects": [1.0], "Texts": [2.0], "FailedRecords": [1.0], "RejectedObjects": [1.0], "FailedMessages": [1.0],
    }  # fmt: skip

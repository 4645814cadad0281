"""Objects through the bulk pipeline over rigged artifacts, and what came of them; and messages through its function."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Mapping
from functools import cache
from types import ModuleType
from typing import Any

import pytest

from hotfoot.bulk.answers import Work, prepare
from hotfoot.bulk.deadline import Deadline
from hotfoot.bulk.pipeline import Outcome, Source, process
from hotfoot.bulk.report import Origin
from hotfoot.contract.bulk import BulkOptions
from support import events
from support.events import Context
from support.objects import MemoryResults, Objects
from support.serving import artifact, model

KEY = "in/a+b ü.txt"
HANDLER = "hotfoot.handlers.bulk"
SENTENCES = ("good", "bad word", "fine text", "hello", "bad bad good", "word " * 9)


@cache
def work_of(task: str, **options: Any) -> Work:
    """The rigged artifact of a task, ready for bulk work."""
    return prepare(model(task), BulkOptions(**options))


def run(
    body: bytes,
    results: MemoryResults | None = None,
    *,
    work: Work | None = None,
    key: str = "in/a.txt",
    version: str = "v1",
    deadline: Deadline | None = None,
) -> tuple[Outcome, dict[str, bytes]]:
    """One object through the pipeline: its outcome, and all files of the results by their last name."""
    results = results or MemoryResults()
    chunks = iter([body[:7], body[7:]])
    outcome = process(
        work or work_of("text-classification"), Source(Origin("texts", key, version), chunks), results, "results", deadline=deadline
    )
    return outcome, files(results)


def files(results: MemoryResults) -> dict[str, bytes]:
    """The files of the results by their last name."""
    return {key.rpartition("/")[2]: body for key, body in results.objects.files("results").items()}


def lines(found: Mapping[str, bytes]) -> list[dict[str, Any]]:
    """The records of all parts, in order."""
    return [json.loads(line) for name, body in sorted(found.items()) if name.startswith("part-") for line in body.splitlines()]


def fresh(task: str = "text-classification", **options: Any) -> ModuleType:
    """The function's module as a new environment imports it; its results go to the bucket `results`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOTFOOT_ARTIFACT", str(artifact(task)))
        patch.setenv("HOTFOOT_RESULTS_BUCKET", "results")
        patch.setenv("HOTFOOT_RESULTS_PREFIX", "out/")
        patch.setenv("HOTFOOT_BULK", json.dumps(options))
        sys.modules.pop(HANDLER, None)
        module = importlib.import_module(HANDLER)
        sys.modules.pop(HANDLER)
        return module


def message(bucket: str, key: str, *, number: int = 1, version: str | None = None, etag: str | None = None) -> dict[str, Any]:
    """A queue's record that announces an object by EventBridge."""
    [record] = events.load("sqs_eventbridge_created")["Records"]
    body = json.loads(record["body"])
    found = {"key": key, "size": 5, **({"version-id": version} if version else {}), **({"etag": etag} if etag else {})}
    body["detail"].update(bucket={"name": bucket}, object=found)
    return {**record, "messageId": f"m{number}", "body": json.dumps(body)}


def put(objects: Objects, body: bytes = b"good\nbad\n", key: str = KEY) -> dict[str, Any]:
    """A new object, and the record that announces it."""
    stored = objects.put("texts", key, body)
    assert stored
    return message("texts", key, version=stored.version_id, etag=stored.etag)


def call(function: ModuleType, *records: Any, context: Context | None = None) -> list[str]:
    """The ids of the messages that failed."""
    answer = function.handler({"Records": list(records)}, context or Context())
    assert set(answer) == {"batchItemFailures"}
    assert json.loads(json.dumps(answer)) == answer
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


def made(objects: Objects) -> dict[str, bytes]:
    """The results by their last name."""
    return {key.rpartition("/")[2]: body for key, body in objects.files("results").items()}

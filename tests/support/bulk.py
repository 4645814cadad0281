"""Objects through the bulk pipeline over rigged artifacts, and what came of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from hotfoot.bulk.answers import Work, prepare
from hotfoot.bulk.pipeline import Deadline, Outcome, Source, process
from hotfoot.bulk.report import Origin
from hotfoot.contract.bulk import BulkOptions
from support.objects import MemoryResults
from support.serving import model

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

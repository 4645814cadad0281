"""A real bundle in AWS's runtime client, started for a snapshot, frozen and woken; only the snapshot itself is missing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hotfoot.targets import machine_arch
from support import events
from support.bundled import rigged_bundle, session_cache
from support.events import headers_of
from support.runtime_api import frozen

pytestmark = pytest.mark.slow

# the handler, and a look into its process; what it draws would be the same in every copy if nobody reseeded
LOOK = """
import gc, random, sys
from hotfoot.handlers import http

random.seed(5)


def handler(event, context):
    if event == "look":
        return {"frozen": gc.get_freeze_count(), "random": random.random(), "boto3": "boto3" in sys.modules}
    return http.handler(event, context)
"""
SEEDED = 0.6229016948897019  # what random draws first after that seed


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with session_cache(tmp_path_factory):
        yield rigged_bundle(tmp_path_factory.mktemp("restore"), f"lambda-{machine_arch()}")


def metrics_of(log: str) -> list[dict[str, Any]]:
    """The lines that CloudWatch reads as metrics."""
    return [json.loads(line) for line in log.splitlines() if line.startswith("{") and "_aws" in line]


def test_a_restored_function_answers_as_a_new_one(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "look.py").write_text(LOOK, encoding="utf-8")
    good = events.request("apigateway_v2", "/", {"inputs": "good"})
    with frozen(bundle, tmp_path, "look.handler") as function:
        function.until_frozen()
        assert function.api.asked == ["restore/next"]  # no hook failed, and no event was asked for
        assert metrics_of(function.log) == []
        function.api.restore.set()
        seen = function.api.invoke("look", "id-0")
        assert seen["frozen"] > 10_000
        assert seen["random"] != SEEDED
        assert seen["boto3"] is False  # nothing of it was needed
        answers = [function.api.invoke(good, f"id-{number}") for number in (1, 2)]
        counted = metrics_of(function.log)
    assert [json.loads(answer["body"])[0][0]["label"] for answer in answers] == ["POSITIVE"] * 2
    assert [headers_of(answer)["x-request-id"] for answer in answers] == ["id-1", "id-2"]
    assert function.api.asked.count("restore/next") == 1
    assert not {"init/error", "restore/error"} & set(function.api.asked)
    assert counted[0]["Restores"] == [1.0]
    assert not {"ColdStarts", "ModelOpen"} & set(counted[0])
    assert not {"Restores", "ColdStarts"} & set(counted[1])


def test_a_hook_that_fails_stops_the_snapshot(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(
        "from hotfoot import model\n"
        "def no(*_):\n    raise RuntimeError('cannot')\n"
        "from hotfoot.handlers.http import handler\n"
        "model.Model.outputs = no\n",
        encoding="utf-8",
    )
    with frozen(bundle, tmp_path, "broken.handler") as function:
        assert function.ended() == 64
        assert function.api.asked == ["init/error"]
        assert "RuntimeError: cannot" in function.log

"""What is let go before a snapshot and new after a restore, by the registry that Lambda's runtime client reads and the hooks it calls."""

from __future__ import annotations

import gc
import importlib
import json
import random
import sys
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import boto3
import pytest
import snapshot_restore_py
from awslambdaric import lambda_runtime_hooks_runner as runner

from hotfoot import handlers, snapshot
from hotfoot.batching import BATCH_TOKENS
from hotfoot.bulk import queues, s3
from hotfoot.contract.errors import InputError
from hotfoot.http import peers
from hotfoot.model import Model
from hotfoot.remembering import Outputs
from hotfoot.shared_cache import FAULTS, SharedCache
from support import bulk, events
from support.rigged import Rig, rigged_artifact
from support.rigged_text import TASKS as GENERATIVE
from support.serving import TASKS, artifact, model
from support.shared import TABLE, Calls, account, same, some

SNAP_START = "AWS_LAMBDA_INITIALIZATION_TYPE"


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    """An empty registry before and after; and the objects of this process are collected again."""
    registries = (snapshot_restore_py.get_before_snapshot(), snapshot_restore_py.get_after_restore())
    for hooks in registries:
        hooks.clear()
    yield
    for hooks in registries:
        hooks.clear()
    gc.unfreeze()


def http_handler(patch: pytest.MonkeyPatch) -> ModuleType:
    """The HTTP function's module as an environment imports it that is started for a snapshot."""
    patch.setenv("HOTFOOT_ARTIFACT", str(artifact("text-classification")))
    patch.delitem(sys.modules, "hotfoot.handlers.http", raising=False)
    made = importlib.import_module("hotfoot.handlers.http")
    patch.delitem(sys.modules, "hotfoot.handlers.http")
    return made


def hooks() -> tuple[list[str], list[str]]:
    """The names of the functions that are registered: before, after."""
    before, after = snapshot_restore_py.get_before_snapshot(), snapshot_restore_py.get_after_restore()
    return [hook[0].__name__ for hook in before], [hook[0].__name__ for hook in after]


@pytest.mark.parametrize("kind", [None, "on-demand", "provisioned-concurrency"])
def test_other_environments_register_nothing(kind: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind:
        monkeypatch.setenv(SNAP_START, kind)
    monkeypatch.setitem(sys.modules, "snapshot_restore_py", None)  # as where it is not installed
    http_handler(monkeypatch)
    bulk.fresh()
    assert hooks() == ([], [])


def test_both_functions_register_as_they_are_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SNAP_START, "snap-start")
    http_handler(monkeypatch)
    assert hooks() == (["freeze"], ["wake"])
    bulk.fresh()
    assert hooks() == (["freeze"] * 2, ["wake"] * 2)


def metrics_of(out: str) -> list[dict[str, Any]]:
    """The lines that CloudWatch reads as metrics."""
    return [line for line in map(json.loads, out.splitlines()) if "_aws" in line]


@pytest.mark.parametrize("which", ["http", "bulk"])
def test_a_restore_is_counted_once_and_is_no_cold_start(
    which: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(SNAP_START, "snap-start")
    function = http_handler(monkeypatch) if which == "http" else bulk.fresh()
    runner.run_before_snapshot()
    assert gc.get_freeze_count() > 10_000
    runner.run_after_restore()
    for _ in range(2):
        assert function.handler({"warmup": True}, events.Context())["warm"] is True
    first, second = metrics_of(capsys.readouterr().out)
    assert first["Restores"] == [1.0]
    assert not {"ColdStarts", "ModelOpen"} & set(first)
    assert not {"Restores", "ColdStarts"} & set(second)


def test_copies_draw_different_numbers() -> None:
    random.seed(5)
    frozen, drawn = random.getstate(), set()
    for _ in range(3):
        random.setstate(frozen)
        snapshot.wake(lambda: None)
        drawn.add(random.random())  # noqa: S311 - no secret
    assert len(drawn) == 3


def access_keys(*clients: Any) -> set[str]:
    """Whose credentials the clients sign with."""
    return {client._request_signer._credentials.access_key for client in clients}


def test_clients_are_new_and_have_new_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    with account():
        old = (s3.client(), queues.client(), peers.client(5))
        assert (s3.client(), queues.client(), peers.client(5)) == old
        arn, url = "arn:aws:sqs:eu-central-1:123456789012:texts", boto3.client("sqs").create_queue(QueueName="texts")["QueueUrl"]
        queues.send_again(arn, "a message")
        snapshot.freeze(model("text-classification"), [s3.forget, queues.forget, peers.forget])
        assert boto3.DEFAULT_SESSION is None
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of another day")
        new = (s3.client(), queues.client(), peers.client(5))
        assert not set(map(id, new)) & set(map(id, old))
        assert access_keys(*new) == {"of another day"} != access_keys(*old)
        queues.send_again(arn, "another")
        told = boto3.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        assert told["ApproximateNumberOfMessages"] == "2"
        for forget in (s3.forget, queues.forget, peers.forget):
            forget()


def test_the_shared_table_is_opened_anew_and_asked_though_it_rested(monkeypatch: pytest.MonkeyPatch) -> None:
    with account() as arn:
        calls, wanted = Calls(monkeypatch), some(2)
        shared = SharedCache(TABLE, arn, "one")
        remembering = replace(model("text-classification"), memory=Outputs(1_000_000, shared))
        shared.put(wanted)
        snapshot.freeze(remembering, [])
        assert same(shared.get(list(wanted)), wanted)
        assert calls.made == ["GetSecretValue", "BatchWriteItem", "GetSecretValue", "BatchGetItem"]
        for _ in range(FAULTS):
            shared._failed(TimeoutError())
        assert shared.get(list(wanted)) == {}
        snapshot.freeze(remembering, [])
        assert same(shared.get(list(wanted)), wanted)


def test_what_was_let_go_before_the_handler_was_whole_is_not_in_the_snapshot() -> None:
    """As the client that reads the secret, which lies in a circle as all of boto3's do."""

    class Client:
        def __init__(self) -> None:
            self.me = self

    gone = weakref.ref(Client())
    handlers.whole()
    snapshot.freeze(model("text-classification"), [])
    assert gone() is None


class Seeing:
    """A session that notes how many tokens it is given."""

    def __init__(self, session: Any) -> None:
        self._session, self.tokens = session, list[int]()

    def run(self, inputs: Any, deadline: Any = None, probe: Any = None) -> Any:
        self.tokens += [len(encoded.ids) for encoded in inputs]
        return self._session.run(inputs, deadline, probe)


@pytest.mark.parametrize("task", TASKS)
def test_the_largest_run_comes_before_the_snapshot_and_is_not_remembered(task: str, tmp_path: Path) -> None:
    large = Rig(max_tokens=2 * BATCH_TOKENS)
    for rig, folder in ((Rig(), "small"), (large, "large")):
        made = Model.open(rigged_artifact(tmp_path / folder, task, rig), threads=1, cache_bytes=10_000_000)
        seeing = Seeing(made.session)
        snapshot.grow(replace(made, session=seeing))  # type: ignore[arg-type]
        assert seeing.tokens == [min(rig.max_tokens, BATCH_TOKENS + 2)]  # with the special tokens
        assert made.memory is not None
        assert made.memory.stats.entries == 0
        assert made.tokenizer.encodings is not None
        assert made.tokenizer.encodings.stats.entries == 0


@pytest.mark.parametrize("task", GENERATIVE)
def test_what_makes_text_reads_a_long_one(task: str) -> None:
    snapshot.grow(model(task))


def test_a_model_that_cannot_run_is_not_published() -> None:
    class Broken:
        def run(self, *_: Any, **__: Any) -> Any:
            raise InputError("no such shape.")

    snapshot_restore_py.register_before_snapshot(snapshot.freeze, replace(model("text-classification"), session=Broken()), [])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no such shape"):
        runner.run_before_snapshot()

"""Outputs in a table, through the real boto3: what is in it, what isn't, and that nothing which goes wrong there is ever heard of."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import boto3
import numpy as np
import pytest

from hotfoot import aws, shared_cache
from hotfoot.shared_cache import FAULTS, GET, LARGEST, LIFETIME_S, PUT, SharedCache, SharedStats, opened_value, sealed_value
from hotfoot.task import Array
from support.shared import SECRET, TABLE, Calls, account, dead_endpoint, items, quiet, same, silent_endpoint, some


@pytest.fixture
def secret() -> Iterator[str]:
    with account() as arn:
        yield arn


# --- the table


def test_what_one_process_writes_another_finds(secret: str) -> None:
    shapes: list[Array] = [
        np.arange(12, dtype=np.float32).reshape(3, 4),
        np.array([np.nan, -0.0, np.inf], np.float32),
        np.zeros((0, 3), np.float32),
        np.arange(8, dtype=np.float32)[::2],  # not contiguous
    ]
    wanted = {bytes([i]) * 32: array for i, array in enumerate(shapes)}
    SharedCache(TABLE, secret, "one").put(wanted)
    other = SharedCache(TABLE, secret, "one")
    assert same(other.get([*wanted, b"unknown"]), wanted)
    assert other.stats == SharedStats(asked=5, found=4)


def test_calls_hold_what_dynamodb_takes(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, wanted = Calls(monkeypatch), some(2 * GET + 7)
    shared = SharedCache(TABLE, secret, "one")
    shared.put(wanted)
    assert same(shared.get(list(wanted)), wanted)
    assert calls.made == ["GetSecretValue", *["BatchWriteItem"] * 9, *["BatchGetItem"] * 3]
    assert calls.sizes == [*[PUT] * 8, 7, GET, GET, 7]
    assert shared.stats == SharedStats(asked=207, found=207, written=207)


def test_other_artifacts_machines_and_secrets_have_other_names(secret: str) -> None:
    wanted = some(2)
    SharedCache(TABLE, secret, "one").put(wanted)
    assert SharedCache(TABLE, secret, "two").get(list(wanted)) == {}
    other = boto3.client("secretsmanager").create_secret(Name="other", SecretBinary=b"another secret, in bytes")["ARN"]
    assert SharedCache(TABLE, other, "one").get(list(wanted)) == {}
    SharedCache(TABLE, other, "one").put(wanted)
    assert len(items()) == 4
    assert len({item["id"]["B"] for item in items()}) == 4


def test_an_item_is_found_until_it_expires(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shared, wanted = SharedCache(TABLE, secret, "one"), some(1)
    before = time.time()
    shared.put(wanted)
    (item,) = items()
    assert set(item) == {"id", "value", "expires"}
    assert before + LIFETIME_S - 1 <= int(item["expires"]["N"]) <= time.time() + LIFETIME_S
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + LIFETIME_S - 60)
    assert same(shared.get(list(wanted)), wanted)
    monkeypatch.setattr(time, "time", lambda: now + LIFETIME_S + 1)
    assert shared.get(list(wanted)) == {}
    assert shared.stats.faults == 0


def test_large_outputs_stay_out_of_the_table(secret: str) -> None:
    shared = SharedCache(TABLE, secret, "one")
    fits, large = np.zeros(LARGEST // 4, np.float32), np.zeros(LARGEST // 4 + 1, np.float32)
    shared.put({b"fits": fits, b"large": large})
    assert list(shared.get([b"fits", b"large"])) == [b"fits"]
    assert shared.stats.written == 1


def test_a_value_that_somebody_else_made_is_not_believed(secret: str) -> None:
    shared, wanted = SharedCache(TABLE, secret, "one"), some(3)
    shared.put(wanted)
    one, two, three = items()
    put = boto3.client("dynamodb").put_item
    put(TableName=TABLE, Item={**one, "value": two["value"]})  # another's
    put(TableName=TABLE, Item={**two, "value": {"B": bytes(two["value"]["B"])[:-1] + b"\1"}})
    put(TableName=TABLE, Item={**three, "value": {"B": b""}})
    assert shared.get(list(wanted)) == {}
    assert shared.stats.faults == 3


def test_values_are_bound_to_name_and_secret() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    value = sealed_value(b"secret", b"name", array)
    found = opened_value(b"secret", b"name", value)
    assert found is not None
    assert (found.shape, found.tobytes()) == (array.shape, array.tobytes())
    assert opened_value(b"other", b"name", value) is None
    assert opened_value(b"secret", b"else", value) is None


def test_what_dynamodb_leaves_over_is_unknown(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shared, wanted = SharedCache(TABLE, secret, "one"), some(4)
    shared.prepare()
    assert shared._opened is not None
    dynamodb = shared._opened.dynamodb
    get, write = dynamodb.batch_get_item, dynamodb.batch_write_item

    def half_written(RequestItems: Any) -> Any:  # noqa: N803 - boto3's name
        asked = RequestItems[TABLE]
        write(RequestItems={TABLE: asked[:2]})
        return {"UnprocessedItems": {TABLE: asked[2:]}}

    def half_read(RequestItems: Any) -> Any:  # noqa: N803 - as above
        keys = RequestItems[TABLE]["Keys"]
        return {**get(RequestItems={TABLE: {"Keys": keys[:1]}}), "UnprocessedKeys": {TABLE: {"Keys": keys[1:]}}}

    monkeypatch.setattr(dynamodb, "batch_write_item", half_written)
    shared.put(wanted)
    assert shared.stats.written == len(items()) == 2
    monkeypatch.setattr(dynamodb, "batch_get_item", half_read)
    assert len(shared.get(list(wanted))) == 1
    assert shared.stats.faults == 0


# --- what goes wrong


def test_without_the_table_or_the_secret_nothing_is_known(secret: str) -> None:
    for shared in (SharedCache("absent", secret, "one"), SharedCache(TABLE, secret + "x", "one")):
        assert shared.get([b"a"]) == {}
        shared.put(some(1))
        assert shared.stats == SharedStats(asked=1, faults=2)


def test_a_short_secret_is_none(secret: str) -> None:  # noqa: ARG001 - the account
    short = boto3.client("secretsmanager").create_secret(Name="short", SecretString="123456789012345")["ARN"]
    shared = SharedCache(TABLE, short, "one")
    shared.put(some(1))
    assert shared.stats.faults == 1
    assert items() == []


def test_after_faults_in_a_row_it_rests_and_tries_again(secret: str, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    shared, calls = SharedCache("absent", secret, "one"), Calls(monkeypatch)
    for _ in range(FAULTS + 5):
        assert shared.get([b"a"]) == {}
    assert calls.made == ["GetSecretValue", *["BatchGetItem"] * FAULTS]
    assert shared.stats == SharedStats(asked=FAULTS + 5, faults=FAULTS)
    assert [r.getMessage() for r in caplog.records if r.name == "hotfoot.shared_cache"] == [
        "the shared table absent rests for 60 s after ResourceNotFoundException"
    ]
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 61)
    shared._table = TABLE
    shared.put(some(1))
    assert same(shared.get(list(some(1))), some(1))
    assert shared.stats.faults == FAULTS


def test_faults_with_successes_between_them_are_no_row(secret: str) -> None:
    shared = SharedCache(TABLE, secret, "one")
    for _ in range(2 * FAULTS):
        shared._table = "absent"
        shared.get([b"a"])
        shared._table = TABLE
        shared.put(some(1))
    assert shared.stats.written == shared.stats.faults == 2 * FAULTS


@pytest.mark.parametrize("endpoint", [dead_endpoint, silent_endpoint])
def test_a_table_that_does_not_answer_costs_little_and_nothing_else(endpoint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    quiet(monkeypatch)
    shared = SharedCache(TABLE, "arn", "one")
    with endpoint() as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        shared._opened = shared_cache.Opened(aws.client("dynamodb", attempts=1, connect_s=0.05, read_s=0.1), SECRET.encode())
        start = time.perf_counter()
        for _ in range(FAULTS + 20):
            assert shared.get([b"a"]) == {}
        assert time.perf_counter() - start < 2  # three times a tenth of a second, and then it rests
    assert shared.stats == SharedStats(asked=FAULTS + 20, faults=FAULTS)


def test_sixteen_threads_share_one_client(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, shared, wanted = Calls(monkeypatch), SharedCache(TABLE, secret, "one"), some(16)
    found: list[bool] = []

    def work(number: int) -> None:
        mine = {key: wanted[key] for key in [number.to_bytes(32, "big")]}
        shared.put(mine)
        found.append(same(shared.get(list(mine)), mine))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 16
    assert calls.made.count("GetSecretValue") == 1
    assert shared.stats == SharedStats(asked=16, found=16, written=16)

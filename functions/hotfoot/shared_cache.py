"""Outputs that environments share in a DynamoDB table, for models whose run takes longer than asking: never a text, never an error.

A name in the table is an HMAC of what went into the graph, so that it tells nothing to who reads the table, and a value bears one,
too, so that nobody without the secret can put in another. Whatever goes wrong, the graph is run as if there were no table: an answer
that takes longer than a tenth of a second, an item that was changed, a right that is missing. After a few such faults in a row it rests.

The table's key is the binary attribute `id`; `expires`, seconds since 1970, is its time to live.
Rights: BatchGetItem and BatchWriteItem on the table, GetSecretValue on the secret.
"""

from __future__ import annotations

import hmac
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, TypeVar

import numpy as np

from hotfoot import aws
from hotfoot.task import Array

T = TypeVar("T")
GET, PUT = 100, 25  # keys and items a call, DynamoDB's own limits
LARGEST = 300_000  # bytes of an item, which DynamoDB allows 400 KB
LIFETIME_S = 7 * 24 * 3600
FAULTS = 3  # in a row, after which it rests
REST_S = 60.0
MAC = 32  # bytes of an HMAC-SHA256
SHORTEST_SECRET = 16  # bytes


@dataclass(frozen=True)
class SharedStats:
    """What became of it so far. asked, found: outputs; written: those sent to the table; faults: calls and items gone wrong."""

    asked: int = 0
    found: int = 0
    written: int = 0
    faults: int = 0


@dataclass(frozen=True)
class Opened:
    """The table's client and the secret."""

    dynamodb: Any
    secret: bytes


class SharedCache:
    """The table as a memory of one artifact's outputs. Thread-safe; nothing is imported or asked before the first use."""

    def __init__(self, table: str, secret: str, scope: str, lifetime_s: int = LIFETIME_S) -> None:
        """`secret`: its ARN. `scope`: all that an output depends on beside the input; what another scope wrote is not found."""
        self._table, self._arn, self._scope, self._lifetime_s = table, secret, scope.encode(), lifetime_s
        self._opened: Opened | None = None
        self._opening, self._counting = threading.Lock(), threading.Lock()
        self._in_a_row = 0
        self._rests_until = 0.0
        self._stats = SharedStats()

    @property
    def stats(self) -> SharedStats:
        """The counts of this moment."""
        return self._stats

    def prepare(self) -> None:
        """Import the client and read the secret, ahead of the first request that would have to wait for it."""
        self._try(self._open)

    def forget(self) -> None:
        """Close the client, let the secret go, and rest no more: the next use opens it anew, with the credentials of that time."""
        with self._opening, self._counting:
            if self._opened is not None:
                self._opened.dynamodb.close()
            self._opened, self._in_a_row, self._rests_until = None, 0, 0.0

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Array]:
        """The outputs that the table has, by these keys; those that it does not tell in time are as unknown as any."""
        found: dict[bytes, Array] = {}
        for start in range(0, len(keys), GET):
            found |= self._try(partial(self._get, keys[start : start + GET])) or {}
        self._count(asked=len(keys), found=len(found))
        return found

    def put(self, found: Mapping[bytes, Array]) -> None:
        """Write outputs, but for those that are too large for an item, as long as it goes well."""
        fitting = [(key, array) for key, array in found.items() if array.nbytes <= LARGEST]
        for start in range(0, len(fitting), PUT):
            self._count(written=self._try(partial(self._put, fitting[start : start + PUT])) or 0)

    def _get(self, keys: Sequence[bytes]) -> dict[bytes, Array]:
        opened = self._open()
        names = {self._name(opened, key): key for key in keys}
        wanted = {self._table: {"Keys": [{"id": {"B": name}} for name in names]}}
        # UnprocessedKeys are not asked for again: they are misses
        items = opened.dynamodb.batch_get_item(RequestItems=wanted)["Responses"].get(self._table, [])
        now, found = time.time(), {}
        for item in items:
            name = bytes(item["id"]["B"])
            if float(item["expires"]["N"]) > now:  # DynamoDB deletes what has expired within days, not at once
                array = opened_value(opened.secret, name, bytes(item["value"]["B"]))
                if array is None:
                    self._count(faults=1)
                else:
                    found[names[name]] = array
        return found

    def _put(self, found: Sequence[tuple[bytes, Array]]) -> int:
        opened = self._open()
        expires = {"N": str(int(time.time()) + self._lifetime_s)}
        items = []
        for key, array in found:
            name = self._name(opened, key)
            items.append({"id": {"B": name}, "value": {"B": sealed_value(opened.secret, name, array)}, "expires": expires})
        left = opened.dynamodb.batch_write_item(RequestItems={self._table: [{"PutRequest": {"Item": item}} for item in items]})
        return len(items) - len(left.get("UnprocessedItems", {}).get(self._table, []))

    def _name(self, opened: Opened, key: bytes) -> bytes:
        return hmac.digest(opened.secret, b"id" + self._scope + key, "sha256")

    def _open(self) -> Opened:
        with self._opening:
            if self._opened is None:
                # the secret is read once a process, so it may take its time; the table is asked while a request waits
                found = aws.client("secretsmanager", attempts=1, connect_s=1, read_s=2).get_secret_value(SecretId=self._arn)
                secret = found["SecretBinary"] if "SecretBinary" in found else found["SecretString"].encode()
                if len(secret) < SHORTEST_SECRET:
                    raise ValueError(f"the secret has {len(secret)} bytes, {SHORTEST_SECRET} is the least")
                self._opened = Opened(aws.client("dynamodb", attempts=1, connect_s=0.05, read_s=0.1), secret)
            return self._opened

    def _try(self, call: Callable[[], T]) -> T | None:
        """What the call gives; None where it fails, and while the memory rests because too many failed."""
        if time.monotonic() < self._rests_until:
            return None
        try:
            made = call()
        except Exception as error:  # noqa: BLE001 - an edge: whatever it is, the graph can answer without the table
            self._failed(error)
            return None
        self._in_a_row = 0
        return made

    def _failed(self, error: Exception) -> None:
        with self._counting:
            self._in_a_row += 1
            rests = self._in_a_row >= FAULTS
            if rests:
                self._in_a_row, self._rests_until = 0, time.monotonic() + REST_S
        self._count(faults=1)
        if rests:  # the kind alone: a message may quote what was sent
            logging.getLogger(__name__).warning("the shared table %s rests for %.0f s after %s", self._table, REST_S, type(error).__name__)

    def _count(self, asked: int = 0, found: int = 0, written: int = 0, faults: int = 0) -> None:
        with self._counting:
            s = self._stats
            self._stats = SharedStats(s.asked + asked, s.found + found, s.written + written, s.faults + faults)


def sealed_value(secret: bytes, name: bytes, array: Array) -> bytes:
    """An array as an item's value: its HMAC, one line of JSON with type and shape, its numbers as they are.

    Not compressed: floats of a network are next to random, and zlib takes 4 % off MiniLM's vectors.
    """
    body = json.dumps([array.dtype.str, array.shape]).encode() + b"\n" + np.ascontiguousarray(array).tobytes()
    return hmac.digest(secret, b"value" + name + body, "sha256") + body


def opened_value(secret: bytes, name: bytes, value: bytes) -> Array | None:
    """The array of an item's value, None for one that `sealed_value` did not make for this name and secret."""
    mac, body = value[:MAC], value[MAC:]
    if not hmac.compare_digest(mac, hmac.digest(secret, b"value" + name + body, "sha256")):
        return None
    line, _, numbers = body.partition(b"\n")
    dtype, shape = json.loads(line)
    array: Array = np.frombuffer(numbers, np.dtype(dtype), count=prod(shape)).reshape(shape)
    return array

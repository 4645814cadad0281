"""What a process remembers: the least recently used entries within a bound of bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

ENTRY_BYTES = 256  # of an entry beside its key and its value: its place in the table, its links, its size; measured, rounded up
LARGEST_SHARE = 8  # the part of the bound that one entry may hold: a large answer must not drive out everything else


@dataclass(frozen=True)
class Stats:
    """How a cache does: lookups answered and not since it was made; entries and bytes held now, and the bytes it may hold."""

    hits: int
    misses: int
    entries: int
    bytes: int
    most_bytes: int


class Cache(Generic[K, V]):
    """Least recently used entries within a bound of bytes. Thread-safe.

    Values are handed out as they were put in, to any number of threads: put in only what nobody changes.
    """

    def __init__(self, most_bytes: int) -> None:
        """`most_bytes`: keys, values and `ENTRY_BYTES` an entry together never pass it; 0: nothing is kept."""
        self._most_bytes = max(0, most_bytes)
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._bytes = 0
        self._hits = 0
        self._misses = 0
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """The key's value, now the most recently used; None where the cache does not hold it. Counts a hit or a miss."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                self._misses += 1
                return None
            self._entries.move_to_end(key)
            self._hits += 1
            return entry[0]

    def put(self, key: K, value: V, size: int) -> None:
        """Keep a value in the place of any that the key had; the least recently used make room.

        `size`: the bytes of key and value together. What is larger than an eighth of the bound is not kept.
        """
        size += ENTRY_BYTES
        with self._lock:
            before = self._entries.pop(key, None)
            if before is not None:
                self._bytes -= before[1]
            if size * LARGEST_SHARE > self._most_bytes:
                return
            while self._bytes + size > self._most_bytes:
                _, (_, freed) = self._entries.popitem(last=False)
                self._bytes -= freed
            self._entries[key] = (value, size)
            self._bytes += size

    @property
    def stats(self) -> Stats:
        """The counts of this moment, all of the same one."""
        with self._lock:
            return Stats(self._hits, self._misses, len(self._entries), self._bytes, self._most_bytes)


@dataclass(frozen=True)
class Shares:
    """Bytes for each memory of a process: encodings of texts, the graph's outputs, whole answers."""

    encodings: int
    outputs: int
    answers: int


def shares(most_bytes: int) -> Shares:
    """How one bound is divided: half for whole answers, which save the most, and a quarter for each of what they are made from."""
    quarter = max(0, most_bytes) // 4
    return Shares(encodings=quarter, outputs=quarter, answers=2 * quarter)

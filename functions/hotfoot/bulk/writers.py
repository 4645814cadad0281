"""Lines into parts, each created once and never changed. Who comes second, after a crash or at the same time, goes on behind them."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable
from typing import Protocol

from hotfoot.bulk import keys
from hotfoot.bulk.report import Part
from hotfoot.contract.errors import HotfootError, UnsupportedError

# how our own lines begin and end; a text in them cannot, as its quotes are escaped
_ERROR = re.compile(rb'^\{"line":\d+,"error":\{"kind":"(\w+)"', re.MULTILINE)
_OPTIONS = re.compile(rb'"options":"([0-9a-f]{8})"\}$', re.MULTILINE)


class Results(Protocol):
    """Where results go."""

    def create(self, key: str, body: bytes) -> bool:
        """Write `key` whole, unless it is there: then False, and what is there stays."""
        ...

    def read(self, key: str) -> bytes | None:
        """What lies at `key`, None where there is nothing."""
        ...


class Writer:
    """Parts of one result.

    What a part holds is counted in the part itself: another attempt may have cut elsewhere, for it stopped in time or its CPU
    rounds otherwise. So every record is in exactly one part, in order, whoever wrote which.
    """

    def __init__(self, results: Results, folder: str, part_bytes: int, fingerprint: str) -> None:
        self.parts: list[Part] = []
        self._results, self._folder, self._part_bytes, self._fingerprint = results, folder, part_bytes, fingerprint
        self._lines: deque[bytes] = deque()
        self._size = 0
        self._ahead = 0  # records that parts hold and the reader has yet to pass; while there are any, no line waits

    def adopt(self) -> None:
        """Count the parts that are there. Raises UnsupportedError for parts made with other options."""
        while (body := self._results.read(self._key())) is not None:
            self._take(body)

    def skip(self, count: int) -> int:
        """How many of the next `count` records are in parts already; they need no answer."""
        skipped = min(self._ahead, count)
        self._ahead -= skipped
        return skipped

    def write(self, lines: Iterable[bytes]) -> None:
        """Add a line a record, in order."""
        for line in lines:
            while self._lines and self._size + len(line) > self._part_bytes:
                self._create()
            if not self.skip(1):
                self._lines.append(line)
                self._size += len(line)

    def flush(self) -> None:
        """Write what waits, as a part that may be small."""
        while self._lines:
            self._create()

    def _create(self) -> None:
        body, key = b"".join(self._lines), self._key()
        if self._results.create(key, body):
            self._take(body)
            return
        there = self._results.read(key)
        if there is None:
            raise HotfootError("a part that was there is gone; somebody removes results while they are made")
        self._take(there)
        self.adopt()

    def _take(self, body: bytes) -> None:
        check_options(_OPTIONS.search(body), self._fingerprint)
        count = body.count(b"\n")
        errors = Counter(kind.decode() for kind in _ERROR.findall(body))
        self.parts.append(Part(keys.part(len(self.parts)), count, len(body), dict(errors)))
        held = min(count, len(self._lines))
        for _ in range(held):
            self._size -= len(self._lines.popleft())
        self._ahead += count - held

    def _key(self) -> str:
        return f"{self._folder}/{keys.part(len(self.parts))}"


def check_options(found: re.Match[bytes] | str | None, fingerprint: str) -> None:
    """Raise UnsupportedError where a result was begun with other options: two readings must not mix, nor one pass for the other."""
    there = found.group(1).decode() if isinstance(found, re.Match) else found
    if there is not None and there != fingerprint:
        raise UnsupportedError(
            f"this object has a result made with other options ({there}, not {fingerprint}).", hint="Give these options another prefix."
        )

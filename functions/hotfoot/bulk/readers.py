"""Bytes as records, in order: a text a line, JSON lines, or a whole document. What cannot be read is a record too, one with a fault."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from hotfoot.contract.bulk import BulkOptions
from hotfoot.contract.errors import Kind

SUFFIXES = (".txt", ".jsonl")
TEXT_BYTES = 2**20  # the longest line or document: it is held in memory whole
# enough that texts of like length meet, and seconds of work: a batch is what an attempt has to get through to get further at all
BATCH_TEXTS, BATCH_CHARACTERS = 512, 64 * 1024
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Fault:
    """Why a record has no answer. Never quotes a text."""

    kind: Kind
    message: str


@dataclass(frozen=True)
class Record:
    """One text and the number of its line, from 1; with a fault there is no text."""

    line: int
    text: str = field(default="", repr=False)
    id: str | int | None = field(default=None, repr=False)
    fault: Fault | None = None


def refusal(key: str) -> str:
    """Why an object of this name is not read, empty if it is."""
    if key.lower().endswith(SUFFIXES):
        return ""
    return f"only {' and '.join(SUFFIXES)} are read, uncompressed; the name ends in neither"


def records(chunks: Iterable[bytes], key: str, options: BulkOptions) -> Iterator[Record]:
    """Every record of the object `key`, a bad one as a fault. Blank lines count, and are none."""
    is_json = key.lower().endswith(".jsonl")
    if options.whole and not is_json:
        yield from _document(chunks)
        return
    read: Callable[[str, int, BulkOptions], Record] = _json_line if is_json else _text_line
    for number, line in enumerate(lines(chunks), 1):
        found = _decoded(line, number)
        if isinstance(found, Record):
            yield found
        elif found.strip():
            yield read(found, number, options)


def lines(chunks: Iterable[bytes], most: int = TEXT_BYTES) -> Iterator[bytes | None]:
    """Lines without their ends (LF or CRLF, and nothing else) and without a byte order mark; None for one of more than `most` bytes."""
    pending, over, first = bytearray(), False, True

    def line() -> bytes | None:
        nonlocal over, first
        found = None if over or len(pending) > most + len(_BOM) else bytes(pending).removesuffix(b"\r")
        if found is not None and first:
            found = found.removeprefix(_BOM)
        pending.clear()
        over = first = False
        return found if found is None or len(found) <= most else None

    for chunk in chunks:
        *whole, rest = chunk.split(b"\n")
        for piece in whole:
            pending += piece
            yield line()
        pending += rest
        if len(pending) > most + len(_BOM) + 1:
            over = True
            pending.clear()
    if pending or over:
        yield line()


def _document(chunks: Iterable[bytes]) -> Iterator[Record]:
    body = bytearray()
    for chunk in chunks:
        body += chunk
        if len(body) > TEXT_BYTES + len(_BOM):
            break
    whole = bytes(body).removeprefix(_BOM)
    found = _decoded(whole if len(whole) <= TEXT_BYTES else None, 1)
    if isinstance(found, Record):
        yield found
    elif found.strip():
        yield Record(1, found)


def _decoded(line: bytes | None, number: int) -> str | Record:
    if line is None:
        return _faulty(number, "too_large", f"the text has more than {TEXT_BYTES} bytes")
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        return _faulty(number, "input", f"not UTF-8 at byte {error.start}")


def _text_line(line: str, number: int, _options: BulkOptions) -> Record:
    return Record(number, line)


def _json_line(line: str, number: int, options: BulkOptions) -> Record:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return _faulty(number, "input", f"not JSON at character {error.pos}")
    if not isinstance(value, dict):
        return _faulty(number, "input", "not a JSON object")
    found: Any = value.get(options.id_field) if options.id_field else None
    if found is not None and (isinstance(found, bool) or not isinstance(found, str | int)):
        return _faulty(number, "input", f"the field {options.id_field!r} is neither a text nor a whole number")
    if options.field not in value:
        return _faulty(number, "input", f"the object has no field {options.field!r}", found)
    text = value[options.field]
    if not isinstance(text, str):
        return _faulty(number, "input", f"the field {options.field!r} is not a text", found)
    return Record(number, text, found)


def _faulty(number: int, kind: Kind, message: str, name: str | int | None = None) -> Record:
    return Record(number, id=name, fault=Fault(kind, message))


def batches(found: Iterable[Record], texts: int = BATCH_TEXTS, characters: int = BATCH_CHARACTERS) -> Iterator[list[Record]]:
    """Records in order, bounded by their number and by what they hold; a text of more than `characters` comes with no other behind it."""
    batch: list[Record] = []
    size = 0
    for record in found:
        batch.append(record)
        size += len(record.text)
        if len(batch) >= texts or size >= characters:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch

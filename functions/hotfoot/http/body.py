"""Request bodies: bounded bytes, decompressed, as JSON. Every way to fail says what and where."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import orjson
from starlette.requests import Request

from hotfoot.contract.errors import HotfootError, InputError, TooLargeError
from hotfoot.contract.json_types import json_type
from hotfoot.http.errors import malformed

BOM = b"\xef\xbb\xbf"
DRAINED = 4  # times the limit that is read and thrown away, so that the client gets to read the answer
# text/plain and the form type are what fetch() and `curl -d` send by default; the body must be JSON all the same
PLAIN_TYPES = ("application/json", "text/plain", "application/x-www-form-urlencoded")
_SURROGATE = re.compile("[\ud800-\udfff]")
LOOKED_THROUGH = 2**20  # bytes of a body that is searched for its lone surrogate; of a larger one it is said without the place
_CHARSET = re.compile(r";\s*charset\s*=\s*[\"']?([^\s;\"']*)", re.IGNORECASE)


async def read(request: Request, limit: int) -> bytes:
    """The request's body as sent, at most `limit` bytes. Raises RequestError (400) for another content type, TooLargeError."""
    check_content_type(request.headers.get("content-type", ""))
    return await _read(request, limit)


def parse(raw: bytes, encoding: str, limit: int) -> dict[str, Any]:
    """A body, compressed as `encoding` says, as a JSON object of at most `limit` bytes.

    Raises RequestError (400) for a body that is not JSON, TooLargeError, and InputError for JSON of another type.
    """
    document = loads(decompress(raw, encoding, limit))
    if not isinstance(document, dict):
        raise InputError(f"the body must be a JSON object, not {json_type(document)}.", hint='Send {"inputs": …}.')
    return document


def check_content_type(value: str) -> None:
    """Take JSON under its own names, no name, or a client's default one; raises RequestError (400) for any other."""
    if not value:
        return
    kind = value.partition(";")[0].strip().lower()
    found = _CHARSET.search(value)
    charset = found[1].lower() if found else "utf-8"
    if not (kind in PLAIN_TYPES or kind.endswith("+json")):
        raise malformed(f"content-type {value[:80]!a} is not taken here.", hint="Send application/json.")
    if charset not in ("utf-8", "utf8", "us-ascii", "ascii"):
        raise malformed(f"charset {charset[:40]!a} is not taken here.", hint="Send UTF-8.")


async def _read(request: Request, limit: int) -> bytes:
    kept, size = bytearray(), 0
    async for piece in request.stream():
        size += len(piece)
        if size <= limit:
            kept += piece
        elif size > DRAINED * limit:
            break
    if size > limit:
        declared = request.headers.get("content-length", "")
        shown = declared if declared.isdigit() else str(size)
        raise TooLargeError(f"the request body has {shown} bytes, the limit is {limit}.", hint="Send fewer or shorter texts a request.")
    return bytes(kept)


def decompress(raw: bytes, encoding: str, limit: int) -> bytes:
    """The body behind `content-encoding`. A small body that grows past `limit` is refused before it has."""
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return raw
    if encoding not in ("gzip", "x-gzip"):
        raise malformed(f"content-encoding {encoding[:40]!a} is not taken here.", hint="Send gzip or none.")
    inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        data = inflater.decompress(raw, limit + 1)
    except zlib.error:
        raise malformed("the body is not gzip, which content-encoding says it is.") from None
    if len(data) > limit:
        raise TooLargeError(f"the body of {len(raw)} bytes has more than {limit} bytes without its gzip, which is the limit.")
    if not inflater.eof or inflater.unused_data:
        raise malformed("the gzip body is cut short, or has something behind its end.")
    return data


def loads(raw: bytes) -> Any:
    """JSON, with or without a byte order mark. Raises RequestError (400), or InputError for a lone surrogate."""
    raw = raw.removeprefix(BOM)
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise _explained(raw, error) from None


def _explained(raw: bytes, error: orjson.JSONDecodeError) -> HotfootError:
    if not raw.strip():
        return malformed("the body is empty.", hint='Send JSON: {"inputs": …}.')
    try:
        text = raw.decode()
    except UnicodeDecodeError as broken:
        return malformed(f"the body is not UTF-8: byte {broken.start} is {raw[broken.start]:#04x}.")
    if "surrogate" in str(error):
        # right JSON by its grammar, so the fault lies in the value: say in which
        try:
            where = _surrogate(json.loads(text), "") if len(text) <= LOOKED_THROUGH else ""
        except (ValueError, RecursionError):
            where = None
        if where is not None:
            return InputError("has a lone surrogate (half of a \\ud800 pair), which is not text.", where=where or "the body")
    return malformed(f"the body is not JSON: {error}.")


def _surrogate(value: Any, path: str) -> str | None:
    """The path of the first text, or of the object with the first key, that holds a lone surrogate."""
    if isinstance(value, str):
        return path if _SURROGATE.search(value) else None
    if isinstance(value, list):
        for i, item in enumerate(value):
            if isinstance(item, (str, list, dict)) and (found := _surrogate(item, f"{path}[{i}]")) is not None:
                return found
    elif isinstance(value, dict):
        if any(map(_SURROGATE.search, value)):
            return path
        for key, item in value.items():
            if isinstance(item, (str, list, dict)) and (found := _surrogate(item, f"{path}.{key}".lstrip("."))) is not None:
                return found
    return None


@contextmanager
def as_sent(rename: Callable[[str], str]) -> Iterator[None]:
    """Name what is wrong as this dialect's client sent it: `rename` makes its path of the task's."""
    try:
        yield
    except HotfootError as error:
        error.where = rename(error.where)
        raise


def beside(where: str) -> str:
    """Of dialects whose parameters, query and texts stand in the body itself: no `parameters`, and no `inputs` around others."""
    return where.removeprefix("parameters.").removeprefix("inputs.")


def member(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """An optional object of the body; null counts as absent. Raises InputError for another type."""
    value = body.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InputError(f"must be an object, not {json_type(value)}.", where=name)
    return value


def refuse_unknown(body: Mapping[str, Any], known: Sequence[str]) -> None:
    """Raise InputError for a member that nobody would read."""
    for name in body:
        if name not in known:
            raise InputError("is not known here.", hint=f"There are: {', '.join(known)}.", where=name)


def required(body: Mapping[str, Any], name: str) -> Any:
    """A member that must be there. Raises InputError that lists what is."""
    if name not in body:
        found = ", ".join(sorted(body)[:8])
        raise InputError("is missing.", hint=f"The body has: {found[:200]}." if body else "The body is an empty object.", where=name)
    return body[name]

"""The headers on every answer. Values are ASCII: an adapter that decodes anything else fails after the work is done."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import quote
from uuid import uuid4

from starlette.types import Message, Scope

STAGES = ("tokenize", "queue", "run", "post")
Remembered = Literal["hit", "miss", "bypass"]
_COMPUTE = "x-compute-type, x-compute-time, x-compute-characters, x-compute-tokens"
CORS = {
    "access-control-allow-origin": "*",
    "access-control-expose-headers": f"{_COMPUTE}, x-request-id, server-timing, x-model-digest, x-cache, retry-after",
}
PREFLIGHT = {
    "access-control-allow-methods": "GET, POST, OPTIONS",
    "access-control-allow-headers": (
        "authorization, content-encoding, content-type, x-answer-shape, x-request-id, x-use-cache, x-wait-for-model"
    ),
    "access-control-max-age": "86400",
}
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:/=+-]{1,128}")


@dataclass(frozen=True)
class Meter:
    """What an answer took: counts with special tokens included, stages in milliseconds.

    cache: hit where nothing had to be computed, miss where something had to be, bypass where no memory was asked. inputs: what the
    graph would have had to read; remembered: how many of these came from memory. unknown: tokens for what the vocabulary lacks.
    """

    tokens: int = 0
    characters: int = 0
    texts: int = 0
    timings: Mapping[str, float] = field(default_factory=dict)
    cache: Remembered = "bypass"
    inputs: int = 0
    remembered: int = 0
    unknown: int = 0

    @property
    def seconds(self) -> float:
        """Time spent computing; time in the queue is not that."""
        return sum(ms for stage, ms in self.timings.items() if stage != "queue") / 1e3


def of_answer(meter: Meter, device: str) -> dict[str, str]:
    """`x-compute-*` as the Hugging Face API means them (time in seconds), and the stages. `device` is where the graph runs."""
    return {
        "x-compute-type": "cache" if meter.cache == "hit" else device,
        "x-compute-time": f"{meter.seconds:.6f}",
        "x-compute-characters": str(meter.characters),
        "x-compute-tokens": str(meter.tokens),
        "x-cache": meter.cache,
        "server-timing": ", ".join(f"{stage};dur={meter.timings.get(stage, 0.0):.3f}" for stage in STAGES),
    }


def sent(scope: Scope, name: bytes) -> str:
    """A header of the request, empty where there is none."""
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


def flag(scope: Scope, name: bytes, default: bool) -> bool:
    """A header that says yes or no, as clients of the Hugging Face API send them: `true`, `1`; `false`, `0`. Others say nothing."""
    return {"true": True, "1": True, "false": False, "0": False}.get(sent(scope, name).strip().lower(), default)


def request_id(scope: Scope) -> str:
    """Lambda's own id for the invocation, else the client's if it is a plain one, else a new one."""
    if (context := scope.get("aws.context")) is not None:
        return str(context.aws_request_id)
    theirs = sent(scope, b"x-request-id")
    return theirs if _REQUEST_ID.fullmatch(theirs) else uuid4().hex


def start(status: int, headers: Mapping[str, str], size: int) -> Message:
    """The first of the two messages that make an ASGI answer; `size` is that of the body in bytes."""
    length = [(b"content-length", str(size).encode())] if size or status != 204 else []
    return {"type": "http.response.start", "status": status, "headers": [*encoded(headers), *_CORS, *length]}


def encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """As ASGI sends them; what is not printable ASCII is percent-encoded."""
    return [(name.encode("ascii"), ascii_value(value).encode("ascii")) for name, value in headers.items()]


def ascii_value(value: str) -> str:
    """`value` itself where it is printable ASCII, else percent-encoded."""
    return value if value.isascii() and value.isprintable() else quote(value, safe=" !#$&'()*+,/:;=?@[]~", errors="replace")


_CORS = encoded(CORS)  # the same on every answer

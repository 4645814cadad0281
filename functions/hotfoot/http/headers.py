"""The headers on every answer. Values are ASCII: an adapter that decodes anything else fails after the work is done."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote
from uuid import uuid4

STAGES = ("tokenize", "queue", "run", "post")
_COMPUTE = "x-compute-type, x-compute-time, x-compute-characters, x-compute-tokens"
CORS = {
    "access-control-allow-origin": "*",
    "access-control-expose-headers": f"{_COMPUTE}, x-request-id, server-timing, x-model-digest, x-cache, retry-after",
}
PREFLIGHT = {
    "access-control-allow-methods": "GET, POST, OPTIONS",
    "access-control-allow-headers": "authorization, content-encoding, content-type, x-request-id, x-use-cache, x-wait-for-model",
    "access-control-max-age": "86400",
}
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:/=+-]{1,128}")


@dataclass(frozen=True)
class Meter:
    """What an answer took: counts with special tokens included, stages in milliseconds."""

    tokens: int = 0
    characters: int = 0
    texts: int = 0
    timings: Mapping[str, float] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Time spent computing; time in the queue is not that."""
        return sum(ms for stage, ms in self.timings.items() if stage != "queue") / 1e3


def of_answer(meter: Meter, device: str) -> dict[str, str]:
    """`x-compute-*` as the Hugging Face API means them (time in seconds), and the stages."""
    return {
        "x-compute-type": device,
        "x-compute-time": f"{meter.seconds:.6f}",
        "x-compute-characters": str(meter.characters),
        "x-compute-tokens": str(meter.tokens),
        "x-cache": "bypass",
        "server-timing": ", ".join(f"{stage};dur={meter.timings.get(stage, 0.0):.3f}" for stage in STAGES),
    }


def request_id(scope: Mapping[str, Any]) -> str:
    """Lambda's own id for the invocation, else the client's if it is a plain one, else a new one."""
    if (context := scope.get("aws.context")) is not None:
        return str(context.aws_request_id)
    sent = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"x-request-id"), "")
    return sent if _REQUEST_ID.fullmatch(sent) else uuid4().hex


def encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """As ASGI sends them; what is not printable ASCII is percent-encoded."""
    return [(name.encode("ascii"), ascii_value(value).encode("ascii")) for name, value in headers.items()]


def ascii_value(value: str) -> str:
    """`value` itself where it is printable ASCII, else percent-encoded."""
    return value if value.isascii() and value.isprintable() else quote(value, safe=" !#$&'()*+,/:;=?@[]~", errors="replace")

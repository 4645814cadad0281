"""What every door says and hears: answers as JSON, and the call that only warms up."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import orjson

from hotfoot.contract.errors import HotfootError


def is_warm_up(event: Mapping[str, Any]) -> bool:
    """True for `{"warmup": true}` and for a scheduled event of EventBridge."""
    return event.get("warmup") is True or event.get("source") == "aws.events" or event.get("detail-type") == "Scheduled Event"


def dumps(answer: Any) -> bytes:
    """JSON with arrays as lists. Raises HotfootError (internal) for a NaN or an infinity, which orjson would call null."""
    body: bytes = orjson.dumps(answer, default=_plain, option=orjson.OPT_SERIALIZE_NUMPY)
    if b"null" in body and not _finite(answer):
        raise HotfootError("the model gave a number that is not finite")
    return body


def _plain(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):  # not contiguous, or a type that orjson does not know
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON")


def _finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, (np.ndarray, np.generic)):
        return bool(np.isfinite(value).all())
    children: Iterable[Any] = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return all(map(_finite, children))

"""Lambda events before the adapter sees them: what kind they are, and HTTP ones without what the adapter stumbles over.

Shapes: API Gateway HTTP API (payload 2.0 and 1.0) and REST API, Lambda function URL, Application Load Balancer.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any, Literal

from hotfoot.contract.errors import HotfootError, InputError
from hotfoot.contract.json_types import json_type
from hotfoot.http.errors import malformed
from hotfoot.wire import is_warm_up

Kind = Literal["http", "warmup", "direct", "unknown"]
_HOST = re.compile(r"[^:]+(:\d+)?")


def kind_of(event: Any) -> Kind:
    """What `event` is. A warm-up is `{"warmup": true}` or a scheduled event of EventBridge; direct is a request body by itself."""
    if not isinstance(event, dict):
        return "unknown"
    if _is_http(event):
        return "http"
    if is_warm_up(event):
        return "warmup"
    return "direct" if "inputs" in event else "unknown"


def _is_http(event: Mapping[str, Any]) -> bool:
    context = event.get("requestContext")
    fields = [event.get(name) for name in ("headers", "multiValueHeaders")]
    if not isinstance(context, dict) or not all(f is None or isinstance(f, dict) for f in fields):
        return False
    if isinstance(context.get("http"), dict):
        said = [context["http"].get(name) for name in ("path", "method", "sourceIp")]
        return event.get("version") == "2.0" and all(isinstance(value, str) for value in said)
    return isinstance(event.get("path"), str) and isinstance(event.get("httpMethod"), str) and ("elb" in context or "resource" in event)


def http_event(event: Mapping[str, Any]) -> dict[str, Any]:
    """A copy that the adapter can take: headers it can read, no stage in the path, a body as text.

    Raises RequestError (400) for a body that is not the base64 it is said to be, InputError for one that is no text.
    """
    body, encoded = event.get("body"), event.get("isBase64Encoded") is True
    if not (body is None or isinstance(body, str)):
        raise malformed(f"the event's body is {json_type(body)}, not a text.")
    if encoded:
        check_base64(body or "")
    elif isinstance(body, str):
        check_text(body)
    return {**repaired(event), "body": body or "", "isBase64Encoded": encoded}


def check_base64(body: Any) -> None:
    """Raise RequestError (400) unless `body` is base64."""
    try:
        base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise malformed("the event says that its body is base64, and it is not.") from None


def check_text(body: str) -> None:
    """Raise InputError for a body that is no text: the event's JSON had an escaped lone surrogate."""
    try:
        body.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"the body has a lone surrogate at position {error.start}, which is not text.") from None


def repaired(event: Mapping[str, Any]) -> dict[str, Any]:
    """The event without its body, in the form that the adapter reads without failing; also what it wraps an answer by."""
    made = {**event, "body": "", "isBase64Encoded": False, "rawQueryString": event.get("rawQueryString") or ""}
    if event.get("multiValueHeaders"):
        many = {_text(k): [_text(v) for v in values] for k, values in event["multiValueHeaders"].items() if isinstance(values, list)}
        made["multiValueHeaders"] = {k: v for k, v in many.items() if all(_usable(k, value) for value in v)}
    one = {_text(k): _text(v) for k, v in (event.get("headers") or {}).items()}
    made["headers"] = {k: v for k, v in one.items() if _usable(k, v)}
    context = event["requestContext"]
    if "http" in context:
        path = without_stage(context["http"]["path"], context.get("stage"))
        made["requestContext"] = {**context, "http": {**context["http"], "path": path}}
    elif context.get("path") == event.get("path"):  # a REST API keeps the stage out of `path`
        made["path"] = without_stage(event["path"], context.get("stage"))
    return made


def path_of(event: Mapping[str, Any]) -> str:
    """The path that the app would be asked for."""
    made = repaired(event)
    return str(made["requestContext"]["http"]["path"] if "http" in made["requestContext"] else made["path"])


def without_stage(path: str, stage: Any) -> str:
    """`/prod/x` without its stage is `/x`; `/production/x` has no stage `prod`, and `$default` is in no path."""
    if not isinstance(stage, str) or not stage or stage == "$default":
        return path
    prefix = f"/{stage}"
    return path[len(prefix) :] or "/" if path == prefix or path.startswith(f"{prefix}/") else path


def _text(value: Any) -> str:
    text = str(value)
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _usable(name: str, value: str) -> bool:
    # the adapter splits at the one colon it expects, which an IPv6 address is not; the app needs neither header
    if name.lower() == "host":
        return _HOST.fullmatch(value) is not None
    return name.lower() != "x-forwarded-port" or value.isdigit()


def direct_event(body: str) -> dict[str, Any]:
    """A direct invocation as the HTTP request it stands for: `POST /`."""
    return {
        "version": "2.0",
        "rawPath": "/",
        "rawQueryString": "",
        "headers": {"content-type": "application/json"},
        "requestContext": {"http": {"method": "POST", "path": "/", "sourceIp": "127.0.0.1"}, "stage": "$default"},
        "body": body,
        "isBase64Encoded": False,
    }


def unknown(event: Any) -> HotfootError:
    """The one error for an event that this function cannot answer. It is raised: a queue must not count it as done."""
    shown = (
        f"an object with {', '.join(sorted(map(str, event))[:8]) or 'nothing'}" if isinstance(event, dict) else f"a {type(event).__name__}"
    )
    return HotfootError(
        f"this function answers HTTP events, {{'inputs': …}} and {{'warmup': true}}; it got {shown[:200]}.",
        hint="Objects from S3 and SQS go to the bulk function.",
    )

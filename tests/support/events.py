"""Recorded Lambda events, ready to be sent with another body."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "events"
HTTP = ("apigateway_v2", "apigateway_v2_prod", "apigateway_v1", "apigateway_v1_http_api", "function_url", "alb", "alb_multi_value")


def load(name: str) -> dict[str, Any]:
    """The event in `tests/events/<name>.json`, as recorded."""
    event: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return event


def request(
    name: str,
    path: str = "/",
    body: Any = None,
    *,
    method: str = "POST",
    headers: dict[str, str] | None = None,
    base64: bool = False,
) -> dict[str, Any]:
    """The recorded event as if `body` (a text as it is, anything else as JSON) had been sent to `path`."""
    event = load(name)
    event["body"] = body if body is None or isinstance(body, str) else json.dumps(body)
    event["isBase64Encoded"] = base64
    context = event["requestContext"]
    if "http" in context:
        stage = context["stage"]
        whole = path if stage == "$default" else f"/{stage}{path}"
        context["http"].update(method=method, path=whole)
        event["rawPath"] = whole
    else:
        stage = f"/{context['stage']}" if event.get("version") == "1.0" else ""
        event.update(path=f"{stage}{path}", httpMethod=method)
        if "elb" not in context:
            context.update(path=f"/{context['stage']}{path}", httpMethod=method)
    for key, value in (headers or {}).items():
        _set_header(event, key, value)
    return event


def _set_header(event: dict[str, Any], key: str, value: str) -> None:
    for name in ("headers", "multiValueHeaders"):
        if name in event:
            kept = {k: v for k, v in event[name].items() if k.lower() != key.lower()}
            event[name] = {**kept, key: [value] if name == "multiValueHeaders" else value}


def headers_of(answer: dict[str, Any]) -> dict[str, str]:
    """The answer's headers, whichever way this kind of event has them."""
    many = answer.get("multiValueHeaders") or {}
    return {**(answer.get("headers") or {}), **{k: v[0] for k, v in many.items()}}


@dataclass(frozen=True)
class Context:
    """What Lambda's runtime gives a handler."""

    function_name: str = "hotfoot-http"
    function_version: str = "$LATEST"
    memory_limit_in_mb: int = 1769
    invoked_function_arn: str = "arn:aws:lambda:eu-central-1:123456789012:function:hotfoot-http"
    aws_request_id: str = "52fdfc07-2182-454f-963f-5f0f9a621d72"
    log_group_name: str = "/aws/lambda/hotfoot-http"
    remaining_ms: int = 30_000
    log_stream_name: str = "2026/11/30/[$LATEST]0123456789abcdef0123456789abcdef"

    def get_remaining_time_in_millis(self) -> int:
        """What is left of the function's time; it does not pass here."""
        return self.remaining_ms

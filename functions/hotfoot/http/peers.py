"""A request for another deployment of the same API, handed on to that one's function and its answer taken back.

Only what a path cannot tell comes this way: API Gateway routes by paths, and a body's `model` is read here first.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from hotfoot import aws
from hotfoot.contract.errors import HotfootError, OutOfTimeError, OverloadedError, TooLargeError
from hotfoot.contract.peers import Peer
from hotfoot.contract.platforms import LAMBDA_LIMITS
from hotfoot.http.errors import RequestError

MARK = "x-hotfoot-forwarded"  # on a request that was handed on: it is not handed on again
MARGIN_S = 1.0  # kept free of the time left, to say so where the other takes too long
CONNECT_S = 1.0
# of this one hop, or of the platform; whoever sends the answer on writes its own
HOPS = ("connection", "content-length", "date", "server", "transfer-encoding")


@dataclass(frozen=True)
class Answer:
    """What the other function answered. headers: by lower-case name; body: as it goes out, decoded from the event's base64."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def ask(peer: Peer, event: Mapping[str, Any], remaining_ms: float) -> Answer:
    """The peer's answer to an HTTP event, whatever its status.

    remaining_ms: until this function itself is stopped. It waits in the calling thread, as a function has one request at a time.
    Raises OverloadedError where the peer may run no more at once, OutOfTimeError, TooLargeError for an event or answer that Lambda
    does not carry, and HotfootError (internal) for a peer that failed or cannot be called.
    """
    if is_forwarded(event):  # by whoever set the header: only a deployment that does not know itself would
        raise RequestError(404, "UnknownModel", f"{peer.name} was asked for through another deployment, and is not served there.")
    wait_s = int(remaining_ms / 1e3 - min(MARGIN_S, remaining_ms / 4e3))
    if wait_s < 1:
        raise _late(peer, remaining_ms / 1e3)
    return answer_of(peer, _invoke(peer, json.dumps(marked(event)).encode(), wait_s))


def is_forwarded(event: Mapping[str, Any]) -> bool:
    """Whether another function handed this event on."""
    return any(str(name).lower() == MARK for name in event.get("headers") or event.get("multiValueHeaders") or ())


def marked(event: Mapping[str, Any]) -> dict[str, Any]:
    """The same event, and that it was handed on."""
    made = {**event, "headers": {**(event.get("headers") or {}), MARK: "1"}}
    if event.get("multiValueHeaders"):
        made["multiValueHeaders"] = {**event["multiValueHeaders"], MARK: ["1"]}
    return made


@lru_cache(maxsize=4)
def client(wait_s: int) -> Any:
    """A client that waits so long and tries once: the platform may have run what it did not answer.

    The time that is left is the same, to the second, for nearly every request, so there is one; boto3 has no limit a call.
    """
    return aws.client("lambda", attempts=1, connect_s=CONNECT_S, read_s=wait_s)


def forget() -> None:
    """Let the clients go, and their connections with them; the next use makes another."""
    client.cache_clear()


def _invoke(peer: Peer, payload: bytes, wait_s: int) -> bytes:
    from botocore.exceptions import BotoCoreError, ClientError, ConnectTimeoutError, ReadTimeoutError

    try:
        found = client(wait_s).invoke(FunctionName=peer.function, Payload=payload)
        body: bytes = found["Payload"].read()
    except (ReadTimeoutError, ConnectTimeoutError):
        raise _late(peer, wait_s) from None
    except ClientError as error:
        raise _refused(peer, error.response, len(payload)) from None
    except BotoCoreError as error:
        raise HotfootError(f"{peer.name} cannot be called: {type(error).__name__}.") from None
    return body


def _refused(peer: Peer, response: Mapping[str, Any], size: int) -> HotfootError:
    status, code = response["ResponseMetadata"]["HTTPStatusCode"], response["Error"]["Code"]
    if status == 429:
        return OverloadedError(f"{peer.name} runs as often at once as it may.", hint="Send the request again in a moment.")
    if status == 413:
        limit = LAMBDA_LIMITS.request_bytes
        return TooLargeError(f"the request has {size} bytes as an event, the limit is {limit}.", hint="Send fewer texts a request.")
    if status >= 500:
        return OverloadedError(f"{peer.name} could not be started.", hint="Send the request again in a moment.")
    return HotfootError(f"{peer.name} cannot be called: {code}.")


def answer_of(peer: Peer, payload: bytes) -> Answer:
    """The HTTP answer in what a function returned. Raises as `ask` does where there is none: the function failed."""
    try:
        wrapped = json.loads(payload)
    except ValueError:
        wrapped = {"errorMessage": payload[:100].decode("utf-8", "replace")}  # AWS's emulator says in plain text that time ran out
    if not isinstance(wrapped, dict) or not isinstance(wrapped.get("statusCode"), int):
        raise _failed(peer, wrapped if isinstance(wrapped, dict) else {})
    headers = {str(name).lower(): ",".join(map(str, values)) for name, values in (wrapped.get("multiValueHeaders") or {}).items()}
    headers |= {str(name).lower(): str(value) for name, value in (wrapped.get("headers") or {}).items()}
    text = wrapped.get("body") or ""
    body = base64.b64decode(text) if wrapped.get("isBase64Encoded") else text.encode()
    return Answer(wrapped["statusCode"], {name: value for name, value in headers.items() if name not in HOPS}, body)


def _failed(peer: Peer, error: Mapping[str, Any]) -> HotfootError:
    """Of the error its type alone: a message may quote a text, and the peer's own log has it all."""
    kind, message = str(error.get("errorType") or "no HTTP answer")[:100], str(error.get("errorMessage") or "")
    if kind == "Sandbox.Timedout" or "Task timed out" in message:
        return OutOfTimeError(f"{peer.name} ran out of its time.", hint="Send fewer or shorter texts a request.")
    if kind == "Function.ResponseSizeTooLarge":
        limit = LAMBDA_LIMITS.response_bytes
        return TooLargeError(f"the answer of {peer.name} has more bytes than the limit of {limit}.", hint="Send fewer texts a request.")
    return HotfootError(f"the function of {peer.name} failed: {kind}.")


def _late(peer: Peer, seconds: float) -> OutOfTimeError:
    return OutOfTimeError(
        f"{peer.name} did not answer within the {seconds:.1f} s that were left for it.",
        hint=f"Send fewer or shorter texts a request, or ask it by its own path, /models/{peer.name}.",
    )

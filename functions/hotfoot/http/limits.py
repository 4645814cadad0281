"""What one request may cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hotfoot.batching import Deadline
from hotfoot.contract.errors import TooLargeError
from hotfoot.contract.platforms import LAMBDA_LIMITS
from hotfoot.contract.target import Target

MAX_TEXTS, MAX_TOKENS = 2048, 300_000  # what OpenAI's embeddings take in one request; past it one request would starve the others
RUNNING = 4  # enough to tokenise some while another runs; more would only share the same cores
WAITING = 256


@dataclass(frozen=True)
class Limits:
    """Bytes of a request body (after decompression) and of an answer, texts and tokens a request, and predictions at once.

    running = 0 means: in the caller's thread, one at a time, as Lambda sends them.
    """

    request_bytes: int
    response_bytes: int
    texts: int = MAX_TEXTS
    tokens: int = MAX_TOKENS
    running: int = RUNNING
    waiting: int = WAITING

    @property
    def in_flight(self) -> int:
        """Predictions that run or wait before the next one is refused."""
        return self.running + self.waiting if self.running else 1


def server_limits(target: Target) -> Limits:
    """What a server of `target` takes."""
    return Limits(target.limits.request_bytes, target.limits.response_bytes)


def lambda_limits() -> Limits:
    """What a function takes, whatever the artifact was made for: one request at a time, in the caller's thread."""
    return Limits(LAMBDA_LIMITS.request_bytes, LAMBDA_LIMITS.response_bytes, running=0, waiting=0)


def check_texts(count: int, limits: Limits) -> None:
    """Raise TooLargeError for more texts than one request may hold."""
    if count > limits.texts:
        raise TooLargeError(f"the request has {count} texts, the limit is {limits.texts}.", hint="Send them in several requests.")


def check_ids(count: int, limits: Limits) -> None:
    """Raise TooLargeError for more token ids than one request may hold."""
    if count > limits.tokens:
        raise TooLargeError(f"the request has {count} token ids, the limit is {limits.tokens}.", hint="Send them in several requests.")


def deadline_of(scope: Mapping[str, Any]) -> Deadline | None:
    """When the function that this request came to is stopped; a server stops nothing."""
    context = scope.get("aws.context")
    return None if context is None else Deadline(lambda: context.get_remaining_time_in_millis() / 1e3)


def check_answer(size: int, limit: int) -> None:
    """Raise TooLargeError for an answer of `size` bytes that cannot be delivered."""
    if size > limit:
        raise TooLargeError(f"the answer has {size} bytes, the limit is {limit}.", hint="Send fewer texts a request.")

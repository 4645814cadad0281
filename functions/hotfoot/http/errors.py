"""Errors as HTTP answers: one table from an error's kind to its status and type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hotfoot.contract.errors import HotfootError, Kind

RETRY_AFTER_S = 1
LONGEST_PATH = 200  # characters of the path of what is wrong

# kind -> (status, error_type). Types are capitalised as Text Embeddings Inference spells them.
TABLE: Mapping[Kind, tuple[int, str]] = {
    "input": (422, "Validation"),
    "too_large": (413, "TooLarge"),
    "unsupported": (422, "Unsupported"),
    "overloaded": (429, "Overloaded"),
    "out_of_time": (504, "Timeout"),
    "artifact": (500, "Internal"),
    "pass": (500, "Internal"),
    "parity": (500, "Internal"),
    "budget": (500, "Internal"),
    "internal": (500, "Internal"),
}


class RequestError(HotfootError):
    """A request that is wrong before any task sees it: its own status instead of the kind's."""

    kind = "input"

    def __init__(self, status: int, error_type: str, message: str, *, hint: str = "", headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status, self.error_type, self.headers = status, error_type, headers or {}


def malformed(message: str, *, hint: str = "") -> RequestError:
    """400: not JSON, a wrong encoding or content type."""
    return RequestError(400, "Malformed", message, hint=hint)


@dataclass(frozen=True)
class Problem:
    """An error, ready to be answered in any dialect's shape. where: the path of what is wrong, empty where it is nothing of the body."""

    status: int
    error_type: str
    text: str
    headers: Mapping[str, str] = field(default_factory=dict)
    where: str = ""

    def answer(self) -> tuple[int, dict[str, Any]]:
        """Status and JSON in the dialects of Hugging Face, Text Embeddings Inference, SageMaker and the rerank APIs."""
        return self.status, {"error": self.text, "error_type": self.error_type}


def problem(error: Exception, request_id: str) -> Problem:
    """How `error` is answered. Of our own faults the client learns the request id and no more: their messages hold paths."""
    if isinstance(error, HotfootError) and len(error.where) > LONGEST_PATH:  # a member's name may be as long as the request
        error.where = f"{error.where[:LONGEST_PATH]}…"
    if isinstance(error, RequestError):
        return Problem(error.status, error.error_type, str(error), error.headers, error.where)
    if isinstance(error, HotfootError):
        status, error_type = TABLE[error.kind]
        if status != 500:
            headers = {"retry-after": str(RETRY_AFTER_S)} if status == 429 else {}
            return Problem(status, error_type, str(error), headers, error.where)
    return Problem(
        500, "Internal", f"The server failed on this request, and the fault is its own. Its log has it under request id {request_id}."
    )

"""One error tree. `kind` decides the HTTP status, the exit code and retry-or-reject; each edge keeps that table."""

from __future__ import annotations

from typing import ClassVar, Literal, get_args

Kind = Literal["input", "too_large", "unsupported", "artifact", "pass", "parity", "budget", "overloaded", "out_of_time", "internal"]
KINDS: tuple[Kind, ...] = get_args(Kind)

# what a command leaves with; 1 is a fault of hotfoot's own, 2 also what the argument parsers give for wrong usage
EXIT_CODES: dict[Kind, int] = {
    "internal": 1,
    "input": 2,
    "too_large": 2,
    "unsupported": 3,
    "artifact": 4,
    "pass": 5,
    "parity": 6,
    "budget": 7,
    "overloaded": 8,
    "out_of_time": 9,
}


class HotfootError(Exception):
    """Something went wrong that the user can act on.

    message says what and which value, hint says what to do, where is the path in the request (`inputs[1]`).
    """

    kind: ClassVar[Kind] = "internal"

    def __init__(self, message: str, *, hint: str = "", where: str = "") -> None:
        super().__init__(message)
        self.message, self.hint, self.where = message, hint, where

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text} {self.hint}" if self.hint else text


class InputError(HotfootError):
    """The request is wrong: shape, type, value or length."""

    kind = "input"


class TooLargeError(HotfootError):
    """More bytes or items than the front door or the machine allows."""

    kind = "too_large"


class UnsupportedError(HotfootError):
    """A model, task, target or option that hotfoot cannot serve."""

    kind = "unsupported"


class ArtifactError(HotfootError):
    """An artifact, manifest or bundle that is damaged, foreign or incomplete."""

    kind = "artifact"


class PassError(HotfootError):
    """A graph pass broke its contract."""

    kind = "pass"


class ParityError(HotfootError):
    """The artifact's answers are too far from the original model's."""

    kind = "parity"


class BudgetError(HotfootError):
    """The package does not fit the target's limits."""

    kind = "budget"


class OverloadedError(HotfootError):
    """The bounded queue is full; the same request may work later."""

    kind = "overloaded"


class OutOfTimeError(HotfootError):
    """The work would run past a time limit; less of it may fit."""

    kind = "out_of_time"

"""What the tasks over plain texts share: reading `inputs` and `parameters`, and the usual numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotfoot.contract.errors import InputError
from hotfoot.contract.json_types import json_type
from hotfoot.contract.manifest import Manifest, Side
from hotfoot.task import Array

SHOWN = 80  # characters of a wrong value in a message: the answer must not grow with the request
STRATEGIES = ("do_not_truncate", "longest_first", "only_first")
TRUNCATION = ("truncate", "truncation", "truncation_direction")


def read_texts(inputs: Any, path: str = "inputs") -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    """Texts, the path of each, and whether `inputs`, which stand at `path`, were a bare text. Raises InputError that names the bad one."""
    if isinstance(inputs, str):
        return (read_text(inputs, path),), (path,), True
    if not isinstance(inputs, list):
        raise InputError(f"must be a text or a list of texts, not {json_type(inputs)}.", where=path)
    if not inputs:
        raise InputError("is an empty list; send at least one text.", where=path)
    paths = tuple(f"{path}[{i}]" for i in range(len(inputs)))
    return tuple(read_text(text, where) for text, where in zip(inputs, paths, strict=True)), paths, False


def read_text(value: Any, path: str) -> str:
    """A text that a tokenizer can take. Raises InputError for another type, an empty text, or a lone surrogate."""
    if not isinstance(value, str):
        raise InputError(f"must be a text, not {json_type(value)}.", where=path)
    if not value:
        raise InputError("is empty.", where=path)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"has a lone surrogate at position {error.start}, which is not text.", where=path) from None
    return value


def check_parameters(parameters: Mapping[str, Any], known: Sequence[str]) -> None:
    """Refuse a parameter that the task would ignore. Raises InputError that lists the known ones."""
    for name in parameters:
        if name not in known:
            raise InputError("is not a parameter of this task.", hint=f"There are: {', '.join(known)}.", where=f"parameters.{name}")


def option(parameters: Mapping[str, Any], name: str, kind: type, default: Any) -> Any:
    """A parameter of the right type, or its default; null counts as absent. Raises InputError."""
    value = parameters.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        wanted = {bool: "a boolean", int: "a whole number", str: "a text", list: "a list"}[kind]
        raise InputError(f"must be {wanted}, not {json_type(value)}.", where=f"parameters.{name}")
    return value


def choice(parameters: Mapping[str, Any], name: str, choices: Sequence[str], default: str) -> str:
    """A parameter that is one of `choices`. Raises InputError that lists them."""
    value: str = option(parameters, name, str, default)
    if value not in choices:
        raise InputError(f"is {value[:SHOWN]!r}; it must be one of {', '.join(choices)}.", where=f"parameters.{name}")
    return value


def truncation(parameters: Mapping[str, Any], manifest: Manifest, strategies: Sequence[str] = STRATEGIES) -> Side | None:
    """The side to cut long texts at, None to refuse them. `truncate` is TEI's name, `truncation` that of transformers.

    The latter may be one of transformers' strategies: for a text by itself those that cut all mean the same; a task over pairs names
    the ones that it can follow. Raises InputError for another.
    """
    asked = option(parameters, "truncate", bool, None)
    if asked is None:
        strategy = parameters.get("truncation")
        if isinstance(strategy, str):
            asked = choice(parameters, "truncation", strategies, strategies[0]) != STRATEGIES[0]
        else:
            asked = option(parameters, "truncation", bool, False)
    direction = option(parameters, "truncation_direction", str, manifest.tokenizer.truncation_side).lower()
    if direction not in ("left", "right"):
        raise InputError(f"is {direction[:SHOWN]!r}; it must be left or right.", where="parameters.truncation_direction")
    side: Side = "left" if direction == "left" else "right"
    return side if asked else None


def softmax(logits: Array) -> NDArray[np.float64]:
    """Over the last axis, in float64 so that near-ties keep their order."""
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    exp = np.exp(shifted)
    result: NDArray[np.float64] = exp / exp.sum(axis=-1, keepdims=True)
    return result


def sigmoid(logits: Array) -> NDArray[np.float64]:
    """Without overflow at either end."""
    x = logits.astype(np.float64)
    e = np.exp(-np.abs(x))
    result: NDArray[np.float64] = np.where(x >= 0, 1 / (1 + e), e / (1 + e))
    return result

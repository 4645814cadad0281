"""The JSON names of Python's types, for messages to those who sent JSON."""

from __future__ import annotations

from typing import Any

NAMES = {type(None): "null", bool: "a boolean", int: "a number", float: "a number", str: "a text", list: "a list", dict: "an object"}


def json_type(value: Any) -> str:
    """The JSON name of a value's type, with its article: `a list`."""
    return NAMES.get(type(value), type(value).__name__)

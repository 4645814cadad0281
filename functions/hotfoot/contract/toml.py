"""TOML into frozen dataclasses. Every fault is found in one reading, and each names its line.

A field's type says what its key may hold; `Annotated` with a `Range` or a `Form` narrows it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from hotfoot.contract.errors import InputError

T = TypeVar("T")
Path = tuple[str, ...]
KINDS = {str: "a string", int: "a whole number", float: "a number", bool: "true or false"}


@dataclass(frozen=True)
class Range:
    """The least and the most that a number may be."""

    least: float
    most: float

    def fault(self, value: Any) -> str:
        """What is wrong with `value`, or nothing."""
        return "" if self.least <= value <= self.most else f"must be from {self.least:g} to {self.most:g}"


@dataclass(frozen=True)
class Form:
    """The pattern that a whole string must have, and the words to ask for it."""

    pattern: str
    words: str

    def fault(self, value: Any) -> str:
        """What is wrong with `value`, or nothing."""
        return "" if re.fullmatch(self.pattern, value) else f"must be {self.words}"


@dataclass(frozen=True)
class Document:
    """A parsed file that remembers where each key stands. `faults` fills up while it is read."""

    name: str
    values: Mapping[str, Any]
    lines: Mapping[Path, int]
    faults: list[tuple[int, str]] = field(default_factory=list)

    def line(self, path: Path) -> int:
        """Where the key stands, or the nearest table around it that is written down."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def fault(self, path: Path, message: str) -> None:
        """Note what is wrong with the key at `path`."""
        self.faults.append((self.line(path), f"{'.'.join(path)}: {message}" if path else message))

    def check(self) -> None:
        """Raise InputError with every fault, in the order of the lines."""
        if self.faults:
            said = "\n".join(f"  {self.name}:{line}: {message}" for line, message in sorted(self.faults))
            raise InputError(f"{self.name} has {len(self.faults)} fault(s):\n{said}")


def parse(text: str, name: str) -> Document:
    """Read TOML. Raises InputError for what is none, with the line."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"(.*?) \(at line (\d+), column \d+\)", str(error))
        line, message = (found[2], found[1]) if found else (str(text.count("\n") + 1), str(error))
        raise InputError(f"{name}:{line}: is not TOML: {message}.") from None
    return Document(name, values, lines_of(text))


def lines_of(text: str) -> dict[Path, int]:
    """The line of each table and key of valid TOML: tomllib itself does not tell.

    A statement is as many lines as it takes to make TOML that parses, so multi-line strings and arrays are one.
    """
    found: dict[Path, int] = {}
    table: Path = ()
    lines, start = text.splitlines(), 0
    while start < len(lines):
        end = start + 1
        while (statement := _parsed("\n".join(lines[start:end]))) is None and end < len(lines):
            end += 1
        for path in _paths(statement or {}):
            whole = path if lines[start].lstrip().startswith("[") else (*table, *path)
            found.setdefault(whole, start + 1)
        if lines[start].lstrip().startswith("["):
            table = max(_paths(statement or {}), key=len, default=())
        start = end
    return found


def _parsed(statement: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(statement)
    except tomllib.TOMLDecodeError:
        return None


def _paths(value: Any, path: Path = ()) -> list[Path]:
    if isinstance(value, list) and value and isinstance(value[0], dict):  # [[an array of tables]]
        return _paths(value[0], path)
    if not isinstance(value, dict):
        return [path] if path else []
    own = [path] if path else []
    return own + [found for key, inner in value.items() for found in _paths(inner, (*path, key))]


def read(kind: type[T], document: Document, path: Path) -> T | None:
    """Make `kind` out of the table at `path`; None, and faults noted in the document, where that cannot be."""
    value: Any = document.values
    for key in path:
        value = value[key]
    made = _table(kind, value, document, path)
    return made if isinstance(made, kind) else None


def _table(kind: Any, value: Any, document: Document, path: Path) -> Any:
    if not isinstance(value, dict):
        return document.fault(path, f"must be a table, got {value!r}")
    before, made = len(document.faults), {}
    known = {f.name: f for f in fields(kind)}
    for name in value:
        if name not in known:
            document.fault((*path, name), f"unknown key; there are {', '.join(sorted(known))}")
    for name, spec in known.items():
        if name in value:
            made[name] = _value(_hints(kind)[name], value[name], document, (*path, name))
        elif spec.default is MISSING and spec.default_factory is MISSING:
            document.fault(path, f"{name} is missing")
    return kind(**made) if len(document.faults) == before else None


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _value(kind: Any, value: Any, document: Document, path: Path) -> Any:
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _narrowed(args, value, document, path)
    if origin in (Union, UnionType):  # `X | None`: a key that may be left out, as TOML has no null
        return _value(next(a for a in args if a is not NoneType), value, document, path)
    if kind is Any:
        return value
    if origin is Literal:
        right = value in args and type(value) in {type(a) for a in args}
        return value if right else document.fault(path, f"must be one of {', '.join(map(repr, args))}, got {value!r}")
    if origin is tuple:
        if not isinstance(value, list):
            return document.fault(path, f"must be a list, got {value!r}")
        return tuple(_value(args[0], v, document, path) for v in value)
    if is_dataclass(kind):
        return _table(kind, value, document, path)
    if origin is not None:
        if not isinstance(value, dict):
            return document.fault(path, f"must be a table, got {value!r}")
        return {name: _value(args[1], v, document, (*path, name)) for name, v in value.items()}
    return _scalar(kind, value, document, path)


def _narrowed(args: tuple[Any, ...], value: Any, document: Document, path: Path) -> Any:
    before = len(document.faults)
    made = _value(args[0], value, document, path)
    for rule in args[1:] if len(document.faults) == before else ():
        if message := rule.fault(made):
            document.fault(path, f"{message}, got {value!r}")
    return made


def _scalar(kind: Any, value: Any, document: Document, path: Path) -> Any:
    # bool is an int in Python, and 1 is a fair way to write 1.0
    if kind is float and type(value) is int:
        return float(value)
    return value if type(value) is kind else document.fault(path, f"must be {KINDS[kind]}, got {value!r}")

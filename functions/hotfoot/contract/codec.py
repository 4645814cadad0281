"""Frozen dataclasses to sorted JSON and back. A wrong document names every fault at once, each with its path."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from hotfoot.contract.errors import ArtifactError

T = TypeVar("T")


def dumps(value: object) -> str:
    """The one JSON form of a contract object: sorted keys, two spaces, a final newline."""
    return json.dumps(plain(value), indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def plain(value: object) -> Any:
    """Dataclasses, tuples and mappings as the dicts and lists that `json` writes."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def loads(kind: type[T], text: str, source: str) -> T:
    """Read `kind` from JSON text. `source` names the document in the error.

    Raises ArtifactError with one line a fault: not JSON, a missing, unknown or ill-typed field.
    """
    return build(kind, parse(text, source), source)


def parse(text: str, source: str) -> Any:
    """JSON text as Python values. Raises ArtifactError for what is not JSON; NaN, Infinity and a key given twice are not."""
    try:
        return json.loads(text, parse_constant=_refuse, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{source} is not JSON: {error}") from None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        doubled = sorted({key for key, _ in pairs if sum(key == other for other, _ in pairs) > 1})
        raise ValueError(f"a key is given twice: {', '.join(doubled)}")
    return found


def build(kind: type[T], document: object, source: str) -> T:
    """Make `kind` out of parsed JSON; raises ArtifactError that lists every fault."""
    faults: list[str] = []
    value: T = _read(kind, document, "", faults)
    if faults:
        raise ArtifactError(f"{source} is not a valid {kind.__name__}:\n" + "\n".join(f"  {f}" for f in faults))
    return value


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _read(kind: Any, value: Any, path: str, faults: list[str]) -> Any:
    origin, args = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in (Union, UnionType):
        return _read_union(args, value, path, faults)
    if origin is Literal:
        return value if value in args else _fault(faults, path, f"must be one of {', '.join(map(repr, args))}", value)
    if origin is tuple:
        return _read_tuple(args, value, path, faults)
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, dict):
            return _fault(faults, path, "must be an object", value)
        return {k: _read(args[1], v, f"{path}.{k}", faults) for k, v in value.items()}
    if is_dataclass(kind):
        return _read_dataclass(kind, value, path, faults)
    return _read_scalar(kind, value, path, faults)


def _read_tuple(args: tuple[Any, ...], value: Any, path: str, faults: list[str]) -> Any:
    if not isinstance(value, list):
        return _fault(faults, path, "must be a list", value)
    if args[-1] is Ellipsis:
        args = (args[0],) * len(value)
    elif len(args) != len(value):
        return _fault(faults, path, f"must be a list of {len(args)}", value)
    return tuple(_read(kind, v, f"{path}[{i}]", faults) for i, (kind, v) in enumerate(zip(args, value, strict=True)))


def _read_union(args: tuple[Any, ...], value: Any, path: str, faults: list[str]) -> Any:
    choices = [a for a in args if a is not NoneType]
    if value is None and NoneType in args:
        return None
    if len(choices) == 1 and is_dataclass(choices[0]) and isinstance(value, dict):
        return _read(choices[0], value, path, faults)  # its own faults say more than "must be this or null"
    for choice in choices:
        trial: list[str] = []
        result = _read(choice, value, path, trial)
        if not trial:
            return result
    names = " or ".join("null" if a is NoneType else getattr(a, "__name__", str(a)) for a in args)
    return _fault(faults, path, f"must be {names}", value)


def _read_dataclass(kind: Any, value: Any, path: str, faults: list[str]) -> Any:
    if not isinstance(value, dict):
        return _fault(faults, path, "must be an object", value)
    known = {f.name: f for f in fields(kind)}
    faults.extend(f"{path}.{name}".lstrip(".") + ": unknown field" for name in sorted(set(value) - set(known)))
    made: dict[str, Any] = {}
    for name, field in known.items():
        here = f"{path}.{name}".lstrip(".")
        if name in value:
            made[name] = _read(_hints(kind)[name], value[name], here, faults)
        elif field.default is MISSING and field.default_factory is MISSING:
            faults.append(f"{here}: missing")
    return None if faults else kind(**made)


def _read_scalar(kind: Any, value: Any, path: str, faults: list[str]) -> Any:
    # bool is an int in Python, and 1 is a fair way to write 1.0 in JSON
    right = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value if right else _fault(faults, path, f"must be {kind.__name__}", value)


def _fault(faults: list[str], path: str, message: str, value: object) -> None:
    shown = json.dumps(value, default=str)
    faults.append(f"{path or 'document'}: {message}, got {shown if len(shown) <= 60 else shown[:57] + '...'}")

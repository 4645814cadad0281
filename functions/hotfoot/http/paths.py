"""Paths to operations: most by one look into a table, those with parameters by their pattern."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from re import Pattern

from starlette.routing import compile_path

from hotfoot.http.operations import Operation

Found = dict[str, tuple[Operation, Mapping[str, str]]]


class Paths:
    """The operations by path. Their order decides between two patterns that fit."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._plain: dict[str, Found] = {}
        self._patterns: list[tuple[Pattern[str], Operation]] = []
        for operation in operations:
            if "{" in operation.path:
                self._patterns.append((compile_path(operation.path)[0], operation))
            else:
                self._plain.setdefault(operation.path, {})[operation.method] = (operation, {})

    def find(self, path: str) -> Found:
        """Method -> operation and the path's parameters; empty where there is no such path."""
        if path in self._plain:
            return self._plain[path]
        found: Found = {}
        for pattern, operation in self._patterns:
            if (match := pattern.match(path)) is not None:
                found.setdefault(operation.method, (operation, match.groupdict()))
        return found

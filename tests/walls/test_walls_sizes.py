"""Files of about 300 lines and functions of about 40: past that a warning, far past it a failure."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from walls.house import PACKAGES, ROOT, OverBudget

FILE, FILE_MOST = 300, 400
FUNCTION, FUNCTION_MOST = 40, 60


def functions(source: str) -> Iterator[tuple[str, int]]:
    """(name, lines) of each function, its docstring not counted: explaining must cost nothing."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            words = node.body[0] if ast.get_docstring(node) is not None else None
            explained = (words.end_lineno or 0) - words.lineno + 1 if words else 0
            yield node.name, (node.end_lineno or 0) - node.lineno + 1 - explained


def sources() -> list[Path]:
    folders = [*PACKAGES.values(), ROOT / "tests", ROOT / "scripts"]
    return sorted(p for folder in folders for p in folder.rglob("*.py"))


@pytest.mark.filterwarnings("always::walls.house.OverBudget")
@pytest.mark.parametrize("path", [pytest.param(p, id=p.relative_to(ROOT).as_posix()) for p in sources()])
def test_sizes(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    lines = source.count("\n")
    assert lines <= FILE_MOST, f"{lines} lines; a file has {FILE_MOST} at most: give a part of it a file of its own"
    if lines > FILE:
        warnings.warn(f"{path.relative_to(ROOT)} has {lines} lines, more than {FILE}", OverBudget, stacklevel=1)
    for name, length in functions(source):
        assert length <= FUNCTION_MOST, f"{name} has {length} lines; a function has {FUNCTION_MOST} at most"
        if length > FUNCTION:
            warnings.warn(f"{path.relative_to(ROOT)}: {name} has {length} lines, more than {FUNCTION}", OverBudget, stacklevel=1)


def test_docstrings_and_nested_functions() -> None:
    source = 'def outer():\n    """One.\n\n    More.\n    """\n    def inner():\n        return 1\n    return inner\n'
    assert dict(functions(source)) == {"outer": 4, "inner": 2}

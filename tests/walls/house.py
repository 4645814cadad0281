"""Where things stand in the repository, and a fresh interpreter to look at them with."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {home.name: home for home in (ROOT / "functions/hotfoot", ROOT / "build/hotfoot_build", ROOT / "infra/hotfoot_infra")}

# absent as on Lambda: whoever asks for one of these gets what an environment without it would give
BLOCKER = """
import sys

class Absent:
    def __init__(self, names, rest=None):
        self.names, self.rest = names, rest

    def find_spec(self, name, path=None, target=None):
        top = name.partition('.')[0]
        if top in self.names or (self.rest is not None and top not in self.rest):
            raise ModuleNotFoundError(f'{name} must not be imported here', name=name)

def block(*names):
    sys.meta_path.insert(0, Absent(set(names)))

def allow(*names):
    sys.meta_path.insert(0, Absent(set(), {*sys.stdlib_module_names, *names}))
"""


class OverBudget(UserWarning):
    """Larger than it should be, not yet larger than it may be."""


def fresh(code: str, *flags: str, environ: Mapping[str, str] | None = None) -> str:
    """What `code` prints in a new interpreter, in which `block` and `allow` are at hand."""
    command = [sys.executable, *flags, "-c", BLOCKER + code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **(environ or {})}, cwd=ROOT / "tests")
    assert done.returncode == 0, f"{code}\n{done.stderr}"
    return done.stdout


def modules(package: str, under: str = "") -> list[str]:
    """Every module of a package, or of a folder in it, by its dotted name."""
    home = PACKAGES[package]
    found = []
    for path in sorted((home / under).rglob("*.py")):
        parts = (package, *path.relative_to(home).with_suffix("").parts)
        found.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return found


def imports(package: str) -> Iterator[tuple[str, str]]:
    """(file, top-level package imported there), wherever in the file the import stands."""
    for path in sorted(PACKAGES[package].rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            yield from ((path.relative_to(ROOT).as_posix(), name.partition(".")[0]) for name in names)


def pyproject() -> dict[str, Any]:
    """pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def tracked() -> list[Path]:
    """Every file that is in the repository, or would be with the next commit."""
    # as root in a container the folder belongs to someone else, which git would refuse
    git = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return sorted({ROOT / name for name in listed if name and (ROOT / name).is_file()})

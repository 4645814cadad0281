"""Finds a Python of a wanted minor version on this machine. It never downloads one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hotfoot_build.package.wheels import uv_binary

_ASK = """
import json, sys
base = getattr(sys, "_base_executable", None) or sys.executable  # the one that a virtual environment was made of
print(json.dumps([sys.implementation.name, list(sys.version_info[:3]), base, sys.base_prefix]))
"""


@dataclass(frozen=True)
class Interpreter:
    """A CPython outside of any virtual environment; version is `3.13.2` and the like."""

    path: Path
    version: str
    prefix: Path

    @property
    def minor(self) -> str:
        """`3.13`: what bytecode and compiled modules depend on."""
        return ".".join(self.version.split(".")[:2])


def running_minor() -> str:
    """The minor version of the interpreter that runs this code, as `3.13`."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def find(minor: str) -> Interpreter | None:
    """A CPython `minor` (`3.13`): the running one, one on PATH, or one that uv knows; None where there is none."""
    for candidate in _candidates(minor):
        found = _ask(candidate, minor)
        if found and found.minor == minor:
            return found
    return None


def _candidates(minor: str) -> Iterator[str]:
    if minor == running_minor():
        yield sys.executable
    on_path = shutil.which(f"python{minor}")
    if on_path:
        yield on_path
    uv = subprocess.run(
        [uv_binary(), "python", "find", minor, "--system", "--no-python-downloads", "--no-project", "--quiet"],
        capture_output=True,
        text=True,
        check=False,
        env=_environment(minor),
    )
    if uv.returncode == 0:
        yield uv.stdout.strip()


def _ask(executable: str, minor: str) -> Interpreter | None:
    answer = subprocess.run([executable, "-I", "-c", _ASK], capture_output=True, text=True, check=False, env=_environment(minor))
    if answer.returncode != 0:  # a shim that points nowhere, a broken installation
        return None
    implementation, version, path, prefix = json.loads(answer.stdout)
    if implementation != "cpython":
        return None
    return Interpreter(Path(path), ".".join(map(str, version)), Path(prefix))


def _environment(minor: str) -> dict[str, str]:
    # pyenv's shims answer only for the versions that are switched on; this switches `minor` on for one call
    return {**os.environ, "PYENV_VERSION": minor}

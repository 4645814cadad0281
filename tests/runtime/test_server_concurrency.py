"""A server's process under mixed requests of every dialect from many threads: each answer is the one that the request gets alone."""

from __future__ import annotations

import gzip
import http.client
import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from runtime.test_server import serving
from support.clients import ARTIFACTS
from support.rigged import rigged_artifact

THREADS, REQUESTS, DIFFERENT = 16, 2000, 700
SHARED = ("vectors", "similar")  # two tasks over one tokenizer, the files byte for byte the same
WORDS = ("good", "bad", "maria", "gonzalez", "springfield", "lives", "in", "east", "north", "up", "hello", "guitar", "Héllo", "🦊", "x1")
HELD = threading.local()


@dataclass(frozen=True)
class Asked:
    """One request."""

    path: str
    body: bytes
    packed: bool = False


def texts(rng: random.Random) -> list[str]:
    """A batch of mixed lengths, of which some are past the limit of 64 tokens."""
    return [" ".join(rng.choices(WORDS, k=rng.choice((1, 2, 5, 12, 40)))) for _ in range(rng.choice((1, 1, 2, 7)))]


def one_or_all(rng: random.Random) -> Any:
    found = texts(rng)
    return found[0] if len(found) == 1 and rng.random() < 0.7 else found


def cut(rng: random.Random, name: str = "truncate") -> dict[str, Any]:
    side = {"truncation_direction": rng.choice(("left", "right"))} if rng.random() < 0.3 else {}
    return rng.choice(({}, {name: True, **side}, {name: True, **side}, {name: False}))


def hugging_face(rng: random.Random, **parameters: Any) -> dict[str, Any]:
    return {"inputs": one_or_all(rng), "parameters": {**parameters, **cut(rng, "truncation")}}


def answers(rng: random.Random) -> dict[str, Any]:
    window = rng.choice(({}, {"doc_stride": 10, "max_seq_len": 40}, {"doc_stride": 60}))
    return {"inputs": [{"question": "who lives?", "context": text} for text in texts(rng)], "parameters": window}


def choices(rng: random.Random) -> dict[str, Any]:
    labels = rng.sample(["politics", "music", "cooking", "sport"], rng.choice((1, 3)))
    return hugging_face(rng, candidate_labels=labels, multi_label=rng.random() < 0.5)


def similar(rng: random.Random) -> dict[str, Any]:
    return {"inputs": {"source_sentence": "east", "sentences": texts(rng)}, "parameters": cut(rng)}


def ranks(rng: random.Random, name: str = "documents") -> dict[str, Any]:
    return {"query": rng.choice(("query", "guitar")), name: texts(rng), **cut(rng)}


MAKERS: dict[str, Callable[[random.Random], dict[str, Any]]] = {
    "/models/labels": lambda rng: hugging_face(rng, top_k=rng.choice((1, 2))),
    "/models/labels/predict": lambda rng: {"inputs": [[text] for text in texts(rng)], "raw_scores": rng.random() < 0.5, **cut(rng)},
    "/models/tags": lambda rng: {
        "inputs": one_or_all(rng),
        "parameters": rng.choice(({"stride": 8}, {"truncation": True}, {"aggregation_strategy": rng.choice(("first", "max", "none"))})),
    },
    "/models/answers": answers,
    "/models/masks/invocations": lambda rng: {"inputs": [f"[MASK] {text}" for text in texts(rng)], "parameters": cut(rng)},
    "/models/choices": choices,
    "/models/vectors/embed": lambda rng: {"inputs": one_or_all(rng), **cut(rng)},
    "/models/vectors/v1/embeddings": lambda rng: {"input": one_or_all(rng), "encoding_format": rng.choice(("float", "base64"))},
    "/v1/embeddings": lambda rng: {"input": one_or_all(rng), "model": rng.choice(("vectors", "similar", "raw", "nobody"))},
    "/models/raw": lambda rng: hugging_face(rng, normalize=rng.random() < 0.5, prompt_name=rng.choice(("query", "document", None))),
    "/models/similar": similar,
    "/models/similar/embed": lambda rng: {"inputs": one_or_all(rng), "dimensions": rng.choice((1, 4, 5)), **cut(rng)},
    "/models/ranks/rerank": lambda rng: ranks(rng, "texts"),
    "/models/ranks/v1/rerank": ranks,
    "/models/ranks/v2/rerank": ranks,
    "/models/goes-on": lambda rng: {"inputs": "x", "parameters": {"max_new_tokens": rng.choice((1, 5, 9))}},
    "/models/tags/tokenize": lambda rng: {"inputs": one_or_all(rng)},
    "/models/labels/decode": lambda rng: {"ids": rng.choices(range(60), k=5)},
    "/models/vectors/predict": lambda rng: {"inputs": one_or_all(rng)},  # of another task: 404
}
BROKEN = (b"", b"{", b"[]", b'{"inputs": "a\xff"}', b'{"inputs": "ok\\ud800bad"}', b'{"inputs": ["good", 5]}', b'{"input": [[]]}', b"{}")


def different() -> list[Asked]:
    """Requests, one in ten of which nothing can be made of."""
    rng = random.Random(11)  # noqa: S311 - nothing secret
    paths = list(MAKERS)
    found = []
    for number in range(DIFFERENT):
        path = paths[number % len(paths)]
        body = rng.choice(BROKEN) if number % 10 == 9 else json.dumps(MAKERS[path](rng)).encode()
        found.append(Asked(path, body, rng.random() < 0.2))
    return found


def ask(url: str, asked: Asked, kept: list[str] | None = None) -> tuple[int, bytes]:
    """Status and body, and to `kept` whether memory had it, over the thread's own connection, which stays open over errors too."""
    connection = getattr(HELD, url, None)
    if connection is None:
        place = urlsplit(url)
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
        setattr(HELD, url, connection)
        OPENED.append(connection)
    headers = {"content-type": "application/json", **({"content-encoding": "gzip"} if asked.packed else {})}
    connection.request("POST", asked.path, gzip.compress(asked.body) if asked.packed else asked.body, headers)
    answer = connection.getresponse()
    if kept is not None:
        kept.append(answer.headers["x-cache"])
    return answer.status, answer.read()


OPENED: list[http.client.HTTPConnection] = []


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    root = tmp_path_factory.mktemp("several")
    return [str(rigged_artifact(root / name, task, rig)) for name, (task, rig) in ARTIFACTS.items() if name != "score"]


@pytest.fixture(scope="module")
def alone(folders: list[str]) -> dict[Asked, tuple[int, bytes]]:
    """What each request gets from a server that has nothing else to do and remembers nothing."""
    with serving(*folders, "--threads", "1", HOTFOOT_CACHE_MB="0") as (_, url):
        return {asked: ask(url, asked) for asked in different()}


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


def test_the_requests_are_mixed(folders: list[str], alone: dict[Asked, tuple[int, bytes]]) -> None:
    counted = Counter(status for status, _ in alone.values())
    assert set(counted) == {200, 400, 404, 422}
    assert counted[200] > len(alone) / 2
    # every route that can answer has, and has refused
    for path in MAKERS:
        statuses = {status for asked, (status, _) in alone.items() if asked.path == path}
        assert statuses > {200} or path == "/models/vectors/predict", (path, statuses)
    one, other = (Path(folder, "tokenizer", "tokenizer.json").read_bytes() for folder in folders if Path(folder).name in SHARED)
    assert one == other


@pytest.mark.parametrize("cache_mb", ["64", "0"])
def test_two_thousand_requests_from_sixteen_threads(folders: list[str], alone: dict[Asked, tuple[int, bytes]], cache_mb: str) -> None:
    rng = random.Random(5)  # noqa: S311 - nothing secret
    order = [*alone, *rng.choices(list(alone), k=REQUESTS - len(alone))]
    rng.shuffle(order)
    kept: list[str] = []
    with serving(*folders, "--threads", "1", HOTFOOT_CACHE_MB=cache_mb) as (process, url):
        with ThreadPoolExecutor(THREADS) as pool:
            found = list(pool.map(lambda asked: ask(url, asked, kept), order))
        assert process.poll() is None
    wrong = [(asked, got, alone[asked]) for asked, got in zip(order, found, strict=True) if got != alone[asked]]
    assert not wrong, f"{len(wrong)} of {len(order)}, the first: {wrong[0]}"
    # memory was really asked, or really was not
    assert (kept.count("hit") > REQUESTS / 4) if cache_mb != "0" else set(kept) == {"bypass"}

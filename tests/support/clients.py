"""Real clients, and the two doors that they knock at: a server's process, and Lambda's handler behind an HTTP API.

The process serves every artifact of ARTIFACTS at `/models/{name}`, with its memory on. A function serves one, at the address itself.
"""

from __future__ import annotations

import asyncio
import dataclasses
import gzip
import http.client
import json
import math
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import numpy as np
import openai
import pytest
from huggingface_hub import AsyncInferenceClient, InferenceClient

from runtime.test_handler_http import fresh
from runtime.test_server import serving as server_process
from support.events import Context
from support.invoking import Function, serving
from support.loops import apart
from support.rigged import Rig, rigged_artifact

DOORS = ("process", "function")
KINDS = ("sync", "async")
HERE: Final = "hf-inference"  # to the client: one that speaks as the Inference API does
LONG = "hello " * 100  # 102 tokens with the special ones; the rigs take 64
PROMPTS = {"prompts": {"query": "north ", "document": ""}, "default_prompt": None}
ARTIFACTS: Mapping[str, tuple[str, Rig]] = {
    "labels": ("text-classification", Rig()),
    "score": ("text-classification", Rig(labels=("LABEL_0",), words={"good": (0.3,)}, facts={"function_to_apply": "sigmoid"})),
    "tags": ("token-classification", Rig()),
    "answers": ("question-answering", Rig()),
    "masks": ("fill-mask", Rig()),
    "choices": ("zero-shot-classification", Rig()),
    "vectors": ("feature-extraction", Rig()),
    "raw": ("feature-extraction", Rig(facts={"normalize": False, **PROMPTS})),
    "tokens": ("feature-extraction", Rig(facts={"normalize": False, "pooling": "none"})),
    "similar": ("sentence-similarity", Rig()),
    "ranks": ("text-ranking", Rig()),
    "goes-on": ("text-generation", Rig()),
    "summary": ("summarization", Rig()),
    "translated": ("translation", Rig()),
}


class Doors:
    """Where each artifact is answered; what is asked for is opened, and closed with the stack."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folders = {name: rigged_artifact(folder / name, task, rig) for name, (task, rig) in ARTIFACTS.items()}
        self._stack = stack
        self._process: str | None = None
        self._functions: dict[str, str] = {}

    def url(self, door: str, name: str) -> str:
        """The address of an artifact of ARTIFACTS."""
        if door == "process":
            if self._process is None:
                folders = [str(folder) for folder in self._folders.values()]
                _, self._process = self._stack.enter_context(server_process(*folders, "--threads", "1"))
            return f"{self._process}/models/{name}"
        if name not in self._functions:
            invoke = self._stack.enter_context(function(self._folders[name]))
            self._functions[name] = self._stack.enter_context(serving({name: invoke}, {"$default": name})).url
        return self._functions[name]


@contextmanager
def function(folder: Path) -> Iterator[Function]:
    """Lambda's handler over the artifact; as in Lambda, one invocation at a time, all in one thread."""
    loop = asyncio.new_event_loop()  # the adapter wants one, and would leave its own open

    with ThreadPoolExecutor(1, initializer=asyncio.set_event_loop, initargs=(loop,)) as thread:
        module = thread.submit(fresh, folder).result()

        def invoke(event: dict[str, Any]) -> Any:
            answer = thread.submit(module.handler, event, Context()).result()
            # what Lambda's runtime does with it
            return json.loads(json.dumps(answer, ensure_ascii=False, allow_nan=False).encode())

        yield invoke
    loop.close()


def hugging_face(kind: str, url: str, method: str, *arguments: Any, **options: Any) -> Any:
    """What a method of today's client gives, as plain lists and objects without the members that are absent."""
    if kind == "sync":
        with InferenceClient(model=url, provider=HERE) as client:
            return plain(getattr(client, method)(*arguments, **options))

    async def ask() -> Any:
        async with AsyncInferenceClient(model=url, provider=HERE) as client:
            return plain(await getattr(client, method)(*arguments, **options))

    return apart(ask())


def open_ai(kind: str, url: str, method: str, **options: Any) -> Any:
    """What a method of today's client gives: `embeddings.create`, `models.list` or `models.retrieve`."""
    part, _, verb = method.partition(".")
    told: dict[str, Any] = {"base_url": f"{url}/v1", "api_key": "any", "max_retries": 0}
    if kind == "sync":
        with openai.OpenAI(**told) as client:
            return getattr(getattr(client, part), verb)(**options)

    async def ask() -> Any:
        async with openai.AsyncOpenAI(**told) as client:
            return await getattr(getattr(client, part), verb)(**options)

    return apart(ask())


def plain(value: Any) -> Any:
    """A client's answer as JSON has it."""
    if dataclasses.is_dataclass(value):
        found = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {name: plain(inner) for name, inner in found.items() if inner is not None}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


@dataclasses.dataclass(frozen=True)
class Answer:
    """What came over the wire."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        """The body, which is JSON."""
        assert self.headers["content-type"] == "application/json"
        return json.loads(self.body)


def raw(url: str, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None, *, packed: bool = False) -> Answer:
    """Ask without any client's help. body: bytes as they are, anything else as JSON; packed: sent as gzip."""
    place = urlsplit(url)
    sent = dict(headers or {})
    if body is not None:
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent.setdefault("content-type", "application/json")
        if packed:
            body, sent["content-encoding"] = gzip.compress(body), "gzip"
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
    try:
        connection.request(method, place.path + path, body, sent)
        answer = connection.getresponse()
        return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
    finally:
        connection.close()


def agree(found: Any, wanted: Any) -> None:
    """Structure, texts and whole numbers exactly; floats to a millionth."""
    if isinstance(wanted, dict):
        assert isinstance(found, dict)
        assert list(found) == list(wanted) or set(found) == set(wanted), (found, wanted)
        for name, inner in wanted.items():
            agree(found[name], inner)
    elif isinstance(wanted, list):
        assert isinstance(found, list)
        assert len(found) == len(wanted), (found, wanted)
        for one, other in zip(found, wanted, strict=True):
            agree(one, other)
    elif isinstance(wanted, float):
        assert found == pytest.approx(wanted, abs=1e-6)
    else:
        assert found == wanted


def softmax(*logits: float) -> list[float]:
    """On paper."""
    total = math.fsum(map(math.exp, logits))
    return [math.exp(x) / total for x in logits]


def sigmoid(logit: float) -> float:
    """On paper."""
    return 1 / (1 + math.exp(-logit))

"""What a server says of itself: facts, health, metrics, the models there are, and its pages for people."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import onnxruntime
from starlette.types import Scope

from hotfoot.http import headers, openai, pages
from hotfoot.http.errors import RequestError
from hotfoot.http.operations import Call, Operation
from hotfoot.http.pages import Page
from hotfoot.http.service import Reply, Service
from hotfoot.http.site import Site
from hotfoot.wire import dumps

HEALTHY = Reply(b'{"status":"ok"}')  # an app without a model is never built, so whoever answers is well
PROMETHEUS = {"content-type": "text/plain; version=0.0.4; charset=utf-8"}


@dataclass(frozen=True)
class About:
    """The routes that predict nothing. scrape gives the metrics; namespace is CloudWatch's where there are none to scrape."""

    site: Site
    threads: int
    namespace: str | None = None
    scrape: Callable[[], bytes] | None = None

    def operations(self) -> list[Operation]:
        """All of them; `/metrics` where there is something to say of it."""
        found = [
            Operation("GET", "/", "This server", "A page to try the model in; without `accept: text/html` the same as /info", self.front),
            Operation("GET", "/info", "Text Embeddings Inference", "What is served, and its limits", self.facts),
            Operation("GET", "/health", "Text Embeddings Inference", "Whether it can answer", health),
            Operation("GET", "/ping", "SageMaker", "Whether it can answer", health),
            Operation("GET", "/v1/models", "OpenAI", "The models there are", self.models, problem=openai.problem),
            Operation("GET", "/v1/models/{id:path}", "OpenAI", "One model", self.model, problem=openai.problem),
            Operation("GET", "/docs", "This server", "This reference as a page", docs),
        ]
        if self.scrape is None and self.namespace is None:
            return found
        return [*found, Operation("GET", "/metrics", "Text Embeddings Inference", "Counts and times for Prometheus", self.metrics)]

    async def front(self, call: Call) -> Reply:
        """The playground for a browser, facts for others."""
        if wants_page(call.scope):
            return shown(pages.playground())
        return replace(await self.facts(call), headers={"vary": "accept"})

    async def facts(self, call: Call) -> Reply:
        """What is served."""
        return Reply(dumps(info(call.service, self.threads)))

    async def models(self, _call: Call) -> Reply:
        """Every artifact of the API."""
        return Reply(dumps(openai.listed(self.site.names())))

    async def model(self, call: Call) -> Reply:
        """One of them, by name or model id. Raises RequestError (404)."""
        names, asked = self.site.names(), call.path["id"]
        found = asked if asked in names else next((name for name, model_id in names.items() if model_id == asked), None)
        if found is None:
            raise self.site.unknown(asked)
        return Reply(dumps(openai.model(found, names[found])))

    async def metrics(self, _call: Call) -> Reply:
        """Raises RequestError (404) on Lambda, that says where they are."""
        if self.scrape is not None:
            return Reply(self.scrape(), headers=PROMETHEUS)
        raise RequestError(
            404,
            "NotFound",
            "a function has no /metrics: each of its environments would count for itself.",
            hint=f"Its metrics are in CloudWatch, namespace {self.namespace}.",
        )


def wants_page(scope: Scope) -> bool:
    """Whether a browser asks."""
    return "text/html" in headers.sent(scope, b"accept")


def shown(page: Page) -> Reply:
    """A page for people."""
    return Reply(page.body, headers=page.headers)


async def docs(_call: Call) -> Reply:
    """The API's description as a page."""
    return shown(pages.docs())


async def health(_call: Call) -> Reply:
    """Well, if it answers at all."""
    return HEALTHY


def info(service: Service, threads: int) -> dict[str, Any]:
    """What is served. The first block is Text Embeddings Inference's own names, for its clients."""
    m, limits = service.model.manifest, service.limits
    return {
        "model_id": m.model.id,
        "model_sha": m.model.revision,
        "model_dtype": m.precision,
        "max_input_length": m.max_tokens,
        "max_client_batch_size": limits.texts,
        "max_concurrent_requests": limits.in_flight,
        "name": service.name,
        "revision": m.model.revision,
        "architecture": m.model.architecture,
        "task": m.task,
        "tasks": list(service.models),
        "target": m.target,
        "precision": m.precision,
        "digest": m.digest,
        "max_tokens": m.max_tokens,
        "labels": list(m.labels),
        "dimensions": m.facts.get("dimensions"),
        "mask_token": m.facts.get("mask_token"),
        "candidate_labels": m.facts.get("candidate_labels"),
        "license": m.model.license,
        "device": service.device,
        "onnxruntime": onnxruntime.__version__,
        "threads": threads,
        "max_request_tokens": limits.tokens,
        "max_request_bytes": limits.request_bytes,
        "max_response_bytes": limits.response_bytes,
        "sample": service.model.sample,
        "parameters": list(service.model.task.parameters),
    }

"""What a route is: data, which the app finds its way by and the API's description is made from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from starlette.types import Scope

from hotfoot.http.errors import Problem
from hotfoot.http.limits import deadline_of
from hotfoot.http.service import Reply, Service, Shape, plainly

Tag = Literal["Hugging Face", "Text Embeddings Inference", "OpenAI", "Rerank", "SageMaker", "This server"]


@dataclass(frozen=True)
class Call:
    """One request to an operation. body: its JSON without `model`, which has been followed; path: the path's parameters.

    remember: whether an answer from memory will do.
    """

    service: Service
    body: Mapping[str, Any]
    path: Mapping[str, str]
    scope: Scope
    remember: bool

    async def predict(self, task: str, inputs: Any, parameters: Mapping[str, Any], shape: Shape = plainly) -> Reply:
        """The service's prediction, within this request's deadline. Raises what that raises."""
        return await self.service.predict(task, inputs, parameters, deadline_of(self.scope), shape, remember=self.remember)


def always(_service: Service, _path: Mapping[str, str]) -> bool:
    """Serves: every artifact."""
    return True


def of_tasks(*tasks: str) -> Callable[[Service, Mapping[str, str]], bool]:
    """Serves: artifacts that can do one of these tasks."""
    return lambda service, _path: any(task in service.models for task in tasks)


def embeds_texts(service: Service, _path: Mapping[str, str]) -> bool:
    """Serves: embedding models that give one vector a text."""
    return "feature-extraction" in service.models and service.pools


def embeds_tokens(service: Service, _path: Mapping[str, str]) -> bool:
    """Serves: those that were built without pooling, and give one a token."""
    return "feature-extraction" in service.models and not service.pools


@dataclass(frozen=True)
class Operation:
    """One method of one path. serves: whether an artifact can answer it; problem: an error as this dialect has it."""

    method: Literal["GET", "POST"]
    path: str
    tag: Tag
    summary: str
    answer: Callable[[Call], Awaitable[Reply]]
    serves: Callable[[Service, Mapping[str, str]], bool] = always
    problem: Callable[[Problem], tuple[int, dict[str, Any]]] = Problem.answer

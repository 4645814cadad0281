"""The Hugging Face Inference API: `{"inputs", "parameters", "options"}` on `/`, `/models/{id}` and `/pipeline/{task}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.routing import Route

from hotfoot.contract.errors import InputError
from hotfoot.contract.json_types import json_type
from hotfoot.http.body import member, read_object, required
from hotfoot.http.errors import RequestError
from hotfoot.http.limits import deadline_of
from hotfoot.http.service import Reply, Service

MEMBERS = ("inputs", "parameters", "options", "model")
OPTIONS = ("use_cache", "wait_for_model", "use_gpu")


def routes(service: Service) -> list[Route]:
    """The dialect's routes, for any task."""

    async def predict(request: Request) -> Reply:
        body = await read_object(request, service.limits.request_bytes)
        check_model(service, request.path_params.get("id"))
        check_model(service, body.get("model"))
        check_options(member(body, "options"))
        inputs = required(body, "inputs")
        name = _task(service, request.path_params.get("task"), inputs)
        return await service.predict(name, inputs, _parameters(body, service.models[name].task.parameters), deadline_of(request.scope))

    paths = ("/", "/models/{id:path}/pipeline/{task}", "/models/{id:path}", "/pipeline/{task}", "/pipeline/{task}/{id:path}")
    return [Route(path, predict, methods=["POST"]) for path in paths]


def check_model(service: Service, asked: Any) -> None:
    """Raise RequestError (404) for the name of another model than the one served; None asks for no certain one."""
    served = service.model.manifest.model.id
    if asked is not None and asked != served:
        shown = asked if isinstance(asked, str) else json_type(asked)
        raise RequestError(404, "UnknownModel", f"model {shown[:100]!a} is not served here.", hint=f"This is {served}.")


def check_options(options: Mapping[str, Any]) -> None:
    """Raise InputError for an option that does not exist or is no boolean. `use_gpu` asks; `x-compute-type` says what it was."""
    for name, value in options.items():
        if name not in OPTIONS:
            raise InputError("is not an option.", hint=f"There are: {', '.join(OPTIONS)}.", where=f"options.{name}")
        if value is not None and not isinstance(value, bool):
            raise InputError(f"must be a boolean, not {json_type(value)}.", where=f"options.{name}")


def _task(service: Service, asked: str | None, inputs: Any) -> str:
    """The task that the path names; without one, the artifact's own or, for an embedding model, the one whose shape `inputs` has."""
    own = service.model.manifest.task
    if asked is not None:
        # looked up, never imported: the name comes from outside
        if asked not in service.models:
            raise RequestError(
                404, "UnknownTask", f"task {asked[:100]!a} is not served here.", hint=f"This artifact serves {_listed(service)}."
            )
        return asked
    if own == "feature-extraction" and isinstance(inputs, dict) and "source_sentence" in inputs:
        return "sentence-similarity"
    if own == "sentence-similarity" and (isinstance(inputs, str) or (isinstance(inputs, list) and all(isinstance(i, str) for i in inputs))):
        return "feature-extraction"
    return own


def _listed(service: Service) -> str:
    return ", ".join(service.models)


def _parameters(body: Mapping[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    """`parameters`, and those that stand beside `inputs`: the official client sends feature extraction's there."""
    parameters = dict(member(body, "parameters"))
    for name in body:
        if name in MEMBERS:
            continue
        if name not in known:
            raise InputError("is not known here.", hint=f"There are: {', '.join((*MEMBERS, *known))}.", where=name)
        if name in parameters:
            raise InputError("is given twice, here and in parameters.", where=name)
        parameters[name] = body[name]
    return parameters

"""The Hugging Face Inference API: `{"inputs", "parameters", "options"}` on `/` and `/pipeline/{task}`; SageMaker's `/invocations` too."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, get_args

from starlette.types import Scope

from hotfoot.contract.errors import InputError
from hotfoot.contract.json_types import json_type
from hotfoot.http import headers
from hotfoot.http.body import as_sent, member, required
from hotfoot.http.errors import RequestError
from hotfoot.http.operations import Call, Operation
from hotfoot.http.service import Reply, Service, plainly
from hotfoot.model import Prediction
from hotfoot.settings import AnswerShape

MEMBERS = ("inputs", "parameters", "options", "model")
OPTIONS = ("use_cache", "wait_for_model", "use_gpu")


def operations() -> list[Operation]:
    """The dialect's routes, for any task. What `/models/{id}` adds in front is the app's business, as it is for every dialect."""
    return [
        Operation("POST", "/", "Hugging Face", "Predict", predict),
        Operation("POST", "/pipeline/{task}", "Hugging Face", "Predict, the task named", predict, serves_named),
        Operation("POST", "/pipeline/{task}/{id:path}", "Hugging Face", "Predict, task and model named", predict, serves_named),
        Operation("POST", "/invocations", "SageMaker", "Predict", predict),
    ]


def serves_named(service: Service, path: Mapping[str, str]) -> bool:
    """Whether the artifact can do the task, and is the model, that the path names."""
    return path.get("task") in service.models and path.get("id") in (None, service.id, service.name)


async def predict(call: Call) -> Reply:
    """One prediction, as the task's own answer."""
    options = member(call.body, "options")
    check_options(options)
    call = replace(call, remember=call.remember and options.get("use_cache") is not False)
    inputs = required(call.body, "inputs")
    name = call.path.get("task") or task_for(call.service, inputs)
    parameters, beside = _parameters(call.body, call.service.models[name].task.parameters)
    shape = plainly if (asked_shape(call.scope) or call.service.shape) == "current" else partial(classic, name, inputs)

    def sent(where: str) -> str:
        stem = where.removeprefix("parameters.")
        return stem if re.split(r"[.\[]", stem)[0] in beside else where

    with as_sent(sent):
        return await call.predict(name, inputs, parameters, shape)


def check_options(options: Mapping[str, Any]) -> None:
    """Raise InputError for an option that does not exist or is no boolean. `use_gpu` asks; `x-compute-type` says what it was."""
    for name, value in options.items():
        if name not in OPTIONS:
            raise InputError("is not an option.", hint=f"There are: {', '.join(OPTIONS)}.", where=f"options.{name}")
        if value is not None and not isinstance(value, bool):
            raise InputError(f"must be a boolean, not {json_type(value)}.", where=f"options.{name}")


def task_for(service: Service, inputs: Any) -> str:
    """The artifact's own task or, for an embedding model, the one whose shape `inputs` has."""
    own = service.model.manifest.task
    if own == "feature-extraction" and isinstance(inputs, dict) and "source_sentence" in inputs:
        return "sentence-similarity"
    if own == "sentence-similarity" and (isinstance(inputs, str) or (isinstance(inputs, list) and all(isinstance(i, str) for i in inputs))):
        return "feature-extraction"
    return own


def asked_shape(scope: Scope) -> str:
    """What the header `x-answer-shape` says, empty where there is none. Raises RequestError (400) for another value."""
    asked = headers.sent(scope, b"x-answer-shape").strip().lower()
    if asked and asked not in get_args(AnswerShape):
        raise RequestError(400, "Malformed", f"x-answer-shape is {asked[:40]!a}; it must be one of {', '.join(get_args(AnswerShape))}.")
    return asked


def classic(task: str, inputs: Any, found: Prediction) -> Any:
    """The answer as clients before 2025 know it: one text's ranking by itself, and zero-shot's labels and scores as two lists."""
    if task == "zero-shot-classification" and isinstance(inputs, dict):
        inputs = inputs["sequences"]
    single = not isinstance(inputs, list)
    if task == "text-classification" and single:
        return found.answer[0]
    if task != "zero-shot-classification":
        return found.answer
    texts, rankings = ([inputs], [found.answer]) if single else (inputs, found.answer)
    made = [
        {"sequence": text, "labels": [r["label"] for r in ranking], "scores": [r["score"] for r in ranking]}
        for text, ranking in zip(texts, rankings, strict=True)
    ]
    return made[0] if single else made


def _parameters(body: Mapping[str, Any], known: tuple[str, ...]) -> tuple[dict[str, Any], set[str]]:
    """All parameters, and which stand beside `inputs`: the official client sends feature extraction's there."""
    parameters, beside = dict(member(body, "parameters")), set()
    for name in body:
        if name in MEMBERS:
            continue
        if name not in known:
            raise InputError("is not known here.", hint=f"There are: {', '.join((*MEMBERS, *known))}.", where=name)
        if name in parameters:
            raise InputError("is given twice, here and in parameters.", where=name)
        parameters[name] = body[name]
        beside.add(name)
    return parameters, beside

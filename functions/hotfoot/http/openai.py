"""OpenAI's embeddings, and the list of models. Errors have that API's shape, and a wrong value its status: 400."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from hotfoot.http.body import as_sent, refuse_unknown, required
from hotfoot.http.errors import Problem
from hotfoot.http.operations import Call, Operation, embeds_texts
from hotfoot.http.service import Reply
from hotfoot.http.tokens import texts_of
from hotfoot.model import Prediction
from hotfoot.tasks._texts import option

EMBEDDINGS = ("input", "encoding_format", "dimensions", "user")
TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
CODES = {"UnknownModel": "model_not_found", "Unauthorized": "invalid_api_key", "Overloaded": "rate_limit_exceeded", "TooLarge": "too_large"}


def speaks(path: str) -> bool:
    """Whether errors on this path have this API's shape: below `/v1`, but for the rerank route, which is another's."""
    before, found, rest = path.partition("/v1/")
    return bool(found) and (not before or before.startswith("/models/")) and rest.rstrip("/") != "rerank"


def problem(found: Problem) -> tuple[int, dict[str, Any]]:
    """An error as the official client reads it: status and document."""
    status = 400 if found.status == 422 else found.status
    kind = TYPES.get(found.status, "invalid_request_error" if found.status < 500 else "server_error")
    return status, {"error": {"message": found.text, "type": kind, "param": found.where or None, "code": CODES.get(found.error_type)}}


def operations() -> list[Operation]:
    """The routes of this dialect that predict."""
    return [Operation("POST", "/v1/embeddings", "OpenAI", "Turn texts into vectors", embeddings, embeds_texts, problem)]


async def embeddings(call: Call) -> Reply:
    """`{"input": a text, token ids, or a list of these, "encoding_format"?, "dimensions"?}` -> unit vectors and their usage."""
    body = call.body
    refuse_unknown(body, ("model", *EMBEDDINGS))
    inputs = partial(texts_of, call.service, required(body, "input"), "input")
    with as_sent(named):
        option(body, "user", str, None)
        parameters = {"dimensions": body.get("dimensions"), "encoding_format": body.get("encoding_format"), "normalize": True}

        def shape(found: Prediction) -> dict[str, Any]:
            data = [{"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(found.answer)]
            usage = {"prompt_tokens": found.tokens, "total_tokens": found.tokens}
            return {"object": "list", "data": data, "model": call.service.id, "usage": usage}

        return await call.predict("feature-extraction", inputs, parameters, shape)


def named(where: str) -> str:
    """A path as this dialect calls it: `inputs[1]` is `input[1]`, and parameters stand in the body itself."""
    return where.removeprefix("parameters.").replace("inputs", "input", 1)


def listed(models: Mapping[str, str]) -> dict[str, Any]:
    """The models as `/v1/models` lists them: name -> id. An artifact has no clock, so `created` is 0."""
    return {"object": "list", "data": [model(name, model_id) for name, model_id in models.items()]}


def model(name: str, model_id: str) -> dict[str, Any]:
    """One model, by the name that requests give it."""
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": model_id.partition("/")[0] if "/" in model_id else "hotfoot",
        "root": model_id,
    }

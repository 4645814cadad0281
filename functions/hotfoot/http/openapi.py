"""The API's description, OpenAPI 3.1: of what these artifacts really serve, with their own limits, labels and examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from hotfoot.http import hf
from hotfoot.http.operations import Operation
from hotfoot.http.schemas import (
    CUT,
    FLAG,
    NUMBER,
    RANKED,
    SCORED,
    TEXT,
    VECTOR,
    Schema,
    answer,
    bodies,
    closed,
    either,
    fields,
    many,
    strategies,
    texts,
    whole,
)
from hotfoot.http.service import Service
from hotfoot.http.site import Site
from hotfoot.tasks import text_ranking

OPTIONS: Schema = either(fields(dict.fromkeys(hf.OPTIONS, FLAG)), {"type": "null"})
IDS: Schema = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1}
MEANINGS = {
    400: "The body is not JSON, or its type or encoding is not taken; in OpenAI's dialect also a wrong shape or value",
    401: "No token, or not the right one",
    404: "No such route or model here",
    413: "More bytes, texts or tokens than the limit",
    422: "A wrong shape or value; the error names its path",
    429: "Too much waits already; try again after `retry-after` seconds",
    500: "The server's own fault",
    503: "Still being opened",
    504: "It would run past the function's time limit",
}
ERROR = {
    "type": "object",
    "required": ["error", "error_type"],
    "properties": {"error": {"type": "string"}, "error_type": {"type": "string"}, "estimated_time": NUMBER},
}
OPENAI_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}
DESCRIPTION = """\
Answers carry `x-compute-type` (`cpu`, `gpu`, or `cache` for what came from memory), `x-compute-time` (seconds),
`x-compute-tokens`, `x-compute-characters`, `x-cache` (`hit`, `miss`, `bypass`), `x-request-id`, `x-model-digest` and `server-timing`.
The request header `x-use-cache: false` computes an answer anew. Offsets are code points of the text as sent; token counts and limits
include special tokens. Any path may have `/models/NAME` in front, to name the model; a body may name it in `model`."""


def document(site: Site, operations: Sequence[Operation], *, token: bool) -> dict[str, Any]:
    """The description of what `operations` give over the site's artifacts. token: the server asks for one."""
    paths: dict[str, Any] = {}
    for operation in operations:
        able = [s for s in site.services if operation.serves(s, {"task": s.model.manifest.task})]
        if able:
            place = paths.setdefault(operation.path.replace(":path}", "}"), {})
            place[operation.method.lower()] = made = _operation(operation, able)
            if not token:
                del made["responses"]["401"]
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": f"hotfoot: {', '.join(site.names())}", "version": _version(), "description": DESCRIPTION},
        "servers": [{"url": "."}],
        "tags": [{"name": tag} for tag in dict.fromkeys(o.tag for o in operations)],
        "paths": paths,
        "components": {"schemas": {"Error": ERROR, "OpenAIError": OPENAI_ERROR}},
    }
    if token:
        found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"token": []}]
    return found


def _version() -> str:
    try:
        return version("hotfoot")
    except PackageNotFoundError:  # a bundle holds the package without its metadata
        return "unknown"


def _operation(operation: Operation, able: Sequence[Service]) -> dict[str, Any]:
    name = operation.path.replace(":path}", "}")
    made: dict[str, Any] = {
        "tags": [operation.tag],
        "summary": operation.summary,
        "operationId": f"{operation.method.lower()}{''.join(c if c.isalnum() else '_' for c in name)}",
        "responses": _responses(operation, able),
    }
    if parameters := [*_path_parameters(name, able), *_header_parameters(operation)]:
        made["parameters"] = parameters
    if operation.method == "POST":
        request: Callable[[Service], Schema] = REQUESTS.get(operation.path, _predicts)
        sample: Callable[[Service], Any] = EXAMPLES.get(operation.path, _example)
        schemas = [request(service) for service in able]
        made["requestBody"] = {"required": True, "content": {"application/json": {"schema": either(*schemas), **_examples(able, sample)}}}
    return made


def _examples(able: Sequence[Service], sample: Callable[[Service], Any]) -> dict[str, Any]:
    """One example, or of several artifacts one each, by their tasks."""
    if len(able) == 1:
        return {"example": sample(able[0])}
    found: dict[str, Any] = {}
    for service in able:
        found.setdefault(service.model.manifest.task, {"value": sample(service)})
    return {"examples": found}


def _path_parameters(name: str, able: Sequence[Service]) -> list[dict[str, Any]]:
    values = {"task": list(dict.fromkeys(t for s in able for t in s.models)), "id": list(dict.fromkeys(s.id for s in able))}
    return [{"name": key, "in": "path", "required": True, "schema": {"enum": values[key]}} for key in values if f"{{{key}}}" in name]


def _header_parameters(operation: Operation) -> list[dict[str, Any]]:
    if operation.tag != "Hugging Face":
        return []
    words = "`classic` gives one text's labels by themselves, and zero-shot's labels and scores as two lists."
    return [
        {"name": "x-answer-shape", "in": "header", "schema": {"type": "string", "pattern": "^(current|classic)?$"}, "description": words}
    ]


def _responses(operation: Operation, able: Sequence[Service]) -> dict[str, Any]:
    front = (operation.method, operation.path) == ("GET", "/")
    known: Callable[[Service], Schema] = _facts if front else RESULTS.get(operation.path, _answers)
    answers = [known(service) for service in able]
    media = MEDIA.get(operation.path)
    good: Schema = either(*answers)
    content: dict[str, Any] = {"application/json": {"schema": good}} if media != "text/html" else {}
    if media:
        content[media] = {"schema": {"type": "string"}}
    error = {"$ref": f"#/components/schemas/{'OpenAIError' if operation.tag == 'OpenAI' else 'Error'}"}
    refused = {s: words for s, words in MEANINGS.items() if s != 422 or operation.tag != "OpenAI"}
    statuses = refused if operation.method == "POST" else {s: MEANINGS[s] for s in (401, 404, 500, 503)}
    failed = {str(status): {"description": words, "content": {"application/json": {"schema": error}}} for status, words in statuses.items()}
    return {"200": {"description": "The answer", "content": content}, **failed}


def _facts(_service: Service) -> Schema:
    return OBJECT


def _predicts(service: Service) -> Schema:
    """Of the Hugging Face dialect: one form for each that a task takes; for an embedding model those of both its tasks."""
    forms = []
    for task in service.models:
        for inputs, parameters in bodies(service, task):
            needed = ("inputs", "parameters") if parameters["required"] else ("inputs",)
            nullable = parameters if parameters["required"] else either(parameters, {"type": "null"})
            beside = parameters["properties"] if task == "feature-extraction" else {}  # where the official client puts them
            forms.append(fields(_beside(service, {"inputs": inputs, "parameters": nullable, "options": OPTIONS, **beside}), *needed))
    return either(*forms)


def _example(service: Service) -> dict[str, Any]:
    return {"inputs": service.model.sample}


def _answers(service: Service) -> Schema:
    return either(*(answer(service, task) for task in service.models))


def _embed(service: Service) -> Schema:
    _, parameters = bodies(service, "feature-extraction")[0]
    inputs = either(TEXT, many(TEXT, service.limits.texts), IDS, many(IDS, service.limits.texts))
    return fields({"inputs": inputs, **_beside(service, parameters["properties"])}, "inputs")


def _beside(service: Service, properties: Mapping[str, Schema]) -> dict[str, Schema]:
    return {"model": {"enum": list(dict.fromkeys((service.id, service.name, None)))}, **properties}


def _cuts() -> dict[str, Schema]:
    return {name: CUT[name] for name in ("truncate", "truncation_direction")}


def _similarity(service: Service) -> Schema:
    inputs, parameters = bodies(service, "sentence-similarity")[0]
    return fields(_beside(service, {"inputs": inputs, "parameters": either(parameters, {"type": "null"})}), "inputs")


def _predict(service: Service) -> Schema:
    sequence = {"type": "array", "items": TEXT, "minItems": 1, "maxItems": 2}
    inputs = either(TEXT, sequence, many(sequence, service.limits.texts))
    return fields(_beside(service, {"inputs": inputs, **_cuts(), "raw_scores": FLAG}), "inputs")


def _rerank(service: Service) -> Schema:
    own = {"query": TEXT, "texts": many(TEXT, service.limits.texts), **_cuts(), "raw_scores": FLAG, "return_text": FLAG}
    return fields(_beside(service, own), "query", "texts")


def _documents(service: Service, more: Mapping[str, Schema]) -> Schema:
    listed = many(either(TEXT, closed("text")), service.limits.texts)
    cuts = {**CUT, "truncation": strategies(text_ranking.STRATEGIES)}
    own = {"query": TEXT, "documents": listed, "top_n": whole(1), **cuts, **more}
    return fields(_beside(service, own), "query", "documents")


def _openai_embeddings(service: Service) -> Schema:
    inputs = either(TEXT, many(TEXT, service.limits.texts), IDS, many(IDS, service.limits.texts))
    own = {
        "input": inputs,
        "encoding_format": {"enum": ["float", "base64", None]},
        "dimensions": whole(1, int(service.model.manifest.facts["dimensions"])),
        "user": {"type": ["string", "null"]},
    }
    return fields(_beside(service, own), "input")


def _tokenize(service: Service) -> Schema:
    return fields(_beside(service, {"inputs": texts(service), "add_special_tokens": FLAG}), "inputs")


def _decode(service: Service) -> Schema:
    return fields(_beside(service, {"ids": either(IDS, many(IDS, service.limits.texts)), "skip_special_tokens": FLAG}), "ids")


REQUESTS: Mapping[str, Callable[[Service], Schema]] = {
    "/embed": _embed,
    "/embed_all": _embed,
    "/similarity": _similarity,
    "/predict": _predict,
    "/rerank": _rerank,
    "/v1/rerank": lambda service: _documents(service, {"return_documents": FLAG}),
    "/v2/rerank": lambda service: _documents(
        service, {"max_tokens_per_doc": whole(service.model.manifest.max_tokens), "priority": {"type": ["integer", "null"]}}
    ),
    "/v1/embeddings": _openai_embeddings,
    "/tokenize": _tokenize,
    "/decode": _decode,
}
PAIR = {"query": "Where do people make music?", "documents": ["An orchestra rehearses in the hall.", "The market fell on Monday."]}
EXAMPLES: Mapping[str, Callable[[Service], Any]] = {
    "/embed": lambda _: {"inputs": ["A man is playing a guitar on stage."]},
    "/embed_all": lambda _: {"inputs": ["A man is playing a guitar on stage."]},
    "/similarity": lambda service: {"inputs": service.models["sentence-similarity"].task.sample},
    "/predict": lambda service: {"inputs": service.model.sample},
    "/rerank": lambda _: {"query": PAIR["query"], "texts": PAIR["documents"]},
    "/v1/rerank": lambda _: PAIR,
    "/v2/rerank": lambda _: PAIR,
    "/v1/embeddings": lambda service: {"input": ["A man is playing a guitar on stage."], "model": service.id},
    "/tokenize": lambda _: {"inputs": "A man is playing a guitar on stage."},
    "/decode": lambda service: {"ids": service.model.tokenizer.encode(["guitar"], truncate="right")[0].ids.tolist()},
}
OBJECT: Schema = {"type": "object"}
TOKEN: Schema = {
    "type": "object",
    "required": ["id", "text", "special", "start", "stop"],
    "properties": {
        "id": {"type": "integer"},
        "text": {"type": "string"},
        "special": {"type": "boolean"},
        "start": {"type": ["integer", "null"]},
        "stop": {"type": ["integer", "null"]},
    },
}
RESULTS: Mapping[str, Callable[[Service], Schema]] = {
    "/embed": lambda _: {"type": "array", "items": VECTOR},
    "/embed_all": lambda service: answer(service, "feature-extraction"),
    "/similarity": lambda service: answer(service, "sentence-similarity"),
    "/predict": lambda _: either(SCORED, {"type": "array", "items": SCORED}),
    "/rerank": lambda _: {"type": "array", "items": RANKED},
    "/v1/rerank": lambda _: {"type": "object", "required": ["model", "results", "usage"]},
    "/v2/rerank": lambda _: {"type": "object", "required": ["results"]},
    "/v1/embeddings": lambda _: {"type": "object", "required": ["object", "data", "model", "usage"]},
    "/tokenize": lambda _: {"type": "array", "items": {"type": "array", "items": TOKEN}},
    "/decode": lambda _: {"type": "array", "items": {"type": "string"}},
    **{path: lambda _: OBJECT for path in ("/info", "/health", "/ping", "/v1/models", "/v1/models/{id:path}", "/openapi.json", "/metrics")},
    "/docs": lambda _: {},
}
MEDIA = {"/docs": "text/html", "/metrics": "text/plain"}

"""Text Embeddings Inference's JSON: options stand beside `inputs`, and each route is there only where the task can serve it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import onnxruntime
from starlette.requests import Request
from starlette.routing import Route

from hotfoot.contract.errors import HotfootError, InputError
from hotfoot.contract.json_types import json_type
from hotfoot.http.body import member, read_object, required
from hotfoot.http.errors import RequestError
from hotfoot.http.limits import check_ids, check_texts, deadline_of
from hotfoot.http.service import EMBEDDERS, Reply, Service
from hotfoot.task import Encoded
from hotfoot.tasks._texts import check_parameters, option, read_texts
from hotfoot.wire import dumps

PREDICT = ("truncate", "truncation_direction", "raw_scores")
RERANK = ("query", "texts", "truncate", "truncation_direction", "raw_scores", "return_text")
MAX_ID = 2**31 - 1  # ids are int32


def routes(service: Service, *, threads: int, namespace: str | None) -> list[Route]:
    """The dialect's routes for this artifact's task. `namespace` is CloudWatch's where there is no `/metrics` to scrape."""
    own = service.model.manifest.task
    routes = [_tokenize(service), _decode(service), _info(service, threads), _health()]
    if own in EMBEDDERS:
        routes = [_embed(service), _similarity(service), *routes]
    if own == "text-classification":
        routes = [_predict(service), *routes]
    if own == "text-ranking":
        routes = [_rerank(service), *routes]
    return [*routes, _metrics(namespace)] if namespace else routes


def _embed(service: Service) -> Route:
    async def embed(request: Request) -> Reply:
        body = await read_object(request, service.limits.request_bytes)
        inputs, parameters = required(body, "inputs"), _rest(body)
        if parameters.get("normalize") is None:  # this dialect's default, whatever the model's own is
            parameters["normalize"] = True
        with beside_inputs():
            return await service.predict("feature-extraction", inputs, parameters, deadline_of(request.scope))

    return Route("/embed", embed, methods=["POST"])


def _similarity(service: Service) -> Route:
    async def similarity(request: Request) -> Reply:
        body = await read_object(request, service.limits.request_bytes)
        _refuse_unknown(body, ("inputs", "parameters"))
        return await service.predict(
            "sentence-similarity", required(body, "inputs"), member(body, "parameters"), deadline_of(request.scope)
        )

    return Route("/similarity", similarity, methods=["POST"])


def _predict(service: Service) -> Route:
    async def predict(request: Request) -> Reply:
        body = await read_object(request, service.limits.request_bytes)
        texts, bare = _sequences(required(body, "inputs"))
        parameters = _rest(body)
        with beside_inputs():
            check_parameters(parameters, PREDICT)
            raw: bool = option(parameters, "raw_scores", bool, False)
            parameters.pop("raw_scores", None)
            if raw:
                parameters["function_to_apply"] = "none"
            deadline = deadline_of(request.scope)
            return await service.predict("text-classification", texts, parameters, deadline, lambda answer: answer[0] if bare else answer)

    return Route("/predict", predict, methods=["POST"])


def _rerank(service: Service) -> Route:
    async def rerank(request: Request) -> Reply:
        body = await read_object(request, service.limits.request_bytes)
        _refuse_unknown(body, RERANK)
        inputs = {name: required(body, name) for name in ("query", "texts")}
        # sigmoid is this dialect's default, whatever the model's own is
        raw: bool = option(body, "raw_scores", bool, False)
        parameters: dict[str, Any] = {name: body[name] for name in ("truncate", "truncation_direction") if name in body}
        parameters["function_to_apply"] = "none" if raw else "sigmoid"
        parameters["return_documents"] = option(body, "return_text", bool, False)
        with beside_inputs():
            return await service.predict("text-ranking", inputs, parameters, deadline_of(request.scope))

    return Route("/rerank", rerank, methods=["POST"])


def _sequences(inputs: Any) -> tuple[Any, bool]:
    """`inputs` of /predict as texts, and whether it was one text: a flat list is one sequence there, a batch is a list of lists.

    Raises InputError for a pair.
    """
    if not isinstance(inputs, list):
        return inputs, True
    if inputs and all(isinstance(i, list) for i in inputs):
        return [_single(i, f"inputs[{n}]") for n, i in enumerate(inputs)], False
    return (inputs if not inputs or len(inputs) == 1 else [_single(inputs, "inputs")]), True


def _single(sequence: list[Any], where: str) -> Any:
    if len(sequence) == 1:
        return sequence[0]
    if len(sequence) == 2:
        raise InputError("is a pair of texts, which this server does not take.", hint='Two texts are [["…"], ["…"]].', where=where)
    raise InputError(f"holds {len(sequence)} items; one sequence is one text.", hint='Several texts are [["…"], ["…"]].', where=where)


def _tokenize(service: Service) -> Route:
    tokenizer = service.model.tokenizer

    async def tokenize(request: Request) -> Reply:
        body = await read_object(request, service.limits.request_bytes)
        texts, paths, _single = read_texts(required(body, "inputs"))
        check_texts(len(texts), service.limits)
        parameters = _rest(body)
        with beside_inputs():
            check_parameters(parameters, ("add_special_tokens",))
            special: bool = option(parameters, "add_special_tokens", bool, True)

        def work() -> list[list[dict[str, Any]]]:
            found = tokenizer.tokenize(texts, paths=paths, most=service.limits.tokens)
            return [
                [t for t in _tokens(text, e, tokenizer.token_of) if special or not t["special"]]
                for text, e in zip(texts, found, strict=True)
            ]

        return await service.run(work)

    return Route("/tokenize", tokenize, methods=["POST"])


def _tokens(text: str, encoded: Encoded, spelling: Any) -> Iterator[dict[str, Any]]:
    """Offsets are code points of the text as sent; a special token stands nowhere in it."""
    for token_id, special, (start, stop) in zip(encoded.ids.tolist(), encoded.special, encoded.offsets, strict=True):
        if special:
            yield {"id": token_id, "text": spelling(token_id), "special": True, "start": None, "stop": None}
        else:
            yield {"id": token_id, "text": text[start:stop], "special": False, "start": start, "stop": stop}


def _decode(service: Service) -> Route:
    tokenizer = service.model.tokenizer

    async def decode(request: Request) -> Reply:
        body = await read_object(request, service.limits.request_bytes)
        ids = required(body, "ids")
        parameters = {name: value for name, value in body.items() if name != "ids"}
        with beside_inputs():
            check_parameters(parameters, ("skip_special_tokens",))
            skip: bool = option(parameters, "skip_special_tokens", bool, True)
        if not isinstance(ids, list) or not ids:
            raise InputError("must be a list of token ids, or a list of such lists.", where="ids")
        nested = isinstance(ids[0], list)
        rows = [(row, f"ids[{i}]") for i, row in enumerate(ids)] if nested else [(ids, "ids")]
        check_texts(len(rows), service.limits)
        check_ids(sum(len(row) for row, _ in rows if isinstance(row, list)), service.limits)
        checked = [_ids(row, where, tokenizer.token_of) for row, where in rows]
        return await service.run(lambda: [tokenizer.decode(row, skip_special_tokens=skip) for row in checked])

    return Route("/decode", decode, methods=["POST"])


def _ids(row: Any, where: str, spelling: Any) -> list[int]:
    if not isinstance(row, list):
        raise InputError(f"must be a list of token ids, not {json_type(row)}.", where=where)
    if not row:
        raise InputError("is an empty list.", where=where)
    for i, value in enumerate(row):
        if not isinstance(value, int) or isinstance(value, bool):
            raise InputError(f"must be a token id, not {json_type(value)}.", where=f"{where}[{i}]")
        if not 0 <= value <= MAX_ID or not spelling(value):
            raise InputError(f"is {value}, which is not in the vocabulary.", where=f"{where}[{i}]")
    return row


def _info(service: Service, threads: int) -> Route:
    """What is served. The first block is Text Embeddings Inference's own names, for its clients."""
    m, limits = service.model.manifest, service.limits
    document = {
        "model_id": m.model.id,
        "model_sha": m.model.revision,
        "model_dtype": m.precision,
        "max_input_length": m.max_tokens,
        "max_client_batch_size": limits.texts,
        "max_concurrent_requests": limits.in_flight,
        "revision": m.model.revision,
        "task": m.task,
        "tasks": list(service.models),
        "target": m.target,
        "precision": m.precision,
        "digest": m.digest,
        "max_tokens": m.max_tokens,
        "labels": list(m.labels),
        "dimensions": m.facts.get("dimensions"),
        "license": m.model.license,
        "device": service.device,
        "onnxruntime": onnxruntime.__version__,
        "threads": threads,
        "max_request_tokens": limits.tokens,
        "max_request_bytes": limits.request_bytes,
        "max_response_bytes": limits.response_bytes,
    }
    body = dumps(document)

    async def info(_request: Request) -> Reply:
        return Reply(body)

    return Route("/info", info, methods=["GET"])


def _health() -> Route:
    async def health(_request: Request) -> Reply:
        # an app without a model is never built, so whoever answers is well
        return Reply(b'{"status":"ok"}')

    return Route("/health", health, methods=["GET"])


def _metrics(namespace: str) -> Route:
    async def metrics(_request: Request) -> Reply:
        raise RequestError(
            404,
            "NotFound",
            "a function has no /metrics: each of its environments would count for itself.",
            hint=f"Its metrics are in CloudWatch, namespace {namespace}.",
        )

    return Route("/metrics", metrics, methods=["GET"])


def _rest(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name != "inputs"}


def _refuse_unknown(body: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for name in body:
        if name not in known:
            raise InputError("is not known here.", hint=f"There are: {', '.join(known)}.", where=name)


@contextmanager
def beside_inputs() -> Iterator[None]:
    """Name what is wrong as this dialect's client sent it: not in `parameters`, and no query or texts in `inputs`."""
    try:
        yield
    except HotfootError as error:
        error.where = error.where.removeprefix("parameters.").removeprefix("inputs.")
        raise

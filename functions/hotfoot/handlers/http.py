"""The Lambda entry point for HTTP: the model is opened while the environment starts, every invocation only answers."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

from aws_lambda_powertools.metrics import MetricUnit
from mangum import Mangum
from mangum.types import Response

from hotfoot import cache, handlers, observe, settings, snapshot
from hotfoot.http import events, headers, openai, peers
from hotfoot.http.app import Options, create_app, fault_of
from hotfoot.http.errors import Problem, problem
from hotfoot.http.limits import check_answer, lambda_limits
from hotfoot.model import Model
from hotfoot.observe import Record
from hotfoot.wire import dumps

# matched as parts of the content type: what is text must reach the client as text, not as base64
TEXT_TYPES = ["text/", "json", "javascript", "xml"]
GROWTH = 6  # the longest escape of one byte in the event's JSON, \u0000

started = time.perf_counter()
here = settings.read()
model = Model.open(settings.artifact_dir(here), cache_bytes=here.cache_bytes)
model.warm_up()
limits = lambda_limits()
metrics, logger = observe.metrics(), observe.logger()
environment = observe.Environment(open_ms=1e3 * (time.perf_counter() - started))
snapshot.register(model, forget=[peers.forget], restored=environment.restored)


heard: list[Record] = []  # what the app says of its answer, until that is known to fit


def report(record: Record) -> None:
    """Log and count an answer."""
    observe.log(record)
    observe.count(record)


app = create_app(
    {here.name or model.manifest.model.id: model},
    Options(
        limits=limits,
        threads=here.threads,
        namespace=here.metrics_namespace,
        report=heard.append,
        cache_bytes=cache.shares(here.cache_bytes).answers,
        shape=here.answer_shape,
        peers=[peer for peer in here.peers if peer.function],
    ),
)
adapter = Mangum(app, lifespan="off", text_mime_types=TEXT_TYPES)
handlers.whole()


@metrics.log_metrics
@logger.inject_lambda_context(clear_state=True, log_event=False)  # an event holds texts, whatever the environment says
def handler(event: Any, context: Any) -> Any:
    """Answer one invocation: an HTTP event, `{"inputs": …}` invoked directly, or a warm-up.

    Raises HotfootError for any other event, so that whoever sent it does not take it as done.
    """
    environment.count_start()
    kind = events.kind_of(event)
    if kind == "http":
        return answer(event, context)
    if kind == "direct":
        # through the same door, escapes and all, so that a text which is none is refused there
        return json.loads(answer(events.direct_event(json.dumps(event)), context)["body"])
    if kind == "warmup":
        metrics.add_metric(name="WarmUps", unit=MetricUnit.Count, value=1)
        return {"warm": True, "model": model.manifest.model.id, "digest": model.manifest.digest}
    metrics.add_metric(name="UnknownEvents", unit=MetricUnit.Count, value=1)
    raise events.unknown(event)


def answer(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """The adapter's answer to an HTTP event; what it cannot read or carry is refused in the same form."""
    heard.clear()
    try:
        wrapped = adapter(events.http_event(event), context)
        check_size(wrapped)
    except Exception as error:  # noqa: BLE001 - the edge: an exception here would reach the client as the platform's own 502
        return refusal(error, event, context)
    for record in heard:
        report(record)
    return wrapped


def refusal(error: Exception, event: dict[str, Any], context: Any) -> dict[str, Any]:
    """An error from outside the app, wrapped as this kind of event wants it, in the shape that its path has."""
    found = problem(error, context.aws_request_id)
    status, document = (openai.problem if openai.speaks(events.path_of(event)) else Problem.answer)(found)
    before = heard[-1] if heard else Record(method="", route="", status=status, request_id=context.aws_request_id)
    report(replace(before, status=status, fault=fault_of(error, found)))
    fields = {
        "content-type": "application/json",
        **headers.of_answer(headers.Meter(), "cpu"),
        "x-request-id": context.aws_request_id,
        "x-model-digest": model.manifest.digest,
        **headers.CORS,
        **found.headers,
    }
    response: Response = {"status": status, "headers": [list(pair) for pair in headers.encoded(fields)], "body": dumps(document)}
    return adapter.infer(events.repaired(event), context)(response)


def check_size(wrapped: dict[str, Any]) -> None:
    """Raise TooLargeError when Lambda could not deliver the answer: the whole event counts, with its JSON inside JSON."""
    if len(wrapped["body"]) * GROWTH > limits.response_bytes // 2:
        # as Lambda's runtime client writes it on Python 3.12 and newer
        check_answer(len(json.dumps(wrapped, ensure_ascii=False).encode()), limits.response_bytes)

"""What is known of each answer, as one log line and a few CloudWatch metrics. No text, label or body is ever in either.

No Tracer: Lambda's own active tracing needs no library, and the X-Ray SDK would double the import time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

from hotfoot import settings


@dataclass(frozen=True)
class Fault:
    """Why an answer is an error; kind, detail and places only for our own faults."""

    error_type: str
    kind: str = ""
    detail: str = ""
    places: tuple[str, ...] = ()


@dataclass(frozen=True)
class Record:
    """One answer. timings are milliseconds by stage; total_ms is the whole time in the app.

    model: the name of the artifact that answered. cache: hit, miss or bypass. inputs: what the graph would have had to read, remembered:
    how many of these came from memory. unknown: tokens that stand for what the vocabulary does not have.
    """

    method: str
    route: str
    status: int
    request_id: str
    texts: int = 0
    tokens: int = 0
    characters: int = 0
    timings: Mapping[str, float] = field(default_factory=dict)
    total_ms: float = 0.0
    fault: Fault | None = None
    model: str = ""
    cache: str = "bypass"
    inputs: int = 0
    remembered: int = 0
    unknown: int = 0


@cache
def logger() -> Logger:
    """The one logger: JSON lines on stdout."""
    here = settings.read()
    return Logger(service=here.service, level=here.log_level)


@cache
def metrics() -> Metrics:
    """CloudWatch metrics in its embedded format; one dimension, the service, for each combination of them is paid for."""
    here = settings.read()
    return Metrics(service=here.service, namespace=here.metrics_namespace)


def log(record: Record) -> None:
    """One line an answer."""
    line = {
        "method": record.method,
        "route": record.route,
        "status": record.status,
        "request_id": record.request_id,
        "texts": record.texts,
        "tokens": record.tokens,
        "unknown_tokens": record.unknown,
        "characters": record.characters,
        "cache": record.cache,
        "total_ms": round(record.total_ms, 3),
        **{f"{stage}_ms": round(ms, 3) for stage, ms in record.timings.items()},
    }
    if record.fault is None:
        logger().info("answered", extra=line)
        return
    line["error_type"] = record.fault.error_type
    if record.status < 500:
        logger().info("refused", extra=line)
    else:
        logger().error(
            "failed", extra={**line, "kind": record.fault.kind, "detail": record.fault.detail, "places": list(record.fault.places)}
        )


def count(record: Record) -> None:
    """The metrics of one answer."""
    m = metrics()
    m.add_metric(name="Latency", unit=MetricUnit.Milliseconds, value=record.total_ms)
    m.add_metric(name="Texts", unit=MetricUnit.Count, value=record.texts)
    m.add_metric(name="Tokens", unit=MetricUnit.Count, value=record.tokens)
    if record.unknown:
        m.add_metric(name="UnknownTokens", unit=MetricUnit.Count, value=record.unknown)
    if record.cache != "bypass":
        # their sum over the first is the hit ratio, in inputs of the graph: one text may be several of them
        m.add_metric(name="CacheableInputs", unit=MetricUnit.Count, value=record.inputs)
        m.add_metric(name="RememberedInputs", unit=MetricUnit.Count, value=record.remembered)
    if record.status >= 500:
        m.add_metric(name="Failures", unit=MetricUnit.Count, value=1)
    elif record.status >= 400:
        m.add_metric(name="Refusals", unit=MetricUnit.Count, value=1)


class Environment:
    """Where a function runs. With the first invocation it counts how it came to be: by a start of its own, or out of a snapshot."""

    def __init__(self, open_ms: float) -> None:
        """open_ms: what importing and opening took."""
        self._open_ms, self._counted, self._restored = open_ms, False, False

    def restored(self) -> None:
        """From now on this is another one, a copy of the one that was started. That one's opening was not paid for here."""
        self._counted, self._restored = False, True

    def count_start(self) -> None:
        """Call it with every invocation."""
        if self._counted:
            return
        self._counted = True
        if self._restored:
            metrics().add_metric(name="Restores", unit=MetricUnit.Count, value=1)
            return
        metrics().add_metric(name="ColdStarts", unit=MetricUnit.Count, value=1)
        metrics().add_metric(name="ModelOpen", unit=MetricUnit.Milliseconds, value=self._open_ms)

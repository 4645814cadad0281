"""Counts and times of a server, for Prometheus. Never a text: labels are routes, statuses, and the names of artifacts."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from hotfoot.http.app import App
from hotfoot.observe import Record

# from a kept answer to a long batch
SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """One server's metrics, in a registry of their own."""

    def __init__(self) -> None:
        r = self.registry = CollectorRegistry()
        self._requests = Counter("hotfoot_requests", "Answers, by their status", ("model", "route", "status"), registry=r)
        self._seconds = Histogram("hotfoot_request_seconds", "Whole time in the app", ("model", "route"), buckets=SECONDS, registry=r)
        self._stages = Histogram("hotfoot_stage_seconds", "Time in one stage of an answer", ("model", "stage"), buckets=SECONDS, registry=r)
        self._texts = Counter("hotfoot_texts", "Texts read", ("model",), registry=r)
        self._tokens = Counter("hotfoot_tokens", "Tokens read, special ones included", ("model",), registry=r)
        self._unknown = Counter("hotfoot_unknown_tokens", "Tokens for what the vocabulary lacks", ("model",), registry=r)
        self._inputs = Counter("hotfoot_cacheable_inputs", "Inputs of the graph that memory was asked for", ("model",), registry=r)
        self._remembered = Counter("hotfoot_remembered_inputs", "Inputs of the graph that memory answered", ("model",), registry=r)

    def watch(self, app: App) -> None:
        """Show what the app holds at the time of asking."""
        gate = app.site.default.gate
        waiting = Gauge("hotfoot_requests_in_flight", "Predictions that run or wait", registry=self.registry)
        waiting.set_function(lambda: float(gate.in_flight))
        kept = Gauge("hotfoot_answers_bytes", "Bytes of answers in memory", registry=self.registry)
        kept.set_function(lambda: float(app.answers.stats.bytes))

    def count(self, record: Record) -> None:
        """One answer."""
        self._requests.labels(record.model, record.route, str(record.status)).inc()
        self._seconds.labels(record.model, record.route).observe(record.total_ms / 1e3)
        for stage, ms in record.timings.items():
            self._stages.labels(record.model, stage).observe(ms / 1e3)
        self._texts.labels(record.model).inc(record.texts)
        self._tokens.labels(record.model).inc(record.tokens)
        self._unknown.labels(record.model).inc(record.unknown)
        if record.cache != "bypass":
            self._inputs.labels(record.model).inc(record.inputs)
            self._remembered.labels(record.model).inc(record.remembered)

    def scrape(self) -> bytes:
        """All of them in Prometheus' text format."""
        return generate_latest(self.registry)

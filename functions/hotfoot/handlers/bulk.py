"""The Lambda entry point for objects: S3 tells a queue, the queue brings messages, each object's answers go back to S3.

Messages fail one by one: one that is not in `batchItemFailures` is done for good. Deleted and replaced objects, and those that can
never be read, are done; whatever may go better later, or is not ours to judge, fails until the queue gives it to its dead letters.
An object that the time did not suffice for, or that was not begun, goes on in a new message: so it has all its tries again, and
however large it is ends well as long as each attempt gets further.
For standard queues: in a FIFO queue, what follows a failed message would have to wait for it.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping
from typing import Any, Literal

from aws_lambda_powertools.metrics import MetricUnit

from hotfoot import handlers, observe, settings, snapshot
from hotfoot.bulk import keys, messages, queues, s3
from hotfoot.bulk.answers import prepare
from hotfoot.bulk.deadline import Deadline, OutOfTimeError
from hotfoot.bulk.messages import ObjectRef
from hotfoot.bulk.pipeline import GoneError, Outcome, process
from hotfoot.contract.errors import ArtifactError, HotfootError
from hotfoot.model import Model
from hotfoot.settings import BulkSettings
from hotfoot.wire import is_warm_up

Fate = Literal["done", "unfinished", "failed"]


def results_bucket(found: BulkSettings) -> str:
    """Where results go. Raises ArtifactError at the start: each message that came in without it would be one more dead letter."""
    if found.results_bucket is None:
        raise ArtifactError("HOTFOOT_RESULTS_BUCKET in the environment is not set.", hint="Name the bucket that results go to.")
    return found.results_bucket


started = time.perf_counter()
here = settings.read()
bulk = settings.read_bulk()
bucket = results_bucket(bulk)
model = Model.open(settings.artifact_dir(here))
work = prepare(model, bulk.options)
model.warm_up()
metrics, logger = observe.metrics(), observe.logger()
environment = observe.Environment(open_ms=1e3 * (time.perf_counter() - started))
snapshot.register(model, forget=[s3.forget, queues.forget], restored=environment.restored)
handlers.whole()


@metrics.log_metrics
# no event in the log, whatever POWERTOOLS_LOGGER_LOG_EVENT says: a foreign message may hold anything
@logger.inject_lambda_context(clear_state=True, log_event=False)
def handler(event: Any, context: Any) -> dict[str, Any]:
    """Work off one batch of the queue; the answer names the messages that failed, all of them if need be.

    Raises HotfootError for an event that is not a queue's.
    """
    environment.count_start()
    if isinstance(event, dict) and is_warm_up(event):
        metrics.add_metric(name="WarmUps", unit=MetricUnit.Count, value=1)
        return {"warm": True, "model": model.manifest.model.id, "digest": model.manifest.digest}
    records = records_of(event)
    deadline = Deadline(lambda: context.get_remaining_time_in_millis() / 1e3)
    failed = []
    for record in records:
        message = record if isinstance(record, dict) else {}
        message_id = str(message.get("messageId") or "")
        # an id that the queue does not know would make it repeat the whole batch
        if not settle(message, message_id, deadline) and message_id:
            failed.append({"itemIdentifier": message_id})
    metrics.add_metric(name="FailedMessages", unit=MetricUnit.Count, value=len(failed))
    return {"batchItemFailures": failed}


def records_of(event: Any) -> list[Any]:
    """The queue's messages. Raises HotfootError for anything else: whoever sent it must not take it as done."""
    records = event.get("Records") if isinstance(event, dict) else None
    if not isinstance(records, list) or any(isinstance(r, dict) and r.get("eventSource") == "aws:s3" for r in records):
        metrics.add_metric(name="UnknownEvents", unit=MetricUnit.Count, value=1)
        raise HotfootError("this function takes batches of an SQS queue, not other events.", hint="Let S3 tell the queue.")
    return records


def settle(message: Mapping[str, Any], message_id: str, deadline: Deadline) -> bool:
    """Work off one message; whether it is done. One that announces several objects is done when all of them are."""
    try:
        announced = messages.objects(message.get("body"))
    except Exception as error:  # noqa: BLE001 - the edge: whatever a message is, its neighbours are worked off
        trouble(error, {"message_id": message_id})
        return False
    fates = [settle_object(ref, message_id, deadline) for ref in announced]  # each of them, also behind one that failed
    if "failed" in fates:
        return False
    return "unfinished" not in fates or continued(message, message_id)


def continued(message: Mapping[str, Any], message_id: str) -> bool:
    """Whether what is left of a message has a new one."""
    try:
        queues.send_again(message.get("eventSourceARN"), message["body"])
    except Exception as error:  # noqa: BLE001 - the edge: without a new message the old one must come back
        trouble(error, {"message_id": message_id})
        return False
    metrics.add_metric(name="ContinuedMessages", unit=MetricUnit.Count, value=1)
    return True


def settle_object(ref: ObjectRef, message_id: str, deadline: Deadline) -> Fate:
    """Work off one object; unfinished where a new message should go on with it."""
    line = {"message_id": message_id, "bucket": ref.bucket, "key": ref.key}
    start = time.perf_counter()
    try:
        if ref.key.endswith("/") or keys.is_result(ref.bucket, ref.key, bucket, bulk.results_prefix):
            logger.warning("not a text: a folder, or a result of this pipeline", extra=line)
            return "done"
        if deadline.is_near():
            raise OutOfTimeError("the time ran out before the object", further=deadline.worked)
        outcome = process(work, s3.source(ref), s3.S3Results(bucket), bulk.results_prefix, deadline=deadline)
    except GoneError as error:
        logger.info("gone", extra={**line, "reason": str(error)})
        return "done"
    except Exception as error:  # noqa: BLE001 - the edge: one object must not take the batch with it
        trouble(error, line)
        return "unfinished" if isinstance(error, OutOfTimeError) and error.further else "failed"
    told(outcome, line, 1e3 * (time.perf_counter() - start))
    return "done"


def told(outcome: Outcome, line: Mapping[str, Any], total_ms: float) -> None:
    """Log and count an object that is done."""
    made, sums = outcome.report, outcome.sums
    numbers = {"records": made.records, "failed_records": made.failed, "parts": len(made.parts), "texts": sums.texts, "tokens": sums.tokens}
    extra = {**line, **numbers, "total_ms": round(total_ms, 3)}
    if outcome.status == "rejected":
        logger.warning("rejected", extra={**extra, "reason": made.reason})
        metrics.add_metric(name="RejectedObjects", unit=MetricUnit.Count, value=1)
        return
    logger.info(outcome.status, extra=extra)
    if outcome.status == "done":
        metrics.add_metric(name="Objects", unit=MetricUnit.Count, value=1)
        metrics.add_metric(name="Texts", unit=MetricUnit.Count, value=sums.texts)
        metrics.add_metric(name="Tokens", unit=MetricUnit.Count, value=sums.tokens)
        metrics.add_metric(name="FailedRecords", unit=MetricUnit.Count, value=made.failed)


def trouble(error: Exception, line: Mapping[str, Any]) -> None:
    """Log why a message failed: type and place, S3's code, and the message of hotfoot's own errors, which quote no text."""
    extra = {**line, "kind": type(error).__name__}
    if isinstance(error, OutOfTimeError):
        logger.warning("out of time", extra={**extra, "reason": error.message, "further": error.further})
        return
    extra["detail"] = str(error) if isinstance(error, HotfootError) else s3.code_of(error)
    extra["places"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)]
    logger.error("failed", extra=extra)

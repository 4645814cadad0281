"""Texts put into a bucket become results in another: S3 -> EventBridge -> SQS -> function. Nothing on the way is lost in silence."""

from __future__ import annotations

import json
from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as event_targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lam
from aws_cdk import aws_lambda_event_sources as sources
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from hotfoot.contract import codec
from hotfoot.contract.project import Bulk
from hotfoot_infra.config import Deployment
from hotfoot_infra.constructs.model_function import FunctionSpec, ModelFunction
from hotfoot_infra.constructs.text_buckets import TextBuckets

HANDLER = "hotfoot.handlers.bulk.handler"
# Receives before a message goes to the dead-letter queue: five at least is AWS's advice. Tries that get further are not counted, as
# the function goes on with those in a new message; so a large object takes as many invocations as it needs.
TRIES = 5
KEPT = cdk.Duration.days(14)  # the longest there is: time to look at what failed
WAITING = cdk.Duration.days(4)  # shorter than KEPT, as a message keeps its age when it moves


class BulkPipeline(Construct):
    """The buckets, the queue with its dead letters, the rule between them, and the function at the end."""

    def __init__(
        self, scope: Construct, construct_id: str, *, deployment: Deployment, bulk: Bulk, layers: Sequence[lam.LayerVersion]
    ) -> None:
        super().__init__(scope, construct_id)
        self.settings = bulk
        self.buckets = TextBuckets(self, "Texts", deployment=deployment)
        self.dead_letters = _queue(self, "DeadLetters", retention_period=KEPT)
        self.undelivered = _queue(self, "Undelivered", retention_period=KEPT)
        self.queue = _queue(
            self,
            "Queue",
            retention_period=WAITING,
            # AWS's advice: room for retries while a batch is at work, or it would be worked on twice
            visibility_timeout=cdk.Duration.seconds(6 * bulk.timeout_s + bulk.batch_window_s),
            dead_letter_queue=sqs.DeadLetterQueue(queue=self.dead_letters, max_receive_count=TRIES),
        )
        self._rule(bulk)
        self.function = ModelFunction(
            self,
            "Function",
            deployment=deployment,
            layers=layers,
            spec=FunctionSpec(
                handler=HANDLER,
                description=f"hotfoot {deployment.name}, bulk: {deployment.bundle.model_id}"[:256],
                memory_mb=bulk.memory_mb,
                timeout_s=bulk.timeout_s,
                service=f"hotfoot-{deployment.name}-bulk",
                environment=self._environment(bulk),
                # Lambda ends a chain of messages and invocations after 16. This one ends by itself: each new message means that more
                # of the object is done, or that another object had the time.
                recursive=True,
            ),
        )
        self._grant(bulk)
        self.function.alias.add_event_source(
            sources.SqsEventSource(
                self.queue,
                batch_size=bulk.batch_size,
                max_batching_window=cdk.Duration.seconds(bulk.batch_window_s) if bulk.batch_window_s else None,
                report_batch_item_failures=True,
                max_concurrency=bulk.max_concurrency,
            )
        )

    def _rule(self, bulk: Bulk) -> None:
        pattern = events.EventPattern(
            source=["aws.s3"],
            detail_type=["Object Created"],
            detail={
                "bucket": {"name": [self.buckets.input.bucket_name]},
                # size: consoles make an empty object for each folder
                "object": {"key": key_patterns(bulk), "size": [{"numeric": [">", 0]}]},
            },
        )
        target = event_targets.SqsQueue(
            self.queue, dead_letter_queue=self.undelivered, retry_attempts=185, max_event_age=cdk.Duration.hours(24)
        )
        events.Rule(self, "Rule", description="New texts go to the bulk queue", event_pattern=pattern, targets=[target])

    def _environment(self, bulk: Bulk) -> dict[str, str]:
        return {
            "HOTFOOT_RESULTS_BUCKET": self.buckets.results.bucket_name,
            "HOTFOOT_RESULTS_PREFIX": bulk.results_prefix.rstrip("/"),
            "HOTFOOT_BULK": json.dumps(codec.plain(bulk.options), sort_keys=True),
        }

    def _grant(self, bulk: Bulk) -> None:
        """Read texts, write results: those prefixes and no other. And go on with an object in a new message of the queue."""
        texts, results = self.buckets.input, self.buckets.results
        role = self.function.role
        role.add_to_policy(
            iam.PolicyStatement(actions=["s3:GetObject", "s3:GetObjectVersion"], resources=[texts.arn_for_objects(f"{bulk.input_prefix}*")])
        )
        # or what is not there would look like what is forbidden
        role.add_to_policy(iam.PolicyStatement(actions=["s3:ListBucket"], resources=[texts.bucket_arn, results.bucket_arn]))
        role.add_to_policy(
            iam.PolicyStatement(
                actions=["s3:GetObject", "s3:PutObject"], resources=[results.arn_for_objects(f"{bulk.results_prefix.rstrip('/')}/*")]
            )
        )
        role.add_to_policy(iam.PolicyStatement(actions=["sqs:SendMessage"], resources=[self.queue.queue_arn]))


def key_patterns(bulk: Bulk) -> list[dict[str, str]]:
    """How EventBridge tells the keys to process. A prefix and a suffix at once can only be said with a wildcard."""
    if not bulk.input_suffixes:
        return [{"prefix": bulk.input_prefix}]
    return [{"wildcard": f"{bulk.input_prefix}*{suffix}"} for suffix in bulk.input_suffixes]


def _queue(
    scope: Construct,
    name: str,
    *,
    retention_period: cdk.Duration,
    visibility_timeout: cdk.Duration | None = None,
    dead_letter_queue: sqs.DeadLetterQueue | None = None,
) -> sqs.Queue:
    return sqs.Queue(
        scope,
        name,
        encryption=sqs.QueueEncryption.SQS_MANAGED,  # a key of one's own would need a policy that lets EventBridge use it
        enforce_ssl=True,
        retention_period=retention_period,
        visibility_timeout=visibility_timeout,
        dead_letter_queue=dead_letter_queue,
    )

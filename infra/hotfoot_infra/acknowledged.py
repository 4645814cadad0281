"""cdk-nag's findings that stand, each with its reason. Whatever is not here fails the synthesis."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_s3 as s3
from constructs import IConstruct

from hotfoot_infra.constructs.bulk_pipeline import BulkPipeline
from hotfoot_infra.constructs.raw import raw
from hotfoot_infra.constructs.shared_cache import STANDS
from hotfoot_infra.stacks import HotfootStack

RUNTIME = "The bundle's bytecode and compiled modules are made for this Python, which Lambda supports; a newer one is another bundle."
SYNCHRONOUS = "Called by the API or by an event source, which get the error; nothing calls it asynchronously."
DEAD_LETTERS = "This queue is where messages end that could not be worked on or delivered, and an alarm watches it."


def acknowledge(stack: HotfootStack) -> None:
    """Accept what is right as it is, as close to the resource as it goes."""
    for function in (function for one in stack.served for function in one.functions):
        accept(function, "AwsSolutions::AwsSolutions-L1", RUNTIME)
        accept(function, "Serverless::Serverless-LambdaLatestVersion", RUNTIME)
        accept(function, "Serverless::Serverless-LambdaDLQ", SYNCHRONOUS)
        accept(
            function,
            "Serverless::Serverless-LambdaTracing",
            "Each answer's stages are timed in its log line; traces would cost every request, and their grant is for every resource.",
        )
    if stack.door.auth == "none":
        accept(stack.endpoint, "AwsSolutions::AwsSolutions-APIG4", 'hotfoot.toml asks for a public API (auth = "none"); it is throttled.')
    elif stack.door.cors_origins:
        accept(
            stack.endpoint,
            "AwsSolutions::AwsSolutions-APIG4",
            "OPTIONS alone is open: a browser asks before it signs, and the answer holds nothing of the model.",
        )
    for bulk in (one.bulk for one in stack.served if one.bulk):
        _bulk(stack, bulk)
    for cache in (one.cache for one in stack.served if one.cache):
        for finding, reason in STANDS.items():
            accept(cache, finding, reason)


def _bulk(stack: HotfootStack, bulk: BulkPipeline) -> None:
    accept(
        bulk.buckets,
        "AwsSolutions::AwsSolutions-S1",
        "One function reads and writes these objects and logs each; who else may is the account's to record (CloudTrail data events).",
    )
    for queue in (bulk.dead_letters, bulk.undelivered):
        accept(queue, "Serverless::Serverless-SQSRedrivePolicy", DEAD_LETTERS)
    accept(bulk.undelivered, "AwsSolutions::AwsSolutions-SQS3", DEAD_LETTERS)
    accept(
        bulk.function,
        "Serverless::Serverless-LambdaEventSourceMappingDestination",
        "A queue as source has no destination: its redrive policy moves what fails to the dead-letter queue.",
    )
    for bucket, prefix in (
        (bulk.buckets.input, bulk.settings.input_prefix),
        (bulk.buckets.results, f"{bulk.settings.results_prefix.rstrip('/')}/"),
    ):
        accept(
            bulk.function,
            f"AwsSolutions::AwsSolutions-IAM5[Resource::<{stack.resolve(raw(bucket, s3.CfnBucket).logical_id)}.Arn>/{prefix}*]",
            "Objects come and go under this one prefix of this one bucket, so it is as narrow as a grant can be.",
        )


def accept(place: IConstruct, finding: str, reason: str) -> None:
    """Acknowledge one finding below `place`."""
    cdk.Validations.of(place).acknowledge(cdk.Acknowledgment(id=finding, reason=reason))

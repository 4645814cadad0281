"""A message back into the queue that it came from, as a new one.

For work that is not at its end and goes well. A message that merely fails comes back after the queue's visibility timeout, half an
hour with the defaults, and has so many tries; a large object would wait for hours and end among the dead letters, each try further than
the one before. A new message comes at once and has all its tries. It is sent before the old one is done with: a crash between the
two leaves both, and what both of them write is there once, as with any message that a queue delivers twice.

Rights: SendMessage and GetQueueUrl on the queue.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from hotfoot import aws
from hotfoot.contract.errors import InputError


@cache
def client() -> Any:
    """The one SQS client of this process."""
    return aws.client("sqs")


def forget() -> None:
    """Close the client; the next use makes another. A queue's address stays what it is."""
    if client.cache_info().currsize:
        client().close()
    client.cache_clear()


def send_again(arn: Any, body: str) -> None:
    """Send `body` to the queue of this ARN. Raises InputError for what is no queue's ARN, and what boto3 raises."""
    client().send_message(QueueUrl=_url(arn if isinstance(arn, str) else ""), MessageBody=body)


@cache
def _url(arn: str) -> str:
    # arn:aws:sqs:REGION:ACCOUNT:NAME; the URL is not put together here, for its domain depends on the partition
    parts = arn.split(":")
    if len(parts) != 6 or parts[2] != "sqs":
        raise InputError("the message does not say which queue it is from.")
    url: str = client().get_queue_url(QueueName=parts[5], QueueOwnerAWSAccountId=parts[4])["QueueUrl"]
    return url

"""A table and a secret for the shared cache, in an AWS account inside this process, and addresses where there is none."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
import numpy as np
import pytest
from moto import mock_aws

from hotfoot import aws
from hotfoot.task import Array

TABLE, SECRET = "answers", "a secret of some length, made for this"
REGION = "eu-central-1"


def quiet(patch: pytest.MonkeyPatch) -> None:
    """No credentials, endpoint or profile but the tests' own."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        patch.delenv(name)
    told = {"ACCESS_KEY_ID": "test", "SECRET_ACCESS_KEY": "test", "DEFAULT_REGION": REGION}
    for name, value in {**told, "CONFIG_FILE": os.devnull, "SHARED_CREDENTIALS_FILE": os.devnull}.items():
        patch.setenv(f"AWS_{name}", value)


@contextmanager
def account() -> Iterator[str]:
    """An account with an empty table and a secret, whose ARN this gives; inside this process."""
    with pytest.MonkeyPatch.context() as patch, mock_aws():
        quiet(patch)
        made = boto3.client("secretsmanager").create_secret(Name="hotfoot", SecretString=SECRET)
        boto3.client("dynamodb").create_table(
            TableName=TABLE,
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "B"}],
            BillingMode="PAY_PER_REQUEST",
        )
        yield made["ARN"]


def items() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = boto3.client("dynamodb").scan(TableName=TABLE)["Items"]
    return found


def some(count: int, size: int = 4) -> dict[bytes, Array]:
    return {number.to_bytes(32, "big"): np.full(size, number, np.float32) for number in range(count)}


def same(found: dict[bytes, Array], wanted: dict[bytes, Array]) -> bool:
    return found.keys() == wanted.keys() and all(
        a.tobytes() == wanted[k].tobytes() and a.dtype == wanted[k].dtype and a.shape == wanted[k].shape for k, a in found.items()
    )


class Calls:
    """What is asked of DynamoDB and the secrets, by the names of the calls."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.made: list[str] = []
        self.sizes: list[int] = []
        inner = aws.client

        def client(service: str, **options: Any) -> Any:
            made = inner(service, **options)
            made.meta.events.register("before-call", self._note)
            return made

        patch.setattr(aws, "client", client)

    def _note(self, model: Any, params: Any, **_rest: Any) -> None:
        self.made.append(model.name)
        asked = json.loads(params["body"]).get("RequestItems", {}).get(TABLE)
        if asked is not None:
            self.sizes.append(len(asked["Keys"] if isinstance(asked, dict) else asked))


@contextmanager
def silent_endpoint() -> Iterator[str]:
    """A server that takes every connection and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        yield f"http://127.0.0.1:{door.getsockname()[1]}"


@contextmanager
def dead_endpoint() -> Iterator[str]:
    """An address at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
    yield f"http://127.0.0.1:{port}"

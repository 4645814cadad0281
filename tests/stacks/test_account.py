"""The account on the loopback device: that it fails where AWS would, and where it cannot do what AWS can."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError, WaiterError

from support.cloud.account import Account
from support.cloud.deployed import batches

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    with Account(tmp_path_factory.mktemp("account")) as made:
        yield made


def deploy(account: Account, resources: dict[str, Any], kind: str = "UPDATE") -> None:
    """As the CDK deploys: a change set, and a wait for its end."""
    client = account.client("cloudformation")
    named = {"StackName": "s", "ChangeSetName": "c"}
    client.create_change_set(**named, ChangeSetType=kind, TemplateBody=json.dumps({"Resources": resources}))
    client.execute_change_set(**named)
    client.get_waiter(f"stack_{kind.lower()}_complete").wait(StackName="s", WaiterConfig={"Delay": 1, "MaxAttempts": 2})
    client.delete_change_set(**named)


def test_what_cannot_be_done_is_a_failure(account: Account) -> None:
    queue = {"Type": "AWS::SQS::Queue"}
    deploy(account, {"Queue": queue}, "CREATE")
    with pytest.raises((ClientError, WaiterError)):
        deploy(account, {"Queue": queue, "Other": {"Type": "AWS::Made::Up"}})
    described = account.client("cloudformation").describe_stack_events(StackName="s")["StackEvents"]
    assert any("no CloudFormation support for AWS::Made::Up" in event.get("ResourceStatusReason", "") for event in described)


def test_batches_never_hold_a_message_twice() -> None:
    messages = [{"MessageId": name} for name in "abacabd"]
    assert [[m["MessageId"] for m in batch] for batch in batches(messages, 3)] == [["a", "b", "c"], ["a", "b", "d"], ["a"]]

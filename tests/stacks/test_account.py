"""The account on the loopback device: that it fails where AWS would, and where it cannot do what AWS can."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError, WaiterError

from hotfoot.bulk import queues
from support.cloud.account import Account
from support.cloud.deployed import batches
from support.objects import forget_clients

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


def test_versions_go_with_their_resource_unless_they_are_kept(account: Account) -> None:
    role = {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": {}}}
    code = {"ZipFile": "def handler(event, context): pass"}
    function = {
        "Type": "AWS::Lambda::Function",
        "Properties": {"Code": code, "Handler": "index.handler", "Runtime": "python3.13", "Role": {"Fn::GetAtt": ["Role", "Arn"]}},
    }
    version = {"Type": "AWS::Lambda::Version", "Properties": {"FunctionName": {"Ref": "Function"}}}
    base, client = {"Queue": {"Type": "AWS::SQS::Queue"}, "Role": role, "Function": function}, account.client("lambda")

    def versions() -> list[str]:
        [found] = client.list_functions()["Functions"]
        return [v["Version"] for v in client.list_versions_by_function(FunctionName=found["FunctionName"])["Versions"]]

    for kept, left in (({}, ["$LATEST"]), ({"DeletionPolicy": "RetainExceptOnCreate"}, ["$LATEST", "1"])):
        deploy(account, {**base, "Version": {**version, **kept}})
        assert versions() == ["$LATEST", "1"]
        deploy(account, base)
        assert versions() == left


def test_a_message_goes_back_into_its_queue(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the function does it, with a queue that is not only ours."""
    sqs = account.client("sqs")
    url = sqs.create_queue(QueueName="work")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    for name, value in account.function_environ().items():
        monkeypatch.setenv(name, value)
    forget_clients()
    try:
        queues.send_again(arn, '{"key": "é"}')
    finally:
        forget_clients()
    [message] = sqs.receive_message(QueueUrl=url)["Messages"]
    assert message["Body"] == '{"key": "é"}'


def test_batches_never_hold_a_message_twice() -> None:
    messages = [{"MessageId": name} for name in "abacabd"]
    assert [[m["MessageId"] for m in batch] for batch in batches(messages, 3)] == [["a", "b", "c"], ["a", "b", "d"], ["a"]]

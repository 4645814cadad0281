"""The shared cache's part of a template: a table that forgets, a secret, and no right too many."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hotfoot import shared_cache
from support.cloud.synthesized import CONTEXT, references

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The template of a function with the construct, and what cdk-nag says of it."""
    import aws_cdk as cdk
    from aws_cdk import aws_iam as iam
    from aws_cdk import aws_lambda as lam
    from cdk_nag import AwsSolutionsChecks, ServerlessChecks

    from hotfoot_infra.constructs.shared_cache import STANDS, SharedCache

    out = tmp_path_factory.mktemp("cdk")
    app = cdk.App(context=CONTEXT, outdir=str(out))
    stack = cdk.Stack(app, "hotfoot-tiny")
    function = lam.Function(
        stack,
        "Http",
        runtime=lam.Runtime.PYTHON_3_13,
        handler="index.handler",
        code=lam.Code.from_inline("def handler(event, context): ..."),
        role=iam.Role(stack, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com")),
        memory_size=1769,
        timeout=cdk.Duration.seconds(29),
    )
    cache = SharedCache(stack, "SharedCache", function=function)
    for finding, reason in STANDS.items():
        cdk.Validations.of(cache).acknowledge(cdk.Acknowledgment(id=finding, reason=reason))
    for finding in ("AwsSolutions::AwsSolutions-L1", *(f"Serverless::Serverless-Lambda{n}" for n in ("DLQ", "Tracing", "LatestVersion"))):
        cdk.Validations.of(function).acknowledge(cdk.Acknowledgment(id=finding, reason="A function for this test alone, never deployed."))
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app), ServerlessChecks(app))
    template: dict[str, Any] = app.synth().get_stack_by_name("hotfoot-tiny").template
    report = json.loads((Path(out) / "validation-report.json").read_text(encoding="utf-8"))
    return {**template, "found": [v for said in report["pluginReports"] for v in said["violations"]]}


def one(template: Mapping[str, Any], kind: str) -> tuple[str, dict[str, Any]]:
    ((name, found),) = [(n, r) for n, r in template["Resources"].items() if r["Type"] == kind]
    return name, found


def test_no_finding_is_left_open(made: dict[str, Any]) -> None:
    assert made["found"] == []


def test_the_table_is_what_the_runtime_expects_and_forgets(made: dict[str, Any]) -> None:
    _, table = one(made, "AWS::DynamoDB::Table")
    said = table["Properties"]
    assert said["KeySchema"] == [{"AttributeName": "id", "KeyType": "HASH"}]
    assert said["AttributeDefinitions"] == [{"AttributeName": "id", "AttributeType": "B"}]
    assert said["TimeToLiveSpecification"] == {"AttributeName": "expires", "Enabled": True}
    assert said["BillingMode"] == "PAY_PER_REQUEST"
    assert said["SSESpecification"] == {"SSEEnabled": True}
    assert table["DeletionPolicy"] == "Delete"


def test_the_secret_is_made_by_aws_and_long_enough(made: dict[str, Any]) -> None:
    _, secret = one(made, "AWS::SecretsManager::Secret")
    assert secret["Properties"]["GenerateSecretString"] == {"ExcludePunctuation": True, "PasswordLength": 64}
    assert shared_cache.SHORTEST_SECRET <= 64
    assert secret["DeletionPolicy"] == "Delete"


def test_the_function_may_do_no_more_than_it_does(made: dict[str, Any]) -> None:
    table, secret = (one(made, kind)[0] for kind in ("AWS::DynamoDB::Table", "AWS::SecretsManager::Secret"))
    statements = one(made, "AWS::IAM::Policy")[1]["Properties"]["PolicyDocument"]["Statement"]
    rights = {
        (action, *references(s["Resource"]))
        for s in statements
        for action in ([s["Action"]] if isinstance(s["Action"], str) else s["Action"])
    }
    assert rights == {
        ("dynamodb:BatchGetItem", table),
        ("dynamodb:BatchWriteItem", table),
        ("secretsmanager:GetSecretValue", secret),
    }
    assert all(s["Effect"] == "Allow" for s in statements)


def test_the_function_is_told_of_both(made: dict[str, Any]) -> None:
    table, secret = (one(made, kind)[0] for kind in ("AWS::DynamoDB::Table", "AWS::SecretsManager::Secret"))
    told = one(made, "AWS::Lambda::Function")[1]["Properties"]["Environment"]["Variables"]
    assert told == {"HOTFOOT_CACHE_TABLE": {"Ref": table}, "HOTFOOT_CACHE_SECRET": {"Ref": secret}}

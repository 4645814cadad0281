"""What the templates say. One process, few stacks: the CDK's start is most of the time."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from hotfoot.contract import bulk as bulk_options
from hotfoot.contract.errors import HotfootError
from hotfoot.http import headers
from hotfoot_infra import config
from support.cloud.account import ROOT
from support.cloud.bundles import write_bundle
from support.cloud.synthesized import CLOSED, CONTEXT, PUBLIC, Template, references, synthesize

pytestmark = pytest.mark.slow

USUAL: dict[str, int] = {"timeout_s": 29, "memory_mb": 1769, "bulk_timeout_s": 300}


def public(folder: Path, weights: str = "weights", **other: int) -> Template:
    return synthesize(folder, PUBLIC.format(**(USUAL | other)), weights)


@pytest.fixture(scope="session")
def full(tmp_path_factory: pytest.TempPathFactory) -> Template:
    return public(tmp_path_factory.mktemp("full"))


@pytest.fixture(scope="session")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Template:
    return synthesize(tmp_path_factory.mktemp("closed"), CLOSED)


def test_no_finding_is_left_open(full: Template, closed: Template) -> None:
    assert full.findings == closed.findings == {"AwsSolutions": [], "Serverless": []}


def test_a_finding_without_a_reason_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("hotfoot_infra.compose.acknowledge", lambda _stack: None)
    with pytest.raises(RuntimeError, match=r"ValidationFailed: ERROR .*latest runtime"):
        synthesize(tmp_path, CLOSED)


def test_a_door_to_latest_fails(tmp_path: Path) -> None:
    import aws_cdk as cdk
    from aws_cdk import aws_iam as iam
    from aws_cdk import aws_lambda as lam

    from hotfoot_infra.constructs.doors import refuse_latest
    from hotfoot_infra.stacks import DeploymentStack

    write_bundle(tmp_path / "bundles" / "tiny")
    (tmp_path / "hotfoot.toml").write_text(CLOSED, encoding="utf-8")
    wanted = config.read(tmp_path / "hotfoot.toml")[0]
    assert isinstance(wanted, config.Deployment)
    stack = DeploymentStack(cdk.App(outdir=str(tmp_path / "cdk.out")), wanted)
    refuse_latest(stack)
    function = stack.served[0].http.function
    function.add_permission("Door", principal=iam.ServicePrincipal("events.amazonaws.com"))
    function.add_function_url(auth_type=lam.FunctionUrlAuthType.AWS_IAM)
    with pytest.raises(HotfootError, match=r"(?s)Function/Door calls \$LATEST of HttpFunction.*Function/FunctionUrl/Resource calls"):
        refuse_latest(stack)


def test_the_example_can_be_deployed(tmp_path: Path) -> None:
    import aws_cdk as cdk

    from hotfoot_infra.compose import build

    shutil.copy(ROOT / "examples" / "hotfoot.toml", tmp_path)
    for name in ("embed", "pii"):
        write_bundle(tmp_path / "bundles" / name)
    app = cdk.App(context=CONTEXT, outdir=str(tmp_path / "cdk.out"))
    started = time.monotonic()
    build(tmp_path / "hotfoot.toml", app)
    assert [stack.stack_name for stack in app.synth().stacks] == ["hotfoot-embed", "hotfoot-pii"]
    assert time.monotonic() - started < 30


def test_nothing_but_plain_resources(full: Template) -> None:
    kinds = {resource["Type"] for resource in full.document["Resources"].values()}
    assert not [kind for kind in kinds if kind.startswith(("Custom::", "AWS::CloudFormation::"))]
    assert len(full.all("AWS::Lambda::Function")) == 2  # and no helper of the CDK's own
    assert not full.document.get("Mappings")


def test_the_functions_share_code_and_layers(full: Template) -> None:
    http, bulk = full.one("AWS::Lambda::Function", "Http"), full.one("AWS::Lambda::Function", "Bulk")
    assert http["Layers"] == bulk["Layers"]
    assert http["Code"] == bulk["Code"]
    # in the order in which Lambda merges them
    assert [layer["Ref"][:8] for layer in http["Layers"]] == ["RuntimeL", "Tokenize", "ModelLay"]
    assert len(full.all("AWS::Lambda::LayerVersion")) == 3
    assert (http["Runtime"], http["Architectures"], http["Timeout"]) == ("python3.13", ["arm64"], 29)
    assert http["Handler"] == "hotfoot.handlers.http.handler"
    assert http["Environment"]["Variables"] == {
        "HOTFOOT_LOG_LEVEL": "INFO",
        "ORT_DISABLE_TELEMETRY": "1",
        "POWERTOOLS_METRICS_NAMESPACE": "hotfoot",
        "POWERTOOLS_SERVICE_NAME": "hotfoot-tiny",
    }
    assert bulk["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"] == "hotfoot-tiny-bulk"


def test_all_doors_lead_to_the_alias(full: Template) -> None:
    functions = set(full.all("AWS::Lambda::Function"))
    doors = [
        full.one("AWS::Lambda::EventSourceMapping")["FunctionName"],
        full.one("AWS::ApiGatewayV2::Integration")["IntegrationUri"],
        full.one("AWS::Lambda::Permission")["FunctionName"],
    ]
    for door in doors:
        assert set(references(door)) <= set(full.all("AWS::Lambda::Alias"))
        assert not set(references(door)) & functions
    assert {alias["Name"] for alias in full.all("AWS::Lambda::Alias").values()} == {"live"}


def test_the_bulk_function_is_told_what_it_reads(full: Template) -> None:
    told = full.one("AWS::Lambda::Function", "Bulk")["Environment"]["Variables"]
    assert full.one("AWS::Lambda::Function", "Bulk")["Handler"] == "hotfoot.handlers.bulk.handler"
    options = bulk_options.read(told["HOTFOOT_BULK"])
    assert options == bulk_options.BulkOptions(mask=True, parameters={"aggregation_strategy": "simple"})
    assert told["HOTFOOT_RESULTS_PREFIX"] == "out"
    assert told["HOTFOOT_RESULTS_BUCKET"] == {"Ref": full.id("AWS::S3::Bucket", "Results")}


def test_buckets_are_private_encrypted_and_tell_eventbridge(full: Template) -> None:
    for bucket in full.all("AWS::S3::Bucket").values():
        assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
        (rule,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        assert rule["ServerSideEncryptionByDefault"]["SSEAlgorithm"] == "AES256"
    texts = full.one("AWS::S3::Bucket", "Input")
    assert texts["VersioningConfiguration"] == {"Status": "Enabled"}
    assert texts["NotificationConfiguration"] == {"EventBridgeConfiguration": {"EventBridgeEnabled": True}}
    for policy in [*full.all("AWS::S3::BucketPolicy").values(), *full.all("AWS::SQS::QueuePolicy").values()]:
        denied = [s["Condition"] for s in policy["PolicyDocument"]["Statement"] if s["Effect"] == "Deny"]
        assert {"Bool": {"aws:SecureTransport": "false"}} in denied


def test_no_event_is_lost_in_silence(full: Template) -> None:
    rule = full.one("AWS::Events::Rule")
    assert rule["EventPattern"]["detail"]["object"] == {
        "key": [{"wildcard": "in/*.jsonl"}, {"wildcard": "in/*.txt"}],
        "size": [{"numeric": [">", 0]}],
    }
    (target,) = rule["Targets"]
    assert target["RetryPolicy"] == {"MaximumEventAgeInSeconds": 86400, "MaximumRetryAttempts": 185}
    undelivered = full.id("AWS::SQS::Queue", "Undelivered")
    assert target["DeadLetterConfig"]["Arn"]["Fn::GetAtt"][0] == undelivered
    queue = full.all("AWS::SQS::Queue")
    work, dead = queue[target["Arn"]["Fn::GetAtt"][0]], queue[full.id("AWS::SQS::Queue", "DeadLetters")]
    assert 5 <= work["RedrivePolicy"]["maxReceiveCount"] <= 10  # five at least is AWS's advice
    assert dead["MessageRetentionPeriod"] == queue[undelivered]["MessageRetentionPeriod"] == 14 * 86400 > work["MessageRetentionPeriod"]
    assert all(q["SqsManagedSseEnabled"] for q in queue.values())
    for name, policy in full.all("AWS::SQS::QueuePolicy").items():
        allowed = [s for s in policy["PolicyDocument"]["Statement"] if s["Effect"] == "Allow"]
        assert ("DeadLetters" in name) is (allowed == [])
        assert all(s["Condition"]["ArnEquals"]["aws:SourceArn"]["Fn::GetAtt"][0] in full.all("AWS::Events::Rule") for s in allowed)
    watched = [a["MetricName"] for a in full.all("AWS::CloudWatch::Alarm").values()]
    assert watched.count("ApproximateNumberOfMessagesVisible") == 2
    assert {"Errors", "Throttles", "5xx"} <= set(watched)


@pytest.mark.parametrize("seconds", [10, 300, 900])
def test_a_message_stays_hidden_while_it_is_worked_on(seconds: int, tmp_path: Path) -> None:
    made = public(tmp_path, bulk_timeout_s=seconds)
    queue = made.one("AWS::SQS::Queue", "BulkQueue")
    source = made.one("AWS::Lambda::EventSourceMapping")
    assert queue["VisibilityTimeout"] >= 6 * seconds + source.get("MaximumBatchingWindowInSeconds", 0)
    assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert source["ScalingConfig"] == {"MaximumConcurrency": 10}
    assert source["BatchSize"] == 1  # a large object takes no other's time


def test_the_function_may_go_on_in_new_messages(full: Template) -> None:
    assert full.one("AWS::Lambda::Function", "Bulk")["RecursiveLoop"] == "Allow"
    assert "RecursiveLoop" not in full.one("AWS::Lambda::Function", "Http")
    [sending] = [
        s for s in full.one("AWS::IAM::Policy", "BulkFunctionRole")["PolicyDocument"]["Statement"] if "sqs:SendMessage" in s["Action"]
    ]
    queue = full.one("AWS::Lambda::EventSourceMapping")["EventSourceArn"]
    assert sending["Resource"] == queue  # its own, and no other
    assert any("sqs:GetQueueUrl" in s["Action"] for s in full.one("AWS::IAM::Policy", "BulkFunctionRole")["PolicyDocument"]["Statement"])


def test_old_versions_stay(full: Template, closed: Template) -> None:
    """Or there is nothing that a deployment could be taken back to. But not one that a failed deployment made."""
    for template in (full, closed):
        found = [r for r in template.document["Resources"].values() if r["Type"] == "AWS::Lambda::Version"]
        assert found
        assert {(r["DeletionPolicy"], r["UpdateReplacePolicy"]) for r in found} == {("RetainExceptOnCreate", "Retain")}


def test_browsers(full: Template, closed: Template, tmp_path: Path) -> None:
    """A page of a site that is named may ask before it signs; nothing else is open."""
    for template in (full, closed):
        assert "CorsConfiguration" not in template.one("AWS::ApiGatewayV2::Api")
    origins = ["https://app.example.com", "http://localhost:5173"]
    made = synthesize(tmp_path, f"[deploy.tiny]\ncors_origins = {json.dumps(origins)}\n")
    assert made.findings == closed.findings
    said = made.one("AWS::ApiGatewayV2::Api")["CorsConfiguration"]
    assert said["AllowOrigins"] == origins
    # what the app itself says where nothing stands before it, and what a signature needs
    assert set(said["ExposeHeaders"]) == set(headers.CORS["access-control-expose-headers"].split(", "))
    asked = set(headers.PREFLIGHT["access-control-allow-headers"].split(", "))
    assert set(said["AllowHeaders"]) == asked | {"x-amz-content-sha256", "x-amz-date", "x-amz-security-token"}
    assert set(said["AllowMethods"]) == set(headers.PREFLIGHT["access-control-allow-methods"].split(", "))
    assert said["MaxAge"] == int(headers.PREFLIGHT["access-control-max-age"])
    routes = {route["RouteKey"]: route for route in made.all("AWS::ApiGatewayV2::Route").values()}
    assert {key: route["AuthorizationType"] for key, route in routes.items()} == {
        "$default": "AWS_IAM", "OPTIONS /": "NONE", "OPTIONS /{proxy+}": "NONE",
    }  # fmt: skip
    assert len({json.dumps(route["Target"]) for route in routes.values()}) == 1


def test_a_time_that_the_api_cannot_wait_is_a_warning(tmp_path: Path) -> None:
    made = public(tmp_path, timeout_s=60)
    assert made.one("AWS::Lambda::Function", "Http")["Timeout"] == 60
    assert any("HTTP API gives up after 30 s" in warning for warning in made.warnings)


def test_roles_have_their_own_narrow_policies(full: Template) -> None:
    assert not full.all("AWS::IAM::ManagedPolicy")
    assert all("ManagedPolicyArns" not in role for role in full.all("AWS::IAM::Role").values())
    statements: list[dict[str, Any]] = [
        s for policy in full.all("AWS::IAM::Policy").values() for s in policy["PolicyDocument"]["Statement"]
    ]
    actions = {a for s in statements for a in ([s["Action"]] if isinstance(s["Action"], str) else s["Action"])}
    assert not [a for a in actions if "*" in a]
    assert all(s["Resource"] != "*" for s in statements)
    http = full.one("AWS::IAM::Policy", "HttpRole")["PolicyDocument"]["Statement"]
    assert [s["Action"] for s in http] == [["logs:CreateLogStream", "logs:PutLogEvents"]]


def test_the_api_is_logged_and_throttled(full: Template, closed: Template) -> None:
    stage = full.one("AWS::ApiGatewayV2::Stage")
    assert (stage["StageName"], stage["AutoDeploy"]) == ("$default", True)
    assert stage["DefaultRouteSettings"] == {"ThrottlingBurstLimit": 7, "ThrottlingRateLimit": 5}
    assert "$context.requestId" in json.loads(stage["AccessLogSettings"]["Format"]).values()
    assert full.one("AWS::ApiGatewayV2::Integration")["PayloadFormatVersion"] == "2.0"
    assert full.one("AWS::ApiGatewayV2::Route")["RouteKey"] == "$default"
    assert full.one("AWS::ApiGatewayV2::Route")["AuthorizationType"] == "NONE"
    assert closed.one("AWS::ApiGatewayV2::Route")["AuthorizationType"] == "AWS_IAM"
    assert {group["RetentionInDays"] for group in full.all("AWS::Logs::LogGroup").values()} == {7}


def test_removal_decides_what_stays(full: Template, closed: Template) -> None:
    for template, kept in ((full, "Delete"), (closed, "Retain")):
        stateful = [r for r in template.document["Resources"].values() if r["Type"] in ("AWS::S3::Bucket", "AWS::Logs::LogGroup")]
        assert {r["DeletionPolicy"] for r in stateful} == {kept}


def test_without_bulk_there_is_one_function(closed: Template) -> None:
    function = closed.one("AWS::Lambda::Function")
    assert function["ReservedConcurrentExecutions"] == 4
    assert closed.one("AWS::Lambda::Alias")["ProvisionedConcurrencyConfig"] == {"ProvisionedConcurrentExecutions": 2}
    assert not closed.all("AWS::S3::Bucket")
    assert set(closed.document["Outputs"]) == {"ApiUrl", "FunctionName", "Alias"}


def test_outputs(full: Template) -> None:
    named = {"ApiUrl", "FunctionName", "Alias", "InputBucket", "ResultsBucket", "QueueUrl", "DlqUrl", "UndeliveredUrl", "BulkFunctionName"}
    assert set(full.document["Outputs"]) == named


def test_a_version_is_as_new_as_what_it_runs(full: Template, tmp_path: Path) -> None:
    def versions(template: Template) -> tuple[str, str]:
        return template.id("AWS::Lambda::Version", "Http"), template.id("AWS::Lambda::Version", "Bulk")

    same, memory, model = public(tmp_path / "a"), public(tmp_path / "b", memory_mb=2048), public(tmp_path / "c", weights="others")
    assert same.document == full.document
    assert versions(memory)[0] != versions(full)[0]
    assert versions(memory)[1] == versions(full)[1]
    assert not set(versions(model)) & set(versions(full))
    assert len(set(model.all("AWS::Lambda::LayerVersion")) & set(full.all("AWS::Lambda::LayerVersion"))) == 2


def test_a_shared_cache_is_there_where_it_is_asked_for(tmp_path: Path, closed: Template) -> None:
    asked = synthesize(tmp_path, CLOSED + "shared_cache = true\n")
    assert not closed.all("AWS::DynamoDB::Table")
    assert not any(asked.findings.values())
    told = asked.one("AWS::Lambda::Function", "Http")["Environment"]["Variables"]
    assert told["HOTFOOT_CACHE_TABLE"] == {"Ref": asked.id("AWS::DynamoDB::Table")}
    assert told["HOTFOOT_CACHE_SECRET"] == {"Ref": asked.id("AWS::SecretsManager::Secret")}

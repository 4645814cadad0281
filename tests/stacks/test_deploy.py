"""A stack deployed into an account on this machine, changed, run from what was deployed, and removed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hotfoot.contract.project import FILE
from hotfoot.targets import machine_arch
from hotfoot_build.init_command import init
from hotfoot_build.package.bundle import bundle
from support import events
from support.cloud.account import ACCOUNT, REGION, Account
from support.cloud.deployed import Queue, Stack
from support.handmade import retarget
from support.rigged import Rig, rigged_artifact

pytestmark = pytest.mark.slow

STACK = "hotfoot-tiny"
TOML = """
[deploy.tiny]
bundle = "{bundle}"
auth = "none"
memory_mb = {memory_mb}
removal = "destroy"
[deploy.tiny.bulk]
input_prefix = "in/"
input_suffixes = [".txt", ".jsonl"]
"""
OTHER = {"good": (3.0, -2.0), "bad": (-1.0, 4.0), "fine": (1.0, 0.0)}  # the other way round
OBJECTS, AGAIN = 200, 40


class Project:
    """A folder as `hotfoot init` makes it, and its stack in an account."""

    def __init__(self, home: Path) -> None:
        self.home, self.folder, self.account = home, home / "project", Account(home)
        init(self.folder)
        self.stack = Stack(self.account, STACK)
        for name, rig in (("first", Rig()), ("second", Rig(words=OTHER))):
            artifact = rigged_artifact(home / f"artifact-{name}", "text-classification", rig)
            retarget(artifact, f"lambda-{machine_arch()}")
            bundle(artifact, self.folder / name, progress=print)

    def synth(self, bundle_name: str, memory_mb: int = 1769) -> None:
        """Write hotfoot.toml and make the templates."""
        (self.folder / FILE).write_text(TOML.format(bundle=bundle_name, memory_mb=memory_mb), encoding="utf-8")
        self.account.cdk(self.folder, "synth", "--quiet")

    def cdk(self, *arguments: str) -> str:
        """Run `cdk` on the templates that are there."""
        return self.account.cdk(self.folder, *arguments, "--app", "cdk.out")

    def versions(self) -> dict[str, str]:
        """The live version of each function."""
        outputs = self.stack.outputs
        return {name: self.stack.configuration(outputs[name])["Version"] for name in ("FunctionName", "BulkFunctionName")}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    made = Project(tmp_path_factory.mktemp("deploy"))
    with made.account:
        made.synth("first")
        made.cdk("bootstrap", f"aws://{ACCOUNT}/{REGION}")
        made.cdk("deploy", STACK, "--require-approval", "never")
        yield made


# the tests go on where the one before ended, as a project does


def test_what_is_deployed_is_what_was_asked_for(project: Project) -> None:
    outputs = project.stack.outputs
    assert outputs["Alias"] == "live"
    assert outputs["ApiUrl"].startswith("https://")
    live = project.stack.configuration(outputs["FunctionName"])
    assert live["Version"] == "1"
    assert (live["MemorySize"], live["Timeout"], live["Handler"]) == (1769, 29, "hotfoot.handlers.http.handler")
    assert live["Architectures"] == [machine_arch()]
    bulk = project.stack.configuration(outputs["BulkFunctionName"])
    assert [layer["Arn"] for layer in bulk["Layers"]] == [layer["Arn"] for layer in live["Layers"]]
    assert len(live["Layers"]) == 3
    (source,) = project.account.client("lambda").list_event_source_mappings()["EventSourceMappings"]
    assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert source["FunctionArn"].endswith(":live")


def test_nothing_is_left_to_change(project: Project) -> None:
    assert "There were no differences" in project.cdk("diff", STACK)


def test_the_api_answers_from_what_was_deployed(project: Project) -> None:
    assert top_label(project, "good") == "POSITIVE"


def test_texts_in_a_bucket_become_one_result_each(project: Project) -> None:
    outputs, s3 = project.stack.outputs, project.account.client("s3")
    for number in range(OBJECTS):
        s3.put_object(Bucket=outputs["InputBucket"], Key=f"in/{number:03d}.txt", Body=f"good {number}\nbad {number}\n".encode())
    for key, body in (("elsewhere/1.txt", b"good"), ("in/1.png", b"good"), ("in/folder.txt", b"")):
        s3.put_object(Bucket=outputs["InputBucket"], Key=key, Body=body)  # no object for the pipeline
    queue = Queue(project.account, outputs["QueueUrl"])
    messages = queue.take()
    assert len(messages) == OBJECTS
    dice = random.Random(0)  # noqa: S311 - an order, and the same one each time
    delivered = [*messages, *dice.sample(messages, AGAIN)]  # SQS delivers at least once, in any order
    dice.shuffle(delivered)
    with project.stack.run(outputs["BulkFunctionName"], project.home / "bulk") as function:
        assert queue.deliver(delivered, function) == []
    assert queue.take() == []
    lines, reports = results_of(s3, outputs["ResultsBucket"])
    assert len(reports) == OBJECTS
    found = sorted((line["key"], line["line"]) for line in lines)
    assert found == sorted((f"in/{number:03d}.txt", line) for number in range(OBJECTS) for line in (1, 2))
    assert {(line["line"], line["prediction"][0]["label"]) for line in lines} == {(1, "POSITIVE"), (2, "NEGATIVE")}


def test_more_memory_is_a_new_version(project: Project) -> None:
    before = project.versions()
    project.synth("first", memory_mb=2048)
    project.cdk("deploy", STACK, "--require-approval", "never")
    live = project.stack.configuration(project.stack.outputs["FunctionName"])
    assert live["MemorySize"] == 2048
    after = project.versions()
    assert after["FunctionName"] != before["FunctionName"]
    assert after["BulkFunctionName"] == before["BulkFunctionName"]  # it did not change


def test_another_model_is_a_new_version_and_uploads_no_other_layer(project: Project) -> None:
    before, assets = project.versions(), assets_of(project)
    layers = project.stack.configuration(project.stack.outputs["FunctionName"])["Layers"]
    project.synth("second", memory_mb=2048)
    project.cdk("deploy", STACK, "--require-approval", "never")
    after = project.versions()
    assert all(after[name] != before[name] for name in before)
    changed = project.stack.configuration(project.stack.outputs["FunctionName"])["Layers"]
    assert [old["Arn"] == new["Arn"] for old, new in zip(layers, changed, strict=True)] == [True, True, False]
    assert len([key for key in assets_of(project) - assets if key.endswith(".zip")]) == 1
    assert top_label(project, "good") == "NEGATIVE"


def test_a_deployment_can_be_taken_back(project: Project) -> None:
    """By the alias alone, for the versions before are still there."""
    name, client = project.stack.outputs["FunctionName"], project.account.client("lambda")
    live = project.versions()["FunctionName"]
    assert [v["Version"] for v in client.list_versions_by_function(FunctionName=name)["Versions"]] == ["$LATEST", "1", "2", "3"]
    assert live == "3"
    client.update_alias(FunctionName=name, Name="live", FunctionVersion="2")
    taken_back = project.stack.configuration(name)
    assert (taken_back["Version"], taken_back["MemorySize"]) == ("2", 2048)
    client.update_alias(FunctionName=name, Name="live", FunctionVersion=live)


def test_nothing_is_left_after_a_destroy(project: Project) -> None:
    outputs = project.stack.outputs
    for bucket in (outputs["InputBucket"], outputs["ResultsBucket"]):
        empty(project.account.client("s3"), bucket)  # CloudFormation deletes no bucket with something in it
    project.cdk("destroy", STACK, "--force")
    assert project.account.client("lambda").list_functions()["Functions"] == []
    assert project.account.client("apigatewayv2").get_apis()["Items"] == []
    names = [bucket["Name"] for bucket in project.account.client("s3").list_buckets()["Buckets"]]
    assert [name for name in names if "hotfoot" in name] == []
    assert project.account.client("sqs").list_queues().get("QueueUrls", []) == []


def top_label(project: Project, text: str) -> str:
    """What the deployed HTTP function says of a text."""
    directory = project.home / f"http-{project.versions()['FunctionName']}"
    with project.stack.run(project.stack.outputs["FunctionName"], directory) as function:
        answer = function.invoke(events.request("apigateway_v2", "/", {"inputs": text}))
    assert answer["statusCode"] == 200, answer
    found: str = json.loads(answer["body"])[0][0]["label"]
    return found


def keys_of(s3: Any, bucket: str) -> list[str]:
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return [item["Key"] for page in pages for item in page.get("Contents", [])]


def assets_of(project: Project) -> set[str]:
    return set(keys_of(project.account.client("s3"), f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}"))


def results_of(s3: Any, bucket: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Every result line, with the key of the text that it is about, and every report."""
    lines, reports = [], []
    for key in keys_of(s3, bucket):
        if key.endswith("/_report.json"):
            reports.append(key)
            continue
        source = "in/" + key.split("/in/")[1].split("/")[0]
        body = s3.get_object(Bucket=bucket, Key=key)["Body"].read().decode()
        lines += [{**json.loads(line), "key": source} for line in body.splitlines()]
    return lines, reports


def empty(s3: Any, bucket: str) -> None:
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
        for item in [*page.get("Versions", []), *page.get("DeleteMarkers", [])]:
            s3.delete_object(Bucket=bucket, Key=item["Key"], VersionId=item["VersionId"])

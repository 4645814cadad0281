"""Weights that do not fit into layers: an object of their own, one right to read it, and a function that starts with it."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console

from hotfoot.contract.bundle import Package
from hotfoot.contract.errors import InputError
from hotfoot.contract.manifest import WEIGHTS, sha256
from hotfoot.contract.project import FILE
from hotfoot.targets import machine_arch
from hotfoot_build import cold_command
from hotfoot_build.init_command import init
from hotfoot_build.package import tree
from hotfoot_build.package.bundle import bundle
from hotfoot_build.package.emulate import Emulator, InvocationError
from hotfoot_infra import config
from support import events
from support.cloud.account import Account
from support.cloud.bundles import write_bundle
from support.cloud.deployed import ASSETS, Stack
from support.cloud.image_bundles import write_image_bundle
from support.cloud.synthesized import Template, synthesize_all
from support.handmade import retarget
from support.parted import parted_artifact

TOML = "[deploy.tiny]\n[deploy.tiny.bulk]\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Template, Path]:
    home = tmp_path_factory.mktemp("weights")
    write_bundle(home / "bundles" / "tiny", package="s3", weights="the weights")
    return synthesize_all(home, TOML)["hotfoot-tiny"], home / "bundles" / "tiny"


@pytest.mark.slow
def test_both_functions_are_told_of_the_object_and_may_read_it_and_no_other(made: tuple[Template, Path]) -> None:
    template, folder = made
    assets = json.loads(next((folder.parents[1] / "cdk.out").glob("*.assets.json")).read_text())["files"]
    (key,) = [
        target["objectKey"]
        for asset in assets.values()
        for target in asset["destinations"].values()
        if target["objectKey"].endswith(".data")
    ]
    for part in ("Http", "Bulk"):
        told = template.one("AWS::Lambda::Function", part)["Environment"]["Variables"]["HOTFOOT_WEIGHTS"]
        assert told == {"Fn::Sub": f"s3://cdk-hnb659fds-assets-${{AWS::AccountId}}-${{AWS::Region}}/{key}"}
    statements = [
        statement
        for policy in template.all("AWS::IAM::Policy").values()
        for statement in policy["PolicyDocument"]["Statement"]
        if key in json.dumps(statement)
    ]
    assert [statement["Action"] for statement in statements] == ["s3:GetObject"] * 2
    assert template.findings == {"AwsSolutions": [], "Serverless": []}
    assert not template.warnings


@pytest.mark.slow
def test_layers_alone_need_no_such_right(tmp_path: Path) -> None:
    write_bundle(tmp_path / "bundles" / "tiny")
    template = synthesize_all(tmp_path, "[deploy.tiny]\n")["hotfoot-tiny"]
    assert "HOTFOOT_WEIGHTS" not in json.dumps(template.document)
    assert "s3:GetObject" not in json.dumps(template.document)


def told_of(tmp_path: Path, toml: str, count: int) -> list[str]:
    """The faults of a deployment whose weights have so many bytes, as its bundle says."""
    folder = tmp_path / "bundles" / "tiny"
    write_bundle(folder, package="s3")
    document = json.loads((folder / "bundle.json").read_text())
    document["weights"]["unzipped_bytes"] = count
    (folder / "bundle.json").write_text(json.dumps(document))
    (tmp_path / FILE).write_text(toml, encoding="utf-8")
    try:
        config.read(tmp_path / FILE)
    except InputError as error:
        return [line.strip() for line in str(error).splitlines()[1:]]
    return []


def test_the_memory_must_hold_the_weights_twice(tmp_path: Path) -> None:
    toml = "[deploy.tiny]\nmemory_mb = 1400\n[deploy.tiny.bulk]\nmemory_mb = 1124\n"
    fits = 462 * 2**20
    assert told_of(tmp_path, toml, fits) == []
    words = "the bundle's weights come from S3 and lie in memory twice at first, which takes"
    assert told_of(tmp_path, toml, fits + 2**20) == [f"hotfoot.toml:4: deploy.tiny.bulk.memory_mb: is 1124; {words} 1126"]
    assert len(told_of(tmp_path, toml, 700 * 2**20)) == 2
    assert told_of(tmp_path, "[deploy.tiny]\n", 900 * 2**20) == [f"hotfoot.toml:1: deploy.tiny.memory_mb: is 1769; {words} 2000"]


@pytest.mark.parametrize(("package", "file"), [("s3", "weights/hotfoot/model/weights.data"), ("image", "Dockerfile")])
def test_a_bundle_that_lost_what_its_package_is_made_of_is_a_fault_of_its_own(package: Package, file: str, tmp_path: Path) -> None:
    folder = tmp_path / "bundles" / "tiny"
    if package == "image":
        write_image_bundle(folder)
    else:
        write_bundle(folder, package=package)
    (tmp_path / FILE).write_text("[deploy.tiny]\n", encoding="utf-8")
    assert config.read(tmp_path / FILE)
    (folder / file).unlink()
    with pytest.raises(InputError, match=f"deploy.tiny.bundle: {file} is missing in {folder}"):
        config.read(tmp_path / FILE)


@dataclass(frozen=True)
class Deployed:
    """A stack whose function takes its weights from the account's S3. folder: the bundle; weights: the artifact's own."""

    account: Account
    stack: Stack
    folder: Path
    weights: Path

    @property
    def key(self) -> str:
        """Where the weights are."""
        told = self.stack.configuration(self.function)["Environment"]["Variables"]["HOTFOOT_WEIGHTS"]
        assert told.startswith(f"s3://{ASSETS}/")
        return str(told.removeprefix(f"s3://{ASSETS}/"))

    @property
    def function(self) -> str:
        """Its name."""
        return self.stack.outputs["FunctionName"]


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    home = tmp_path_factory.mktemp("weights-deployed")
    with Account(home) as account:
        folder = home / "project"
        init(folder)
        artifact = parted_artifact(home / "artifact", "text-classification")
        retarget(artifact, f"lambda-{machine_arch()}")
        bundle(artifact, folder / "tiny", progress=print, package="s3")
        (folder / FILE).write_text('[deploy.tiny]\nbundle = "tiny"\nauth = "none"\nremoval = "destroy"\n', encoding="utf-8")
        account.cdk(folder, "bootstrap")
        account.cdk(folder, "deploy", "--require-approval", "never")
        yield Deployed(account, Stack(account, "hotfoot-tiny"), folder / "tiny", artifact / WEIGHTS)


@pytest.mark.slow
def test_the_deployed_function_starts_with_the_object_and_answers(deployed: Deployed, tmp_path: Path) -> None:
    body = deployed.account.client("s3").get_object(Bucket=ASSETS, Key=deployed.key)["Body"].read()
    (tmp_path / "body").write_bytes(body)
    assert sha256(tmp_path / "body") == sha256(deployed.weights)
    with deployed.stack.run(deployed.function, tmp_path / "live") as running:
        for text, label in (("good", "POSITIVE"), ("bad", "NEGATIVE")):
            answer = running.invoke(events.request("apigateway_v2", "/", {"inputs": text}))
            assert answer["statusCode"] == 200, answer
            assert json.loads(answer["body"])[0][0]["label"] == label
    assert not list((tmp_path / "live").rglob(WEIGHTS))


@pytest.mark.slow
def test_away_from_aws_the_weights_lie_over_the_model(deployed: Deployed) -> None:
    before = tree.content_hash(deployed.folder)
    with Emulator(deployed.folder) as running:
        answer = running.invoke(events.request("apigateway_v2", "/", {"inputs": "good"}))
    assert json.loads(answer["body"])[0][0]["label"] == "POSITIVE"
    assert tree.content_hash(deployed.folder) == before


@pytest.mark.slow
def test_its_cold_start_is_measured_with_a_word_on_what_is_not_in_it(deployed: Deployed, tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=200)
    cold_command.cold(deployed.folder, cold_command.Options(runs=1, out=tmp_path), console)
    assert "of weights lay beside the graph: to read them from S3 comes on top" in console.file.getvalue()  # type: ignore[attr-defined]
    assert json.loads((tmp_path / "cold.json").read_text())["starts"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda body: body[:-1], r"has \d+ bytes, the manifest says \d+"),
        (lambda body: body[:-1] + bytes([body[-1] ^ 1]), "was changed: its sha256 is"),
        (lambda _: None, "there is no object s3://"),
    ],
)
def test_another_object_fails_the_start_with_its_reason(deployed: Deployed, tmp_path: Path, change: object, message: str) -> None:
    s3, place = deployed.account.client("s3"), {"Bucket": ASSETS, "Key": deployed.key}
    whole = deployed.weights.read_bytes()
    other = change(whole)  # type: ignore[operator]
    if other is None:
        s3.delete_object(**place)
    else:
        s3.put_object(**place, Body=other)
    try:
        with deployed.stack.run(deployed.function, tmp_path / "live") as running, pytest.raises(InvocationError, match=message):
            running.invoke(events.request("apigateway_v2", "/", {"inputs": "good"}))
    finally:
        s3.put_object(**place, Body=whole)

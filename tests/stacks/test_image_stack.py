"""A bundle that is a container image: in the template, and deployed into an account on this machine by a CDK without Docker."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from hotfoot.contract import codec
from hotfoot.contract.bundle import BUNDLE, Bundle
from hotfoot.contract.errors import InputError
from hotfoot.contract.project import FILE
from hotfoot_build.init_command import init
from hotfoot_infra import config
from support import images
from support.cloud.account import ACCOUNT, REGION, Account
from support.cloud.bundles import write_bundle
from support.cloud.deployed import Stack
from support.cloud.image_bundles import write_image_bundle
from support.cloud.synthesized import Template, synthesize_all

HTTP, BULK = "hotfoot.handlers.http.handler", "hotfoot.handlers.bulk.handler"
STACK = "hotfoot-tiny"
TOML = '[deploy.tiny]\nauth = "none"\nremoval = "destroy"\n[deploy.tiny.bulk]\n'
REPOSITORY = f"cdk-hnb659fds-container-assets-{ACCOUNT}-{REGION}"
SENT = {"Dockerfile", ".dockerignore", "layers", "code"}


def synthesized(folder: Path, toml: str = TOML, **bundle: str) -> Template:
    write_image_bundle(folder / "bundles" / "tiny", **bundle)
    (made,) = synthesize_all(folder, toml).values()
    return made


def sources(folder: Path) -> dict[str, dict[str, Any]]:
    """The images that are to be built, by their hashes."""
    (listed,) = (folder / "cdk.out").glob("*.assets.json")
    found: dict[str, dict[str, Any]] = json.loads(listed.read_text(encoding="utf-8"))["dockerImages"]
    return {key: asset["source"] for key, asset in found.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("image")


@pytest.fixture(scope="module")
def template(folder: Path) -> Template:
    return synthesized(folder)


@pytest.mark.slow
def test_both_functions_are_one_image_and_two_commands(template: Template) -> None:
    functions = {part: template.one("AWS::Lambda::Function", part) for part in ("Http", "Bulk")}
    assert {part: function["ImageConfig"] for part, function in functions.items()} == {
        "Http": {"Command": [HTTP]},
        "Bulk": {"Command": [BULK]},
    }
    for function in functions.values():
        assert function["PackageType"] == "Image"
        assert function["Architectures"] == ["arm64"]
        assert not {"Runtime", "Handler", "Layers", "SnapStart"} & set(function)
    assert functions["Http"]["Code"] == functions["Bulk"]["Code"]
    assert not template.all("AWS::Lambda::LayerVersion")
    assert template.one("AWS::Lambda::Alias", "Http")["Name"] == "live"
    assert template.findings == {"AwsSolutions": [], "Serverless": []}
    assert not template.warnings


@pytest.mark.slow
def test_docker_is_sent_what_the_image_is_made_of_and_told_the_cpu(folder: Path, template: Template) -> None:
    ((key, source),) = sources(folder).items()
    assert source == {"directory": f"asset.{key}", "platform": "linux/arm64"}
    assert json.dumps(template.one("AWS::Lambda::Function", "Http")["Code"]).count(key) == 1
    context = folder / "cdk.out" / source["directory"]
    assert {path.name for path in context.iterdir()} == SENT
    bundle = folder / "bundles" / "tiny"
    within = {path.relative_to(bundle).as_posix() for name in ("layers", "code") for path in (bundle / name).rglob("*")}
    assert {path.relative_to(context).as_posix() for path in context.rglob("*")} == within | SENT


@pytest.mark.slow
@pytest.mark.parametrize(("weights", "target"), [("other", "lambda-arm64"), ("weights", "lambda-x86_64")])
def test_the_image_is_another_when_the_model_or_the_cpu_is(
    weights: str, target: str, folder: Path, template: Template, tmp_path: Path
) -> None:
    made = synthesized(tmp_path, weights=weights, target=target)
    (source,) = sources(tmp_path).values()
    assert sources(tmp_path).keys() != sources(folder).keys()
    assert source["platform"] == {"lambda-arm64": "linux/arm64", "lambda-x86_64": "linux/amd64"}[target]
    assert made.one("AWS::Lambda::Function", "Http")["Architectures"] == [target.removeprefix("lambda-")]
    versions = [document.id("AWS::Lambda::Version", "Http") for document in (made, template)]
    assert versions[0] != versions[1], "a new version, behind the alias"


@pytest.mark.slow
def test_a_note_beside_it_is_no_other_image(folder: Path, template: Template, tmp_path: Path) -> None:
    made = write_image_bundle(tmp_path / "bundles" / "tiny")
    (tmp_path / "bundles" / "tiny" / "ledger.json").write_text("changed", encoding="utf-8")
    rewrite(tmp_path / "bundles" / "tiny", replace(made, bytecode=False))
    synthesize_all(tmp_path, TOML)
    assert sources(tmp_path) == sources(folder)
    assert template.all("AWS::Lambda::Function")


def rewrite(directory: Path, made: Bundle) -> None:
    (directory / BUNDLE).write_text(codec.dumps(made), encoding="utf-8")


@pytest.mark.slow
def test_an_image_may_wake_from_a_snapshot(tmp_path: Path) -> None:
    """AWS's Python base calls the hooks as the managed runtime does."""
    write_image_bundle(tmp_path / "bundles" / "tiny")
    (template,) = synthesize_all(tmp_path, "[deploy.tiny]\nsnap_start = true\n").values()
    assert template.one("AWS::Lambda::Function")["SnapStart"] == {"ApplyOn": "PublishedVersions"}
    assert template.one("AWS::Lambda::Function")["PackageType"] == "Image"
    assert not any(template.findings.values())


@pytest.mark.parametrize("package", ["image", "layers"])
def test_an_image_may_be_larger_than_what_lambda_unzips(package: str, tmp_path: Path) -> None:
    directory = tmp_path / "bundles" / "tiny"
    made = write_image_bundle(directory) if package == "image" else write_bundle(directory)
    rewrite(directory, replace(made, code=replace(made.code, unzipped_bytes=400_000_000)))
    (tmp_path / FILE).write_text("[deploy.tiny]\n", encoding="utf-8")
    if package == "image":
        (deployment,) = config.read(tmp_path / FILE)
        assert isinstance(deployment, config.Deployment)
        assert deployment.bundle.unzipped_bytes > 400_000_000
        return
    with pytest.raises(InputError, match="bytes unzipped, lambda-arm64 allows 262,144,000"):
        config.read(tmp_path / FILE)


@dataclass(frozen=True)
class Deployed:
    """A project's folder, its account, and the images that were built for it."""

    folder: Path
    account: Account
    store: images.Store

    def deploy(self, weights: str) -> dict[str, Any]:
        """Deploy with such weights; gives what the API's function is."""
        write_image_bundle(self.folder / "bundle", weights=weights)
        (self.folder / FILE).write_text(TOML.replace("[deploy.tiny]\n", '[deploy.tiny]\nbundle = "bundle"\n', 1), encoding="utf-8")
        self.account.cdk(self.folder, "synth", "--quiet")
        self.account.cdk(self.folder, "deploy", STACK, "--require-approval", "never", "--app", "cdk.out")
        return self.function("FunctionName")

    def function(self, output: str) -> dict[str, Any]:
        """The function that the stack's output names."""
        name = Stack(self.account, STACK).outputs[output]
        found: dict[str, Any] = self.account.client("lambda").get_function(FunctionName=name, Qualifier="live")
        return found

    def asked(self, *words: str) -> list[str]:
        """What the CDK asked of Docker that starts with such a word."""
        return [line for line in self.store.calls if line.split()[0] in words]


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    found = images.faults()
    if found:
        pytest.fail("this machine cannot build images:\n" + "\n".join(f"  {f}" for f in found), pytrace=False)
    home = tmp_path_factory.mktemp("image-deploy")
    store = images.Store(home / "store")
    images.empty_base(store, home / "base", images.LAMBDA, "arm64")
    init(home / "project")
    with Account(home, store.docker()) as account:
        made = Deployed(home / "project", account, store)
        write_image_bundle(made.folder / "bundle")
        (made.folder / FILE).write_text(TOML.replace("[deploy.tiny]\n", '[deploy.tiny]\nbundle = "bundle"\n', 1), encoding="utf-8")
        account.cdk(made.folder, "bootstrap", f"aws://{ACCOUNT}/{REGION}")
        yield made


# the second test goes on where the first ended, as a project does


@pytest.mark.slow
@pytest.mark.root
def test_the_image_is_built_pushed_and_what_the_functions_run(deployed: Deployed) -> None:
    http = deployed.deploy("weights")
    ((key, _),) = sources(deployed.folder).items()
    assert http["Code"]["ImageUri"] == f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/{REPOSITORY}:{key}"
    assert deployed.function("BulkFunctionName")["Code"] == http["Code"]
    said = {name: deployed.function(name)["Configuration"] for name in ("FunctionName", "BulkFunctionName")}
    commands = {name: one["ImageConfigResponse"]["ImageConfig"]["Command"] for name, one in said.items()}
    assert commands == {"FunctionName": [HTTP], "BulkFunctionName": [BULK]}
    for one in said.values():
        assert (one["PackageType"], one["Architectures"], one["Version"]) == ("Image", ["arm64"], "1")
    (build,) = deployed.asked("build")
    assert "--platform linux/arm64" in build
    assert build.endswith("attestations=1"), "or BuildKit makes an index of several manifests, which Lambda refuses"
    assert len(deployed.asked("push")) == len(deployed.store.pushed) == 1


@pytest.mark.slow
@pytest.mark.root
def test_what_was_pushed_is_one_manifest_with_the_bundle_in_it(deployed: Deployed) -> None:
    (pushed,) = deployed.store.pushed
    with tarfile.open(pushed) as archive:

        def blob(digest: str) -> Any:
            return json.load(archive.extractfile(f"blobs/{digest.replace(':', '/')}") or pytest.fail(digest))

        (entry,) = json.load(archive.extractfile("index.json") or pytest.fail("no index"))["manifests"]
        manifest = blob(entry["digest"])
        made = blob(manifest["config"]["digest"])
        files: set[str] = set()
        for layer in manifest["layers"]:
            with tarfile.open(fileobj=archive.extractfile(f"blobs/{layer['digest'].replace(':', '/')}")) as content:
                files |= {member.name for member in content if member.isfile()}
    assert (made["architecture"], made["config"]["Cmd"]) == ("arm64", [HTTP])
    layers = {"opt/python/numpy.py", "opt/hotfoot/tokenizers/0/tokenizer.json", "opt/hotfoot/model/model.onnx"}
    assert files == layers | {"var/task/hotfoot/handlers/http.py"}


@pytest.mark.slow
@pytest.mark.root
def test_another_model_is_another_image_and_version(deployed: Deployed) -> None:
    before = deployed.function("FunctionName")
    after = deployed.deploy("other")
    assert after["Code"]["ImageUri"] != before["Code"]["ImageUri"]
    assert after["Configuration"]["Version"] == "2"
    assert len(deployed.asked("build")) == len(deployed.store.pushed) == 2
    assert "There were no differences" in deployed.account.cdk(deployed.folder, "diff", STACK, "--app", "cdk.out")

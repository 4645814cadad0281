"""A bundle as a container image: its own Dockerfile built, and what came of it run as Lambda and as a server would run it."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from hotfoot.contract import bundle as bundles
from hotfoot.contract.target import Arch
from hotfoot.targets import load, machine_arch
from support import events, images
from support.bundled import rigged_bundle, session_cache
from support.cloud.image_bundles import write_image_bundle
from support.containers import LAMBDA, Container, Told
from support.debian import PYTHON
from support.images import Image, Store

pytestmark = [pytest.mark.slow, pytest.mark.root]

LABELS = {"good": "POSITIVE", "bad": "NEGATIVE", "fine": "POSITIVE"}
HTTP, BULK = "hotfoot.handlers.http.handler", "hotfoot.handlers.bulk.handler"
PLACES = {"lambda": "var/task", "container": "srv"}  # of the code; all layers are in /opt
UNMADE = "raise ImportError('what the base image brings stood before what the bundle brings')"


@dataclass(frozen=True)
class Built:
    """A bundle and its image, by its name in the store."""

    store: Store
    bundle: Path
    base: Image
    image: Image
    name: str


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Empty; fails, and never skips, where this machine cannot build and run images."""
    found = images.faults()
    if found:
        pytest.fail("this machine cannot build and run images:\n" + "\n".join(f"  {f}" for f in found), pytrace=False)
    made = Store(tmp_path_factory.mktemp("store"))
    yield made
    made.remove()


@pytest.fixture(scope="module")
def bundle_dirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """Real bundles of a tiny classifier for this machine's architecture, by the system that they are for."""
    folder, arch = tmp_path_factory.mktemp("bundles"), machine_arch()
    with session_cache(tmp_path_factory):
        yield {
            "lambda": rigged_bundle(folder, f"lambda-{arch}", python=PYTHON, package="image"),
            "container": rigged_bundle(folder, f"cpu-container-{arch}", python=PYTHON),
        }


@pytest.fixture(scope="module")
def function(store: Store, bundle_dirs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The image for Lambda."""
    base = images.lambda_base(store, tmp_path_factory.mktemp("lambda"), machine_arch())
    return built(store, bundle_dirs["lambda"], base, "function:1")


@pytest.fixture(scope="module")
def server(store: Store, bundle_dirs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The image for servers."""
    base = images.slim_base(store, tmp_path_factory.mktemp("slim"), machine_arch())
    return built(store, bundle_dirs["container"], base, "server:1")


def built(store: Store, bundle_dir: Path, base: Image, name: str) -> Built:
    image = store.build(bundle_dir, name, "--platform", images.PLATFORMS[machine_arch()])
    return Built(store, bundle_dir, base, image, name)


@pytest.fixture(params=["lambda", "container"])
def either(request: pytest.FixtureRequest) -> Built:
    """One of the two images."""
    made: Built = request.getfixturevalue("function" if request.param == "lambda" else "server")
    return made


def test_the_layers_are_merged_and_nothing_else_of_the_bundle_is_there(either: Built) -> None:
    made = bundles.read(either.bundle)
    assert made.package == "image"
    for name in ("ledger.json", "bundle.json", "Dockerfile", ".dockerignore"):
        assert (either.bundle / name).is_file(), "in the bundle"
    code = PLACES[load(made.target).system]
    wanted = {f"{code}/{path}" for path in within(either.bundle / made.code.path)}
    for layer in made.layers:
        inside = {f"opt/{path}" for path in within(either.bundle / layer.path)}
        assert inside
        assert not {path for path in inside & wanted if (either.bundle / layer.path / path.removeprefix("opt/")).is_file()}
        wanted |= inside
    with either.store.unpacked(base_name(made.target)) as below:
        before = set(images.listing(below, "."))
    with either.store.unpacked(either.name) as root:
        there = images.listing(root, ".")
        for layer in made.layers:
            for path in within(either.bundle / layer.path, files=True):
                assert (root / "opt" / path).read_bytes() == (either.bundle / layer.path / path).read_bytes()
    # the folders that COPY makes on its way, but where the base has them
    assert set(there) - before == (wanted | {"opt", code}) - before
    assert {entry for path, entry in there.items() if path in wanted} == {("folder", 0o755, 0, 0), ("file", 0o644, 0, 0)}


def within(folder: Path, *, files: bool = False) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in folder.rglob("*") if not files or path.is_file()]


def base_name(target: str) -> str:
    return images.LAMBDA if load(target).system == "lambda" else images.SLIM


def test_lambdas_image_says_what_lambda_starts(function: Built) -> None:
    config = function.image.config
    assert config["Cmd"] == [HTTP] == [bundles.read(function.bundle).handler]
    # as AWS's base has them
    for key in ("Entrypoint", "Env", "WorkingDir", "User"):
        assert config.get(key) == function.base.config.get(key)


def test_the_servers_image_says_how_it_is_started(server: Built) -> None:
    config = server.image.config
    assert config["Entrypoint"] == ["python", "-m", "hotfoot.server", "--host", "0.0.0.0", "--port", "8080"]  # noqa: S104 - the container's
    assert not config.get("Cmd")
    assert config["User"] == "65534:65534"
    assert list(config["ExposedPorts"]) == ["8080/tcp"]
    added = {key: value for key, value in server.image.environment.items() if key not in server.base.environment}
    assert added == {"PYTHONPATH": "/srv:/opt/python", "HOTFOOT_ARTIFACT": "/opt/hotfoot/model"}


def classify(text: str) -> dict[str, object]:
    return events.request("apigateway_v2", "/", {"inputs": text})


def test_lambdas_image_answers(function: Built) -> None:
    with Container(function.store, function.name, LAMBDA) as box:
        for text, label in LABELS.items():
            answer = box.invoke(classify(text))
            assert answer["statusCode"] == 200, answer
            assert json.loads(answer["body"])[0][0]["label"] == label
            assert events.headers_of(answer)["x-model-digest"] == bundles.read(function.bundle).model_digest
        log = box.log
    print(log)
    assert "INIT REPORT" in log


def test_the_bulk_handler_is_another_command_of_the_same_image(function: Built) -> None:
    told = replace(LAMBDA, command=[BULK], environment={**LAMBDA.environment, "HOTFOOT_RESULTS_BUCKET": "results"})
    with Container(function.store, function.name, told) as box:
        assert box.invoke(events.load("sqs_s3_test_event")) == {"batchItemFailures": []}


@pytest.mark.parametrize("python_path", [None, "/var/task:/opt/python"], ids=["as it is", "with a path"])
def test_what_the_bundle_brings_comes_before_what_aws_brings(function: Built, python_path: str | None, tmp_path: Path) -> None:
    """Which is why the Dockerfile sets no PYTHONPATH."""
    (tmp_path / "starlette").mkdir(mode=0o755)
    (tmp_path / "starlette" / "__init__.py").write_text(UNMADE, encoding="utf-8")
    environment = {**LAMBDA.environment, **({"PYTHONPATH": python_path} if python_path else {})}
    told = replace(LAMBDA, environment=environment, mounts={"/var/runtime/starlette": str(tmp_path / "starlette")})
    with Container(function.store, function.name, told) as box:
        if python_path is None:
            assert box.invoke(classify("good"))["statusCode"] == 200
            return
        with pytest.raises(Exception, match="what the base image brings stood before"):
            box.invoke(classify("good"))


def test_the_server_answers_as_nobody_with_nothing_to_write_to(server: Built) -> None:
    with Container(server.store, server.name) as box:
        box.ready()
        for text, label in LABELS.items():
            status, headers, body = box.ask("POST", "/", {"inputs": text})
            assert (status, json.loads(body)[0][0]["label"]) == (200, label)
            assert headers["x-model-digest"] == bundles.read(server.bundle).model_digest
        said = (box.first / "status").read_text(encoding="utf-8").splitlines()
        ids = {line.split(":")[0]: line.split()[1:] for line in said if line.startswith(("Uid:", "Gid:", "CapEff:", "NSpid:"))}
        assert (ids["Uid"], ids["Gid"]) == (["65534"] * 4, ["65534"] * 4)
        assert int(ids["CapEff"][0], 16) == 0
        assert ids["NSpid"][-1] == "1", "Python is process 1"
        mounts = [line.split() for line in (box.first / "mountinfo").read_text(encoding="utf-8").splitlines()]
        assert [place for _, _, _, _, place, how, *_ in mounts if "rw" in how.split(",")] == ["/proc"]
        assert box.stop() == 0
        log = box.log
    assert "(text-classification, fp32) on http://0.0.0.0:8080" in log


def test_a_server_is_told_more_by_options_and_artifacts(server: Built, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(server.bundle / "layers" / "model" / "hotfoot" / "model", other)
    told = Told(command=["--log-requests", "/models/other", "/opt/hotfoot/model"], folder="/", mounts={"/models/other": str(other)})
    with Container(server.store, server.name, told) as box:
        box.ready()
        for name in ("other", "model"):
            assert box.ask("POST", f"/models/{name}", {"inputs": "good"})[0] == 200
        log = box.log
    assert log.count('"message":"answered"') >= 2


def test_a_token_is_asked_for(server: Built) -> None:
    with Container(server.store, server.name, Told(environment={"HOTFOOT_TOKEN": "a-long-enough-secret"})) as box:
        box.ready()
        assert box.ask("POST", "/", {"inputs": "good"})[0] == 401


@pytest.mark.parametrize("target", ["lambda-arm64", "cpu-container-arm64"])
def test_the_same_bundle_gives_the_same_image(target: str, tmp_path: Path) -> None:
    """Byte for byte, where one time is set for all; and with another model, all other layers are in the registry already."""
    store = Store(tmp_path / "store")
    base = images.empty_base(store, tmp_path / "base", base_name(target), "arm64")
    made = []
    for number, weights in enumerate(("weights", "weights", "other")):
        folder = tmp_path / f"bundle{number}"
        write_image_bundle(folder, target=target, weights=weights)
        for path in folder.rglob("*"):
            os.utime(path, (1_000_000 * (number + 1),) * 2)
        made.append(store.build(folder, f"made:{number}", "--layers", "--no-cache", "--timestamp", "0", "--platform", "linux/arm64"))
    first, again, another = made
    assert again.id == first.id != another.id
    pairs = list(zip(first.layers, another.layers, strict=True))[len(base.layers) :]
    assert [mine == theirs for mine, theirs in pairs] == [True, True, False, True], "runtime, tokenizer, model, code"


@pytest.mark.parametrize("arch", ["arm64", "x86_64"])
def test_the_image_is_for_the_bundles_cpu_and_one_manifest(arch: Arch, tmp_path: Path) -> None:
    """Nothing of it is run when it is built, so that any machine makes it for any other."""
    store, target = Store(tmp_path / "store"), f"lambda-{arch}"
    images.empty_base(store, tmp_path / "base", images.LAMBDA, arch)
    write_image_bundle(tmp_path / "bundle", target=target)
    image = store.build(tmp_path / "bundle", "made:1", "--platform", images.PLATFORMS[arch])
    assert image.architecture == {"arm64": "arm64", "x86_64": "amd64"}[arch]
    store.push("made:1", tmp_path / "made.tar")
    with tarfile.open(tmp_path / "made.tar") as archive:
        index = json.load(archive.extractfile("index.json") or pytest.fail("no index"))
        (entry,) = index["manifests"]
        assert entry["mediaType"] == "application/vnd.oci.image.manifest.v1+json"
        manifest = json.load(archive.extractfile(f"blobs/{entry['digest'].replace(':', '/')}") or pytest.fail("no manifest"))
    assert "layers" in manifest
    assert "manifests" not in manifest


def test_without_the_tools_the_reason_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert any("`apt-get install buildah apt dpkg" in fault for fault in images.faults())

"""Bundles with the real wheels: the right machine, nothing too much, nothing missing."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hotfoot import targets
from hotfoot.contract import bundle as bundles
from hotfoot.contract.target import Arch
from hotfoot_build import budget
from hotfoot_build.package import elf, interpreters, tree, wheels
from hotfoot_build.package.bundle import bundle
from hotfoot_build.package.emulate import Emulator, InvocationError
from support import events
from support.bundled import rigged_bundle, session_cache
from support.handmade import retarget
from support.parted import parted_artifact

pytestmark = pytest.mark.slow

NEVER = (
    "torch",
    "transformers",
    "optimum",
    "onnx",
    "huggingface_hub",
    "hf_xet",
    "boto3",
    "botocore",
    "google",
    "flatbuffers",
    "hotfoot_build",
)

IMPORT_ALL = """
import json, pkgutil, sys
from importlib import import_module
code, packages, skipped = sys.argv[1], sys.argv[2], sys.argv[3:]
sys.path[:0] = [code, packages]
import hotfoot
names = [m.name for m in pkgutil.walk_packages(hotfoot.__path__, "hotfoot.") if m.name not in skipped]
for name in names:
    import_module(name)
origins = {n: getattr(m, "__file__", None) or "" for n, m in sys.modules.items()}
print(json.dumps({"names": names, "modules": sorted(sys.modules), "compiled": [
    n for n, m in sys.modules.items() if origins[n].startswith((code, packages)) and origins[n].endswith(".py")
    and not __import__("os").path.exists(m.__cached__ or "")]}))
"""


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with session_cache(tmp_path_factory):
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("real")


@pytest.fixture(scope="module")
def made(folder: Path) -> dict[str, Path]:
    """A bundle for each Lambda target."""
    return {name: rigged_bundle(folder, name) for name in ("lambda-arm64", "lambda-x86_64")}


@pytest.mark.parametrize("name", ["lambda-arm64", "lambda-x86_64"])
def test_every_compiled_file_is_for_the_target(made: dict[str, Path], name: str) -> None:
    target = targets.load(name)
    packages = made[name] / "layers" / "runtime" / "python"
    compiled = {p.relative_to(packages).as_posix(): e for p in tree.files(made[name]) if (e := elf.read(p))}
    assert len(compiled) >= 15
    assert {e.machine for e in compiled.values()} == {elf.MACHINES[target.arch]}
    assert max(e.glibc for e in compiled.values() if e.glibc) <= (2, 28)
    assert elf.faults(made[name], arch=target.arch, glibc=target.glibc, python=target.python) == []
    assert "onnxruntime/capi/libonnxruntime_providers_shared.so" in compiled
    assert not [n for n in compiled if n.startswith("onnxruntime/capi/libonnxruntime.so")]


@pytest.mark.parametrize("name", ["lambda-arm64", "lambda-x86_64"])
def test_size_and_what_is_not_shipped(made: dict[str, Path], name: str) -> None:
    bundle = bundles.read(made[name])
    print(*(f"{x.kind} {x.unzipped_bytes} / {x.zipped_bytes}" for x in (*bundle.layers, bundle.code)), sep="\n")
    assert bundle.bytecode, "install the target's Python to run this test"
    assert bundle.unzipped_bytes < 110e6
    assert bundle.zipped_bytes < 40e6, "Lambda takes 50 MB without a detour over S3"
    packages = made[name] / "layers" / "runtime" / "python"
    assert not [n for n in NEVER if (packages / n).exists()]
    paths = {p.relative_to(made[name]).as_posix() for p in tree.files(made[name])}
    assert not [p for p in paths if "/tests/" in p or p.endswith((".pyi", "/RECORD")) or "/bin/" in p]
    sources = [p for p in tree.files(made[name]) if p.suffix == ".py"]
    tag = f"cpython-{bundle.python.replace('.', '')}"
    assert not [p for p in sources if not (p.parent / "__pycache__" / f"{p.stem}.{tag}.pyc").is_file()]
    assert {p.suffixes[0] for p in tree.files(made[name]) if p.suffix == ".pyc"} == {f".{tag}"}


@pytest.mark.parametrize("name", ["lambda-arm64", "lambda-x86_64"])
def test_what_the_budget_reckons_with_is_what_is_shipped(folder: Path, name: str) -> None:
    artifact, arch = parted_artifact(folder / f"parted-{name}", "text-classification"), targets.load(name).arch
    retarget(artifact, name)
    made = bundle(artifact, folder / f"s3-{name}", progress=print, package="s3")
    assert made.bytecode, "install the target's Python to run this test"
    sizes = {layer.kind: layer.unzipped_bytes for layer in (*made.layers, made.code)}
    assert sizes["runtime"] + sizes["code"] == pytest.approx(budget.RUNTIME_BYTES[arch], rel=0.05)
    assert sizes["fetch"] == pytest.approx(budget.FETCH_BYTES[arch], rel=0.05)


@pytest.mark.parametrize("name", ["lambda-arm64", "lambda-x86_64"])
def test_licences_are_shipped(made: dict[str, Path], name: str) -> None:
    packages = made[name] / "layers" / "runtime" / "python"
    for metadata in packages.glob("*.dist-info"):
        assert (metadata / "METADATA").is_file(), metadata.name
    assert (packages / "onnxruntime" / "ThirdPartyNotices.txt").is_file()
    assert list(packages.glob("numpy-*.dist-info/licenses/LICENSE.txt"))


def imported(bundle_dir: Path, skipped: tuple[str, ...], home: Path = Path("/dev/null")) -> dict[str, list[str]]:
    """Import every module of `hotfoot` with nothing on sys.path but the bundle and the standard library."""
    made = bundles.read(bundle_dir)
    python = interpreters.find(made.python)
    assert python is not None
    layers = bundle_dir / "layers"
    command = [str(python.path), "-I", "-S", "-c", IMPORT_ALL, str(bundle_dir / "code"), str(layers / "runtime" / "python"), *skipped]
    environment = {
        "PATH": os.defpath,
        "HOME": str(home),
        "HOTFOOT_ARTIFACT": str(layers / "model" / "hotfoot" / "model"),
        "HOTFOOT_LAYER_ROOT": str(layers / "tokenizer"),
        "HOTFOOT_RESULTS_BUCKET": "results",  # the bulk handler asks for it at its import
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.skipif(targets.machine_arch() != "x86_64", reason="runs the x86_64 bundle")
def test_every_runtime_module_imports_from_the_bundle_alone(made: dict[str, Path]) -> None:
    found = imported(made["lambda-x86_64"], ("hotfoot.server", "hotfoot.prometheus"))  # the server's packages are the container's
    assert "hotfoot.handlers.http" in found["names"]
    assert not set(NEVER) & set(found["modules"])
    assert found["compiled"] == [], "modules without bytecode"


@pytest.mark.skipif(targets.machine_arch() != "x86_64", reason="runs the x86_64 bundle")
def test_the_runtime_keeps_nothing_in_the_home_directory(made: dict[str, Path], tmp_path: Path) -> None:
    # onnxruntime from 1.29 writes a device id and a queue of events there, and sends them, unless ORT_DISABLE_TELEMETRY
    # is set before it is first imported
    imported(made["lambda-x86_64"], ("hotfoot.server", "hotfoot.prometheus"), home=tmp_path)
    assert [p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*")] == []


def test_a_container_bundle_has_the_server_too(folder: Path) -> None:
    found = imported(rigged_bundle(folder, targets.local().name), ())
    assert "hotfoot.server" in found["names"]
    assert not set(NEVER) & set(found["modules"])


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.14"])
@pytest.mark.parametrize(("arch", "platform"), [("arm64", "aarch64-manylinux_2_28"), ("x86_64", "x86_64-manylinux_2_28")])
def test_one_lock_fits_every_python(tmp_path: Path, arch: Arch, platform: str, python: str) -> None:
    wheels.install(wheels.LOCKS / "container.txt", tmp_path, platform=platform, python=python)
    assert elf.faults(tmp_path, arch=arch, glibc=(2, 28), python=python) == []
    assert list(tmp_path.glob(f"onnxruntime/capi/*.cpython-{python.replace('.', '')}-*.so"))


PROBE = """
import os, time

def handler(event, context):
    if "raise" in event:
        raise ValueError(event["raise"])
    if "exit" in event:
        os._exit(event["exit"])
    time.sleep(event.get("sleep", 0))
    return {"pid": os.getpid(), "memory": context.memory_limit_in_mb, "given": os.environ.get("GIVEN"), "home": os.environ["HOME"]}
"""


@pytest.mark.skipif(targets.machine_arch() != "x86_64", reason="runs the x86_64 bundle")
def test_the_emulator_answers_as_the_function_would(made: dict[str, Path]) -> None:
    with Emulator(made["lambda-x86_64"], memory_mb=1024) as function:
        for text, label in (("good", "POSITIVE"), ("bad", "NEGATIVE")):
            answer = function.invoke(events.request("apigateway_v2", "/", {"inputs": text}))
            assert answer["statusCode"] == 200, answer
            assert json.loads(answer["body"])[0][0]["label"] == label
        used, (init_ms,) = function.usage(), function.init_ms
        print(f"init {init_ms:.0f} ms, {used.cpu_seconds:.2f} CPU s, {used.max_rss_bytes / 1e6:.0f} MB")
        assert 0.05 < used.cpu_seconds < 10
        assert 50e6 < used.max_rss_bytes < 300e6
    assert "INIT REPORT" in function.log
    assert function.usage().max_rss_bytes == 0


@pytest.mark.skipif(targets.machine_arch() != "x86_64", reason="runs the x86_64 bundle")
def test_the_emulator_tells_failures_apart_and_leaves_no_process(made: dict[str, Path]) -> None:
    probe = made["lambda-x86_64"] / "code" / "probe.py"
    probe.write_text(PROBE)
    try:
        with Emulator(made["lambda-x86_64"], memory_mb=512, timeout_s=1, env={"GIVEN": "here"}, handler="probe.handler") as function:
            first = function.invoke({})
            assert (first["memory"], first["given"], Path(first["home"]).exists()) == ("512", "here", False)
            assert function.invoke({})["pid"] == first["pid"]
            for event, kind in (({"raise": "no"}, "ValueError"), ({"sleep": 3}, "Sandbox.Timedout"), ({"exit": 3}, "Runtime.ExitError")):
                with pytest.raises(InvocationError) as failed:
                    function.invoke(event)
                assert failed.value.error_type == kind
            last = function.invoke({})["pid"]
            assert last != first["pid"]
            assert len(function.init_ms) == 3
            leader = function._process.pid if function._process else 0
        assert not Path(f"/proc/{last}").exists()
        assert not Path(f"/proc/{leader}").exists()
    finally:
        probe.unlink()

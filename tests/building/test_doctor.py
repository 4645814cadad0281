"""`hotfoot doctor`: each check with the thing there and not there, and what the command makes of it."""

from __future__ import annotations

import os
import re
import shutil
import sys
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from hotfoot import settings, targets
from hotfoot.contract.errors import UnsupportedError
from hotfoot.contract.target import Target
from hotfoot_build import advice, cache, doctor, environment
from hotfoot_build.doctor import Finding
from hotfoot_build.package import interpreters, wheels
from support.bare_machine import SECRETS, bare_machine, only, program, states
from walls.house import PACKAGES

LAMBDA = targets.load("lambda-arm64")
CONTAINER = targets.load("cpu-container-arm64")


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    return bare_machine(monkeypatch, tmp_path)


def without(monkeypatch: pytest.MonkeyPatch, *absent: str) -> None:
    version = metadata.version

    def partly(name: str) -> str:
        if name in absent:
            raise metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(metadata, "version", partly)


def test_the_python_that_runs() -> None:
    assert only(doctor.this_python(None)).detail.startswith(f"CPython {'.'.join(map(str, sys.version_info[:3]))} in ")


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (None, {"build extra": "missing", "server extra": "warning", "infra extra": "warning"}),
        (LAMBDA, {"build extra": "missing", "infra extra": "missing"}),
        (CONTAINER, {"build extra": "missing", "server extra": "warning"}),
    ],
)
def test_extras(target: Target | None, expected: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    requires = ["numpy>=2.2", "onnx>=1.19; extra == 'build'", "uv>=0.9; extra == 'build'", 'uvicorn>=0.40; extra == "server"']
    monkeypatch.setattr(metadata, "requires", lambda _: [*requires, "aws-cdk-lib>=2; extra == 'infra'"])
    monkeypatch.setattr(metadata, "version", lambda _: "1.0")
    assert set(states(doctor.extras(target)).values()) == {"ok"}
    without(monkeypatch, "onnx", "uvicorn", "aws-cdk-lib")
    found = doctor.extras(target)
    assert states(found) == expected
    assert found[0].detail == "build, bundle and check: needs onnx"
    assert found[0].fix.endswith("[build]'")


def test_the_packages_of_the_installed_extras_are_found() -> None:
    assert {"typer", "uv", "onnx-ir", "pyyaml"} <= set(advice.packages("build"))
    assert "uvicorn" in advice.packages("server")
    assert advice.packages("none") == []


def test_uv(monkeypatch: pytest.MonkeyPatch, bare: Path) -> None:
    monkeypatch.setattr(wheels, "uv_binary", lambda: str(program(bare, "uv", "uv 9.8.7 (some build)")))
    assert only(doctor.uv(None)).detail == "uv 9.8.7, to install a bundle's wheels"

    def none() -> str:
        raise UnsupportedError("uv is not installed.")

    monkeypatch.setattr(wheels, "uv_binary", none)
    absent = only(doctor.uv(None))
    assert absent.status == "missing"
    assert absent.fix.endswith(" -m pip install uv")


def test_an_environment_without_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hotfoot_build.advice.util.find_spec", lambda _: None)
    assert re.fullmatch(r"uv pip install --python \S+ uv", advice.pip("uv"))


@pytest.mark.parametrize("target", [None, LAMBDA])
def test_the_python_of_bundles(target: Target | None, monkeypatch: pytest.MonkeyPatch, bare: Path) -> None:
    wanted = LAMBDA.python
    monkeypatch.setattr(interpreters, "find", lambda minor: interpreters.Interpreter(bare / "python", f"{minor}.1", bare))
    assert states(doctor.bytecode_python(target)) == {f"Python {wanted}": "ok"}
    monkeypatch.setattr(interpreters, "find", lambda _: None)
    found = only(doctor.bytecode_python(target))
    assert found.status == "warning"  # a bundle without bytecode is slower, not broken
    assert found.fix.endswith(f" -m uv python install {wanted}")
    for name in ("uv", "pyenv", "add-apt-repository"):
        program(bare, name)
    ways = only(doctor.bytecode_python(target)).fix.splitlines()
    assert ways[:2] == [f"uv python install {wanted}", f"pyenv install {wanted}  # or so"]
    assert "deadsnakes" in ways[2]
    assert ways[3].strip() == f"sudo apt-get install python{wanted}"


def test_the_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = only(doctor.cache_folder(None))
    assert found.status == "ok"
    assert found.detail.startswith("~/.cache/hotfoot, ")
    assert list(cache.root().iterdir()) == []
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    found = only(doctor.cache_folder(None))
    assert found.status == "missing"
    assert found.fix.startswith("export XDG_CACHE_HOME=")


def test_the_export_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2_000_000_000))
    assert only(doctor.export_environment(None)).detail == "made on the first build: 1.5 GB are needed and 2.0 GB free"
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=900_000_000))
    full = only(doctor.export_environment(None))
    assert (full.status, full.detail) == ("missing", "not made yet: 1.5 GB are needed and 0.9 GB free")
    folder = environment.home() / "bin"
    folder.mkdir(parents=True)
    (folder / "python").symlink_to(folder / "gone")
    assert only(doctor.export_environment(None)).fix == "hotfoot cache --clear environments"
    (folder / "gone").write_bytes(bytes(300_000_000 // 1000))
    there = only(doctor.export_environment(None))
    assert there.status == "ok"
    assert there.detail.startswith("0.0 GB in ~/.cache/hotfoot/export-")


def test_an_export_environment_of_the_users(monkeypatch: pytest.MonkeyPatch, bare: Path) -> None:
    monkeypatch.setenv(environment.PYTHON, str(program(bare, "whole")))
    assert only(doctor.export_environment(None)).status == "ok"
    monkeypatch.setenv(environment.PYTHON, str(program(bare, "half", "torch optimum")))
    half = only(doctor.export_environment(None))
    assert (half.status, half.detail) == ("missing", f"{environment.PYTHON}={bare}/half lacks torch optimum")
    assert half.fix.startswith(f"{bare}/half -m pip install -c ")
    for broken in (program(bare, "broken", code=1), bare / "nowhere"):
        monkeypatch.setenv(environment.PYTHON, str(broken))
        found = only(doctor.export_environment(None))
        assert (found.status, found.fix) == ("missing", f"unset {environment.PYTHON}")


def features(monkeypatch: pytest.MonkeyPatch, arch: str, *have: str) -> None:
    monkeypatch.setattr(targets, "machine_arch", lambda: arch)
    monkeypatch.setattr(targets, "cpu_features", lambda: frozenset(have))


def test_what_this_machine_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    features(monkeypatch, "x86_64", "avx2")
    local, others = doctor.machine(None)
    assert (local.status, local.detail) == ("ok", "cpu-container-x86_64-avx2 (x86_64 with avx2)")
    timed, _, untimed = others.detail.partition("; ")
    assert timed == "timed here: cpu-container-x86_64-avx2, lambda-x86_64"
    assert untimed == "built and proven, not timed: cpu-container-arm64, cpu-container-arm64-dotprod, cpu-container-x86_64, lambda-arm64"
    assert only(doctor.machine(LAMBDA)).detail.endswith("not timed, on this machine (x86_64 with avx2)")
    features(monkeypatch, "arm64", "dotprod")
    assert only(doctor.machine(LAMBDA)).detail.endswith(": timed here, too")


def test_a_machine_that_no_target_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    features(monkeypatch, "x86_64")
    local, others = doctor.machine(None)
    assert local.status == "missing"
    assert local.fix.endswith("--target lambda-arm64")
    assert others.detail.startswith("timed here: none; ")


def test_onnx_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    assert only(doctor.onnx_runtime(None)) == Finding("ONNX Runtime", "ok", f"onnxruntime {metadata.version('onnxruntime')}, telemetry off")
    monkeypatch.setenv("ORT_DISABLE_TELEMETRY", "0")
    loud = only(doctor.onnx_runtime(None))
    assert (loud.status, loud.fix) == ("warning", "export ORT_DISABLE_TELEMETRY=1")
    without(monkeypatch, "onnxruntime", "onnxruntime-gpu")
    assert only(doctor.onnx_runtime(None)).status == "missing"


def test_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "usable_threads", lambda _: 3)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert only(doctor.threads(None)).detail == "3 for a model, of 8 cores"


@pytest.mark.parametrize(
    ("version", "alone", "on_lambda"),
    [
        ("v24.1.0", "ok", "ok"),
        ("v22.0.0", "ok", "ok"),
        ("v20.20.2", "warning", "warning"),
        ("v18.1.0", "warning", "missing"),
        ("?", "warning", "missing"),
        (None, "warning", "missing"),
    ],
)
def test_node(version: str | None, alone: str, on_lambda: str, bare: Path) -> None:
    if version:
        program(bare, "node", version)
    assert only(doctor.node(None)).status == alone
    found = only(doctor.node(LAMBDA))
    assert found.status == on_lambda
    assert found.fix.startswith("nvm install 22") == (alone != "ok")


def test_cdk(bare: Path) -> None:
    assert only(doctor.cdk(None)).status == "warning"
    assert only(doctor.cdk(LAMBDA)).status == "missing"
    program(bare, "npm")
    assert only(doctor.cdk(LAMBDA)).fix == "npm install --global aws-cdk"
    program(bare, "npx")
    assert only(doctor.cdk(LAMBDA)).status == "ok"
    program(bare, "cdk")
    assert only(doctor.cdk(LAMBDA)).detail == f"{bare}/cdk, to deploy"


def test_the_hubs_token(monkeypatch: pytest.MonkeyPatch) -> None:
    assert only(doctor.hub_token(None)).detail.startswith("not set;")
    monkeypatch.setenv("HF_TOKEN", SECRETS["HF_TOKEN"])
    assert only(doctor.hub_token(None)).detail == "set"


def test_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    assert only(doctor.variables(None)).detail == "none is set"
    for name, value in {"HOTFOOT_THREADS": "2", "HOTFOOT_TOKEN": "open-sesame", "HOTFOOT_THREAD": "other-secret"}.items():
        monkeypatch.setenv(name, value)
    said, unknown = doctor.variables(None)
    assert said.detail == "HOTFOOT_THREADS=2, HOTFOOT_TOKEN (not shown)"
    assert (unknown.status, unknown.detail, unknown.fix) == ("warning", "nothing reads HOTFOOT_THREAD", "unset HOTFOOT_THREAD")
    monkeypatch.delenv("HOTFOOT_THREAD")
    monkeypatch.setenv("HOTFOOT_THREADS", "many")
    monkeypatch.setenv("HOTFOOT_BULK", "{")
    _, *wrong = doctor.variables(None)
    assert [(each.status, each.fix) for each in wrong] == [("warning", "unset HOTFOOT_THREADS"), ("warning", "unset HOTFOOT_BULK")]


def test_what_makes_images(monkeypatch: pytest.MonkeyPatch, bare: Path) -> None:
    monkeypatch.delenv("CDK_DOCKER", raising=False)
    assert only(doctor.docker(None)).status == "warning", "most bundles need none"
    program(bare, "docker")
    assert only(doctor.docker(None)).status == "ok"
    monkeypatch.setenv("CDK_DOCKER", "podman")
    assert only(doctor.docker(None)).detail.startswith("podman is not on PATH")
    assert all(doctor.docker in doctor.checks(target) for target in (None, LAMBDA, CONTAINER))


def test_what_is_unset_is_what_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTFOOT_CACHE_TABLE", "shared")  # and no secret
    assert doctor.variables(None)[1].fix == "unset HOTFOOT_CACHE_TABLE"


def test_the_known_variables_are_those_of_the_sources() -> None:
    texts = [path.read_text(encoding="utf-8") for home in PACKAGES.values() for path in home.rglob("*.py") if path.name != "doctor.py"]
    assert {name for text in texts for name in re.findall(r"\bHOTFOOT_[A-Z_]*[A-Z]\b", text)} == doctor.SHOWN | doctor.HIDDEN
    assert not doctor.SHOWN & doctor.HIDDEN


@pytest.mark.parametrize("user", [0, 1000])
def test_what_only_a_checkout_needs(user: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bare: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    programs = {"Chromium": "warning", "qemu": "warning", "buildah": "warning"}
    assert states(doctor.checkout(None)) == {**programs, "root": "ok" if user == 0 else "warning"}
    for name in ("google-chrome", "qemu-x86_64", "buildah"):
        program(bare, name)
    assert [finding.status for finding in doctor.checkout(None)][:3] == ["ok", "ok", "ok"]
    monkeypatch.setattr(advice, "CHECKOUT", tmp_path)
    assert doctor.checkout(None) == []
    assert advice.own("infra") == "'hotfoot[infra]'"

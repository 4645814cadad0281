"""CONTRIBUTING.md stays true: its skeletons are put into the folders they are for, linted, typed, and used."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import onnx_ir as ir
import pytest

from hotfoot import targets, task, tasks
from hotfoot.model import Model
from hotfoot_build import passes
from hotfoot_build.graph import Graph
from support.rigged import Rig, rigged_artifact
from walls.house import ROOT, pyproject

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
# path in the repository -> code
SKELETONS = dict(re.findall(r"^```python\n# (\S+\.py)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL))
TASK, TARGET, PASS = (
    f"{folder}.py"
    for folder in (
        "functions/hotfoot/tasks/text_scoring",
        "functions/hotfoot/targets/cpu_container_arm64_i8mm",
        "build/hotfoot_build/passes/drop_dropout",
    )
)


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The skeletons, each in a folder that counts as part of the package it is for."""
    before = set(sys.modules)
    for path, package in ((TASK, tasks), (TARGET, targets), (PASS, passes)):
        place(package, tmp_path / path, SKELETONS[path], monkeypatch)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def place(package: ModuleType, path: Path, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(code, encoding="utf-8")
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(path.parent)])


def test_there_is_a_skeleton_for_each() -> None:
    assert set(SKELETONS) == {TASK, TARGET, PASS}


@pytest.mark.usefixtures("written")
def test_the_task(tmp_path: Path) -> None:
    assert "text-scoring" in task.names()
    rig = Rig(words={"good": (0.75,), "bad": (-0.5,)}, labels=("score",))
    model = replace(Model.open(rigged_artifact(tmp_path / "artifact", "text-classification", rig)), task=task.load("text-scoring"))
    assert model.task.name == "text-scoring"
    assert model.task.facts({"labels": ("score",)}) == {}
    assert model.predict(["good", "bad", "good bad"]).answer == pytest.approx([0.75, -0.5, 0.125])
    model.warm_up()
    _, outputs = model.outputs(("good", "bad"))
    agreement = model.task.parity(outputs, outputs, model.manifest)
    assert all(agreement == pytest.approx(dict.fromkeys(measures, 1)) for measures in model.task.thresholds.values())


def test_the_task_as_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "text_scoring.py").write_text(SKELETONS[TASK], encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert task.load("theirs.text_scoring").summary == "Give each text a number."


@pytest.mark.usefixtures("written")
def test_the_target() -> None:
    target = targets.load("cpu-container-arm64-i8mm")
    assert target.name in targets.names()
    assert {name for recipe in target.recipes.values() for name in recipe} <= set(passes.names())


@pytest.mark.usefixtures("written")
def test_the_pass() -> None:
    context = passes.Context(targets.load("lambda-arm64"), task.load("text-classification"), {}, "right")
    text = '<ir_version: 9, opset_import: ["" : 17]> g (float[n] x) => (float[n] y) {d = Dropout(x) y = Relu(d)}'
    graph = Graph("model", ir.from_onnx_text(text))
    [did, idle] = passes.apply(graph, ["drop_dropout", "drop_dropout"], context)
    assert (did.applied, did.ops_before, did.ops_after) == (True, {"Dropout": 1, "Relu": 1}, {"Relu": 1})
    assert (idle.applied, idle.reason) == (False, "no Dropout")


def test_they_are_formatted_linted_and_typed(written: Path) -> None:
    tools = Path(sys.executable).parent
    for path, code in SKELETONS.items():
        for command in (["format", "--check"], ["check"]):
            ruff = [str(tools / "ruff"), *command, "--stdin-filename", path, "-"]
            done = subprocess.run(ruff, cwd=ROOT, input=code, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
    mypy = [sys.executable, "-m", "mypy", "--cache-dir", str(written / "cache"), *(str(written / path) for path in SKELETONS)]
    done = subprocess.run(mypy, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_command_and_wall_is_spoken_of() -> None:
    verbs = [p.name for p in (ROOT / "scripts").iterdir() if not p.suffix]
    assert [verb for verb in verbs if f"scripts/{verb}" not in TEXT] == []
    sources = {name for c in pyproject()["tool"]["importlinter"]["contracts"] for name in c.get("source_modules", [])}
    assert [name for name in sorted(sources) if f"`{name}`" not in TEXT] == []


def test_it_links_to_files_that_are_there() -> None:
    named = re.findall(r"`((?:functions|build|infra|tests|scripts)/[\w./-]+)`", TEXT) + re.findall(r"\]\((\w[\w./-]*)\)", TEXT)
    assert named
    assert [name for name in named if not (ROOT / name.rstrip("/")).exists()] == []

"""`hotfoot init`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hotfoot.contract import project
from hotfoot.contract.errors import HotfootError, InputError
from hotfoot.contract.project import FILE, Deploy
from hotfoot_build import cli
from hotfoot_build.init_command import CDK, CONTEXT, TEMPLATE, init, interpreter
from hotfoot_build.pipeline import BuildRequest
from walls.house import ROOT


def test_both_files_are_written_and_read(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "project"
    assert init(folder) == (folder / FILE, folder / CDK)
    made = project.read(folder / FILE)
    assert made.deploys["embed"] == Deploy()  # the values that it shows are the defaults
    app = json.loads((folder / CDK).read_text(encoding="utf-8"))["app"]
    assert app == f"{sys.executable} -m hotfoot_infra.app"


def test_what_is_commented_out_is_right_too(tmp_path: Path) -> None:
    lines = [line.removeprefix("# ") if "=" in line or line.startswith("# [") else line for line in TEMPLATE.splitlines()]
    (tmp_path / FILE).write_text("\n".join(lines), encoding="utf-8")
    made = project.read(tmp_path / FILE).deploys["embed"]
    assert made.bulk is not None
    assert made.bulk.results_prefix == "results"


@pytest.mark.parametrize("name", [FILE, CDK])
def test_nothing_is_overwritten(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match=f"already has {name}"):
        init(tmp_path)
    assert [(p.name, p.read_text(encoding="utf-8")) for p in tmp_path.iterdir()] == [(name, "mine")]


def test_an_environment_inside_the_project_is_named_from_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "my project" / ".venv" / "bin" / "python"))
    assert interpreter(tmp_path / "my project") == ".venv/bin/python"
    assert interpreter(tmp_path / "other") == f"'{tmp_path}/my project/.venv/bin/python'"


def test_the_repository_deploys_as_a_project_does() -> None:
    assert json.loads((ROOT / CDK).read_text(encoding="utf-8"))["context"] == CONTEXT


def table(folder: Path) -> None:
    (folder / FILE).write_text('[build.mine]\nmodel = "a/b"\ntask = "feature-extraction"\nmax_tokens = 7\n', encoding="utf-8")


def test_a_build_by_name_is_what_its_table_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table(tmp_path)
    monkeypatch.chdir(tmp_path)
    seen: list[BuildRequest] = []

    def stop(request: BuildRequest, _progress: object) -> None:
        seen.append(request)
        raise InputError("seen")

    monkeypatch.setattr("hotfoot_build.pipeline.build", stop)
    assert isinstance(CliRunner().invoke(cli.app, ["build", "mine", "--force"]).exception, InputError)
    assert seen == [BuildRequest("a/b", "feature-extraction", "local", out=Path("artifacts/mine"), max_tokens=7, thresholds={}, force=True)]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["build", "mine", "--precision", "fp32", "--pooling", "cls"], "so --pooling, --precision cannot; change it there"),
        (["build", "other"], r"no \[build\.other\]; it has mine"),
        (["bundle", "other"], r"no \[build\.other\]; it has mine"),
        (["bundle", "mine"], r"no manifest\.json in artifacts/mine"),
    ],
)
def test_a_name_that_does_not_fit(arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table(tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(HotfootError, match=said):
        CliRunner().invoke(cli.app, arguments, catch_exceptions=False)


def test_a_name_without_a_project_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(HotfootError, match=r"no hotfoot\.toml here that could say what mine is\. .* or give --task"):
        CliRunner().invoke(cli.app, ["build", "mine"], catch_exceptions=False)
    (tmp_path / "mine").mkdir()
    assert CliRunner().invoke(cli.app, ["init", "mine"], catch_exceptions=False).stdout == f"mine/{FILE}\nmine/{CDK}\n"

"""`hotfoot init`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from typer.testing import CliRunner

from hotfoot.contract import project
from hotfoot.contract.errors import HotfootError, InputError
from hotfoot.contract.project import FILE, Api, Build, Deploy
from hotfoot_build import cli
from hotfoot_build.init_command import CDK, CONTEXT, TEMPLATE, init, interpreter
from hotfoot_build.passes.pool_in_graph import POOLINGS
from hotfoot_build.pipeline import PRECISIONS, BuildRequest
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
    (tmp_path / FILE).write_text("\n".join([*lines, "[deploy.pii]", "[deploy.mood]"]), encoding="utf-8")
    read = project.read(tmp_path / FILE)
    assert read.build("embed").package == "layers"
    made = read.deploys["embed"]
    assert made.bulk is not None
    assert (made.bulk.results_prefix, made.shared_cache) == ("results", True)
    assert read.apis == {"text": Api(deploys=("pii", "mood"), default="mood", cors_origins=("https://app.example.com",))}


@pytest.mark.parametrize("name", [FILE, CDK])
def test_what_is_missing_is_written_and_nothing_overwritten(name: str, tmp_path: Path) -> None:
    """As in a checkout, which has a cdk.json."""
    (tmp_path / name).write_text("mine", encoding="utf-8")
    other = CDK if name == FILE else FILE
    assert init(tmp_path) == (tmp_path / other,)
    assert (tmp_path / name).read_text(encoding="utf-8") == "mine"
    before = (tmp_path / other).read_bytes()
    with pytest.raises(InputError, match=f"already has {FILE} and {CDK}"):
        init(tmp_path)
    assert (tmp_path / name).read_text(encoding="utf-8") == "mine"
    assert (tmp_path / other).read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 2


def test_an_environment_inside_the_project_is_named_from_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "my project" / ".venv" / "bin" / "python"))
    assert interpreter(tmp_path / "my project") == ".venv/bin/python"
    assert interpreter(tmp_path / "other") == f"'{tmp_path}/my project/.venv/bin/python'"


def test_the_repository_deploys_as_a_project_does() -> None:
    assert json.loads((ROOT / CDK).read_text(encoding="utf-8"))["context"] == CONTEXT


def table(folder: Path) -> None:
    (folder / FILE).write_text('[build.mine]\nmodel = "a/b"\ntask = "feature-extraction"\nmax_tokens = 7\n', encoding="utf-8")


def test_a_build_by_name_names_every_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = '[build.mine]\nmodel = "a/b"\ntask = "token-clasification"\ntarget = "lambda"\nprecision = "int3"\npooling = "men"\n'
    (tmp_path / FILE).write_text(text + '[build.own]\nmodel = "a/b"\ntask = "my.task"\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for command in ("build", "bundle"):
        with pytest.raises(InputError) as refused:
            CliRunner().invoke(cli.app, [command, "own"], catch_exceptions=False)
        said = [line.strip().partition(": ")[0::2] for line in str(refused.value).splitlines()[1:]]
        assert [place for place, _ in said] == [f"{FILE}:{line}" for line in (3, 4, 5, 6)]
        assert said[0][1].startswith("build.mine.task: is 'token-clasification'; there are feature-extraction, ")
        assert "lambda-arm64" in said[1][1]
        assert "local" in said[1][1]


def test_the_file_knows_what_the_build_stage_knows() -> None:
    hints = get_type_hints(Build)
    assert get_args(hints["precision"]) == PRECISIONS
    [pooling] = [kind for kind in get_args(hints["pooling"]) if kind is not type(None)]
    assert set(get_args(pooling)) == {*POOLINGS, "none"}


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

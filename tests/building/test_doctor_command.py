"""`hotfoot doctor`: the checks as a command, what fails, what is never said, and how it looks."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from hotfoot import targets
from hotfoot.contract.errors import EXIT_CODES, UnsupportedError
from hotfoot.contract.target import Target
from hotfoot_build import cli, doctor, doctor_command
from hotfoot_build.doctor import Finding
from support.bare_machine import SECRETS, bare_machine

PYTHON = f"Python {targets.load('lambda-arm64').python}"


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    return bare_machine(monkeypatch, tmp_path)


def rigged(monkeypatch: pytest.MonkeyPatch, *found: Finding | Exception) -> None:
    """The checks give these, each of its own."""

    def check_of(each: Finding | Exception) -> doctor.Check:
        def some_check(_: Target | None) -> list[Finding]:
            if isinstance(each, Exception):
                raise each
            return [each]

        return some_check

    monkeypatch.setattr(doctor, "checks", lambda _: [check_of(each) for each in found])


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ZeroDivisionError("by none"), "ZeroDivisionError: by none"),
        (UnsupportedError("not this.", hint="But that."), "not this. But that."),
        (FileNotFoundError(2, "No such file", "/there"), "/there: No such file."),
        (ModuleNotFoundError("no onnx", name="onnx"), "this needs onnx: pip install 'hotfoot[build]'."),
        (ModuleNotFoundError("no elf", name="elf"), "no elf"),
    ],
)
def test_a_check_that_fails_is_a_finding(error: Exception, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rigged(monkeypatch, error, Finding("next", "ok", "there"))
    found = doctor_command.examine()
    assert found == [Finding("some check", "warning", f"could not be checked: {said}"), Finding("next", "ok", "there")]


def test_nothing_says_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    quoting = ValueError(f"cannot use {SECRETS['HF_TOKEN']}")
    with monkeypatch.context() as patch:
        rigged(patch, quoting, Finding("a", "missing", f"b {SECRETS['HOTFOOT_TOKEN']}", f"export X={SECRETS['AWS_SECRET_ACCESS_KEY']}"))
        assert [(each.detail, each.fix) for each in doctor_command.examine()] == [
            ("could not be checked: ValueError: cannot use $HF_TOKEN", ""),
            ("b $HOTFOOT_TOKEN", "export X=$AWS_SECRET_ACCESS_KEY"),
        ]
    said = CliRunner().invoke(cli.app, ["doctor", "--json"]).stdout
    assert json.loads(said)["findings"]
    assert [value for value in SECRETS.values() if value in said] == []


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ([], {"local target", PYTHON, "node", "HF_TOKEN", "HOTFOOT_*", "threads", "Chromium", "server extra", "infra extra"}),
        (["--target", "lambda-arm64"], {"target", PYTHON, "node", "cdk", "AWS credentials", "infra extra"}),
        (["--target", "cpu-container-arm64"], {"target", "server extra"}),
    ],
)
def test_what_is_looked_at(arguments: list[str], names: set[str]) -> None:
    everything = {"Chromium", "HF_TOKEN", "HOTFOOT_*", "local target", "node", "cdk", "server extra", "threads", "target", "infra extra"}
    everything |= {PYTHON, "AWS credentials"}
    result = CliRunner().invoke(cli.app, ["doctor", "--json", *arguments], catch_exceptions=False)
    document = json.loads(result.stdout)
    seen = {finding["name"] for finding in document["findings"]}
    assert seen & everything == names | ({"cdk", "AWS credentials"} if not arguments else set())
    assert {"Python", "build extra", "uv", "ONNX Runtime", "cache folder", "export environment"} <= seen
    assert document["target"] == (arguments[1] if arguments else None)
    assert {tuple(finding) for finding in document["findings"]} == {("name", "status", "detail", "fix")}
    assert {finding["status"] for finding in document["findings"]} <= {"ok", "warning", "missing"}
    # nothing is on PATH: what is lacking is needed for Lambda alone
    missing = {finding["name"] for finding in document["findings"] if finding["status"] == "missing"}
    assert missing & {"node", "cdk"} == ({"node", "cdk"} if "lambda-arm64" in arguments else set())
    assert document["ok"] == (not missing)
    assert result.exit_code == (EXIT_CODES["unsupported"] if missing else 0)


def test_an_unknown_target() -> None:
    with pytest.raises(UnsupportedError, match="no target 'lambda'"):
        CliRunner().invoke(cli.app, ["doctor", "--target", "lambda"], catch_exceptions=False)


@pytest.mark.parametrize(("status", "code", "last"), [("ok", 0, "All that is needed is here."), ("missing", 3, "Missing: a thing.")])
def test_exit_codes(status: doctor.Status, code: int, last: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rigged(monkeypatch, Finding("a thing", status, "there"), Finding("other", "warning", "optional", "do it"))
    result = CliRunner().invoke(cli.app, ["doctor"])
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (code, last)


class Ascii(StringIO):
    encoding = "ascii"


@pytest.mark.parametrize(("file", "marks"), [(StringIO(), "✓✗!"), (Ascii(), "+x!")])
def test_the_checklist_is_aligned_and_fits(file: StringIO, marks: str) -> None:
    fix = "a-command --with a-very-long-argument " * 4
    found = [
        Finding("short", "ok", "a few words"),
        Finding("rather long", "missing", "[many] words " * 12, f"{fix}\nother"),
        Finding("x", "warning", ":warning:"),
    ]
    doctor_command.checklist(found, Console(file=file, width=80))
    lines = file.getvalue().splitlines()
    assert lines[0] == f"{marks[0]} short        a few words"
    assert lines[1].startswith(f"{marks[1]} rather long  [many] words [many]")
    assert lines[2].startswith(" " * 15 + "[many] words")
    assert lines[-3:] == [f"      {fix}", "      other", f"{marks[2]} x            :warning:"]
    assert all(len(line) <= 80 for line in lines[:4])

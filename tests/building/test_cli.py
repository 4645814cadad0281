"""The command line: words as they were given, a line and an exit code for whatever goes wrong, one way to name an artifact."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from hotfoot import server, task
from hotfoot.contract.errors import EXIT_CODES, HotfootError, InputError
from hotfoot_build import cache, cli, edge, progress, run_command
from hotfoot_build.package import bundle as packaging
from hotfoot_build.pipeline import BuildRequest
from hotfoot_build.progress import Progress
from support.handmade import write_artifact
from walls.house import BLOCKER

HOTFOOT = "from hotfoot_build import cli\ncli.main()\n"
# rich would drop the first, stumble over the second, and turn the third into a picture
WORDS = ["[build.foo]", "[/tmp]", ":warning:", "\\[x]\\"]
# a build that is in the midst of writing, its input a thing that nobody else may see
SLOW = """
import sys, time
from pathlib import Path
from hotfoot_build import cache, pipeline

def build(request, progress):
    token = "hf_" + "secret" * 3
    with cache.replacing(Path("out")) as work:
        (work / "half").touch()
        print("ready", flush=True)
        sys.stdin.readline()
        raise RuntimeError("a fault")

pipeline.build = build
"""
BUILD = ("build", "some/model", "--task", "feature-extraction")


@pytest.fixture(autouse=True)
def own_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def start(*arguments: str, code: str = HOTFOOT, environ: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env={**os.environ, **(environ or {})})


def call(*arguments: str, code: str = HOTFOOT, environ: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    """A process of its own: its exit code, and what it wrote."""
    with start(*arguments, code=code, environ=environ) as process:
        out, said = process.communicate("", timeout=120)
    return process.returncode, out, said


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("color", ["", "1"])
def test_a_message_has_every_word(word: str, color: str) -> None:
    code, out, said = call("verify", word, environ={"FORCE_COLOR": color} if color else {})
    plain = re.sub(r"\x1b\[[0-9;]*m", "", said)
    # the second has a slash, so it can be no name
    assert plain.startswith(f"artifact there is no folder {word}." if "/" in word else f"input there is no folder {word}, and there is")
    assert (code, out) == (4 if "/" in word else 2, "")


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("terminal", [False, True])
def test_progress_has_every_word(word: str, terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "HEARTBEAT_S", 0)
    console = Console(file=StringIO(), force_terminal=terminal, width=200)
    shown = Progress(console)
    with shown.step("a step") as step:
        step(f"doing {word}")
        step.result = f"result {word}"
    shown.note(f"note {word}")
    assert isinstance(console.file, StringIO)
    text = console.file.getvalue()
    assert f"s  result {word}\n" in text
    assert f"  note {word}\n" in text
    assert terminal or f"a step … doing {word}\n" in text


def test_the_spinner_has_every_word() -> None:
    console = Console(file=StringIO(), force_terminal=True, width=200, color_system=None)
    with Progress(console).step("a step") as step:
        for word in WORDS:
            step(word)
            time.sleep(0.3)  # it turns several times a second
    assert isinstance(console.file, StringIO)
    assert [word for word in WORDS if f"a step … {word}" not in console.file.getvalue()] == []


@pytest.mark.parametrize("word", WORDS)
def test_what_is_built_has_every_word(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise InputError("seen")

    monkeypatch.setattr("hotfoot_build.pipeline.build", stop)
    said = CliRunner().invoke(cli.app, ["build", word, "--task", "feature-extraction"]).stderr
    assert said.startswith(f"Building {word} for feature-extraction on ")


@pytest.mark.parametrize("command", ["build", "bundle", "serve", "run", "verify"])
def test_the_help_says_that_an_artifact_has_a_name(command: str) -> None:
    said = CliRunner().invoke(cli.app, [command, "--help"], env={"COLUMNS": "300", "TERMINAL_WIDTH": "300"}).stdout
    assert "[build.NAME] of hotfoot.toml" in " ".join(said.replace("│", " ").split())


def test_the_helps_defaults_are_those_of_today() -> None:
    said = " ".join(CliRunner().invoke(cli.app, ["build", "--help"]).stdout.replace("│", " ").split())
    assert "Default: artifacts/ and a name." in said
    rule = " ".join((cli.show_cache.__doc__ or "").split())
    for kind, noun in (("environments", "export environments"), ("exports", "exports"), ("layers", "layers")):
        assert f"{cache.KINDS[kind].keep} {noun}" in rule


def test_tasks_and_what_they_are_stand_apart() -> None:
    lines = CliRunner().invoke(cli.app, ["tasks"]).stdout.splitlines()
    assert [line.split("  ")[0] for line in lines] == list(task.names())
    assert {line[26:] for line in lines} == {task.load(name).summary for name in task.names()}


@pytest.mark.parametrize("text", ["a,b,", " a , b", ",a,,b,a"])
def test_labels_are_read_as_in_a_request(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[BuildRequest] = []

    def stop(request: BuildRequest, _: object) -> None:
        seen.append(request)
        raise InputError("seen")

    monkeypatch.setattr("hotfoot_build.pipeline.build", stop)
    CliRunner().invoke(cli.app, ["build", "a/b", "--task", "zero-shot-classification", "--labels", text])
    assert [request.labels for request in seen] == [("a", "b")]


def test_labels_that_are_none_are_refused() -> None:
    with pytest.raises(InputError, match=r"--labels: has no label"):
        CliRunner().invoke(cli.app, ["build", "a/b", "--task", "zero-shot-classification", "--labels", " ,"], catch_exceptions=False)


def test_what_the_machine_refuses_is_one_line() -> None:
    Path("file").touch()
    code, out, said = call("init", "file/below")
    assert (code, out) == (74, "")
    assert re.fullmatch(r"system file/below\S*: Not a directory\.\n", said)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a full disk to write on is Linux's")
def test_a_full_disk_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-c", HOTFOOT, "tasks"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.stderr == "system No space left on device; `hotfoot cache` shows what could go from the cache.\n"
    assert done.returncode == 74
    assert edge.SYSTEM not in EXIT_CODES.values()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "/a/[b]"), "/a/[b]: Permission denied."),
        (OSError(errno.EXDEV, "Invalid cross-device link", "/a", None, "/b"), "/a -> /b: Invalid cross-device link."),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "Disk quota exceeded; `hotfoot cache` shows what could go from the cache."),
        (OSError("of another kind"), "of another kind."),
        (TimeoutError(), "TimeoutError."),
        (shutil.Error([("/a", "/b", "[Errno 28] No space left")]), "[Errno 28] No space left"),
    ],
)
def test_a_refusal_says_which_file_and_why(error: OSError, said: str) -> None:
    assert edge.refusal(error) == said


@pytest.mark.parametrize(
    ("number", "code", "said"), [(signal.SIGINT, 130, "interrupted\n"), (signal.SIGTERM, 143, "terminated\n")], ids=["INT", "TERM"]
)
def test_a_signal_leaves_nothing_half_done(number: signal.Signals, code: int, said: str) -> None:
    with start(*BUILD, code=SLOW + HOTFOOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors.partition("\n")[2]) == (code, said)
    assert list(Path().iterdir()) == []


def test_a_fault_shows_no_values() -> None:
    code, _, said = call(*BUILD, code=SLOW + HOTFOOT)
    assert code == 1
    assert "a fault" in said
    assert "hf_secret" not in said
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("absent", "arguments", "said"),
    [
        ("typer", ("--help",), "hotfoot: the command needs typer: pip install 'hotfoot[build]'. Without it"),
        ("rich", ("tasks",), "hotfoot: the command needs rich: pip install 'hotfoot[build]'. Without it"),
        ("uvicorn", ("serve", "."), "unsupported this needs uvicorn: pip install 'hotfoot[server]'."),
        ("onnx_ir", BUILD, "unsupported this needs onnx_ir: pip install 'hotfoot[build]'."),
    ],
)
def test_a_missing_extra_is_named(absent: str, arguments: tuple[str, ...], said: str) -> None:
    code, out, errors = call(*arguments, code=f"{BLOCKER}\nblock({absent!r})\n{HOTFOOT}")
    assert (code, out) == (3, "")
    assert errors.startswith(said)
    assert errors.count("\n") == 1


def test_a_module_that_no_extra_brings_is_a_fault() -> None:
    assert edge.lack(ModuleNotFoundError("no", name="mypkg.part")) is None
    assert edge.lack(ModuleNotFoundError("no")) is None


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Path, ...]]:
    """What each command would have opened, and written where that is said."""
    seen: list[tuple[Path, ...]] = []

    def stop(*places: Path) -> None:
        seen.append(places)
        raise InputError("seen")

    monkeypatch.setattr(server, "main", lambda arguments: stop(Path(arguments[0])))
    monkeypatch.setattr(run_command, "run", lambda artifact, *_: stop(artifact))
    monkeypatch.setattr(packaging, "bundle", lambda artifact, out, **_: stop(artifact, out))
    monkeypatch.setattr("hotfoot.contract.manifest.verify", stop)
    return seen


ARGUMENTS = {"serve": (), "run": ("texts.txt", "--out", "done"), "bundle": (), "verify": ()}
TOML = """
[build.plain]
model = "a/b"
task = "feature-extraction"

[build.placed]
model = "a/b"
task = "feature-extraction"
out = "else/where"

[deploy.placed]
bundle = "deep/bundle"
"""


@pytest.mark.parametrize("command", ARGUMENTS)
def test_every_command_knows_an_artifact_by_folder_and_by_name(command: str, opened: list[tuple[Path, ...]]) -> None:
    Path("hotfoot.toml").write_text(TOML, encoding="utf-8")
    Path("plain").mkdir()
    Path("deep/folder").mkdir(parents=True)
    cases = {"plain": ("plain", "bundles/plain"), "deep/folder": ("deep/folder", "bundles/folder"), "placed": ("else/where", "deep/bundle")}
    for word, places in cases.items():
        with pytest.raises(InputError, match="seen"):
            CliRunner().invoke(cli.app, [command, word, *ARGUMENTS[command]], catch_exceptions=False)
        assert opened.pop() == tuple(map(Path, places))[: 2 if command == "bundle" else 1]
    Path("plain").rmdir()
    with pytest.raises(InputError, match="seen"):
        CliRunner().invoke(cli.app, [command, "plain", *ARGUMENTS[command]], catch_exceptions=False)
    assert opened.pop()[0] == Path("artifacts/plain")


@pytest.mark.parametrize("command", ARGUMENTS)
def test_neither_folder_nor_name(command: str, opened: list[tuple[Path, ...]]) -> None:
    def refused(word: str) -> str:
        with pytest.raises(HotfootError) as error:
            CliRunner().invoke(cli.app, [command, word, *ARGUMENTS[command]], catch_exceptions=False)
        return str(error.value)

    assert refused("other").startswith("there is no folder other, and there is no hotfoot.toml here that could say what other is.")
    Path("hotfoot.toml").write_text(TOML, encoding="utf-8")
    assert refused("other") == "there is no folder other, and hotfoot.toml has no [build.other]; it has placed, plain."
    assert refused("a/b").startswith("there is no folder a/b.")
    assert opened == []


def test_verify_by_name() -> None:
    Path("hotfoot.toml").write_text(TOML, encoding="utf-8")
    made = write_artifact(Path("else/where"))
    assert call("verify", "placed") == (0, f"else/where: whole, digest {made.digest}\n", "")


def test_the_cache_is_listed_and_cleared() -> None:
    for place, size in (("layers/one", 1_200_000), ("exports/one", 300_000), ("emulator/one", 500)):
        (cache.root() / place).mkdir(parents=True)
        (cache.root() / place / "file").write_bytes(b"\0" * size)
    environ = {"HF_HOME": str(cache.root().parent / "hf")}
    code, out, said = call("cache", environ=environ)
    assert (code, said) == (0, "")
    found = {line.split()[0]: line.split()[1:3] for line in out.splitlines()}
    assert found["layers"] == ["1.2", "MB"]
    assert found["exports"] == ["0.3", "MB"]
    assert found["together"] == ["1.5", "MB"]
    assert list(found) == [*cache.KINDS, "together", "hub"]
    assert call("cache", "--clear", "layers", environ=environ) == (0, "1.2 MB removed\n", "")
    assert (cache.root() / "exports/one").exists()
    with cache.using(cache.root() / "exports" / "one", lambda _: None) as busy:
        code, out, said = call("cache", "--clear", "all", environ=environ)
        assert (code, out) == (0, "0.5 kB removed\n")
        assert said == f"in use, not removed: {busy}\n"
    assert call("cache", "--clear", "all", environ=environ)[1] == "0.3 MB removed\n"
    assert sum(cache.sizes().values()) == 0
    code, _, said = call("cache", "--clear", "hub", environ=environ)
    assert code == 2
    assert said == "input --clear: is 'hub'; it must be one of all, environments, exports, layers, emulator, cdk, other.\n"

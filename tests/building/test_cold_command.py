"""`hotfoot cold`: what it takes for a bundle, what it refuses, what it says; and real starts of a rigged bundle."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from hotfoot import targets, task
from hotfoot.contract import bundle as bundles
from hotfoot.contract import codec, manifest
from hotfoot.contract.bundle import BUNDLE, Bundle, LayerDir
from hotfoot.contract.errors import ArtifactError, HotfootError, UnsupportedError
from hotfoot_build import cli, cold_command
from hotfoot_build.cold import probe, starts
from hotfoot_build.cold.budget import Budget
from hotfoot_build.cold_command import Options
from hotfoot_build.package import bundle as packaging
from hotfoot_build.package import interpreters, tree
from hotfoot_build.progress import silent
from support.bundled import rigged_bundle, session_cache
from support.handmade import write_artifact
from support.rigged import rigged_artifact
from support.starting import budget_by_hand

HERE = targets.machine_arch()
OTHER = next(arch for arch in ("arm64", "x86_64") if arch != HERE)


def index(directory: Path, arch: str = HERE, task_name: str = "feature-extraction") -> Bundle:
    """A bundle of nothing but its index."""
    layer = LayerDir("model", "layers/model", "0" * 64, 0, 0)
    code = LayerDir("code", "code", "0" * 64, 0, 0)
    handler = "hotfoot.handlers.http.handler"
    minor = interpreters.running_minor()
    made = Bundle(f"lambda-{arch}", minor, arch, handler, "m", "0" * 64, bytecode=True, layers=(layer,), code=code, task=task_name)
    directory.mkdir(parents=True)
    (directory / BUNDLE).write_text(codec.dumps(made), encoding="utf-8")
    return made


def refused(path: Path, options: Options | None = None) -> str:
    with pytest.raises(HotfootError) as error, cold_command.opened(path, options or Options(), silent()):
        pass
    return str(error.value)


def test_a_bundle_is_started_as_it_is_and_its_report_lies_in_it(tmp_path: Path) -> None:
    made = index(tmp_path / "bundle")
    for python in (None, made.python):
        with cold_command.opened(tmp_path / "bundle", Options(python=python), silent()) as found:
            assert found == (tmp_path / "bundle", tmp_path / "bundle")


def test_what_cannot_be_started_here_is_refused_before_anything_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index(tmp_path / "foreign", OTHER)
    assert refused(tmp_path / "foreign").startswith(f"it is for lambda-{OTHER} ({OTHER}), and this machine is {HERE}")
    write_artifact(tmp_path / "artifact", target=f"lambda-{OTHER}")
    assert refused(tmp_path / "artifact").startswith(f"it is for lambda-{OTHER} ({OTHER}), and this machine is {HERE}")
    made = index(tmp_path / "bundle")
    said = refused(tmp_path / "bundle", Options(python="3.99"))
    assert said == f"--python: is 3.99, and this bundle is for {made.python}. Give the artifact instead of it."
    (tmp_path / "neither").mkdir()
    assert refused(tmp_path / "neither").startswith(f"{tmp_path / 'neither'} is neither an artifact nor a bundle.")
    monkeypatch.chdir(tmp_path)
    assert refused(Path("absent")).startswith("there is no folder absent")


def test_an_artifact_by_its_name_is_bundled_as_its_table_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = f'[build.one]\nmodel = "m"\ntask = "feature-extraction"\ntarget = "lambda-{HERE}"\npackage = "s3"\n'
    Path("hotfoot.toml").write_text(table, encoding="utf-8")
    write_artifact(tmp_path / "artifacts" / "one", target=f"lambda-{HERE}")
    made, asked = index(tmp_path / "made"), []

    def bundled(folder: Path, _out: Path, *, package: str | None, **_: object) -> Bundle:
        asked.append((folder.resolve(), package))
        return made

    monkeypatch.setattr(packaging, "bundle", bundled)
    for artifact in (Path("one"), Path("artifacts/one")):
        with cold_command.opened(artifact, Options(), silent()) as (_, report):
            assert report == Path("cold/one")
    assert asked == [(tmp_path / "artifacts" / "one", "s3"), (tmp_path / "artifacts" / "one", None)]


@pytest.mark.parametrize("name", task.names())
def test_the_first_event_asks_what_the_task_answers(name: str, tmp_path: Path) -> None:
    artifact = rigged_artifact(tmp_path / "bundle" / "layers" / "model" / "hotfoot" / "model", name)
    index(tmp_path / "index", task_name=name)
    (tmp_path / "index" / BUNDLE).rename(tmp_path / "bundle" / BUNDLE)
    made = bundles.read(tmp_path / "bundle")
    asked = cold_command.question(tmp_path / "bundle", made, None)
    assert set(asked) == {"inputs", "parameters"}
    assert asked["parameters"] == ({"max_new_tokens": 8} if task.load(name).generate else {})
    assert task.load(name).parse(asked["inputs"], asked["parameters"], manifest.read(artifact)).texts
    assert cold_command.question(tmp_path / "bundle", made, "own words")["inputs"] == "own words"
    assert cold_command.question(tmp_path / "bundle", replace(made, task=""), None) == asked, "a bundle of before it was written down"


@pytest.mark.parametrize("answer", [{"statusCode": 422, "body": "inputs: is empty."}, {"statusCode": 500, "body": "no"}, "text", None])
def test_a_refusal_is_no_first_answer(answer: object) -> None:
    with pytest.raises(ArtifactError, match=r"answered with status (422: inputs: is empty|500: no|None: text|None: None)"):
        starts.check(answer)


def test_the_probed_bundle_is_the_same_but_for_the_probe(tmp_path: Path) -> None:
    made = index(tmp_path / "bundle")
    before = (tmp_path / "bundle" / BUNDLE).read_bytes()
    with starts.probed(tmp_path / "bundle") as staged:
        found = bundles.read(staged)
        assert found.handler == f"{probe.MODULE}.handler"
        *layers, ours = found.layers
        assert [layer.path for layer in (*layers, found.code)] == [str(tmp_path / "bundle" / p) for p in ("layers/model", "code")]
        assert replace(found, handler=made.handler, layers=made.layers, code=made.code) == made
        files = {p.name for p in Path(ours.path).rglob("*") if p.is_file()}
        tag = made.python.replace(".", "")
        assert files == {f"{probe.MODULE}.py", f"{probe.MODULE}.cpython-{tag}.pyc"}
    assert not staged.exists()
    assert (tmp_path / "bundle" / BUNDLE).read_bytes() == before


def test_a_python_that_is_not_here_is_named(tmp_path: Path) -> None:
    made = replace(index(tmp_path / "bundle"), python="3.99")
    (tmp_path / "bundle" / BUNDLE).write_text(codec.dumps(made), encoding="utf-8")
    with (
        pytest.raises(UnsupportedError, match=r"no Python 3\.99 on this machine\. Run `uv python install 3\.99`"),
        starts.probed(tmp_path / "bundle"),
    ):
        pass


def shown(found: Budget) -> list[list[str]]:
    console = Console(file=StringIO(), width=120)
    console.print(cold_command.table(found))
    assert isinstance(console.file, StringIO)
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in console.file.getvalue().splitlines() if "│" in line]


def test_the_table_has_each_part_and_the_whole() -> None:
    rows = shown(budget_by_hand(1, 1, 2))
    assert rows[0] == ["interpreter and AWS's client", "28.0", "28.0 - 56.0", "20.0", "11.2%"]
    assert rows[1] == ["import numpy", "60.0", "60 - 120", "90.0", "24.0%"]
    assert ["session", "40.0", "40.0 - 80.0", "60.0", "16.0%"] in rows
    assert rows[-2:] == [["not attributed", "6.5", "6.5 - 13.0", "4.5", "2.6%"], ["together", "250.0", "250 - 500", "290.0", "100.0%"]]


def test_the_summary_tells_measured_from_estimated() -> None:
    first, second = cold_command.summary(budget_by_hand(1))
    assert first == "cold start 0.25 s wall, 0.29 s of CPU, memory at most 120.0 MB"
    assert second.startswith("estimate, not measured: ")
    assert "1.0 s at 512 MB, 0.5 s at 1024 MB" in second
    assert len(cold_command.summary(budget_by_hand(10))) == 1, "no small function holds it"


def test_the_command_passes_on_what_it_was_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen = []

    def stop(artifact: Path, options: Options, _: Console) -> Path:
        seen.append((artifact, options))
        return tmp_path

    monkeypatch.setattr(cold_command, "cold", stop)
    assert CliRunner().invoke(cli.app, ["cold", "a"]).stdout == f"{tmp_path}\n"
    given = ["--runs", "3", "--memory", "512", "--text", "t", "--out", "o", "--python", "3.13"]
    assert CliRunner().invoke(cli.app, ["cold", "b", *given]).exit_code == 0
    assert seen == [(Path("a"), Options()), (Path("b"), Options(3, 512, "t", Path("o"), "3.13"))]
    for wrong in (["--runs", "0"], ["--memory", "64"]):
        assert CliRunner().invoke(cli.app, ["cold", "a", *wrong]).exit_code == 2


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a rigged artifact and its bundle for this machine, of the Python that runs here."""
    with session_cache(tmp_path_factory):
        folder = tmp_path_factory.mktemp("cold")
        rigged_bundle(folder, targets.local().name, python=interpreters.running_minor())
        yield folder


def called(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(cli.app, ["cold", *arguments], catch_exceptions=False)
    return done.exit_code, done.stdout.strip(), done.stderr


@pytest.mark.slow
def test_real_starts_are_accounted_for(real: Path) -> None:
    bundle = real / f"bundle-{targets.local().name}"
    before = {name: tree.content_hash(bundle / name) for name in ("code", "layers")}
    code, out, said = called(str(bundle), "--runs", "2")
    assert (code, out) == (0, str(bundle))
    found = codec.loads(Budget, (bundle / "cold.json").read_text(encoding="utf-8"), "cold.json")
    assert (bundle / "cold.png").read_bytes().startswith(b"\x89PNG")
    assert {name: tree.content_hash(bundle / name) for name in ("code", "layers")} == before
    assert found.missing == ()
    assert len(found.starts) == 2
    for start in found.starts:
        assert sum(part.wall_s for part in start.parts.values()) == pytest.approx(start.wall_s)
        assert sum(part.cpu_s for part in start.parts.values()) == pytest.approx(start.cpu_s)
        assert min(part.wall_s for part in start.parts.values()) > 0, "nothing is counted twice"
        assert start.parts["other"].wall_s < start.wall_s / 4
        assert 20e6 < start.peak_bytes < 1e9
        assert start.own_s < start.wall_s / 20
    imports = {row.label.removeprefix(probe.IMPORT) for row in found.rows if row.label.startswith(probe.IMPORT)}
    assert {
        "numpy",
        "onnxruntime",
        "tokenizers",
        "starlette",
        "anyio",
        "mangum",
        "aws_lambda_powertools",
        "hotfoot",
        probe.STDLIB,
    } <= imports
    assert {"client", "open", "session", "tokenizer", "warm-up", "app", "answer", "other"} <= {row.label for row in found.rows}
    assert re.search(r"cold start \d+\.\d\d s wall, \d+\.\d\d s of CPU, memory at most \d+\.\d MB", said)
    assert json.loads(found.asked)["inputs"] == task.load("text-classification").sample


@pytest.mark.slow
def test_an_artifact_is_bundled_for_the_time_being(real: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(real)
    artifact = f"artifact-{targets.local().name}"
    before = tree.content_hash(real / artifact)
    code, out, _ = called(artifact, "--runs", "1", "--text", "a good word", "--python", interpreters.running_minor(), "--memory", "3538")
    assert (code, out) == (0, f"cold/{artifact}")
    found = codec.loads(Budget, (real / out / "cold.json").read_text(encoding="utf-8"), "cold.json")
    assert (json.loads(found.asked)["inputs"], found.memory_mb) == ("a good word", 3538)
    assert tree.content_hash(real / artifact) == before


@pytest.mark.slow
def test_a_function_that_does_not_start_says_why_and_leaves_no_report(real: Path, tmp_path: Path) -> None:
    whole = real / f"bundle-{targets.local().name}"
    made = bundles.read(whole)
    (tmp_path / "empty").mkdir()
    layers = tuple(
        replace(layer, path=str(tmp_path / "empty" if layer.kind == "tokenizer" else whole / layer.path)) for layer in made.layers
    )
    broken = replace(made, layers=layers, code=replace(made.code, path=str(whole / made.code.path)))
    (tmp_path / BUNDLE).write_text(codec.dumps(broken), encoding="utf-8")
    with pytest.raises(ArtifactError, match=r"the function did not start: ArtifactError: tokenizer \w+ is in none of"):
        called(str(tmp_path), "--runs", "1")
    with pytest.raises(ArtifactError, match=r"answered with status 422: .*empty.* Ask something else with --text"):
        called(str(whole), "--runs", "1", "--text", "", "--out", str(tmp_path / "out"))
    assert sorted(p.name for p in tmp_path.iterdir()) == [BUNDLE, "empty"]

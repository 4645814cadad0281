"""An artifact carries questions with its answers, and says when it, or its deployment, no longer gives them."""

from __future__ import annotations

import json
import shutil
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from hotfoot.contract import manifest
from hotfoot.contract.errors import EXIT_CODES, ArtifactError, ParityError
from hotfoot.http.app import Options, create_app
from hotfoot.model import Model
from hotfoot.observe import Record
from hotfoot_build import cli, replay
from support import tiny
from support.serving import running


def copy(name: str, to: Path) -> Path:
    return Path(shutil.copytree(tiny.artifact(name, "int8").path, to))


def served(artifact: Path, **options: Any) -> AbstractContextManager[str]:
    """The address of a real server over the artifact."""
    return running(create_app(Model.open(artifact), Options(threads=1, **options)))


@pytest.mark.parametrize("name", ["embed", "tags", "classes", "score"])
def test_an_artifact_gives_the_answers_of_its_build(name: str) -> None:
    built = tiny.artifact(name, "int8")
    kept = replay.read(built.path)
    assert kept.digest == built.manifest.digest
    assert len(kept.samples) == 5
    assert replay.check(built.path, None) == 5


def test_the_samples_are_in_no_digest(tmp_path: Path) -> None:
    artifact = copy("embed", tmp_path / "a")
    (artifact / manifest.SAMPLES).unlink()
    assert manifest.verify(artifact).digest == tiny.artifact("embed", "int8").manifest.digest
    with pytest.raises(ArtifactError, match="Build the artifact again"):
        replay.check(artifact, None)


def test_an_answer_that_changed_is_named(tmp_path: Path) -> None:
    artifact = copy("classes", tmp_path / "a")
    path = artifact / manifest.SAMPLES
    document = json.loads(path.read_text(encoding="utf-8"))
    document["samples"][2]["answer"][0][0]["score"] += 0.1
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(ParityError, match=r"1 of 5 answers .*\n  sample 2: answer\[0\]\[0\]\.score is "):
        replay.check(artifact, None)


def test_a_deployment_is_asked_over_http() -> None:
    built = tiny.artifact("tags", "int8")
    with served(built.path) as url:
        assert replay.check(built.path, url) == 5
        with pytest.raises(ArtifactError, match="answers 404"):
            replay.check(built.path, f"{url}/nowhere")
        with pytest.raises(ArtifactError, match="serves the artifact with digest"):
            replay.check(tiny.artifact("tags", "fp32").path, url)
    with pytest.raises(ArtifactError, match="does not answer"):
        replay.check(built.path, url)


def test_a_door_with_a_token_and_another_shape_is_asked_all_the_same(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    built = tiny.artifact("classes", "int8")
    with served(built.path, shape="classic", token="secret") as url:
        assert replay.check(built.path, url, "secret") == 5
        with pytest.raises(ArtifactError, match="answers 401"):
            replay.check(built.path, url)
        monkeypatch.setenv("HOTFOOT_TOKEN", "secret")
        monkeypatch.setattr("sys.argv", ["hotfoot", "check", str(built.path), "--url", url])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert (ended.value.code, capsys.readouterr().out) == (0, f"{url}: 5 answers are those of the build\n")
        monkeypatch.setattr("sys.argv", ["hotfoot", "check", str(built.path), "--url", url, "--token", "another"])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == EXIT_CODES["artifact"]


def test_no_answer_is_from_memory() -> None:
    """Where the same was asked before, the model itself is asked again."""
    built, found = tiny.artifact("score", "int8"), list[Record]()
    with served(built.path, cache_bytes=2**20, report=found.append) as url:
        assert [replay.check(built.path, url) for _ in range(2)] == [5, 5]
    assert (len(found), {(record.status, record.cache, record.remembered) for record in found}) == (10, {(200, "bypass", 0)})


@pytest.mark.parametrize(
    ("found", "wanted", "where"),
    [
        (0.5004, 0.5, None),
        (0.51, 0.5, "answer is 0.51, it was 0.5"),
        ([1.0, 2.0], [1.0, 2.0], None),
        ([1.0], [1.0, 2.0], "answer is [1.0], it was [1.0, 2.0]"),
        ({"a": "x"}, {"a": "y"}, 'answer.a is "x", it was "y"'),
        ({"a": 1}, {"b": 1}, 'answer is {"a": 1}, it was {"b": 1}'),
        ([{"start": 3}], [{"start": 4}], "answer[0].start is 3, it was 4"),
        (True, 1.0, "answer is true, it was 1.0"),
    ],
)
def test_numbers_may_differ_a_little_and_nothing_else(found: object, wanted: object, where: str | None) -> None:
    assert replay.differs(found, wanted) == where


def test_the_command_asks_again(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    built = tiny.artifact("score", "int8")
    monkeypatch.setattr("sys.argv", ["hotfoot", "check", str(built.path)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"{built.path}: 5 answers are those of the build\n"

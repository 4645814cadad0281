"""`hotfoot run`: the pipeline over local files, as a user calls it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from hotfoot.bulk.answers import prepare
from hotfoot.bulk.pipeline import Source, process
from hotfoot.bulk.report import Origin
from hotfoot.contract.bulk import BulkOptions
from hotfoot.contract.errors import InputError
from hotfoot.contract.manifest import sha256
from hotfoot_build import run_command
from hotfoot_build.cli import app
from support.objects import MemoryResults
from support.serving import artifact, model

LETTERS = Path(__file__).parents[1] / "fixtures" / "letters"


def call(*arguments: str | Path, task: str = "token-classification", code: int = 0) -> Result:
    result = CliRunner().invoke(app, ["run", str(artifact(task)), *map(str, arguments)])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def tree(root: Path) -> dict[str, bytes]:
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def records(root: Path) -> list[dict[str, object]]:
    return [json.loads(line) for key, body in tree(root).items() if "/part-" in key for line in body.splitlines()]


def test_the_same_bytes_as_in_the_cloud(tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = call(LETTERS, "--out", out, "--mask", "--whole")
    assert result.stdout.strip() == str(out)
    assert "5 done; 5 records, 0 of them failed" in result.stderr
    work, results = prepare(model("token-classification"), BulkOptions(mask=True, whole=True)), MemoryResults()
    for letter in sorted(LETTERS.glob("*.txt")):
        origin = Origin("", f"letters/{letter.name}", sha256(letter))
        process(work, Source(origin, [letter.read_bytes()]), results, "results")
    assert tree(out) == results.objects.files("results")
    assert not any(b"Maria" in body or b"Springfield" in body for body in tree(out).values())


def test_again_and_changed(tmp_path: Path) -> None:
    file, out = tmp_path / "a.txt", tmp_path / "out"
    file.write_text("good\nbad\n")
    call(file, "--out", out, task="text-classification")
    before = tree(out)
    assert "1 already; 2 records" in call(file, "--out", out, task="text-classification").stderr
    assert tree(out) == before
    file.write_text("fine\n")
    call(file, "--out", out, task="text-classification")
    assert len(tree(out)) == 4


def test_failed_records_are_counted_and_rejected_files_fail(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text('{"body": "good", "n": 5}\n{"text": "canary"}\nnot json\n')
    (tmp_path / "in" / ".hidden.txt").write_text("good")
    flags = ("--field", "body", "--id-field", "n", "--prefix", "x/y")
    result = call(tmp_path / "in", "--out", tmp_path / "out", *flags, task="text-classification")
    assert "3 records, 2 of them failed" in result.stderr
    assert "canary" not in result.output
    assert [r.get("id") for r in records(tmp_path / "out")] == [5, None, None]
    assert all(key.startswith("x/y/tiny/") for key in tree(tmp_path / "out"))
    (tmp_path / "in" / "b.csv").write_text("good")
    result = call(tmp_path / "in", "--out", tmp_path / "out", *flags, task="text-classification", code=1)
    assert "rejected in/b.csv: only .txt and .jsonl" in result.stderr
    # it stays so
    call(tmp_path / "in", "--out", tmp_path / "out", *flags, task="text-classification", code=1)


def test_killed_in_the_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, whole, out = tmp_path / "a.txt", tmp_path / "whole", tmp_path / "out"
    file.write_text("good\nbad\nfine\n" * 9)
    call(file, "--out", whole, "--part-bytes", "500", task="text-classification")
    left = 3
    link = os.link

    def dying(aside: str, target: Path) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        link(aside, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", dying)
        call(file, "--out", out, "--part-bytes", "500", task="text-classification", code=130)
    assert len(tree(out)) == 3
    result = call(file, "--out", out, "--part-bytes", "500", task="text-classification")
    assert tree(out) == tree(whole)
    assert int(result.stderr.split(" texts, ")[0].split()[-1]) < 27


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--part-bytes", "0"], "part_bytes: must be at least 1"),
        (["--field", ""], "field: must not be empty"),
        (["--mask", "--id-field", "text"], "id_field: is the text's own field, 'text'"),
        (["--parameters", "{"], "is not JSON"),
        (["--parameters", "[]"], "must be a JSON object"),
        (["--parameters", '{"stride": 3}'], "parameters.stride"),
        (["--prefix", "../x"], "must be a path below"),
        (["--prefix", "/"], "must be a path below"),
    ],
)
def test_wrong_flags(tmp_path: Path, flags: Sequence[str], message: str) -> None:
    result = CliRunner().invoke(app, ["run", str(artifact("text-classification")), str(LETTERS), "--out", str(tmp_path), *flags])
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)
    assert tree(tmp_path) == {}


def test_what_counts_as_input(tmp_path: Path) -> None:
    for name in ("in/b.txt", "in/deep/a.txt", "in/results/old.jsonl", "in/.git/x.txt", "in/.DS_Store", "single.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("good")
    found = run_command.find([tmp_path / "in", tmp_path / "in" / "b.txt", tmp_path / "single.txt"], tmp_path / "in" / "results")
    assert [each.key for each in found] == ["in/b.txt", "in/deep/a.txt", "single.txt"]
    (tmp_path / "empty").mkdir()
    for missing in (tmp_path / "nowhere", tmp_path / "empty"):
        with pytest.raises(InputError, match="PATHS"):
            run_command.find([missing], tmp_path / "out")


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"b\xffd.txt")
    path.write_text("good")
    call(path, "--out", tmp_path / "out", task="text-classification")
    assert all("b\ufffdd.txt" in key for key in tree(tmp_path / "out"))


def test_results_in_a_folder(tmp_path: Path) -> None:
    results = run_command.Folder(tmp_path)
    assert results.read("a/b") is None
    assert results.create("a/b", b"1")
    assert not results.create("a/b", b"2")
    assert results.read("a/b") == b"1"
    assert [p.name for p in (tmp_path / "a").iterdir()] == ["b"]


def test_the_bar_shows_texts_a_second(tmp_path: Path) -> None:
    console = Console(force_terminal=True, width=140, record=True, stderr=True)
    totals = run_command.run(artifact("token-classification"), [LETTERS], tmp_path, "results", BulkOptions(), console)
    assert "texts/s" in console.export_text()
    assert totals.texts == totals.records == sum(1 for p in LETTERS.glob("*.txt") for line in p.read_text().splitlines() if line.strip())

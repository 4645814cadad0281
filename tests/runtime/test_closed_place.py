"""A function in a place like Lambda's: no home, nothing writable but /tmp, no network. Lambda's own walls are tested end to end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.serving import artifact

# every file that is opened to be written, everything made, moved or removed, and every connection, from the first import on
WATCH = """
import json, os, sys

CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate")
touched = []

def watch(event, given):
    if event == "open":
        path, mode, flags = given
        if isinstance(path, (str, bytes)) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC):
            touched.append([event, os.fsdecode(path)])
    elif event in CHANGES or event.startswith(("shutil.", "tempfile.")):
        touched.append([event, str(given[0])])
    elif event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        touched.append([event, str(given[1:] if event == "socket.connect" else given[:1])])

sys.addaudithook(watch)
from types import SimpleNamespace
from hotfoot.handlers.http import handler

context = SimpleNamespace(
    function_name="f", function_version="1", memory_limit_in_mb=512, invoked_function_arn="arn:aws:lambda:eu-west-1:1:function:f",
    aws_request_id="r", get_remaining_time_in_millis=lambda: 900_000,
)
print(json.dumps([handler({"inputs": "good"}, context), touched]))
"""


def started(tmp_path: Path, place: Path) -> subprocess.CompletedProcess[str]:
    """The function's first request, with the environment of a fresh Lambda sandbox."""
    (tmp_path / "task").mkdir()
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path / "home-that-is-not-there"),
        "PYTHONDONTWRITEBYTECODE": "1",  # the bundle brings its own
        "HOTFOOT_ARTIFACT": str(place),
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "512",
    }
    return subprocess.run([sys.executable, "-c", WATCH], cwd=tmp_path / "task", env=environ, capture_output=True, text=True, check=False)


def test_the_first_request_writes_nothing_and_reaches_nobody(tmp_path: Path) -> None:
    done = started(tmp_path, artifact("text-classification"))
    assert done.returncode == 0, done.stderr[-3000:]
    answer: list[Any]
    answer, touched = json.loads(done.stdout.splitlines()[-1])
    assert answer[0][0]["label"] == "POSITIVE"
    assert touched == []  # not even below /tmp
    assert sorted(p.name for p in tmp_path.iterdir()) == ["task"]
    assert list((tmp_path / "task").iterdir()) == []


@pytest.mark.parametrize(
    ("missing", "named"),
    [("model.onnx", "model.onnx: missing"), ("manifest.json", "no manifest.json in"), ("tokenizer/tokenizer.json", "artifact/tokenizer")],
)
def test_a_missing_file_is_named_at_once(tmp_path: Path, missing: str, named: str) -> None:
    source, place = artifact("text-classification"), tmp_path / "artifact"
    for path in (p for p in source.rglob("*") if p.is_file()):
        (place / path.relative_to(source)).parent.mkdir(parents=True, exist_ok=True)
        (place / path.relative_to(source)).write_bytes(path.read_bytes())
    (place / missing).unlink()
    done = started(tmp_path, place)
    assert done.returncode != 0
    assert "ArtifactError" in done.stderr
    assert str(place) in done.stderr
    assert named in done.stderr

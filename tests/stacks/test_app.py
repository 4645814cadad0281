"""`cdk` in a checkout: the command in cdk.json, run as the CDK runs it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hotfoot.contract.project import FILE
from support.cloud.account import ROOT, Account
from support.cloud.bundles import write_bundle
from walls.house import BLOCKER


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """cdk.json of the repository, and this environment where scripts/setup makes one."""
    shutil.copy(ROOT / "cdk.json", tmp_path)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / FILE).write_text("[deploy.tiny]\n", encoding="utf-8")
    return tmp_path


@pytest.mark.slow
def test_the_checkouts_own_python_is_found(checkout: Path) -> None:
    write_bundle(checkout / "bundles" / "tiny")
    started = time.monotonic()
    Account(checkout).cdk(checkout, "synth", "--quiet")
    assert (checkout / "cdk.out" / "hotfoot-tiny.template.json").is_file()
    assert time.monotonic() - started < 60


@pytest.mark.slow
def test_a_fault_is_a_message_and_no_traceback(checkout: Path) -> None:
    done = app(checkout)
    assert done.returncode == 1
    assert f"input: {FILE} has 1 fault(s):\n  {FILE}:1: deploy.tiny.bundle: no bundle.json in " in done.stderr
    assert "Traceback" not in done.stderr


def test_without_the_extra_it_says_what_to_install(checkout: Path) -> None:
    done = app(checkout, BLOCKER + "block('aws_cdk')\n")
    assert done.returncode == 1
    assert done.stderr.strip().endswith("has no aws_cdk. Install hotfoot there with its extra `infra`.")


def app(folder: Path, before: str = "") -> subprocess.CompletedProcess[str]:
    command = json.loads((folder / "cdk.json").read_text(encoding="utf-8"))["app"]
    assert command.endswith("python -m hotfoot_infra.app")
    code = f"{before}import runpy; runpy.run_module('hotfoot_infra.app', run_name='__main__')"
    environ = {**os.environ, "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "1"}
    return subprocess.run([sys.executable, "-c", code], cwd=folder, env=environ, capture_output=True, text=True, check=False)

"""A machine that has nothing, as far as PATH, home and variables go, and programs to put on it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from hotfoot_build.doctor import Finding

# variables whose values no report may show
SECRETS = {
    "HF_TOKEN": "hf_wordless",
    "HOTFOOT_TOKEN": "open-sesame",
    "AWS_SECRET_ACCESS_KEY": "a/hidden+key",
    "HOTFOOT_CACHE_SECRET": "arn:of:it",
}


def bare_machine(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    """Nothing on PATH, nothing at home, nothing in the variables; gives the folder that is on PATH."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "HF_", "HOTFOOT_", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(folder / "home"))
    monkeypatch.setenv("PATH", str(folder / "bin"))
    monkeypatch.setenv("ORT_DISABLE_TELEMETRY", "1")
    (folder / "home").mkdir()
    (folder / "bin").mkdir()
    return folder / "bin"


def program(folder: Path, name: str, says: str = "", code: int = 0) -> Path:
    """A program in `folder` that says this and ends so."""
    path = folder / name
    path.write_text(f"#!/bin/sh\nprintf '%s\\n' '{says}'\nexit {code}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def only(found: Sequence[Finding]) -> Finding:
    """The one that there must be."""
    [finding] = found
    return finding


def states(found: Sequence[Finding]) -> dict[str, str]:
    """Status by name."""
    return {finding.name: finding.status for finding in found}

"""The import walls in pyproject.toml: that they hold, that they have no gap, and that breaking one is seen."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from walls.house import PACKAGES, ROOT, imports, pyproject

CONTRACTS: dict[str, dict[str, Any]] = {c["id"]: c for c in pyproject()["tool"]["importlinter"]["contracts"]}
# what a source may use, by contract; everything else that the project imports must be in its list
ALLOWED = {"contract": set[str](), "tasks": {"numpy"}, "infra": {"aws_cdk", "cdk_nag", "constructs"}}
PURE = ("task", "tasks", "generation")


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-logo", "--no-cache"]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(str(root / home.parent.name) for home in PACKAGES.values())}
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, env=environ)


def third_party() -> set[str]:
    return {name for package in PACKAGES for _, name in imports(package)} - set(sys.stdlib_module_names) - set(PACKAGES)


def rooms() -> set[str]:
    """The modules and folders right inside the runtime package."""
    return {p.stem for p in PACKAGES["hotfoot"].iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()} - {"__init__"}


def test_the_walls_hold() -> None:
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("contract", sorted(ALLOWED))
def test_every_package_in_use_is_named(contract: str) -> None:
    unnamed = third_party() - ALLOWED[contract] - set(CONTRACTS[contract]["forbidden_modules"])
    assert unnamed == set(), f"add to forbidden_modules of contract {contract!r} in pyproject.toml"


def test_every_pure_room_is_named() -> None:
    assert {f"hotfoot.{room}" for room in rooms() & set(PURE)} == set(CONTRACTS["tasks"]["source_modules"])


@pytest.mark.parametrize(
    ("file", "line", "contract"),
    [
        ("functions/hotfoot/contract/errors.py", "import numpy", "contract"),
        ("functions/hotfoot/targets/lambda_arm64.py", "import hotfoot.settings", "downward"),
        ("functions/hotfoot/tasks/_texts.py", "import hotfoot.session", "tasks"),
        ("functions/hotfoot/tasks/_texts.py", "import tokenizers", "tasks"),
        ("functions/hotfoot/model.py", "import hotfoot_build.graph", "runtime"),
        ("functions/hotfoot/http/app.py", "import onnx", "runtime"),
        ("build/hotfoot_build/parity.py", "import torch", "export"),
        ("build/hotfoot_build/cli.py", "import hotfoot_infra", "build"),
        ("infra/hotfoot_infra/__init__.py", "import numpy", "infra"),
        ("infra/hotfoot_infra/config.py", "import hotfoot.model", "infra"),
        ("infra/hotfoot_infra/config.py", "from hotfoot import settings", "infra"),
    ],
)
def test_a_breach_is_seen(file: str, line: str, contract: str, tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for home in PACKAGES.values():
        shutil.copytree(home, tmp_path / home.relative_to(ROOT), ignore=shutil.ignore_patterns("__pycache__", "data"))
    with (tmp_path / file).open("a", encoding="utf-8") as stream:
        stream.write(f"\n\ndef breach() -> None:\n    {line}\n")
    done = lint(tmp_path)
    assert done.returncode == 1
    # the report is wrapped to a terminal's width
    assert f"{CONTRACTS[contract]['name']} BROKEN" in " ".join(done.stdout.split())

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from hotfoot_build.package.wheels import LOCKS

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("container", "ric", "rie", "runtime", "weights")  # those of scripts/lock that name every package


def wanted(name: str) -> set[str]:
    """The packages that `name.in` names, the files that it includes counted in."""
    found: set[str] = set()
    for line in (LOCKS / f"{name}.in").read_text().splitlines():
        word = line.partition("#")[0].strip()
        if word.startswith("-r"):
            found |= wanted(word.split()[1].removesuffix(".in"))
        elif word:
            found.add(re.split(r"[=<>~!]", word)[0].replace("_", "-").lower())
    return found


def pins(name: str) -> set[str]:
    return set(re.findall(r"^[a-z0-9-]+==\S+(?: ; .*)?(?= \\$)", (LOCKS / f"{name}.txt").read_text(), re.MULTILINE))


@pytest.mark.parametrize("name", NAMES)
def test_a_lock_pins_what_its_list_names_with_hashes_and_nothing_of_this_machine(name: str) -> None:
    text = (LOCKS / f"{name}.txt").read_text()
    assert {pin.partition("==")[0] for pin in pins(name)} == wanted(name)
    for line in text.splitlines():
        assert re.fullmatch(r"[a-z0-9-]+==\S+( ; .*)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?", line), line
    assert text.count("==") - text.count("python_full_version ==") == len(pins(name))


def test_a_container_runs_the_versions_of_the_function() -> None:
    assert pins("runtime") < pins("container")


def test_the_lock_has_every_dependency_of_the_runtime() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {re.split(r"[\[=<>~! ]", d)[0] for d in declared["dependencies"]}
    assert names <= wanted("runtime")
    assert {re.split(r"[\[=<>~! ]", d)[0] for d in declared["optional-dependencies"]["server"]} <= wanted("container")


def test_what_lambda_brings_or_only_the_build_needs_is_not_shipped() -> None:
    assert not wanted("container") & {"boto3", "botocore", "torch", "transformers", "onnx", "huggingface-hub", "protobuf"}


def test_the_export_environment_is_held_to_one_version_of_all_that_it_asks_for() -> None:
    text = (LOCKS / "export.txt").read_text()
    for line in text.splitlines():
        assert re.fullmatch(r"[a-z0-9-]+==\S+( ; .*)?", line), line  # constraints, without hashes
    assert wanted("export") < set(re.findall(r"^([a-z0-9-]+)==", text, re.MULTILINE))  # and their dependencies
    exact = {line for line in (LOCKS / "export.in").read_text().splitlines() if "==" in line}
    assert exact <= {line.partition(" ")[0] for line in text.splitlines()}


def test_the_script_makes_every_lock() -> None:
    [loop] = re.findall(r"^for name in (.*); do$", (ROOT / "scripts" / "lock").read_text(), re.MULTILINE)
    assert sorted(loop.split()) == sorted(p.stem for p in LOCKS.glob("*.in"))

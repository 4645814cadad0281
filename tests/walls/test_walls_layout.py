"""The folders: what must not be there, so that every tool finds the three packages and only them."""

from __future__ import annotations

import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

from walls.house import PACKAGES, ROOT, tracked


@pytest.mark.parametrize("root", sorted({home.parent.name for home in PACKAGES.values()}))
def test_a_root_is_a_folder_and_no_package(root: str) -> None:
    # an __init__.py makes it one, and a loose file can be imported by its bare name: both shadow and both ship
    assert [p.name for p in (ROOT / root).glob("*.py")] == []


def test_no_ignore_rule_hides_a_source_file() -> None:
    # hatchling drops what .gitignore names, without a word; an unanchored `build/` would take a whole package
    lines = [line.strip() for line in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()]
    sources = [p.relative_to(ROOT) for home in PACKAGES.values() for p in home.rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    assert len(sources) > 60
    for rule in (line.rstrip("/") for line in lines if line and not line.startswith("#")):
        hidden = [p for p in sources if hides(rule, p)]
        assert not hidden, f"{rule!r} in .gitignore hides {hidden[0]}"


def hides(rule: str, path: Path) -> bool:
    """Whether a line of .gitignore takes `path` along: anchored by a slash inside or in front, else at any depth."""
    if "/" in rule:
        prefixes = ["/".join(path.parts[: i + 1]) for i in range(len(path.parts))]
        return any(fnmatch(prefix, rule.lstrip("/")) for prefix in prefixes)
    return any(fnmatch(part, rule) for part in path.parts)


@pytest.mark.parametrize(
    ("rule", "hidden"), [("build", True), ("/build", True), ("build/*", True), ("*.py", True), ("/dist", False), ("*.pyc", False)]
)
def test_the_ignore_check_sees_what_it_must(rule: str, hidden: bool) -> None:
    assert hides(rule, Path("build/hotfoot_build/cli.py")) is hidden


def test_the_tools_look_into_every_package() -> None:
    ruff = [str(Path(sys.executable).with_name("ruff")), "check", "--show-files", "."]
    seen = set(subprocess.run(ruff, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines())
    missing = [str(p) for home in PACKAGES.values() for p in home.rglob("*.py") if str(p) not in seen]
    assert missing == []


def test_test_files_have_names_of_their_own() -> None:
    # pytest imports them by bare name
    names = [p.name for p in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))


# a developer's home, a machine's own folders
FOREIGN = re.compile(r"/(?:root|work|mnt|Users)/|/opt/(?:pypi|wheels)|/home/(?!sbx_)[a-z]|shared/(?:ARCHITECTURE|knowledge)|file:///[a-z]")


def test_no_file_speaks_of_one_machine() -> None:
    found = []
    for path in tracked():
        text = path.read_bytes().decode("utf-8", errors="replace")
        found += [f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, m.start()) + 1}: {m.group()}" for m in FOREIGN.finditer(text)]
    assert found == []


# in two parts each, so that this file does not match either
@pytest.mark.parametrize(
    "parts", [("see /ro", "ot/notes"), ("x=/wo", "rk/main"), ("/ho", "me/anna"), ("/opt/py", "pi/simple"), ("shared/ARCHI", "TECTURE.md")]
)
def test_the_check_for_machines_sees_what_it_must(parts: tuple[str, str]) -> None:
    assert FOREIGN.search("".join(parts))

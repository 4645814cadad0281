"""Root directories made of Debian's packages, which are not installed here, for any architecture: what boxes run on. Needs apt."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from hotfoot.contract.target import Arch

SUITE, PYTHON = "trixie", "3.13"  # whose Python is this one, and whose glibc is newer than Lambda's: the bundle's own check is for that
ARCHITECTURES: dict[Arch, str] = {"arm64": "arm64", "x86_64": "amd64"}
MIRROR = "http://deb.debian.org/debian"  # where apt on this machine has none of Debian's
KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
TOOLS = {"apt-get": "apt", "dpkg-deb": "dpkg"}


def missing() -> list[str]:
    """Packages that this machine lacks to make a root."""
    found = [package for tool, package in TOOLS.items() if shutil.which(tool) is None]
    return found + ([] if KEYS.exists() else ["debian-archive-keyring"])


def unpack(root: Path, arch: Arch, packages: Sequence[str]) -> None:
    """Put the packages, and all that they need, into the empty directory `root`; nothing of theirs is run."""
    for name in ("bin", "sbin", "lib", *(["lib64"] if arch == "x86_64" else [])):
        (root / name).symlink_to(f"usr/{name}")
    for package in _download(root / "apt", arch, packages):
        subprocess.run(["dpkg-deb", "--extract", str(package), str(root)], check=True)
    shutil.rmtree(root / "apt")


def _download(state: Path, arch: Arch, packages: Sequence[str]) -> list[Path]:
    """The packages' files, their signatures checked, by an apt that knows nothing of what is installed here."""
    for name in ("lists/partial", "archives/partial", "parts"):
        (state / name).mkdir(parents=True)
    (state / "status").touch()
    fields = {"Types": "deb", "URIs": _mirror(), "Suites": SUITE, "Components": "main", "Signed-By": KEYS}
    (state / "list.sources").write_text("".join(f"{key}: {value}\n" for key, value in fields.items()), encoding="utf-8")
    options = {
        "APT::Architecture": ARCHITECTURES[arch],
        "APT::Architectures": ARCHITECTURES[arch],
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "root",  # another user cannot write here
        "Acquire::Languages": "none",
        "Dir::State": state,
        "Dir::State::status": state / "status",
        "Dir::Cache": state,
        "Dir::Etc::sourcelist": state / "list.sources",
        "Dir::Etc::sourceparts": state / "parts",
        "Dir::Etc::preferences": state / "none",
        "Dir::Etc::preferencesparts": state / "parts",
        "Debug::NoLocking": "true",  # dpkg's lock is for what is installed
    }
    apt = ["apt-get", "--quiet", "--yes", *(f"--option={key}={value}" for key, value in options.items())]
    for command in (["update"], ["install", "--download-only", *packages]):
        done = subprocess.run([*apt, *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"Debian's {arch} packages could not be had:\n{done.stdout[-1000:]}{done.stderr[-2000:]}"
    return sorted((state / "archives").glob("*.deb"))


def _mirror() -> str:
    """The mirror that this machine's apt uses for Debian, else the public one."""
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(ORIGIN) $(CODENAME)", "Created-By: Packages"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line.split() for line in done.stdout.splitlines()]
    # those with a dash in their name hold updates alone, and may lie elsewhere
    return next((line[0] for line in lines if len(line) == 3 and line[1] == "Debian" and "-" not in line[2]), MIRROR)

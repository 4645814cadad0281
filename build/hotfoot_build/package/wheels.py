"""Locked wheels for another machine, with uv: it resolves tags for that machine and not for this one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from hotfoot.contract.errors import HotfootError, UnsupportedError

LOCKS = Path(__file__).parent / "locks"


def uv_binary() -> str:
    """The uv executable of this environment; raises UnsupportedError where the build extra is not installed."""
    try:
        import uv
    except ImportError:
        raise UnsupportedError("uv is not installed.", hint="Install hotfoot[build].") from None
    return uv.find_uv_bin()


def install(lock: Path, into: Path, *, platform: str, python: str) -> None:
    """Unpack the wheels that `lock` pins for `platform` (uv's name, `aarch64-manylinux_2_28`) and `python` (`3.13`) into `into`.

    Only wheels, each checked against its hash; what the lock does not name is not installed. Raises HotfootError with uv's
    own words where one cannot be had.
    """
    command = [uv_binary(), "pip", "install", "--quiet", "--python", sys.executable, "--target", str(into)]
    command += ["--python-platform", platform, "--python-version", python]
    command += ["--only-binary", ":all:", "--no-deps", "--require-hashes", "--requirement", str(lock)]
    # copies, not links into uv's cache: files are removed and modes changed afterwards; no bytecode: it would be this Python's
    command += ["--link-mode", "copy", "--no-compile-bytecode", "--no-config"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise HotfootError(
            f"the wheels of {lock.name} for {platform}, Python {python}, could not be installed:\n{done.stderr.strip()}",
            hint="Is the package index reachable? Does each package have a wheel for that Python?",
        )
    (into / ".lock").unlink(missing_ok=True)  # uv's own, against a second uv in the same directory

"""fastembed's environment: apart from the others, as it is held to a lock of its own. Made once, in the user's cache."""

from __future__ import annotations

import subprocess
import venv
from pathlib import Path

from hotfoot.contract.errors import ArtifactError
from hotfoot.contract.manifest import sha256
from hotfoot_build import cache
from hotfoot_build.environment import Progress
from hotfoot_build.package.interpreters import running_minor
from hotfoot_build.package.wheels import LOCKS, uv_binary

LOCK = LOCKS / "fastembed.txt"


def python(progress: Progress) -> Path:
    """Its interpreter. Raises ArtifactError with uv's words where the packages cannot be had."""
    place = cache.root() / "bench" / f"fastembed-{running_minor()}-{sha256(LOCK)[:12]}"
    return cache.made_once(place, lambda fresh: _make(fresh, progress), progress) / "bin" / "python"


def _make(folder: Path, progress: Progress) -> None:
    progress("making fastembed's environment (about 230 MB, once)")
    venv.create(folder, symlinks=True)
    command = [uv_binary(), "pip", "install", "--quiet", "--python", str(folder / "bin" / "python"), "--only-binary", ":all:"]
    # no bytecode: it would name the files as they lie now; the first run at its place writes it
    command += ["--require-hashes", "--requirement", str(LOCK), "--link-mode", "copy", "--no-compile-bytecode", "--no-config"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ArtifactError(f"fastembed's environment cannot be made:\n{done.stderr.strip()}", hint="Is the package index reachable?")

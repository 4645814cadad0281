"""The export environment: found or made, and run. It is apart because its pins cannot live with today's clients.

`python -m hotfoot_build.environment` makes it now instead of at the first build.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import venv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import hotfoot
import hotfoot_build
from hotfoot.contract import codec
from hotfoot.contract.errors import ArtifactError, HotfootError, ParityError, PassError, UnsupportedError
from hotfoot.contract.manifest import sha256
from hotfoot_build import cache
from hotfoot_build.exchange import ExportRequest

Progress = Callable[[str], None]

PYTHON = "HOTFOOT_EXPORT_PYTHON"  # an interpreter that already has the packages
LOCKS = Path(__file__).parent / "package" / "locks"
WANTED, LOCK = LOCKS / "export.in", LOCKS / "export.txt"
CPU_INDEX = "https://download.pytorch.org/whl/cpu"  # elsewhere torch for Linux comes with several GB of CUDA
KINDS: dict[str, type[HotfootError]] = {c.kind: c for c in (ArtifactError, ParityError, PassError, UnsupportedError)}


def python(progress: Progress) -> Path:
    """The export environment's interpreter; the environment is made on first use, once a lock and Python version.

    Raises ArtifactError when packages cannot be installed, with the installer's last words.
    """
    if given := os.environ.get(PYTHON):
        return Path(given)
    return cache.made_once(home(), lambda fresh: _make(fresh, progress), progress) / "bin" / "python"


def home() -> Path:
    """Where the environment is, or will be made: one a lock and Python version."""
    return cache.root() / f"export-{sys.version_info.major}.{sys.version_info.minor}-{identity()[:12]}"


def identity() -> str:
    """What decides the export's result beside the request: the pinned packages, or the interpreter that stands in for them."""
    return os.environ.get(PYTHON) or sha256(LOCK)


def _make(folder: Path, progress: Progress) -> None:
    progress("making the export environment (torch, transformers, optimum: about 1.5 GB, once)")
    venv.create(folder, with_pip=True, symlinks=True)
    interpreter = folder / "bin" / "python"
    pip = [str(interpreter), "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "-c", str(LOCK)]
    cpu = ["--index-url", CPU_INDEX] if sys.platform == "linux" and _reachable(CPU_INDEX) else []
    _install([*pip, *cpu, "torch"], progress)
    _install([*pip, "-r", str(WANTED)], progress)


def _reachable(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/torch/", timeout=5) as answer:  # noqa: S310 - a constant https address
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _install(command: Sequence[str], progress: Progress) -> None:
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        tail: list[str] = []
        for line in process.stdout or ():
            tail = [*tail[-14:], line.rstrip()]
            if line.startswith(("Collecting", "Installing", "Successfully")):
                progress(line.strip()[:100])
    if process.returncode:
        raise ArtifactError("the export environment cannot be made; pip said:\n" + "\n".join(tail))


def run(request: ExportRequest, out: Path, progress: Progress) -> None:
    """Export in the other environment, into `out`. Raises what the export raised; its log stays in `out`/export.log."""
    interpreter = python(progress)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="hotfoot-bridge-") as bridge:
        # not beside the result, which stays in the cache: the texts may be the user's own
        asked = Path(bridge, "request.json")
        asked.write_text(codec.dumps(request), encoding="utf-8")
        # only these two packages cross: a site-packages folder on the path would bring the wrong tokenizers along
        for package in (hotfoot, hotfoot_build):
            Path(bridge, package.__name__).symlink_to(Path(package.__path__[0]), target_is_directory=True)
        environ = {k: v for k, v in os.environ.items() if k not in ("PYTHONHOME", "HF_TOKEN")} | {"PYTHONPATH": bridge}
        command = [str(interpreter), "-m", "hotfoot_build.export", str(asked), str(out)]
        _run(command, environ, out / "export.log", progress)


def _run(command: Sequence[str], environ: dict[str, str], log: Path, progress: Progress) -> None:
    last: dict[str, Any] = {}
    with (
        log.open("w", encoding="utf-8") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environ) as process,
    ):
        for line in process.stdout or ():
            try:
                last = json.loads(line)
            except ValueError:
                errors.write(line)  # a library's own print
                continue
            if "step" in last:
                progress(f"{last['step']}: {last['done']} of {last['total']}" if "total" in last else last["step"])
    if process.returncode == 0:
        return
    if "error" in last:
        raise KINDS.get(last["error"], PassError)(last["message"], hint=last["hint"])
    kept = cache.root() / "last-export.log"
    shutil.copyfile(log, kept)
    tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-12:])
    raise PassError(f"the export failed (exit code {process.returncode}):\n{tail}", hint=f"The whole log: {kept}")


def _to_stderr(message: str) -> None:
    sys.stderr.write(f"{message}\n")


def main() -> int:
    """Make the export environment now instead of at the first build, and print its interpreter."""
    try:
        sys.stdout.write(f"{python(_to_stderr)}\n")
    except HotfootError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

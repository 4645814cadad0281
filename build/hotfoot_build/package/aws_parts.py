"""AWS's own pieces for running a function away from AWS, fetched once into the user's cache and checked.

The runtime interface emulator (RIE) plays the Lambda service; it is a static binary inside the wheel of the SAM command line.
The runtime interface client (`awslambdaric`) is the loop that Lambda's managed Python runs the handler in.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hotfoot import targets
from hotfoot.contract.errors import HotfootError
from hotfoot.contract.manifest import sha256
from hotfoot.contract.target import Arch
from hotfoot_build import cache
from hotfoot_build.package import bytecode, tree, wheels
from hotfoot_build.package.interpreters import Interpreter

RIE_LOCK, RIC_LOCK = wheels.LOCKS / "rie.txt", wheels.LOCKS / "ric.txt"
RIE_SHA256: dict[Arch, str] = {
    "x86_64": "6b1e686e62ab2baf5759c412c4864276ef2a88b094fca53ec070637ccba9b9a5",
    "arm64": "ec2e5d09633d853834c008b1ef264bf834b258a94d551d2b2074966494b39a21",
}


def emulator_binary(arch: Arch) -> Path:
    """The RIE for `arch`, executable. Raises HotfootError where it is not the binary that this version of hotfoot was tried with."""
    place = cache.made_once(
        cache.root() / "emulator" / f"rie-{arch}-{cache.key(RIE_SHA256[arch])}", lambda aside: _fetch_emulator(aside, arch)
    )
    binary = place / "aws-lambda-rie"
    if sha256(binary) != RIE_SHA256[arch]:
        raise HotfootError(f"{binary} is not the emulator whose sha256 hotfoot knows.", hint=f"Remove {place} and try again.")
    return binary


def _fetch_emulator(aside: Path, arch: Arch) -> None:
    with tempfile.TemporaryDirectory() as unpacked:
        wheels.install(RIE_LOCK, Path(unpacked), platform=_platform(arch), python="3.13")
        binary = aside / "aws-lambda-rie"
        shutil.copyfile(Path(unpacked) / "samcli" / "local" / "rapid" / f"aws-lambda-rie-{arch}", binary)
        binary.chmod(0o755)


def interface_client(arch: Arch, interpreter: Interpreter) -> Path:
    """A directory for PYTHONPATH that holds `awslambdaric` and what it imports, compiled for `interpreter`, and nothing else."""
    place = cache.root() / "emulator" / f"ric-{arch}-{interpreter.version}-{cache.key(sha256(RIC_LOCK))}"
    return cache.made_once(place, lambda aside: _fetch_client(aside, arch, interpreter))


def _fetch_client(aside: Path, arch: Arch, interpreter: Interpreter) -> None:
    wheels.install(RIC_LOCK, aside, platform=_platform(arch), python=interpreter.minor)
    bytecode.compile_tree(aside, interpreter, shown_as="/var/runtime")
    tree.normalise(aside)


def _platform(arch: Arch) -> str:
    """The wheels' platform of Lambda on `arch`, as its target names it."""
    return next(t.platform for t in map(targets.load, targets.names()) if t.system == "lambda" and t.arch == arch)

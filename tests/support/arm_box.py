"""Lambda's arm64 machine for the box: a Graviton2 under qemu's user-mode emulation, with Debian's arm64 Python. Needs root and apt.

Every program of the box is arm64: AWS's emulator, Python, AWS's client and what the bundle brings. qemu starts each by name, so nothing
is registered in the kernel, which other containers share. The CPU is the oldest that Lambda has and all that the target relies on.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from hotfoot_build import cache
from hotfoot_build.package import aws_parts, bytecode, interpreters
from support import debian, lambda_box
from support.debian import PYTHON, SUITE
from support.lambda_box import Machine

QEMU, CPU = "qemu-aarch64-static", "neoverse-n1"
PACKAGES = (f"python{PYTHON}", "libstdc++6", "util-linux")  # what Amazon Linux has for numpy and ONNX Runtime; setpriv
FORMAT = "1"  # of the cached root: another one where it is made in another way

# What Linux says of a Graviton2; qemu 7.2 shows the host's own file instead. A test holds the features to the emulated CPU's.
PROCESSOR = """processor\t: {number}
BogoMIPS\t: 243.75
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp ssbs
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: 0xd0c
CPU revision\t: 1

"""


def faults() -> list[str]:
    """Why this machine cannot run an arm64 box, each with what to do about it; empty where it can."""
    found = lambda_box.faults()
    missing = [*([] if shutil.which(QEMU) else ["qemu-user-static"]), *debian.missing()]
    if missing:
        found.append(f"the arm64 machine is emulated, and made of Debian's packages: run `apt-get install {' '.join(missing)}`.")
    if interpreters.find(PYTHON) is None:
        found.append(f"no Python {PYTHON} on this machine, to compile arm64's modules with: run `uv python install {PYTHON}`.")
    return found


def graviton(cpu_files: Path | None = None) -> Machine:
    """The machine; `cpu_files` is what it shows as /sys/devices/system/cpu, None for no /sys at all, as on Lambda."""
    interpreter = interpreters.find(PYTHON)
    assert interpreter, "see faults()"
    made = cache.made_once(
        cache.root() / "test-roots" / f"{SUITE}-arm64-{cache.key(FORMAT, *PACKAGES, interpreter.version)}",
        lambda aside: _make(aside, interpreter),
    )
    qemu = shutil.which(QEMU)
    assert qemu, "see faults()"
    mounts = {f"/var/rapid/{QEMU}": Path(qemu), "/proc/cpuinfo": made / "cpuinfo"}
    if cpu_files is not None:
        mounts["/sys/devices/system/cpu"] = cpu_files
    return Machine(
        arch="arm64",
        system=made,
        lang=made / "usr",
        client=aws_parts.interface_client("arm64", interpreter),
        start=(f"/var/rapid/{QEMU}", "-cpu", CPU),
        mounts=mounts,
    )


def _make(root: Path, interpreter: interpreters.Interpreter) -> None:
    """Unpack the packages and all that they need into `root`, and compile Python's library, as their installation would."""
    debian.unpack(root, "arm64", PACKAGES)
    library = f"lib/python{PYTHON}"
    bytecode.compile_tree(root / "usr" / library, interpreter, shown_as=f"/var/lang/{library}")
    (root / "cpuinfo").write_text("".join(PROCESSOR.format(number=n) for n in range(2)), encoding="utf-8")

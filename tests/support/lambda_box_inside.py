"""The inner half of the Lambda box: builds the root file system inside the new namespaces and becomes the emulator.

Run as a file, by `lambda_box.LambdaBox`, with the standard library alone: `unshare … python lambda_box_inside.py CONFIG`.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

USER, GROUP, NAME = 993, 990, "sbx_user1051"
DEVICES = ("null", "zero", "full", "random", "urandom")  # and no /dev/shm, as in Lambda


def main() -> None:
    config: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    for procs in config["cgroups"]:
        Path(procs).write_text("0", encoding="utf-8")  # this process; what it starts follows
    loopback_up()
    root = Path(config["root"])
    build(root, Path(config["system"]), {place: Path(source) for place, source in config["mounts"].items()}, config["tmp_mb"])
    os.chroot(root)
    os.chdir("/var/task")
    os.execve(config["command"][0], config["command"], config["environment"])  # noqa: S606 - this process becomes the emulator


def loopback_up() -> None:
    """Switch on the only network device of the new namespace."""
    flags, up = 0x8914, 0x1  # SIOCSIFFLAGS, IFF_UP
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, flags, struct.pack("16sh14x", b"lo", up))


def build(root: Path, system: Path, mounts: dict[str, Path], tmp_mb: int) -> None:
    """Mount a root that holds the system's programs, Lambda's directories, and no /sys, /home or anything of this machine's."""
    mount("-t", "tmpfs", "-o", "size=16m,mode=755", "tmpfs", str(root))
    for name in ("usr", "bin", "sbin", "lib", "lib64"):
        its = system / name
        if its.is_symlink():
            (root / name).symlink_to(its.readlink())
        elif its.is_dir():
            bind(its, root / name)
    write_etc(root / "etc", system / "etc" / "ld.so.cache")
    for name in DEVICES:
        bind(Path("/dev", name), root / "dev" / name)
    for place in ("proc", "tmp"):
        (root / place).mkdir()
    mount("-t", "proc", "proc", str(root / "proc"))
    mount("-t", "tmpfs", "-o", f"size={tmp_mb}m,mode=1777,nosuid,nodev", "tmpfs", str(root / "tmp"))
    for place, source in mounts.items():
        bind(source, root / place.lstrip("/"))
    mount("-o", "remount,ro", str(root))


def write_etc(etc: Path, cache: Path) -> None:
    etc.mkdir()
    # the home that this names does not exist
    (etc / "passwd").write_text(f"root:x:0:0::/root:/sbin/nologin\n{NAME}:x:{USER}:{GROUP}::/home/{NAME}:/sbin/nologin\n", encoding="utf-8")
    (etc / "group").write_text(f"root:x:0:\n{NAME}:x:{GROUP}:\n", encoding="utf-8")
    (etc / "hosts").write_text("127.0.0.1 localhost\n", encoding="utf-8")
    if cache.exists():  # where the dynamic linker finds libraries of unusual directories
        (etc / cache.name).write_bytes(cache.read_bytes())


def bind(source: Path, place: Path) -> None:
    """Show `source` at `place`, read-only."""
    if source.is_dir():
        place.mkdir(parents=True)
    elif not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    mount("--bind", str(source), str(place))
    mount("-o", "remount,ro,bind", str(place))


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


if __name__ == "__main__":
    main()

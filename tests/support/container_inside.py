"""The inner half of a container: makes the image's root its own, read-only, and becomes its command.

python -m support.container_inside START     (the JSON of `containers.Start`)
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from support.lambda_box_inside import DEVICES, bind, loopback_up, mount


def main() -> None:
    """In new namespaces, as root."""
    start: dict[str, Any] = json.loads(sys.argv[1])
    root = Path(start["root"])
    loopback_up()
    mount("--bind", str(root), str(root))
    for place in ("proc", "tmp", "dev"):
        (root / place).mkdir(exist_ok=True)
    mount("-t", "proc", "proc", str(root / "proc"))
    if start["tmp_mb"]:
        mount("-t", "tmpfs", "-o", f"size={start['tmp_mb']}m,mode=1777,nosuid,nodev", "tmpfs", str(root / "tmp"))
    for name in DEVICES:
        bind(Path("/dev", name), root / "dev" / name)
    for inside, source in start["mounts"].items():
        bind(Path(source), root / inside.lstrip("/"))
    mount("-o", "remount,ro,bind", str(root))
    os.chroot(root)
    os.chdir(start["folder"])
    os.setgroups([])
    os.setgid(start["group"])
    os.setuid(start["user"])
    os.environ.clear()
    os.environ.update(start["environment"])  # by its PATH the command is found
    os.execvp(start["command"][0], start["command"])  # noqa: S606 - this process becomes the container's first


if __name__ == "__main__":
    main()

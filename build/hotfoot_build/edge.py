"""What the command line makes of a machine that refuses: a line for the user, and an exit code."""

from __future__ import annotations

import errno
import shutil
import signal

SYSTEM = 74  # exit code for a full disk, no permission and the like, as in sysexits.h; EXIT_CODES are for what hotfoot finds wrong
INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM  # as shells count
WITHOUT = "Without it, `python -m hotfoot.server ARTIFACT` serves: pip install 'hotfoot[server]'."
# what is imported only where it is needed, and the extra that brings it
EXTRAS = dict.fromkeys(("google", "httpx2", "huggingface_hub", "onnx", "onnx_ir", "uv", "yaml"), "build") | {"uvicorn": "server"}


def lack(error: ModuleNotFoundError) -> str | None:
    """Which extra to install; None where no extra would help, which is then a fault of somebody's code."""
    extra = EXTRAS.get((error.name or "").partition(".")[0])
    return f"this needs {error.name}: pip install 'hotfoot[{extra}]'." if extra else None


def refusal(error: OSError) -> str:
    """Which file, why, and what to do."""
    if isinstance(error, shutil.Error) and isinstance(error.args[0], list):  # of a whole tree: (from, to, why)
        return "; ".join(str(why) for *_, why in error.args[0][:3])
    files = " -> ".join(str(name) for name in (error.filename, error.filename2) if name is not None)
    reason = error.strerror or str(error) or type(error).__name__
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        reason += "; `hotfoot cache` shows what could go from the cache"
    return f"{files}: {reason}." if files else f"{reason}."

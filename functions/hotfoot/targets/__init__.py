"""One file is one target; the folder is the list. `local` means the one that fits this machine."""

from __future__ import annotations

import pkgutil
import platform
import re
from functools import cache
from importlib import import_module
from pathlib import Path

from hotfoot.contract.errors import UnsupportedError
from hotfoot.contract.target import Arch, Target

LOCAL = "local"
_ARCHES: dict[str, Arch] = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}


def names() -> list[str]:
    """Target names as the command line spells them (`lambda-arm64`)."""
    return sorted(_spelled(m.name) for m in pkgutil.iter_modules(__path__))


def _spelled(module: str) -> str:
    # x86_64 keeps its own underscore
    return module.replace("_", "-").replace("x86-64", "x86_64")


def load(name: str) -> Target:
    """The target called `name`; `local` gives the one that fits this machine. Raises UnsupportedError that lists them."""
    if name == LOCAL:
        return local()
    if name not in names():
        raise UnsupportedError(f"no target {name!r}.", hint=f"There are: {', '.join([LOCAL, *names()])}.")
    target: Target = import_module(f"{__name__}.{name.replace('-', '_')}").TARGET
    return target


def local() -> Target:
    """The container target with the most CPU features that this machine has all of."""
    here, have = machine_arch(), cpu_features()
    fitting = [t for t in map(load, names()) if t.system == "container" and t.arch == here and have.issuperset(t.isa)]
    if not fitting:
        raise UnsupportedError(f"no target fits this machine ({here}, {', '.join(sorted(have)) or 'no known CPU feature'}).")
    return max(fitting, key=lambda t: len(t.isa))


def machine_arch() -> Arch:
    """This machine's architecture; raises UnsupportedError for one that hotfoot has no target for."""
    name = platform.machine().lower()
    if name not in _ARCHES:
        raise UnsupportedError(f"no target for the architecture {name!r}; there are targets for x86_64 and arm64.")
    return _ARCHES[name]


@cache
def cpu_features(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """The CPU features that targets speak of: avx2, vnni, dotprod, i8mm, bf16. Read from Linux; on macOS arm64 assumed."""
    if not cpuinfo.exists():
        return frozenset({"dotprod"}) if platform.machine() == "arm64" else frozenset()
    line = re.search(r"^(?:flags|Features)\s*:(.*)$", cpuinfo.read_text(errors="replace"), re.MULTILINE)
    flags = set(line.group(1).split()) if line else set()
    spelled = {
        "avx2": {"avx2"},
        "vnni": {"avx512_vnni", "avx_vnni"},
        "dotprod": {"asimddp"},
        "i8mm": {"i8mm"},
        "bf16": {"bf16", "avx512_bf16"},
    }
    return frozenset(name for name, spellings in spelled.items() if flags & spellings)

"""What to type to get what is missing, in the words of this machine's shell; and what this machine says when it is asked."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from importlib import metadata, util
from pathlib import Path

from hotfoot_build.init_command import interpreter

CHECKOUT = Path(__file__).resolve().parents[2]  # where this is installed from a checkout
PATIENCE_S = 5  # with a program that should answer at once


def is_checkout() -> bool:
    """Whether this is installed from a checkout, which has the tests."""
    return (CHECKOUT / "scripts" / "test").is_file() and (CHECKOUT / "pyproject.toml").is_file()


def packages(extra: str) -> list[str]:
    """The packages of an extra, as the installed hotfoot names them."""
    found = (re.match(rf"([\w.-]+).*;.*extra == ['\"]{extra}['\"]", each) for each in metadata.requires("hotfoot") or ())
    return [match[1] for match in found if match]


def installed(name: str) -> bool:
    """Whether this environment has the package."""
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def own(extra: str) -> str:
    """The extra as pip takes it: from the checkout that this is installed from, where it is from one."""
    if not is_checkout():
        return f"'hotfoot[{extra}]'"
    return f"-e {shlex.quote(f'{os.path.relpath(CHECKOUT) if Path.cwd() == CHECKOUT else CHECKOUT}[{extra}]')}"


def pip(words: str) -> str:
    """How to install into this environment."""
    python = interpreter(Path.cwd())
    if util.find_spec("pip") is None:  # as in an environment that uv made
        return f"uv pip install --python {python} {words}"
    return f"{python} -m pip install {words}"


def ways_to_python(minor: str) -> str:
    """One a line, those that this machine has; the first works everywhere."""
    ways = [f"{'uv' if shutil.which('uv') else interpreter(Path.cwd()) + ' -m uv'} python install {minor}"]
    if shutil.which("pyenv"):
        ways.append(f"pyenv install {minor}  # or so")
    if shutil.which("add-apt-repository"):  # Ubuntu
        ways.append(f"sudo add-apt-repository ppa:deadsnakes/ppa &&  # or so\n  sudo apt-get install python{minor}")
    return "\n".join(ways)


def said(*command: str) -> str:
    """What a program writes. Raises OSError where it cannot be started, SubprocessError where it fails or hangs."""
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S, stdin=subprocess.DEVNULL)
    return done.stdout.strip()


def short(path: Path) -> str:
    """A path as people write it."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)

"""The tests' own warm process: a fork is as good as the interpreter itself, and no client that dies takes it along."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from support import tiny

SCRIPT = """
import json, os, sys
json.dump([sys.argv[1:], os.environ.get("OWN"), os.getcwd(), sys.stdin.read()], sys.stdout)
sys.stderr.write("a word")
sys.exit(int(sys.argv[1]))
"""
WAITING = "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)\n"


def script(folder: Path, text: str) -> str:
    path = folder / "script.py"
    path.write_text(text, encoding="utf-8")
    return str(path)


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What the interpreter makes of the arguments."""
    environ = {**os.environ, "OWN": "mine"}
    command = [str(tiny.interpreter()), *arguments]
    return subprocess.run(command, cwd=folder, env=environ, input="zoë", capture_output=True, text=True, check=False, timeout=60)


def connected() -> socket.socket:
    line = socket.socket(socket.AF_UNIX)
    line.connect(str(tiny.room() / "warm.sock"))
    return line


def lives(process: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(process, 0)
        return True
    return False


def test_a_fork_has_its_own_arguments_environment_folder_and_streams(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    done = run(tmp_path / "here", script(tmp_path, SCRIPT), "3", "a b")
    assert (done.returncode, done.stderr) == (3, "a word")
    assert json.loads(done.stdout) == [["3", "a b"], "mine", str((tmp_path / "here").resolve()), "zoë"]


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("pass", 0, ""),
        ("import sys\nsys.exit('why')", 1, "why\n"),
        ("raise ValueError('why')", 1, "ValueError: why\n"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", 128 + signal.SIGKILL, ""),
    ],
)
def test_however_it_ends(text: str, code: int, said: str, tmp_path: Path) -> None:
    done = run(tmp_path, script(tmp_path, text))
    assert (done.returncode, done.stderr.endswith(said), bool(done.stderr)) == (code, True, bool(said))


def test_a_module_is_found_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "own_module.py").write_text("import sys\nprint(sys.argv[1:], __name__)", encoding="utf-8")
    done = run(tmp_path, "-m", "own_module", "x")
    assert (done.returncode, done.stdout) == (0, "['x'] __main__\n")


def test_clients_that_die_leave_the_next_one_its_turn(tmp_path: Path) -> None:
    """Before they ask, in the middle of it, with their streams handed over, and before they are answered."""
    tiny.interpreter()
    asked = json.dumps({"arguments": [script(tmp_path, "pass")], "environ": dict(os.environ), "folder": str(tmp_path)}).encode()
    head = len(asked).to_bytes(8, "big")
    for sent in (b"", head[:3], head, head + asked[:20], head + asked):
        with connected() as line, Path(os.devnull).open("r+b") as null:
            if sent:
                socket.send_fds(line, [sent[:8]], [null.fileno()] * 3)
                line.sendall(sent[8:])
        assert run(tmp_path, script(tmp_path, "pass")).returncode == 0


def test_the_fork_of_a_client_that_is_gone_ends(tmp_path: Path) -> None:
    command = [str(tiny.interpreter()), script(tmp_path, WAITING)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        fork = int(client.stdout.readline())
        client.kill()
        client.wait(20)
        end = time.monotonic() + 20
        while lives(fork) and time.monotonic() < end:
            time.sleep(0.02)
        assert not lives(fork)

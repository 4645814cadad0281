"""The export environment's Python with torch and its kin imported already, for tests that start it a hundred times.

As a program it is the warm process: each thing that it is asked to run gets a fork of it, so nothing that one does reaches the next. In
the test process `warm` starts it, and gives an interpreter to use in the place of the real one: a script that hands `-m MODULE` and
`FILE.py` on to the warm process, with its own streams, folder and environment, and leaves everything else to the real interpreter.
"""

from __future__ import annotations

import array
import atexit
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

SILENCE_S = 20  # a client sends what it asks at once: whoever takes longer is not waited for

CLIENT = """#!{python} -IS
import json, os, socket, sys
real, arguments = {real!r}, sys.argv[1:]
if not arguments or not (arguments[0] == "-m" or arguments[0].endswith(".py")):
    os.execv(real, [real, *arguments])
with socket.socket(socket.AF_UNIX) as line:
    line.connect({place!r})
    asked = json.dumps({{"arguments": arguments, "environ": dict(os.environ), "folder": os.getcwd()}}).encode()
    socket.send_fds(line, [len(asked).to_bytes(8, "big")], [0, 1, 2])
    line.sendall(asked)
    code = line.recv(1)
os._exit(code[0] if code else 1)
"""


def warm(real: Path, folder: Path) -> Path:
    """Start the warm process of the interpreter `real`, and give the one to use. It ends with this process."""
    place, script = folder / "warm.sock", folder / "warm-python"
    process = subprocess.Popen([str(real), __file__, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    atexit.register(process.communicate)  # closes its input, which ends it
    assert process.stdout is not None
    assert process.stdout.readline() == b"warm\n"
    script.write_text(CLIENT.format(python=sys.executable, real=str(real), place=str(place)), encoding="utf-8")
    script.chmod(0o755)
    return script


def main(place: str) -> None:
    """Import what takes seconds, listen, and fork for each that asks."""
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TOKENIZERS_PARALLELISM="false", TRANSFORMERS_VERBOSITY="error")
    import optimum.exporters.onnx
    import optimum.exporters.onnx.model_configs
    import sentence_transformers
    import torch
    import transformers

    imported = (optimum, sentence_transformers, torch, transformers.AutoModel, transformers.AutoTokenizer, transformers.pipeline)
    assert all(imported)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(place)
        door.listen(64)
        sys.stdout.write("warm\n")
        sys.stdout.flush()
        while True:
            line, _ = door.accept()
            streams: list[int] = []
            try:
                asked = _asked(line, streams)
            except OSError:  # the client is gone: nobody is left to run anything for
                line.close()
            else:
                child = os.fork()
                if child == 0:
                    door.close()
                    line.close()
                    os._exit(_run(asked["arguments"], asked["environ"], asked["folder"], streams))
                threading.Thread(target=_answer, args=(child, line), daemon=True).start()
            for stream in streams:
                os.close(stream)


def _end_with_parent() -> None:
    while os.read(0, 1024):  # not by sys.stdin, whose lock a fork would inherit as taken
        pass
    os._exit(0)


def _asked(line: socket.socket, streams: list[int]) -> dict[str, Any]:
    """What a client asks; its streams go into `streams`, also where the rest fails. Raises OSError for one that is gone or silent."""
    line.settimeout(SILENCE_S)
    head, found, _, _ = socket.recv_fds(line, 8, 3)
    streams += found
    head += _exactly(line, 8 - len(head))
    asked: dict[str, Any] = json.loads(_exactly(line, int.from_bytes(head, "big")))
    return asked


def _exactly(line: socket.socket, size: int) -> bytes:
    found = array.array("B")
    while len(found) < size:
        part = line.recv(size - len(found))
        if not part:
            raise ConnectionError("the client is gone")
        found.frombytes(part)
    return found.tobytes()


def _answer(child: int, line: socket.socket) -> None:
    """Tell the client how its fork ended; the fork of one that is gone is ended."""
    with line:
        while not (ended := os.waitpid(child, os.WNOHANG))[0]:
            if select.select([line], [], [], 0.02)[0]:  # it sends nothing more, so this is its end
                os.kill(child, signal.SIGTERM)
                ended = os.waitpid(child, 0)
                break
        code = os.waitstatus_to_exitcode(ended[1])
        with suppress(OSError):
            line.sendall(bytes([code if code >= 0 else 128 - code]))


def _run(arguments: list[str], environ: dict[str, str], folder: str, streams: list[int]) -> int:
    """As the interpreter itself would; gives the exit code."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(folder)
    module = arguments[0] == "-m"
    sys.argv = arguments[1:] if module else arguments
    sys.path[0] = folder if module else str(Path(arguments[0]).resolve().parent)
    sys.path[1:1] = [entry for entry in environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    try:
        if module:
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as ended:
        if isinstance(ended.code, str):
            sys.stderr.write(f"{ended.code}\n")
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - the interpreter's own last word
        sys.excepthook(*sys.exc_info())
        return 1
    finally:
        with suppress(OSError):  # whoever read it may be gone
            sys.stdout.flush()
            sys.stderr.flush()
    return 0


if __name__ == "__main__":
    main(sys.argv[1])

"""A stand-in for Lambda as its Python runtime client sees it where a function is started for a snapshot: the Runtime API over HTTP.

The client asks for `restore/next` when all before-snapshot hooks have run, and the answer to it is the restore; then it asks for
events one by one. What is not here is the snapshot: the process that wakes is the one that went to sleep.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from hotfoot.contract import bundle as bundles
from hotfoot.targets import machine_arch
from hotfoot_build.package import aws_parts, interpreters
from hotfoot_build.package.opt import merge_layers

VERSION = "/2018-06-01/runtime/"
WAIT_S = 60.0
ARN = "arn:aws:lambda:eu-central-1:123456789012:function:hotfoot:1"


class RuntimeApi(ThreadingHTTPServer):
    """What the runtime has asked for so far (`asked`: the calls' names, in order), and what it is told next."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Asked)
        self.asked: list[str] = []
        self.frozen, self.restore = threading.Event(), threading.Event()
        self._events: queue.Queue[tuple[str, bytes]] = queue.Queue()
        self._answers: queue.Queue[tuple[str, Any]] = queue.Queue()

    def invoke(self, event: Any, request_id: str) -> Any:
        """The function's answer to an event, or the error that the client reports."""
        self._events.put((request_id, json.dumps(event).encode()))
        answered, answer = self._answers.get(timeout=WAIT_S)
        assert answered == request_id
        return answer

    def event(self) -> tuple[str, bytes]:
        """The next event, when there is one."""
        return self._events.get()

    def answered(self, request_id: str, body: bytes) -> None:
        """The function's answer to it."""
        self._answers.put((request_id, json.loads(body)))


class Asked(BaseHTTPRequestHandler):
    """One call of the client."""

    protocol_version = "HTTP/1.1"
    server: RuntimeApi

    def do_GET(self) -> None:
        call = self.path.removeprefix(VERSION)
        self.server.asked.append(call)
        if call == "restore/next":
            self.server.frozen.set()
            self.server.restore.wait()
            self.say(200)
        elif call == "invocation/next":
            request_id, body = self.server.event()
            deadline = str(int(1e3 * (time.time() + 30)))
            named = {"Aws-Request-Id": request_id, "Deadline-Ms": deadline, "Invoked-Function-Arn": ARN}
            self.say(200, {f"Lambda-Runtime-{name}": value for name, value in named.items()}, body)
        else:
            self.say(404)

    def do_POST(self) -> None:
        call, body = self.path.removeprefix(VERSION), self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append(call)
        kind, _, rest = call.partition("/")
        if kind == "invocation":
            self.server.answered(rest.partition("/")[0], body)
        self.say(202)

    def say(self, status: int, headers: Mapping[str, str] | None = None, body: bytes = b"{}") -> None:
        """Answer."""
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing to say on stderr."""


class Frozen:
    """A bundle's function in AWS's runtime client, started for a snapshot. `log`: what it wrote, all of it once it has ended."""

    def __init__(self, api: RuntimeApi, process: subprocess.Popen[bytes], log: Path) -> None:
        self.api, self._process, self._log = api, process, log

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def until_frozen(self) -> None:
        """Wait until the hooks before the snapshot have run."""
        deadline = time.monotonic() + WAIT_S
        while not self.api.frozen.wait(0.05):
            assert self._process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log

    def ended(self) -> int:
        """The exit status of a client that gives up."""
        return self._process.wait(WAIT_S)


@contextmanager
def frozen(bundle: Path, code: Path, handler: str) -> Iterator[Frozen]:
    """Start the function of `bundle` for a snapshot; `code` lies before its own on the path, and has the handler."""
    with tempfile.TemporaryDirectory() as scratch, RuntimeApi() as api:
        threading.Thread(target=api.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        made, root = bundles.read(bundle), Path(scratch)
        interpreter = interpreters.find(made.python)
        assert interpreter, f"no Python {made.python} on this machine: run `uv python install {made.python}`"
        (root / "opt").mkdir()
        merge_layers([bundle / layer.path for layer in made.layers], root / "opt")
        path = [code, bundle / made.code.path, root / "opt" / "python", aws_parts.interface_client(machine_arch(), interpreter)]
        environment = {
            "PATH": os.environ["PATH"],
            "LD_LIBRARY_PATH": str(interpreter.prefix / "lib"),
            "PYTHONPATH": ":".join(map(str, path)),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOTFOOT_LAYER_ROOT": str(root / "opt"),
            "AWS_EXECUTION_ENV": f"AWS_Lambda_python{made.python}",
            "AWS_LAMBDA_FUNCTION_NAME": "hotfoot",
            "AWS_LAMBDA_FUNCTION_VERSION": "1",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1769",
            "AWS_LAMBDA_INITIALIZATION_TYPE": "snap-start",
            "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{api.server_port}",
        }
        command = [str(interpreter.path), "-s", "-S", "-m", "awslambdaric", handler]
        with (root / "log").open("wb") as sink:
            process = subprocess.Popen(command, env=environment, stdout=sink, stderr=sink, stdin=subprocess.DEVNULL)
        try:
            yield Frozen(api, process, root / "log")
        finally:
            process.kill()
            process.wait()
            with contextlib.suppress(OSError):
                api.shutdown()

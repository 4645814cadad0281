"""Runs an image as a container: its own command, user, variables and working directory, process 1 of its own namespaces. Needs root.

The root is read-only, there is no network but its own loopback device, and nothing of this machine is seen but the kernel.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hotfoot_build.package.emulate import INVOKE, answer_of
from support.images import Image, Store, command_of

PORT = 8080  # of the container's own network namespace, so it is always free
TESTS = Path(__file__).resolve().parent.parent
START_S, STOP_S, ANSWER_S = 20.0, 30.0, 60.0

# run inside the container's network by this interpreter: a request on stdin, status, headers and body on stdout
CLIENT = f"""
import http.client, json, sys, time
method, path, headers, body = json.load(sys.stdin)
deadline = time.monotonic() + {START_S}
while True:
    connection = http.client.HTTPConnection("127.0.0.1", {PORT}, timeout={ANSWER_S})
    try:
        connection.connect()
        break
    except OSError:
        if time.monotonic() > deadline:
            raise
        time.sleep(0.02)
connection.request(method, path, body, headers)
answer = connection.getresponse()
json.dump([answer.status, dict(answer.getheaders()), answer.read().decode()], sys.stdout)
"""


@dataclass(frozen=True)
class Told:
    """What whoever starts a container may say: other arguments, variables, user, folder, a /tmp of so many MB, and what is shown where."""

    command: Sequence[str] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    folder: str | None = None
    tmp_mb: int = 0
    mounts: Mapping[str, str] = field(default_factory=dict)


LAMBDA = Told(environment={"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1769"}, user="993:990", tmp_mb=512)  # as Lambda says it


@dataclass(frozen=True)
class Start:
    """What the inner half has to know."""

    root: str
    command: list[str]
    environment: dict[str, str]
    user: int
    group: int
    folder: str
    tmp_mb: int
    mounts: dict[str, str]


class Container:
    """`with Container(store, name) as running: running.ask("GET", "/health")`."""

    def __init__(self, store: Store, name: str, told: Told | None = None) -> None:
        self._store, self._name, self._told, self._kept = store, name, told or Told(), ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as opening:
            root = opening.enter_context(self._store.unpacked(self._name))
            self._log = Path(opening.enter_context(tempfile.NamedTemporaryFile(prefix="hotfoot-container-")).name)
            self._start(_start(root, self._store.image(self._name), self._told))
            self._kept = opening.pop_all()
        return self

    def _start(self, start: Start) -> None:
        # --kill-child: when this process is killed, so is the first one of the namespace, and with it all others
        command = ["unshare", "--mount", "--pid", "--net", "--ipc", "--fork", "--kill-child", "--propagation", "private"]
        command += [sys.executable, "-m", "support.container_inside", json.dumps(asdict(start))]
        with self._log.open("wb") as sink:
            environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(TESTS)}
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, env=environ)
        outside, inside = Path("/proc/self/ns/net").readlink(), Path(f"/proc/{self._process.pid}/ns/net")
        while self._process.poll() is None and inside.readlink() == outside:
            time.sleep(0.005)  # until then a request would go into this machine's own network

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, dict[str, str], str]:
        """Status, headers and body of the answer on port 8080; the body goes as JSON."""
        request = json.dumps([method, path, {"content-type": "application/json"}, None if body is None else json.dumps(body)])
        command = ["nsenter", f"--net=/proc/{self._process.pid}/ns/net", sys.executable, "-I", "-S", "-c", CLIENT]
        done = subprocess.run(command, input=request, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"no answer: {done.stderr}\n{self.log}"
        status, headers, text = json.loads(done.stdout)
        return status, {name.lower(): value for name, value in headers.items()}, text

    def ready(self) -> None:
        """Wait until it says that it can answer."""
        deadline = time.monotonic() + START_S
        while self.ask("GET", "/health")[0] != http.client.OK:
            assert time.monotonic() < deadline, self.log
            time.sleep(0.05)

    def invoke(self, event: object) -> Any:
        """Send an event through the emulator; gives the function's answer or raises InvocationError."""
        status, _headers, body = self.ask("POST", INVOKE, event)
        return answer_of(status, body)

    @property
    def first(self) -> Path:
        """/proc's folder of what is process 1 in there."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text(encoding="utf-8").split()
        (child,) = children
        return Path("/proc", child)

    @property
    def log(self) -> str:
        """All that it wrote."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def stop(self) -> int:
        """Tell process 1 to end, as `docker stop` does; gives its exit code."""
        os.kill(int(self.first.name), signal.SIGTERM)
        return self._process.wait(STOP_S)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()
        self._kept.close()


def _start(root: Path, image: Image, told: Told) -> Start:
    user, _, group = (told.user or image.config.get("User") or "0:0").partition(":")
    return Start(
        root=str(root),
        command=command_of(image, told.command),
        environment={**image.environment, **told.environment},
        user=int(user),
        group=int(group or 0),
        folder=told.folder or image.config.get("WorkingDir") or "/",
        tmp_mb=told.tmp_mb,
        mounts=dict(told.mounts),
    )

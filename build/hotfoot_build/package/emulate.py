"""Runs a bundle on this machine as Lambda would run it: AWS's emulator in front, AWS's Python client behind, the bundle's files alone.

Not here: memory and CPU limits, read-only directories, another user. Those need root; the tests have a box for them.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hotfoot import targets
from hotfoot.contract import bundle as bundles
from hotfoot.contract.bundle import MODEL_PLACE
from hotfoot.contract.errors import HotfootError, UnsupportedError
from hotfoot_build.package import aws_parts, interpreters
from hotfoot_build.package.opt import laid_beside, merge_layers

WEIGHTS_KEY = "HOTFOOT_WEIGHTS"
INVOKE = "/2015-03-31/functions/function/invocations"
START_S, STOP_S = 10.0, 5.0  # until the emulator listens, and until it is gone
GRACE_S = 60.0  # on top of the function's own timeout: its start, and a machine that is busy
_TICKS = os.sysconf("SC_CLK_TCK")


class InvocationError(HotfootError):
    """The function raised, died, answered too much or ran out of time. error_type is AWS's name for it, such as `Runtime.ExitError`."""

    def __init__(self, error_type: str, message: str, trace: Sequence[str] = ()) -> None:
        super().__init__(f"{error_type}: {message}", hint="".join(trace))
        self.error_type = error_type


@dataclass(frozen=True)
class Usage:
    """What the function's processes have used since they started; both are 0 when none is alive."""

    cpu_seconds: float
    max_rss_bytes: int


class Emulator:
    """One execution environment: `with Emulator(directory) as function: function.invoke(event)`.

    Init happens on the first invoke. Safe to share between threads: one request runs at a time, as in Lambda.
    """

    def __init__(
        self,
        directory: Path,
        *,
        python: str | None = None,
        memory_mb: int = 1769,
        timeout_s: int = 30,
        env: Mapping[str, str] | None = None,
        port: int = 0,
        handler: str | None = None,
    ) -> None:
        """Prepare to run the bundle in `directory`; python and handler are the bundle's where not given, port 0 takes a free one.

        Raises UnsupportedError where this machine has not the bundle's architecture or Python.
        """
        self._bundle = bundles.read(directory)
        here = targets.machine_arch()
        if self._bundle.arch != here:
            raise UnsupportedError(f"the bundle is for {self._bundle.arch} and this machine is {here}.", hint="Bundle for this machine.")
        self._arch = here
        self._directory = directory.resolve()
        self._python = python or self._bundle.python
        found = interpreters.find(self._python)
        if found is None:
            raise UnsupportedError(f"no Python {self._python} on this machine.", hint=f"Run `uv python install {self._python}`.")
        self._interpreter = found
        self._memory_mb, self._timeout_s, self._port = memory_mb, timeout_s, port
        self._extra = dict(env or {})
        self._handler = handler or self._bundle.handler
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._kept_log = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    @property
    def port(self) -> int:
        """The emulator's HTTP port on the loopback device."""
        return self._port

    def start(self) -> None:
        """Start the emulator and wait until it listens; the function itself starts with the first event."""
        self._scratch = tempfile.TemporaryDirectory(prefix="hotfoot-emulator-")
        root = Path(self._scratch.name)
        (root / "opt").mkdir()
        merge_layers([self._directory / layer.path for layer in self._bundle.layers], root / "opt")
        weights = self._bundle.weights
        if weights is not None and WEIGHTS_KEY not in self._extra:  # they belong into S3, and nobody says in which
            laid_beside(self._directory / weights.path / MODEL_PLACE, root / "opt" / MODEL_PLACE)
        self._port = self._port or _free_port()
        command = [str(aws_parts.emulator_binary(self._arch)), "--runtime-interface-emulator-address", f"127.0.0.1:{self._port}"]
        command += ["--runtime-api-address", f"127.0.0.1:{_free_port()}"]
        # -S: no site-packages of this machine can stand in for what the bundle lacks
        command += [str(self._interpreter.path), "-s", "-S", "-m", "awslambdaric", self._handler]
        code, log = self._directory / self._bundle.code.path, root / "log"
        with log.open("wb") as sink:
            # a session of its own: the emulator gives each function process a new group, but none leaves the session
            self._process = subprocess.Popen(
                command,
                cwd=code,
                env=self._environment(root / "opt"),
                stdout=sink,
                stderr=sink,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        try:
            self._wait_until_listening(self._process)
        except HotfootError:
            self.stop()
            raise

    def _environment(self, opt: Path) -> dict[str, str]:
        code, client = self._directory / self._bundle.code.path, aws_parts.interface_client(self._arch, self._interpreter)
        path = [code, opt / "python" / "lib" / f"python{self._python}" / "site-packages", opt / "python", client]
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LD_LIBRARY_PATH": f"{self._interpreter.prefix / 'lib'}:{opt / 'lib'}",
            "PYTHONPATH": ":".join(map(str, path)),
            "PYTHONDONTWRITEBYTECODE": "1",  # Lambda's directories are read-only: nothing may be cached for the next start
            "LANG": "en_US.UTF-8",
            "TZ": ":UTC",
            "HOME": "/dev/null/home",  # Lambda's home does not exist; this one cannot even be made by a library that tries, as root
            "TMPDIR": tempfile.gettempdir(),
            "LAMBDA_TASK_ROOT": str(code),
            "LAMBDA_RUNTIME_DIR": str(client),
            "HOTFOOT_LAYER_ROOT": str(opt),
            "AWS_EXECUTION_ENV": f"AWS_Lambda_python{self._python}",
            "AWS_LAMBDA_FUNCTION_NAME": "hotfoot",
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(self._memory_mb),
            "AWS_LAMBDA_FUNCTION_TIMEOUT": str(self._timeout_s),
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "_HANDLER": self._handler,
            **self._extra,
        }

    def _wait_until_listening(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise HotfootError(f"the emulator ended at once:\n{self.log}")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), 1):
                return
            time.sleep(0.01)
        raise HotfootError(f"the emulator does not listen on port {self._port} after {START_S:.0f} s:\n{self.log}")

    def invoke(self, event: object) -> Any:
        """Send one event and give the function's answer, parsed from JSON. Raises InvocationError where it failed."""
        if self._process is None:
            raise HotfootError("the emulator is not running.", hint="Use it as a context manager.")
        with self._lock:  # two requests at once end the emulator itself
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=self._timeout_s + GRACE_S)
            with contextlib.closing(connection):
                connection.request("POST", INVOKE, json.dumps(event).encode())
                answer = connection.getresponse()
                return answer_of(answer.status, answer.read().decode())

    @property
    def log(self) -> str:
        """All that the emulator and the function wrote to stdout and stderr; it can still be read after stop."""
        if self._scratch is None:
            return self._kept_log
        return (Path(self._scratch.name) / "log").read_text(encoding="utf-8", errors="replace")

    @property
    def init_ms(self) -> tuple[float, ...]:
        """Duration of each init, in ms. From AWS's own trace: the `Init Duration` of the emulator's REPORT lines is wrong."""
        return init_durations(self.log)

    def usage(self) -> Usage:
        """CPU time and the highest resident memory of the function's processes that are alive, without the emulator."""
        alive = self.processes()
        return Usage(sum(map(_cpu_seconds, alive)), sum(map(_max_rss, alive)))

    def processes(self) -> list[int]:
        """Ids of the function's processes that are alive, without the emulator; there are none before the first event."""
        if self._process is None:
            return []
        return [pid for pid in _session(self._process.pid) if pid != self._process.pid]

    def stop(self) -> None:
        """End every process of the environment and remove its files."""
        if self._process is not None:
            leader = self._process.pid
            self._process.terminate()  # it then ends the function's processes, and waits for each
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_S)
            for pid in _session(leader):  # what did not end by itself
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
        if self._scratch is not None:
            self._kept_log = self.log
            self._scratch.cleanup()
            self._scratch = None


def answer_of(status: int, body: str) -> Any:
    """What the emulator's HTTP answer means: the function's JSON, or an InvocationError.

    It answers 200 for a handler that raised and for one that ran out of time, and has no header that would tell.
    """
    try:
        answer = json.loads(body)
    except ValueError:
        kind = "Sandbox.Timedout" if body.startswith("Task timed out") else "Runtime.InvalidAnswer"
        raise InvocationError(kind, body or f"an empty answer with status {status}") from None
    if isinstance(answer, dict) and "errorMessage" in answer and "errorType" in answer:
        raise InvocationError(answer["errorType"], answer["errorMessage"], answer.get("stackTrace") or ())
    if status != http.HTTPStatus.OK:
        raise InvocationError("Runtime.InvalidAnswer", f"status {status}: {body}")
    return answer


def init_durations(log: str) -> tuple[float, ...]:
    """Every init duration in the emulator's log, in ms."""
    return tuple(float(ms) for ms in re.findall(r"INIT REPORT\(durationMs: ([\d.]+)\)", log))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the command's name, which may hold spaces; empty for a process that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _session(leader: int) -> list[int]:
    everyone = (int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit())
    return [pid for pid in everyone if (fields := _stat(pid)) and int(fields[3]) == leader]


def _cpu_seconds(pid: int) -> float:
    # user and system time, then those of its ended children
    return sum(map(int, _stat(pid)[11:15])) / _TICKS


def _max_rss(pid: int) -> int:
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="utf-8"))
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(found[1]) * 1024 if found else 0

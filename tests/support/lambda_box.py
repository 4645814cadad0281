"""Runs a bundle as exactly as Lambda as one machine can: its directories, user, limits and lack of a network. Needs root.

Own mount, process and network namespaces; /var/task, /opt, /var/runtime and /var/lang read-only, /tmp the only place to write; no
/sys, no home, a clean environment; memory and CPU limited by a control group as Lambda limits them. AWS's emulator and
AWS's Python client inside. Not here: Amazon Linux's own libraries, Firecracker, and the boto3 that Lambda's runtime brings.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hotfoot.contract import bundle as bundles
from hotfoot.contract.target import Arch
from hotfoot.settings import MB_PER_VCPU
from hotfoot.targets import machine_arch
from hotfoot_build.package import aws_parts, interpreters
from hotfoot_build.package.emulate import INVOKE, answer_of, init_durations
from support import lambda_box_inside

PORT, API_PORT = 8080, 9001  # of the box's own network namespace, so they are always free
TOOLS = ("unshare", "nsenter", "setpriv", "mount")
CGROUPS = Path("/sys/fs/cgroup")
PERIOD_US = 100_000

# run inside the box's network by this interpreter: event on stdin, status and body on stdout
CLIENT = f"""
import http.client, json, sys, time
event, seconds = sys.stdin.buffer.read(), float(sys.argv[1])
deadline = time.monotonic() + 10
while True:
    connection = http.client.HTTPConnection("127.0.0.1", {PORT}, timeout=seconds)
    try:
        connection.connect()
        break
    except OSError:
        if time.monotonic() > deadline:
            raise
        time.sleep(0.02)
connection.request("POST", "{INVOKE}", event)
answer = connection.getresponse()
json.dump([answer.status, answer.read().decode()], sys.stdout)
"""


def faults(euid: int | None = None) -> list[str]:
    """Why this machine cannot run a box, each with what to do about it; empty where it can."""
    found = []
    if not sys.platform.startswith("linux"):
        found.append("Lambda's system is Linux and this is not: run these tests in a Linux machine or container.")
    if (os.geteuid() if euid is None else euid) != 0:
        found.append("namespaces and control groups need root: run `sudo -E scripts/test --all`.")
    found += [f"`{tool}` is not installed: it is in util-linux." for tool in TOOLS if shutil.which(tool) is None]
    return found


@dataclass(frozen=True)
class Machine:
    """What the box's programs are and run on.

    arch: theirs, and so the bundle's. system: the root whose /usr and /lib they see. lang and client: Python and AWS's client, shown as
    /var/lang and /var/runtime. start: what starts a program in the box, nothing where this CPU does. mounts: what is shown besides.
    """

    arch: Arch
    system: Path
    lang: Path
    client: Path
    start: tuple[str, ...] = ()
    mounts: Mapping[str, Path] = field(default_factory=dict)


def here(python: str) -> Machine:
    """This machine itself, with its Python of that minor version."""
    found = interpreters.find(python)
    assert found, f"no Python {python} on this machine: run `uv python install {python}`"
    return Machine(machine_arch(), Path("/"), found.prefix, aws_parts.interface_client(machine_arch(), found))


class ControlGroup:
    """A memory limit and the CPU share that Lambda grants with it, in control groups of version 2 or 1."""

    def __init__(self, name: str, memory_mb: int) -> None:
        limit, quota = memory_mb * 1024 * 1024, max(1000, memory_mb * PERIOD_US // MB_PER_VCPU)
        if (CGROUPS / "cgroup.controllers").exists():
            (CGROUPS / "cgroup.subtree_control").write_text("+memory +cpu")
            values = {CGROUPS / name: {"memory.max": str(limit), "memory.swap.max": "0", "cpu.max": f"{quota} {PERIOD_US}"}}
            self._peak = CGROUPS / name / "memory.peak"
        else:
            values = {
                CGROUPS / "memory" / name: {"memory.limit_in_bytes": str(limit), "memory.swappiness": "0"},
                CGROUPS / "cpu" / name: {"cpu.cfs_period_us": str(PERIOD_US), "cpu.cfs_quota_us": str(quota)},
            }
            self._peak = CGROUPS / "memory" / name / "memory.max_usage_in_bytes"
        self.directories = tuple(values)
        for directory, files in values.items():
            directory.mkdir()
            for file, value in files.items():
                if file != "memory.swap.max" or (directory / file).exists():  # absent where the kernel counts no swap
                    (directory / file).write_text(value)

    @property
    def peak_bytes(self) -> int:
        """The most memory that all processes and /tmp together ever took."""
        return int(self._peak.read_text())

    def remove(self) -> None:
        """Remove the groups; their processes take a moment to be gone."""
        deadline = time.monotonic() + 5
        for directory in self.directories:
            while directory.exists():
                try:
                    directory.rmdir()
                except OSError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.02)


class LambdaBox:
    """One execution environment: `with LambdaBox(directory) as box: box.invoke(event)`. One request at a time."""

    def __init__(
        self,
        directory: Path,
        *,
        memory_mb: int = 1769,
        timeout_s: int = 30,
        handler: str | None = None,
        code: Path | None = None,
        env: Mapping[str, str] | None = None,
        machine: Machine | None = None,
    ) -> None:
        """Prepare the bundle in `directory`; `code` and `handler` stand in for its own to look around in the box, `machine` for here."""
        self._bundle = bundles.read(directory)
        self._machine = machine or here(self._bundle.python)
        assert self._bundle.arch == self._machine.arch, "a bundle runs on its own architecture"
        self._directory, self.code = directory.resolve(), (code or directory / self._bundle.code.path).resolve()
        self._handler, self._memory_mb, self._timeout_s = handler or self._bundle.handler, memory_mb, timeout_s
        self._extra = dict(env or {})
        self.log = ""

    def __enter__(self) -> Self:
        self._scratch = Path(tempfile.mkdtemp(prefix="hotfoot-box-"))
        self.cgroup = ControlGroup(self._scratch.name, self._memory_mb)
        try:
            self._start()
        except BaseException:
            self._remove()
            raise
        return self

    def _start(self) -> None:
        opt, root, log = self._scratch / "opt", self._scratch / "root", self._scratch / "log"
        self._scratch.chmod(0o755)
        root.mkdir()
        for layer in self._bundle.layers:
            shutil.copytree(self._directory / layer.path, opt, dirs_exist_ok=True)
        config = self._scratch / "config.json"
        config.write_text(json.dumps(self._config(root, opt)))
        # --kill-child: when this process is killed, so is the first one of the namespace, and with it all others
        command = ["unshare", "--mount", "--pid", "--net", "--ipc", "--fork", "--kill-child", "--propagation", "private"]
        command += [sys.executable, "-I", "-S", lambda_box_inside.__file__, str(config)]
        with log.open("wb") as sink:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink)
        outside, inside = Path("/proc/self/ns/net").readlink(), Path(f"/proc/{self._process.pid}/ns/net")
        while self._process.poll() is None and inside.readlink() == outside:
            time.sleep(0.005)  # until then a request would go into this machine's own network

    def _config(self, root: Path, opt: Path) -> dict[str, Any]:
        emulator, machine = "/var/rapid/aws-lambda-rie", self._machine
        drop = [
            "/usr/bin/setpriv",
            f"--reuid={lambda_box_inside.USER}",
            f"--regid={lambda_box_inside.GROUP}",
            "--clear-groups",
            "--no-new-privs",
        ]
        # -S: nothing that lies in this machine's site-packages
        runtime = [f"/var/lang/bin/python{self._bundle.python}", "-S", "-m", "awslambdaric", self._handler]
        addresses = ["--runtime-interface-emulator-address", f"127.0.0.1:{PORT}", "--runtime-api-address", f"127.0.0.1:{API_PORT}"]
        mounts = {
            "/var/task": self.code,
            "/opt": opt,
            "/var/runtime": machine.client,
            "/var/lang": machine.lang,
            emulator: aws_parts.emulator_binary(machine.arch),
            **machine.mounts,
        }
        return {
            "root": str(root),
            "system": str(machine.system),
            "tmp_mb": 512,
            "mounts": {place: str(source) for place, source in mounts.items()},
            "cgroups": [str(directory / "cgroup.procs") for directory in self.cgroup.directories],
            # each program is started by name, so that the kernel need not know how to run another CPU's
            "command": [*machine.start, emulator, *addresses, *machine.start, *drop, *machine.start, *runtime],
            "environment": self._environment(),
        }

    def _environment(self) -> dict[str, str]:
        python = self._bundle.python
        return {
            "PATH": "/var/lang/bin:/usr/local/bin:/usr/bin:/bin:/opt/bin",
            "LD_LIBRARY_PATH": "/var/lang/lib:/lib64:/usr/lib64:/var/runtime:/var/runtime/lib:/var/task:/var/task/lib:/opt/lib",
            "PYTHONPATH": f"/var/task:/opt/python/lib/python{python}/site-packages:/opt/python:/var/runtime",
            "LANG": "en_US.UTF-8",
            "TZ": ":UTC",
            "LAMBDA_TASK_ROOT": "/var/task",
            "LAMBDA_RUNTIME_DIR": "/var/runtime",
            "AWS_EXECUTION_ENV": f"AWS_Lambda_python{python}",
            "AWS_LAMBDA_FUNCTION_NAME": "hotfoot",
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(self._memory_mb),
            "AWS_LAMBDA_FUNCTION_TIMEOUT": str(self._timeout_s),
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "_HANDLER": self._handler,
            **self._extra,
        }

    def invoke(self, event: object) -> Any:
        """Send one event; gives the function's answer or raises InvocationError."""
        command = [
            "nsenter",
            f"--net=/proc/{self._process.pid}/ns/net",
            sys.executable,
            "-I",
            "-S",
            "-c",
            CLIENT,
            str(self._timeout_s + 60),
        ]
        done = subprocess.run(command, input=json.dumps(event).encode(), capture_output=True, check=False)
        assert done.returncode == 0, f"the box did not answer: {done.stderr.decode()}\n{self.read_log()}"
        status, body = json.loads(done.stdout)
        return answer_of(status, body)

    def read_log(self) -> str:
        """All that the emulator and the function wrote so far."""
        return (self._scratch / "log").read_text(encoding="utf-8", errors="replace")

    @property
    def init_ms(self) -> tuple[float, ...]:
        """Duration of each init, in ms."""
        return init_durations(self.read_log())

    @property
    def max_rss_bytes(self) -> int:
        """The highest resident memory of the function's process, the one that runs as Lambda's user."""
        return self._memory("VmHWM")

    @property
    def rss_bytes(self) -> int:
        """Its resident memory now."""
        return self._memory("VmRSS")

    def _memory(self, key: str) -> int:
        sizes = [0]
        for pid in (self.cgroup.directories[0] / "cgroup.procs").read_text().split():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                status = Path(f"/proc/{pid}/status").read_text()
                of_function = re.search(rf"^Uid:\t{lambda_box_inside.USER}\t", status, re.MULTILINE)
                found = re.search(rf"{key}:\s+(\d+) kB", status)
                sizes.append(int(found[1]) * 1024 if of_function and found else 0)
        return max(sizes)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()
        self.log = self.read_log()
        self._remove()

    def _remove(self) -> None:
        self.cgroup.remove()
        shutil.rmtree(self._scratch)

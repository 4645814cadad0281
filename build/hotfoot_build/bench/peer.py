"""Another process that runs what it is told and says what that took, so that it can be timed in turn with others.

Messages are JSON, a line each, over its standard input and output.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any

from hotfoot.contract.errors import ArtifactError


class Peer:
    """A running process. `cpu` and `wall` are the seconds of all its runs so far: the difference over a run is a clock's."""

    def __init__(self, name: str, command: Sequence[str], environ: Mapping[str, str]) -> None:
        self.name = name
        self.cpu = self.wall = 0.0
        self._said = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, text=True, encoding="utf-8", env=dict(environ)
        )

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def ask(self, **message: Any) -> dict[str, Any]:
        """Send one message and wait for its answer. Raises ArtifactError with the process's last words when it is gone."""
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise ValueError("the process has no pipes")
        try:
            stdin.write(json.dumps(message) + "\n")
            stdin.flush()
        except BrokenPipeError:
            raise self._gone() from None
        line = stdout.readline()
        if not line:
            raise self._gone()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def run(self, **message: Any) -> None:
        """Send a message whose answer has `cpu` and `wall` seconds, and add these up."""
        answer = self.ask(**message)
        self.cpu += answer["cpu"]
        self.wall += answer["wall"]

    def _gone(self) -> ArtifactError:
        code = self._process.wait()
        self._said.seek(0)
        tail = "\n".join(self._said.read().splitlines()[-12:])
        return ArtifactError(f"{self.name} ended with exit code {code}:\n{tail}")

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """End the process: its input ends, and so does it."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):  # an unsent message, to a process that is gone
                    pipe.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._said.close()

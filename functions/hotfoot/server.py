"""`python -m hotfoot.server ARTIFACT`: the same app under uvicorn; locally, in containers, many instances a host."""

from __future__ import annotations

import argparse
import contextlib
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import uvicorn

from hotfoot import observe, settings, targets
from hotfoot.contract.errors import EXIT_CODES, ArtifactError, HotfootError, UnsupportedError
from hotfoot.http.app import Report, create_app
from hotfoot.http.limits import server_limits
from hotfoot.model import Model

GRACE_S = 30  # what a container gets between SIGTERM and SIGKILL by default
BACKLOG = 2048


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; the requests in flight are answered first. Gives the exit code."""
    try:
        given = _parser().parse_args(arguments)
        artifact = given.artifact or settings.read().artifact
        if artifact is None:
            raise ArtifactError("no artifact to serve.", hint="Name its folder, or set HOTFOOT_ARTIFACT.")
        report = observe.log if given.log_requests else log_failures
        serve(artifact, given.host, given.port, threads=given.threads, waiting=given.queue, report=report)
    except HotfootError as error:
        print(f"hotfoot.server: {error}", file=sys.stderr)  # noqa: T201 - the command's own output
        return EXIT_CODES[error.kind]
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m hotfoot.server", description="Serve one artifact over HTTP.")
    parser.add_argument("artifact", nargs="?", type=Path, help="folder that `hotfoot build` wrote (default: HOTFOOT_ARTIFACT)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=_port, default=8080, help="port to listen on, 0 for a free one (default: %(default)s)")
    parser.add_argument("--threads", type=_positive, help="threads a prediction (default: what this machine grants)")
    parser.add_argument("--queue", type=_positive, help="requests that may wait before the next gets 429")
    parser.add_argument("--log-requests", action="store_true", help="one line a request, and not only for failures")
    return parser


def _port(text: str) -> int:
    if not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; ports are 0 to 65535")
    return int(text)


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def log_failures(record: observe.Record) -> None:
    """Log an answer that was our fault. A line for every request would cost a busy server more than some of its answers."""
    if record.status >= 500:
        observe.log(record)


def serve(
    artifact: Path, host: str, port: int, *, threads: int | None = None, waiting: int | None = None, report: Report = log_failures
) -> None:
    """Open `artifact`, listen, and answer until told to stop. Raises ArtifactError, or UnsupportedError for the address."""
    model = Model.open(artifact, threads=threads, verify=True)
    model.warm_up()
    limits = server_limits(targets.load(model.manifest.target))
    if waiting is not None:
        limits = replace(limits, waiting=waiting)
    app = create_app(model, limits=limits, threads=threads, report=report)
    with listen(host, port) as door:
        shown = f"[{host}]" if ":" in host else host
        m = model.manifest
        print(f"hotfoot: {m.model.id} ({m.task}, {m.precision}) on http://{shown}:{door.getsockname()[1]}", flush=True)  # noqa: T201
        config = uvicorn.Config(
            app, lifespan="off", log_config=None, access_log=False, server_header=False, timeout_graceful_shutdown=GRACE_S
        )
        # uvicorn raises the signal again once all is answered; by then it has done its work
        signal.signal(signal.SIGTERM, lambda *_: None)
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[door])


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises UnsupportedError when the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise UnsupportedError(f"cannot listen on {host} port {port}: {error.strerror}.", hint="Choose another --host or --port.") from None


if __name__ == "__main__":
    sys.exit(main())

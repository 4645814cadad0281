"""`python -m hotfoot.server ARTIFACT...`: the same app under uvicorn; locally, in containers, many instances a host."""

from __future__ import annotations

import argparse
import contextlib
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from hotfoot import cache, observe, settings, targets
from hotfoot.contract.errors import EXIT_CODES, ArtifactError, HotfootError, UnsupportedError
from hotfoot.http.app import App, Options, Report, create_app
from hotfoot.http.limits import server_limits
from hotfoot.http.loading import Loading
from hotfoot.model import Model
from hotfoot.observe import Record
from hotfoot.prometheus import Metrics

GRACE_S = 25  # of the 30 s that Kubernetes and ECS give between SIGTERM and SIGKILL; Docker's own default is 10
OPEN_S, OPEN_BYTES_A_SECOND = 0.2, 200e6  # of opening an artifact: MiniLM in int8 takes 0.3 s
BACKLOG = 2048


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; the requests in flight are answered first. Gives the exit code."""
    try:
        given = _parser().parse_args(arguments)
        artifacts = given.artifacts or [a for a in (settings.read().artifact,) if a is not None]
        if not artifacts:
            raise ArtifactError("no artifact to serve.", hint="Name its folder, or set HOTFOOT_ARTIFACT.")
        log = observe.log if given.log_requests else log_failures
        serve(artifacts, given.host, given.port, threads=given.threads, waiting=given.queue, log=log)
    except HotfootError as error:
        print(f"hotfoot.server: {error}", file=sys.stderr)  # noqa: T201 - the command's own output
        return EXIT_CODES[error.kind]
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m hotfoot.server",
        description="Serve artifacts over HTTP. Several are told apart by /models/NAME in front of a path, or by a body's `model`; NAME is"
        " the artifact's folder. HOTFOOT_TOKEN in the environment is a token that requests must carry, HOTFOOT_CACHE_MB the memory for"
        " answers (0: none), HOTFOOT_ANSWER_SHAPE=classic gives answers as clients before 2025 know them.",
    )
    parser.add_argument(
        "artifacts", nargs="*", type=Path, help="folders that `hotfoot build` wrote, the default first (default: HOTFOOT_ARTIFACT)"
    )
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
    artifacts: Sequence[Path], host: str, port: int, *, threads: int | None = None, waiting: int | None = None, log: Report = log_failures
) -> None:
    """Listen, open the artifacts, and answer until told to stop; until all are open, requests get 503 or wait.

    Raises ArtifactError, or UnsupportedError for the address.
    """
    with listen(host, port) as door:
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{door.getsockname()[1]}"
        loaded: Future[ASGIApp] = Future()
        app = Loading(loaded, expected_s(artifacts))
        config = uvicorn.Config(
            app, lifespan="off", log_config=None, access_log=False, server_header=False, timeout_graceful_shutdown=GRACE_S
        )
        running = uvicorn.Server(config)

        def load() -> None:
            try:
                made = opened(artifacts, threads=threads, waiting=waiting, log=log)
            except BaseException as error:  # noqa: BLE001 - whatever it is, the main thread raises it
                loaded.set_exception(error)
                running.should_exit = True
                return
            loaded.set_result(made)
            named = ", ".join(f"{s.id} ({s.model.manifest.task}, {s.model.manifest.precision})" for s in made.site.services)
            print(f"hotfoot: {named} on {address}", flush=True)  # noqa: T201 - the command's own output

        loader = threading.Thread(target=load, name="load", daemon=True)
        loader.start()
        # uvicorn raises the signal again once all is answered; by then it has done its work
        signal.signal(signal.SIGTERM, lambda *_: None)
        with contextlib.suppress(KeyboardInterrupt):
            running.run(sockets=[door])
    if loaded.done():
        loaded.result()


def opened(artifacts: Sequence[Path], *, threads: int | None, waiting: int | None, log: Report) -> App:
    """The app over all artifacts, verified and warm. Raises ArtifactError for the first that cannot be opened."""
    here, metrics = settings.read(), Metrics()
    if here.weights is not None and len(artifacts) > 1:
        raise ArtifactError(
            f"HOTFOOT_WEIGHTS in the environment is of one artifact, and {len(artifacts)} are to be served.",
            hint="Give each a server of its own, or have all weights beside their graphs.",
        )
    models: dict[str, Model] = {}
    for artifact in artifacts:
        name = artifact.resolve().name
        if name in models:
            raise ArtifactError(f"two artifacts are called {name}.", hint="Serve them from folders of different names.")
        models[name] = Model.open(artifact, threads=threads, verify=True, cache_bytes=here.cache_bytes // len(artifacts))
        models[name].warm_up()
    limits = server_limits(targets.load(next(iter(models.values())).manifest.target))
    if waiting is not None:
        limits = replace(limits, waiting=waiting)
    for model in models.values():  # now that all hold what they need; each keeps what its largest runs took, so none has all the rest
        model.fit(limits.running * len(models))

    def report(record: Record) -> None:
        metrics.count(record)
        log(record)

    options = Options(
        limits=limits,
        threads=threads,
        scrape=metrics.scrape,
        report=report,
        cache_bytes=cache.shares(here.cache_bytes).answers,
        token=here.token,
        shape=here.answer_shape,
    )
    app = create_app(models, options)
    metrics.watch(app)
    return app


def expected_s(artifacts: Sequence[Path]) -> float:
    """How long opening them may take: for a client that has to wait, no promise."""
    size = sum(path.stat().st_size for artifact in artifacts for path in artifact.rglob("*") if path.is_file())
    return OPEN_S + size / OPEN_BYTES_A_SECOND


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises UnsupportedError when the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        door = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise UnsupportedError(f"cannot listen on {host} port {port}: {error.strerror}.", hint="Choose another --host or --port.") from None
    # what it accepts inherits this, which asyncio leaves unset here: the body of an answer would wait 40 ms for the receipt of its head
    door.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return door


if __name__ == "__main__":
    sys.exit(main())

"""`hotfoot playground`: the playground on this machine, over an endpoint that a browser alone could not ask.

Requests leave from here, signed or with a token. So nobody but the page itself may send any: another page that the same browser
shows must not get to use the credentials.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
import webbrowser
from collections.abc import Callable, Iterable, Mapping
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from hotfoot.contract.errors import UnsupportedError
from hotfoot.http import pages
from hotfoot_build.endpoint import Answer, Endpoint, connect

HERE = "127.0.0.1"
# of one connection, not of what travels over it
HOPS = {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade"}
# the browser's own, about this address: the endpoint is another
LOCAL = {"host", "origin", "referer", "cookie", "content-length"}
# behind the endpoint's address: what does not begin with a slash would make another address, and HTTP has no other characters
PATH = re.compile(r"/[!-~]*")


class Server(ThreadingHTTPServer):
    """Listens on this machine alone, and asks `endpoint`."""

    daemon_threads = True

    def __init__(self, port: int, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        try:
            super().__init__((HERE, port), Handler)
        except (OSError, OverflowError) as error:
            raise UnsupportedError(f"cannot listen on {HERE} port {port}: {error}.", hint="Choose another --port, or 0.") from None

    @property
    def hosts(self) -> tuple[str, str]:
        """What a browser calls this server."""
        return f"{HERE}:{self.server_port}", f"localhost:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    """One connection of a browser."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or an answer's body may wait until its head has been received
    timeout = 120  # seconds of silence
    server: Server

    def answer(self) -> None:
        """The page, or the endpoint's answer; 403 for whoever is not the page."""
        page = self.command == "GET" and is_page(self.path, self.headers.get("accept", ""))
        length = self.headers.get("content-length", "0")
        if why := refusal(self.headers, self.server.hosts, page=page):
            self._refuse(403, "Forbidden", why)
        elif not PATH.fullmatch(self.path):
            self._refuse(400, "Malformed", "a path begins with a slash, and has printable ASCII characters only.")
        elif not length.isdecimal() or "transfer-encoding" in self.headers:
            self._refuse(411, "LengthRequired", "a body must come with its content-length.")
        elif page:
            shown = pages.playground()
            self._give(Answer(200, tuple(shown.headers.items()), shown.body))
        else:
            self._give(ask(self.server.endpoint, self.command, self.path, self.headers, self.rfile.read(int(length))))

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = answer  # noqa: N815 - names of the base class's choosing

    def _refuse(self, status: int, kind: str, text: str) -> None:
        self.close_connection = True  # behind it stands a body that nobody read, and that would be taken for the next request
        self._give(problem(status, kind, text))

    def _give(self, answer: Answer) -> None:
        self.send_response_only(answer.status)
        for name, value in answer.headers:
            if name.lower() not in HOPS | {"content-length"}:
                self.send_header(name, value)
        self.send_header("content-length", str(len(answer.body)))
        if self.close_connection:
            self.send_header("connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def log_message(self, *_: object) -> None:
        """Nothing: a line for each request would be of no use to anybody."""


def run(endpoint: Endpoint, port: int, *, browse: bool, ready: Callable[[str], None]) -> None:
    """Serve until interrupted; `ready` hears the address. Raises UnsupportedError for a port that cannot be had."""
    with Server(port, endpoint) as server:
        address = f"http://{server.hosts[0]}/"
        ready(address)
        if browse:
            # a browser in the terminal would not come back before it has been answered
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()


def is_page(path: str, accept: str) -> bool:
    """Whether a browser that goes to `path` gets the playground: of the endpoint, or of one of its models."""
    path = urlsplit(path).path
    return "text/html" in accept and (path == "/" or (path.startswith("/models/") and path.endswith("/")))


def refusal(headers: Message, hosts: Iterable[str], *, page: bool) -> str:
    """Why a request is not the page's own; empty where it is.

    Another name for this machine would make another site's page count as ours (DNS rebinding). Programs send no Origin.
    """
    host, origin = headers.get("host", ""), headers.get("origin")
    if host not in hosts:
        return f"this server is {' or '.join(hosts)}, not {host[:80]!a}."
    if origin is not None and origin not in {f"http://{name}" for name in hosts}:
        return f"{origin[:80]!a} may not use this machine's credentials."
    # what a page can send without saying where it is from: images, scripts, forms. Going to the page by a link is no use of anything
    if not page and headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return "another site may not use this machine's credentials."
    return ""


def ask(endpoint: Endpoint, method: str, path: str, headers: Mapping[str, str] | Message, body: bytes) -> Answer:
    """The endpoint's answer, or one that says that there is none."""
    kept = {name.lower(): value for name, value in headers.items()}
    kept = {name: value for name, value in kept.items() if name not in HOPS | LOCAL and not name.startswith("sec-")}
    try:
        return endpoint.send(method, path, kept, body)
    except OSError as error:
        return problem(502, "NoAnswer", f"{endpoint.url} does not answer: {getattr(error, 'reason', error)}.")


def problem(status: int, kind: str, text: str) -> Answer:
    """An error of this server's own, in the endpoint's form."""
    body = json.dumps({"error": text, "error_type": kind}).encode()
    return Answer(status, (("content-type", "application/json"),), body)


def start(url: str, token: str | None, region: str | None, port: int, *, browse: bool, ready: Callable[[str], None]) -> None:
    """All of it: connect, and serve. Raises InputError or UnsupportedError before anything is served."""
    run(connect(url, token, region), port, browse=browse, ready=ready)

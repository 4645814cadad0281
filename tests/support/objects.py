"""An object store in memory, with what the pipeline relies on of S3: versions, conditions, ranges, absence.

Also as a server for boto3, which takes messages for queues too.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from hotfoot.bulk import queues, s3


@dataclass(frozen=True)
class Stored:
    """One version of an object."""

    body: bytes
    version_id: str

    @cached_property
    def etag(self) -> str:
        """As S3 makes it for an upload in one piece."""
        return hashlib.md5(self.body, usedforsecurity=False).hexdigest()


@dataclass
class Objects:
    """Buckets. forbidden: keys that answer 403, and queues. busy: how many requests from now on are told to slow down.

    cut: how many answers from now on end in the middle. conflicts: how many writes from now on meet another one. sent: the messages of
    each queue. signed: the key and the session token of each request for an object.
    """

    versions: dict[tuple[str, str], list[Stored]] = field(default_factory=dict)
    forbidden: set[str] = field(default_factory=set)
    busy: int = 0
    cut: int = 0
    conflicts: int = 0
    sent: dict[str, list[str]] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    signed: list[tuple[str, str]] = field(default_factory=list)

    def put(self, bucket: str, key: str, body: bytes, *, only_new: bool = False) -> Stored | None:
        """Add a version; None where there is one and only_new forbids a second."""
        found = self.versions.setdefault((bucket, key), [])
        if only_new and found:
            return None
        made = Stored(body, f"v{len(found) + 1}")
        found.append(made)
        return made

    def get(self, bucket: str, key: str, version_id: str | None = None) -> Stored | None:
        """The version asked for, by default the newest."""
        found = self.versions.get((bucket, key), [])
        return next((v for v in reversed(found) if version_id in (None, v.version_id)), None)

    def delete(self, bucket: str, key: str) -> None:
        """Remove every version."""
        self.versions.pop((bucket, key), None)

    def files(self, bucket: str) -> dict[str, bytes]:
        """Key -> newest body, sorted by key."""
        return {key: found[-1].body for (home, key), found in sorted(self.versions.items()) if home == bucket and found}


class CrashError(Exception):
    """What a killed process looks like from inside."""


@dataclass
class MemoryResults:
    """Results in memory; dies after `left` more creations, with the last one written or not."""

    objects: Objects = field(default_factory=Objects)
    bucket: str = "results"
    left: int | None = None
    written_before_death: bool = True

    def create(self, key: str, body: bytes) -> bool:
        """Write `key` unless it is there."""
        if self.left == 0 and not self.written_before_death:
            raise CrashError
        made = self.objects.put(self.bucket, key, body, only_new=True) is not None
        if self.left == 0:
            raise CrashError
        self.left = None if self.left is None else self.left - 1
        return made

    def read(self, key: str) -> bytes | None:
        """What lies at `key`."""
        found = self.objects.get(self.bucket, key)
        return found.body if found else None


class Server(ThreadingHTTPServer):
    """S3's GET, HEAD and PUT of objects, addressed by path, and SQS's GetQueueUrl and SendMessage."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects = Objects()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class calls it so
        """Say nothing."""

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        bucket, key = unquote(parts.path).lstrip("/").split("/", 1)
        if self._refused(key):
            return
        version = parse_qs(parts.query).get("versionId", [None])[0]
        found = self.server.objects.get(bucket, key, version)
        if found is None:
            self._error(404, "NoSuchVersion" if version else "NoSuchKey")
        elif self.headers.get("If-Match", f'"{found.etag}"') != f'"{found.etag}"':
            self._error(412, "PreconditionFailed")
        else:
            self._send(found)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_PUT(self) -> None:
        bucket, key = unquote(urlsplit(self.path).path).lstrip("/").split("/", 1)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self._refused(key):
            return
        if self.server.objects.conflicts:
            self.server.objects.conflicts -= 1
            self._error(409, "ConditionalRequestConflict")
            return
        made = self.server.objects.put(bucket, key, body, only_new=self.headers.get("If-None-Match") == "*")
        if made is None:
            self._error(412, "PreconditionFailed")
        else:
            self._answer(200, b"", {"ETag": f'"{made.etag}"'})

    def do_POST(self) -> None:
        action = self.headers["X-Amz-Target"].removeprefix("AmazonSQS.")
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = asked.get("QueueName") or asked["QueueUrl"].rpartition("/")[2]
        objects, found = self.server.objects, {}
        objects.requests.append((action, name))
        if name in objects.forbidden:
            self._answer(403, b'{"__type": "com.amazonaws.sqs#AccessDeniedException", "message": "no"}', {})
            return
        if action == "GetQueueUrl":
            found = {"QueueUrl": f"{self.server.url}/{asked['QueueOwnerAWSAccountId']}/{name}"}
        else:
            assert action == "SendMessage"
            objects.sent.setdefault(name, []).append(asked["MessageBody"])
            digest = hashlib.md5(asked["MessageBody"].encode(), usedforsecurity=False).hexdigest()
            found = {"MessageId": f"sent-{len(objects.sent[name])}", "MD5OfMessageBody": digest}
        self._answer(200, json.dumps(found).encode(), {"Content-Type": "application/x-amz-json-1.0"})

    def _refused(self, key: str) -> bool:
        objects = self.server.objects
        objects.requests.append((self.command, key))
        credential = self.headers.get("Authorization", "").partition("Credential=")[2].partition("/")[0]
        objects.signed.append((credential, self.headers.get("x-amz-security-token", "")))
        if objects.busy:
            objects.busy -= 1
            self._error(503, "SlowDown")
            return True
        if key in objects.forbidden:
            self._error(403, "AccessDenied")
            return True
        return False

    def _send(self, found: Stored) -> None:
        headers = {"ETag": f'"{found.etag}"', "x-amz-version-id": found.version_id}
        wanted = self.headers.get("Range")
        if wanted is None:
            self._answer(200, found.body, headers)
            return
        first, last = map(int, wanted.removeprefix("bytes=").split("-"))
        if first >= len(found.body):
            self._error(416, "InvalidRange")
            return
        body = found.body[first : last + 1]
        self._answer(206, body, {**headers, "Content-Range": f"bytes {first}-{first + len(body) - 1}/{len(found.body)}"})

    def _error(self, status: int, code: str) -> None:
        self._answer(status, f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode(), {})

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            if self.server.objects.cut and body and status < 300:
                self.server.objects.cut -= 1
                body, self.close_connection = body[: len(body) // 2], True
            self.wfile.write(body)


@contextmanager
def serving() -> Iterator[Server]:
    """The server, while the block lasts."""
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def boto_server() -> Iterator[Server]:
    """The server as the one that the pipeline's boto3 client talks to."""
    told = {"ACCESS_KEY_ID": "test", "SECRET_ACCESS_KEY": "test", "DEFAULT_REGION": "eu-central-1"}
    with serving() as running, pytest.MonkeyPatch.context() as patch:
        for name, value in {**told, "ENDPOINT_URL": running.url, "CONFIG_FILE": os.devnull}.items():
            patch.setenv(f"AWS_{name}", value)
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
        forget_clients()
        yield running
        forget_clients()


def forget_clients() -> None:
    """Close what the pipeline has, so that the next client reads its environment anew."""
    for made in (s3.client, queues.client):
        if made.cache_info().currsize:
            made().close()
        made.cache_clear()
    queues._url.cache_clear()

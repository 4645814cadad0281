"""Weights from S3: whole and checked, by many requests side by side, or a clear error; and a model that answers with them."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.message import Message
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hotfoot import settings, weights
from hotfoot.contract.errors import ArtifactError, UnsupportedError
from hotfoot.contract.manifest import WEIGHTS, FileEntry
from hotfoot.model import Model
from hotfoot_build import weights as parting
from support import generating, objects, tiny
from support.objects import Server
from support.parted import parted_artifact
from support.rigged import rigged_artifact

BODY = np.random.default_rng(0).bytes(1_000_003)  # no multiple of a part
BUCKET, KEY = "assets", "weights/0a1b.data"
URL = f"s3://{BUCKET}/{KEY}"
KEYS = {"AWS_ACCESS_KEY_ID": "AKIDTEST", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "eu-central-1"}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """An S3 that holds BODY, and parts small enough for many of them."""
    monkeypatch.setattr(weights, "PART", 64 * 1024)
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    with objects.serving() as running:
        running.objects.put(BUCKET, KEY, BODY)
        yield running


def entry_of(body: bytes) -> FileEntry:
    return FileEntry(WEIGHTS, len(body), hashlib.sha256(body).hexdigest())


WHOLE = entry_of(BODY)


def fetched(server: Server, environ: Mapping[str, str] = KEYS, entry: FileEntry = WHOLE, key: str = KEY) -> bytes:
    access = settings.s3_access({**environ, "AWS_ENDPOINT_URL": server.url})
    return bytes(weights.fetch(weights.reader(BUCKET, key, access), entry, f"s3://{BUCKET}/{key}"))


def test_every_byte_comes_in_its_place(server: Server) -> None:
    assert fetched(server) == BODY
    assert server.objects.requests == [("GET", KEY)] * 16
    assert set(server.objects.signed) == {("AKIDTEST", "")}


def test_requests_run_side_by_side_and_no_more_than_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "PART", 64 * 1024)
    at_once, most, lock = 0, 0, threading.Lock()
    meet = threading.Barrier(weights.AT_ONCE)

    def read(start: int, end: int) -> tuple[int, list[bytes]]:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        meet.wait(10)  # breaks where fewer come together
        with lock:
            at_once -= 1
        return len(BODY), [BODY[start : start + 7], BODY[start + 7 : end]]

    assert bytes(weights.fetch(read, WHOLE, URL)) == BODY
    assert most == weights.AT_ONCE


@pytest.mark.parametrize("size", [1, 64 * 1024 - 1, 64 * 1024, 64 * 1024 + 1])
def test_any_size(server: Server, size: int) -> None:
    server.objects.put(BUCKET, KEY, BODY[:size])
    assert fetched(server, entry=entry_of(BODY[:size])) == BODY[:size]


@pytest.mark.parametrize(
    ("held", "message"),
    [
        (BODY[:-1], f"has {len(BODY) - 1} bytes, the manifest says {len(BODY)}"),
        (BODY[: 128 * 1024], f"has {128 * 1024} bytes, the manifest says {len(BODY)}"),
        (b"", "could not be read from byte 0 on"),  # S3 has no range of nothing
        (BODY + b"\0", f"has {len(BODY) + 1} bytes, the manifest says {len(BODY)}"),
        (b"\0" + BODY[1:], "was changed: its sha256 is "),
        (BODY[:-1] + b"\0", "was changed: its sha256 is "),
    ],
)
def test_another_object_is_an_error_that_says_so(server: Server, held: bytes, message: str) -> None:
    server.objects.put(BUCKET, KEY, held)
    with pytest.raises(ArtifactError, match=message) as caught:
        fetched(server)
    assert URL in str(caught.value)


def test_what_is_missing_forbidden_or_away_is_told_apart(server: Server) -> None:
    with pytest.raises(ArtifactError, match="there is no object s3://assets/absent"):
        fetched(server, key="absent")
    server.objects.forbidden.add(KEY)
    with pytest.raises(ArtifactError, match=r"s3://assets/weights/0a1b\.data may not be read: .*s3:GetObject"):
        fetched(server)


@pytest.mark.parametrize("line", ["", "\n"])  # S3 has a line break there, other stores none
@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, r"could not be read from byte 0 on: .* 400 Bad Request: ExpiredToken\. Is S3 reachable\?"),
        (401, r"may not be read: .* 401 Unauthorized: ExpiredToken\. The credentials that were found do not hold, or none were\."),
        (403, r"may not be read: .* 403 Forbidden: ExpiredToken\. The function's role must allow s3:GetObject on it\."),
    ],
)
def test_of_what_a_store_answers_its_code_alone_is_told(status: int, message: str, line: str) -> None:
    """S3 sends a session token that does not hold back whole."""
    body = f'<?xml version="1.0" encoding="UTF-8"?>{line}<Error><Code>ExpiredToken</Code><Token-0>of-the-role</Token-0></Error>'
    with answering(body.encode(), lambda _headers: status) as url:
        read = weights.reader(BUCKET, KEY, settings.s3_access({**KEYS, "AWS_SESSION_TOKEN": "of-the-role", "AWS_ENDPOINT_URL": url}))
        with pytest.raises(ArtifactError, match=message) as caught:
            weights.fetch(read, WHOLE, URL)
    assert "of-the-role" not in str(caught.value)
    assert "<" not in str(caught.value)


def test_after_a_part_has_failed_no_other_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody answers all that run fail at one moment, and as many more would take as long again."""
    monkeypatch.setattr(weights, "PART", 64 * 1024)
    begun, meet = list[int](), threading.Barrier(weights.AT_ONCE)

    def read(start: int, _end: int) -> tuple[int, list[bytes]]:
        begun.append(start)
        if len(begun) <= weights.AT_ONCE:
            meet.wait(10)
        raise TimeoutError("nobody")

    with pytest.raises(ArtifactError, match=r"from byte 0 on: nobody\. Is S3 reachable\?"):
        weights.fetch(read, WHOLE, URL)
    assert len(begun) == weights.AT_ONCE < len(BODY) / weights.PART


def test_a_part_that_ends_too_soon_is_told_as_that() -> None:
    with pytest.raises(ArtifactError, match=r"could not be read: of bytes 0 to 1000003 came 7\."):
        weights.fetch(lambda start, _end: (len(BODY), [BODY[start : start + 7]]), WHOLE, URL)


def test_nobody_there_is_told_after_a_few_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(weights.TRIES, "max_retries", 1)
    access = settings.s3_access({**KEYS, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"})
    with pytest.raises(ArtifactError, match=r"could not be read from byte 0 on: .*Is S3 reachable\?"):
        weights.fetch(weights.reader(BUCKET, KEY, access), WHOLE, URL)


def test_a_busy_store_is_asked_again(server: Server) -> None:
    server.objects.busy = 3
    assert fetched(server) == BODY
    assert len(server.objects.requests) == 16 + 3


def test_an_answer_that_breaks_off_goes_on_where_it_broke(server: Server) -> None:
    server.objects.cut = 3
    assert fetched(server) == BODY
    assert len(server.objects.requests) == 16 + 3


def test_a_session_token_is_sent_along(server: Server) -> None:
    assert fetched(server, {**KEYS, "AWS_SESSION_TOKEN": "of-the-role"}) == BODY
    assert set(server.objects.signed) == {("AKIDTEST", "of-the-role")}


@contextmanager
def answering(body: bytes, status: Callable[[Message], int]) -> Iterator[str]:
    """The address of a server that answers this, with the status that a request's headers ask for."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class calls it so
            """Say nothing."""

        def do_GET(self) -> None:
            self.send_response(status(self.headers))
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with HTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{running.server_port}"
        finally:
            running.shutdown()
            thread.join()


@contextmanager
def credentials(**found: str) -> Iterator[tuple[str, list[str | None]]]:
    """An endpoint that gives these credentials to who brings the token; its address, and what was brought."""
    asked: list[str | None] = []

    def status(headers: Message) -> int:
        asked.append(headers.get("Authorization"))
        return 200 if asked[-1] == "the-token" else 403

    with answering(json.dumps(found).encode(), status) as url:
        yield f"{url}/2021-01-01/credentials", asked


def of_container(url: str, brought: str = "the-token") -> dict[str, str]:
    return {"AWS_REGION": "eu-central-1", "AWS_CONTAINER_CREDENTIALS_FULL_URI": url, "AWS_CONTAINER_AUTHORIZATION_TOKEN": brought}


def test_without_keys_the_container_endpoint_is_asked_once(server: Server) -> None:
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat().replace("+00:00", "Z")
    with credentials(AccessKeyId="ASIACONTAINER", SecretAccessKey="s", Token="t", Expiration=later) as (url, asked):
        assert fetched(server, of_container(url)) == BODY
    assert set(server.objects.signed) == {("ASIACONTAINER", "t")}
    assert asked == ["the-token"]


def test_the_endpoint_is_asked_past_any_proxy_and_may_give_keys_alone(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with credentials(AccessKeyId="ASIACONTAINER", SecretAccessKey="s") as (url, asked):
        assert fetched(server, of_container(url)) == BODY
        assert set(server.objects.signed) == {("ASIACONTAINER", "")}
        monkeypatch.setattr(urllib.request, "_opener", None)  # it would keep the proxies of the first request in this process
        with credentials(AccessKeyId="of a proxy") as (proxy, told):
            monkeypatch.setenv("http_proxy", proxy)
            monkeypatch.delenv("no_proxy", raising=False)
            monkeypatch.delenv("NO_PROXY", raising=False)
            found = weights._of_container(settings.s3_access(of_container(url)))()
    assert found["access_key_id"] == "ASIACONTAINER"
    assert (asked, told) == (["the-token"] * 2, [])


def test_keys_come_before_the_endpoint(server: Server) -> None:
    with credentials(AccessKeyId="ASIACONTAINER", SecretAccessKey="s") as (url, asked):
        assert fetched(server, {**of_container(url), **KEYS}) == BODY
    assert set(server.objects.signed) == {("AKIDTEST", "")}
    assert asked == []


def test_an_endpoint_that_gives_none_is_named(server: Server) -> None:
    with (
        credentials(AccessKeyId="ASIACONTAINER", SecretAccessKey="s") as (url, _),
        pytest.raises(ArtifactError, match=r"may not be read: .*HTTP Error 403: Forbidden\. The credentials "),
    ):
        fetched(server, of_container(url, "another"))
    assert server.objects.requests == []


REFUSED = ["https://a/b", "s3://bucket", "s3://bucket/", "bucket/key", "s3://b/k?versionId=1", "s3:///key"]
REFUSED += ["s3://b/a//k", "s3://b/a/../k", "s3://b/k/", "s3://b/a\nk", "s3://b c/k", "s3://a:b@c/k"]


@pytest.mark.parametrize("url", REFUSED)
def test_another_kind_of_address_is_refused(url: str) -> None:
    with pytest.raises(ArtifactError, match="is not of the form s3://BUCKET/KEY"):
        weights.place(url)


@pytest.mark.parametrize("key", ["a b", "ü", "a%20b", "a+b~c"])
def test_a_key_is_taken_as_it_is_written(server: Server, key: str) -> None:
    server.objects.put(BUCKET, key, BODY)
    bucket, named = weights.place(f"s3://{BUCKET}/{key}")
    assert fetched(server, key=named) == BODY
    assert (bucket, set(server.objects.requests)) == (BUCKET, {("GET", key)})


def test_without_obstore_it_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(UnsupportedError, match=r"obstore, which is not installed\. Install hotfoot\[s3\]"):
        weights.reader(BUCKET, KEY, settings.s3_access(KEYS))


ANSWER = """
import json, sys
from hotfoot.model import Model
model = Model.open(sys.argv[1], threads=1)
found = [name for name in ("boto3", "botocore") if name in sys.modules]
print(json.dumps([model.predict(["good", "bad"]).answer, found]))
"""


def test_a_model_answers_as_with_the_file_beside_it_and_without_boto3(tmp_path: Path, server: Server) -> None:
    folder = parted_artifact(tmp_path, "text-classification")
    expected = Model.open(folder, threads=1).predict(["good", "bad"]).answer
    server.objects.put(BUCKET, KEY, (folder / WEIGHTS).read_bytes())
    (folder / WEIGHTS).unlink()
    with pytest.raises(ArtifactError, match=r"weights\.data: missing(.|\n)*HOTFOOT_WEIGHTS"):
        Model.open(folder, threads=1)
    environment = {**os.environ, **KEYS, "AWS_ENDPOINT_URL": server.url, "HOTFOOT_WEIGHTS": URL}
    done = subprocess.run([sys.executable, "-c", ANSWER, str(folder)], env=environment, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [json.loads(json.dumps(expected)), []]


def test_an_artifact_without_weights_of_their_own_needs_no_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = rigged_artifact(tmp_path, "text-classification")
    monkeypatch.setenv("HOTFOOT_WEIGHTS", URL)
    with pytest.raises(ArtifactError, match=r"the artifact has no weights\.data"):
        Model.open(folder, threads=1)


@pytest.mark.slow
def test_encoder_and_decoder_share_what_was_fetched(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parting, "LEAST", 1000)
    built = tiny.run_build(generating.request("t5", tmp_path / "artifact", "fp32"))
    expected = Model.open(built.path).predict("the quick brown fox").answer
    server.objects.put(BUCKET, KEY, (built.path / WEIGHTS).read_bytes())
    (built.path / WEIGHTS).unlink()
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": server.url, "HOTFOOT_WEIGHTS": URL}.items():
        monkeypatch.setenv(name, value)
    assert Model.open(built.path).predict("the quick brown fox").answer == expected

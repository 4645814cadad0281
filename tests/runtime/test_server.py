"""The server as a process: where it listens, how it stops, how it fails, and the official client against it."""

from __future__ import annotations

import http.client
import inspect
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from huggingface_hub import InferenceClient

from hotfoot import server, settings
from hotfoot.batching import ARENA
from hotfoot.contract.errors import EXIT_CODES, KINDS, ArtifactError
from hotfoot.http.limits import RUNNING
from hotfoot.session import Session
from hotfoot_build import cli
from support.rigged import rigged_artifact
from support.serving import artifact

ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("HOTFOOT_")}


@contextmanager
def serving(*arguments: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A real server process and the address that it printed."""
    command = [sys.executable, "-W", "error", "-m", "hotfoot.server", "--port", "0", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**ENVIRONMENT, **environment})
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, line + process.communicate(timeout=20)[1]
        yield process, found[0]
    finally:
        process.terminate()
        process.communicate(timeout=20)


@contextmanager
def connected(url: str) -> Iterator[http.client.HTTPConnection]:
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=20)
    try:
        yield connection
    finally:
        connection.close()


def post(url: str, path: str, body: bytes, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
    with connected(url) as connection:
        connection.request("POST", path, body, headers or {"content-type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()


@pytest.fixture(scope="module")
def classifier() -> Iterator[str]:
    with serving(str(artifact("text-classification")), "--threads", "1") as (_, url):
        yield url


@pytest.fixture(scope="module")
def embedder() -> Iterator[str]:
    with serving(HOTFOOT_ARTIFACT=str(artifact("feature-extraction"))) as (_, url):
        yield url


def test_official_client_classifies_text(classifier: str) -> None:
    client = InferenceClient(model=classifier)
    found = client.text_classification("good", top_k=2)
    assert [f.label for f in found] == ["POSITIVE", "NEGATIVE"]
    assert found[0].score == pytest.approx(0.9933071)
    assert len(client.text_classification("good", top_k=1)) == 1
    raw = client.text_classification("bad", function_to_apply="none")
    assert [f.score for f in raw] == [4.0, -1.0]


def test_official_client_embeds_and_compares(embedder: str) -> None:
    client = InferenceClient(model=embedder)
    assert np.allclose(client.feature_extraction("north"), [[0, 1, 0, 0]])
    assert np.allclose(client.feature_extraction(["north", "east"], normalize=True, truncate=True), [[0, 1, 0, 0], [1, 0, 0, 0]])
    assert client.sentence_similarity("east", other_sentences=["west", "up", "east"]) == [-1.0, 0.0, 1.0]
    whole = InferenceClient(model=f"{embedder}/pipeline/sentence-similarity")
    assert whole.sentence_similarity("east", other_sentences=["east"]) == [1.0]


def test_official_client_finds_entities() -> None:
    text = "Maria Gonzalez lives in Springfield"
    with serving(str(artifact("token-classification"))) as (_, url):
        client = InferenceClient(model=url)
        found = client.token_classification(text)
        assert [(f.entity_group, f.word, f.start, f.end) for f in found] == [
            ("PER", "Maria Gonzalez", 0, 14),
            ("LOC", "Springfield", 24, 35),
        ]
        raw = client.token_classification(text, aggregation_strategy="none", ignore_labels=["B-LOC"])
        assert [f.entity for f in raw] == ["B-PER", "I-PER", "O", "O"]


def test_request_larger_than_the_limit_gets_its_answer(classifier: str) -> None:
    status, body = post(classifier, "/", b'{"inputs": "' + b"x" * (17 * 2**20) + b'"}')
    assert (status, json.loads(body)["error_type"]) == (413, "TooLarge")
    assert post(classifier, "/", b'{"inputs": "good"}')[0] == 200


def test_plain_curl_defaults(classifier: str) -> None:
    assert post(classifier, "/predict", b'{"inputs": "good"}', {"content-type": "application/x-www-form-urlencoded"})[0] == 200
    assert post(classifier, "/predict", b'{"inputs": "good"}', {"accept": "*/*"})[0] == 200


def test_keeps_connections_open_over_errors(classifier: str) -> None:
    with connected(classifier) as connection:
        for body, status in ((b"{", 400), (b'{"inputs": "good"}', 200), (b'{"inputs": 5}', 422), (b'{"inputs": "good"}', 200)):
            connection.request("POST", "/", body, {"content-type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            assert answer.status == status


def test_logs_requests_only_when_asked() -> None:
    with serving(str(artifact("text-classification")), "--log-requests") as (process, url):
        assert post(url, "/predict", b'{"inputs": "topsecret"}')[0] == 200
        assert process.stdout is not None
        line = json.loads(process.stdout.readline())
    assert (line["route"], line["status"], line["texts"]) == ("/predict", 200, 1)
    with serving(str(artifact("text-classification"))) as (process, url):
        assert post(url, "/predict", b'{"inputs": "topsecret"}')[0] == 200
        process.terminate()
        assert process.communicate(timeout=20) == ("", "")


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_stops_gracefully(stop: signal.Signals) -> None:
    with serving(str(artifact("text-classification"))) as (process, url):
        place = urlsplit(url)
        # half a request is in flight when the signal comes
        with socket.create_connection((place.hostname or "", place.port or 0), timeout=20) as connection:
            body = b'{"inputs": "good"}'
            connection.sendall(b"POST /predict HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body))
            assert post(url, "/predict", body)[0] == 200
            process.send_signal(stop)
            time.sleep(0.3)
            connection.sendall(body)
            answer = connection.recv(65536)
        assert answer.startswith(b"HTTP/1.1 200")
        assert process.wait(timeout=20) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["/nowhere"], 4, "no manifest.json in /nowhere Give the folder that `hotfoot build --out` wrote."),
        ([], 4, "no artifact to serve. Name its folder, or set HOTFOOT_ARTIFACT."),
        (["x", "--port", "99999"], 2, "'99999' is not a port"),
        (["x", "--threads", "0"], 2, "'0' is not a whole number above 0"),
    ],
)
def test_fails_clearly(arguments: list[str], code: int, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hotfoot.server", *arguments], capture_output=True, text=True, env=ENVIRONMENT, timeout=60, check=False
    )
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not done.stdout


def test_damaged_artifact(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    assert server.main([str(tmp_path)]) == 4
    assert "has format None" in capsys.readouterr().err


def test_every_byte_is_checked_before_the_first_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = rigged_artifact(tmp_path, "text-classification")
    content = bytearray((folder / "model.onnx").read_bytes())
    content[-40] ^= 1
    (folder / "model.onnx").write_bytes(content)
    assert server.main([str(folder)]) == EXIT_CODES["artifact"]
    assert "model.onnx: content differs from the manifest's sha256" in capsys.readouterr().err


def test_the_port_is_that_of_hotfoot_serve() -> None:
    assert server._parser().parse_args([]).port == inspect.signature(cli.serve).parameters["port"].default == 8080


def test_port_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    with server.listen("127.0.0.1", 0) as taken:
        assert server.main([str(artifact("text-classification")), "--port", str(taken.getsockname()[1])]) == 3
    assert "cannot listen on 127.0.0.1 port" in capsys.readouterr().err


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_no_part_of_an_answer_waits_for_the_receipt_of_another(host: str) -> None:
    with server.listen(host, 0) as door, socket.create_connection(door.getsockname()[:2], timeout=20):
        accepted, _ = door.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1


def test_every_kind_of_error_has_an_exit_code() -> None:
    assert set(EXIT_CODES) == set(KINDS)
    assert 0 not in EXIT_CODES.values()


def test_weights_in_s3_are_of_one_artifact_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTFOOT_WEIGHTS", "s3://bucket/key")
    places = [artifact("text-classification"), artifact("feature-extraction")]
    with pytest.raises(ArtifactError, match=r"HOTFOOT_WEIGHTS in the environment is of one artifact, and 2 are to be served\."):
        server.opened(places, threads=1, waiting=None, log=print)


def test_artifacts_of_one_server_share_the_memory_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "cgroup_memory", lambda: 2**40)  # so much that what this process holds is nothing beside it
    places = [artifact("text-classification"), artifact("feature-extraction")]
    for count in (1, 2):
        made = server.opened(places[:count], threads=1, waiting=None, log=print)
        sessions = [service.model.session for service in made.site.services]
        rooms = [session.room for session in sessions if isinstance(session, Session)]
        assert rooms == [pytest.approx(2**40 / (ARENA * RUNNING * count), rel=0.1)] * count

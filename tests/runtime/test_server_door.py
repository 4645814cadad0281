"""The server as a process: several artifacts, a token, metrics, and requests that come before the model is open."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import openai
import pytest
from huggingface_hub import InferenceClient
from huggingface_hub.errors import HfHubHTTPError

from runtime.test_server import ENVIRONMENT, connected, post, serving
from support.serving import artifact


def get(url: str, path: str, headers: dict[str, str] | None = None) -> tuple[int, str, dict[str, str]]:
    with connected(url) as connection:
        connection.request("GET", path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), {k.lower(): v for k, v in answer.getheaders()}


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("several")
    for name, task in (("tags", "token-classification"), ("vectors", "feature-extraction")):
        shutil.copytree(artifact(task), folder / name)
    with serving(str(folder / "tags"), str(folder / "vectors"), "--threads", "1") as (_, url):
        yield url


def test_several_artifacts_and_official_clients(several: str) -> None:
    assert [m["id"] for m in json.loads(get(several, "/v1/models")[1])["data"]] == ["tags", "vectors"]
    assert InferenceClient(model=several).token_classification("Maria")[0].entity_group == "PER"
    assert InferenceClient(model=f"{several}/models/vectors").feature_extraction("north").tolist() == [[0, 1, 0, 0]]
    with openai.OpenAI(base_url=f"{several}/v1", api_key="any") as ours:
        assert ours.embeddings.create(input="north", model="vectors").data[0].embedding == [0, 1, 0, 0]
    with openai.OpenAI(base_url=f"{several}/models/vectors/v1", api_key="any") as ours:
        assert ours.embeddings.create(input="north", model="vectors").data[0].embedding == [0, 1, 0, 0]


def test_metrics_for_prometheus(several: str) -> None:
    for _ in range(2):
        post(several, "/models/vectors/embed", b'{"inputs": ["up", "north"]}')
    post(several, "/models/vectors/embed", b'{"inputs": 5}')
    status, text, headers = get(several, "/metrics")
    assert status == 200
    assert headers["content-type"].startswith("text/plain")
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert lines['hotfoot_requests_total{model="vectors",route="/embed",status="200"}'] == "2.0"
    assert lines['hotfoot_requests_total{model="vectors",route="/embed",status="422"}'] == "1.0"
    assert lines['hotfoot_request_seconds_count{model="vectors",route="/embed"}'] == "3.0"
    assert float(lines['hotfoot_stage_seconds_count{model="vectors",stage="run"}']) >= 1
    assert lines["hotfoot_requests_in_flight"] == "0.0"
    assert float(lines["hotfoot_answers_bytes"]) > 0
    # the second was answered from memory, whole
    hits, all_ = (float(lines[f'hotfoot_{name}_inputs_total{{model="vectors"}}']) for name in ("remembered", "cacheable"))
    assert (hits >= 2, all_ > hits) == (True, True)


def test_names_that_cannot_be_told_apart() -> None:
    folder = str(artifact("token-classification"))
    command = [sys.executable, "-m", "hotfoot.server", folder, folder, "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert (done.returncode, done.stdout) == (4, "")
    assert "Serve them from folders of different names." in done.stderr


def test_a_token_that_official_clients_send() -> None:
    with serving(str(artifact("text-classification")), HOTFOOT_TOKEN="a secret") as (_, url):
        assert InferenceClient(model=url, token="a secret").text_classification("good")[0].label == "POSITIVE"
        with pytest.raises(HfHubHTTPError) as refused:
            InferenceClient(model=url, token="another").text_classification("good")
        assert refused.value.response.status_code == 401
        assert get(url, "/health")[0] == 200
        assert get(url, "/metrics")[0] == 401
        with openai.OpenAI(base_url=f"{url}/v1", api_key="a secret") as ours:
            assert [m.owned_by for m in ours.models.list()] == ["rigged"]


@contextmanager
def opening(folder: Path) -> Iterator[tuple[str, threading.Event]]:
    """A server whose artifact cannot be read until the event is set: its manifest is a pipe that nobody writes to before."""
    shutil.copytree(artifact("text-classification"), folder)
    manifest, pipe = folder / "manifest.json", folder.with_name("pipe")
    real = manifest.rename(folder.with_name("real.json"))
    os.mkfifo(pipe)
    os.link(pipe, manifest)
    go, ended = threading.Event(), threading.Event()
    writer = threading.Thread(target=let_in, args=(manifest, pipe, real, go, ended), daemon=True)
    writer.start()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "hotfoot.server", "--port", str(port), str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
    try:
        assert listens(port, process), f"nothing listens on port {port}; the server's exit code: {process.poll()}"
        yield f"http://127.0.0.1:{port}", go
    finally:
        go.set()  # or it could not end
        process.terminate()
        process.communicate(timeout=20)
        ended.set()
        writer.join(20)


def let_in(manifest: Path, pipe: Path, real: Path, go: threading.Event, ended: threading.Event) -> None:
    """Once `go` is set, put the real manifest in the pipe's place, and give it to whoever already waits at the pipe."""
    go.wait()
    content = real.read_bytes()
    real.replace(manifest)  # for all who read it later, and at once
    while not ended.is_set():
        with suppress(OSError):  # nobody waits there yet, or no longer
            end = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            try:
                os.write(end, content)
            finally:
                os.close(end)
            return
        time.sleep(0.02)


def listens(port: int, process: subprocess.Popen[bytes]) -> bool:
    """Whether the process takes connections within 20 s."""
    end = time.monotonic() + 20
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return True
        time.sleep(0.05)
    return False


def test_before_the_model_is_open(tmp_path: Path) -> None:
    with opening(tmp_path / "slow") as (url, go):
        status, body, headers = get(url, "/health")
        assert (status, json.loads(body)["error_type"], headers["retry-after"]) == (503, "Loading", "1")
        assert json.loads(post(url, "/", b'{"inputs": "good"}')[1])["estimated_time"] > 0
        with ThreadPoolExecutor(2) as pool:
            by_header = pool.submit(post, url, "/", b'{"inputs": "good"}', {"x-wait-for-model": "true"})
            by_option = pool.submit(post, url, "/", b'{"inputs": "good", "options": {"wait_for_model": true}}')
            time.sleep(0.3)
            assert not by_header.done()
            assert not by_option.done()
            go.set()
            answers = [f.result(timeout=30) for f in (by_header, by_option)]
        assert [status for status, _ in answers] == [200, 200]
        assert json.loads(answers[0][1]) == json.loads(answers[1][1])
        assert get(url, "/health")[0] == 200

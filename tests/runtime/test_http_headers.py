"""The headers on every answer, right or wrong."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from hotfoot.http.headers import ascii_value
from hotfoot.observe import Record
from support.serving import client, model, opened

NAMES = {
    "x-compute-type",
    "x-compute-time",
    "x-compute-characters",
    "x-compute-tokens",
    "x-request-id",
    "server-timing",
    "x-model-digest",
    "x-cache",
    "access-control-allow-origin",
    "access-control-expose-headers",
}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/", {"inputs": "good"}),
        ("POST", "/predict", {"inputs": "good"}),
        ("POST", "/tokenize", {"inputs": "good"}),
        ("POST", "/", {"inputs": 5}),
        ("POST", "/nowhere", {}),
        ("PUT", "/predict", {}),
        ("GET", "/health", None),
        ("GET", "/info", None),
        ("OPTIONS", "/predict", None),
    ],
)
def test_every_answer_has_them(method: str, path: str, body: Any) -> None:
    answer = client("text-classification").request(method, path, json=body)
    assert set(answer.headers) >= NAMES
    assert answer.headers["x-model-digest"] == model("text-classification").manifest.digest
    assert answer.headers["x-cache"] == "bypass"
    assert all(value.isascii() for value in answer.headers.values())


def test_values_say_what_the_answer_took() -> None:
    text = "🦊 good"
    headers = client("text-classification").post("/", json={"inputs": [text, "bad"]}).headers
    assert headers["x-compute-type"] == "cpu"
    assert headers["x-compute-characters"] == str(len(text) + 3)
    assert headers["x-compute-tokens"] == str(4 + 3)
    stages = dict(re.findall(r"(\w+);dur=([\d.]+)", headers["server-timing"]))
    assert list(stages) == ["tokenize", "queue", "run", "post"]
    computed = sum(float(ms) for stage, ms in stages.items() if stage != "queue")
    assert float(headers["x-compute-time"]) == pytest.approx(computed / 1e3, abs=5e-6)
    assert 0 < float(headers["x-compute-time"]) < 5


def test_exposed_to_browsers() -> None:
    answer = client("text-classification").post("/", json={"inputs": "good"}, headers={"origin": "https://example.com"})
    assert answer.headers["access-control-allow-origin"] == "*"
    exposed = set(answer.headers["access-control-expose-headers"].split(", "))
    assert {n for n in NAMES if not n.startswith("access-")} <= exposed


def test_preflight() -> None:
    asked = {"origin": "https://example.com", "access-control-request-method": "POST", "access-control-request-headers": "content-type"}
    answer = client("text-classification").options("/predict", headers=asked)
    assert answer.status_code == 204
    assert "POST" in answer.headers["access-control-allow-methods"]
    assert {"authorization", "content-type"} <= set(answer.headers["access-control-allow-headers"].split(", "))


def test_request_id_is_the_clients_if_it_is_a_plain_one() -> None:
    http = client("text-classification")
    assert http.get("/health", headers={"x-request-id": "job-7:a_b"}).headers["x-request-id"] == "job-7:a_b"
    for bad in ("ümlaut".encode("latin-1"), "🦊".encode(), b"a b", b"x" * 500, b""):
        found = http.get("/health", headers={b"x-request-id": bad}).headers["x-request-id"]
        assert re.fullmatch(r"[0-9a-f]{32}", found)


def test_model_id_beyond_ascii(tmp_path: Path) -> None:
    http = client(opened(tmp_path, "text-classification", model_id="modèle/été"))
    assert http.get("/info").json()["model_id"] == "modèle/été"
    assert http.post("/models/modèle/été", json={"inputs": "good"}).status_code == 200
    assert http.post("/models/other", json={"inputs": "good"}).json()["error"] == "model 'other' is not served here. This is modèle/été."


@pytest.mark.parametrize(
    ("value", "shown"), [("plain, text;q=1", "plain, text;q=1"), ("é", "%C3%A9"), ("a\r\nb: c", "a%0D%0Ab: c"), ("\ud800", "?")]
)
def test_ascii_value(value: str, shown: str) -> None:
    assert ascii_value(value) == shown


def test_report_never_holds_a_text() -> None:
    records: list[Record] = []
    http = client("text-classification", report=records.append)
    for body in ({"inputs": "topsecret"}, {"inputs": ["topsecret", 5]}, {"topsecret": 1}):
        http.post("/", json=body)
    http.post("/topsecret", json={})
    assert [r.status for r in records] == [200, 422, 422, 404]
    assert [r.route for r in records] == ["/", "/", "/", ""]
    assert "topsecret" not in repr(records)
    assert records[0].texts == 1
    assert records[0].total_ms > 0

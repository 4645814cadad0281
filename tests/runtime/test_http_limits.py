"""What one request may cost, and what happens past it."""

from __future__ import annotations

import dataclasses
import gzip
import json
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import pytest

from hotfoot import targets
from hotfoot.http import openai, tei, tokens
from hotfoot.http.limits import MAX_TEXTS, Limits, lambda_limits, server_limits
from support.serving import client, model, opened, sample

SMALL = Limits(request_bytes=2000, response_bytes=1000, texts=8)
JSON = {"content-type": "application/json"}


def test_limits_are_the_targets() -> None:
    found = lambda_limits()
    assert (found.request_bytes, found.response_bytes, found.texts, found.in_flight) == (6 * 2**20, 6 * 2**20, MAX_TEXTS, 1)
    assert server_limits(targets.local()).in_flight > 1


def test_body_too_large_gives_both_sizes() -> None:
    body = json.dumps({"inputs": "x" * 3000})
    answer = client("text-classification", limits=SMALL).post("/", content=body, headers=JSON)
    assert answer.status_code == 413
    assert answer.json()["error"].startswith(f"the request body has {len(body)} bytes, the limit is 2000.")


def test_body_too_large_without_a_declared_length() -> None:
    pieces = (b"x" * 500 for _ in range(100))
    answer = client("text-classification", limits=SMALL).post("/", content=pieces, headers=JSON)
    assert answer.status_code == 413
    assert "the limit is 2000" in answer.json()["error"]


def test_zip_bomb_is_refused_before_it_unfolds() -> None:
    bomb = gzip.compress(b'{"inputs": "' + b"x" * 50_000_000 + b'"}')
    assert len(bomb) < 60_000
    limits = Limits(request_bytes=100_000, response_bytes=1000)
    answer = client("text-classification", limits=limits).post("/", content=bomb, headers={**JSON, "content-encoding": "gzip"})
    assert answer.status_code == 413
    assert f"the body of {len(bomb)} bytes has more than 100000 bytes without its gzip" in answer.json()["error"]


def test_gzip_with_something_behind_its_end() -> None:
    body = gzip.compress(b'{"inputs": "good"}') + b"more"
    answer = client("text-classification").post("/", content=body, headers={**JSON, "content-encoding": "gzip"})
    assert answer.status_code == 400


@pytest.mark.parametrize(("path", "name"), [("/embed", "inputs"), ("/", "inputs"), ("/tokenize", "inputs")])
def test_too_many_texts_gives_both_counts(path: str, name: str) -> None:
    answer = client("feature-extraction", limits=SMALL).post(path, json={name: ["east"] * 9})
    assert answer.status_code == 413
    assert answer.json()["error"] == "the request has 9 texts, the limit is 8. Send them in several requests."


@pytest.mark.parametrize("path", ["/", "/embed", "/tokenize"])
def test_too_many_tokens_gives_both_counts(path: str) -> None:
    http = client("feature-extraction", limits=Limits(request_bytes=9000, response_bytes=99_000, tokens=30))
    assert http.post(path, json={"inputs": ["east"] * 10}).status_code == 200
    answer = http.post(path, json={"inputs": ["east"] * 11})
    assert (answer.status_code, answer.json()["error_type"]) == (413, "TooLarge")
    assert answer.json()["error"].startswith("the request has 33 tokens up to inputs[10], the limit is 30.")


def test_tokens_of_texts_and_of_pairs_count_together() -> None:
    http = client("text-classification", limits=Limits(request_bytes=9000, response_bytes=99_000, tokens=30))
    pair = {"text": "good", "text_pair": "bad"}
    assert http.post("/", json={"inputs": ["good"] * 5 + [pair] * 3}).headers["x-compute-tokens"] == "30"
    answer = http.post("/", json={"inputs": ["good"] * 6 + [pair] * 3})
    assert (answer.status_code, answer.json()["error_type"]) == (413, "TooLarge")
    assert "has 33 tokens" in answer.json()["error"]


def test_tokens_of_windows_count_as_they_run() -> None:
    http = client("token-classification", limits=Limits(request_bytes=9000, response_bytes=99_000, tokens=300))
    body: dict[str, Any] = {"inputs": "in " * 200, "parameters": {"stride": 0}}
    assert http.post("/", json=body).headers["x-compute-tokens"] == "208"
    body["parameters"]["stride"] = 31
    answer = http.post("/", json=body)
    assert answer.status_code == 413
    # the text's 200, 31 in each of five overlaps, and two special ones in each of six windows
    assert answer.json()["error"].startswith("the request has 367 tokens up to inputs, the limit is 300.")


def test_a_stride_is_at_most_half_a_window() -> None:
    answer = client("token-classification").post("/", json={"inputs": sample("token-classification"), "parameters": {"stride": 32}})
    assert answer.status_code == 422
    assert answer.json()["error"].startswith("parameters.stride: is 32; it must be from 0 to 31, half of the 62 tokens")


def test_too_many_ids_gives_both_counts() -> None:
    http = client("text-classification", limits=Limits(request_bytes=9000, response_bytes=9000, tokens=30))
    assert http.post("/decode", json={"ids": [[5] * 15] * 2}).status_code == 200
    for ids in ([[5] * 15] * 3, [5] * 45):
        answer = http.post("/decode", json={"ids": ids})
        assert answer.status_code == 413
        assert answer.json()["error"] == "the request has 45 token ids, the limit is 30. Send them in several requests."


def test_texts_that_no_request_can_hold_are_refused_before_they_are_read() -> None:
    http = client("feature-extraction")
    answer = http.post("/embed", json={"inputs": ["east", "a b " * 1_000_000]})
    assert answer.status_code == 422
    assert answer.json()["error"].startswith("inputs[1]: the text has 4000000 characters, more than the 8192 that are read here.")
    # cut, the same text costs what its head costs
    answer = http.post("/embed", json={"inputs": ["east", "a b " * 1_000_000], "truncate": True})
    assert (answer.status_code, answer.headers["x-compute-tokens"]) == (200, "67")
    assert http.post("/tokenize", json={"inputs": "a b " * 1_000_000}).status_code == 422
    assert http.post("/tokenize", json={"inputs": "a b " * 200_000}).status_code == 413


def test_answer_too_large_gives_both_sizes(tmp_path: Path) -> None:
    wide = opened(tmp_path, "feature-extraction", width=1024)
    answer = client(wide, limits=SMALL).post("/embed", json={"inputs": "hello"})
    assert answer.status_code == 413
    assert "the answer has " in answer.json()["error"]
    assert "bytes, the limit is 1000." in answer.json()["error"]


class Waiting:
    """A session that answers when it is told to."""

    providers = ("CPUExecutionProvider",)

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.go = threading.Event()

    def run(self, inputs: Any) -> Any:
        assert self.go.wait(20)
        return self._inner.run(inputs)


def test_full_queue_is_429_at_once_and_the_rest_is_answered() -> None:
    whole = model("text-classification")
    session = Waiting(whole.session)
    http = client(dataclasses.replace(whole, session=session), limits=Limits(10_000, 10_000, running=1, waiting=1))  # type: ignore[arg-type]
    with ThreadPoolExecutor(3) as pool:
        # one runs, one waits, and whichever comes third is refused while the others still hang
        asked = [pool.submit(http.post, "/predict", json={"inputs": "good"}) for _ in range(3)]
        refused = next(as_completed(asked, timeout=20)).result()
        assert refused.status_code == 429
        assert http.get("/health").status_code == 200
        session.go.set()
        assert sorted(future.result().status_code for future in asked) == [200, 200, 429]
    assert refused.headers["retry-after"] == "1"
    assert refused.json()["error"] == "2 requests are running or waiting, the most this server takes. Try again shortly."
    assert http.post("/predict", json={"inputs": "good"}).status_code == 200


def test_hypotheses_are_bounded_before_they_are_made() -> None:
    body = {"inputs": "a", "parameters": {"candidate_labels": [str(n) for n in range(2000)], "hypothesis_template": "x" * 9000 + "{}"}}
    answer = client("zero-shot-classification").post("/", json=body)
    assert (answer.status_code, answer.json()["error_type"]) == (413, "TooLarge")
    assert answer.json()["error"].startswith("2000 labels in this template make 18006890 characters of hypotheses, the limit is 1048576.")


def test_candidates_for_masks_are_bounded_before_they_are_made() -> None:
    body = {"inputs": ["[MASK] " * 60] * 40, "parameters": {"top_k": 10**6}}
    answer = client("fill-mask").post("/", json=body)
    assert (answer.status_code, answer.json()["error_type"]) == (413, "TooLarge")
    assert "candidates, the limit is 131072. Ask for a lower top_k." in answer.json()["error"]


@pytest.mark.parametrize(
    ("task", "path", "body"),
    [
        ("text-classification", "/", {"inputs": "good", "parameters": {"function_to_apply": "\x7f" * 100_000}}),
        ("text-classification", "/", {"inputs": "good", "x" * 100_000: 1}),
        ("feature-extraction", "/embed", {"inputs": "east", "truncation_direction": "\x7f" * 100_000}),
        ("feature-extraction", "/embed", {"inputs": "east", "prompt_name": "\x7f" * 100_000}),
        ("feature-extraction", "/v1/embeddings", {"input": "east", "y" * 100_000: 1}),
    ],
)
def test_an_error_does_not_grow_with_the_request(task: str, path: str, body: dict[str, Any]) -> None:
    answer = client(task).post(path, json=body)
    assert answer.status_code in (400, 422)
    assert len(answer.content) < 1500


@pytest.mark.parametrize("path", ["/embed", "/v1/embeddings", "/tokenize", "/predict"])
def test_lists_are_counted_before_their_items_are_read(path: str) -> None:
    task = "text-classification" if path == "/predict" else "feature-extraction"
    answer = client(task, limits=SMALL).post(path, json={"input" if path.startswith("/v1") else "inputs": [["5"]] * 9})
    assert answer.status_code == 413
    assert "the request has 9 texts, the limit is 8." in answer.text


def test_half_a_pair_in_a_large_body_is_refused_without_its_place() -> None:
    raw = b'{"inputs": [' + b"1," * 600_000 + b'"\\ud800"]}'
    answer = client("text-classification").post("/", content=raw, headers=JSON)
    assert answer.status_code == 422
    assert answer.json()["error"].startswith("the body: has a lone surrogate")


@pytest.mark.parametrize("path", ["/embed", "/v1/embeddings"])
def test_ids_are_spelled_where_predictions_run(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not on the event loop, which everybody waits for."""
    where: list[str] = []
    inner = tokens.texts_of

    def texts_of(*arguments: Any) -> Any:
        where.append(threading.current_thread().name)
        return inner(*arguments)

    for dialect in (tei, openai):
        monkeypatch.setattr(dialect, "texts_of", texts_of)
    name = "input" if path.startswith("/v1") else "inputs"
    assert client("feature-extraction").post(path, json={name: [[5, 6]]}).status_code == 200
    assert [place.startswith("predict") for place in where] == [True]

"""Whatever is sent, the answer is JSON of one shape with the right status, and the next request works."""

from __future__ import annotations

import dataclasses
import gzip
import json
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from hotfoot.contract.errors import KINDS, ArtifactError, OutOfTimeError
from hotfoot.http import errors
from hotfoot.observe import Record
from support.serving import all_routes, client, model

ROUTES = all_routes()
IDS = [f"{task}{path}" for task, path, _ in ROUTES]
JSON = {"content-type": "application/json"}


def check(answer: Any, status: int | tuple[int, ...]) -> str:
    assert answer.status_code in (status if isinstance(status, tuple) else (status,)), answer.text
    document = answer.json()
    assert set(document) == {"error", "error_type"}
    text: str = document["error"]
    for leak in ("Traceback", ".py", "/work", "/tmp", "Error(", "TypeError", "ValueError", "NoneType", "object at"):
        assert leak not in text
    return text


@pytest.mark.parametrize(("task", "path", "body"), ROUTES, ids=IDS)
class TestEveryRoute:
    def test_right_body(self, task: str, path: str, body: dict[str, Any]) -> None:
        assert client(task).post(path, json=body).status_code == 200

    @pytest.mark.parametrize(
        ("raw", "status", "said"),
        [
            (b"", 400, "the body is empty."),
            (b"  \n", 400, "the body is empty."),
            (b"{", 400, "the body is not JSON: "),
            (b'{"inputs": NaN}', 400, "the body is not JSON: "),
            (b'{"inputs": "a\xff"}', 400, "the body is not UTF-8: byte 13 is 0xff."),
            ('{"inputs": "é"}'.encode("utf-16"), 400, "the body is not UTF-8: "),
            (b"[" * 5000, 400, "the body is not JSON: "),
            (b"[]", 422, "the body must be a JSON object, not a list."),
            (b"null", 422, "the body must be a JSON object, not null."),
            (b'"text"', 422, "the body must be a JSON object, not a text."),
            (b"{}", 422, ": is missing."),
        ],
    )
    def test_body_that_is_no_object(self, task: str, path: str, body: dict[str, Any], raw: bytes, status: int, said: str) -> None:
        assert said in check(client(task).post(path, content=raw, headers=JSON), status)
        assert client(task).post(path, json=body).status_code == 200

    @pytest.mark.parametrize(
        "value",
        [None, 123, 1.5, True, {"x": 1}, ["a", None], ["a", 5], [["a", "b", "c"]], {"question": "q"}, "", [], [""], ["good", ""], [[]], {}],
        ids=repr,
    )
    def test_wrong_type(self, task: str, path: str, body: dict[str, Any], value: Any) -> None:
        name = "ids" if "ids" in body else "inputs"
        assert check(client(task).post(path, json={name: value}), 422).startswith(name)

    def test_deep_nesting(self, task: str, path: str, body: dict[str, Any]) -> None:
        name = next(iter(body))
        for depth in (900, 1000, 3000):
            raw = f'{{"{name}": {"[" * depth}"x"{"]" * depth}}}'
            check(client(task).post(path, content=raw, headers=JSON), (400, 422))

    @pytest.mark.parametrize(
        "value", ['"ok\\ud800bad"', '["good", "\\udc00"]', '{"source_sentence": "a", "sentences": ["b", "\\ud83d"]}', '{"\\ud800": 1}']
    )
    def test_lone_surrogate(self, task: str, path: str, body: dict[str, Any], value: str) -> None:
        raw = f'{{"inputs": {value}, "parameters": {{}}}}'
        text = check(client(task).post(path, content=raw, headers=JSON), 422)
        assert text.startswith("inputs")
        assert "lone surrogate" in text
        assert client(task).post(path, json=body).status_code == 200

    @pytest.mark.parametrize(
        ("kind", "status"),
        [
            ("application/json; charset=utf-8", 200),
            ("application/json; charset=UTF-8", 200),
            ("Application/JSON", 200),
            ("application/vnd.api+json", 200),
            ("text/plain", 200),
            ("application/x-www-form-urlencoded", 200),
            ("", 200),
            ("application/json; charset=utf-16", 400),
            ("application/xml", 400),
            ("multipart/form-data; boundary=x", 400),
            ("nonsense", 400),
        ],
    )
    def test_content_type(self, task: str, path: str, body: dict[str, Any], kind: str, status: int) -> None:
        answer = client(task).post(path, content=json.dumps(body), headers={"content-type": kind})
        assert answer.status_code == status, answer.text
        if status != 200:
            check(answer, 400)

    def test_byte_order_mark(self, task: str, path: str, body: dict[str, Any]) -> None:
        raw = b"\xef\xbb\xbf" + json.dumps(body).encode()
        assert client(task).post(path, content=raw, headers=JSON).status_code == 200

    def test_gzip(self, task: str, path: str, body: dict[str, Any]) -> None:
        packed = gzip.compress(json.dumps(body).encode())
        http = client(task)
        assert http.post(path, content=packed, headers={**JSON, "content-encoding": "gzip"}).status_code == 200
        assert "cut short" in check(http.post(path, content=packed[:-9], headers={**JSON, "content-encoding": "gzip"}), 400)
        assert "not gzip" in check(http.post(path, content=b"{}", headers={**JSON, "content-encoding": "gzip"}), 400)
        assert "'br' is not taken" in check(http.post(path, content=b"{}", headers={**JSON, "content-encoding": "br"}), 400)

    def test_wrong_method(self, task: str, path: str, body: dict[str, Any]) -> None:
        answer = client(task).request("PUT", path, json=body)
        methods = "GET, POST" if path in ("/", "/models/rigged/tiny") else "POST"
        assert f"takes {methods}, not 'PUT'" in check(answer, 405)
        assert answer.headers["allow"] == methods

    def test_our_own_fault(self, task: str, path: str, body: dict[str, Any]) -> None:
        records: list[Record] = []
        whole = model(task)
        broken = dataclasses.replace(whole, session=Broken(), tokenizer=Broken())  # type: ignore[arg-type]
        http = client(broken, report=records.append)
        answer = http.post(path, json=body, headers={"x-request-id": "abc-1"})
        text = check(answer, (500,) if path != "/decode" else (422, 500))
        assert path == "/decode" or "request id abc-1" in text
        assert "secret" not in answer.text
        assert "secret" not in repr(records)
        assert http.get("/health").status_code == 200


class Broken:
    """A part that fails with the request's own text in its message."""

    providers = ("CPUExecutionProvider",)

    def encode(self, *_args: Any, **_kw: Any) -> Any:
        raise RuntimeError("secret text of the user")

    def run(self, *_args: Any) -> Any:
        raise RuntimeError("secret text of the user")

    def token_of(self, _token: int) -> str:
        return ""


def test_every_kind_of_error_has_a_status() -> None:
    assert set(errors.TABLE) == set(KINDS)


def test_a_lack_of_time_is_told_with_its_text() -> None:
    answer = errors.problem(OutOfTimeError("3 of 9 are done.", hint="Send fewer."), "id-1")
    assert (answer.status, answer.error_type, answer.text) == (504, "Timeout", "3 of 9 are done. Send fewer.")


def test_paths_of_an_artifact_never_leave() -> None:
    answer = errors.problem(ArtifactError("no manifest.json in /var/task/model"), "id-1")
    assert (answer.status, "/var" in answer.text) == (500, False)


@pytest.mark.parametrize(
    ("task", "missing"), [("text-classification", "/embed"), ("feature-extraction", "/predict"), ("token-classification", "/similarity")]
)
def test_route_of_another_task_names_the_routes_there_are(task: str, missing: str) -> None:
    text = check(client(task).post(missing, json={"inputs": "x"}), 404)
    assert f"there is no '{missing}' for the task {task}. This artifact serves POST /, " in text
    assert "GET /info" in text


@pytest.mark.parametrize("path", ["/nowhere", "/é", "/%ff", "/" + "x" * 3000, "/embed/../..//x", "/metrics"])
def test_unknown_paths(path: str) -> None:
    check(client("text-classification").get(path), 404)


def test_trailing_slash_is_no_other_route() -> None:
    assert client("text-classification").post("/predict/", json={"inputs": "good"}).status_code == 200


def test_numbers_that_are_not_finite_never_leave() -> None:
    whole = model("feature-extraction")
    for bad in (np.nan, np.inf):
        broken = dataclasses.replace(whole, session=NotFinite(bad))  # type: ignore[arg-type]
        check(client(broken).post("/embed", json={"inputs": "east"}), 500)
    fine = client(whole).post("/embed", json={"inputs": "null"})
    assert fine.status_code == 200


class NotFinite:
    providers = ("CPUExecutionProvider",)

    def __init__(self, value: float) -> None:
        self._value = value

    def run(self, inputs: Any) -> list[Any]:
        return [np.array([1.0, self._value, 0.0, 0.0], dtype=np.float32) for _ in inputs]


def test_duplicate_keys_keep_the_last() -> None:
    http: TestClient = client("text-classification")
    answer = http.post("/predict", content=b'{"inputs": "bad", "inputs": "good", "raw_scores": true}', headers=JSON)
    assert answer.json()[0] == {"label": "POSITIVE", "score": 3.0}


def test_surrogate_pairs_are_one_code_point() -> None:
    answer = client("text-classification").post("/tokenize", content=b'{"inputs": "\\ud83e\\udd8a good"}', headers=JSON)
    assert answer.json()[0][2]["start"] == 2

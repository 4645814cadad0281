"""Several artifacts behind one door: by path, by the body's `model`, or the first that can."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from starlette.testclient import TestClient

from hotfoot.contract.errors import ArtifactError
from hotfoot.http.app import create_app
from hotfoot.model import Model
from hotfoot.observe import Record
from support.serving import client, model, sample

NAMES = {"tags": "token-classification", "vectors": "feature-extraction", "ranks": "text-ranking", "labels": "text-classification"}


def several(**more: Any) -> TestClient:
    models: Mapping[str, Model] = {name: model(task) for name, task in NAMES.items()}
    return client(models, **more)


@pytest.mark.parametrize("name", NAMES)
def test_each_is_reached_by_path_and_by_body(name: str) -> None:
    task, http = NAMES[name], several()
    alone = client(task).post("/", json={"inputs": sample(task)})
    digest = model(task).manifest.digest
    ways = [
        http.post(f"/models/{name}", json={"inputs": sample(task)}),
        http.post(f"/models/{name}/", json={"inputs": sample(task)}),
        http.post(f"/models/{name}/pipeline/{task}", json={"inputs": sample(task)}),
        http.post("/", json={"inputs": sample(task), "model": name}),
        http.post(f"/models/{name}/invocations", json={"inputs": sample(task)}),
        http.post(f"/pipeline/{task}", json={"inputs": sample(task)}),
    ]
    for answer in ways:
        assert answer.status_code == 200, answer.text
        assert answer.content == alone.content
        assert answer.headers["x-model-digest"] == digest


def test_the_first_that_can_answers_where_nothing_is_named() -> None:
    http = several()
    assert http.post("/", json={"inputs": "Maria lives in Springfield"}).json()[0]["entity_group"] == "PER"
    assert http.post("/embed", json={"inputs": "north"}).json() == [[0.0, 1.0, 0.0, 0.0]]
    assert http.post("/v1/embeddings", json={"input": "north"}).json()["model"] == "rigged/tiny"
    assert http.post("/predict", json={"inputs": "good"}).json()[0]["label"] == "POSITIVE"
    assert http.post("/rerank", json={"query": "query", "texts": ["market", "guitar"]}).json()[0]["index"] == 1
    assert http.get("/info").json()["task"] == "token-classification"
    assert http.get("/models/ranks/info").json()["task"] == "text-ranking"


def test_they_are_listed() -> None:
    assert [m["id"] for m in several().get("/v1/models").json()["data"]] == list(NAMES)
    assert several().get("/v1/models/ranks").json()["root"] == "rigged/tiny"


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/models/nobody", {"inputs": "x"}, "model 'nobody' is not served here. There are tags (rigged/tiny), vectors (rigged/tiny), "),
        ("/", {"inputs": "x", "model": "nobody"}, "model 'nobody' is not served here. There are tags"),
        ("/", {"inputs": "x", "model": 5}, "model 'a number' is not served here."),
        ("/models/tags", {"inputs": "x", "model": "vectors"}, "model 'vectors' is not served here."),
        ("/models/tags/embed", {"inputs": "x"}, "there is no '/embed' for the task token-classification. This artifact serves POST /, "),
        ("/embed", {"inputs": "x", "model": "tags"}, "there is no '/embed' for the task token-classification."),
        ("/similarity/x", {}, "there is no '/similarity/x' for the task token-classification, feature-extraction, "),
    ],
)
def test_what_is_not_here_is_404_that_says_what_is(path: str, body: dict[str, Any], said: str) -> None:
    answer = several().post(path, json=body)
    assert answer.status_code == 404
    assert answer.json()["error"].startswith(said), answer.text


def test_a_models_id_reaches_the_first_of_that_id_and_a_name_its_own() -> None:
    http = several()
    assert http.get("/models/rigged/tiny/info").json()["name"] == "tags"
    assert http.get("/models/labels/info").json()["name"] == "labels"


def test_names_are_told_apart() -> None:
    one = model("token-classification")
    assert client({"a": one, "a/b": model("feature-extraction")}).get("/models/a/b/info").json()["task"] == "feature-extraction"
    with pytest.raises(ArtifactError, match="no artifact"):
        create_app({})


def test_memory_keeps_their_answers_apart() -> None:
    http = several(cache_bytes=2**20)
    body = {"inputs": "Maria lives in Springfield"}
    answers = {name: http.post(f"/models/{name}", json=body) for name in ("tags", "labels", "vectors")}
    again = {name: http.post(f"/models/{name}", json=body) for name in answers}
    assert {a.headers["x-cache"] for a in answers.values()} == {"miss"}
    assert {a.headers["x-cache"] for a in again.values()} == {"hit"}
    assert {n: a.content for n, a in again.items()} == {n: a.content for n, a in answers.items()}
    assert len({a.content for a in again.values()}) == 3
    assert {n: a.headers["x-model-digest"] for n, a in again.items()} == {n: a.headers["x-model-digest"] for n, a in answers.items()}


def test_a_models_id_is_any_artifact_of_that_model() -> None:
    """Two artifacts of one model, as in two precisions, are told apart by path; the body may name the model all the same."""
    http = several()
    named = http.post("/models/vectors/v1/embeddings", json={"input": "north", "model": "rigged/tiny"})
    assert (named.status_code, named.json()["data"][0]["embedding"]) == (200, [0.0, 1.0, 0.0, 0.0])
    assert http.post("/v1/embeddings", json={"input": "north", "model": "rigged/tiny"}).json() == named.json()
    ranked = http.post("/rerank", json={"query": "query", "texts": ["market", "guitar"], "model": "rigged/tiny"})
    assert [r["index"] for r in ranked.json()] == [1, 0]
    absent = http.post("/models/tags/embed", json={"inputs": "x", "model": "rigged/tiny"})
    assert (absent.status_code, "there is no '/embed' for the task token-classification" in absent.json()["error"]) == (404, True)


def test_an_error_below_a_models_name_is_that_models() -> None:
    records: list[Record] = []
    http = several(report=records.append)
    for answer in (http.get("/models/labels/nope"), http.post("/models/labels/predict", content=b"{")):
        assert answer.headers["x-model-digest"] == model("text-classification").manifest.digest
    assert [r.model for r in records] == ["labels", "labels"]


def test_the_routes_told_are_those_of_the_model_asked_for() -> None:
    text = several().post("/embed", json={"inputs": "x", "model": "labels"}).json()["error"]
    assert "POST /predict" in text
    assert "POST /embed" not in text


def test_a_route_that_no_task_here_serves_is_404_by_any_method() -> None:
    http = client("feature-extraction")
    assert [http.request(method, "/predict", json={}).status_code for method in ("GET", "POST", "PUT")] == [404, 404, 404]
    assert http.get("/embed").status_code == 405


def test_one_gate_for_all() -> None:
    app = create_app({name: model(task) for name, task in NAMES.items()})
    assert len({id(service.gate) for service in app.site.services}) == 1

"""The API's description is true: what it allows is answered, what it forbids is refused, and nothing answers in another shape."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from support import serving
from support.serving import TASKS, client, model, served

CONFIG = Path(serving.__file__).with_name("schemathesis.toml")


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_schemathesis_finds_nothing(task: str, tmp_path: Path) -> None:
    with served(task) as url:
        command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIG), "run", f"{url}/openapi.json"]
        done = subprocess.run(
            [*command, "--checks", "all", "--max-examples", "15", "--seed", "1", "--no-color"],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
        )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def described(task: str, path: str = "/openapi.json") -> dict[str, Any]:
    answer = client(task).get(path)
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


@pytest.mark.parametrize("task", TASKS)
def test_every_described_example_is_answered(task: str) -> None:
    document, http = described(task), client(task)
    tried = 0
    for template, operations in document["paths"].items():
        path = template
        for parameter in operations.get("post", {}).get("parameters", []):
            if parameter["in"] == "path":
                path = path.replace(f"{{{parameter['name']}}}", parameter["schema"]["enum"][0])
        if "post" in operations:
            content = operations["post"]["requestBody"]["content"]["application/json"]
            example = content["example"]
            Draft202012Validator(content["schema"]).validate(example)
            answer = http.post(path, json=example)
            # the sample may be longer than the few tokens of a rigged model
            assert answer.status_code == 200 or "the limit is" in answer.text, (path, answer.text)
            tried += 1
    assert tried >= 6


def test_it_says_what_the_artifact_can_do() -> None:
    document = described("feature-extraction")
    assert document["openapi"].startswith("3.1")
    assert "/embed" in document["paths"]
    assert "/predict" not in document["paths"]
    body = document["paths"]["/v1/embeddings"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body["properties"]["dimensions"]["maximum"] == 4
    assert body["properties"]["model"]["enum"][0] == "rigged/tiny"
    assert {tag["name"] for tag in document["tags"]} >= {"Hugging Face", "Text Embeddings Inference", "OpenAI", "Rerank", "SageMaker"}
    assert "securitySchemes" not in document["components"]


def test_under_a_models_name_it_is_about_that_one() -> None:
    http = client({"tags": model("token-classification"), "vectors": model("feature-extraction")})
    assert "/embed" in http.get("/openapi.json").json()["paths"]
    assert "/embed" not in http.get("/models/tags/openapi.json").json()["paths"]
    assert http.get("/models/tags/openapi.json").json()["info"]["title"] == "hotfoot: tags"


def test_several_artifacts_have_an_example_each() -> None:
    http = client({"choices": model("zero-shot-classification"), "tags": model("token-classification")})
    content = http.get("/openapi.json").json()["paths"]["/pipeline/{task}"]["post"]["requestBody"]["content"]["application/json"]
    assert list(content["examples"]) == ["zero-shot-classification", "token-classification"]
    for task, example in content["examples"].items():
        assert http.post(f"/pipeline/{task}", json=example["value"]).status_code == 200


def test_a_token_is_described() -> None:
    http = client("text-classification", token="secret")
    document = http.get("/openapi.json", headers={"authorization": "Bearer secret"}).json()
    assert document["security"] == [{"token": []}]

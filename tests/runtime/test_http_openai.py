"""OpenAI's embeddings and models, as raw HTTP and through the official client."""

from __future__ import annotations

import base64
import struct
from typing import Any

import numpy as np
import openai
import pytest

from support.loops import apart
from support.serving import client, served

NORTH, BOTH = [0.0, 1.0, 0.0, 0.0], [2**-0.5, 2**-0.5, 0.0, 0.0]


def embeddings(body: dict[str, Any], task: str = "feature-extraction") -> Any:
    return client(task).post("/v1/embeddings", json=body)


def test_answer() -> None:
    answer = embeddings({"input": ["north", "east north"], "model": "rigged/tiny", "user": "me"})
    document = answer.json()
    assert [row["index"] for row in document["data"]] == [0, 1]
    assert [row["embedding"] for row in document["data"]] == [NORTH, pytest.approx(BOTH)]
    assert {row["object"] for row in document["data"]} == {"embedding"}
    # special tokens count
    assert document["usage"] == {"prompt_tokens": 3 + 4, "total_tokens": 7}
    assert (document["object"], document["model"]) == ("list", "rigged/tiny")


def test_base64_is_the_same_numbers() -> None:
    body = {"input": ["east north", "hello world"], "dimensions": 3}
    plain, packed = embeddings(body).json(), embeddings({**body, "encoding_format": "base64"}).json()
    for one, other in zip(plain["data"], packed["data"], strict=True):
        found = struct.unpack("<3f", base64.b64decode(other["embedding"]))
        assert list(found) == [float(np.float32(x)) for x in one["embedding"]]
    assert plain["usage"] == packed["usage"]


def test_dimensions_are_cut_and_made_unit_again() -> None:
    whole = np.array(embeddings({"input": "hello world"}).json()["data"][0]["embedding"], np.float32)
    cut = np.array(embeddings({"input": "hello world", "dimensions": 2}).json()["data"][0]["embedding"], np.float32)
    assert np.linalg.norm(cut) == pytest.approx(1, abs=1e-6)
    assert cut == pytest.approx(whole[:2] / np.linalg.norm(whole[:2]), abs=1e-6)


@pytest.mark.parametrize(
    ("body", "param", "said"),
    [
        ({"input": "x", "dimensions": 5}, "dimensions", "it must be from 1 to 4"),
        ({"input": "x", "dimensions": 0}, "dimensions", "it must be from 1 to 4"),
        ({"input": "x", "dimensions": -1}, "dimensions", "it must be from 1 to 4"),
        ({"input": "x", "dimensions": "8"}, "dimensions", "must be a whole number"),
        ({"input": "x", "encoding_format": "hex"}, "encoding_format", "must be one of float, base64"),
        ({"input": ["x", ""]}, "input[1]", "is empty"),
        ({"input": []}, "input", "is an empty list"),
        ({"input": ["x", 5]}, "input[1]", "must be a text"),
        ({"input": [5, "x"]}, "input[1]", "must be a token id"),
        ({"input": [[5, 99999]]}, "input[0][1]", "is 99999, which is not in the vocabulary"),
        ({"input": "hello " * 100}, "input", "has 102 tokens, the limit is 64"),
        ({"inputs": "x"}, "inputs", "is not known here"),
        ({}, "input", "is missing"),
    ],
)
def test_what_is_wrong_is_400_with_its_param(body: dict[str, Any], param: str, said: str) -> None:
    answer = embeddings(body)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"], error["type"]) == (400, param, "invalid_request_error")
    assert said in error["message"]
    assert set(error) == {"message", "type", "param", "code"}


def test_token_ids_are_the_texts_that_they_spell() -> None:
    http = client("feature-extraction")
    ids = [[t["id"] for t in row] for row in http.post("/tokenize", json={"inputs": ["north", "east north"]}).json()]
    for path, name in (("/v1/embeddings", "input"), ("/embed", "inputs")):
        for given, texts in ((ids, ["north", "east north"]), (ids[1], ["east north"]), ([ids[0], "up"], ["north", "up"])):
            assert http.post(path, json={name: given}).content == http.post(path, json={name: texts}).content


def test_errors_of_the_whole_dialect_have_its_shape() -> None:
    http = client("text-classification")
    for answer in (http.post("/v1/embeddings", json={"input": "x"}), http.get("/v1/nothing"), http.get("/v1/models/other")):
        assert answer.status_code == 404
        assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    other = client("feature-extraction").post("/v1/embeddings", json={"input": "x", "model": "text-embedding-3-small"})
    assert (other.status_code, other.json()["error"]["code"]) == (404, "model_not_found")
    assert "This is rigged/tiny." in other.json()["error"]["message"]
    assert client("feature-extraction").post("/v1/embeddings", content=b"{").json()["error"]["type"] == "invalid_request_error"


def test_official_client() -> None:
    with served("feature-extraction") as url:
        ours = openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0)
        assert [m.id for m in ours.models.list()] == ["rigged/tiny"]
        assert ours.models.retrieve("rigged/tiny").owned_by == "rigged"
        found = ours.embeddings.create(input=["north", "east north"], model="rigged/tiny")  # asks for base64 by itself
        assert [d.embedding for d in found.data] == [NORTH, pytest.approx(BOTH)]
        assert found.usage.prompt_tokens == 7
        floats = ours.embeddings.create(input="north", model="rigged/tiny", encoding_format="float", dimensions=2)
        assert floats.data[0].embedding == [0.0, 1.0]
        with pytest.raises(openai.BadRequestError) as wrong:
            ours.embeddings.create(input="x", model="rigged/tiny", dimensions=9)
        assert wrong.value.param == "dimensions"
        with pytest.raises(openai.NotFoundError) as absent:
            ours.embeddings.create(input="x", model="gpt-2")
        assert absent.value.code == "model_not_found"
        ours.close()


def test_official_async_client() -> None:
    async def embed(url: str) -> list[float]:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as ours:
            return (await ours.embeddings.create(input="north", model="rigged/tiny")).data[0].embedding

    with served("feature-extraction") as url:
        assert apart(embed(url)) == NORTH

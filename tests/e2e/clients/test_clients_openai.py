"""OpenAI's clients against embeddings and models, at a server and at Lambda: the right numbers, and errors as these clients know them."""

from __future__ import annotations

import base64
import struct
from typing import Any

import openai
import pytest

from support.clients import DOORS, KINDS, LONG, Doors, agree, open_ai, plain, raw

EAST, NORTH, BOTH = [1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [2**-0.5, 2**-0.5, 0.0, 0.0]
MODEL = "rigged/tiny"
BOTH_IDS = [2, 5, 6, 3]  # [CLS] east north [SEP]

# what is sent, the vectors, and their tokens with the special ones
CASES: list[tuple[dict[str, Any], list[list[float]], int]] = [
    ({"input": "north"}, [NORTH], 3),
    ({"input": ["north", "east north"]}, [NORTH, BOTH], 7),
    ({"input": [*["north"] * 3, "east"]}, [*[NORTH] * 3, EAST], 12),
    ({"input": BOTH_IDS}, [BOTH], 4),
    ({"input": [[5], BOTH_IDS]}, [EAST, BOTH], 7),
    ({"input": "east up", "dimensions": 2}, [[1.0, 0.0]], 4),
    ({"input": "north", "dimensions": 4, "user": "someone"}, [NORTH], 3),
]
FORMATS: list[dict[str, Any]] = [{}, {"encoding_format": "float"}, {"encoding_format": "base64"}]  # the first asks for base64 by itself


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.get("encoding_format", "default"))
@pytest.mark.parametrize(("body", "vectors", "tokens"), CASES, ids=lambda value: str(value)[:40])
def test_embeddings(
    doors: Doors, door: str, kind: str, form: dict[str, Any], body: dict[str, Any], vectors: list[list[float]], tokens: int
) -> None:
    found = open_ai(kind, doors.url(door, "vectors"), "embeddings.create", model=MODEL, **body, **form)
    assert [row.index for row in found.data] == list(range(len(vectors)))
    agree([numbers(row.embedding) for row in found.data], vectors)
    assert (found.usage.prompt_tokens, found.usage.total_tokens, found.model) == (tokens, tokens, MODEL)


def numbers(embedding: Any) -> list[float]:
    """The client unpacks only what it asked for by itself."""
    if isinstance(embedding, list):
        return embedding
    packed = base64.b64decode(embedding)
    return list(struct.unpack(f"<{len(packed) // 4}f", packed))


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", KINDS)
def test_models(doors: Doors, door: str, kind: str) -> None:
    url = doors.url(door, "vectors")
    name = MODEL if door == "function" else "vectors"  # beside others an artifact goes by its folder's name
    listed = open_ai(kind, url, "models.list").data
    assert name in [model.id for model in listed]
    one = open_ai(kind, url, "models.retrieve", model=name)
    assert (one.id, one.object, one.owned_by, one.created) == (name, "model", "rigged", 0)
    assert one in listed


WRONG, TOO_MUCH, UNKNOWN = openai.BadRequestError, openai.APIStatusError, openai.NotFoundError
# what is sent, the error, its param and code, and its words
REFUSED: list[tuple[dict[str, Any], type[openai.APIStatusError], tuple[str | None, str | None], str]] = [
    ({"input": "x", "dimensions": 5}, WRONG, ("dimensions", None), "is 5; it must be from 1 to 4"),
    ({"input": "x", "dimensions": 0}, WRONG, ("dimensions", None), "is 0; it must be from 1 to 4"),
    ({"input": "x", "dimensions": 2.5}, WRONG, ("dimensions", None), "must be a whole number"),
    ({"input": "x", "dimensions": "4"}, WRONG, ("dimensions", None), "must be a whole number"),
    ({"input": "x", "encoding_format": "hex"}, WRONG, ("encoding_format", None), "must be one of float, base64"),
    ({"input": ""}, WRONG, ("input", None), "is empty"),
    ({"input": []}, WRONG, ("input", None), "is an empty list"),
    ({"input": ["x", LONG]}, WRONG, ("input[1]", None), "has 102 tokens, the limit is 64"),
    ({"input": [[5, 99999]]}, WRONG, ("input[0][1]", None), "which is not in the vocabulary"),
    ({"input": ["x"] * 2049}, TOO_MUCH, (None, "too_large"), "has 2049 texts, the limit is 2048"),
    ({"input": "x", "model": "gpt-2"}, UNKNOWN, (None, "model_not_found"), "model 'gpt-2' is not served here"),
]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("body", "error", "place", "said"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_is_wrong_is_the_clients_own_error(
    doors: Doors, door: str, kind: str, body: dict[str, Any], error: type[openai.APIStatusError], place: tuple[str | None, ...], said: str
) -> None:
    with pytest.raises(error, match="Error code: 4") as raised:
        open_ai(kind, doors.url(door, "vectors"), "embeddings.create", **{"model": MODEL, **body})
    assert (raised.value.param, raised.value.code) == place
    assert said in raised.value.message
    assert raised.value.request_id == raised.value.response.headers["x-request-id"]
    assert raised.value.type == "invalid_request_error"


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_task_without_vectors_says_so(doors: Doors, door: str, kind: str) -> None:
    with pytest.raises(openai.NotFoundError, match="there is no '/v1/embeddings' for the task text-classification"):
        open_ai(kind, doors.url(door, "labels"), "embeddings.create", model=MODEL, input="x")
    with pytest.raises(openai.NotFoundError, match="model 'gpt-2' is not served here") as raised:
        open_ai(kind, doors.url(door, "labels"), "models.retrieve", model="gpt-2")
    assert raised.value.code == "model_not_found"


@pytest.mark.parametrize("door", DOORS)
def test_the_clients_see_what_plain_http_sees(doors: Doors, door: str) -> None:
    url = doors.url(door, "vectors")
    body = {"input": ["north", "hello world"], "model": MODEL, "encoding_format": "float"}
    answer = raw(url, "POST", "/v1/embeddings", body)
    assert answer.document == plain(open_ai("sync", url, "embeddings.create", **body).to_dict())
    assert (answer.headers["x-compute-tokens"], answer.headers["x-compute-type"]) == ("7", "cpu")

"""Text classification over pairs of texts, whose scores are here those of the mean of both texts' words."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from hotfoot.contract.errors import InputError
from hotfoot.tasks import text_classification
from support.serving import client, model

NAME = "text-classification"
TASK = text_classification.TASK
GOOD, BAD = (-2.0, 3.0), (4.0, -1.0)


def ask(inputs: Any, **parameters: Any) -> Any:
    return model(NAME).predict(inputs, parameters).answer


def negative(answer: list[dict[str, Any]]) -> float:
    return float({a["label"]: a["score"] for a in answer}["NEGATIVE"])


def of(good: int, bad: int) -> Any:
    """The NEGATIVE score of so many words."""
    low, high = (good * np.array(GOOD) + bad * np.array(BAD)) / (good + bad)
    return pytest.approx(1 / (1 + math.exp(high - low)), abs=1e-6)


def test_a_pair_is_read_as_one_text_with_both() -> None:
    (answer,) = ask({"text": "good", "text_pair": "bad bad"})
    assert negative(answer) == of(1, 2)
    assert ask([{"text": "good", "text_pair": "bad bad"}]) == [answer]
    (encoded,) = TASK.encode(TASK.parse({"text": "good", "text_pair": "bad"}, {}, model(NAME).manifest), model(NAME).tokenizer)
    assert encoded.type_ids.tolist() == [0, 0, 0, 1, 1]


def test_an_object_without_a_second_text_is_a_text() -> None:
    assert ask({"text": "good"}) == ask("good") == ask({"text": "good", "text_pair": None})


def test_texts_and_pairs_may_be_mixed_and_keep_their_places() -> None:
    items: list[Any] = ["good", {"text": "good", "text_pair": "bad"}, {"text": "bad"}, {"text": "bad", "text_pair": "bad good"}, "fine"]
    answers = ask(items)
    assert answers == [ask(item)[0] for item in items]
    assert ask(items[::-1]) == answers[::-1]
    request = TASK.parse(items, {}, model(NAME).manifest)
    assert [e.item for e in TASK.encode(request, model(NAME).tokenizer)] == [0, 1, 2, 3, 4]
    assert request.paths == ("inputs[0]", "inputs[1].text", "inputs[2].text", "inputs[3].text", "inputs[4]")
    assert model(NAME).predict(items).characters == sum(map(len, ("good", "good", "bad", "bad", "bad", "bad good", "fine")))


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({}, "inputs.text: must be a text, not null."),
        ({"text_pair": "a"}, "inputs.text: must be a text, not null."),
        ({"text": "a", "text_pair": 5}, "inputs.text_pair: must be a text, not a number."),
        ({"text": "a", "text_pair": ""}, "inputs.text_pair: is empty."),
        ({"text": "a", "pair": "b"}, "inputs.pair: is not known here; there are text and text_pair."),
        (["a", {"text": "a", "text_pair": ["b"]}], "inputs[1].text_pair: must be a text, not a list."),
        ([{"text": "a"}, {"text": ""}], "inputs[1].text: is empty."),
        ([{"text": "a"}, 5], "inputs[1]: must be a text, not a number."),
        ([{"text": "a", "text_pair": "\ud800"}], "inputs[0].text_pair: has a lone surrogate at position 0, which is not text."),
        (["a", {"text": "a", "text_pair": " "}], "inputs[1].text_pair: the text has no tokens."),
        ([{"text": " ", "text_pair": "a"}], "inputs[0].text: the text has no tokens."),
        ([["a", "b"]], "inputs[0]: must be a text, not a list."),
    ],
)
def test_what_is_wrong_is_named(inputs: Any, said: str) -> None:
    with pytest.raises(InputError) as caught:
        ask(inputs)
    assert str(caught.value) == said
    reply = client(NAME).post("/", content=json.dumps({"inputs": inputs}), headers={"content-type": "application/json"})
    where, _, words = said.partition(": ")
    assert reply.status_code == 422
    assert reply.json()["error"].startswith(f"{where}: {words.removesuffix(' at position 0, which is not text.')}")


def test_a_pair_too_long_is_refused_at_its_longer_text() -> None:
    said = "the pair has 66 tokens, the limit is 64, special tokens included. Shorten it, or ask for truncation."
    for one, two, where in ((40, 23, "text"), (23, 40, "text_pair")):
        with pytest.raises(InputError) as caught:
            ask(["good", {"text": "good " * one, "text_pair": "bad " * two}])
        assert str(caught.value) == f"inputs[1].{where}: {said}"


@pytest.mark.parametrize(
    ("one", "two", "kept"),
    [(100, 10, (51, 10)), (10, 100, (10, 51)), (100, 90, (31, 30)), (90, 100, (30, 31)), (31, 30, (31, 30)), (200, 31, (31, 30))],
)
def test_the_longer_text_is_cut_first_on_request(one: int, two: int, kept: tuple[int, int]) -> None:
    asked = {"text": "good " * one, "text_pair": "bad " * two}
    for parameters in ({"truncate": True}, {"truncation": True}, {"truncate": True, "truncation_direction": "left"}):
        assert negative(ask(asked, **parameters)[0]) == of(*kept)


def test_the_side_that_is_cut_can_be_chosen() -> None:
    asked = {"text": "good " * 30 + "bad " * 70, "text_pair": "fine"}
    fine = np.array([0.0, 1.0])
    for direction, counts in (("right", (30, 30)), ("left", (0, 60))):
        low, high = (counts[0] * np.array(GOOD) + counts[1] * np.array(BAD) + fine) / 61
        (answer,) = ask(asked, truncate=True, truncation_direction=direction)
        assert negative(answer) == pytest.approx(1 / (1 + math.exp(high - low)), abs=1e-6)


@pytest.mark.parametrize(
    ("strategy", "good", "bad"),
    # 64 tokens less three special ones; the longer text gives way, or the one that the strategy names
    [("longest_first", 30, 31), ("only_first", 21, 40), ("only_second", 40, 21), (True, 30, 31)],
)
def test_a_strategy_says_which_text_of_a_pair_is_cut(strategy: Any, good: int, bad: int) -> None:
    (answer,) = ask({"text": "good " * 40, "text_pair": "bad " * 40}, truncation=strategy)
    assert negative(answer) == of(good, bad)

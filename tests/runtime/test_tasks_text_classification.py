from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hotfoot.contract.errors import InputError
from hotfoot.model import Model
from hotfoot.tasks import text_classification
from hotfoot_build import facts
from support.rigged import Rig, rigged_artifact
from support.serving import model

TASK = text_classification.TASK
TWELVE = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven")


def opened(folder: Path, words: dict[str, Any], labels: tuple[str, ...], function: str) -> Model:
    return Model.open(rigged_artifact(folder, "text-classification", Rig(words, labels, facts={"function_to_apply": function})), threads=1)


def softmax(*logits: float) -> list[float]:
    total = sum(map(math.exp, logits))
    return [math.exp(x) / total for x in logits]


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def scores(answer: list[dict[str, Any]]) -> dict[str, float]:
    return {a["label"]: a["score"] for a in answer}


# --- facts: which function a model's own files ask for


@pytest.mark.parametrize(
    ("problem_type", "labels", "function"),
    [
        (None, 2, "softmax"),
        (None, 1, "sigmoid"),
        ("regression", 1, "none"),
        ("regression", 3, "none"),
        ("multi_label_classification", 1, "sigmoid"),
        ("multi_label_classification", 6, "sigmoid"),
        ("single_label_classification", 6, "softmax"),
        ("single_label_classification", 1, "sigmoid"),  # softmax would answer 1.0 for every text
    ],
)
def test_the_function_is_chosen_as_transformers_does(problem_type: str | None, labels: int, function: str) -> None:
    config = {"config": {"problem_type": problem_type}, "labels": TWELVE[:labels]}
    assert TASK.facts(config) == {"function_to_apply": function}
    if problem_type is None:
        assert TASK.facts({"config": {}, "labels": TWELVE[:labels]}) == {"function_to_apply": function}


# --- heads


@pytest.mark.parametrize(("function", "score"), [("sigmoid", 0.574443), ("none", 0.3)])
def test_one_label(tmp_path: Path, function: str, score: float) -> None:
    one = opened(tmp_path, {"good": (0.3,), "bad": (-2.0,)}, ("QUALITY",), function)
    assert one.predict("good").answer == [[{"label": "QUALITY", "score": pytest.approx(score, abs=1e-6)}]]
    assert one.predict("bad").answer[0][0]["score"] == pytest.approx(-2.0 if function == "none" else sigmoid(-2.0))


def test_one_label_with_another_function(tmp_path: Path) -> None:
    one = opened(tmp_path, {"good": (0.3,)}, ("QUALITY",), "sigmoid")
    found = {f: one.predict("good", {"function_to_apply": f}).answer[0][0]["score"] for f in ("none", "sigmoid", "softmax")}
    assert found == {"none": pytest.approx(0.3), "sigmoid": pytest.approx(0.574443, abs=1e-6), "softmax": 1.0}


def test_multi_label_scores_do_not_share_their_sum(tmp_path: Path) -> None:
    many = opened(tmp_path, {"good": (2.0, -1.0, 2.5)}, ("kind", "toxic", "warm"), "sigmoid")
    (answer,) = many.predict("good").answer
    assert [a["label"] for a in answer] == ["warm", "kind", "toxic"]
    assert scores(answer) == pytest.approx({"warm": sigmoid(2.5), "kind": sigmoid(2.0), "toxic": sigmoid(-1.0)})


def test_softmax_scores_are_a_distribution() -> None:
    (answer,) = model("text-classification").predict("bad").answer
    assert scores(answer) == pytest.approx(dict(zip(("NEGATIVE", "POSITIVE"), softmax(4.0, -1.0), strict=True)))
    assert sum(scores(answer).values()) == pytest.approx(1.0, abs=1e-12)


def test_two_words_give_the_score_of_their_mean() -> None:
    (answer,) = model("text-classification").predict("good bad").answer
    assert answer == [{"label": "NEGATIVE", "score": 0.5}, {"label": "POSITIVE", "score": 0.5}]


def test_saturated_scores_keep_the_order_of_the_logits(tmp_path: Path) -> None:
    sure = opened(tmp_path, {"good": (100.0, 300.0, 200.0, -50.0)}, ("a", "b", "c", "d"), "sigmoid")
    (answer,) = sure.predict("good").answer
    assert [a["label"] for a in answer] == ["b", "c", "a", "d"]
    assert [a["score"] for a in answer[:3]] == [1.0, 1.0, 1.0]
    soft = sure.predict("good", {"function_to_apply": "softmax", "top_k": 3}).answer[0]
    assert [a["label"] for a in soft] == ["b", "c", "a"]
    assert all(0.0 <= a["score"] <= 1.0 for a in soft)


@pytest.mark.parametrize("extreme", [1e4, 3e38])
def test_no_score_is_out_of_range(tmp_path: Path, extreme: float) -> None:
    wild = opened(tmp_path, {"good": (extreme, -extreme, 0.0)}, ("a", "b", "c"), "softmax")
    for function, wanted in (("softmax", {"a": 1.0, "b": 0.0, "c": 0.0}), ("sigmoid", {"a": 1.0, "b": 0.0, "c": 0.5})):
        found = wild.predict("good", {"function_to_apply": function}).answer[0]
        assert scores(found) == pytest.approx(wanted, abs=1e-12)
        json.dumps(found, allow_nan=False)


def test_equal_scores_keep_the_order_of_the_labels(tmp_path: Path) -> None:
    flat = opened(tmp_path, {"good": (1.0,) * 12}, TWELVE, "softmax")
    assert [a["label"] for a in flat.predict("good").answer[0]] == list(TWELVE)


# --- labels


def test_twelve_labels_keep_their_numbers(tmp_path: Path) -> None:
    """A dictionary's order puts 10 before 2; the logit's index decides, not the file's order."""
    ordered = facts.labels({"id2label": {key: TWELVE[int(key)] for key in sorted(map(str, range(12)))}})
    assert ordered == TWELVE
    words = {name: tuple(9.0 if i == j else 0.0 for j in range(12)) for i, name in ((2, "good"), (10, "bad"), (11, "fine"))}
    twelve = opened(tmp_path, words, ordered, "softmax")
    best = [a[0]["label"] for a in twelve.predict(["good", "bad", "fine"], {"top_k": 1}).answer]
    assert best == ["two", "ten", "eleven"]


def test_labels_take_numbers_and_texts_as_keys() -> None:
    shuffled: dict[Any, str] = {11: "l", "2": "c", 0: "a", "10": "k", **{str(i): "x" for i in (1, 3, 4, 5, 6, 7, 8, 9)}}
    found = facts.labels({"id2label": shuffled})
    assert [found[i] for i in (0, 2, 10, 11)] == ["a", "c", "k", "l"]
    assert facts.labels({"num_labels": 3}) == ("LABEL_0", "LABEL_1", "LABEL_2")


@pytest.mark.parametrize("names", [{"0": "a", "2": "c"}, {"1": "a", "2": "b"}, {"0": "a", "00": "b"}, {"one": "a"}])
def test_labels_with_a_gap_fail_the_build(names: dict[str, str]) -> None:
    with pytest.raises(Exception, match=r"id2label in config\.json has"):
        facts.labels({"id2label": names})


# --- requests


def test_a_bare_text_and_a_list_have_one_shape() -> None:
    bare = model("text-classification").predict("good").answer
    assert bare == model("text-classification").predict(["good"]).answer
    assert isinstance(bare, list)
    assert isinstance(bare[0], list)
    assert set(bare[0][0]) == {"label", "score"}
    assert [type(v) for v in bare[0][0].values()] == [str, float]


@pytest.mark.parametrize(("top_k", "count"), [(1, 1), (2, 2), (5, 2), (10**30, 2)])
def test_top_k(top_k: int, count: int) -> None:
    (answer,) = model("text-classification").predict("good", {"top_k": top_k}).answer
    assert [a["label"] for a in answer] == ["POSITIVE", "NEGATIVE"][:count]


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"top_k": 0}, "parameters.top_k: is 0; it must be at least 1."),
        ({"top_k": -3}, "parameters.top_k: is -3; it must be at least 1."),
        ({"top_k": "2"}, "parameters.top_k: must be a whole number, not a text."),
        ({"top_k": 1.0}, "parameters.top_k: must be a whole number, not a number."),
        ({"top_k": True}, "parameters.top_k: must be a whole number, not a boolean."),
        ({"function_to_apply": "relu"}, "parameters.function_to_apply: is 'relu'; it must be one of none, sigmoid, softmax."),
        ({"function_to_apply": 1}, "parameters.function_to_apply: must be a text, not a number."),
        ({"truncate": "yes"}, "parameters.truncate: must be a boolean, not a text."),
        ({"truncation": 1}, "parameters.truncation: must be a boolean, not a number."),
        ({"truncation_direction": "up"}, "parameters.truncation_direction: is 'up'; it must be left or right."),
    ],
)
def test_wrong_parameters_are_named(parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        model("text-classification").predict("good", parameters)
    assert str(caught.value) == said


def test_truncation_is_honoured_for_a_text_and_a_list_alike() -> None:
    rigged = model("text-classification")
    long = "good " * 40 + "bad " * 80
    for parameters in ({"truncate": True}, {"truncation": True}, {"truncate": True, "truncation_direction": "Right"}):
        alone = rigged.predict(long, parameters).answer[0]
        assert rigged.predict([long], parameters).answer == [alone]
        assert rigged.predict(["good", long], parameters).answer == [rigged.predict("good").answer[0], alone]
        # 62 words fit between the special tokens: 40 good and 22 bad ones
        wanted = softmax(*(np.array([-2.0, 3.0]) * 40 + np.array([4.0, -1.0]) * 22) / 62)
        assert scores(alone) == pytest.approx({"NEGATIVE": wanted[0], "POSITIVE": wanted[1]})
    left = rigged.predict(long, {"truncate": True, "truncation_direction": "left"}).answer[0]
    assert scores(left)["NEGATIVE"] == pytest.approx(softmax(4.0, -1.0)[0])


@pytest.mark.parametrize("parameters", [{}, {"truncate": False}, {"truncation": False}, {"truncate": False, "truncation": True}])
def test_without_truncation_the_long_one_is_named(parameters: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"inputs\[1\]: the text has 122 tokens, the limit is 64"):
        model("text-classification").predict(["good", "bad " * 120], parameters)


# --- parity


def test_parity_counts_labels_and_drift() -> None:
    manifest = model("text-classification").manifest
    reference = [np.array(x, np.float32) for x in ([2, 0], [0, 2], [0, 2], [0, 2])]
    ours = [np.array(x, np.float32) for x in ([2, 0], [2, 0], [0, 2], [0, 2])]
    found = TASK.parity(ours, reference, manifest)
    drift = softmax(2.0, 0.0)[0] - softmax(0.0, 2.0)[0]
    assert found["label_agreement"] == 0.75
    assert found["score_mean"] == pytest.approx(1 - drift / 4)
    assert found["score_p99"] < found["score_mean"]

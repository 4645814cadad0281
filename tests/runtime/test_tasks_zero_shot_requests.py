"""What zero-shot classification accepts: templates, labels, and texts of every length."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hotfoot.contract.errors import InputError, TooLargeError
from support.choosing import LABELS, NAME, TASK, ask, scores, softmax
from support.serving import client, model, opened

# --- templates and labels


@pytest.mark.parametrize("template", ["This text is.", "about {{}}.", "{0}", "{label}", "{} and {}", "{x} is {}", "{} }", "{", "%s"])
def test_a_template_that_does_not_insert_the_label_is_refused(template: str) -> None:
    with pytest.raises(InputError) as caught:
        ask(hypothesis_template=template)
    assert str(caught.value) == (
        "parameters.hypothesis_template: must have {} once, where the label goes, and no other braces; as 'This example is {}.'."
    )
    body = {"inputs": "text", "parameters": {"candidate_labels": LABELS, "hypothesis_template": template}}
    assert client(NAME).post("/", json=body).status_code == 422


def test_labels_are_inserted_as_they_are() -> None:
    labels = ["{0}", "100%", "C++ {x}", "{}", "%s", "\\1", "{", "music"]
    request = TASK.parse("text", {"candidate_labels": labels, "hypothesis_template": "about {}."}, model(NAME).manifest)
    assert request.beside == tuple(f"about {label}." for label in labels)
    answer = ask(labels=labels)
    assert {a["label"] for a in answer} == set(labels)
    assert answer[0]["label"] == "music"


# --- one label, labels on their own, none, and some twice


def test_one_label_has_all_of_the_score_unless_it_is_weighed_alone() -> None:
    assert ask(labels=["politics"]) == [{"label": "politics", "score": 1.0}]
    assert ask(labels=["politics"], multi_label=True) == [{"label": "politics", "score": pytest.approx(softmax(2.0, -2.0)[1])}]


def test_a_label_s_own_score_does_not_depend_on_the_others() -> None:
    (alone,) = ask(labels=["sport"], multi_label=True)
    for others in (["music"], ["politics", "cooking"], ["hello world hello world", "music", "x" * 20]):
        assert scores(ask(labels=[*others, "sport"], multi_label=True))["sport"] == alone["score"]


def test_labels_lose_the_space_around_them_and_come_once() -> None:
    wanted = ask(labels=["music", "sport"])
    for labels in (["music", " sport ", "music", "sport"], "music, sport", " music ,,sport,music,", ["music\n", "sport"]):
        assert ask(labels=labels) == wanted
    assert [a["label"] for a in ask(labels=["Music", "music"])] == ["Music", "music"]  # to the tokenizer the same, to the client not


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ([], "parameters.candidate_labels: has no label; give at least one."),
        (" , ,", "parameters.candidate_labels: has no label; give at least one."),
        ("", "parameters.candidate_labels: is empty."),
        (["music", ""], "parameters.candidate_labels[1]: is empty."),
        (["music", "  "], "parameters.candidate_labels[1]: is empty."),
        (["music", 5], "parameters.candidate_labels[1]: must be a text, not a number."),
        (["a\ud800"], "parameters.candidate_labels[0]: has a lone surrogate at position 1, which is not text."),
        (7, "parameters.candidate_labels: must be a list of texts, or one text with commas between the labels, not a number."),
        (None, "parameters.candidate_labels: is missing: name the labels to choose from, as a list of texts."),
    ],
)
def test_wrong_labels_are_named(labels: Any, said: str) -> None:
    with pytest.raises(InputError) as caught:
        ask(labels=labels)
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"sequences": "text", "labels": ["a"]}, "inputs.labels: is not known here; there are sequences, candidate_labels."),
        ({"candidate_labels": ["a"]}, "inputs.sequences: must be a text or a list of texts, not null."),
        ({"sequences": ["text", 5]}, "inputs.sequences[1]: must be a text, not a number."),
        ({"sequences": "text", "candidate_labels": ["a", 5]}, "inputs.candidate_labels[1]: must be a text, not a number."),
        ({"sequences": "text", "candidate_labels": ["a"]}, "parameters.candidate_labels: is given twice, here and in inputs."),
        (["text", {"sequences": "text"}], "inputs[1]: must be a text, not an object."),
    ],
)
def test_wrong_inputs_are_named(inputs: Any, said: str) -> None:
    with pytest.raises(InputError) as caught:
        ask(inputs)
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"multi_label": 1}, "parameters.multi_label: must be a boolean, not a number."),
        ({"hypothesis_template": 1}, "parameters.hypothesis_template: must be a text, not a number."),
        ({"hypothesis_template": ""}, "parameters.hypothesis_template: is empty."),
        ({"hypothesis_template": "{}\ud800"}, "parameters.hypothesis_template: has a lone surrogate at position 2, which is not text."),
        ({"truncation_direction": "up"}, "parameters.truncation_direction: is 'up'; it must be left or right."),
    ],
)
def test_wrong_parameters_are_named(parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        ask(**parameters)
    assert str(caught.value) == said


def test_labels_that_the_artifact_brings(tmp_path: Path) -> None:
    own = opened(tmp_path, NAME, facts={"candidate_labels": ["music", "politics"]})
    assert [a["label"] for a in own.predict("text").answer] == ["music", "politics"]
    assert [a["label"] for a in own.predict(["text"], {"candidate_labels": None}).answer[0]] == ["music", "politics"]
    assert [a["label"] for a in own.predict("text", {"candidate_labels": ["sport"]}).answer] == ["sport"]
    with pytest.raises(InputError, match=r"^parameters\.hypothesis_template: has 101 tokens"):
        own.predict("text", {"hypothesis_template": "x" * 100 + " {}"})


def test_more_pairs_than_memory_holds_are_refused() -> None:
    labels = [str(i) for i in range(3000)]
    with pytest.raises(TooLargeError, match=r"^22 texts with 3000 labels are 66000 pairs, the limit is 65536\."):
        ask(["text"] * 22, labels)


# --- what is too long


def test_a_text_that_is_too_long_is_refused_with_its_place() -> None:
    with pytest.raises(InputError) as caught:
        ask(["text", "text " * 80])
    assert str(caught.value) == (
        "inputs[1]: the pair has 84 tokens, the limit is 64, special tokens included. Shorten it, or ask for truncation."
    )


def test_only_the_text_is_cut() -> None:
    long = "politics " * 58 + "music " * 20
    for given in ({"truncate": True}, {"truncation": True}):
        # 64 less three special ones, and the hypothesis: 60 of the text
        (answer,) = ask(long, ["sport"], multi_label=True, **given)
        wanted = (58 * np.array([4.0, -4.0]) + 2 * np.array([-2.0, 6.0]) + np.array([3.0, 5.0])) / 61
        assert answer["score"] == pytest.approx(softmax(*wanted)[1], abs=1e-6)
    (answer,) = ask(long, ["sport"], multi_label=True, truncate=True, truncation_direction="left")
    wanted = (40 * np.array([4.0, -4.0]) + 20 * np.array([-2.0, 6.0]) + np.array([3.0, 5.0])) / 61
    assert answer["score"] == pytest.approx(softmax(*wanted)[1], abs=1e-6)
    both = ask(["text", long], truncate=True)
    assert both == [ask("text"), ask(long, truncate=True)]


@pytest.mark.parametrize("truncate", [False, True])
def test_a_hypothesis_that_leaves_the_text_no_room_is_named(truncate: bool) -> None:
    with pytest.raises(InputError) as caught:
        ask(labels=["music", "music " * 61], truncate=truncate)
    assert str(caught.value) == (
        "parameters.candidate_labels[1]: has 61 tokens; beside the 3 special ones they leave no room for the other text, as a pair has"
        " 64 tokens at most. Shorten it."
    )


def test_a_text_without_tokens_is_named() -> None:
    with pytest.raises(InputError, match=r"^inputs\[1\]: the text has no tokens\."):
        ask(["text", " "])

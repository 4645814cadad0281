"""Zero-shot classification: labels on a text, out of logits that the test chooses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from huggingface_hub import InferenceClient

from hotfoot.contract.errors import InputError, UnsupportedError
from support.choosing import LABELS, NAME, TASK, ask, scores, softmax
from support.serving import client, model, opened, served

# --- which output is entailment


@pytest.mark.parametrize(
    ("labels", "entailment", "contradiction"),
    [
        (("ENTAILMENT", "neutral", "contradiction"), 0, 2),
        (("contradiction", "neutral", "entailment"), 2, 0),
        (("contradiction", "Entailment", "neutral"), 1, 0),
        (("neutral", "entails"), 1, 0),
        (("not_entailment", "entailment"), 1, 0),
        (("entailment", "not_entailment"), 0, 1),
    ],
)
def test_entailment_is_found_by_its_name(labels: tuple[str, ...], entailment: int, contradiction: int) -> None:
    assert TASK.facts({"labels": labels}) == {"entailment": entailment, "contradiction": contradiction}


@pytest.mark.parametrize("labels", [("LABEL_0", "LABEL_1", "LABEL_2"), ("not_entailment", "neutral"), ("positive", "negative")])
def test_a_model_that_does_not_say_which_is_refused(labels: tuple[str, ...]) -> None:
    with pytest.raises(UnsupportedError, match=r"none of the model's labels \(.*\) is called entailment") as caught:
        TASK.facts({"labels": labels})
    assert f"--entailment {labels[-1]}" in caught.value.hint


def test_the_user_may_say_which_it_is_and_what_to_choose_from() -> None:
    nameless = ("LABEL_0", "LABEL_1", "LABEL_2")
    assert TASK.facts({"labels": nameless, "entailment": "LABEL_2"}) == {"entailment": 2, "contradiction": 0}
    assert TASK.facts({"labels": nameless, "entailment": "LABEL_0"}) == {"entailment": 0, "contradiction": 2}
    with pytest.raises(UnsupportedError, match=r"--entailment LABEL_3 is none of the model's labels \(LABEL_0, LABEL_1, LABEL_2\)"):
        TASK.facts({"labels": nameless, "entailment": "LABEL_3"})
    own = TASK.facts({"labels": ("no", "entailment"), "candidate_labels": (" music", "sport ", "music")})
    assert own == {"entailment": 1, "contradiction": 0, "candidate_labels": ["music", "sport"]}
    with pytest.raises(InputError, match=r"^--labels\[1\]: is empty"):
        TASK.facts({"labels": ("no", "entailment"), "candidate_labels": ("music", " ")})


def test_entailment_alone_is_weighed_against_nothing() -> None:
    with pytest.raises(UnsupportedError, match="the model has one label, entailment"):
        TASK.facts({"labels": ("entailment",)})


# --- answers


def test_labels_share_one_by_their_entailment() -> None:
    answer = ask()
    assert [a["label"] for a in answer] == ["music", "cooking", "politics"]
    assert [a["score"] for a in answer] == pytest.approx(softmax(3.0, 2.0, -2.0))
    assert [type(v) for v in answer[0].values()] == [str, float]


def test_each_label_is_weighed_alone_where_several_may_hold() -> None:
    answer = ask(multi_label=True)
    wanted = {"music": softmax(-1.0, 3.0)[1], "cooking": softmax(0.0, 2.0)[1], "politics": softmax(2.0, -2.0)[1]}
    assert [a["label"] for a in answer] == [*wanted]
    assert scores(answer) == pytest.approx(wanted)


def test_the_order_follows_what_is_scored() -> None:
    """Sport follows more surely than cooking, but its contradiction does so nearly as much."""
    assert [a["label"] for a in ask(labels=["cooking", "sport"])] == ["sport", "cooking"]
    assert [a["label"] for a in ask(labels=["sport", "cooking"], multi_label=True)] == ["cooking", "sport"]


def test_the_default_template_is_that_of_transformers() -> None:
    answer = model(NAME).predict("text", {"candidate_labels": LABELS}).answer
    # text, this, example, is, the label and the full stop
    assert [a["score"] for a in answer] == pytest.approx(softmax(1.0, 4 / 6, -4 / 6))
    assert answer == model(NAME).predict("text", {"candidate_labels": LABELS, "hypothesis_template": "This example is {}."}).answer


def test_the_words_of_the_text_count_too() -> None:
    music, politics = (ask(text, multi_label=True, labels=["cooking"])[0]["score"] for text in ("music", "politics"))
    assert music == pytest.approx(softmax(-1.0, 5.0)[1])
    assert politics == pytest.approx(softmax(2.0, 0.0)[1])


@pytest.mark.parametrize(("first", "second", "third"), [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_the_outputs_may_stand_in_any_order(tmp_path: Path, first: int, second: int, third: int) -> None:
    names = tuple(("contradiction", "neutral", "entailment")[i] for i in (first, second, third))
    words = {w: tuple(row[i] for i in (first, second, third)) for w, row in {"music": (-2, 0, 6), "sport": (3, 0, 5)}.items()}
    turned = opened(tmp_path, NAME, words=words, labels=names, facts=TASK.facts({"labels": names}))
    given = {"candidate_labels": ["sport", "music"], "hypothesis_template": "{}"}
    assert scores(turned.predict("text", given).answer) == pytest.approx(dict(zip(("music", "sport"), softmax(3.0, 2.5), strict=True)))


def test_two_outputs_do(tmp_path: Path) -> None:
    names = ("entailment", "not_entailment")
    two = opened(tmp_path, NAME, words={"music": (6.0, -2.0), "sport": (1.0, 3.0)}, labels=names, facts=TASK.facts({"labels": names}))
    given = {"candidate_labels": ["sport", "music"], "hypothesis_template": "{}"}
    assert scores(two.predict("text", given).answer) == pytest.approx({"music": softmax(3.0, 0.5)[0], "sport": softmax(3.0, 0.5)[1]})
    each = two.predict("text", {**given, "multi_label": True}).answer
    assert scores(each) == pytest.approx({"music": softmax(3.0, -1.0)[0], "sport": softmax(0.5, 1.5)[0]})


def test_equal_labels_keep_their_order_and_sure_ones_are_told_apart(tmp_path: Path) -> None:
    answer = ask(labels=["word", "hello", "world", "music"])
    assert [a["label"] for a in answer] == ["music", "word", "hello", "world"]
    sure = opened(tmp_path, NAME, words={"one": (0, 0, 200.0), "two": (0, 0, 240.0), "three": (0, 0, 280.0), "four": (0, 0, 3e38)})
    given = {"candidate_labels": ["one", "two", "three"], "hypothesis_template": "{}", "multi_label": True}
    answer = sure.predict("text", given).answer
    assert [(a["label"], a["score"]) for a in answer] == [("three", 1.0), ("two", 1.0), ("one", 1.0)]
    answer = sure.predict("text", {**given, "candidate_labels": ["one", "four"]}).answer
    assert [a["label"] for a in answer] == ["four", "one"]
    json.dumps(answer, allow_nan=False)


def test_a_list_of_texts_gives_a_list_of_answers() -> None:
    texts = ["text", "music", "the text is politics", "text"]
    answers = ask(texts)
    assert answers == [ask(text) for text in texts]
    assert ask(["text"]) == [ask("text")]
    assert answers[0] == answers[3]


# --- what the official client is sent


def test_the_default_answer_is_a_list_of_labels_and_scores() -> None:
    body = {"inputs": "text", "parameters": {"candidate_labels": LABELS, "multi_label": False}}
    reply = client(NAME).post("/", json=body)
    assert reply.status_code == 200, reply.text
    assert [set(a) for a in reply.json()] == [{"label", "score"}] * 3
    assert [a["label"] for a in reply.json()] == ["music", "cooking", "politics"]
    assert [a["score"] for a in reply.json()] == sorted((a["score"] for a in reply.json()), reverse=True)


def test_the_official_client_is_satisfied() -> None:
    with served(NAME) as url:
        hub = InferenceClient(model=url)
        found = hub.zero_shot_classification("text", candidate_labels=LABELS)
        assert [f.label for f in found] == ["music", "cooking", "politics"]
        each = hub.zero_shot_classification("text", candidate_labels=LABELS, multi_label=True, hypothesis_template="{}")
        assert {f.label: f.score for f in each} == pytest.approx(scores(ask(multi_label=True)))


def test_labels_may_stand_beside_the_texts() -> None:
    own = model(NAME)
    wanted = own.predict("text", {"candidate_labels": LABELS}).answer
    assert own.predict({"sequences": "text", "candidate_labels": LABELS}).answer == wanted
    assert own.predict({"sequences": ["text"], "candidate_labels": ",".join(LABELS)}).answer == [wanted]
    assert own.predict({"sequences": "text"}, {"candidate_labels": LABELS}).answer == wanted


# --- many at once


def test_each_text_keeps_its_answer_however_pairs_are_sorted() -> None:
    dice = np.random.default_rng(7)
    texts = [" ".join(dice.choice(["text", "music", "politics", "word", "sport"], int(dice.integers(1, 50)))) for _ in range(40)]
    labels = ["music", "cooking with music and sport", "politics", "x" * 12]
    together = ask(texts, labels)
    assert together == [ask(text, labels) for text in texts]
    assert len({json.dumps(a) for a in together}) > 30


class Counted:
    """A session that notes the pairs it gets."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.calls: list[int] = []

    def run(self, inputs: Any) -> Any:
        self.calls.append(len(inputs))
        return self.session.run(inputs)


def test_all_pairs_of_a_request_run_as_one_list() -> None:
    own = model(NAME)
    session = Counted(own.session)
    request = TASK.parse(["text", "music"], {"candidate_labels": LABELS}, own.manifest)
    TASK.run(session, TASK.encode(request, own.tokenizer))
    assert session.calls == [6]


# --- agreement with the original


def test_parity_sees_labels_in_another_order_and_scores_that_moved() -> None:
    dice = np.random.default_rng(1)
    theirs = [dice.normal(0, 3, (4, 3)).astype(np.float32) for _ in range(50)]
    known = model(NAME).manifest
    same = TASK.parity(theirs, theirs, known)
    assert same == dict.fromkeys(same, 1.0)
    turned = TASK.parity([x[::-1] for x in theirs], theirs, known)
    assert turned["top1"] < 0.5
    assert turned["kendall"] < 0.2
    lowered = TASK.parity([x - np.array([0, 0, 1], np.float32) for x in theirs], theirs, known)
    assert lowered["top1"] == lowered["kendall"] == 1.0  # which no share of 1 between labels would show
    assert lowered["score_mean"] < 0.95
    assert TASK.parity([x[:1] for x in theirs], [x[:1] for x in theirs], known)["kendall"] == 0.0  # one label has no order

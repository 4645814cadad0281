"""Question answering: spans out of logits that the test chooses, and windows over contexts of any length."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from huggingface_hub import InferenceClient

from hotfoot.contract.errors import InputError, UnsupportedError
from hotfoot.model import Model
from hotfoot.task import Array, Encoded
from hotfoot.tasks import question_answering
from hotfoot.tokenizer import Tokenizer
from support.serving import client, model, opened, served
from support.tokenizers_made import made

TASK = question_answering.TASK
MANIFEST = replace(model("question-answering").manifest, max_tokens=512)
FAMILY = "👨‍👩‍👧"
SURE = 9.0


def answer(question: str, context: str, **parameters: Any) -> Any:
    return model("question-answering").predict({"question": question, "context": context}, parameters).answer


def decoded(kind: str, context: str, peaks: Mapping[int, tuple[float, float]], null: float = 0.0, **parameters: Any) -> Any:
    """The answer when the context's tokens get these start and end logits, the others 0 and the first token `null`."""
    request = TASK.parse({"question": "in", "context": context}, parameters, MANIFEST)
    (encoded,) = TASK.encode(request, Tokenizer(made(kind), 512))
    assert encoded.second is not None
    logits = np.zeros((len(encoded.ids), 2), np.float32)
    logits[0] = null
    for token, numbers in peaks.items():
        logits[encoded.second[0] + token] = numbers
    return TASK.decode(request, (encoded,), [logits], about(encoded))


def about(encoded: Encoded) -> Any:
    return replace(MANIFEST, facts={"null_id": int(encoded.ids[0])})


# --- which span


def test_the_likeliest_span_is_the_answer() -> None:
    # softmax over the context and the first token: e^6 and 2.7 at "Maria", 20 at "Paris", 1 for each of the other eight
    context = "Maria Gonzalez lives in Springfield and works in Paris."
    total = np.exp(6.0) + np.exp(3.0) + np.exp(1.0) + len("lives") + len("in and works in".replace(" ", "")) + 1 + 1 + 1
    found = answer("Where does Maria live?", context)
    assert found == {"score": pytest.approx((np.exp(6.0) / total) ** 2), "start": 24, "end": 35, "answer": "Springfield"}
    assert context[24:35] == "Springfield"


def test_a_span_runs_from_one_token_to_another() -> None:
    found = decoded("wordpiece", "the man plays the guitar in paris", {1: (SURE, 0), 2: (0, SURE)})
    assert (found["answer"], found["start"], found["end"]) == ("man plays", 4, 13)
    # the end before the start is no answer: the likeliest of the others begin at the one or end at the other
    backwards = decoded("wordpiece", "the man plays the guitar in paris", {1: (0, SURE), 4: (SURE, 0)}, top_k=5)
    assert {b["answer"] for b in backwards} == {"man", "the man", "guitar", "guitar in", "guitar in paris"}


def test_an_answer_has_a_length_at_most() -> None:
    peaks = {0: (SURE, 0.0), 5: (0.0, SURE), 1: (0.0, 2.0)}
    assert decoded("wordpiece", "the man plays the guitar in paris", peaks)["answer"] == "the man plays the guitar in"
    assert decoded("wordpiece", "the man plays the guitar in paris", peaks, max_answer_len=6)["answer"] == "the man plays the guitar in"
    assert decoded("wordpiece", "the man plays the guitar in paris", peaks, max_answer_len=5)["answer"] == "the man"


def test_top_k_gives_a_list_best_first() -> None:
    found = answer("Where?", "Springfield or Paris or Maria", top_k=2, max_answer_len=1)
    assert [f["answer"] for f in found] == ["Springfield", "Paris"]
    assert found[0]["score"] > found[1]["score"]
    assert len(answer("Where?", "Paris", top_k=50)) == 1


def test_the_same_words_twice_are_one_answer_whose_scores_add_up() -> None:
    once = answer("Where?", "Springfield or Paris", top_k=1)
    twice = answer("Where?", "Paris or springfield or SPRINGFIELD or Springfield", top_k=2)
    assert twice[0]["answer"] == "springfield"
    assert (twice[0]["start"], twice[0]["end"]) == (9, 20)
    assert 3 * (1 / 3.2) ** 2 < twice[0]["score"] < once["score"]


def test_the_question_is_no_part_of_the_answer() -> None:
    # "where" has the highest logits of all
    assert answer("where where where", "in Paris")["answer"] == "Paris"
    assert answer("where", "where in Paris")["answer"] == "where"


def test_no_answer_is_one_on_request() -> None:
    peaks = {0: (2.0, 2.0)}
    for null, answers in ((6.0, ["", "paris"]), (0.0, ["paris", ""])):
        found = decoded("wordpiece", "paris", peaks, null, handle_impossible_answer=True, top_k=2)
        assert [f["answer"] for f in found] == answers
        # both token's shares of start and end
        share = np.exp(null) / (np.exp(null) + np.exp(2.0))
        assert {f["answer"]: f["score"] for f in found} == {"": pytest.approx(share**2), "paris": pytest.approx((1 - share) ** 2)}
    found = decoded("wordpiece", "paris", peaks, 6.0)
    assert found["answer"] == "paris"
    assert decoded("wordpiece", "paris", peaks, 6.0, handle_impossible_answer=True) == {
        "score": pytest.approx((1 / (1 + np.exp(-4.0))) ** 2),
        "start": 0,
        "end": 0,
        "answer": "",
    }


# --- where it stands


def test_places_are_code_points_of_the_context_as_sent() -> None:
    context = f"{FAMILY} cafe\u0301 in Springfield 🦊"
    found = answer("Where?", context)
    assert context[found["start"] : found["end"]] == found["answer"] == "Springfield"


def test_an_answer_grows_to_the_whole_word_unless_told_not_to() -> None:
    # playing is play ##ing
    assert decoded("wordpiece", "the man playing", {2: (SURE, SURE)})["answer"] == "playing"
    assert decoded("wordpiece", "the man playing", {3: (SURE, SURE)})["answer"] == "playing"
    assert decoded("wordpiece", "the man playing", {3: (SURE, SURE)}, align_to_words=False)["answer"] == "ing"


def test_an_answer_has_no_white_space_at_its_ends() -> None:
    context = "the man in  paris"
    tokens = made("byte-level-untrimmed").encode("in", context)
    at = [i for i, text in enumerate(tokens.sequence_ids) if text == 1]
    word = [i for i, place in enumerate(at) if context[slice(*tokens.offsets[place])].strip() == "man"]
    assert context[slice(*tokens.offsets[at[word[0]]])] == " man"
    found = decoded("byte-level-untrimmed", context, {word[0]: (SURE, SURE)})
    assert (found["answer"], found["start"], found["end"]) == ("man", 4, 7)


JAPANESE = "全学年にわたって小学校の国語の教科書に挿し絵が用いられている"


@pytest.mark.parametrize("kind", ["wordpiece", "unigram", "byte-level"])
@pytest.mark.parametrize("whole", [True, False])
def test_a_script_without_spaces_is_not_answered_whole(kind: str, whole: bool) -> None:
    """WordPiece takes each of its characters for a word; SentencePiece and byte-level tokenizers take all of them for one."""
    tokens = made(kind).encode("in", JAPANESE)
    places = [tokens.offsets[i] for i, text in enumerate(tokens.sequence_ids) if text == 1]
    first = next(i for i, (start, _) in enumerate(places) if start == 12)
    last = max(i for i, (_, end) in enumerate(places) if end == 14)
    found = decoded(kind, JAPANESE, {first: (SURE, 0), last: (0, SURE)}, align_to_words=whole, max_answer_len=30)
    assert (found["start"], found["end"], found["answer"]) == (12, 14, "国語")


# --- long contexts


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A model of 32 tokens."""
    return opened(tmp_path_factory.mktemp("short"), "question-answering", max_tokens=32)


def test_an_answer_late_in_a_long_context_is_found(short: Model) -> None:
    # of the same words everywhere the scores would add up
    filler = " ".join(map(str, range(1000, 2800))) + " "
    context = filler + "Springfield " + " ".join(map(str, range(3000, 3300)))
    assert len(context) > 10_000
    for parameters in ({}, {"doc_stride": 0}, {"doc_stride": 20}, {"max_seq_len": 16}):
        found = short.predict({"question": "Where is it?", "context": context}, parameters).answer
        assert (found["start"], found["end"]) == (9000, 9011)
        assert found["start"] == context.find("Springfield")


def test_windows_count_as_tokens_and_both_texts_as_characters(short: Model) -> None:
    found = short.predict({"question": "hello", "context": "world " * 60}, {"doc_stride": 0})
    # 28 tokens of the context a window: 28 + 28 + 4, and the frame of 4 three times
    assert found.tokens == 32 + 32 + 8
    assert found.characters == 5 + 360


@pytest.mark.parametrize(
    ("parameters", "where", "said"),
    [
        ({"doc_stride": 28}, "inputs.question", "windows that overlap by 28 would read nothing new"),
        ({"max_seq_len": 33}, "parameters.max_seq_len", "is 33; this model reads 32 tokens at most."),
        ({"max_seq_len": 4}, "inputs.question", "they leave no room for the other text, as a pair has 4 tokens at most"),
        ({"doc_stride": -1}, "parameters.doc_stride", "is -1; it must be at least 0."),
        *(({name: 0}, f"parameters.{name}", "is 0; it must be at least 1.") for name in question_answering.COUNTS),
    ],
)
def test_windows_that_cannot_be_are_refused_and_the_next_request_works(
    short: Model, parameters: dict[str, Any], where: str, said: str
) -> None:
    asked = {"question": "hello", "context": "in Paris"}
    with pytest.raises(InputError, match=said) as caught:
        short.predict(asked, parameters)
    assert caught.value.where == where
    assert short.predict(asked).answer["answer"] == "Paris"


def test_a_long_question_is_cut_on_request_alone(short: Model) -> None:
    asked = {"question": "hello " * 40, "context": "in Paris"}
    with pytest.raises(InputError, match=r"has 40 tokens; beside the 3 special ones they leave no room") as caught:
        short.predict(asked)
    assert caught.value.where == "inputs.question"
    found = short.predict(asked, {"max_question_len": 5})
    assert found.answer["answer"] == "Paris"
    assert found.tokens == 3 + 5 + 3


def test_a_question_that_leaves_little_room_gets_smaller_overlaps(short: Model) -> None:
    # half of the 32 tokens is the usual overlap, and 9 are left for the context
    context = "hello world " * 20 + "Springfield"
    assert short.predict({"question": "hello " * 20, "context": context}).answer["answer"] == "Springfield"


# --- requests


def test_lists_give_lists() -> None:
    asked = [{"question": "Where?", "context": c} for c in ("in Paris", "in Springfield")]
    found = model("question-answering").predict(asked)
    assert [f["answer"] for f in found.answer] == ["Paris", "Springfield"]
    assert [model("question-answering").predict([one]).answer[0] for one in asked] == found.answer
    assert model("question-answering").predict(asked[:1], {"top_k": 2}).answer == [answer("Where?", "in Paris", top_k=2)]


def test_one_question_of_many_texts() -> None:
    found = model("question-answering").predict(["in Paris", "in Springfield"], {"question": "Where?"})
    assert [f["answer"] for f in found.answer] == ["Paris", "Springfield"]
    assert found.answer[0] == answer("Where?", "in Paris")
    assert model("question-answering").predict("in Paris", {"question": "Where?"}).answer == answer("Where?", "in Paris")


@pytest.mark.parametrize(
    ("inputs", "where", "said"),
    [
        ({"question": "q"}, "inputs.context", "must be a text, not null."),
        ({"question": "", "context": "c"}, "inputs.question", "is empty."),
        ([{"question": "q", "context": "c"}, {"question": "q", "context": 5}], "inputs[1].context", "must be a text, not a number."),
        ({"question": "q", "context": "c", "id": 1}, "inputs.id", "is not known here; there are question and context."),
        ("text", "inputs", "must be an object with question and context, or a text with parameters.question, not a text."),
        ([["q", "c"]], "inputs[0]", "must be an object"),
        ([{"question": "in", "context": "in"}, {"question": "in", "context": "  "}], "inputs[1].context", "the text has no tokens."),
    ],
)
def test_what_is_wrong_is_named(inputs: Any, where: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        model("question-answering").predict(inputs)
    assert caught.value.where == where
    assert said in str(caught.value)


def test_the_official_client_is_satisfied() -> None:
    with served("question-answering") as url:
        hub = InferenceClient(model=url)
        one = hub.question_answering("Where does she live?", "Maria lives in Springfield")
        assert (one.answer, one.start, one.end) == ("Springfield", 15, 26)  # type: ignore[union-attr]
        two = hub.question_answering("Where?", "Springfield or Paris", top_k=2, doc_stride=8, max_question_len=9, max_answer_len=1)
        assert [f.answer for f in two] == ["Springfield", "Paris"]


def test_over_http_the_place_of_a_fault_is_named() -> None:
    http = client("question-answering")
    asked = {"question": "Where?", "context": "in Paris"}
    for body, where in (
        ({"inputs": asked, "parameters": {"doc_stride": 80}}, "inputs.question: leaves"),
        ({"inputs": asked, "parameters": {"stride": 1}}, "parameters.stride: is not a parameter of this task. There are: question, top_k"),
        ({"inputs": {"question": "q"}}, "inputs.context: must be a text, not null."),
    ):
        refused = http.post("/", json=body)
        assert (refused.status_code, refused.json()["error"].startswith(where)) == (422, True), refused.text
        assert http.post("/", json={"inputs": asked}).json()["answer"] == "Paris"


# --- building it


def test_facts_name_the_token_that_stands_for_no_answer() -> None:
    tokenizer = json.loads(made("wordpiece").to_str())
    known = {"pad_side": "right", "special": {"cls_token": "[CLS]"}, "tokenizer": tokenizer}
    assert TASK.facts(known) == {"null_id": 2}
    assert TASK.facts({**known, "special": {}}) == {"null_id": None}
    with pytest.raises(UnsupportedError, match="pads on the left"):
        TASK.facts({**known, "pad_side": "left"})


def test_without_such_a_token_no_answer_has_no_score(tmp_path: Path) -> None:
    found = opened(tmp_path, "question-answering", facts={"null_id": None}).predict(
        {"question": "Where?", "context": "in Paris"}, {"handle_impossible_answer": True, "top_k": 9}
    )
    assert found.answer[-1] == {"score": 0.0, "start": 0, "end": 0, "answer": ""}
    assert sum(f["score"] for f in found.answer) < 1


def rows(*logits: tuple[float, float]) -> Array:
    return np.array(logits, np.float32)


FLAT, UP = (0.0, 0.0), (20.0, 20.0)


def test_parity_compares_the_best_spans() -> None:
    first, last = rows(FLAT, UP, FLAT, FLAT), rows(FLAT, FLAT, FLAT, UP)
    both = rows(FLAT, (20.0, 0.0), (0.0, 20.0), FLAT)
    none = rows(UP, FLAT, FLAT, FLAT)
    parity = TASK.parity([first, first, first, none], [first, both, last, none], MANIFEST)
    assert parity["exact_match"] == 0.5
    assert parity["span_f1"] == pytest.approx((1 + 2 / 3 + 0 + 1) / 4)
    assert parity["score_mean"] == pytest.approx(1 - (0 + 1 + 1 + 0) / 4, abs=1e-6)
    # no answer counts as one
    assert TASK.parity([none], [first], MANIFEST)["exact_match"] == 0.0
    nameless = replace(MANIFEST, facts={"null_id": None})
    assert TASK.parity([none], [rows(UP, FLAT, FLAT, FLAT)], nameless)["exact_match"] == 1.0


def test_the_probe_keeps_the_context() -> None:
    ids = np.array([2, 7, 8, 3, 9, 10, 3])
    output = np.arange(14, dtype=np.float32).reshape(7, 2)
    assert question_answering.probe(ids, output)[:, 0].tolist() == [0, 8, 10]
    # two separators between the texts
    assert question_answering.probe(np.array([0, 7, 2, 2, 9, 2]), output[:6])[:, 0].tolist() == [0, 8]
    # one text alone
    assert question_answering.probe(np.array([2, 7, 8, 3]), output[:4])[:, 0].tolist() == [0, 2, 4]

"""huggingface_hub's clients against every task that they know, at a server and at Lambda: what comes back is what the rigs say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from huggingface_hub.errors import HfHubHTTPError, TextGenerationError

from support.clients import DOORS, KINDS, LONG, Doors, agree, hugging_face, sigmoid, softmax


@dataclass(frozen=True)
class Case:
    """A call and its answer; of the answer's objects only the members `seen`, where some are named."""

    artifact: str
    method: str
    arguments: tuple[Any, ...]
    wanted: Any
    options: Mapping[str, Any] = field(default_factory=dict)
    seen: tuple[str, ...] = ()

    def __str__(self) -> str:
        said = "-".join(f"{name}={str(value)[:24]}" for name, value in self.options.items())
        return f"{self.artifact}-{self.method}" + (f"-{said}" if said else "")


def cases(artifact: str, method: str, *rows: tuple[Any, ...]) -> list[Case]:
    return [Case(artifact, method, *row) for row in rows]


def ranking(*pairs: tuple[str, float]) -> list[dict[str, Any]]:
    return [{"label": label, "score": score} for label, score in pairs]


def entity(group: str, score: float, word: str, start: int) -> dict[str, Any]:
    return {"entity_group": group, "score": score, "word": word, "start": start, "end": start + len(word)}


def found(score: float, start: int, answer: str) -> dict[str, Any]:
    return {"answer": answer, "end": start + len(answer), "score": score, "start": start}


POSITIVE, NEGATIVE = softmax(3.0, -2.0)
CLASSES = [
    *cases(
        "labels",
        "text_classification",
        (("good",), ranking(("POSITIVE", POSITIVE), ("NEGATIVE", NEGATIVE))),
        (("bad",), ranking(("NEGATIVE", softmax(4.0, -1.0)[0])), {"top_k": 1}),
        (("good",), ranking(("POSITIVE", POSITIVE), ("NEGATIVE", NEGATIVE)), {"top_k": 2}),
        (("good",), ranking(("POSITIVE", 3.0), ("NEGATIVE", -2.0)), {"function_to_apply": "none"}),
        (("good",), ranking(("POSITIVE", sigmoid(3.0)), ("NEGATIVE", sigmoid(-2.0))), {"function_to_apply": "sigmoid"}),
        (("good bad",), ranking(("NEGATIVE", 0.5), ("POSITIVE", 0.5)), {"function_to_apply": "softmax"}),
    ),
    # one label has no other to share with: never 1.0 for every text
    *cases("score", "text_classification", (("good",), ranking(("LABEL_0", 0.574443)))),
]

# a sure token's share beside four labels at zero; and what is left for a token that no label is sure of
SURE, UNSURE = softmax(8.0, 0.0, 0.0, 0.0, 0.0)[0], 0.2
SENTENCE = "🦊 Maria Gonzalez lives in Springfields"
PERSON = entity("PER", SURE, "Maria Gonzalez", 2)
FAR = "in " * 90
ENTITIES = [
    *cases(
        "tags",
        "token_classification",
        ((SENTENCE,), [PERSON, entity("LOC", SURE, "Springfield", 26)]),
        ((SENTENCE,), [PERSON, entity("LOC", SURE, "Springfield", 26)], {"aggregation_strategy": "simple"}),
        ((SENTENCE,), [PERSON, entity("LOC", SURE, "Springfields", 26)], {"aggregation_strategy": "first"}),
        ((SENTENCE,), [PERSON, entity("LOC", SURE, "Springfields", 26)], {"aggregation_strategy": "max"}),
        ((SENTENCE,), [PERSON, entity("LOC", (SURE + UNSURE) / 2, "Springfields", 26)], {"aggregation_strategy": "average"}),
        (("in Springfield",), [entity("LOC", SURE, "Springfield", 3)], {"ignore_labels": ["O", "PER"]}),
        (("Maria in Springfield",), [entity("PER", SURE, "Maria", 0), entity("O", SURE, "in", 6)], {"ignore_labels": ["LOC"]}),
        ((FAR + "Maria Gonzalez",), [entity("PER", SURE, "Maria Gonzalez", len(FAR))], {"stride": 9}),
    ),
    Case(
        "tags",
        "token_classification",
        ("Maria in",),
        [{"entity": "B-PER", "score": SURE, "word": "Maria", "start": 0, "end": 5}],
        {"aggregation_strategy": "none"},
        ("entity", "score", "word", "start", "end"),
    ),
]

CONTEXT, QUESTION = "Maria hello world Springfield", "Where does she live?"
STARTS, ENDS = 3 + math.e + math.exp(6), 4 + math.exp(6)  # of "no answer" and four words: 0 1 0 0 6, and 0 0 0 0 6
BEST = found(math.exp(6 + 6) / STARTS / ENDS, 18, "Springfield")
LATE, STRETCHED = FAR * 3 + "Springfield", "Springfields"
PLACED = ("answer", "start", "end")
ANSWERS = [
    *cases(
        "answers",
        "question_answering",
        ((QUESTION, CONTEXT), BEST),
        ((QUESTION, CONTEXT), [BEST, found(math.exp(1 + 6) / STARTS / ENDS, 0, CONTEXT)], {"top_k": 2}),
        ((QUESTION, CONTEXT), [BEST, found(math.exp(1) / STARTS / ENDS, 0, "Maria")], {"top_k": 2, "max_answer_len": 1}),
        # of two tokens each has half: a word, and the place that means "none"
        (("Who?", "hello"), [found(0.25, 0, "hello"), found(0.25, 0, "")], {"top_k": 2, "handle_impossible_answer": True}),
        (("Who?", "hello"), [found(0.25, 0, "hello")], {"top_k": 2, "handle_impossible_answer": False}),
        ((QUESTION, LATE), found(0.0, len(FAR) * 3, "Springfield"), {}, PLACED),
        ((QUESTION, LATE), found(0.0, len(FAR) * 3, "Springfield"), {"doc_stride": 20, "max_seq_len": 40}, PLACED),
        (("where " * 90, CONTEXT), found(0.0, 18, "Springfield"), {"max_question_len": 8}, PLACED),
        ((QUESTION, STRETCHED), found(0.0, 0, STRETCHED), {"align_to_words": True}, PLACED),
        ((QUESTION, STRETCHED), found(0.0, 0, "Springfield"), {"align_to_words": False}, PLACED),
    ),
]

VOCABULARY = 5 + 8 + 36 + 35 + 32  # special tokens, words, letters and digits, these inside words, punctuation
FILLED = dict(zip(("guitar", "piano", "drum"), softmax(5.0, 4.0, 3.0, 2.0, *[0.0] * (VOCABULARY - 4)), strict=False))
GUITAR, PIANO, DRUM = (
    {"score": FILLED[word], "sequence": f"hello {word} world", "token": token, "token_str": word}
    for word, token in (("guitar", 5), ("piano", 6), ("drum", 7))
)
MASKS = cases(
    "masks",
    "fill_mask",
    (("hello [MASK] world",), [GUITAR, PIANO], {"top_k": 2}),
    (("hello [MASK] world",), [PIANO, DRUM], {"targets": ["drum", "piano"]}),
    (("hello [MASK] world",), [PIANO], {"targets": ["drum", "piano"], "top_k": 1}),
)

# "a text" and "This example is LABEL." have seven tokens, whose mean counts; "a text" and "LABEL" have three
TOPICS = ["politics", "music", "cooking"]
SHARES = softmax(6 / 7, 4 / 7, -4 / 7)
CHOICES = cases(
    "choices",
    "zero_shot_classification",
    (("a text", TOPICS), ranking(*zip(("music", "cooking", "politics"), SHARES, strict=True))),
    (
        ("a text", TOPICS),
        ranking(*zip(("music", "cooking", "politics"), softmax(2.0, 4 / 3, -4 / 3), strict=True)),
        {"hypothesis_template": "{}"},
    ),
    (
        ("a text", TOPICS),
        ranking(("music", sigmoid(8 / 7)), ("cooking", sigmoid(4 / 7)), ("politics", sigmoid(-8 / 7))),
        {"multi_label": True},
    ),
    (("a text", ["sport"]), ranking(("sport", sigmoid(2 / 7))), {"multi_label": True}),
    (("a text", ["sport"]), ranking(("sport", 1.0))),
)

EAST, NORTH, UP = [1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]
CUT = {"truncate": True}
VECTORS = [
    *cases(
        "vectors",
        "feature_extraction",
        (("east",), [EAST]),
        ((["north", "east"],), [NORTH, EAST]),
        (("east north",), [[2**-0.5, 2**-0.5, 0.0, 0.0]], {"normalize": True}),
        (("east up",), [[1.0, 0.0]], {"dimensions": 2}),
        (("east",), [EAST], {"encoding_format": "float"}),
        (("east " * 90 + "north " * 90,), [EAST], CUT),
        (("east " * 90 + "north " * 90,), [EAST], {**CUT, "truncation_direction": "right"}),
        (("east " * 90 + "north " * 90,), [NORTH], {**CUT, "truncation_direction": "left"}),
    ),
    *cases(
        "raw",
        "feature_extraction",
        (("up",), [[0.0, 0.0, 3.0, 0.0]]),
        (("up",), [[0.0, 0.0, 3.0, 0.0]], {"normalize": False}),
        (("up",), [UP], {"normalize": True}),
        (("up",), [[0.0, 0.5, 1.5, 0.0]], {"prompt_name": "query"}),
        (("up",), [[0.0, 0.0, 3.0, 0.0]], {"prompt_name": "document"}),
    ),
    *cases("similar", "feature_extraction", (("up",), [UP])),
    *(
        Case(artifact, "sentence_similarity", ("east",), [-1.0, 0.0, 1.0], {"other_sentences": ["west", "up", "east"]})
        for artifact in ("vectors", "similar", "raw")
    ),
]

SAID = "and so it goes on."
TEXTS = [
    *cases(
        "goes-on",
        "text_generation",
        (("x",), SAID),
        (("x",), SAID[:6], {"max_new_tokens": 6}),
        (("x",), f"x{SAID}", {"return_full_text": True}),
        (("x",), SAID[:7], {"stop": ["it"]}),
    ),
    *cases(
        "summary",
        "summarization",
        (("A long text.",), {"summary_text": SAID}),
        (("A long text.",), {"summary_text": SAID[:6]}, {"generate_parameters": {"max_new_tokens": 6}}),
    ),
    *cases("translated", "translation", (("A text.",), {"translation_text": SAID})),
]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", [*CLASSES, *ENTITIES, *ANSWERS, *MASKS, *CHOICES, *VECTORS, *TEXTS], ids=str)
def test_the_official_client_gets_the_right_answer(doors: Doors, door: str, kind: str, case: Case) -> None:
    answer = hugging_face(kind, doors.url(door, case.artifact), case.method, *case.arguments, **case.options)
    wanted = case.wanted
    if case.seen:
        answer, wanted = only(answer, case.seen), only(wanted, case.seen)
    agree(answer, wanted)


def only(answer: Any, seen: tuple[str, ...]) -> Any:
    """The answer's objects without their other members."""
    return [only(one, seen) for one in answer] if isinstance(answer, list) else {name: answer[name] for name in seen}


REFUSED = [
    Case("labels", "text_classification", (LONG,), "inputs: the text has 102 tokens, the limit is 64"),
    Case("labels", "text_classification", ("good",), "parameters.top_k: is 0; it must be at least 1.", {"top_k": 0}),
    Case("labels", "text_classification", ("good",), "parameters.function_to_apply: is 'tanh'", {"function_to_apply": "tanh"}),
    Case("labels", "text_classification", ("",), "inputs: is empty."),
    Case("tags", "token_classification", (LONG,), "inputs: the text has 102 tokens, the limit is 64"),
    Case("tags", "token_classification", ("x",), "parameters.aggregation_strategy: is 'best'", {"aggregation_strategy": "best"}),
    Case("answers", "question_answering", (QUESTION, ""), "inputs.context: is empty."),
    Case("answers", "question_answering", ("where " * 90, CONTEXT), "inputs.question: has 90 tokens; beside the 3 special ones"),
    Case("answers", "question_answering", (QUESTION, LATE), "inputs.question: leaves 48 tokens of a window", {"doc_stride": 60}),
    Case("answers", "question_answering", (QUESTION, CONTEXT), "parameters.max_seq_len: is 99; this model reads 64", {"max_seq_len": 99}),
    Case("masks", "fill_mask", ("hello <mask>",), "inputs: has no mask; this model's is [MASK]."),
    Case("choices", "zero_shot_classification", ("x", []), "parameters.candidate_labels: has no label"),
    Case(
        "choices",
        "zero_shot_classification",
        ("x", ["a"]),
        "parameters.hypothesis_template: must have {} once",
        {"hypothesis_template": "so"},
    ),
    Case("vectors", "feature_extraction", (["east", LONG],), "inputs[1]: the text has 102 tokens, the limit is 64"),
    Case("vectors", "feature_extraction", ("east",), "normalize: cannot be false", {"normalize": False}),
    Case("raw", "feature_extraction", ("east",), "prompt_name: is 'question'", {"prompt_name": "question"}),
    Case("vectors", "sentence_similarity", ("east",), "inputs.sentences: must be a list of at least one text.", {"other_sentences": []}),
]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_what_the_official_client_should_not_send_is_its_error_with_our_words(doors: Doors, door: str, kind: str, case: Case) -> None:
    with pytest.raises(HfHubHTTPError) as raised:
        hugging_face(kind, doors.url(door, case.artifact), case.method, *case.arguments, **case.options)
    assert raised.value.response.status_code == 422
    assert raised.value.response.json()["error"].startswith(case.wanted)
    assert case.wanted in str(raised.value)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", KINDS)
def test_of_generated_text_the_official_client_has_errors_of_its_own(doors: Doors, door: str, kind: str) -> None:
    with pytest.raises(TextGenerationError, match=r"parameters.max_new_tokens: is 512; it must be from 1 to 511\."):
        hugging_face(kind, doors.url(door, "goes-on"), "text_generation", "x", max_new_tokens=512)


@pytest.mark.parametrize("door", DOORS)
def test_the_official_client_learns_what_is_served(doors: Doors, door: str) -> None:
    url = doors.url(door, "vectors")
    facts = hugging_face("sync", url, "get_endpoint_info")
    assert (facts["model_id"], facts["max_input_length"], facts["dimensions"]) == ("rigged/tiny", 64, 4)
    assert hugging_face("sync", url, "health_check") is True

"""Objects of texts through the tasks over pairs and masks: one question, or one query, for every text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hotfoot.bulk import answers
from hotfoot.bulk.answers import prepare
from hotfoot.contract.bulk import BulkOptions
from hotfoot.contract.errors import InputError
from support.bulk import lines, run
from support.serving import model, opened


def test_one_question_is_asked_of_every_text() -> None:
    work = prepare(model("question-answering"), BulkOptions(parameters={"question": "Where?"}))
    outcome, found = run(b"in Paris\n\nMaria lives in Springfield\n", work=work)
    assert [(r["line"], r["prediction"]["answer"], r["prediction"]["start"]) for r in lines(found)] == [
        (1, "Paris", 3),
        (3, "Springfield", 15),
    ]
    single = model("question-answering").predict({"question": "Where?", "context": "in Paris"})
    assert lines(found)[0]["prediction"] == json.loads(json.dumps(single.answer))
    assert outcome.sums.texts == 2


def test_a_long_text_is_read_in_windows_whatever_is_asked_of_others() -> None:
    text = (" ".join(map(str, range(100, 200))) + " Springfield").encode()
    for options in ({}, {"truncate": True}, {"stride": 4}):
        work = prepare(model("question-answering"), BulkOptions(parameters={"question": "Where?"}, **options))
        _, found = run(text, work=work)
        assert lines(found)[0]["prediction"]["answer"] == "Springfield"


def test_a_text_of_too_many_windows_is_an_error_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "TEXT_TOKENS", 400)
    work = prepare(model("question-answering"), BulkOptions(parameters={"question": "Where?"}))
    _, found = run(b"in Paris\n" + b"hello " * 300, work=work)
    good, bad = lines(found)
    assert good["prediction"]["answer"] == "Paris"
    assert bad["error"] == {"kind": "too_large", "message": "the text has 302 tokens, 200 is the most"}


def test_every_text_gets_its_score_for_one_query() -> None:
    work = prepare(model("text-ranking"), BulkOptions(parameters={"query": "query", "function_to_apply": "none"}))
    _, found = run(b"guitar\nmarket\n", work=work)
    assert [r["prediction"] for r in lines(found)] == [pytest.approx(20.0), pytest.approx(-7.2)]


def test_masks_are_filled_and_a_text_without_one_is_an_error() -> None:
    work = prepare(model("fill-mask"), BulkOptions(parameters={"top_k": 1}))
    _, found = run(b"a [MASK]\nnice\n[MASK] [MASK]\n", work=work)
    first, second, third = lines(found)
    assert [f["token_str"] for f in first["prediction"]] == ["guitar"]
    assert second["error"]["message"] == "has no mask; this model's is [MASK]."
    assert [[f["token_str"] for f in ranking] for ranking in third["prediction"]] == [["guitar"], ["guitar"]]


def test_every_text_gets_the_same_labels() -> None:
    asked = {"candidate_labels": ["politics", "music", "cooking"]}
    work = prepare(model("zero-shot-classification"), BulkOptions(parameters=asked))
    _, found = run(b"a text\nhello world\n", work=work)
    for record, text in zip(lines(found), ("a text", "hello world"), strict=True):
        assert [r["label"] for r in record["prediction"]] == ["music", "cooking", "politics"]
        alone = model("zero-shot-classification").predict(text, asked)
        assert record["prediction"] == json.loads(json.dumps(alone.answer))


def test_labels_given_at_build_time_need_not_be_said(tmp_path: Path) -> None:
    built = opened(tmp_path, "zero-shot-classification", facts={"candidate_labels": ["politics", "music"]})
    _, found = run(b"a text\n", work=prepare(built, BulkOptions()))
    assert [r["label"] for r in lines(found)[0]["prediction"]] == ["music", "politics"]


@pytest.mark.parametrize(
    ("task", "name", "said"),
    [
        ("question-answering", "question", "one question"),
        ("text-ranking", "query", "one query"),
        ("zero-shot-classification", "candidate_labels", "the same labels"),
    ],
)
def test_what_is_asked_of_all_must_be_said(task: str, name: str, said: str) -> None:
    with pytest.raises(InputError, match=rf"parameters\.{name}: is missing: {task} puts {said} to every text"):
        prepare(model(task), BulkOptions())

"""Places in a text, and what becomes of odd ones, as clients see it: code points of the text as it was sent, on every route."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from hotfoot.bulk.answers import prepare
from hotfoot.contract.bulk import BulkOptions
from hotfoot.observe import Record
from support.bulk import lines, run
from support.serving import client, model, opened
from support.tagging import STRATEGIES, decoded, sound, spans

FAMILY = "👨‍👩‍👧 in Paris"  # five code points, eight units of UTF-16, eighteen bytes; then the rest
TAGGED = {"cafe": (0.0, 8.0, 0.0, 0.0, 0.0), "in": (0.0, 0.0, 8.0, 0.0, 0.0), "paris": (0.0, 0.0, 0.0, 8.0, 0.0)}


def test_accents_apart_and_together_in_one_request(tmp_path: Path) -> None:
    apart, together = "cafe\u0301 in Paris", "caf\u00e9 in Paris"
    http = client(opened(tmp_path, "token-classification", words=TAGGED))
    body = {"inputs": [apart, together], "parameters": {"aggregation_strategy": "none"}}
    first, second = http.post("/", json=body).json()
    assert [(e["entity"], e["start"], e["end"]) for e in first[1:]] == [("I-PER", 6, 8), ("B-LOC", 9, 14)]
    assert [(e["entity"], e["start"], e["end"]) for e in second] == [("B-PER", 0, 4), ("I-PER", 5, 7), ("B-LOC", 8, 13)]
    assert (first[0]["entity"], first[0]["start"], first[0]["end"] in (4, 5)) == ("B-PER", 0, True)
    for text, entities in ((apart, first), (together, second)):
        assert all(text[e["start"] : e["end"]] == e["word"] for e in entities)
    assert http.post("/", json={**body, "inputs": apart}).json() == first


def test_entities_answers_and_bulk_results_count_alike(tmp_path: Path) -> None:
    tags, answers = opened(tmp_path, "token-classification", words=TAGGED), model("question-answering")
    (entity,) = [e for e in client(tags).post("/", json={"inputs": FAMILY}).json() if e["entity_group"] == "LOC"]
    answer = client(answers).post("/", json={"inputs": {"question": "Where?", "context": FAMILY}}).json()
    _, in_bulk = run(FAMILY.encode(), work=prepare(tags, BulkOptions()))
    _, asked_in_bulk = run(FAMILY.encode(), work=prepare(answers, BulkOptions(parameters={"question": "Where?"})))
    tokens = client(tags).post("/tokenize", json={"inputs": FAMILY}).json()[0]
    found = [entity, answer, lines(in_bulk)[0]["prediction"][-1], lines(asked_in_bulk)[0]["prediction"]]
    assert [(f["start"], f["end"]) for f in found] == [(9, 14)] * 4
    assert (tokens[-2]["start"], tokens[-2]["stop"]) == (9, 14)


@pytest.mark.parametrize("strategy", STRATEGIES[1:])
def test_characters_that_become_several_shift_nothing(strategy: str) -> None:
    # each … is three dots to the tokenizer
    text = "Société……… Paris"
    entities = decoded("unigram", text, [*["B-PER"] * 17, "B-LOC"], strategy)
    assert spans(entities)[-1] == ("LOC", 11, 16)
    assert all(a < b for _, a, b in spans(entities))
    sound(text, entities)


def test_a_word_of_ten_thousand_letters_is_answered_at_once(tmp_path: Path) -> None:
    records: list[Record] = []
    vectors = client(opened(tmp_path / "vectors", "feature-extraction", max_tokens=512), report=records.append)
    labels = client(opened(tmp_path / "labels", "text-classification", max_tokens=512))
    words = ["a" * 100, "a" * 101, "a" * 10_000, "b" * 10_000]
    assert [len(t) for t in vectors.post("/tokenize", json={"inputs": words}).json()] == [102, 3, 3, 3]
    started = time.perf_counter()
    found: Any = vectors.post("/embed", json={"inputs": words})
    classes = labels.post("/predict", json={"inputs": [[word] for word in words]})
    assert time.perf_counter() - started < 1
    assert (found.status_code, classes.status_code) == (200, 200)
    assert found.headers["x-compute-tokens"] == classes.headers["x-compute-tokens"] == str(102 + 3 + 3 + 3)
    # to WordPiece all words past a hundred letters are the same unknown one
    assert found.json()[1] == found.json()[2] == found.json()[3] != found.json()[0]
    # which the log and the metrics tell
    assert [r.unknown for r in records if r.route == "/embed"] == [3]

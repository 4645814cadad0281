"""Whole objects through real artifacts: every record once, in order, whatever crashes; and no text where none belongs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hotfoot.bulk.answers import prepare
from hotfoot.contract.bulk import BulkOptions
from hotfoot.contract.errors import HotfootError, InputError, TooLargeError, UnsupportedError
from support.bulk import SENTENCES, lines, run, work_of
from support.objects import MemoryResults
from support.serving import model, opened

LETTERS = Path(__file__).parents[1] / "fixtures" / "letters"


def test_an_object_becomes_records_and_a_report() -> None:
    results = MemoryResults()
    outcome, found = run(b"good\n\nbad\n", results)
    digest, options = model("text-classification").manifest.digest, BulkOptions()
    assert list(results.objects.files("results")) == [
        f"results/tiny/{digest[:12]}/in/a.txt/v1/{name}" for name in ("_report.json", "part-00000.jsonl")
    ]
    first, second = lines(found)
    assert first["line"] == 1
    assert second["line"] == 3
    wanted = model("text-classification").predict(["good"]).answer[0]
    assert first == {"line": 1, "prediction": wanted, "digest": digest[:12], "options": options.fingerprint}
    report = json.loads(found["_report.json"])
    part = {"name": "part-00000.jsonl", "records": 2, "bytes": len(found["part-00000.jsonl"]), "errors": {}}
    assert report["parts"] == [part]
    assert {k: report[k] for k in ("status", "bucket", "key", "version", "digest", "records", "failed")} == {
        "status": "done", "bucket": "texts", "key": "in/a.txt", "version": "v1", "digest": digest, "records": 2, "failed": 0,
    }  # fmt: skip
    assert (outcome.status, outcome.sums.texts, outcome.report.records) == ("done", 2, 2)
    assert outcome.sums.characters == 7


@pytest.mark.parametrize("task", ["text-classification", "token-classification", "feature-extraction"])
def test_answers_are_those_of_single_calls(task: str) -> None:
    texts = ["Maria lives in Springfield", "hello", "up east", "Maria Gonzalez", "x", *SENTENCES]
    _, found = run("\n".join(texts).encode(), work=work_of(task))
    for record, text in zip(lines(found), texts, strict=True):
        [single] = model(task).predict([text]).answer
        assert record["prediction"] == json.loads(json.dumps(single, default=lambda a: a.tolist())) or record[
            "prediction"
        ] == pytest.approx(single.tolist(), rel=1e-6)


def test_ids_are_repeated() -> None:
    body = b'{"text": "good", "id": "a"}\n{"text": "bad"}\n{"text": "bad", "id": 7}\n'
    _, found = run(body, work=work_of("text-classification", id_field="id"), key="a.jsonl")
    assert [r.get("id") for r in lines(found)] == ["a", None, 7]


@pytest.mark.parametrize("mask", [False, True])
def test_an_error_record_can_be_found_again(mask: bool) -> None:
    rows = [{"text": "", "id": "a"}, {"id": 7}, {"text": 5, "id": "b"}, {"text": ""}, {"text": "Maria", "id": "c"}]
    body = b"\n".join(json.dumps(row).encode() for row in rows) + b"\nnot json"
    _, found = run(body, work=work_of("token-classification", mask=mask, id_field="id"), key="a.jsonl")
    made = lines(found)
    assert [("error" in r, r.get("id")) for r in made] == [
        (True, "a"), (True, 7), (True, "b"), (True, None), (False, "c"), (True, None),
    ]  # fmt: skip
    assert json.loads(found["_report.json"])["errors"] == {"input": 5}


def test_an_id_that_is_the_text_is_in_no_error_record() -> None:
    body = b'{"text": "good"}\n' + json.dumps({"text": "canary " * 70}).encode()
    _, found = run(body, work=work_of("text-classification", id_field="text"), key="a.jsonl")
    assert [r.get("id") for r in lines(found)] == ["good", None]
    assert b"canary" not in b"".join(found.values())


def test_bad_records_leave_their_neighbours_alone() -> None:
    long = "good " * 70
    rows = [{"text": "good"}, {"text": ""}, {"text": long}, {"text": 5}, {"text": "bad"}, {"text": long}]
    body = b"\n".join(json.dumps(row).encode() for row in rows) + b"\nnot json\n\xff\n" + b'{"text": "good"}'
    _, found = run(body, key="a.jsonl")
    made = lines(found)
    assert [r["line"] for r in made] == list(range(1, 10))
    assert [r["line"] for r in made if "prediction" in r] == [1, 5, 9]
    assert made[2] == {
        "line": 3,
        "error": {"kind": "input", "message": "the text has 72 tokens, the limit is 64, special tokens included."},
        "digest": model("text-classification").manifest.digest[:12],
        "options": BulkOptions().fingerprint,
    }
    assert {r["digest"] for r in made} == {made[2]["digest"]}
    assert made[0]["prediction"] == made[8]["prediction"] == model("text-classification").predict(["good"]).answer[0]
    report = json.loads(found["_report.json"])
    assert (report["records"], report["failed"], report["errors"]) == (9, 6, {"input": 6})


def test_long_texts() -> None:
    long = ("word " * 80 + "Maria").encode()
    _, refused = run(long)
    assert "error" in lines(refused)[0]
    _, cut = run(long, work=work_of("text-classification", truncate=True))
    assert "prediction" in lines(cut)[0]
    for options in ({}, {"truncate": True}, {"stride": 8}, {"stride": 0}, {"mask": True}):
        _, found = run(long, work=work_of("token-classification", **options))
        [person] = lines(found)[0]["prediction"]
        assert (person["start"], person["end"]) == (400, 405)
    plain = prepare(model("token-classification"), BulkOptions(parameters={"aggregation_strategy": "none"}))
    _, found = run(long, work=plain)
    assert "error" in lines(found)[0]


def test_what_the_model_cannot_do_is_said_before_the_first_object() -> None:
    classify, tag = model("text-classification"), model("token-classification")
    with pytest.raises(UnsupportedError, match="mask needs entities"):
        prepare(classify, BulkOptions(mask=True))
    with pytest.raises(UnsupportedError, match="no bulk form"):
        prepare(model("sentence-similarity"), BulkOptions())
    with pytest.raises(InputError, match=r"parameters\.aggregation_strategy"):
        prepare(tag, BulkOptions(mask=True, parameters={"aggregation_strategy": "none"}))
    with pytest.raises(InputError, match=r"parameters\.stride"):
        prepare(tag, BulkOptions(stride=62))
    with pytest.raises(InputError, match=r"parameters\.stride"):
        prepare(classify, BulkOptions(stride=4))
    with pytest.raises(InputError, match=r"parameters\.top"):
        prepare(classify, BulkOptions(parameters={"top": 1}))


def test_a_small_model_gets_a_small_stride(tmp_path: Path) -> None:
    assert prepare(opened(tmp_path, "token-classification", max_tokens=16), BulkOptions()).parameters == {"stride": 4}


def test_numbers_that_are_not_finite_are_error_records(tmp_path: Path) -> None:
    broken = opened(tmp_path, "text-classification", words={"good": (1.0, 2.0), "bad": (float("nan"), 0.0)})
    _, found = run(b"good\nbad\ngood", work=prepare(broken, BulkOptions()))
    assert ["error" in r for r in lines(found)] == [False, True, False]
    assert lines(found)[1]["error"] == {"kind": "internal", "message": "the model gave a number that is not finite"}


@pytest.mark.parametrize(("refusal", "kind"), [(InputError, "input"), (TooLargeError, "too_large")])
def test_a_task_that_refuses_late_and_quotes(refusal: type[HotfootError], kind: str) -> None:
    own = model("text-classification")

    def decode(request: Any, encoded: Any, outputs: Any, manifest: Any) -> Any:
        if any("canary" in text for text in request.texts):
            raise refusal(f"cannot take {request.texts}")
        return own.task.decode(request, encoded, outputs, manifest)

    picky = replace(own, task=replace(own.task, name="mine", decode=decode))
    _, found = run(b"good\ncanary\nbad", work=prepare(picky, BulkOptions()))
    assert [r.get("error", {}).get("kind") for r in lines(found)] == [None, kind, None]
    assert b"canary" not in b"".join(found.values())


class TestMask:
    def test_offsets_are_of_the_text_as_it_was(self) -> None:
        text = "👨\u200d👩\u200d👧 cafe\u0301 Maria Gonzalez lives in Springfield."
        _, found = run(text.encode(), work=work_of("token-classification", mask=True))
        [record] = lines(found)
        assert record["text"] == "👨\u200d👩\u200d👧 cafe\u0301 [PER] lives in [LOC]."
        assert [set(e) for e in record["prediction"]] == [{"entity_group", "score", "start", "end"}] * 2
        assert [text[e["start"] : e["end"]] for e in record["prediction"]] == ["Maria Gonzalez", "Springfield"]

    @pytest.mark.parametrize("whole", [False, True])
    def test_letters(self, whole: bool) -> None:
        work = work_of("token-classification", mask=True, whole=whole)
        for letter in sorted(LETTERS.glob("*.txt")):
            body = letter.read_bytes()
            outcome, found = run(body, work=work, key=letter.name)
            text = body.decode()
            everything = b"".join(found.values()).decode()
            assert outcome.report.failed == 0
            assert not any(name in everything for name in ("Maria", "Gonzalez", "Springfield"))
            wanted = text if whole else [line for line in text.splitlines() if line.strip()]
            kept = [r["text"].replace("[PER]", "\0").replace("[LOC]", "\0") for r in lines(found)]
            assert len(kept) == (1 if whole else len(wanted))
            for record, original in zip(lines(found), [text] if whole else wanted, strict=True):
                assert record["text"].count("[") == len(record["prediction"])
                assert all(
                    original[e["start"] : e["end"]] in ("Maria", "Gonzalez", "Maria Gonzalez", "Springfield") for e in record["prediction"]
                )


def test_canaries() -> None:
    """A secret in every place where a text can be wrong: it is in no output."""
    bad = [
        '{"text": "canary"', '{"text": ["canary"]}', '{"canary": 5}', '"canary"', "canary", '{"text": "canary", "id": ["canary"]}',
        '{"text": "canary \\ud800"}', json.dumps({"text": "canary " * 70}), '{"text": "", "id": "k-7"}',
    ]  # fmt: skip
    body = "\n".join(bad).encode() + b'\n{"text": "canary \xff"}\n'
    options = BulkOptions(id_field="id", parameters={"aggregation_strategy": "none"})
    _, found = run(body, work=prepare(model("token-classification"), options), key="a.jsonl")
    assert [set(r) - {"id"} for r in lines(found)] == [{"line", "error", "digest", "options"}] * 10
    assert [r["id"] for r in lines(found) if "id" in r] == ["k-7"]
    assert b"canary" not in b"".join(found.values())
    # and with mask, a right text shows only what no entity covers
    _, found = run(b"canary Maria\n", work=work_of("token-classification", mask=True))
    assert b"canary [PER]" in found["part-00000.jsonl"]
    assert b"canary" not in found["_report.json"]


class TestRejected:
    def test_other_names(self) -> None:
        results = MemoryResults()
        outcome, found = run(b"good", results, key="in/a.csv")
        assert outcome.status == "rejected"
        assert list(found) == ["_report.json"]
        assert json.loads(found["_report.json"])["reason"].startswith("only .txt and .jsonl")
        assert run(b"good", results, key="in/a.csv")[0].status == "already"

    def test_long_keys_are_whole_in_the_report(self) -> None:
        key = "in/" + "ü" * 505 + ".txt"
        results = MemoryResults()
        _, found = run(b"good", results, key=key)
        assert json.loads(found["_report.json"])["key"] == key
        assert all(len(made.encode()) <= 1024 for made in results.objects.files("results"))

    def test_empty_objects(self) -> None:
        for body in (b"", b"\n\n"):
            outcome, found = run(body)
            assert (outcome.status, outcome.report.records, list(found)) == ("done", 0, ["_report.json"])

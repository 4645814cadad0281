"""Whole objects through real artifacts: every record once, in order, whatever crashes; and no text where none belongs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hotfoot.bulk import readers
from hotfoot.bulk.answers import Work, prepare
from hotfoot.bulk.pipeline import Deadline, GoneError, Outcome, OutOfTimeError, Source, process
from hotfoot.bulk.report import Origin
from hotfoot.contract.bulk import BulkOptions
from hotfoot.contract.errors import ArtifactError, InputError, UnsupportedError
from support.objects import CrashError, MemoryResults, Objects
from support.serving import model, opened

LETTERS = Path(__file__).parents[1] / "fixtures" / "letters"
SENTENCES = ("good", "bad word", "fine text", "hello", "bad bad good", "word " * 9)


@cache
def work_of(task: str, **options: Any) -> Work:
    return prepare(model(task), BulkOptions(**options))


def run(
    body: bytes,
    results: MemoryResults | None = None,
    *,
    work: Work | None = None,
    key: str = "in/a.txt",
    version: str = "v1",
    deadline: Deadline | None = None,
) -> tuple[Outcome, dict[str, bytes]]:
    results = results or MemoryResults()
    chunks = iter([body[:7], body[7:]])
    outcome = process(
        work or work_of("text-classification"), Source(Origin("texts", key, version), chunks), results, "results", deadline=deadline
    )
    return outcome, files(results)


def files(results: MemoryResults) -> dict[str, bytes]:
    return {key.rpartition("/")[2]: body for key, body in results.objects.files("results").items()}


def lines(found: Mapping[str, bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for name, body in sorted(found.items()) if name.startswith("part-") for line in body.splitlines()]


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
    }
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


def test_a_task_that_refuses_late_and_quotes() -> None:
    own = model("text-classification")

    def decode(request: Any, encoded: Any, outputs: Any, manifest: Any) -> Any:
        if any("canary" in text for text in request.texts):
            raise InputError(f"cannot take {request.texts}")
        return own.task.decode(request, encoded, outputs, manifest)

    picky = replace(own, task=replace(own.task, name="mine", decode=decode))
    _, found = run(b"good\ncanary\nbad", work=prepare(picky, BulkOptions()))
    assert ["error" in r for r in lines(found)] == [False, True, False]
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
        '{"text": "canary \\ud800"}', json.dumps({"text": "canary " * 70}), '{"text": "", "id": "canary"}',
    ]  # fmt: skip
    body = "\n".join(bad).encode() + b'\n{"text": "canary \xff"}\n'
    options = BulkOptions(id_field="id", parameters={"aggregation_strategy": "none"})
    _, found = run(body, work=prepare(model("token-classification"), options), key="a.jsonl")
    assert [("error" in r, set(r)) for r in lines(found)] == [(True, {"line", "error"})] * 10
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


class TestAgain:
    def test_the_second_time_nothing_is_read(self) -> None:
        results = MemoryResults()
        first, found = run(b"good\nbad", results)

        read: list[bytes] = []
        chunks = (read.append(chunk) or chunk for chunk in [b"good\nbad"])  # type: ignore[func-returns-value]
        again = process(work_of("text-classification"), Source(Origin("texts", "in/a.txt", "v1"), chunks), results, "results")
        assert read == []
        assert (again.status, again.report) == ("already", first.report)
        assert files(results) == found

    def test_a_new_version_is_processed(self) -> None:
        results = MemoryResults()
        run(b"good", results)
        outcome, _ = run(b"bad", results, version="v2")
        assert outcome.status == "done"
        assert len(results.objects.files("results")) == 4

    @pytest.mark.parametrize("crash", [None, 1])
    def test_other_options_do_not_mix(self, crash: int | None) -> None:
        results = MemoryResults(left=crash)
        body, small = b"Maria\n" * 9, {"part_bytes": 300}
        if crash is None:
            run(body, results, work=work_of("token-classification", **small))
        else:
            with pytest.raises(CrashError):
                run(body, results, work=work_of("token-classification", **small))
        results.left = None
        before = files(results)
        with pytest.raises(UnsupportedError, match="other options"):
            run(body, results, work=work_of("token-classification", mask=True, **small))
        assert files(results) == before

    def test_a_foreign_report_is_not_taken_for_one(self) -> None:
        results = MemoryResults()
        run(b"good", results)
        [key] = [k for k in results.objects.files("results") if k.endswith("_report.json")]
        results.objects.put("results", key, b'{"format": "canary"}')
        with pytest.raises(ArtifactError, match="not a report") as caught:
            run(b"good", results)
        assert "canary" not in str(caught.value)

    def test_gone_objects_leave_no_report(self) -> None:
        def chunks() -> Iterator[bytes]:
            yield b"good\n"
            raise GoneError("replaced")

        results = MemoryResults()
        with pytest.raises(GoneError):
            process(work_of("text-classification"), Source(Origin("t", "a.txt", "v"), chunks()), results, "results")
        assert "_report.json" not in files(results)


def numbered(texts: list[str]) -> bytes:
    return b"".join(json.dumps({"text": text, "id": i}).encode() + b"\n" for i, text in enumerate(texts))


BATCHES = st.integers(1, 4)
TEXTS = st.lists(st.sampled_from((*SENTENCES, "", "good " * 70)), min_size=1, max_size=24)


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = readers.batches
    monkeypatch.setattr(readers, "batches", lambda found: whole(found, 3, 60))


@pytest.mark.usefixtures("small_batches")
class TestEveryRecordOnce:
    @given(TEXTS, st.integers(1, 1500), st.lists(st.tuples(st.integers(0, 6), st.booleans()), max_size=4))
    @settings(max_examples=40, deadline=None)
    def test_crashes(self, texts: list[str], part_bytes: int, crashes: list[tuple[int, bool]]) -> None:
        body, work = numbered(texts), work_of("text-classification", id_field="id")
        work = replace(work, options=replace(work.options, part_bytes=part_bytes))
        _, wanted = run(body, work=work, key="a.jsonl")
        results = MemoryResults()
        for left, written in crashes:
            results.left, results.written_before_death = left, written
            try:
                run(body, results, work=work, key="a.jsonl")
            except CrashError:
                continue
        results.left = None
        outcome, found = run(body, results, work=work, key="a.jsonl")
        assert found == wanted  # byte for byte as without a crash
        assert [r["line"] for r in lines(found)] == list(range(1, len(texts) + 1))
        assert outcome.report.records == len(texts)
        assert all(len(b) <= part_bytes or b.count(b"\n") == 1 for name, b in found.items() if name.startswith("part-"))

    @given(TEXTS, st.lists(st.integers(1, 1500), min_size=1, max_size=3), st.lists(st.integers(0, 5), max_size=3))
    @settings(max_examples=40, deadline=None)
    def test_stopping_in_time_and_parts_cut_elsewhere(self, texts: list[str], sizes: list[int], stops: list[int]) -> None:
        body, work = numbered(texts), work_of("text-classification", id_field="id")
        _, wanted = run(body, work=work, key="a.jsonl")
        results = MemoryResults()
        for attempt, stop in enumerate(stops):
            passed = count()
            deadline = Deadline(lambda p=passed, s=stop: 100.0 if next(p) <= s else 0.0)  # type: ignore[misc]
            cut = replace(work, options=replace(work.options, part_bytes=sizes[attempt % len(sizes)]))
            before = len(lines(files(results)))
            try:
                run(body, results, work=cut, key="a.jsonl", deadline=deadline)
            except OutOfTimeError:
                # what was answered is kept, so that every attempt gets further
                assert len(lines(files(results))) > before or stop == 0
        _, found = run(body, results, work=work, key="a.jsonl")
        assert lines(found) == lines(wanted)
        assert json.loads(found["_report.json"])["errors"] == json.loads(wanted["_report.json"])["errors"]

    @given(st.lists(st.sampled_from(SENTENCES), min_size=6, max_size=24), st.integers(1, 900), st.integers(1, 900), st.integers(0, 4))
    @example(["good"] * 12, 300, 900, 1)  # their parts hold more
    @example(["good"] * 12, 900, 300, 0)  # theirs hold less
    @settings(max_examples=40, deadline=None)
    def test_two_at_once(self, texts: list[str], mine: int, theirs: int, when: int) -> None:
        """Another attempt, with parts of another size, does all its work while this one is about to write a part."""
        body, work = numbered(texts), work_of("text-classification", id_field="id")
        _, wanted = run(body, work=work, key="a.jsonl")
        objects, turns = Objects(), count()

        class Interrupted(MemoryResults):
            def create(self, key: str, body_: bytes) -> bool:
                if next(turns) == when:
                    other = replace(work, options=replace(work.options, part_bytes=theirs))
                    run(body, MemoryResults(objects), work=other, key="a.jsonl")
                return super().create(key, body_)

        cut = replace(work, options=replace(work.options, part_bytes=mine))
        run(body, Interrupted(objects), work=cut, key="a.jsonl")
        found = files(MemoryResults(objects))
        assert lines(found) == lines(wanted)


def test_a_part_is_not_answered_twice() -> None:
    work = work_of("text-classification", part_bytes=400)
    results = MemoryResults(left=2)
    body = b"good\n" * 20
    with pytest.raises(CrashError):
        run(body, results, work=work)
    written = len(lines(files(results)))
    results.left = None
    outcome, found = run(body, results, work=work)
    assert written > 0
    assert outcome.sums.texts == 20 - written
    assert len(lines(found)) == 20


@pytest.mark.parametrize(
    ("remaining", "near"),
    [(lambda: 0.0, True), (lambda: 900.0, False), (lambda: float("inf"), False), (iter([40.0, 9.0]).__next__, True)],
)
def test_deadlines(remaining: Callable[[], float], near: bool) -> None:
    assert Deadline(remaining).is_near() is near


def test_a_slow_batch_moves_the_deadline() -> None:
    deadline = Deadline(lambda: 100.0)
    deadline.lap(49.0)
    assert not deadline.is_near()
    deadline.lap(50.0)
    assert deadline.is_near()

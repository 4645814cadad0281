"""Attempts that crash, stop in time, repeat or run at once: every record is in exactly one part, in order."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hotfoot.bulk import answers, readers
from hotfoot.bulk.deadline import Deadline, OutOfTimeError
from hotfoot.bulk.pipeline import GoneError, Source, process
from hotfoot.bulk.report import Origin
from hotfoot.contract.errors import ArtifactError, UnsupportedError
from hotfoot.session import Session
from hotfoot.task import Array, Encoded
from support.bulk import SENTENCES, files, lines, run, work_of
from support.objects import CrashError, MemoryResults, Objects


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
            before, further = len(lines(files(results))), None
            try:
                run(body, results, work=cut, key="a.jsonl", deadline=deadline)
            except OutOfTimeError as error:
                further = error.further
            if further is not None:
                # what was answered is kept, so that every attempt gets further, and says so
                assert further == (len(lines(files(results))) > before)
                assert further or stop == 0
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


class TestLongDocuments:
    """One text of many windows, with a clock that moves as the model runs."""

    @pytest.fixture
    def clock(self, monkeypatch: pytest.MonkeyPatch) -> list[float]:
        """What is left; a run takes one."""
        left = [0.0]
        run_ = Session.run

        def slow(session: Session, inputs: Sequence[Encoded]) -> list[Array]:
            left[0] -= 1
            return run_(session, inputs)

        monkeypatch.setattr(Session, "run", slow)
        monkeypatch.setattr(answers, "RUN_TOKENS", 256)  # four windows
        return left

    def test_the_clock_is_looked_at_between_runs(self, clock: list[float]) -> None:
        work, results = work_of("token-classification", whole=True), MemoryResults()
        body = ("word " * 800 + "Maria").encode()
        clock[0] = 1000.0
        _, wanted = run(body, results, work=work)
        assert 1000 - clock[0] >= 4
        results, clock[0] = MemoryResults(), 2.5
        with pytest.raises(OutOfTimeError, match="within a batch") as caught:
            run(body, results, work=work, deadline=Deadline(lambda: clock[0]))
        assert clock[0] == 0.5  # a margin of a quarter, 0.625: two runs were in time
        assert not caught.value.further
        assert files(results) == {}
        clock[0] = 1000.0
        assert run(body, results, work=work, deadline=Deadline(lambda: clock[0]))[1] == wanted

    def test_what_came_before_is_kept(self, clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
        whole = readers.batches
        monkeypatch.setattr(readers, "batches", lambda found: whole(found, 1))
        work, results = work_of("token-classification"), MemoryResults()
        body, clock[0] = b"Maria\n" + b"word " * 800, 3.5
        with pytest.raises(OutOfTimeError) as caught:
            run(body, results, work=work, deadline=Deadline(lambda: clock[0]))
        assert caught.value.further
        assert [r["line"] for r in lines(files(results))] == [1]

    def test_runs_in_pieces_give_the_same(self, monkeypatch: pytest.MonkeyPatch) -> None:
        body = "\n".join([*SENTENCES, "word " * 500 + "Maria in Springfield"] * 3).encode()
        _, wanted = run(body, work=work_of("token-classification"))
        for tokens in (1, 64, 100, 1000):
            monkeypatch.setattr(answers, "RUN_TOKENS", tokens)
            assert run(body, work=work_of("token-classification"))[1] == wanted

    def test_a_text_that_costs_too_much_is_an_error_record(self, monkeypatch: pytest.MonkeyPatch) -> None:
        work = work_of("token-classification", stride=8)  # windows of 62, each 54 further on
        monkeypatch.setattr(answers, "TEXT_TOKENS", 10 * 64)
        fits, over = "word " * (62 + 9 * 54), "word " * (62 + 9 * 54 + 1)
        _, found = run(f"Maria\n{fits}\n{over}\nMaria".encode(), work=work)
        made = lines(found)
        assert ["error" in r for r in made] == [False, False, True, False]
        message = "the text takes 11 windows of 64 tokens, 640 tokens is the most"
        assert made[2]["error"] == {"kind": "too_large", "message": message}
        assert json.loads(found["_report.json"])["errors"] == {"too_large": 1}

    def test_the_longest_line_is_answered_or_refused(self) -> None:
        longest = b"Maria " * (readers.TEXT_BYTES // 6)
        [record, after] = lines(run(longest + b"\nMaria")[1])
        assert (record["error"]["kind"], "prediction" in after) == ("input", True)
        [record, after] = lines(run(longest + b"\nMaria", work=work_of("token-classification"))[1])
        assert (record["error"]["kind"], "prediction" in after) == ("too_large", True)


@pytest.mark.parametrize(
    ("remaining", "near"),
    [(lambda: 0.0, True), (lambda: 900.0, False), (lambda: float("inf"), False), (iter([40.0, 9.0]).__next__, True)],
)
def test_deadlines(remaining: Callable[[], float], near: bool) -> None:
    assert Deadline(remaining).is_near() is near


def test_a_slow_run_moves_the_deadline() -> None:
    assert Deadline().worked is False
    deadline = Deadline(lambda: 100.0)
    deadline.lap(49.0)
    assert deadline.worked
    assert not deadline.is_near()
    deadline.lap(50.0)
    assert deadline.is_near()

"""Answers from memory: those without it, bit for bit, and the graph runs no more than it must."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotfoot import task as tasks
from hotfoot.batching import Deadline
from hotfoot.cache import Stats
from hotfoot.contract.errors import InputError, OutOfTimeError
from hotfoot.model import Model, Prediction
from hotfoot.remembering import LARGEST, Outputs, Pace, Remembering, key_of
from hotfoot.session import Session
from hotfoot.task import Array, Encoded, Marks
from support import rigged_text
from support.rigged import Rig, rigged_artifact
from support.serving import TASKS, artifact, model, sample, shaped

BYTES = 2**24
WORDS = ["Maria", "lives", "in", "Springfield", "good", "bad", "fine", "east", "guitar", "paris", "hello"]


@cache
def remembering(task: str) -> Model:
    return Model.open(artifact(task), threads=2, cache_bytes=BYTES)


def fresh(task: str) -> Model:
    opened = Model.open(artifact(task), threads=2, cache_bytes=BYTES)
    return replace(opened, memory=Outputs(BYTES))


def bits(answer: Any) -> Any:
    """An answer in which only equal bits are equal, NaN and the sign of zero included."""
    if isinstance(answer, np.ndarray):
        return (answer.dtype.str, answer.shape, answer.tobytes())
    if isinstance(answer, np.generic):
        return (answer.dtype.str, answer.tobytes())
    if isinstance(answer, float):
        return answer.hex()
    if isinstance(answer, dict):
        return {key: bits(value) for key, value in answer.items()}
    return [bits(value) for value in answer] if isinstance(answer, (list, tuple)) else answer


def memory_of(opened: Model) -> Outputs:
    assert opened.memory is not None
    return opened.memory


def runs(opened: Model, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many inputs each run of the graph has from now on."""
    assert isinstance(opened.session, Session)
    sizes: list[int] = []
    inner = opened.session.run_batch

    def run_batch(inputs: Sequence[Encoded], length: int) -> list[Array]:
        sizes.append(len(inputs))
        return inner(inputs, length)

    monkeypatch.setattr(opened.session, "run_batch", run_batch)
    return sizes


@pytest.mark.parametrize("task", TASKS)
def test_every_task_answers_the_same_bits_from_memory(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, plain = fresh(task), model(task)
    texts = ["Maria lives in Springfield", "good", "Maria lives in Springfield", "bad paris " * 3]
    for inputs in (sample(task), shaped(task, texts), plain.sample):
        wanted = plain.predict(inputs)
        first, second = opened.predict(inputs), opened.predict(inputs)
        sizes = runs(opened, monkeypatch)
        third = opened.predict(inputs)
        assert bits(first.answer) == bits(second.answer) == bits(third.answer) == bits(wanted.answer)
        assert sizes == []
        assert (first.tokens, first.characters, first.inputs) == (wanted.tokens, wanted.characters, wanted.inputs)
        assert second.remembered == second.inputs == third.remembered > 0
        assert wanted.remembered == 0


@pytest.mark.parametrize("task", TASKS)
@settings(max_examples=25, deadline=None)
@given(texts=st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join), min_size=1, max_size=6))
def test_whatever_was_asked_before_the_answers_are_the_same_bits(task: str, texts: list[str]) -> None:
    inputs = shaped(task, texts)
    found = remembering(task).predict(inputs)
    wanted = model(task).predict(inputs)
    assert bits(found.answer) == bits(wanted.answer)
    assert 0 <= found.remembered <= found.inputs == wanted.inputs


def test_only_what_is_new_runs_and_equal_inputs_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = fresh("text-classification")
    opened.predict(["good", "bad"])
    sizes = runs(opened, monkeypatch)
    found = opened.predict(["fine", "good", "fine", "world", "bad", "fine"])
    assert sum(sizes) == 2
    assert (found.inputs, found.remembered) == (6, 2)
    again = opened.predict(["fine", "fine"])
    assert sum(sizes) == 2
    assert (again.inputs, again.remembered) == (2, 2)
    assert memory_of(opened).stats.entries == 4


def test_texts_of_the_same_tokens_are_one_input(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = fresh("text-classification")
    opened.predict("GOOD")
    sizes = runs(opened, monkeypatch)
    assert opened.predict("good ").remembered == 1
    assert sizes == []


def test_nothing_is_remembered_that_should_not_be(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = fresh("text-classification")
    request = opened.task.parse(["good", "good"], {}, opened.manifest)
    sizes = runs(opened, monkeypatch)
    for _ in range(2):
        assert opened.answer(request, remember=False).remembered == 0
    opened.warm_up()
    assert sum(sizes) == 5  # nor do equal inputs run once
    assert memory_of(opened).stats == Stats(0, 0, 0, 0, BYTES)
    opened.answer(request)
    assert opened.answer(request, remember=False).remembered == 0
    assert sum(sizes) == 8
    assert opened.answer(request).remembered == 2


def test_a_call_that_remembers_nothing_reads_no_encodings_either() -> None:
    opened = fresh("text-classification")
    assert opened.tokenizer.encodings is not None
    request = opened.task.parse("a text of its own", {}, opened.manifest)
    before = opened.tokenizer.encodings.stats
    opened.answer(request, remember=False, most_tokens=100)
    opened.warm_up()
    assert opened.tokenizer.encodings.stats == before
    opened.answer(request)
    assert opened.tokenizer.encodings.stats.misses == before.misses + 1


@pytest.mark.parametrize("task", TASKS)
def test_without_bytes_nothing_is_remembered(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Model.open(artifact(task), threads=2)
    assert opened.memory is None
    assert opened.tokenizer.encodings is None
    first = opened.predict(sample(task))
    sizes = runs(opened, monkeypatch)
    assert opened.predict(sample(task)).remembered == 0
    assert sum(sizes) == first.inputs


@pytest.mark.parametrize("task", TASKS)
def test_parity_is_measured_on_the_graph(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = fresh(task)
    pairs = ("bad", "good") if task in ("question-answering", "text-ranking", "zero-shot-classification") else ()
    sizes = runs(opened, monkeypatch)
    for _ in range(2):
        opened.outputs(("good", "good"), pairs)
    assert sum(sizes) == 4
    assert memory_of(opened).stats.entries == 0


# --- what a key tells apart


def encoded(ids: Sequence[int], types: Sequence[int] | None = None, reads: Sequence[int] | None = None) -> Encoded:
    count = len(ids)
    return Encoded(
        np.array(ids, np.int32),
        np.array(types if types is not None else [0] * count, np.int32),
        0,
        lambda: Marks(((0, 0),) * count, (False,) * count, (None,) * count),
        reads=None if reads is None else np.array(reads, np.intp),
    )


INPUT = st.tuples(
    st.lists(st.integers(0, 3), min_size=1, max_size=4),
    st.none() | st.lists(st.integers(0, 1), min_size=4, max_size=4),
    st.none() | st.lists(st.integers(0, 3), max_size=3),
)


@settings(max_examples=500, deadline=None)
@given(INPUT, INPUT)
def test_keys_are_equal_only_for_equal_inputs(one: Any, two: Any) -> None:
    def made(given: Any) -> Encoded:
        ids, types, reads = given
        return encoded(ids, None if types is None else types[: len(ids)], reads)

    def whole(given: Any) -> Any:
        e = made(given)
        return e.ids.tolist(), e.type_ids.tolist(), None if e.reads is None else e.reads.tolist()

    assert (key_of(made(one)) == key_of(made(two))) == (whole(one) == whole(two))


def test_what_is_read_of_an_output_belongs_to_it(tmp_path: Path) -> None:
    opened = Model.open(rigged_artifact(tmp_path, "fill-mask"), threads=1, cache_bytes=BYTES)
    ids = [2, 4, 4, 3]
    asked = [encoded(ids, reads=r) for r in ([1], [2], [1, 2], None)]
    session = Remembering(opened.session, memory_of(opened))
    wanted = opened.session.run(asked)
    for _ in range(2):
        assert [bits(a) for a in session.run(asked)] == [bits(a) for a in wanted]
    assert session.remembered == 4


def test_two_artifacts_never_tell_each_others_answers(tmp_path: Path) -> None:
    """The same tokens, shapes and names; only the numbers differ."""
    labels = {"good": (0.0, 5.0), "bad": (5.0, 0.0)}
    turned = {"good": (5.0, 0.0), "bad": (0.0, 5.0)}
    one, two = (
        Model.open(rigged_artifact(tmp_path / name, "text-classification", Rig(words)), threads=1, cache_bytes=BYTES)
        for name, words in (("one", labels), ("two", turned))
    )
    assert one.tokenizer.encodings is two.tokenizer.encodings
    for _ in range(2):
        assert one.predict("good").answer[0][0]["label"] == "POSITIVE"
        assert two.predict("good").answer[0][0]["label"] == "NEGATIVE"
    assert two.predict("good").remembered == 1


# --- what comes out


def test_nobody_can_change_what_is_remembered() -> None:
    opened = fresh("feature-extraction")
    for _ in range(2):
        (output,) = Remembering(opened.session, memory_of(opened)).run(opened.tokenizer.encode(["east"], truncate=None))
        with pytest.raises(ValueError, match="read-only"):
            output[0] = 9
    first = opened.predict("east").answer
    assert bits(opened.predict("east").answer) == bits(first)


def test_a_row_does_not_keep_its_batch() -> None:
    opened = fresh("feature-extraction")
    texts = [f"east {number}" for number in range(32)]
    rows = Remembering(opened.session, memory_of(opened)).run(opened.tokenizer.encode(texts, truncate=None))
    assert all(row.base is None for row in rows)


def filled(outputs: Outputs, count: int, size: int, start: int = 0) -> None:
    for number in range(start, start + count):
        outputs.keep(number.to_bytes(32, "big"), np.full(size // 4, number, np.float32))


def test_large_outputs_are_passed_on_and_not_kept() -> None:
    outputs = Outputs(64 * LARGEST)
    large = np.zeros(LARGEST // 4 + 1, np.float32)
    assert outputs.keep(b"large", large) is large
    assert not large.flags.writeable
    assert outputs.stats.entries == 0
    outputs.keep(b"fits", large[:-1])
    assert outputs.stats.entries == 1


def test_the_memory_is_as_large_as_it_says() -> None:
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    outputs = Outputs(2**21)
    filled(outputs, 5000, 1536)
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    stats = outputs.stats
    assert 0.9 * 2**21 < stats.bytes <= 2**21
    assert 0.7 * stats.bytes < taken <= stats.bytes


def test_sixteen_threads_get_what_one_gets_within_the_bound() -> None:
    opened = replace(fresh("text-classification"), memory=Outputs(2**14))
    texts = [f"good {number}" for number in range(90)]
    wanted = [bits(model("text-classification").predict([text]).answer) for text in texts]

    def again(number: int) -> bool:
        place = (number * 7) % 90
        right = bits(opened.predict([texts[place]]).answer) == wanted[place]
        return right and memory_of(opened).stats.bytes <= 2**14

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(again, range(900)))
    stats = memory_of(opened).stats
    assert stats.hits + stats.misses == 900
    assert 0 < stats.entries < 90


# --- around it


def test_a_deadline_stops_what_has_to_run_and_not_what_is_known() -> None:
    opened = fresh("text-classification")
    opened.predict(["good", "bad"])
    late = Deadline(lambda: 10.0)
    late._slowest = 60.0
    request = opened.task.parse(["good", "bad"], {}, opened.manifest)
    assert opened.answer(request, deadline=late).remembered == 2
    with pytest.raises(OutOfTimeError):
        opened.answer(opened.task.parse(["good", "fine"], {}, opened.manifest), deadline=late)


def test_a_bad_request_leaves_the_memory_well() -> None:
    opened = fresh("text-classification")
    wanted = opened.predict("good")
    with pytest.raises(InputError):
        opened.predict(["good", "bad " * 80])
    found = opened.predict("good")
    assert (bits(found.answer), found.remembered) == (bits(wanted.answer), 1)


@pytest.mark.parametrize("task", rigged_text.TASKS)
def test_tasks_that_make_text_make_it_anew(task: str, tmp_path: Path) -> None:
    opened = Model.open(rigged_artifact(tmp_path, task), threads=1, cache_bytes=BYTES)
    assert opened.memory is None
    found: list[Prediction] = [opened.predict(opened.sample, {"max_new_tokens": 3}) for _ in range(2)]
    assert [p.remembered for p in found] == [0, 0]
    assert found[0].answer == found[1].answer


def test_embedders_share_one_memory() -> None:
    opened = fresh("feature-extraction")
    opened.predict(["east", "north"])
    other = replace(opened, task=tasks.load("sentence-similarity"))
    assert other.predict({"source_sentence": "east", "sentences": ["north", "up"]}).remembered == 2


def test_pace_follows_what_runs_take() -> None:
    pace = Pace()
    assert pace.expected(512) == 0.0
    pace.add(100, 1.0)
    assert pace.expected(10) == pytest.approx(0.1)
    for _ in range(60):
        pace.add(100, 0.1)
    assert pace.expected(10) == pytest.approx(0.01, rel=0.05)

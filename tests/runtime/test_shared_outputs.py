"""The table behind a process's own memory: what a slow model gets from it, and that a fast one leaves it alone."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from hotfoot import remembering
from hotfoot.model import Model
from hotfoot.remembering import Outputs, Remembering
from hotfoot.session import Session, numerics
from hotfoot.shared_cache import FAULTS, SharedCache, SharedStats
from hotfoot.task import Array, Encoded
from support.rigged import Rig, rigged_artifact
from support.serving import artifact
from support.shared import TABLE, Calls, account, dead_endpoint, items, quiet

BYTES = 2**22


@pytest.fixture
def secret() -> Iterator[str]:
    with account() as arn:
        yield arn


def slow(opened: Model, seconds: float, patch: pytest.MonkeyPatch) -> list[int]:
    """Let every run of the graph take so long, without waiting; gives the sizes of the runs from now on."""
    assert isinstance(opened.session, Session)
    inner, sizes, clock = opened.session.run_batch, [], [0.0]
    real = time.perf_counter

    def run_batch(inputs: Sequence[Encoded], length: int) -> list[Array]:
        sizes.append(len(inputs))
        clock[0] += seconds
        return inner(inputs, length)

    patch.setattr(opened.session, "run_batch", run_batch)
    patch.setattr(time, "perf_counter", lambda: real() + clock[0])
    return sizes


def opened(secret: str, patch: pytest.MonkeyPatch, folder: Path | None = None) -> Model:
    patch.setenv("HOTFOOT_CACHE_TABLE", TABLE)
    patch.setenv("HOTFOOT_CACHE_SECRET", secret)
    return Model.open(folder or artifact("text-classification"), threads=1, cache_bytes=BYTES)


def shared_of(model: Model) -> SharedCache:
    assert model.memory is not None
    assert isinstance(model.memory.shared, SharedCache)
    return model.memory.shared


def test_a_slow_model_finds_what_another_environment_wrote(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = opened(secret, monkeypatch), opened(secret, monkeypatch)
    sizes = [slow(m, 3.0, monkeypatch) for m in (one, two)]
    for model in (one, two):
        model.warm_up()
    plain = Model.open(artifact("text-classification"), threads=1)
    wanted = plain.predict(["good", "bad fine"])
    first = one.predict(["good", "bad fine"])
    assert (first.remembered, shared_of(one).stats.written) == (0, 2)
    before = len(sizes[1])
    second = two.predict(["good", "bad fine", "good"])
    assert len(sizes[1]) == before
    assert (second.inputs, second.remembered) == (3, 3)
    assert second.answer[:2] == first.answer == wanted.answer
    assert shared_of(two).stats == SharedStats(asked=2, found=2)
    two.predict("good")  # now its own memory knows
    assert shared_of(two).stats.asked == 2
    mixed = two.predict(["fine", "good"])
    assert (mixed.remembered, shared_of(two).stats.asked, shared_of(two).stats.written) == (1, 3, 1)


def test_a_fast_model_never_asks_nor_imports(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, model = Calls(monkeypatch), opened(secret, monkeypatch)
    model.warm_up()
    for number in range(20):
        model.predict([f"good {number}", "bad"])
    assert calls.made == []
    assert shared_of(model).stats == SharedStats()
    assert shared_of(model)._opened is None


def test_only_inputs_that_take_long_are_asked_for(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = opened(secret, monkeypatch)
    assert model.memory is not None
    model.memory.pace.add(1000, 10)  # 10 ms a token
    model.predict(["good", "bad " * 30])
    assert shared_of(model).stats.asked == 1
    assert model.memory.pace.expected(32) > remembering.WORTH_ASKING_S > model.memory.pace.expected(3)


def test_the_pace_is_known_before_the_first_request_and_the_table_ready(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, model = Calls(monkeypatch), opened(secret, monkeypatch)
    slow(model, 3.0, monkeypatch)
    model.warm_up()
    assert model.memory is not None
    assert model.memory.pace.expected(100) > 1
    assert calls.made == ["GetSecretValue"]
    assert model.memory.stats.entries == 0
    model.predict("good")
    assert calls.made == ["GetSecretValue", "BatchGetItem", "BatchWriteItem"]


def test_a_model_that_grew_fast_stops_asking(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = opened(secret, monkeypatch)
    assert model.memory is not None
    model.memory.pace.add(100, 10)
    for number in range(80):
        model.predict(f"good {number}")
    asked = shared_of(model).stats.asked
    assert 0 < asked < 80
    model.predict("quite another")
    assert shared_of(model).stats.asked == asked


def test_a_dead_table_changes_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet(monkeypatch)
    with dead_endpoint() as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        model = opened("arn:aws:secretsmanager:eu-central-1:123456789012:secret:absent", monkeypatch)
        slow(model, 3.0, monkeypatch)
        model.warm_up()
        plain = Model.open(artifact("text-classification"), threads=1)
        for text in ("good", "bad", "fine", "good"):
            assert model.predict(text).answer == plain.predict(text).answer
    assert shared_of(model).stats.faults == FAULTS


def test_no_text_and_no_ids_are_in_the_table(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = artifact("feature-extraction")
    model = opened(secret, monkeypatch, folder)
    slow(model, 3.0, monkeypatch)
    model.warm_up()
    text = "east Springfield 62704"
    model.predict(text)
    (encoded,) = model.tokenizer.encode([text], truncate=None)
    (item,) = items()
    held = b"".join(bytes(v.get("B", b"")) + v.get("N", "").encode() for v in item.values())
    for word in text.lower().split():
        assert word.encode() not in held.lower()
    for ids in (encoded.ids, encoded.ids.astype(np.int64)):
        assert ids.tobytes() not in held
        assert ids[1:-1].tobytes() not in held
    assert remembering.key_of(encoded) not in held
    assert len(bytes(item["id"]["B"])) == 32


def test_two_artifacts_have_one_table_and_nothing_in_common(secret: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    words = {"good": (5.0, 0.0), "bad": (0.0, 5.0)}
    turned = rigged_artifact(tmp_path, "text-classification", Rig(words))
    one, two = opened(secret, monkeypatch), opened(secret, monkeypatch, turned)
    for model in (one, two):
        slow(model, 3.0, monkeypatch)
        model.warm_up()
    assert one.predict("good").answer[0][0]["label"] == "POSITIVE"
    assert two.predict("good").answer[0][0]["label"] == "NEGATIVE"
    assert shared_of(two).stats.found == 0
    assert len(items()) == 2


def test_calls_that_remember_nothing_leave_the_table_alone(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = opened(secret, monkeypatch)
    slow(model, 3.0, monkeypatch)
    model.warm_up()
    model.answer(model.task.parse("good", {}, model.manifest), remember=False)
    model.outputs(("good",))
    assert shared_of(model).stats == SharedStats()
    assert items() == []


def test_no_bytes_are_no_table_either(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTFOOT_CACHE_TABLE", TABLE)
    monkeypatch.setenv("HOTFOOT_CACHE_SECRET", secret)
    assert Model.open(artifact("text-classification"), threads=1).memory is None


def test_what_the_table_tells_can_not_be_changed(secret: str) -> None:
    shared, outputs = SharedCache(TABLE, secret, "one"), Outputs(BYTES)
    model = Model.open(artifact("text-classification"), threads=1)
    (one,) = model.tokenizer.encode(["good"], truncate=None)
    key = remembering.key_of(one)
    shared.put({key: np.array([7.0, 8.0], np.float32)})
    outputs.shared = shared
    outputs.pace.add(1, 10)
    session = Remembering(model.session, outputs)
    (array,) = session.run([one])
    assert array.tolist() == [7.0, 8.0]
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


def test_machines_with_other_vector_units_are_told_apart(tmp_path: Path) -> None:
    def said(text: str) -> list[str]:
        (tmp_path / "cpuinfo").write_text(text)
        return numerics(tmp_path / "cpuinfo").split()[2:]

    assert said("flags\t\t: fpu avx avx2 smep avx512f fma lahf_lm\nflags: avx9\n") == ["avx", "avx2", "avx512f", "fma"]
    assert said("Features : fp asimd asimddp i8mm sve2 bf16 sme crc32\n") == ["asimd", "asimddp", "bf16", "i8mm", "sme", "sve2"]
    assert said("nothing") == []
    assert numerics(tmp_path / "absent").split() == numerics().split()[:2]

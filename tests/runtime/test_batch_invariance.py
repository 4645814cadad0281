"""A text alone equals the text in any batch, bit for bit: its neighbours and its place change nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from hotfoot.model import Model
from hotfoot.session import Session
from hotfoot.task import Array, Encoded, Marks
from support import real, tiny

PRECISIONS = ("fp32", "int8", "int8-static", "int8-weights", "int4-weights")


def unmarked() -> Marks:
    raise AssertionError("a run has no use for the places of its tokens")


def inputs(lengths: Sequence[int], seed: int, vocabulary: int) -> list[Encoded]:
    """Random ids of these lengths, framed by nothing: the graph does not care what they mean."""
    rng = np.random.default_rng(seed)
    made = []
    for item, length in enumerate(lengths):
        ids = rng.integers(5, vocabulary, length, dtype=np.int32)
        made.append(Encoded(ids, np.zeros_like(ids), item, unmarked))
    return made


def check(model: Model, lengths: Sequence[int], vocabulary: int) -> None:
    """Alone, in the plan's batches, shuffled, doubled, in batches that a small memory makes, and beside others of its length."""
    every = inputs(lengths, 1, vocabulary)
    alone = [model.session.run([one])[0] for one in every]
    same(alone, model.session.run(every))
    order = np.random.default_rng(2).permutation(len(every))
    same([alone[i] for i in order], model.session.run([every[i] for i in order]))
    same([*alone, *alone], model.session.run([*every, *every]))
    assert isinstance(model.session, Session)
    largest = model.manifest.graph().activations[-1].bytes
    for room in (0, largest // 2, largest, 3 * largest):
        model.session.room = room
        same(alone, model.session.run(every))
    model.session.room = None
    for one, wanted in zip(every, alone, strict=True):
        length = len(one.ids)
        for count in (1, 2, 4):
            neighbours = inputs([length] * count, length + count, vocabulary)
            for place in (0, count):
                batch = [*neighbours[:place], one, *neighbours[place:]]
                same([wanted], [model.session.run_batch(batch, length)[place]])


def same(wanted: Sequence[Array], found: Sequence[Array]) -> None:
    assert len(wanted) == len(found)
    for index, (a, b) in enumerate(zip(wanted, found, strict=True)):
        assert a.shape == b.shape
        assert np.array_equal(a, b), f"input {index} of shape {a.shape} differs by {np.abs(a - b).max():.2e}"


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", ["embed", "tags", "classes"])
def test_tiny_models(name: str, precision: str, threads: int) -> None:
    built = tiny.artifact(name, precision)
    model = Model.open(built.path, threads=threads)
    limit = model.manifest.max_tokens
    check(model, [5, 6, 7, 8, 9, 16, 17, 23, 31, 32, 33, 47, 60, limit - 1, limit], 70)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", ["embed", "pii"])
def test_real_models(name: str, precision: str, threads: int) -> None:
    model = Model.open(real.artifact(name, precision).path, threads=threads)
    limit = model.manifest.max_tokens
    lengths = [n for n in (5, 8, 11, 20, 33, 64, 77, 100, 129, 200, 255, 300, 384, 450, 500) if n <= limit]
    check(model, lengths, 19000)


def test_one_and_two_threads_agree() -> None:
    built = tiny.artifact("embed", "int8")
    texts = ("the quick brown fox " * 12, "Maria", "naïve café société")
    one, two = (Model.open(built.path, threads=n).outputs(texts)[1] for n in (1, 2))
    same(one, two)

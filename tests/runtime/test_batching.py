from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotfoot.batching import (
    ARENA,
    BATCH_SCORES,
    BATCH_TOKENS,
    BATCH_VALUES,
    LENGTH_STEP,
    RESERVE_BYTES,
    live_bytes,
    padded_length,
    plan,
    room,
)
from hotfoot.contract.manifest import Activation

limits = st.integers(min_value=2, max_value=8192)


@pytest.mark.parametrize(
    ("tokens", "limit", "padded"),
    [(1, 512, 8), (8, 512, 8), (9, 512, 16), (511, 512, 512), (512, 512, 512), (509, 510, 510), (3, 5, 5), (5, 5, 5)],
)
def test_padding_goes_to_the_next_step_and_never_past_the_limit(tokens: int, limit: int, padded: int) -> None:
    assert padded_length(tokens, limit) == padded


@given(limits.flatmap(lambda limit: st.tuples(st.just(limit), st.lists(st.integers(min_value=1, max_value=limit), max_size=80))))
def test_a_plan_is_whole_and_bounded(case: tuple[int, list[int]]) -> None:
    limit, lengths = case
    runs = plan(lengths, limit)
    assert sorted(i for _, members in runs for i in members) == list(range(len(lengths)))
    assert all(members for _, members in runs)
    for length, members in runs:
        # a text's padded length is a function of its own length alone
        assert {padded_length(lengths[i], limit) for i in members} == {length}
        assert all(lengths[i] <= length <= limit for i in members)
        assert all(length - lengths[i] < LENGTH_STEP for i in members)
        assert len(members) == 1 or (len(members) * length <= BATCH_TOKENS and len(members) * length**2 <= BATCH_SCORES)
    assert [length for length, _ in runs] == sorted((length for length, _ in runs), reverse=True)


@given(st.lists(st.integers(min_value=1, max_value=64), min_size=1, max_size=40), st.integers(min_value=1, max_value=64))
def test_neighbours_do_not_change_a_padded_length(lengths: list[int], mine: int) -> None:
    alone = plan([mine], 64)[0][0]
    together = plan([*lengths, mine], 64)
    assert [length for length, members in together if len(lengths) in members] == [alone]


def test_runs_are_as_full_as_the_bounds_allow() -> None:
    assert [len(members) for _, members in plan([8] * 150, 512)] == [64, 64, 22]
    assert [len(members) for _, members in plan([256] * 5, 512)] == [2, 2, 1]
    assert [len(members) for _, members in plan([4096] * 2, 4096)] == [1, 1]


def test_without_a_mask_lengths_are_left_as_they_are() -> None:
    assert plan([3, 30, 4, 30, 3], 64, step=1) == [(30, [1, 3]), (4, [2]), (3, [0, 4])]


def test_members_keep_their_order() -> None:
    assert plan([3, 30, 4, 31, 5], 64) == [(32, [1, 3]), (8, [0, 2, 4])]


def test_a_graph_that_mixes_rows_runs_texts_alone() -> None:
    assert plan([3, 30, 3], 64, together=False) == [(32, [1]), (8, [0]), (8, [2])]


def test_nothing_to_run() -> None:
    assert plan([], 512) == []


def test_wide_outputs_make_small_batches() -> None:
    """Where each token has a number for every word of a vocabulary, what leaves the graph is bounded too."""
    for length, width in ((64, 30_522), (64, 250_002), (512, 250_002), (8, 10**7)):
        runs = plan([length] * 40, 512, width=width)
        largest = max(len(members) for _, members in runs)
        assert largest == 1 or largest * length * width <= BATCH_VALUES
        assert sorted(i for _, members in runs for i in members) == list(range(40))
    assert plan([64] * 40, 512, width=35) == plan([64] * 40, 512)
    assert len(plan([8] * 40, 512, width=10**7)) == 40


# --- what fits into memory

CURVE = (Activation(8, 100), Activation(16, 300), Activation(64, 2700))


@pytest.mark.parametrize(("length", "live"), [(3, 100), (8, 100), (12, 200), (16, 300), (40, 1500), (64, 2700), (128, 4 * 2700)])
def test_between_two_lengths_the_chord_counts(length: int, live: float) -> None:
    assert live_bytes(CURVE, length) == live


@given(
    lengths=st.lists(st.integers(min_value=1, max_value=64), max_size=60),
    held=st.integers(min_value=0, max_value=50_000),
)
def test_no_run_of_several_takes_more_than_the_room(lengths: list[int], held: int) -> None:
    runs = plan(lengths, 64, fitting=lambda length: int(held / live_bytes(CURVE, length)))
    assert sorted(i for _, members in runs for i in members) == list(range(len(lengths)))
    for length, members in runs:
        assert len(members) == 1 or len(members) * live_bytes(CURVE, length) <= held
        assert len(members) == 1 or len(members) * length <= BATCH_TOKENS
    # with room enough it is as without a limit
    assert plan(lengths, 64, fitting=lambda _length: 10**6) == plan(lengths, 64)


@pytest.mark.parametrize(("fitting", "sizes"), [(8, [8]), (3, [3, 3, 2]), (1, [1] * 8), (0, [1] * 8)])
def test_a_smaller_room_makes_smaller_runs_and_one_text_always_runs(fitting: int, sizes: list[int]) -> None:
    assert [len(members) for _, members in plan([16] * 8, 64, fitting=lambda _length: fitting)] == sizes


def test_room_is_what_is_left_of_the_limit(tmp_path: Path) -> None:
    page, mib = os.sysconf("SC_PAGE_SIZE"), 2**20
    (tmp_path / "statm").write_text(f"99999 {100 * mib // page} 5 1 0 7 0\n")  # 100 MiB in use
    statm = tmp_path / "statm"
    left = 512 * mib - 100 * mib - 16 * mib - RESERVE_BYTES
    assert room(512 * mib, 16 * mib, statm=statm) == left // ARENA
    assert room(512 * mib, 16 * mib, at_once=4, statm=statm) == left // (4 * ARENA)
    assert room(128 * mib, 16 * mib, statm=statm) == 0
    assert room(None, 16 * mib, statm=statm) is None
    assert room(512 * mib, 0, statm=tmp_path / "none") is None


def test_what_this_process_holds_counts() -> None:
    found = room(2**40, 0)
    assert found is not None
    resident = 2**40 - RESERVE_BYTES - ARENA * found
    assert 10 * 2**20 < resident < 20 * 2**30

"""The bounded memory: an order that can be worked out, a bound that holds whatever is put in."""

from __future__ import annotations

import tracemalloc
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotfoot.cache import ENTRY_BYTES, LARGEST_SHARE, Cache, Shares, Stats, shares

SIZE = 100
ROOM = ENTRY_BYTES + SIZE


def test_a_value_is_found_until_the_least_recently_used_make_room() -> None:
    cache: Cache[str, int] = Cache(LARGEST_SHARE * ROOM)
    for number in range(LARGEST_SHARE):
        cache.put(f"k{number}", number, SIZE)
    assert cache.get("k0") == 0  # now the latest
    cache.put("new", 99, SIZE)
    assert cache.get("k1") is None
    assert [cache.get(f"k{n}") for n in (0, 2, 7)] == [0, 2, 7]
    assert cache.stats == Stats(hits=4, misses=1, entries=8, bytes=8 * ROOM, most_bytes=8 * ROOM)


def test_a_key_that_comes_again_has_its_latest_value_and_counts_once() -> None:
    cache: Cache[str, str] = Cache(100_000)
    cache.put("a", "one", 10)
    cache.put("a", "two", 1000)
    assert cache.get("a") == "two"
    assert (cache.stats.entries, cache.stats.bytes) == (1, 1000 + ENTRY_BYTES)


def test_what_is_larger_than_an_eighth_is_not_kept_and_leaves_no_older_value_behind() -> None:
    cache: Cache[str, str] = Cache(8 * ROOM)
    cache.put("a", "old", SIZE)
    cache.put("b", "beside", SIZE)
    cache.put("a", "large", SIZE + 1)
    assert cache.get("a") is None
    assert cache.get("b") == "beside"
    assert cache.stats.bytes == ROOM


@pytest.mark.parametrize("most", [0, -1])
def test_no_bytes_keep_nothing(most: int) -> None:
    cache: Cache[str, str] = Cache(most)
    cache.put("a", "b", 0)
    assert cache.get("a") is None
    assert cache.stats == Stats(0, 1, 0, 0, 0)


@settings(max_examples=200, deadline=None)
@given(
    most=st.integers(0, 20_000),
    calls=st.lists(st.tuples(st.booleans(), st.integers(0, 12), st.integers(0, 3000)), max_size=120),
)
def test_the_bound_and_the_order_hold_whatever_comes(most: int, calls: list[tuple[bool, int, int]]) -> None:
    cache: Cache[int, int] = Cache(most)
    plain: OrderedDict[int, tuple[int, int]] = OrderedDict()  # the same, as slowly as can be
    hits = 0
    for step, (puts, key, size) in enumerate(calls):
        if puts:
            cache.put(key, step, size)
            plain.pop(key, None)
            whole = size + ENTRY_BYTES
            if whole * LARGEST_SHARE <= most:
                while sum(s for _, s in plain.values()) + whole > most:
                    plain.popitem(last=False)
                plain[key] = (step, whole)
        else:
            wanted = plain.get(key)
            assert cache.get(key) == (None if wanted is None else wanted[0])
            if wanted is not None:
                plain.move_to_end(key)
                hits += 1
        found = cache.stats
        assert found.bytes == sum(s for _, s in plain.values()) <= most
        assert (found.entries, found.hits) == (len(plain), hits)


def test_sixteen_threads_stay_within_the_bound_and_get_what_was_put() -> None:
    cache: Cache[int, str] = Cache(40 * ROOM)

    def work(seed: int) -> bool:
        chosen = Random(seed)  # noqa: S311 - a test's own choice
        for _ in range(2000):
            key = chosen.randrange(100)
            if chosen.random() < 0.5:
                cache.put(key, f"value of {key}", chosen.randrange(4 * SIZE))
            found = cache.get(key)
            if found not in (None, f"value of {key}") or cache.stats.bytes > 40 * ROOM:
                return False
        return True

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(work, range(16)))
    found = cache.stats
    assert found.hits + found.misses == 16 * 2000
    assert found.entries > 0
    for key in range(100):
        cache.put(key, "x", 5000)  # none fits: each takes out what there was
    assert (cache.stats.entries, cache.stats.bytes) == (0, 0)


@pytest.mark.parametrize("entries", [1000, 20_000])
def test_an_entry_costs_no_more_than_is_counted(entries: int) -> None:
    keys = [number.to_bytes(32, "big") for number in range(entries)]
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    cache: Cache[bytes, bytes] = Cache(2**30)
    for key in keys:
        cache.put(key, key, 1000)
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert 0.4 * ENTRY_BYTES < taken / entries <= ENTRY_BYTES  # keys and values were there before


def test_shares_are_within_the_whole() -> None:
    assert shares(64 * 2**20) == Shares(encodings=16 * 2**20, outputs=16 * 2**20, answers=32 * 2**20)
    assert shares(0) == shares(-5) == Shares(0, 0, 0)
    found = shares(1003)
    assert found.encodings + found.outputs + found.answers <= 1003

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.image import imread

from hotfoot.contract.bundle import LayerKind
from hotfoot_build.package import treemap
from hotfoot_build.package.treemap import Rect
from support.bundled import ledger_by_hand

SIZES = st.lists(st.integers(1, 10**9), min_size=1, max_size=60)
SIDES = st.floats(0.1, 1000)


@given(SIZES, SIDES, SIDES, st.floats(-50, 50))
def test_rectangles_cover_the_area_in_proportion_and_without_overlap(sizes: Sequence[int], width: float, height: float, x: float) -> None:
    into = Rect(x, -x, width, height)
    rects = treemap.squarify(sizes, into)
    assert len(rects) == len(sizes)
    small = 1e-9 * into.area
    for count, rect in zip(sizes, rects, strict=True):
        assert rect.area == pytest.approx(into.area * count / sum(sizes), rel=1e-6, abs=small)
        assert rect.x >= into.x - 1e-9 * width - 1e-12
        assert rect.y >= into.y - 1e-9 * height - 1e-12
        assert rect.x + rect.width <= into.x + width * (1 + 1e-9) + 1e-9
        assert rect.top <= into.top + height * 1e-9 + 1e-9
    assert sum(rect.area for rect in rects) == pytest.approx(into.area)
    for index, one in enumerate(rects):
        for other in rects[index + 1 :]:
            assert shared(one, other) <= small


def shared(one: Rect, other: Rect) -> float:
    """Area of the overlap."""
    across = min(one.x + one.width, other.x + other.width) - max(one.x, other.x)
    return max(0.0, across) * max(0.0, min(one.top, other.top) - max(one.y, other.y))


def test_equal_sizes_are_squares_and_nothing_is_nothing() -> None:
    assert {(round(r.width, 9), round(r.height, 9)) for r in treemap.squarify([1] * 4, Rect(0, 0, 2, 2))} == {(1.0, 1.0)}
    assert treemap.squarify([], Rect(0, 0, 2, 2)) == []
    # the worked example of the method's authors: a column of 6 and 6 first
    first = treemap.squarify([6, 6, 4, 3, 2, 2, 1], Rect(0, 0, 6, 4))[:2]
    assert [(r.x, r.y, r.width, r.height) for r in first] == [(0, 2, 3, 2), (0, 0, 3, 2)]


def test_the_picture_has_each_parts_colour_and_what_is_left(tmp_path: Path) -> None:
    parts = ("runtime", "tokenizer", "model", "code")
    colours = {tuple(bytes.fromhex(treemap.COLOURS[part][1:])) for part in parts}
    free = tuple(bytes.fromhex(treemap.FREE[1:]))
    for target, heaviest in (("lambda-arm64", 40_000_000), ("cpu-container-x86_64", 300_000_000)):
        treemap.draw(ledger_by_hand(target, heaviest), tmp_path / f"{target}.png")
        pixels = np.rint(255 * imread(tmp_path / f"{target}.png")[..., :3]).astype(int)
        assert all((pixels == colour).all(axis=-1).sum() > 100 for colour in colours)
        assert ((pixels == free).all(axis=-1).sum() > 1000) == (target == "lambda-arm64"), "only where there is a limit"


def test_the_picture_is_the_same_each_time(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        treemap.draw(ledger_by_hand("lambda-arm64"), tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_every_part_that_counts_has_a_colour() -> None:
    assert set(treemap.COLOURS) == set(get_args(LayerKind)) - {"weights"}

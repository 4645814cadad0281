"""The cache folder, and folders that appear whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotfoot_build import cache


def test_replacing_keeps_the_old_output_when_the_new_one_fails(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "a.txt").write_bytes(b"one")

    def fail() -> None:
        with cache.replacing(out) as work:
            (work / "half").write_text("")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert (out / "a.txt").read_bytes() == b"one"
    with cache.replacing(out) as work:
        (work / "whole").write_text("")
    assert [p.name for p in out.iterdir()] == ["whole"]
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_made_once_makes_once_and_leaves_nothing_of_a_failure(tmp_path: Path) -> None:
    place = tmp_path / "cache" / "thing"

    def fail(aside: Path) -> None:
        (aside / "half").write_text("")
        raise KeyError

    with pytest.raises(KeyError):
        cache.made_once(place, fail)
    assert not list(place.parent.iterdir())
    cache.made_once(place, lambda aside: (aside / "x").touch())
    cache.made_once(place, fail)
    assert [p.name for p in place.iterdir()] == ["x"]


def test_made_once_takes_the_other_processs_result_when_it_was_faster(tmp_path: Path) -> None:
    place = tmp_path / "thing"

    def slow(aside: Path) -> None:
        (aside / "mine").touch()
        place.mkdir()
        (place / "theirs").touch()

    cache.made_once(place, slow)
    assert [p.name for p in place.iterdir()] == ["theirs"]


def test_cache_root_honours_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.root() == tmp_path / "hotfoot"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.root() == tmp_path / ".cache" / "hotfoot"

"""The cache folder, and folders that appear whole or not at all, also with several processes at them."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hotfoot.contract.errors import ArtifactError
from hotfoot_build import cache

# a process that holds: it says so, goes on at a line on its stdin, and ends well
HOLD = """
import sys
from pathlib import Path
from hotfoot_build import cache

def hold():
    print("ready", flush=True)
    sys.stdin.readline()

out = Path(sys.argv[1])
"""
REPLACE = HOLD + "with cache.replacing(out) as work:\n    (work / 'theirs').touch()\n    hold()\n"
MAKE = HOLD + "def make(work):\n    (work / 'theirs').touch()\n    hold()\ncache.made_once(out, make)\n"
USE = HOLD + "with cache.using(out, lambda work: None):\n    hold()\n"
# the first rename moves the old one aside, and then it is over
DIE = """
import os, signal
from pathlib import Path
rename = Path.rename
def once(self, target):
    rename(self, target)
    os.kill(os.getpid(), signal.SIGKILL)
Path.rename = once
"""


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))


def start(code: str, *arguments: str | Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@contextmanager
def holding(code: str, out: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that is in the midst of it."""
    with start(code, out) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def finish(process: subprocess.Popen[str]) -> None:
    _, said = process.communicate("go on\n", timeout=60)
    assert process.returncode == 0, said


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def filled(folder: Path, name: str = "mine") -> Path:
    folder.mkdir(parents=True)
    (folder / name).write_text(name)
    return folder


def aged(path: Path, seconds: float) -> Path:
    then = time.time() - seconds
    os.utime(path, (then, then))
    return path


def replace_with(out: Path, name: str) -> None:
    with cache.replacing(out) as work:
        (work / name).touch()


def fail_to_replace(out: Path) -> None:
    def fail() -> None:
        with cache.replacing(out) as work:
            (work / "half").touch()
            raise KeyError

    with pytest.raises(KeyError):
        fail()


def test_replacing_keeps_the_old_output_when_the_new_one_fails(tmp_path: Path) -> None:
    out = filled(tmp_path / "a" / "out")
    fail_to_replace(out)
    assert (out / "mine").read_text() == "mine"
    replace_with(out, "whole")
    assert names(out) == ["whole"]
    assert names(tmp_path / "a") == ["out"]


def test_replacing_what_a_link_points_to_leaves_the_link(tmp_path: Path) -> None:
    real = filled(tmp_path / "real")
    (tmp_path / "link").symlink_to(real)
    replace_with(tmp_path / "link", "whole")
    assert (tmp_path / "link").is_symlink()
    assert names(real) == ["whole"]
    assert names(tmp_path) == ["link", "real"]


def test_an_output_that_another_process_writes_is_refused(tmp_path: Path) -> None:
    out = filled(tmp_path / "a" / "out")
    with holding(REPLACE, out) as other:
        with pytest.raises(ArtifactError, match=f"another build is writing {out}"):
            replace_with(out, "ours")
        assert names(out) == ["mine"]
        replace_with(tmp_path / "a" / "beside", "ours")  # another one's output is free
        finish(other)
    assert names(out) == ["theirs"]
    assert names(tmp_path / "a") == ["beside", "out"]


def test_many_processes_at_one_output_leave_one_whole(tmp_path: Path) -> None:
    code = """
import os, sys
from pathlib import Path
from hotfoot.contract.errors import ArtifactError
from hotfoot_build import cache
for turn in range(100):
    try:
        with cache.replacing(Path(sys.argv[1])) as work:
            for name in "abc":
                (work / name).write_text(f"{os.getpid()} {turn}")
    except ArtifactError as error:
        assert "another build is writing" in str(error)
"""
    out = tmp_path / "a" / "out"
    for process in [start(code, out) for _ in range(3)]:
        finish(process)
    assert names(out) == ["a", "b", "c"]
    assert len({(out / name).read_text() for name in "abc"}) == 1
    assert names(tmp_path / "a") == ["out"]


def test_what_a_killed_process_left_goes_with_the_next(tmp_path: Path) -> None:
    out = filled(tmp_path / "a" / "out")
    with holding(REPLACE, out) as other:
        other.kill()
        other.wait()
    assert len(names(tmp_path / "a")) == 3  # a lock that nobody holds, half a folder
    replace_with(out, "ours")
    assert names(tmp_path / "a") == ["out"]


def test_killed_between_two_renames_the_old_one_comes_back(tmp_path: Path) -> None:
    out = filled(tmp_path / "a" / "out")
    with start(DIE + REPLACE, out) as other:
        other.communicate("go on\n", timeout=60)
    assert other.returncode == -signal.SIGKILL
    assert not out.exists()
    fail_to_replace(out)
    assert names(out) == ["mine"]
    assert names(tmp_path / "a") == ["out"]


def test_leftovers_of_others_go_after_a_day() -> None:
    place = cache.root() / "layers" / "one"
    old = aged(filled(place.parent / ".gone.hotfoot-abcd1234"), cache.DAY_S + 60)
    young = aged(filled(place.parent / ".late.hotfoot-abcd1234"), cache.DAY_S - 60)
    saved = filled(place.parent / ".cut.hotfoot-abcd1234" / "old").parent
    aged(saved, cache.DAY_S + 60)
    theirs = aged(filled(place.parent / ".precious.bak"), cache.DAY_S + 60)
    with holding(MAKE, place.parent / "slow") as other:
        [work] = place.parent.glob(".slow.hotfoot-*")
        aged(work, cache.DAY_S + 60)
        cache.made_once(place, lambda work: (work / "x").touch())
        assert work.exists()  # its process lives
        finish(other)
    assert not old.exists()
    assert names(place.parent) == [young.name, theirs.name, "cut", "one", "slow"]
    assert names(place.parent / "cut") == ["mine"]  # the good one, which a killed process had moved aside


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
    assert names(place) == ["x"]


def test_made_once_waits_for_the_process_that_makes_it_and_says_so(tmp_path: Path) -> None:
    place = tmp_path / "cache" / "thing"
    said: list[str] = []
    with holding(MAKE, place) as other:

        def let_go(message: str) -> None:
            said.append(message)
            finish(other)

        cache.made_once(place, lambda aside: (aside / "mine").touch(), let_go)
    assert names(place) == ["theirs"]
    assert said == [f"waiting for another process, which is writing {place}"]
    assert names(place.parent) == ["thing"]


def test_what_is_in_use_is_not_removed() -> None:
    place = filled(cache.root() / "layers" / "one")
    aged(place, 1000)
    filled(place.parent / "two")
    with holding(USE, place) as other:
        aged(place, 1000)
        cache.sweep(place.parent)
        cache._keep(place.parent.iterdir(), 1)
        assert cache.clear("layers") == [place]
        assert names(place) == ["mine"]
        finish(other)
    assert cache.clear("layers") == []
    assert names(place.parent) == []


def test_what_is_not_whole_is_made_again() -> None:
    place = filled(cache.root() / "layers" / "one", "damaged")
    with cache.using(place, lambda work: (work / "new").touch(), whole=lambda p: (p / "new").exists()) as found:
        assert names(found) == ["new"]
    assert names(place.parent) == ["one"]


def test_processes_that_make_and_remove_at_once_do_not_stumble() -> None:
    code = """
import sys
from pathlib import Path
from hotfoot_build import cache
folder = Path(sys.argv[1])
for turn in range(150):
    cache.made_once(folder / str(turn % 7), lambda work: (work / "x").touch())
    cache.sweep(folder)
    cache._keep(folder.iterdir(), 2)
"""
    folder = cache.root() / "exports"
    for process in [start(code, folder) for _ in range(3)]:
        finish(process)
    assert len(names(folder)) <= 2 + 3  # one that is held while another process looks stays once more
    assert [name for name in names(folder) if name.startswith(".")] == []


def test_old_environments_and_layers_make_room_for_new_ones() -> None:
    for kind, folder, prefix in (("environments", cache.root(), "export-3.11-"), ("layers", cache.root() / "layers", "")):
        keep = cache.KINDS[kind].keep
        assert keep is not None
        places = [filled(folder / f"{prefix}{n}") for n in range(keep)]
        for n, place in enumerate(places):
            aged(place, 1000 - n)
        cache.made_once(places[0], Path.rmdir)  # it was used: now the second one is the oldest
        cache.made_once(folder / f"{prefix}new", lambda work: (work / "x").touch())
        assert [p.name for p in places if not p.exists()] == [places[1].name]
        assert (folder / f"{prefix}new").exists()


def test_an_entry_that_was_used_in_the_meantime_stays() -> None:
    place = filled(cache.root() / "exports" / "one")
    seen = place.stat().st_mtime_ns
    aged(place, -5)
    assert not cache._drop(place, seen)
    assert cache._drop(place, place.stat().st_mtime_ns)
    assert cache._drop(place)  # it is gone, whoever did it


def test_sizes_by_kind_and_clearing_one() -> None:
    home = cache.root()
    layer = filled(home / "layers" / "one", "four")
    os.link(layer / "four", layer / "same")
    (layer / "link").symlink_to("/etc")
    filled(home / "export-3.11-abc", "eleven")
    filled(home / "exports" / "one", "seven")
    (home / "last-export.log").write_text("abc")
    # a file of two names counts once, what a link points to does not
    assert cache.sizes() == {"environments": 6, "exports": 5, "layers": 4, "emulator": 0, "cdk": 0, "other": 3}
    assert cache.clear("exports") == []
    assert cache.sizes()["exports"] == 0
    assert cache.sizes()["environments"] == 6
    assert cache.clear("other") == []
    assert names(home) == ["export-3.11-abc", "exports", "layers"]


@pytest.mark.parametrize("content", ["foreign", "marker", "empty", "absent"])
def test_only_its_own_kind_is_replaced(content: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    if content != "absent":
        out.mkdir()
    if content in ("foreign", "marker"):
        (out / content).touch()
    if content == "foreign":
        with pytest.raises(ArtifactError, match="is there and is no bundle; it will not be overwritten"):
            cache.refuse_foreign(out, "marker", "bundle")
    else:
        cache.refuse_foreign(out, "marker", "bundle")
    (tmp_path / "file").touch()
    with pytest.raises(ArtifactError, match="is no artifact"):
        cache.refuse_foreign(tmp_path / "file", "marker", "artifact")


def test_cache_root_honours_xdg_and_is_the_users_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.root() == tmp_path / "hotfoot"
    assert stat.S_IMODE(cache.root().stat().st_mode) == 0o700
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.root() == tmp_path / ".cache" / "hotfoot"

"""`scripts/bench sessions` on a tiny model, the processes that it talks to, and the command line. No test asks how long anything took."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from hotfoot.contract import codec
from hotfoot.contract.errors import ArtifactError
from hotfoot.contract.platforms import LAMBDA_SESSION
from hotfoot_build.bench import __main__ as bench
from hotfoot_build.bench import report, sessions
from hotfoot_build.bench.case import Shape
from hotfoot_build.bench.peer import Peer
from hotfoot_build.bench.sessions import SessionReport
from support import tiny
from walls.house import ROOT

WORKER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("fail"):
        sys.exit("out of luck")
    print(json.dumps({"cpu": 0.25, "wall": 0.5, **message}), flush=True)
"""


@cache
def measured() -> tuple[SessionReport, Path]:
    """The real thing, once a test session."""
    out = tiny.room() / "bench" / "sessions"
    wanted = sessions.Wanted(
        "embed", (tiny.models(),), out, rounds=6, min_seconds=0.0, shapes=(Shape(1, 16), Shape(2, 24)), samples=tiny.texts()
    )  # fmt: skip
    with tiny.own_cache(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sessions, "IDLE_S", 0.01)
        patch.setattr(sessions, "PROCESSES", 1)
        return sessions.run(wanted, tiny.quiet()), out


def test_every_setting_is_measured_at_every_shape() -> None:
    found, _ = measured()
    wanted = sessions.groups(LAMBDA_SESSION, found.machine.cores)
    assert [(name, [r.setting for r in results]) for name, results in found.groups.items()] == [
        (group.name, [s.name for s in group.settings]) for group in wanted
    ]
    for results in found.groups.values():
        for result in results:
            assert [spent.shape for spent in result.times] == ["16", "2x24", "mixed"]
            assert all(spent.ms > 0 and spent.cpu_ms > 0 for spent in result.times)
            assert 0 < result.memory.opened <= result.memory.peak
            assert result.load_ms > 0
            assert result.idle_cpu_ms >= 0
        assert all(spent.ratio.low == spent.ratio.high == 1 for spent in results[0].times)


def test_each_setting_differs_from_the_first_by_what_it_says() -> None:
    one, two = sessions.groups(LAMBDA_SESSION, cores=2)
    assert one.settings[0].session == two.settings[0].session == LAMBDA_SESSION
    specs = {s.name: s.session for group in (one, two) for s in group.settings}
    changed = {
        name: {field for field in ("cpu_arena", "mem_pattern", "config") if getattr(spec, field) != getattr(LAMBDA_SESSION, field)}
        for name, spec in specs.items()
    }
    arena, pattern, both = [s.name for s in one.settings[1:4]]
    assert both == f"{arena}, {pattern}"
    assert changed[arena] == {"cpu_arena"}
    assert changed[pattern] == {"mem_pattern"}
    assert changed[both] == {"cpu_arena", "mem_pattern"}
    assert specs["spinning"].config == {**LAMBDA_SESSION.config, sessions.SPIN: "1"}
    assert specs["prepacking off"].config == {**LAMBDA_SESSION.config, sessions.NO_PREPACKING: "1"}
    assert {s.threads for s in one.settings} == {1}
    assert [s.name for s in two.settings if s.threads == 1] == ["one thread"]


def test_one_core_is_not_asked_for_two_threads() -> None:
    assert [group.clock for group in sessions.groups(LAMBDA_SESSION, cores=1)] == ["cpu"]
    assert sessions.groups(replace(LAMBDA_SESSION, cpu_arena=True), cores=1)[0].settings[1].name == "cpu_arena off"


def test_the_files_hold_what_was_measured(tmp_path: Path) -> None:
    found, _ = measured()
    page = sessions.markdown(found)
    report.write(found, page, tmp_path, "sessions")
    assert codec.loads(SessionReport, (tmp_path / "sessions.json").read_text(encoding="utf-8"), "sessions.json") == found
    assert (tmp_path / "sessions.md").read_text(encoding="utf-8") == page
    for results in found.groups.values():
        for result in results:
            assert f"| {result.setting} | {result.load_ms:.1f} ms {result.load_ratio} |" in page
            assert all(f"{spent.ms:.2f} ms" in page and str(spent.ratio) in page for spent in result.times)


def test_a_peer_adds_up_what_its_runs_took() -> None:
    with Peer("worker", [sys.executable, "-c", WORKER], os.environ) as peer:
        assert peer.ask(text="ä\n") == {"cpu": 0.25, "wall": 0.5, "text": "ä\n"}
        assert (peer.cpu, peer.wall) == (0, 0)
        peer.run()
        peer.run(wall=2)
        assert (peer.cpu, peer.wall) == (0.5, 2.5)


def test_a_peer_that_dies_leaves_its_last_words() -> None:
    with Peer("worker", [sys.executable, "-c", WORKER], os.environ) as peer:
        with pytest.raises(ArtifactError, match=r"worker ended with exit code 1:\nout of luck"):
            peer.ask(fail=True)
        with pytest.raises(ArtifactError, match="worker ended with exit code 1"):
            peer.ask()


def call(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=ROOT)


def test_the_script_explains_itself_and_refuses_what_it_does_not_know() -> None:
    bench = str(ROOT / "scripts" / "bench")
    for arguments in ([], ["--help"]):
        helped = call(bench, *arguments)
        assert (helped.returncode, helped.stderr) == (0, "")
        assert helped.stdout.startswith("usage: scripts/bench passes | sessions | http | cold | weights [options]\n")
    wrong = call(bench, "peers")
    assert (wrong.returncode, wrong.stdout, wrong.stderr) == (2, "", "bench: there is no peers; see scripts/bench --help\n")


def test_the_script_knows_every_command() -> None:
    script = (ROOT / "scripts" / "bench").read_text(encoding="utf-8")
    commands = [str(command.callback.__name__) for command in bench.app.registered_commands if command.callback]
    assert f"usage: scripts/bench {' | '.join(commands)} [options]" in script
    assert f"  {' | '.join(commands)}) ;;" in script, "or it refuses one"
    for command in commands:
        assert f"\n  {command} " in script.partition("tell little.\n")[2].partition("  scripts/bench")[0], f"{command} is not described"


MEASURED = {"passes": "--models", "sessions": "--models", "http": "artifact", "cold": "bundle", "weights": "--megabytes"}


@pytest.mark.parametrize("command", list(MEASURED))
def test_each_command_names_its_options_and_files(command: str) -> None:
    done = call(sys.executable, "-m", "hotfoot_build.bench", command, "--help")
    assert done.returncode == 0, done.stderr
    turns = "--runs" if command == "cold" else "--rounds"
    for word in (MEASURED[command], "--out", turns, "--quick", f"{command}.json", f"{command}.md"):
        assert word in done.stdout


def test_too_few_rounds_are_refused_before_anything_is_built(tmp_path: Path) -> None:
    done = call(sys.executable, "-m", "hotfoot_build.bench", "passes", "--rounds", "3", "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert done.stderr.startswith("input --rounds: is 3; it takes 6 for an interval.")
    assert not (tmp_path / "out").exists()


def test_an_unknown_model_is_refused(tmp_path: Path) -> None:
    done = call(sys.executable, "-m", "hotfoot_build.bench", "passes", "--models", str(tmp_path), "--model", "nobody=feature-extraction")
    assert done.returncode == 2
    assert "--model: is 'nobody', and no folder of that name holds a model; there are: " in done.stderr

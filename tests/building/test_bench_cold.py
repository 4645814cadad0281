"""`scripts/bench cold`: its meter, its trees, its bars and its peers. No test asks how long anything took."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hotfoot.contract import codec
from hotfoot.contract.bundle import BUNDLE, Bundle, LayerDir
from hotfoot.contract.errors import ArtifactError, ParityError, UnsupportedError
from hotfoot_build import environment
from hotfoot_build.bench import (
    cold,
    cold_fastembed,
    cold_imports,
    cold_memory,
    cold_meter,
    cold_plot,
    cold_report,
    cold_starts,
    report,
)
from hotfoot_build.bench.cold import ColdReport
from hotfoot_build.bench.cold_imports import BARE, BUNDLED, STALE, ZIPPED, Imports
from hotfoot_build.bench.cold_memory import Memory
from hotfoot_build.bench.cold_starts import Candidate, Row, Start
from hotfoot_build.bench.peer import Peer
from hotfoot_build.bench.report import Machine
from hotfoot_build.bench.timing import Ratio
from hotfoot_build.package import bytecode, interpreters
from hotfoot_build.package.wheels import LOCKS
from hotfoot_build.progress import Step
from support import tiny
from walls.house import ROOT

VECTOR = np.array([3.0, 4.0, 0.0], np.float32)
SILENT = Step(lambda _: None)
# answers each line with its own count of its CPU time and threads, after a child that worked and ended
BUSY = """
import json, resource, subprocess, sys, threading, time
subprocess.run([sys.executable, "-c", "sum(range(3_000_000))"], check=True)
for _ in range(2):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
for line in sys.stdin:
    sum(range(json.loads(line)["text"]))
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(json.dumps({"own": time.process_time(), "ended": ended.ru_utime + ended.ru_stime, "vector": [3, 4, 0]}), flush=True)
"""


def test_the_meter_counts_what_the_process_counts() -> None:
    with Peer("busy", [sys.executable, "-c", BUSY], os.environ) as busy:
        before = cold_meter.used([busy.pid])
        said = busy.ask(text=3_000_000)
        after = cold_meter.used([busy.pid])
    assert said["own"] <= after.cpu
    assert abs(after.cpu - said["own"] - said["ended"]) < 0.05  # ended children in ticks, and the print
    assert before.cpu < after.cpu
    assert after.threads == 3
    assert 5e6 < after.now <= after.peak
    with pytest.raises(OSError, match="Invalid argument"):  # its clock is gone
        cold_meter.used([busy.pid])


def test_several_processes_count_together() -> None:
    assert cold_meter.used([]) == cold_meter.Used(0.0, 0, 0, 0)
    one, two = cold_meter.used([os.getpid()]), cold_meter.used([os.getpid()] * 2)
    assert two.peak >= 2 * one.peak
    assert two.threads == 2 * one.threads


def test_a_peer_is_measured_while_it_waits() -> None:
    found = cold_starts.peer([sys.executable, "-c", BUSY.replace('["text"]', '["text"].__len__()'), "busy"], dict(os.environ), "text")
    assert found.vector.tolist() == [3, 4, 0]
    assert found.threads == 3
    assert found.wall > 0
    with pytest.raises(ArtifactError, match=r"busy ended with exit code 1:\n.*out of luck"):
        cold_starts.peer([sys.executable, "-c", "import sys; sys.exit('out of luck')", "busy"], dict(os.environ), "text")


def test_a_peer_runs_offline_and_may_keep_its_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "OMP_NUM_THREADS", "HF_TOKEN"):
        monkeypatch.setenv(name, "1")
    found = cold_starts.peer_environment(0)
    assert not [name for name in found if name.startswith(("PYTHON", "OMP_"))]
    assert "HF_TOKEN" not in found
    assert found["HF_HUB_OFFLINE"] == "1"
    assert cold_starts.peer_environment(1) == {**found, "OMP_NUM_THREADS": "1"}


def candidate(name: str, peer: str | None, cpu: list[float], vector: np.ndarray = VECTOR) -> Candidate:
    """One whose starts are known beforehand."""
    left = iter(cpu)
    return Candidate(name, peer, 1, lambda: Start(spent := next(left), 2 * spent, round(1e6 * spent), 4, vector))


def test_starts_are_compared_round_by_round_and_the_first_two_do_not_count() -> None:
    ours = candidate("hotfoot", None, [90, 90, 1, 2, 3, 4, 5, 6])
    theirs = candidate("fastembed", "fastembed", [90, 90, 2, 4, 6, 8, 10, 12])
    mine, other = cold_starts.measure([ours, theirs], VECTOR, 6, SILENT)
    assert (mine.cpu_s, mine.wall_s, mine.peak_bytes, mine.most_bytes, mine.threads) == (3.5, 7, 3_500_000, 6_000_000, 4)
    assert mine.cpu == Ratio(1, 1, 1, 6)
    assert other.cpu == other.wall == Ratio(2, 2, 2, 6)
    assert other.cosine == pytest.approx(1)


@pytest.mark.parametrize("vector", [np.array([4.0, 3.0, 1.0], np.float32), np.array([3.0, 4.0], np.float32)])
def test_another_vector_than_the_originals_fails(vector: np.ndarray) -> None:
    with pytest.raises(
        ParityError, match=r"fastembed answers another vector than the original: their cosine is 0\.\d{4}, and 0.98 is asked"
    ):
        cold_starts.measure([candidate("hotfoot", None, [1] * 8), candidate("fastembed", "fastembed", [1] * 8, vector)], VECTOR, 6, SILENT)


def row(name: str, peer: str | None, cpu: Ratio, most: float = 100e6) -> Row:
    return Row(name, peer, 4, 0.3, 0.3, 100_000_000, round(most), 0.999, cpu, cpu)


def figures(most: float = 115e6, zipped: float = 1.1, last: int = 105) -> tuple[list[Row], list[Imports], list[Memory]]:
    starts = [
        row("hotfoot", None, Ratio(1, 1, 1, 6), most),
        row("optimum", "optimum", Ratio(19, 18, 20, 6)),
        row("optimum, one thread", "optimum", Ratio(17, 16, 18, 6)),
        row("fastembed", "fastembed", Ratio(1.4, 1.3, 1.5, 6)),
    ]
    imports = [Imports(name, 250, 0.2, Ratio(1, 0.9, zipped, 6)) for name in (BUNDLED, ZIPPED)]
    return starts, imports, [Memory("as it comes", (50, 100, 150), (100, 102, last), 110, 900)]


def test_a_bar_takes_the_whole_interval_and_the_leaner_of_a_peers_two() -> None:
    found = {bar.what: bar.met for bar in cold.bars(*figures())}
    assert [met for what, met in found.items() if "optimum, one thread takes 16.00 times" in what] == [True]
    assert [met for what, met in found.items() if "fastembed takes 1.33 times" in what] == [False]  # its interval begins at 1.3
    assert list(found.values()) == [True, False, True, True, True]
    assert [bar.met for bar in cold.bars(*figures(most=115e6 + 1, zipped=1.101, last=106))] == [True, False, False, False, False]


def test_without_peers_there_is_nothing_to_hold_them_to() -> None:
    starts, imports, memory = figures()
    assert len(list(cold.bars(starts[:1], imports, memory))) == 3


def test_drift_counts_both_ways() -> None:
    assert Memory("", (1, 2, 3), (100, 90, 104), 104, 9).drift == pytest.approx(0.1)


def test_the_requests_are_the_same_every_time_and_of_many_sizes() -> None:
    texts = [f"text {number}" for number in range(100)]
    batches = list(cold_memory.mixed(texts, 200))
    assert batches == list(cold_memory.mixed(texts, 200))
    assert {len(batch) for batch in batches} == set(cold_memory.BATCHES)
    assert {text for batch in batches for text in batch} == set(texts)


def written() -> ColdReport:
    starts, imports, memory = figures()
    bars = tuple(cold.bars(starts, imports, memory))
    return ColdReport(
        Machine.here(), "embed", "lambda-arm64", "3.13", 15, 6, tuple(starts), tuple(imports), tuple(memory), bars, ("one is not there",)
    )


def test_the_files_hold_what_was_found(tmp_path: Path) -> None:
    found = written()
    page = cold_report.markdown(found)
    report.write(found, page, tmp_path, "cold")
    assert codec.loads(ColdReport, (tmp_path / "cold.json").read_text(encoding="utf-8"), "cold.json") == found
    for bar in found.bars:
        assert f"| {bar.what} | {bar.found} | {'pass' if bar.met else 'miss'} |" in page
    assert "| optimum, one thread | 0.300 s 17.00 (16.00-18.00) |" in page
    assert "- one is not there" in page
    cold_plot.draw(found, tmp_path / "cold.png")
    assert (tmp_path / "cold.png").read_bytes().startswith(b"\x89PNG")
    cold_plot.draw(replace(found, starts=found.starts[:1]), tmp_path / "alone.png")
    assert (tmp_path / "alone.png").stat().st_size > 20_000


def header(folder: Path) -> tuple[int, int]:
    """The flags and the source's time in the one .pyc below `folder`."""
    [found] = folder.rglob("*.pyc")
    said = found.read_bytes()
    return int.from_bytes(said[4:8], "little"), int.from_bytes(said[8:12], "little")


def test_the_trees_are_what_a_zip_makes_of_them(tmp_path: Path) -> None:
    python = interpreters.find(interpreters.running_minor())
    assert python is not None
    source = tmp_path / "source"
    source.mkdir()
    (source / "one.py").write_text("HERE = __file__\n")
    bytecode.compile_tree(source, python, shown_as="/opt/python")
    for name in (ZIPPED, BARE, STALE):
        cold_imports._remade(name, source, tmp_path / name, python)
        made = tmp_path / name / "one.py"
        assert made.read_text() == "HERE = __file__\n"
        assert (made.stat().st_mtime, made.stat().st_mode & 0o777) == (315532800, 0o444)  # 1980-01-01
    assert not list((tmp_path / BARE).rglob("*.pyc"))
    assert header(tmp_path / ZIPPED)[0] == 1  # by a hash that nobody checks
    assert header(tmp_path / STALE) != (0, 315532800)
    assert header(tmp_path / STALE)[0] == 0  # by time, which is another


def test_what_is_not_wanted_is_not_unpacked(tmp_path: Path) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("a/b.py", "b")
        archive.writestr("c.py", "c")
    cold_imports.unpack(zipfile.ZipFile(stream), tmp_path, lambda name: name != "c.py")
    assert [p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()] == ["a/b.py"]


def test_the_lock_pins_fastembed_with_all_it_needs_to_the_runtimes_engine() -> None:
    text = (LOCKS / "fastembed.txt").read_text()
    for line in text.splitlines():
        assert re.fullmatch(r"[a-z0-9-]+==\S+( ; .*)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?", line), line
    pins = {name: set(re.findall(r"^((?:onnxruntime|tokenizers|numpy)==\S+)", (LOCKS / f"{name}.txt").read_text(), re.MULTILINE))
            for name in ("fastembed", "runtime")}  # fmt: skip
    assert pins["fastembed"] == pins["runtime"]
    assert len(pins["runtime"]) == 4  # numpy twice, by Python's version
    assert re.search(r"^fastembed==", text, re.MULTILINE)
    assert re.search(r"^huggingface-hub==", text, re.MULTILINE)


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hotfoot_build.bench", "cold", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=ROOT)


def test_the_command_teaches_and_refuses_before_anything_runs(tmp_path: Path) -> None:
    helped = call("--help")
    assert helped.returncode == 0, helped.stderr
    for word in ("--runs", "--quick", "--no-peers", "--model", "cold.json", "cold.md", "cold.png"):
        assert word in helped.stdout
    few = call("--runs", "3", "--out", str(tmp_path / "out"))
    assert few.returncode == 2
    assert few.stderr.startswith("input --runs: is 3; it takes 6 for an interval.")
    nothing = call(str(tmp_path), "--out", str(tmp_path / "out"))
    assert "no bundle.json in" in nothing.stderr
    assert not (tmp_path / "out").exists()


def test_a_bundle_of_another_task_is_refused(tmp_path: Path) -> None:
    code = LayerDir(kind="code", path="code", hash="0", unzipped_bytes=0, zipped_bytes=0)
    made = Bundle("t", "3.13", "arm64", "h.handler", "m", "0", bytecode=True, layers=(), code=code, task="fill-mask")
    (tmp_path / BUNDLE).write_text(codec.dumps(made))
    with pytest.raises(UnsupportedError, match="is for fill-mask; its peers make vectors"):
        cold.run(cold.Wanted(tmp_path, "embed", (), tmp_path, 6, peers=False), tiny.quiet())


def test_a_peer_that_cannot_be_had_is_a_note(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(_progress: object) -> Path:
        raise ArtifactError("no index")

    monkeypatch.setattr(environment, "python", refuse)
    monkeypatch.setattr(cold_fastembed, "python", refuse)
    monkeypatch.setattr(cold_starts, "prepared", lambda *_: tmp_path)
    made, notes = cold_starts.candidates(tmp_path, None, "text", tmp_path, SILENT, peers=True)  # type: ignore[arg-type]
    assert [c.name for c in made] == ["hotfoot"]
    assert [note.partition(" is not there: no index")[0] for note in notes] == list(cold_starts.WAYS.values())

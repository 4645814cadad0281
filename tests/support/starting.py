"""Cold starts made by hand, in round numbers, and functions so small that their every part can be slept through."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hotfoot_build.cold import budget as budgets
from hotfoot_build.cold import probe
from hotfoot_build.cold.budget import Budget, Start

# wall and CPU seconds by label, as the probe reports them
SPENT: Mapping[str, tuple[float, float]] = {
    "import numpy": (0.060, 0.090),
    "import standard library": (0.050, 0.050),
    "import hotfoot": (0.030, 0.030),
    "import aws_lambda_powertools": (0.010, 0.010),
    "import sniffio": (0.001, 0.001),
    "import org": (0.0005, 0.0005),
    "open": (0.002, 0.002),
    "session": (0.040, 0.060),
    "tokenizer": (0.015, 0.015),
    "warm-up": (0.003, 0.003),
    "app": (0.001, 0.001),
    "answer": (0.003, 0.003),
}
ASK = """
import json, sys
import hotfoot_cold_probe as probe
answer = probe.handler({"n": 1}, None)
print(json.dumps([answer, probe.handler({probe.REPORT: True}, None)]))
"""


def start_by_hand(times: float = 1.0, spent: Mapping[str, tuple[float, float]] = SPENT) -> Start:
    """A start of 0.25 s and its parts, all of them `times` as long."""
    report = {
        "first_cpu_s": 0.020 * times,
        "ready_s": 0.212 * times,
        "cpu_s": 0.290 * times,
        "own_s": 0.0007,
        "spent": {label: (wall * times, cpu * times) for label, (wall, cpu) in spent.items()},
        "missing": [],
    }
    return budgets.start_of(report, wall_s=0.250 * times, init_s=0.240 * times, peak_bytes=round(120e6 * times))


def budget_by_hand(*times: float) -> Budget:
    """The budget of such starts."""
    found = tuple(map(start_by_hand, times))
    return Budget(
        model_id="made/by-hand",
        model_digest="0" * 64,
        target="lambda-x86_64",
        python="3.13",
        memory_mb=1769,
        threads=1,
        cpu="A CPU",
        cores=2,
        asked='{"inputs": "a"}',
        bytecode=True,
        missing=(),
        wall_s=budgets.figure(start.wall_s for start in found),
        cpu_s=budgets.figure(start.cpu_s for start in found),
        peak_bytes=budgets.figure(start.peak_bytes for start in found),
        own_s=budgets.figure(start.own_s for start in found),
        rows=budgets.rows(found),
        starts=found,
    )


def asked_of_probe(folder: Path, files: Mapping[str, str], handler: str) -> tuple[Any, dict[str, Any]]:
    """A handler's answer and the probe's report of it, from a process that has these modules and nothing but the standard library."""
    for name, code in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(code, encoding="utf-8")
    shutil.copyfile(probe.__file__, folder / f"{probe.MODULE}.py")
    environ = {**os.environ, "PYTHONPATH": str(folder), probe.HANDLER: handler}
    done = subprocess.run([sys.executable, "-s", "-S", "-c", ASK], capture_output=True, text=True, check=False, env=environ)
    assert done.returncode == 0, done.stderr
    answer, report = json.loads(done.stdout)
    return answer, report

"""Threads: as many as this process may use and not as many as the host has cores, and idle when there is nothing to do."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import threading
from collections import UserDict
from contextlib import suppress
from typing import Any

import pytest

from hotfoot import reading
from hotfoot.settings import MB_PER_VCPU, cgroup_cpus
from support import real
from support.serving import artifact

CORES = min(len(os.sched_getaffinity(0)), cgroup_cpus())

# a function's process after a few requests: how many threads it has, and how many a prediction may use
COUNT = """
import json, re, sys
from pathlib import Path
from types import SimpleNamespace
from hotfoot.handlers import http

context = SimpleNamespace(
    function_name="f", function_version="1", memory_limit_in_mb=512, invoked_function_arn="arn:aws:lambda:eu-west-1:1:function:f",
    aws_request_id="r", get_remaining_time_in_millis=lambda: 900_000,
)
for count in (1, 20):
    assert len(http.handler({"inputs": ["good bad " * n for n in range(1, 1 + count)]}, context)) == count
print(json.dumps([int(re.search(r"Threads:\\s+(\\d+)", Path("/proc/self/status").read_text()).group(1)), http.here.threads]))
"""

# CPU seconds of the whole process while it waits after a request
IDLE = """
import json, resource, sys, time
from hotfoot.model import Model

def used():
    spent = resource.getrusage(resource.RUSAGE_SELF)
    return spent.ru_utime + spent.ru_stime

model = Model.open(sys.argv[1], threads=2)
model.predict(["the harbour is closed on Friday " * 20] * 4)
before = used()
time.sleep(3)
print(json.dumps(used() - before))
"""

# CPU seconds of two models, each alone and then in turn; the least of several rounds, as another process can only add
IN_TURN = """
import json, resource, sys
from hotfoot.model import Model

def used():
    spent = resource.getrusage(resource.RUSAGE_SELF)
    return spent.ru_utime + spent.ru_stime

def cost(*models):
    found = []
    for _ in range(5):
        before = used()
        for _ in range(40):
            for model in models:
                model.predict(text)
        found.append(used() - before)
    return min(found)

text = "Maria Gonzalez lives at 42 Elm Street, Springfield, and plays the guitar on Fridays. " * 3
first, second = (Model.open(path, threads=2) for path in sys.argv[1:])
cost(first, second)
print(json.dumps([cost(first), cost(second), cost(first, second)]))
"""


def told(script: str, *arguments: str, **environ: str) -> Any:
    """What a script says last, in a process of its own that must not say a word of trouble."""
    own = ("HOTFOOT_THREADS", "RAYON_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={**{k: v for k, v in os.environ.items() if k not in own}, **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "affinity" not in done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("memory_mb", [512, MB_PER_VCPU, 10_240])
def test_a_function_has_the_threads_that_its_memory_grants(memory_mb: int) -> None:
    found, granted = told(COUNT, HOTFOOT_ARTIFACT=str(artifact("text-classification")), AWS_LAMBDA_FUNCTION_MEMORY_SIZE=str(memory_mb))
    assert granted == max(1, math.ceil(min(CORES, memory_mb / MB_PER_VCPU)))
    # the engine's, of which this thread is one, and the tokenizer's; numpy's has none
    assert found == granted + granted


def test_on_one_core_of_several_there_is_one() -> None:
    pinned = "import os\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n" + COUNT  # as `taskset -c N` does
    place = str(artifact("text-classification"))
    assert told(pinned, HOTFOOT_ARTIFACT=place, AWS_LAMBDA_FUNCTION_MEMORY_SIZE="10240") == [2, 1]


def test_a_number_that_is_given_counts() -> None:
    place = str(artifact("text-classification"))
    assert told(COUNT, HOTFOOT_ARTIFACT=place, AWS_LAMBDA_FUNCTION_MEMORY_SIZE="10240", HOTFOOT_THREADS="3") == [6, 3]
    assert told(COUNT, HOTFOOT_ARTIFACT=place, AWS_LAMBDA_FUNCTION_MEMORY_SIZE="10240", HOTFOOT_THREADS="3", RAYON_NUM_THREADS="1")[0] == 4


@pytest.mark.slow
def test_idle_threads_cost_nothing() -> None:
    assert told(IDLE, str(real.artifact("embed").path)) < 0.1


@pytest.mark.slow
def test_two_models_in_turn_cost_what_they_cost_alone() -> None:
    first, second, both = told(IN_TURN, *(str(real.artifact(name).path) for name in ("embed", "pii")))
    print(f"{first:.2f} s and {second:.2f} s of CPU alone, {both:.2f} s in turn")
    assert both <= 1.3 * (first + second)


def test_the_environment_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(reading.POOL, raising=False)
    reading.start_pool.__wrapped__(2)
    assert reading.POOL not in os.environ
    monkeypatch.setenv(reading.POOL, "5")
    reading.start_pool.__wrapped__(2)
    assert os.environ[reading.POOL] == "5"


def test_two_models_opened_at_once_start_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither may take the other's number for the environment's, nor take it away from the other."""
    meet = threading.Barrier(2)

    class Environment(UserDict[str, str]):
        def __contains__(self, key: object) -> bool:
            found = super().__contains__(key)
            with suppress(threading.BrokenBarrierError):
                meet.wait(0.2)  # both have looked, if both can
            return found

    environment, faults = Environment(), list[BaseException]()
    monkeypatch.setattr(os, "environ", environment)

    def start() -> None:
        try:
            reading.start_pool.__wrapped__(2)
        except KeyError as error:
            faults.append(error)

    both = [threading.Thread(target=start) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert faults == []
    assert environment.data == {}

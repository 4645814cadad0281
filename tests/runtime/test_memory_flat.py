"""Memory over a long life: flat after the first requests, whatever lengths and batches come."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import events, real

REQUESTS, SETTLED = 500, 50
FLAT = 1.05

# one function's whole life in a process of its own: every request's resident MiB as the last line of its output
LIFE = """
import json, random, re, sys
from pathlib import Path
from types import SimpleNamespace

count, template = int(sys.argv[1]), json.loads(sys.argv[2])
from hotfoot.handlers.http import handler

def resident():
    return int(re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text()).group(1)) / 1024

def text():
    # from one word to past the limit, as many short ones as long ones
    return " ".join(chosen.choice(words) + str(chosen.randrange(1000)) for _ in range(int(10 ** chosen.uniform(0, 2.2))))

chosen = random.Random(7)
words = "invoice harbour Maria Springfield guitar market weather fell sharply before Friday".split()
context = SimpleNamespace(
    function_name="f", function_version="1", memory_limit_in_mb=1769, invoked_function_arn="arn:aws:lambda:eu-west-1:1:function:f",
    aws_request_id="r", get_remaining_time_in_millis=lambda: 900_000,
)
held = []
for _ in range(count):
    body = {"inputs": [text() for _ in range(chosen.choice([1, 1, 1, 2, 4, 8, 16]))], "parameters": {"truncate": True}}
    answer = handler({**template, "body": json.dumps(body), "isBase64Encoded": False}, context)
    assert answer["statusCode"] == 200, answer
    held.append(resident())
print(json.dumps(held))
"""


def life(artifact: Path, *, cache_mb: int, memory_mb: int = 1769) -> list[float]:
    """MiB that a function holds after each request."""
    environ = {
        **os.environ,
        "HOTFOOT_ARTIFACT": str(artifact),
        "HOTFOOT_CACHE_MB": str(cache_mb),
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(memory_mb),
        "HOTFOOT_LOG_LEVEL": "ERROR",
    }
    template = json.dumps(events.request("apigateway_v2", "/", {}))
    command = [sys.executable, "-c", LIFE, str(REQUESTS), template]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    held: list[float] = json.loads(done.stdout.splitlines()[-1])
    assert len(held) == REQUESTS
    return held


def grown(held: list[float]) -> float:
    """The most after the first requests over what was held then."""
    print(f"{held[0]:.1f} MiB after one request, {held[SETTLED - 1]:.1f} after {SETTLED}, at most {max(held[SETTLED:]):.1f} then")
    return max(held[SETTLED:]) / held[SETTLED - 1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["embed", "pii"])
def test_memory_stays_flat(name: str) -> None:
    assert grown(life(real.artifact(name).path, cache_mb=0)) <= FLAT


@pytest.mark.slow
def test_caches_fill_and_no_more() -> None:
    cache_mb = 16  # what a function of 512 MB may remember
    held = life(real.artifact("embed").path, cache_mb=cache_mb, memory_mb=512)
    grown(held)
    assert max(held[SETTLED:]) <= FLAT * held[SETTLED - 1] + cache_mb

"""Memory of one function over many requests: flat, or a leak."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hotfoot_build.bench import cold_meter
from hotfoot_build.bench.cold_starts import MEMORY_MB, ask
from hotfoot_build.package.emulate import Emulator
from hotfoot_build.progress import Step

REQUESTS, EVERY = 500, 50
BATCHES = (1, 1, 1, 2, 4, 8, 16)  # texts of a request, each as likely as the next
# what a function remembers takes room until its share is full, which a leak never is: without it, only a leak is left
FORGETFUL: Mapping[str, str] = {"HOTFOOT_CACHE_MB": "0"}
KINDS: Mapping[str, Mapping[str, str]] = {"as it comes": {}, "remembering nothing": FORGETFUL}


@dataclass(frozen=True)
class Memory:
    """Bytes in memory after so many requests, in step with each other; `texts` in all."""

    name: str
    requests: tuple[int, ...]
    resident: tuple[int, ...]
    peak: int
    texts: int

    @property
    def drift(self) -> float:
        """The furthest that memory went from where it was at the first look, as a share of that."""
        first, *later = self.resident
        return max(abs(count - first) for count in later) / first


def measure(bundle: Path, texts: Sequence[str], step: Step, *, requests: int = REQUESTS, every: int = EVERY) -> tuple[Memory, ...]:
    """Send the same `requests` one after the other to a function of each kind, and look at it after each `every`."""
    return tuple(_one(kind, bundle, list(mixed(texts, requests)), every, step) for kind in KINDS)


def _one(kind: str, bundle: Path, batches: Sequence[list[str]], every: int, step: Step) -> Memory:
    counts, resident, peak = [], [], 0
    with Emulator(bundle, memory_mb=MEMORY_MB, env=KINDS[kind]) as running:
        for number, batch in enumerate(batches, 1):
            ask(running, batch)
            if number % every == 0:
                found = cold_meter.used(running.processes())
                counts.append(number)
                resident.append(found.now)
                peak = found.peak
                step(f"{kind}, {number} requests: {found.now / 1e6:.0f} MB")
    return Memory(kind, tuple(counts), tuple(resident), peak, sum(map(len, batches)))


def mixed(texts: Sequence[str], requests: int) -> Iterator[list[str]]:
    """So many batches of texts drawn from `texts`, the same ones every time."""
    draw = np.random.default_rng(0)
    for size in draw.choice(BATCHES, requests):
        yield [texts[i] for i in draw.integers(0, len(texts), size)]

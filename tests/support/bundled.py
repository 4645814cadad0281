"""Real bundles for slow tests, and ledgers made by hand. The session shares one cache, so wheels are installed and compiled once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from hotfoot import targets
from hotfoot.contract.bundle import LayerDir, LayerKind
from hotfoot_build.package import tree
from hotfoot_build.package.bundle import bundle
from hotfoot_build.package.layers import Part
from hotfoot_build.package.ledger import Ledger
from support.handmade import retarget
from support.rigged import rigged_artifact


@contextmanager
def session_cache(factory: pytest.TempPathFactory) -> Iterator[Path]:
    """`~/.cache` stands in the session's own folder while the block runs."""
    with pytest.MonkeyPatch.context() as patch:
        cache = factory.getbasetemp() / "xdg-cache"
        patch.setenv("XDG_CACHE_HOME", str(cache))
        yield cache


def rigged_bundle(
    directory: Path, target: str, *, task: str = "text-classification", python: str | None = None, package: str | None = None
) -> Path:
    """The bundle of a rigged artifact for `target`, with real wheels, in `directory`."""
    artifact, out = directory / f"artifact-{target}", directory / f"bundle-{target}"
    rigged_artifact(artifact, task)
    retarget(artifact, target)
    bundle(artifact, out, progress=print, python=python, package=package)
    return out


def part_by_hand(kind: LayerKind, files: Mapping[str, int]) -> Part:
    """A part of files of these bytes, which a zip halves."""
    weights = {name: tree.Weight(count, count // 2) for name, count in files.items()}
    return Part(LayerDir(kind, kind, "0" * 64, sum(files.values()), sum(files.values()) // 2), weights)


def ledger_by_hand(target: str, heaviest: int = 40_000_000) -> Ledger:
    """The ledger of a bundle that nobody made."""
    runtime = {"python/numpy/core.so": heaviest, "python/orjson/o.so": 9_000_000, "python/orjson/empty.py": 0, "python/tiny.py": 30}
    parts = (
        part_by_hand("runtime", runtime),
        part_by_hand("tokenizer", {"tokenizer.json": 700_000}),
        part_by_hand("model", {"model.onnx": 23_000_000}),
    )
    return Ledger.of((*parts, part_by_hand("code", {"hotfoot/__init__.py": 1_000_000})), targets.load(target))

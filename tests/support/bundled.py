"""Real bundles for slow tests. The session shares one cache, so wheels are installed and compiled once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hotfoot_build.package.bundle import bundle
from support.handmade import retarget
from support.rigged import rigged_artifact


@contextmanager
def session_cache(factory: pytest.TempPathFactory) -> Iterator[Path]:
    """`~/.cache` stands in the session's own folder while the block runs."""
    with pytest.MonkeyPatch.context() as patch:
        cache = factory.getbasetemp() / "xdg-cache"
        patch.setenv("XDG_CACHE_HOME", str(cache))
        yield cache


def rigged_bundle(directory: Path, target: str, *, task: str = "text-classification", python: str | None = None) -> Path:
    """The bundle of a rigged artifact for `target`, with real wheels, in `directory`."""
    artifact, out = directory / f"artifact-{target}", directory / f"bundle-{target}"
    rigged_artifact(artifact, task)
    retarget(artifact, target)
    bundle(artifact, out, progress=print, python=python)
    return out

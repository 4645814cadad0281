"""Bundles of a few bytes that become container images."""

from __future__ import annotations

from pathlib import Path

from hotfoot import targets
from hotfoot.contract.bundle import Bundle
from hotfoot_build.package import images
from support.cloud.bundles import write_bundle


def write_image_bundle(directory: Path, *, target: str = "lambda-arm64", weights: str = "weights", python: str = "3.13") -> Bundle:
    """Write a bundle with the Dockerfile and all that `hotfoot bundle` puts beside it."""
    chosen = targets.load(target)
    made = write_bundle(directory, target=target, arch=chosen.arch, weights=weights, python=python, package="image")
    images.write(directory, chosen, python)
    for name in ("ledger.json", "treemap.png"):
        (directory / name).write_text(f"of {weights}", encoding="utf-8")
    return made

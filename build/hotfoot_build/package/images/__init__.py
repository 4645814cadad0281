"""Dockerfiles that copy a bundle into an image, and do nothing else."""

from __future__ import annotations

from pathlib import Path

from hotfoot.contract.target import Target

DOCKERFILE, IGNORE = "Dockerfile", ".dockerignore"


def write(bundle: Path, target: Target, python: str) -> None:
    """Put a Dockerfile for the target into the bundle, and beside it what of the bundle is sent to Docker."""
    text = (Path(__file__).parent / f"{target.system}.Dockerfile").read_text(encoding="utf-8")
    (bundle / DOCKERFILE).write_text(f"ARG PYTHON={python}\n{text}", encoding="utf-8")
    (bundle / IGNORE).write_text("*\n!layers\n!code\n", encoding="utf-8")

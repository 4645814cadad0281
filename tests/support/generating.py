"""Tiny random models that make text, and what the real build makes of them, once a test session."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotfoot.model import Model
from hotfoot_build.pipeline import BuildRequest, Built
from support import tiny

TASKS = {
    "llama": "text-generation",
    "mistral": "text-generation",
    "gpt2": "text-generation",
    "t5": "summarization",
    "bart": "summarization",
    "marian": "translation",
}
FURTHER = {
    **dict.fromkeys(("qwen2", "qwen3", "gemma", "gemma3", "phi3", "gpt_neox", "opt"), "text-generation"),
    **dict.fromkeys(("pegasus", "mbart", "umt5"), "summarization"),
}
DECODERS = ("llama", "mistral", "gpt2")
PAIRS = ("t5", "bart", "marian")


@cache
def models(kinds: str = "usual") -> Path:
    """The folder with every tiny model that makes text, or with those of further architectures."""
    out = tiny.room() / f"generative-{kinds}"
    script = Path(__file__).with_name("make_tiny_generative.py")
    environ = {**os.environ, "PYTHONPATH": str(script.parents[1])}
    command = [str(tiny.interpreter()), str(script), str(out), kinds]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
    assert done.returncode == 0, done.stderr[-2000:]
    return out


def folder(model: str) -> Path:
    """The model's own files."""
    return models("further" if model in FURTHER else "usual") / model


def request(model: str, out: Path, precision: str = "fp32", /, **fields: object) -> BuildRequest:
    """A request for a tiny model on this machine."""
    task = {**TASKS, **FURTHER}[model]
    base = BuildRequest(str(folder(model)), task, "local", precision, out, samples=tiny.texts())
    return replace(base, **fields)  # type: ignore[arg-type]


# Random models find many tokens about as likely as each other: in few bits the bars of real ones would fall to chance. What quantized
# products compute is held to their formula elsewhere.
LOOSE = {
    "int8": {"argmax_agreement": 0.85, "perplexity_ratio": 0.95},
    "int4-weights": {"argmax_agreement": 0.4, "perplexity_ratio": 0.8},
}


def artifact(name: str, precision: str = "fp32") -> Built:
    """A built tiny model, shared by the session's tests: not to be changed."""
    return _artifact(name, precision)


@cache
def _artifact(name: str, precision: str) -> Built:
    out = tiny.room() / "artifacts" / f"{name}-{precision}"
    return tiny.run_build(request(name, out, precision, thresholds=LOOSE.get(precision)))


def opened(name: str, precision: str = "fp32") -> Model:
    """The same, opened."""
    return _opened(name, precision)


@cache
def _opened(name: str, precision: str) -> Model:
    return Model.open(artifact(name, precision).path, threads=1, foreign=True)


@cache
def expected(name: str) -> Mapping[str, NDArray[Any]]:
    """What transformers says: `prompt.N` and `made.N` of greedy answers, `ids` and `logits` of a long text."""
    with np.load(folder(name) / "expected.npz") as arrays:
        return dict(arrays)

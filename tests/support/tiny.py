"""Tiny random models and what the real build makes of them, once a test session."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from io import StringIO
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
from rich.console import Console

from hotfoot.contract.target import Target
from hotfoot.task import Corpus, load
from hotfoot_build import calibrate, environment, graph, passes
from hotfoot_build.passes import Context
from hotfoot_build.pipeline import BuildRequest, Built, build
from hotfoot_build.progress import Progress
from support.warm_python import warm

TASKS = {
    "embed": "feature-extraction",
    "plain": "feature-extraction",
    "tags": "token-classification",
    "classes": "text-classification",
    "score": "text-classification",
    "shared": "text-classification",
    "pieces": "feature-extraction",
}
MORE = {
    "mpnet": "feature-extraction",
    "electra": "token-classification",
    "camembert": "token-classification",
    "modernbert": "text-classification",
    "dense": "feature-extraction",
    "deberta": "text-classification",
    "deberta-tags": "token-classification",
    "answers": "question-answering",
    "answers-roberta": "question-answering",
    "masks": "fill-mask",
    "masks-roberta": "fill-mask",
    "ranks": "text-ranking",
    "ranks-roberta": "text-ranking",
    "nli": "zero-shot-classification",
    "nli-two": "zero-shot-classification",
    "pairs": "text-classification",
    "many": "text-classification",
    "scale": "text-classification",
}
# Random heads decide many tokens and texts by a hair, and 21 texts make one flip large: in int8 the bars of real models would fall to
# chance. fp32 is held to the real ones, and the int8 products to their formula.
LOOSE = {
    "token-classification": {"exact_match": 0.3, "span_f1": 0.9, "entity_f1": 0.95, "label_agreement": 0.95},
    "text-classification": {"label_agreement": 0.8},
    "text-ranking": {"top1": 0.5, "kendall": 0.75, "ndcg": 0.97},
    "zero-shot-classification": {"top1": 0.5, "kendall": 0.5, "label_agreement": 0.7, "score_mean": 0.95},
    "question-answering": {"exact_match": 0.5, "span_f1": 0.5},
}


# a regression's drift is told in spreads of the original's scores, and random heads have next to none
LOOSE_BY_NAME = {"scale": {**LOOSE["text-classification"], "score_mean": 0.8, "score_p99": 0.5}}


@cache
def interpreter() -> Path:
    """Python of the export environment, torch and its kin imported already."""
    return warm(environment.python(print), room())


@cache
def room() -> Path:
    """A folder for this test session: models, exports and artifacts."""
    return Path(mkdtemp(prefix="hotfoot-tiny-"))


@cache
def models() -> Path:
    """The folder with every tiny model."""
    out = room() / "models"
    script = Path(__file__).with_name("make_tiny.py")
    done = subprocess.run([str(interpreter()), str(script), str(out)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return out


def quiet() -> Progress:
    """Progress that nobody sees."""
    return Progress(Console(file=StringIO()))


@contextmanager
def own_cache() -> Iterator[None]:
    """Exports go to the session's folder; the export environment stays the user's."""
    before = {k: os.environ.get(k) for k in ("XDG_CACHE_HOME", environment.PYTHON)}
    os.environ.update({"XDG_CACHE_HOME": str(room() / "cache"), environment.PYTHON: str(interpreter())})
    try:
        yield
    finally:
        for key, value in before.items():
            os.environ.pop(key) if value is None else os.environ.__setitem__(key, value)


def run_build(request: BuildRequest) -> Built:
    """The real build, its exports cached in the session's folder."""
    with own_cache():
        return build(request, quiet())


@cache
def texts() -> Path:
    """A sixtieth of hotfoot's own texts, one past every limit: what tiny models are proven on here."""
    path = room() / "texts.txt"
    every = calibrate.texts(None)
    path.write_text("\n".join([*every[::60], every[-1]]) + "\n", encoding="utf-8")
    return path


@cache
def pairs(corpus: Corpus) -> Path:
    """The same share of hotfoot's own questions, of its queries with all their documents, or of its texts with all their hypotheses."""
    path, every = room() / f"{corpus}.jsonl", calibrate.samples(corpus, None)
    if corpus == "questions":
        lines: list[dict[str, Any]] = [{"question": q, "context": c} for q, c in list(zip(every.texts, every.seconds, strict=True))[::-60]]
    else:
        groups = list(zip(np.cumsum((0, *every.groups[:-1])).tolist(), every.groups, strict=True))
        first, second = calibrate.NAMES[corpus]
        chosen = groups[::20] if corpus == "rankings" else groups[::-20]  # its last text is longer than any limit
        lines = [{first: every.texts[i], second: every.seconds[i : i + count]} for i, count in chosen]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def request(model: str, out: Path, precision: str = "fp32", /, **fields: object) -> BuildRequest:
    """A request for a tiny model on this machine."""
    task = {**TASKS, **MORE}[model]
    bars = LOOSE_BY_NAME.get(model, LOOSE.get(task)) if precision.startswith("int") else None
    corpus = load(task).corpus
    samples = pairs(corpus) if corpus in calibrate.NAMES else texts()
    base = BuildRequest(str(models() / model), task, "local", precision, out, samples=samples, thresholds=bars)
    return replace(base, **fields)  # type: ignore[arg-type]


@cache
def artifact(name: str, precision: str = "fp32") -> Built:
    """A built tiny model, shared by the session's tests: not to be changed."""
    built = run_build(request(name, room() / "artifacts" / f"{name}-{precision}", precision))
    kept = room() / "exported" / f"{name}.onnx"
    if not kept.exists():  # at once: the cache keeps the newest exports only
        found = max((room() / "cache" / "hotfoot" / "exports").iterdir(), key=lambda f: f.stat().st_mtime)
        kept.parent.mkdir(exist_ok=True)
        shutil.copyfile(found / "model.onnx", kept)
    return built


def exported(name: str) -> Path:
    """The fp32 graph as the exporter wrote it."""
    artifact(name)
    return room() / "exported" / f"{name}.onnx"


def optimised(name: str, recipe: tuple[str, ...], context: Context) -> graph.Graph:
    """The exported graph after `recipe`."""
    current = graph.load(exported(name))
    passes.apply(current, recipe, context)
    return current


def narrow(target: Target, largest: int) -> Target:
    """A target with another int8 range."""
    return replace(target, int8_range=largest)

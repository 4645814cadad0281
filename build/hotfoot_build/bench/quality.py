"""How good the answers are: agreement with the original, and what people say."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from hotfoot.contract.errors import ArtifactError
from hotfoot.model import Model
from hotfoot_build import parity
from hotfoot_build.bench import datasets
from hotfoot_build.bench.case import Case
from hotfoot_build.bench.datasets import Sentences, Similarities
from hotfoot_build.calibrate import Samples
from hotfoot_build.exchange import Reference

T = TypeVar("T")

TENTH = 10

# what the plots call agreement, by what the task measures; the first that is there
HEADLINES = ("cosine_mean", "entity_f1", "label_agreement", "kendall")
POLES = {"NEGATIVE": False, "POSITIVE": True}


@dataclass(frozen=True)
class Yardsticks:
    """What the answers of one model are held against. `notes` says what could not be had."""

    samples: Samples
    reference: Reference
    similarities: Similarities | None
    sentences: Sentences | None
    notes: tuple[str, ...]


def yardsticks(case: Case, *, quick: bool) -> Yardsticks:
    """What the original answered, or a tenth of it; and people's judgement, for models that it can be asked of."""
    notes: list[str] = []
    embeds = (case.facts.embedding or {}).get("pooling", "none") != "none"
    similarities = _had("the Lee corpus", datasets.lee, notes) if embeds else None
    sentences = _had("the VADER sentences", datasets.vader, notes) if set(case.facts.labels) == set(POLES) else None
    samples, reference = case.original.samples, case.original.reference
    if quick:
        samples, reference = _thinned(samples, reference)
    return Yardsticks(samples, reference, similarities, sentences, tuple(notes))


def _had(name: str, fetch: Callable[[], T], notes: list[str]) -> T | None:
    try:
        return fetch()
    except ArtifactError as error:
        notes.append(f"{name}: {error.message}")
        return None


def _thinned(samples: Samples, reference: Reference) -> tuple[Samples, Reference]:
    """A tenth: every tenth text, or the first tenth of the groups."""
    groups = samples.groups[: -(-len(samples.groups) // TENTH)]
    kept = range(sum(groups)) if groups else range(0, len(samples.texts), TENTH)
    fewer = Samples(tuple(samples.texts[i] for i in kept), tuple(samples.seconds[i] for i in kept if samples.seconds), groups)
    return fewer, Reference(tuple(reference.outputs[i] for i in kept), tuple(reference.ids[i] for i in kept))


def measure(model: Model, sticks: Yardsticks) -> dict[str, float]:
    """The task's own measures of agreement; `lee_pearson` for embeddings; `vader_accuracy` for a model of two poles.

    Raises ParityError for outputs that cannot be compared at all.
    """
    no_bars = dict.fromkeys(model.task.thresholds["int8"], -math.inf)
    found = {m.name: m.value for m in parity.measure(model, sticks.reference, sticks.samples, no_bars).metrics}
    if sticks.similarities is not None:
        _, vectors = model.outputs(sticks.similarities.texts)
        found["lee_pearson"] = sticks.similarities.pearson(np.stack(vectors))
    if sticks.sentences is not None:
        said = np.array(_positive(model, sticks.sentences.texts))
        found["vader_accuracy"] = float((said == np.array(sticks.sentences.positive)).mean())
    return found


def _positive(model: Model, texts: Sequence[str]) -> list[bool]:
    _, logits = model.outputs(tuple(texts))
    return [POLES[model.manifest.labels[int(np.argmax(row))]] for row in logits]


def headline(quality: Mapping[str, float]) -> tuple[str, float]:
    """The measure that stands for all, and its value."""
    name = next((n for n in HEADLINES if n in quality), next(iter(quality)))
    return name, quality[name]

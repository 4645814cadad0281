"""Similarity of one sentence to several others: the cosine of their embeddings."""

from __future__ import annotations

from typing import Any

import numpy as np

from hotfoot.contract.errors import InputError
from hotfoot.contract.json_types import json_type
from hotfoot.contract.manifest import Manifest
from hotfoot.task import Array, Encoded, Options, Request, Task, encode_texts, run_encoder
from hotfoot.tasks import _vectors as vectors
from hotfoot.tasks._texts import TRUNCATION, check_parameters, read_text, truncation
from hotfoot.tasks.feature_extraction import read_prompt

PARAMETERS = ("prompt_name", *TRUNCATION)
SAMPLE = {"source_sentence": "A man is playing a guitar.", "sentences": ["Someone performs music.", "The market fell on Monday."]}


def parse(inputs: Any, parameters: Options, manifest: Manifest) -> Request:
    """`{"source_sentence": …, "sentences": […]}`; raises InputError."""
    check_parameters(parameters, PARAMETERS)
    if not isinstance(inputs, dict):
        raise InputError(f"must be an object with source_sentence and sentences, not {json_type(inputs)}.", where="inputs")
    if unknown := sorted(set(inputs) - set(SAMPLE)):
        raise InputError("is not known here; there are source_sentence and sentences.", where=f"inputs.{unknown[0]}")
    sentences = inputs.get("sentences")
    if not isinstance(sentences, list) or not sentences:
        raise InputError("must be a list of at least one text.", where="inputs.sentences")
    prompt = read_prompt(parameters, manifest)
    paths = ("inputs.source_sentence", *(f"inputs.sentences[{i}]" for i in range(len(sentences))))
    texts = (read_text(value, path) for value, path in zip([inputs.get("source_sentence"), *sentences], paths, strict=True))
    return Request(
        texts=tuple(prompt + text for text in texts), paths=paths, single=False, truncate=truncation(parameters, manifest), options={}
    )


def decode(_request: Request, _encoded: tuple[Encoded, ...], outputs: list[Array], manifest: Manifest) -> list[float]:
    """One cosine a sentence, in order."""
    short = (vectors.shorten(v, manifest.facts.get("default_dimensions")) for v in outputs)
    source, *others = (vectors.unit(v).astype(np.float64) for v in short)
    # rounding may leave 1 + 1e-8
    return [float(np.clip(source @ other, -1.0, 1.0)) for other in others]


TASK = Task(
    name="sentence-similarity",
    summary="Score how close sentences are to one.",
    export=vectors.EXPORT,
    parameters=PARAMETERS,
    facts=vectors.facts,
    parse=parse,
    encode=encode_texts,
    run=run_encoder,
    decode=decode,
    parity=vectors.parity,
    thresholds=vectors.THRESHOLDS,
    sample=SAMPLE,
)

"""Embeddings: one vector a text."""

from __future__ import annotations

import base64
from typing import Any

from hotfoot.contract.errors import InputError
from hotfoot.contract.manifest import Manifest
from hotfoot.task import Array, Encoded, Options, Request, Task, encode_texts, run_encoder
from hotfoot.tasks import _vectors as vectors
from hotfoot.tasks._texts import SHOWN, TRUNCATION, check_parameters, choice, option, read_texts, truncation

PARAMETERS = ("normalize", "dimensions", "encoding_format", "prompt_name", *TRUNCATION)
FORMATS = ("float", "base64")


def parse(inputs: Any, parameters: Options, manifest: Manifest) -> Request:
    """A text or a list of texts; raises InputError."""
    check_parameters(parameters, PARAMETERS)
    texts, paths, single = read_texts(inputs)
    prompt = read_prompt(parameters, manifest)
    return Request(
        texts=tuple(prompt + text for text in texts),
        paths=paths,
        single=single,
        truncate=truncation(parameters, manifest),
        options={
            "normalize": _read_normalize(parameters, manifest),
            "dimensions": _read_dimensions(parameters, manifest),
            "packed": choice(parameters, "encoding_format", FORMATS, FORMATS[0]) == "base64",
        },
    )


def read_prompt(parameters: Options, manifest: Manifest) -> str:
    """The text that the model wants in front: by `prompt_name`, else the model's default. Raises InputError."""
    prompts: dict[str, str] = manifest.facts.get("prompts") or {}
    name = option(parameters, "prompt_name", str, manifest.facts.get("default_prompt"))
    if name is None:
        return ""
    if name not in prompts:
        known = f"There are: {', '.join(sorted(prompts))}." if prompts else "This model has none."
        raise InputError(f"is {name[:SHOWN]!r}, which is no prompt of this model.", hint=known, where="parameters.prompt_name")
    return prompts[name]


def _read_normalize(parameters: Options, manifest: Manifest) -> bool:
    normalized = bool(manifest.facts["normalize"])
    wanted: bool = option(parameters, "normalize", bool, normalized)
    if normalized and not wanted:
        raise InputError("cannot be false: this artifact's graph ends in unit vectors.", where="parameters.normalize")
    return wanted and not normalized


def _read_dimensions(parameters: Options, manifest: Manifest) -> int | None:
    width = int(manifest.facts["dimensions"])
    default = manifest.facts.get("default_dimensions")
    wanted: int | None = option(parameters, "dimensions", int, None if default is None else min(width, default))
    if wanted is not None and not 1 <= wanted <= width:
        raise InputError(f"is {wanted}; it must be from 1 to {width}.", where="parameters.dimensions")
    return wanted


def decode(request: Request, _encoded: tuple[Encoded, ...], outputs: list[Array], _manifest: Manifest) -> list[Array] | list[str]:
    """One vector a text, also for a bare text: `[[…]]`; or each as its float32 numbers, little-endian, in base64."""
    found = [vectors.unit(v) if request.options["normalize"] else v for v in outputs]
    short = [vectors.shorten(v, request.options["dimensions"]) for v in found]
    return [base64.b64encode(v.astype("<f4").tobytes()).decode() for v in short] if request.options["packed"] else short


TASK = Task(
    name="feature-extraction",
    summary="Turn each text into a vector.",
    export=vectors.EXPORT,
    parameters=PARAMETERS,
    facts=vectors.facts,
    parse=parse,
    encode=encode_texts,
    run=run_encoder,
    decode=decode,
    parity=vectors.parity,
    thresholds=vectors.THRESHOLDS,
    sample="A man is playing a guitar on stage.",
)

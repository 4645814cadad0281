"""A few questions with the answers that the artifact gave at build time, to be asked again: of the artifact, or of a deployment."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hotfoot.contract import codec
from hotfoot.contract import manifest as manifests
from hotfoot.contract.errors import ArtifactError, ParityError
from hotfoot.contract.manifest import SAMPLES
from hotfoot.model import Model
from hotfoot.tasks._tokens import masked
from hotfoot.wire import dumps
from hotfoot_build import endpoint

# hotfoot's own, never the user's: the file travels with the artifact
TEXTS = (
    "My name is Maria Gonzalez and I live at 42 Elm Street, Springfield, IL 62704.",
    "A man is playing a guitar on stage.",
    "Café Zoë, 👨\u200d👩\u200d👧 in Paris: déjà vu!",
    "The pilot exercised great care in landing. " * 12,
)
QUESTION = "Where do I live?"
# other CPUs sum floats in another order, and an int8 step may fall to the other side of a half: a score moves by less than this
TOLERANCE = 5e-3


@dataclass(frozen=True)
class Sample:
    """One question, and the answer as JSON."""

    inputs: Any
    parameters: Mapping[str, Any]
    answer: Any


@dataclass(frozen=True)
class Samples:
    """What `samples.json` holds. It lies beside the manifest and is in no digest: another CPU may differ in the last digit."""

    digest: str
    samples: tuple[Sample, ...]


def record(artifact: Path, model: Model) -> None:
    """Ask the model, which may be open from a copy that suits this machine, and write `samples.json` into the artifact."""
    given: dict[str, Any] = {"truncate": True} if "truncate" in model.task.parameters else {}
    if "max_new_tokens" in model.task.parameters:
        given |= {"max_new_tokens": 8}  # each further token is one more that another CPU may choose otherwise, by a hair
    samples = tuple(Sample(inputs, given, _answer(model, inputs, given)) for inputs in (model.sample, *_inputs(model)))
    (artifact / SAMPLES).write_text(codec.dumps(Samples(manifests.read(artifact).digest, samples)), encoding="utf-8")


def read(artifact: Path) -> Samples:
    """The samples that came with the artifact. Raises ArtifactError where there are none."""
    path = artifact / SAMPLES
    if not path.is_file():
        raise ArtifactError(f"no {SAMPLES} in {artifact}.", hint="Build the artifact again.")
    return codec.loads(Samples, path.read_text(encoding="utf-8"), str(path))


def check(artifact: Path, url: str | None, token: str | None = None, region: str | None = None) -> int:
    """Ask again and compare; gives how many answers agree, which is all of them.

    url: a deployment of the artifact; without one the artifact itself is asked. token, region: as `endpoint.connect` has them, which
    raises too. Raises ParityError that names each answer that differs and where, or ArtifactError when the deployment does not answer
    or serves another artifact.
    """
    kept = read(artifact)
    ask = _over_http(endpoint.connect(url, token, region), kept.digest) if url else _of(Model.open(artifact))
    faults = []
    for number, sample in enumerate(kept.samples):
        where = differs(ask(sample), sample.answer)
        if where:
            faults.append(f"  sample {number}: {where}")
    if faults:
        raise ParityError(f"{len(faults)} of {len(kept.samples)} answers are not those of the build:\n" + "\n".join(faults))
    return len(kept.samples)


def differs(found: Any, wanted: Any, path: str = "answer") -> str | None:
    """None, or where two JSON answers part: numbers within the tolerance are the same, everything else must be equal."""
    if isinstance(wanted, float) and isinstance(found, (int, float)) and not isinstance(found, bool):
        return None if math.isclose(found, wanted, abs_tol=TOLERANCE) else f"{path} is {found}, it was {wanted}"
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        return next((w for i, (f, g) in enumerate(zip(found, wanted, strict=True)) if (w := differs(f, g, f"{path}[{i}]"))), None)
    if isinstance(wanted, dict) and isinstance(found, dict) and wanted.keys() == found.keys():
        return next((w for key in wanted if (w := differs(found[key], wanted[key], f"{path}.{key}"))), None)
    return (
        None if type(found) is type(wanted) and found == wanted else f"{path} is {json.dumps(found)[:80]}, it was {json.dumps(wanted)[:80]}"
    )


def _inputs(model: Model) -> list[Any]:
    """TEXTS as the task takes them; none where it takes something else."""
    if model.task.corpus == "questions":
        return [{"question": QUESTION, "context": text} for text in TEXTS]
    if model.task.corpus == "rankings":
        return [{"query": QUESTION, "texts": list(TEXTS)}]
    if model.task.corpus == "hypotheses":
        return [{**model.sample, "sequences": text} for text in TEXTS]
    if model.task.corpus == "masked":
        return [masked(text, str(model.manifest.facts["mask_token"])) for text in TEXTS]
    return list(TEXTS) if isinstance(model.sample, str) else []


def _answer(model: Model, inputs: Any, parameters: Mapping[str, Any]) -> Any:
    return json.loads(dumps(model.predict(inputs, parameters).answer))


def _of(model: Model) -> Callable[[Sample], Any]:
    return lambda sample: _answer(model, sample.inputs, sample.parameters)


def _over_http(there: endpoint.Endpoint, digest: str) -> Callable[[Sample], Any]:
    """Ask the deployment; of it, not of its memory, and in the shape that the samples have, whichever it gives where nobody says."""
    headers = {"content-type": "application/json", "x-use-cache": "false", "x-answer-shape": "current"}

    def ask(sample: Sample) -> Any:
        body = json.dumps({"inputs": sample.inputs, "parameters": sample.parameters}).encode()
        try:
            answer = there.send("POST", "/", headers, body)
            found = json.loads(answer.body) if answer.status == 200 else None
        except (OSError, ValueError) as error:
            raise ArtifactError(f"{there.url} does not answer: {error}") from None
        if answer.status != 200:
            raise ArtifactError(f"{there.url} answers {answer.status}: {answer.body[:300].decode(errors='replace')}")
        served = next((value for name, value in answer.headers if name.lower() == "x-model-digest"), "none")
        if served != digest:
            raise ArtifactError(f"{there.url} serves the artifact with digest {served}, not {digest}.", hint="Deploy this one.")
        return found

    return ask

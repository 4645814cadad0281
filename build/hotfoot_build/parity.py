"""Does the artifact still give the original's answers? Asked through the runtime that will serve it."""

from __future__ import annotations

import platform
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from hotfoot import targets
from hotfoot.contract import manifest as manifests
from hotfoot.contract.errors import InputError, ParityError, UnsupportedError
from hotfoot.model import Model
from hotfoot.task import Array, Encoded, Task, load
from hotfoot.tokenizer import open_tokenizer
from hotfoot_build import graph as graphs
from hotfoot_build import weights
from hotfoot_build.calibrate import TOKENIZER_TEXTS, Samples
from hotfoot_build.exchange import Reference
from hotfoot_build.passes.int8_rowwise import widen_weights

INDEPENDENCE_TEXTS = 64  # of the texts, run once more alone


@dataclass(frozen=True)
class Metric:
    """One measured agreement with the original. NaN never passes."""

    name: str
    value: float
    threshold: float

    @property
    def passed(self) -> bool:
        """True when the value reaches the threshold."""
        return self.value >= self.threshold


@dataclass(frozen=True)
class Parity:
    """What was measured, on how many texts, where, and whether integer sums were those of the target."""

    metrics: tuple[Metric, ...]
    texts: int
    tokens: int
    host: Mapping[str, Any]

    @property
    def passed(self) -> bool:
        """True when every metric reaches its threshold."""
        return all(m.passed for m in self.metrics)


def thresholds(task: Task, precision: str, overrides: Mapping[str, float]) -> dict[str, float]:
    """The task's thresholds at this precision (`int8-static` is held to int8's), with the user's in their place.

    Raises InputError for an unknown name, UnsupportedError for a precision that the task has no thresholds for.
    """
    kind = precision.partition("-")[0]
    if kind not in task.thresholds:
        raise UnsupportedError(f"{task.name} has no thresholds for {kind}; it has some for {', '.join(task.thresholds)}.")
    known = dict(task.thresholds[kind])
    for name in overrides:
        if name not in known:
            raise InputError(f"{name} is no measure of {task.name}; there are {', '.join(sorted(known))}", where="--threshold")
    return {**known, **overrides}


def check_tokenizer(artifact: Path, reference: Reference, samples: Samples) -> None:
    """Raise ParityError when the tokenizer that ships gives other ids than the original's, naming the first text."""
    manifest = manifests.read(artifact)
    tokenizer = open_tokenizer(artifact, manifest, layer_root=artifact)
    side = manifest.tokenizer.truncation_side
    encoded = tokenizer.encode_cut(samples.texts, samples.seconds, side, load(manifest.task).cuts)
    encoded += tokenizer.encode(TOKENIZER_TEXTS, truncate=side)
    for number, (ours, theirs) in enumerate(zip(encoded, reference.ids, strict=True)):
        if not np.array_equal(ours.ids, theirs):
            shown = f"{ours.ids[:12].tolist()} instead of {theirs[:12].tolist()}"
            raise ParityError(f"the tokenizer gives other ids than the original for text {number}: {shown}")


def measure(model: Model, reference: Reference, samples: Samples, wanted: Mapping[str, float]) -> Parity:
    """As `compare`. Raises ParityError with all numbers when one is below its threshold."""
    parity = compare(model, reference, samples, wanted)
    if not parity.passed:
        lines = "\n".join(
            f"  {m.name} {m.value:.5f}, at least {m.threshold} is asked{'' if m.passed else ': missed'}" for m in parity.metrics
        )
        raise ParityError(
            f"the artifact is too far from the original over {len(samples.texts)} texts:\n{lines}",
            hint="Build with --precision auto or fp32, measure on your own texts with --samples,"
            " or lower a bar with --threshold NAME=VALUE.",
        )
    return parity


def compare(model: Model, reference: Reference, samples: Samples, wanted: Mapping[str, float]) -> Parity:
    """Run every text or pair through the staged artifact, opened, and compare with the original's outputs.

    Raises ParityError for outputs of another shape, values that are no numbers, and texts whose neighbours change their answers.
    """
    encoded, outputs = model.outputs(samples.texts, samples.seconds, reference.targets)
    for index, (ours, theirs) in enumerate(zip(outputs, reference.outputs, strict=True)):
        if ours.shape != theirs.shape:
            raise ParityError(f"text {index} gives an output of shape {ours.shape}, the original's is {theirs.shape}")
        if not np.isfinite(ours).all():
            raise ParityError(f"text {index} gives a value that is no number")
    _check_independence(model, encoded, outputs)
    values = model.task.parity(_grouped(outputs, samples.groups), _grouped(reference.outputs, samples.groups), model.manifest)
    metrics = tuple(Metric(name, values[name], wanted[name]) for name in sorted(wanted))
    return Parity(metrics, len(samples.texts), sum(len(e.ids) for e in encoded), host())


def _grouped(outputs: Sequence[Array], groups: Sequence[int]) -> list[Array]:
    """Outputs as they are, or those of each group of neighbours as one: (documents, …) of a query."""
    ends = np.cumsum(groups).tolist()
    return [np.stack(outputs[end - size : end]) for size, end in zip(groups, ends, strict=True)] if groups else list(outputs)


def _check_independence(model: Model, encoded: Sequence[Encoded], outputs: Sequence[Array]) -> None:
    """Raise ParityError when a text alone gives other bits than it gave among the others."""
    for index in range(0, len(encoded), max(1, len(encoded) // INDEPENDENCE_TEXTS)):
        alone = model.probe((encoded[index],))[0]
        if not np.array_equal(alone, outputs[index]):
            worst = float(np.abs(alone - outputs[index]).max())
            raise ParityError(f"text {index} gives another result alone than in a batch (by {worst:.2e} at most).")


@contextmanager
def for_this_host(artifact: Path) -> Iterator[Path]:
    """The artifact, or a copy that gives its target's integers here: full-range int8 saturates on x86 without VNNI."""
    target = targets.load(manifests.read(artifact).target)
    if targets.machine_arch() != "x86_64" or "vnni" in targets.cpu_features() or target.int8_range < 127:
        yield artifact
        return
    with tempfile.TemporaryDirectory(prefix="hotfoot-parity-") as folder:
        copy, made = Path(folder, "artifact"), manifests.read(artifact)
        shutil.copytree(artifact, copy, ignore=shutil.ignore_patterns(manifests.WEIGHTS, *(spec.file for spec in made.graphs)))
        widened = [graphs.load(artifact / spec.file, spec.role) for spec in made.graphs]
        for graph in widened:
            widen_weights(graph)
        weights.save(widened, copy)
        files = manifests.describe(copy, [copy / entry.path for entry in made.files])
        (copy / manifests.MANIFEST).write_text(manifests.dumps(replace(made, files=files)), encoding="utf-8")
        yield copy


def host() -> dict[str, Any]:
    """The machine that measured."""
    return {"arch": platform.machine(), "cpu_features": sorted(targets.cpu_features()), "onnxruntime": ort.__version__}

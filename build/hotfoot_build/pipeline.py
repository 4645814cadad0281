"""The build, from top to bottom: a model's name in, a proven artifact out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hotfoot import targets, task
from hotfoot.contract import codec
from hotfoot.contract import manifest as manifests
from hotfoot.contract.errors import ArtifactError
from hotfoot.contract.manifest import EVIDENCE, MANIFEST, Manifest
from hotfoot.contract.target import Target
from hotfoot_build import budget, cache, calibrate, facts, parity, stage
from hotfoot_build.original import obtain
from hotfoot_build.parity import Parity
from hotfoot_build.progress import Progress, Step, size
from hotfoot_build.resolve import Snapshot, resolve
from hotfoot_build.stage import Plan

PRECISIONS = ("int8", "fp32")


@dataclass(frozen=True)
class BuildRequest:
    """What the user asks for. None means: as the model says, or the default."""

    model: str
    task: str
    target: str
    precision: str = "int8"
    out: Path | None = None
    revision: str | None = None
    name: str | None = None
    pooling: str | None = None
    max_tokens: int | None = None
    samples: Path | None = None
    thresholds: Mapping[str, float] | None = None
    allow_pickle: bool = False
    trust_remote_code: bool = False


@dataclass(frozen=True)
class Built:
    """Where the artifact lies, what it is, and how close to the original."""

    path: Path
    manifest: Manifest
    parity: Parity


def build(request: BuildRequest, progress: Progress) -> Built:
    """Make the artifact. It appears whole or not at all.

    Raises HotfootError: input, unsupported, pass, parity or budget, with what to do.
    """
    chosen, target = task.load(request.task), targets.load(request.target)
    wanted = parity.thresholds(chosen, request.precision, request.thresholds or {})
    texts = calibrate.texts(request.samples)
    with progress.step("resolve") as step:
        snapshot = _resolve(request, step)
        step.result = f"{snapshot.model.id} at {snapshot.model.revision[:19]}, {snapshot.model.architecture}"
    plan = Plan(request.task, chosen, target, request.precision, snapshot, _read_facts(request, snapshot, progress))
    out = request.out or default_out(snapshot, target)
    refuse_other_folder(out)
    with progress.step("export") as step:
        original = obtain(snapshot, chosen, plan.facts.max_tokens, plan.facts.embedding, texts, step)
        step.result = f"{size(original.graph.stat().st_size)} fp32; the original answered {len(texts)} texts"
    with cache.replacing(out) as folder:
        manifest = stage.write(folder, plan, original, progress)
        with progress.step("parity") as step:
            parity.check_tokenizer(folder, original.reference, texts)
            measured = parity.measure(folder, original.reference, texts, wanted)
            step.result = ", ".join(f"{m.name} {m.value:.5f}" for m in measured.metrics)
        with progress.step("budget") as step:
            step.result = budget.check(sum(f.size for f in manifest.files), target)
        evidence = {"parity": measured, "seconds": progress.seconds, "versions": original.versions}
        (folder / EVIDENCE).write_text(codec.dumps(evidence), encoding="utf-8")
        manifests.verify(folder)
    return Built(out, manifest, measured)


def _resolve(request: BuildRequest, step: Step) -> Snapshot:
    return resolve(
        request.model,
        revision=request.revision,
        cache_dir=cache.root() / "hub",
        allow_pickle=request.allow_pickle,
        trust_remote_code=request.trust_remote_code,
        name=request.name,
        progress=step,
    )


def _read_facts(request: BuildRequest, snapshot: Snapshot, progress: Progress) -> facts.ModelFacts:
    """The model's facts, and a word on what the user might not expect."""
    said = facts.read(snapshot.path, task.load(request.task), request.pooling, request.max_tokens)
    if not snapshot.model.license:
        progress.note("the model names no licence: see to it that you may serve it")
    if said.embedding is not None and not facts.is_sentence_transformer(snapshot.path):
        progress.note(f"no sentence-transformers modules: pooling is {said.embedding['pooling']} (choose with --pooling)")
    return said


def default_out(snapshot: Snapshot, target: Target) -> Path:
    """`artifacts/NAME-TARGET` under the current folder."""
    return Path("artifacts") / f"{snapshot.model.id.rsplit('/', 1)[-1]}-{target.name}"


def refuse_other_folder(out: Path) -> None:
    """Raise ArtifactError where `out` holds something that is no artifact: it would be lost."""
    if out.exists() and not (out / MANIFEST).is_file() and (not out.is_dir() or any(out.iterdir())):
        raise ArtifactError(f"{out} is there and is no artifact; it will not be overwritten.", hint="Choose another --out.")

"""The build, from top to bottom: a model's name in, a proven artifact out."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

import hotfoot
import hotfoot_build
from hotfoot import targets, task
from hotfoot.contract import codec
from hotfoot.contract import manifest as manifests
from hotfoot.contract.errors import ArtifactError, InputError
from hotfoot.contract.manifest import EVIDENCE, MANIFEST, Manifest
from hotfoot.contract.project import Precision
from hotfoot.contract.target import Target
from hotfoot.model import Model
from hotfoot.task import Task
from hotfoot_build import budget, cache, calibrate, environment, facts, known, parity, replay, stage
from hotfoot_build.budget import Parts
from hotfoot_build.calibrate import Samples
from hotfoot_build.facts import Chosen
from hotfoot_build.original import Original, obtain
from hotfoot_build.parity import Parity
from hotfoot_build.progress import Progress, Step, size
from hotfoot_build.resolve import Snapshot, resolve
from hotfoot_build.search import recipes
from hotfoot_build.search import report as search_report
from hotfoot_build.search.recipes import GATE, Found
from hotfoot_build.stage import Plan

PRECISIONS = get_args(Precision)
AUTO = "auto"


@dataclass(frozen=True)
class BuildRequest:
    """What the user asks for. None means: as the model says, or the default. `options` are settings of passes, by their names."""

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
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    force: bool = False
    known: Path | None = None
    labels: tuple[str, ...] = ()
    entailment: str | None = None
    package: str | None = None


@dataclass(frozen=True)
class Built:
    """Where the artifact lies, what it is, how close to the original, and what the search found where there was one."""

    path: Path
    manifest: Manifest
    parity: Parity
    found: Found | None = None


@dataclass(frozen=True)
class Evidence:
    """What was measured at build time. It lies beside the manifest and is in no digest. `key` names the request."""

    key: str
    parity: Parity
    seconds: Mapping[str, float]
    versions: Mapping[str, str]
    found: Found | None = None


def build(request: BuildRequest, progress: Progress) -> Built:
    """Make the artifact. It appears whole or not at all.

    Raises HotfootError: input, unsupported, pass, parity or budget, with what to do.
    """
    chosen, target = task.load(request.task), targets.load(request.target)
    budget.check_asked(request.package, target)
    wanted = parity.thresholds(chosen, GATE if request.precision == AUTO else request.precision, request.thresholds or {})
    samples = calibrate.samples(chosen.corpus, request.samples)
    with progress.step("resolve") as step:
        snapshot = _resolve(request, step)
        step.result = f"{snapshot.model.id} at {snapshot.model.revision[:19]}, {snapshot.model.architecture}"
    said = _read_facts(request, chosen, snapshot, progress)
    if said.window is not None:
        samples = samples.past(said.window)  # where attention without the window would still agree proves nothing
    plan = Plan(request.task, chosen, target, request.precision, snapshot, said, request.options, known.read(request.known))
    out = request.out or default_out(request, snapshot, target)
    cache.refuse_foreign(out, MANIFEST, "artifact")
    key = _key(request, plan, samples, wanted)
    if not request.force and (kept := _up_to_date(out, key)):
        progress.note("up to date: the same request built this artifact (build again with --force)")
        _fits(kept.manifest, target, request, progress)
        return kept
    with progress.step("export") as step:
        original = obtain(snapshot, chosen, plan.facts, samples, step, force=request.force)
        step.result = f"{size(original.graph.stat().st_size)} fp32; the original answered {len(samples.texts)} texts"
    found = _search(request, plan, original, out, progress)
    if found is not None:
        plan = replace(plan, precision=found.recipe.precision, options=found.recipe.options)
    with cache.replacing(out) as folder:
        manifest = stage.write(folder, plan, original, progress)
        with progress.step("parity") as step, parity.for_this_host(folder) as runnable:
            parity.check_tokenizer(folder, original.reference, original.samples)
            model = Model.open(runnable, foreign=True)
            measured = parity.measure(model, original.reference, original.samples, wanted)
            replay.record(folder, model)
            step.result = ", ".join(f"{m.name} {m.value:.5f}" for m in measured.metrics)
        _fits(manifest, target, request, progress)
        evidence = Evidence(key, measured, progress.seconds, original.versions, found)
        (folder / EVIDENCE).write_text(codec.dumps(evidence), encoding="utf-8")
        manifests.verify(folder)
    return Built(out, manifest, measured, found)


def _fits(manifest: Manifest, target: Target, request: BuildRequest, progress: Progress) -> None:
    """Say how the artifact will travel. Raises BudgetError where it cannot, or not as it is asked to."""
    with progress.step("budget") as step:
        step.result = budget.choose(Parts.of(manifest, target.arch), target, request.package).reason


def _search(request: BuildRequest, plan: Plan, original: Original, out: Path, progress: Progress) -> Found | None:
    """What is fastest and still right, where that is asked for; told in a folder beside the artifact."""
    if request.precision != AUTO:
        return None
    if request.options:
        raise InputError("have no place beside precision auto, which chooses them.", where="options")
    found = recipes.find(plan, original, request.thresholds or {}, progress)
    search_report.write(search_report.folder_of(out), found)
    return found


def _resolve(request: BuildRequest, step: Step) -> Snapshot:
    return resolve(
        request.model,
        revision=request.revision,
        cache_dir=None,
        allow_pickle=request.allow_pickle,
        trust_remote_code=request.trust_remote_code,
        name=request.name,
        progress=step,
    )


def _read_facts(request: BuildRequest, chosen: Task, snapshot: Snapshot, progress: Progress) -> facts.ModelFacts:
    """The model's facts, and a word on what the user might not expect."""
    said = facts.read(snapshot.path, chosen, request.pooling, request.max_tokens, Chosen(request.labels, request.entailment))
    if not snapshot.model.license:
        progress.note("the model names no licence: see to it that you may serve it")
    if said.embedding is not None and not facts.is_sentence_transformer(snapshot.path):
        progress.note(f"no sentence-transformers modules: pooling is {said.embedding['pooling']} (choose with --pooling)")
    if said.generation is not None and int(said.generation.get("num_beams") or 1) > 1:
        progress.note(f"the model's settings ask for {said.generation['num_beams']} beams: answers will be greedy")
    return said


def _key(request: BuildRequest, plan: Plan, samples: Samples, wanted: Mapping[str, float]) -> str:
    """A name for all that decides what the build makes and whether it passes, hotfoot's own code included."""
    code = [p for root in (hotfoot.__path__[0], hotfoot_build.__path__[0]) for p in Path(root).rglob("*.py")]
    code.append(Path(inspect.getfile(plan.task.parse)))  # a task of the user's own
    writers = [f"{name} {version(name)}" for name in ("onnx-ir", "onnxruntime", "tokenizers")]
    asked = (
        request.task,
        request.precision,
        request.options,
        request.pooling,
        plan.facts.max_tokens,
        plan.facts.chosen,
        dict(wanted),
        plan.target,
        plan.snapshot.model,
        plan.known,
    )
    return cache.key(*map(manifests.sha256, sorted(code)), *writers, environment.identity(), codec.dumps(asked), codec.dumps(samples))


def _up_to_date(out: Path, key: str) -> Built | None:
    """What lies in `out`, if the same request made it and it is whole."""
    if not (out / EVIDENCE).is_file():
        return None
    try:
        evidence = codec.loads(Evidence, (out / EVIDENCE).read_text(encoding="utf-8"), EVIDENCE)
        return Built(out, manifests.verify(out), evidence.parity, evidence.found) if evidence.key == key else None
    except ArtifactError:  # damaged, or of another version: it is built anew
        return None


def default_out(request: BuildRequest, snapshot: Snapshot, target: Target) -> Path:
    """`artifacts/NAME-TASK-PRECISION-TARGET` under the current folder, so that no build takes another's place."""
    name = snapshot.model.id.replace("/", "--")
    return Path("artifacts") / f"{name}-{request.task}-{request.precision}-{target.name}"

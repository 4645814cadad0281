"""Lay out an artifact: tokenizer, optimised graph, notices, manifest."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hotfoot.contract import manifest as manifests
from hotfoot.contract.errors import UnsupportedError
from hotfoot.contract.manifest import FORMAT, MANIFEST, TOKENIZER_DIR, Activation, Manifest, PassRecord
from hotfoot.contract.target import Target
from hotfoot.task import Task
from hotfoot_build import activations, graph, model_files, passes, tokenizer_files, weights
from hotfoot_build.facts import ModelFacts, read_json
from hotfoot_build.original import Original
from hotfoot_build.progress import Progress, size
from hotfoot_build.resolve import Snapshot

GRAPH = "model.onnx"  # an encoder's; others are called by their roles, too


@dataclass(frozen=True)
class Plan:
    """What is being built. known: texts whose encodings the tokenizer's files bring along."""

    task_name: str
    task: Task
    target: Target
    precision: str
    snapshot: Snapshot
    facts: ModelFacts
    options: Mapping[str, Mapping[str, Any]]
    known: tuple[str, ...] = ()


def write(stage: Path, plan: Plan, original: Original, progress: Progress) -> Manifest:
    """Write everything but the evidence into `stage`.

    Raises PassError for a pass that broke its contract, UnsupportedError for a graph that does not fit config.json.
    """
    facts = _task_facts(plan, original)
    with progress.step("tokenizer") as step:
        sides, pad_id, known = original.sides, original.pad_id, tuple(dict.fromkeys((*plan.known, *plan.task.known(facts))))
        tokenizer = tokenizer_files.write(original.tokenizer, plan.snapshot.path, stage / TOKENIZER_DIR, sides, pad_id, known)
        step.result = f"{size(sum(f.size for f in tokenizer.files))}, {tokenizer.hash[:12]}"
    with progress.step("passes") as step:
        optimised = [_optimise(graph.load(path, role), plan, original) for role, path in original.graphs.items()]
        doors = weights.save([o.graph for o in optimised], stage)
        records = tuple(record for o in optimised for record in o.records)
        mixing = sorted({operator for o in optimised for operator in o.mixing})
        step.result = f"{', '.join(dict.fromkeys(r.name for r in records if r.applied))}: {size(weights.size(stage))}"
    if mixing:
        progress.note(f"texts will run one by one: {', '.join(mixing)} would mix the texts of a batch")
    for name in plan.snapshot.model.notices:
        (stage / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(plan.snapshot.path / name, stage / name)
    manifest = Manifest(
        format=FORMAT,
        model=plan.snapshot.model,
        task=plan.task_name,
        target=plan.target.name,
        precision=plan.precision,
        recipe=records,
        graphs=tuple(replace(door, activations=o.activations) for door, o in zip(doors, optimised, strict=True)),
        tokenizer=tokenizer,
        max_tokens=plan.facts.max_tokens,
        labels=plan.facts.labels,
        facts=facts,
        files=manifests.describe(stage, _own_files(stage)),
        independent_rows=not mixing,
    )
    (stage / MANIFEST).write_text(manifests.dumps(manifest), encoding="utf-8")
    return manifest


def recipe(target: Target, precision: str, role: str = "model") -> tuple[str, ...]:
    """The passes that make `precision` of a graph for the target. Raises UnsupportedError that lists the target's precisions."""
    recipes = target.recipes if role == "model" else target.decoder_recipes
    if precision not in recipes:
        raise UnsupportedError(f"{target.name} has no recipe for {precision}.", hint=f"There are: {', '.join(recipes) or 'none'}.")
    return recipes[precision]


def _own_files(stage: Path) -> list[Path]:
    return [p for p in stage.rglob("*") if p.is_file() and p.relative_to(stage).parts[0] != TOKENIZER_DIR]


@dataclass(frozen=True)
class Optimised:
    """A graph, what each pass did to it, the operators that mix the texts of a batch, and the memory of an encoder's run."""

    graph: graph.Graph
    records: tuple[PassRecord, ...]
    mixing: list[str]
    activations: tuple[Activation, ...]


def context(plan: Plan, original: Original) -> passes.Context:
    """What the passes may know beside the graph."""
    return passes.Context(
        target=plan.target,
        task=plan.task,
        facts=plan.facts.embedding or {},
        pad_side="left" if original.sides.get("padding_side") == "left" else "right",
        config=plan.facts.config,
        calibration=original.reference.ids[: len(original.reference.outputs)],
        overrides=plan.options,
        max_tokens=plan.facts.max_tokens,
        head=plan.facts.head,
        head_weights=original.head,
        one_segment=plan.task.export.pools and tokenizer_files.one_segment(original.tokenizer),
    )


def _optimise(current: graph.Graph, plan: Plan, original: Original) -> Optimised:
    """Run the recipe over the graph, in place."""
    known = context(plan, original)
    if plan.task.export.family == "encoder-decoder" and current.role == "decoder":
        known = replace(known, calibration=())  # what it computes does not follow from a text's ids alone
    records = passes.apply(current, recipe(plan.target, plan.precision, current.role), known)
    mixing = graph.mixes_rows(current)
    width = original.reference.outputs[0].shape[-1]
    if plan.facts.labels and width != len(plan.facts.labels):
        raise UnsupportedError(f"config.json names {len(plan.facts.labels)} labels, the graph gives {width}.", hint="Mend id2label.")
    live = activations.of(current.ir, plan.facts.max_tokens) if current.role == "model" else ()  # others run one text at a time
    return Optimised(current, records, mixing, live)


def _task_facts(plan: Plan, original: Original) -> dict[str, Any]:
    known = {
        "config": plan.facts.config,
        "labels": plan.facts.labels,
        "candidate_labels": plan.facts.chosen.labels,
        "entailment": plan.facts.chosen.entailment,
        "tokenizer": json.loads(original.tokenizer.read_text(encoding="utf-8")),
        "sentence_transformers": read_json(plan.snapshot.path / "config_sentence_transformers.json"),
        "modules": [kind for _, kind in model_files.modules(plan.snapshot.path)],
        "special": original.special,
        "tidies": original.tidies,
        "pad_side": original.sides.get("padding_side", "right"),
        "generation": plan.facts.generation,
        "embedding": {**(plan.facts.embedding or {}), "dimensions": original.reference.outputs[0].shape[-1]},
    }
    return plan.task.facts(known)

"""Lay out an artifact: tokenizer, optimised graph, notices, manifest."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hotfoot.contract import manifest as manifests
from hotfoot.contract.errors import UnsupportedError
from hotfoot.contract.manifest import FORMAT, MANIFEST, TOKENIZER_DIR, GraphSpec, Manifest, PassRecord, TokenizerSpec
from hotfoot.contract.target import Target
from hotfoot.task import Task
from hotfoot_build import graph, passes, tokenizer_files
from hotfoot_build.facts import ModelFacts
from hotfoot_build.original import Original
from hotfoot_build.progress import Progress, size
from hotfoot_build.resolve import Snapshot

GRAPH = "model.onnx"


@dataclass(frozen=True)
class Plan:
    """What is being built."""

    task_name: str
    task: Task
    target: Target
    precision: str
    snapshot: Snapshot
    facts: ModelFacts
    options: Mapping[str, Mapping[str, Any]]


def write(stage: Path, plan: Plan, original: Original, progress: Progress) -> Manifest:
    """Write everything but the evidence into `stage`.

    Raises PassError for a pass that broke its contract, UnsupportedError for a graph that does not fit config.json.
    """
    with progress.step("tokenizer") as step:
        sides, pad_id = original.sides, original.pad_id
        tokenizer = tokenizer_files.write(original.tokenizer, plan.snapshot.path, stage / TOKENIZER_DIR, sides, pad_id)
        step.result = f"{size(sum(f.size for f in tokenizer.files))}, {tokenizer.hash[:12]}"
    with progress.step("passes") as step:
        door, records, mixing = _optimise(stage / GRAPH, plan, original, tokenizer)
        step.result = f"{', '.join(r.name for r in records if r.applied)}: {size((stage / GRAPH).stat().st_size)}"
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
        graphs=(door,),
        tokenizer=tokenizer,
        max_tokens=plan.facts.max_tokens,
        labels=plan.facts.labels,
        facts=_task_facts(plan, original),
        files=manifests.describe(stage, _own_files(stage)),
        independent_rows=not mixing,
    )
    (stage / MANIFEST).write_text(manifests.dumps(manifest), encoding="utf-8")
    return manifest


def recipe(target: Target, precision: str) -> tuple[str, ...]:
    """The passes that make `precision` for the target. Raises UnsupportedError that lists the target's precisions."""
    if precision not in target.recipes:
        raise UnsupportedError(f"{target.name} has no recipe for {precision}.", hint=f"There are: {', '.join(target.recipes)}.")
    return target.recipes[precision]


def _own_files(stage: Path) -> list[Path]:
    return [p for p in stage.rglob("*") if p.is_file() and p.relative_to(stage).parts[0] != TOKENIZER_DIR]


def _optimise(path: Path, plan: Plan, original: Original, tokenizer: TokenizerSpec) -> tuple[GraphSpec, tuple[PassRecord, ...], list[str]]:
    """Write the optimised graph: its door, what each pass did, and the operators that mix the texts of a batch."""
    current = graph.load(original.graph)
    context = passes.Context(
        target=plan.target,
        task=plan.task,
        facts=plan.facts.embedding or {},
        pad_side=tokenizer.pad_side,
        config=plan.facts.config,
        calibration=original.reference.ids[: len(original.reference.outputs)],
        overrides=plan.options,
    )
    records = passes.apply(current, recipe(plan.target, plan.precision), context)
    mixing = graph.mixes_rows(current)
    door = graph.save(current, path)
    width = original.reference.outputs[0].shape[-1]
    if plan.facts.labels and width != len(plan.facts.labels):
        raise UnsupportedError(f"config.json names {len(plan.facts.labels)} labels, the graph gives {width}.", hint="Mend id2label.")
    return door, records, mixing


def _task_facts(plan: Plan, original: Original) -> dict[str, Any]:
    known = {
        "config": plan.facts.config,
        "labels": plan.facts.labels,
        "tokenizer": json.loads(original.tokenizer.read_text(encoding="utf-8")),
        "embedding": {**(plan.facts.embedding or {}), "dimensions": original.reference.outputs[0].shape[-1]},
    }
    return plan.task.facts(known)

"""What is measured: a model, its original's answers, and the inputs that are timed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hotfoot import task
from hotfoot.contract.errors import InputError
from hotfoot.task import Encoded, Marks, Task
from hotfoot_build import calibrate, facts, original
from hotfoot_build.facts import ModelFacts
from hotfoot_build.original import Original
from hotfoot_build.progress import Progress
from hotfoot_build.resolve import Snapshot, resolve

# the folders that are known by name; any other is NAME=TASK
TASKS = {
    "embed": "feature-extraction",
    "pii": "token-classification",
    "sentiment": "text-classification",
    "rerank": "text-ranking",
}


@dataclass(frozen=True)
class Shape:
    """A batch of equally long texts; tokens count the special ones."""

    batch: int
    tokens: int

    def __str__(self) -> str:
        return f"{self.tokens}" if self.batch == 1 else f"{self.batch}x{self.tokens}"


SHAPES = (Shape(1, 16), Shape(1, 128), Shape(1, 384), Shape(8, 128))


@dataclass(frozen=True)
class Case:
    """One model on the bench."""

    name: str
    task_name: str
    task: Task
    snapshot: Snapshot
    facts: ModelFacts
    original: Original

    def inputs(self, shape: Shape) -> tuple[Encoded, ...]:
        """A batch of that shape, made of the texts' own tokens."""
        ids = np.concatenate(self.original.reference.ids).astype(np.int32)
        rows = np.resize(ids, (shape.batch, shape.tokens))
        return tuple(Encoded(row, np.zeros_like(row), item, lambda: Marks((), (), ())) for item, row in enumerate(rows))

    def fits(self, shape: Shape) -> bool:
        """Whether the model has positions for so many tokens."""
        positions = self.facts.config.get("max_position_embeddings")
        return shape.tokens <= max(self.facts.max_tokens, positions if isinstance(positions, int) else 0)


def named(wanted: str, folders: Sequence[Path]) -> tuple[str, str, Path]:
    """Name, task and folder of `NAME` or `NAME=TASK`, looked for in `folders`. Raises InputError with what there is."""
    name, _, task_name = wanted.partition("=")
    task_name = task_name or TASKS.get(name, "")
    if not task_name:
        raise InputError(f"is {name!r}, of which the task is not known; say NAME=TASK.", where="--model")
    found = next((folder / name for folder in folders if (folder / name / "config.json").is_file()), None)
    if found is None:
        there = sorted({p.parent.name for folder in folders for p in folder.glob("*/config.json")})
        raise InputError(
            f"is {name!r}, and no folder of that name holds a model; there are: {', '.join(there) or 'none'}.", where="--model"
        )
    return name, task_name, found


def open_case(name: str, task_name: str, folder: Path, samples: Path | None, progress: Progress) -> Case:
    """Resolve, read and export a model, as a build does. Raises what these raise.

    samples: a file of the user's own, None for hotfoot's.
    """
    chosen = task.load(task_name)
    with progress.step("export") as step:
        snapshot = resolve(
            str(folder), revision=None, cache_dir=None, allow_pickle=False, trust_remote_code=False, name=name, progress=step
        )
        said = facts.read(snapshot.path, chosen, None, None)
        answered = original.obtain(snapshot, chosen, said, calibrate.samples(chosen.corpus, samples), step)
        step.result = f"{name}: the original answered {len(answered.samples.texts)} texts"
    return Case(name, task_name, chosen, snapshot, said, answered)

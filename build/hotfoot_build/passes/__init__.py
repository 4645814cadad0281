"""The passes: one file is one pass, the folder is the list.

A pass module has `PASS = Pass(...)`. Its run changes the graph in place; its check holds the op counts to what was asked, so
that a rewrite that silently finds nothing fails the build.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotfoot.contract import codec
from hotfoot.contract.errors import InputError, PassError, UnsupportedError
from hotfoot.contract.manifest import PassRecord, Side
from hotfoot.contract.target import Target
from hotfoot.task import Task
from hotfoot_build.graph import Graph
from hotfoot_build.vector_head import Step

Counts = Mapping[str, int]


@dataclass(frozen=True)
class Context:
    """What a pass may know beside the graph.

    facts: of embeddings, how they are pooled. config: the model's config.json. calibration: token ids of the texts that the build is
    proven on, int64 of shape (tokens,) each, of unequal lengths. overrides: options asked for by a pass's name. one_segment: every
    text comes alone, and the tokenizer gives all of its tokens type 0. max_tokens: the
    artifact's limit. head, head_weights: what happens to a pooled vector, and `PLACE.weight` and `PLACE.bias` of its dense steps.
    """

    target: Target
    task: Task
    facts: Mapping[str, Any]
    pad_side: Side
    config: Mapping[str, Any] = field(default_factory=dict)
    calibration: tuple[NDArray[np.int64], ...] = ()
    overrides: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    one_segment: bool = False
    max_tokens: int = 0
    head: tuple[Step, ...] = ()
    head_weights: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)


@dataclass(frozen=True)
class Pass:
    """One rewrite.

    options: the frozen options for this build, a dataclass; a field made by `unrecorded` (as the calibration) is left out of the
    manifest. applies: None, or the reason why the graph is left alone. check: None, or what
    is wrong with the op counts after the run.
    """

    name: str
    summary: str
    options: Callable[[Context], Any]
    applies: Callable[[Graph, Any], str | None]
    run: Callable[[Graph, Any], None]
    check: Callable[[Graph, Counts, Any], str | None]


def unrecorded(default: Any) -> Any:
    """A field of a pass's Options that run needs and the record does not: what the build is given anyway, as its texts."""
    return field(default=default, repr=False, metadata={"recorded": False})


def names() -> list[str]:
    """Every pass there is."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def load(name: str) -> Pass:
    """The pass called `name`. Raises UnsupportedError that lists them."""
    if name not in names():
        raise UnsupportedError(f"no pass {name!r}.", hint=f"There are: {', '.join(names())}.")
    found: Pass = import_module(f"{__name__}.{name}").PASS
    return found


def apply(graph: Graph, recipe: Sequence[str], context: Context) -> tuple[PassRecord, ...]:
    """Run the recipe over the graph in place.

    Raises PassError when a pass's op-count contract does not hold, InputError for options of a pass that is not in the recipe.
    """
    if strangers := sorted(set(context.overrides) - set(recipe)):
        raise InputError(f"{', '.join(strangers)} is not in this recipe, which has {', '.join(recipe)}.", where="options")
    return tuple(_apply_one(load(name), graph, context) for name in recipe)


def _options(step: Pass, context: Context) -> Any:
    """The pass's options for this build, with those that were asked for in their place. Raises InputError for one that it lacks."""
    made, asked = step.options(context), context.overrides.get(step.name, {})
    known = {f.name for f in fields(made) if f.metadata.get("recorded", True)}
    if strangers := sorted(set(asked) - known):
        raise InputError(f"{step.name} has no option {strangers[0]!r}; it has {', '.join(sorted(known))}.", where="options")
    # JSON and TOML know lists only
    return replace(made, **{name: tuple(value) if isinstance(value, list) else value for name, value in asked.items()})


def _apply_one(step: Pass, graph: Graph, context: Context) -> PassRecord:
    options = _options(step, context)
    before = graph.op_counts()
    reason = step.applies(graph, options)
    if reason is None:
        step.run(graph, options)
        wrong = step.check(graph, before, options)
        if wrong:
            raise PassError(f"pass {step.name}: {wrong}", hint=f"Operators before: {before}; after: {graph.op_counts()}.")
    recorded = {f.name: codec.plain(getattr(options, f.name)) for f in fields(options) if f.metadata.get("recorded", True)}
    return PassRecord(step.name, recorded, reason is None, reason or "", before, graph.op_counts())

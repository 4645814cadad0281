"""The passes: one file is one pass, the folder is the list.

A pass module has `PASS = Pass(...)`. Its run changes the graph in place; its check holds the op counts to what was asked, so
that a rewrite that silently finds nothing fails the build.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from hotfoot.contract import codec
from hotfoot.contract.errors import PassError, UnsupportedError
from hotfoot.contract.manifest import PassRecord, Side
from hotfoot.contract.target import Target
from hotfoot.task import Task
from hotfoot_build.graph import Graph

Counts = Mapping[str, int]


@dataclass(frozen=True)
class Context:
    """What a pass may know beside the graph."""

    target: Target
    task: Task
    facts: Mapping[str, Any]
    pad_side: Side


@dataclass(frozen=True)
class Pass:
    """One rewrite.

    options: the frozen options for this build. applies: None, or the reason why the graph is left alone. check: None, or what
    is wrong with the op counts after the run.
    """

    name: str
    summary: str
    options: Callable[[Context], Any]
    applies: Callable[[Graph, Any], str | None]
    run: Callable[[Graph, Any], None]
    check: Callable[[Graph, Counts, Any], str | None]


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
    """Run the recipe over the graph in place. Raises PassError when a pass's op-count contract does not hold."""
    return tuple(_apply_one(load(name), graph, context) for name in recipe)


def _apply_one(step: Pass, graph: Graph, context: Context) -> PassRecord:
    options = step.options(context)
    before = graph.op_counts()
    reason = step.applies(graph, options)
    if reason is None:
        step.run(graph, options)
        wrong = step.check(graph, before, options)
        if wrong:
            raise PassError(f"pass {step.name}: {wrong}", hint=f"Operators before: {before}; after: {graph.op_counts()}.")
    return PassRecord(step.name, codec.plain(options), reason is None, reason or "", before, graph.op_counts())

"""Some products stay in fp32 whatever quantizes the others: those that cost the most accuracy, by their nodes' names."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from hotfoot.contract.errors import PassError
from hotfoot_build.graph import Graph
from hotfoot_build.passes import Context, Counts, Pass
from hotfoot_build.passes._products import is_kept, keep, products

SHOWN = 3


@dataclass(frozen=True)
class Options:
    """layers: names of products as they stand after ort_rewrite (`/encoder/layer.5/output/dense/MatMul`)."""

    layers: tuple[str, ...] = ()


def options(_context: Context) -> Options:
    """None, until one is named."""
    return Options()


def applies(_graph: Graph, options: Options) -> str | None:
    """Only where layers are named."""
    return None if options.layers else "no layers are named to stay in fp32"


def run(graph: Graph, options: Options) -> None:
    """Mark the nodes. Raises PassError for a name that no product has, with those nearest to it."""
    nodes = {str(p.node.name): p.node for p in products(graph, min_columns=1)}
    for name in options.layers:
        if name not in nodes:
            near = get_close_matches(name, nodes, SHOWN, cutoff=0) or list(nodes)[:SHOWN]
            raise PassError(f"mixed: no product is called {name!r}.", hint=f"The nearest of {len(nodes)}: {', '.join(near)}.")
        keep(nodes[name])


def check(graph: Graph, before: Counts, options: Options) -> str | None:
    """All are marked, and nothing changed."""
    marked = sum(is_kept(node) for node in graph.ir)
    if marked < len(set(options.layers)) or graph.op_counts() != before:
        return f"{marked} of {len(set(options.layers))} layers are marked"
    return None


PASS = Pass(
    name="mixed",
    summary="the named products stay in fp32",
    options=options,
    applies=applies,
    run=run,
    check=check,
)

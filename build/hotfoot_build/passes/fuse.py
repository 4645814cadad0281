"""Attention, residual normalisation and biased Gelu as one operator each, for targets whose kernels gain by it: GPUs.

Not on a CPU: MiniLM in fp32 on one thread took 5 to 14 % longer at 16 tokens, 14 to 16 % at 128, 5 to 10 % at 384 and 4 to 17 % for
8 texts of 128. That is SkipLayerNormalization, 6 to 14 % by itself; MultiHeadAttention alone lay between 5 % longer (16 tokens) and 6 %
shorter (384). ONNX Runtime's own fusions (1.32) find none of either in today's exports, so they are found here by what they compute.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common

from hotfoot_build import shapes
from hotfoot_build.graph import MICROSOFT, Graph, constant, insert, take_place
from hotfoot_build.passes import Context, Counts, Pass
from hotfoot_build.passes._attention import Attention, biased, find, only_reader, vector_of
from hotfoot_build.passes.attention_mask import LOWEST, MASK, is_plain
from hotfoot_build.shapes import Known
from hotfoot_build.shapes.known import attribute, from_front

# their layers are BERT's: one attention, a norm behind either residual sum, one activation
BERTS = ("albert", "bert", "camembert", "distilbert", "electra", "mpnet", "roberta", "xlm-roberta")
GELUS = {"gelu": "BiasGelu", "gelu_new": "FastGelu", "gelu_python": "BiasGelu"}


@dataclass(frozen=True)
class Options:
    """Which fusions, and for how many layers: what the model's config leads to expect is what must be found.

    gelu: the operator that each layer's activation must be by now, empty for no demand.
    """

    layers: int
    attention: bool = True
    skip_norms: bool = True
    gelu: str = "BiasGelu"


@dataclass(frozen=True)
class Fusion:
    """An attention, and the inputs and attributes of the operator that does it."""

    attention: Attention
    inputs: tuple[ir.Value | None, ...]
    biases: tuple[ir.Value, ...]
    attributes: dict[str, Any]


def options(context: Context) -> Options:
    """By the model's config; no layers for one that is not of BERT's kind."""
    config = context.config
    layers = config.get("num_hidden_layers") or config.get("n_layers") or 0
    known = config.get("model_type") in BERTS and isinstance(layers, int)
    return Options(layers if known else 0, gelu=GELUS.get(config.get("hidden_act") or config.get("activation") or "", ""))


def applies(_graph: Graph, options: Options) -> str | None:
    """Only where it is known what there must be."""
    return None if options.layers else "config.json is of no model whose layers are known to be BERT's"


def run(graph: Graph, options: Options) -> None:
    """Fuse what there is, in place."""
    if options.attention:
        for found in list(_attentions(graph, shapes.infer(graph.ir))):
            _fuse_attention(graph, found)
    if options.skip_norms:
        known = shapes.infer(graph.ir)
        for norm in [n for n in graph.ir if n.op_type == "LayerNormalization"]:
            _fuse_norm(graph, norm, known)
    common.RemoveUnusedNodesPass()(graph.model)


def _attentions(graph: Graph, known: Known) -> Iterator[Fusion]:
    mask = next((v for v in graph.ir.inputs if v.name == MASK), None)
    for attention in find(graph):
        query, key, value, merge = attention.query, attention.key, attention.value, attention.merge
        added = _added(attention)
        if query is None or key is None or value is None or merge is None or added is None:
            continue
        heads = [(known.axes_of(h.reshape.outputs[0]) or (None,) * 4)[2] for h in (query, key, value)]
        padding = mask if any(is_plain(v) for v in added) else None
        scores = [v for v in added if not is_plain(v)]
        if not isinstance(heads[0], int) or len(set(heads)) > 1 or len(scores) > 1 or not all(_fits(v, attention, known) for v in scores):
            continue
        hidden = [h.hidden for h in (query, key, value)]
        sums = [biased(v.producer()) if only_reader(v) is not None else None for v in hidden]
        pairs = [s for s in sums if s is not None]
        if len(pairs) == 3:  # the operator adds the three biases itself, or none
            hidden = [rest for _, rest in pairs]
        biases = tuple(bias for bias, _ in pairs) if len(pairs) == 3 else ()
        scale = attribute(attention.scores, "alpha", 1.0)
        attributes = {"num_heads": heads[0], "scale": float(scale), "mask_filter_value": float(LOWEST)}
        yield Fusion(attention, (*hidden, None, padding, *scores), biases, attributes)


def _added(attention: Attention) -> list[ir.Value] | None:
    """What is added to the scores on their way to the softmax; None where something else happens to them."""
    found: list[ir.Value] = []
    node = attention.softmax.inputs[0].producer() if attention.softmax.inputs[0] is not None else None
    while node is not attention.scores:
        if node is None or node.op_type != "Add":
            return None
        paths = [v for v in node.inputs if v is not None and _leads_to(v, attention.scores)]
        if len(paths) != 1:
            return None
        found += [v for v in node.inputs if v is not None and v is not paths[0]]
        node = paths[0].producer()
    return found


def _leads_to(value: ir.Value, scores: ir.Node) -> bool:
    node = value.producer()
    return node is scores or (
        node is not None and node.op_type == "Add" and any(_leads_to(v, scores) for v in node.inputs if v is not None)
    )


def _fits(value: ir.Value, attention: Attention, known: Known) -> bool:
    """Whether the operator can add it: (batch or 1, heads or 1, queries, keys)."""
    axes, scores = known.axes_of(value), known.axes_of(attention.scores.outputs[0])
    return axes is not None and scores is not None and len(axes) == 4 and axes[2:] == scores[2:]


def _fuse_attention(graph: Graph, found: Fusion) -> None:
    merge = found.attention.merge
    if merge is None:
        raise AssertionError("found with a merge of its heads")
    inputs = list(found.inputs)
    if found.biases:
        vectors = [v for b in found.biases if (v := vector_of(b)) is not None]
        inputs[3] = constant(graph, "+".join(str(b.name) for b in found.biases), np.concatenate(vectors))
    if inputs[4] is not None and inputs[4].dtype != ir.DataType.INT32:
        inputs[4] = insert(graph, merge.reshape, "Cast", [inputs[4]], {"to": int(ir.DataType.INT32)})
    result = insert(graph, merge.reshape, "MultiHeadAttention", inputs, found.attributes, domain=MICROSOFT)
    ir.convenience.replace_all_uses_with(merge.hidden, result)


def _fuse_norm(graph: Graph, norm: ir.Node, known: Known) -> None:
    """SkipLayerNormalization for a norm of a sum that nothing else reads, with the bias of one side where it has one."""
    source, axes = norm.inputs[0], known.axes_of(norm.inputs[0])
    add = source.producer() if source is not None else None
    if source is None or add is None or add.op_type != "Add" or only_reader(source) is None or axes is None or len(axes) != 3:
        return
    sides = [v for v in add.inputs if v is not None]
    last = from_front(attribute(norm, "axis", -1), 3) == 2
    if not last or len(norm.inputs) != 3 or any(known.axes_of(v) != axes for v in sides):
        return
    pairs = [(v, biased(v.producer())) for v in sides]
    whole, found = next(((v, p) for v, p in pairs if p is not None and only_reader(v) is not None), (sides[0], None))
    other = next(v for v in sides if v is not whole)
    inputs = [found[1] if found is not None else whole, other, norm.inputs[1], norm.inputs[2], *([found[0]] if found is not None else [])]
    fused = insert(graph, norm, "SkipLayerNormalization", inputs, {"epsilon": attribute(norm, "epsilon", 1e-5)}, domain=MICROSOFT)
    known.axes[fused] = axes  # the next sum reads it
    take_place(graph, norm, fused)


def check(graph: Graph, _before: Counts, options: Options) -> str | None:
    """As many of each as the config says, at least: embeddings may end in one more norm of a sum."""
    after = graph.op_counts()
    wanted = {"MultiHeadAttention": options.layers * options.attention, "SkipLayerNormalization": 2 * options.layers * options.skip_norms}
    wanted |= {options.gelu: options.layers} if options.gelu else {}
    short = [f"wanted {n} {op}, found {after.get(op, 0)}" for op, n in wanted.items() if after.get(op, 0) < n]
    return "; ".join(short) or None


PASS = Pass(
    name="fuse",
    summary="attention, residual norms and Gelu as one operator each",
    options=options,
    applies=applies,
    run=run,
    check=check,
)

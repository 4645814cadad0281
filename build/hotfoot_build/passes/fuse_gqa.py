"""A decoder's attention as one operator a layer: rotary positions, the cache, the mask and the products over all heads.

GroupQueryAttention takes hidden layers as the projections give them, writes keys and values behind the past ones, and reads no
further than the row's own tokens: neither scores nor a mask are built in between, and padding at the end of a row costs nothing.
Rotary positions go in where they are whole (every element of a head turns); their angles become tables, one row a position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
from numpy.typing import NDArray
from onnx_ir.passes import common

from hotfoot_build.graph import MICROSOFT, Graph, constant, insert, weight_of
from hotfoot_build.passes import Context, Counts, Pass

HEADS_FIRST = (0, 2, 1, 3)
SIZE_STEP = 8  # a head's size must be a multiple; of twice that with rotary positions


@dataclass(frozen=True)
class Options:
    """The number of positions that the tables of rotary angles hold: the artifact's limit."""

    positions: int


@dataclass(frozen=True)
class Layer:
    """One attention as the export wrote it. query, key, value: (batch, heads, new tokens, size), key and value without the past ones.

    rotary: cosines and sines of the rotary positions, None where there are none or they stay outside.
    result: (batch, new tokens, heads, size).
    """

    index: int
    query: ir.Value
    key: ir.Value
    value: ir.Value
    result: ir.Value
    heads: int
    size: int
    scale: float
    window: int | None
    rotary: tuple[ir.Value, ir.Value] | None = None


def options(context: Context) -> Options:
    """By the artifact's limit."""
    return Options(context.max_tokens)


def caches(graph: Graph) -> int:
    """How many layers have a cache."""
    return sum(str(v.name).startswith("past.") and str(v.name).endswith(".key") for v in graph.ir.inputs)


def applies(graph: Graph, _options: Options) -> str | None:
    """Only for a decoder whose heads have a size that the operator knows."""
    past = graph.ir.inputs
    sizes = [v.shape[3] for v in past if str(v.name).startswith("past.") and v.shape is not None]
    if not sizes or "attention_mask" not in [v.name for v in past]:
        return "no decoder with a cache of its own"
    odd = next((size for size in sizes if not isinstance(size, int) or size % SIZE_STEP), None)
    return None if odd is None else f"heads of {odd} elements; the operator takes multiples of {SIZE_STEP}"


def find(graph: Graph) -> list[Layer]:
    """The attention of every cache, in order; one that is not as the export writes it is left out."""
    outputs = {str(v.name): v for v in graph.ir.outputs}
    found = [_layer(index, outputs[f"present.{index}.key"], outputs[f"present.{index}.value"]) for index in range(caches(graph))]
    return [layer for layer in found if layer is not None]


def _layer(index: int, keys: ir.Value, values: ir.Value) -> Layer | None:
    product = next((n for n in map(_softmax_reader, _readers(values)) if n is not None), None)
    key, value = (_operand(_made_by(v, "Concat"), 1) for v in (keys, values))
    if product is None or key is None or value is None:
        return None
    scores = _made_by(_operand(_made_by(product.inputs[0], "Softmax"), 0), "Add")
    scaled = _made_by(_operand(scores, 0), "Mul")
    query = _operand(_made_by(_operand(scaled, 0), "MatMul"), 0)
    scale, window = weight_of(_operand(scaled, 1)), _window(_operand(scores, 1))
    merged = _only_reader(product.outputs[0], "Reshape")
    heads_last = _only_reader(merged.outputs[0], "Transpose") if merged is not None else None
    shape = _parts(merged.inputs[1]) if merged is not None else []
    if query is None or scale is None or window == -1 or heads_last is None or len(shape) != 4:
        return None
    heads, size = shape[1], shape[3]
    if heads is None or size is None:
        return None
    grouped = _made_by(query, "Reshape")
    if grouped is not None and len(_parts(grouped.inputs[1])) == 5:
        query = grouped.inputs[0] or query
    return Layer(index, query, key, value, heads_last.outputs[0], heads, size, float(scale), window)


def _readers(value: ir.Value) -> list[ir.Node]:
    """Whatever reads a value, through an Unsqueeze."""
    nodes = [node for node, _ in value.uses()]
    return [n for n in nodes if n.op_type != "Unsqueeze"] + [r for n in nodes if n.op_type == "Unsqueeze" for r, _ in n.outputs[0].uses()]


def _softmax_reader(node: ir.Node) -> ir.Node | None:
    return node if node.op_type == "MatMul" and _made_by(node.inputs[0], "Softmax") is not None else None


def _made_by(value: ir.Value | None, op: str) -> ir.Node | None:
    node = value.producer() if value is not None else None
    return node if node is not None and node.op_type == op else None


def _operand(node: ir.Node | None, index: int) -> ir.Value | None:
    return node.inputs[index] if node is not None and index < len(node.inputs) else None


def _only_reader(value: ir.Value, op: str) -> ir.Node | None:
    uses = list(value.uses())
    return uses[0][0] if len(uses) == 1 and uses[0][0].op_type == op else None


def _parts(value: ir.Value | None) -> list[int | None]:
    """A Reshape's target, entry by entry; None for one that is computed."""
    whole = weight_of(value)
    if whole is not None:
        return [int(n) for n in whole]
    joined = _made_by(value, "Concat")
    parts = [weight_of(v) for v in joined.inputs] if joined is not None else []
    return [int(p.item()) if p is not None and p.size == 1 else None for p in parts]


def _window(bias: ir.Value | None) -> int | None:
    """How far back a token looks by the bias, None for all the way, -1 for a bias that is no causal mask."""
    ops: set[str] = set()
    windows: set[int] = set()
    waiting = [bias]
    while waiting:
        node = value.producer() if (value := waiting.pop()) is not None else None
        if node is None:
            continue
        ops.add(node.op_type)
        if node.op_type == "Less" and (far := weight_of(node.inputs[1])) is not None:
            windows.add(int(far))
        waiting += node.inputs
    if "LessOrEqual" not in ops or "Where" not in ops or len(windows) > 1:
        return -1
    return windows.pop() if windows else None


def run(graph: Graph, options: Options) -> None:
    """Replace every layer's attention in place; what only it read goes, position ids included where nothing else asks for them."""
    layers = [_with_rotary(graph, layer) for layer in find(graph)]
    tables = {r: _tables(graph, r, options.positions) for r in dict.fromkeys(layer.rotary for layer in layers) if r is not None}
    if layers:
        lengths = _lengths(graph)
        for layer in layers:
            _fuse(graph, layer, lengths, tables.get(layer.rotary) if layer.rotary else None)
    common.RemoveUnusedNodesPass()(graph.model)
    common.TopologicalSortPass()(graph.model)
    graph.ir.inputs[:] = [v for v in graph.ir.inputs if v.name != "position_ids" or list(v.uses())]


def _with_rotary(graph: Graph, layer: Layer) -> Layer:
    """The layer with its rotary positions taken off query and key, if that is what they are."""
    first, second = _rotation(layer.query), _rotation(layer.key)
    if layer.size % (2 * SIZE_STEP) or first is None or second is None or first[1:] != second[1:]:
        return layer
    (query, cosines, sines), (key, _, _) = first, second
    proven = all(_is_rotation(graph, v, plain, layer.size) for v, plain in ((layer.query, query), (layer.key, key)))
    return replace(layer, query=query, key=key, rotary=(cosines, sines)) if proven else layer


def _rotation(value: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value] | None:
    """(x, cosines, sines) of what looks like x·cos + rotated x·sin."""
    node = _made_by(value, "Add")
    first, second = (_made_by(_operand(node, i), "Mul") for i in (0, 1))
    if first is None or second is None or _made_by(second.inputs[0], "Concat") is None:
        return None
    plain, cosines, sines = first.inputs[0], first.inputs[1], second.inputs[1]
    return None if plain is None or cosines is None or sines is None else (plain, cosines, sines)


def _is_rotation(graph: Graph, turned: ir.Value, plain: ir.Value, size: int) -> bool:
    """Whether a trial gives what the operator would: the halves of a head, turned by angles that depend on the position alone."""
    cosines, sines = (_rotation(turned) or (plain, plain, plain))[1:]
    x = np.random.default_rng(0).standard_normal((1, 2, 5, size)).astype(np.float32)
    given: dict[ir.Value, NDArray[Any]] = {plain: x, _positions(graph): np.arange(5)[None]}
    found = _evaluate(graph, (turned, cosines, sines), given)
    if found is None or found[1].shape[-1] != size:
        return False
    half = size // 2
    (c, other), (s, second) = ((t[..., :half], t[..., half:]) for t in found[1:])
    wanted = np.concatenate([x[..., :half] * c - x[..., half:] * s, x[..., half:] * c + x[..., :half] * s], -1)
    return np.array_equal(c, other) and np.array_equal(s, second) and bool(np.abs(found[0] - wanted).max() < 1e-5)


def _positions(graph: Graph) -> ir.Value:
    return next(v for v in graph.ir.inputs if v.name == "position_ids")


def _evaluate(graph: Graph, wanted: Sequence[ir.Value], given: dict[ir.Value, NDArray[Any]]) -> list[NDArray[Any]] | None:
    """What some values are, given others; None if they depend on more."""
    for number, value in enumerate((*wanted, *given)):
        value.name = value.name or f"part.{number}"
    try:
        part = ir.convenience.extract(graph.ir, list(given), list(dict.fromkeys(wanted)))
    except ValueError:
        return None
    for value, array in zip(part.inputs, given.values(), strict=True):
        value.shape = ir.Shape([None] * array.ndim)
        value.type = value.type or ir.TensorType(ir.DataType.FLOAT)
    for value in part.outputs:
        value.type, value.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape([None] * 4) if value.shape is None else value.shape
    model = ir.Model(part, ir_version=graph.model.ir_version)
    model.opset_imports.update(graph.model.opset_imports)
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(ir.to_proto(model).SerializeToString(), options, providers=["CPUExecutionProvider"])
    feed = {i.name: a.astype(np.int32 if "int32" in i.type else a.dtype) for i, a in zip(session.get_inputs(), given.values(), strict=True)}
    return [np.asarray(a) for a in session.run([str(v.name) for v in wanted], feed)]


def _tables(graph: Graph, rotary: tuple[ir.Value, ir.Value], positions: int) -> list[ir.Value]:
    found = _evaluate(graph, rotary, {_positions(graph): np.arange(positions)[None]}) or []
    return [
        constant(graph, f"rotary.{name}", table.reshape(positions, -1)[:, : table.shape[-1] // 2].astype(np.float32))
        for name, table in zip(("cos", "sin"), found, strict=True)
    ]


def _lengths(graph: Graph) -> tuple[ir.Value, ir.Value]:
    """Of the mask: each row's tokens less one, as the operator counts them, and its width. Computed first of all."""
    mask, first = next(v for v in graph.ir.inputs if v.name == "attention_mask"), graph.ir[0]
    axis, one = constant(graph, "axis.-1", np.array([-1], np.int64)), constant(graph, "one.int32", np.int32(1))
    narrow = mask if mask.dtype == ir.DataType.INT32 else insert(graph, first, "Cast", [mask], {"to": int(ir.DataType.INT32)})
    rows = insert(graph, first, "Sub", [insert(graph, first, "ReduceSum", [narrow, axis], {"keepdims": 0}), one])
    wide = insert(graph, first, "Shape", [mask], {"start": 1, "end": 2})
    width = insert(graph, first, "Squeeze", [wide])
    return rows, insert(graph, first, "Cast", [width], {"to": int(ir.DataType.INT32)})


def _fuse(graph: Graph, layer: Layer, lengths: tuple[ir.Value, ir.Value], tables: Sequence[ir.Value] | None) -> None:
    inputs = {str(v.name): v for v in graph.ir.inputs}
    past = [inputs[f"past.{layer.index}.{part}"] for part in ("key", "value")]
    present = [next(v for v in graph.ir.outputs if v.name == f"present.{layer.index}.{part}") for part in ("key", "value")]
    before = layer.result.producer()
    read = past[0].shape[1] if past[0].shape is not None else 0
    flat = [_flat(graph, before, v) for v in (layer.query, layer.key, layer.value)]
    attributes: dict[str, Any] = {"num_heads": layer.heads, "kv_num_heads": read, "scale": layer.scale}
    attributes |= {"local_window_size": layer.window} if layer.window is not None else {}
    attributes |= {"do_rotary": 1} if tables else {}
    node = ir.node("GroupQueryAttention", [*flat, *past, *lengths, *(tables or ())], attributes, domain=MICROSOFT, num_outputs=3)
    graph.model.opset_imports.setdefault(MICROSOFT, 1)
    graph.ir.insert_before(before or graph.ir[0], node)
    for old, new in zip(present, node.outputs[1:], strict=True):
        new.type, new.shape, new.name, old.name = old.type, old.shape, old.name, None
        graph.ir.outputs[:] = [new if v is old else v for v in graph.ir.outputs]
    _hand_over(graph, layer, node)


def _hand_over(graph: Graph, layer: Layer, node: ir.Node) -> None:
    """The model's own Reshape to (batch, tokens, heads · size) goes; a reader of another kind gets the heads apart again."""
    apart = constant(graph, f"heads.{layer.heads}.{layer.size}", np.array([0, 0, layer.heads, layer.size], np.int64))
    for reader, index in list(layer.result.uses()):
        parts = _parts(reader.inputs[1]) if reader.op_type == "Reshape" else []
        if len(parts) == 3 and parts[-1] in (-1, layer.heads * layer.size):
            ir.convenience.replace_all_uses_with(reader.outputs[0], node.outputs[0])
        else:
            reader.replace_input_with(index, insert(graph, reader, "Reshape", [node.outputs[0], apart]))


def _flat(graph: Graph, before: ir.Node | None, value: ir.Value) -> ir.Value:
    """(batch, heads, tokens, size) as (batch, tokens, heads · size): what it was split from, if it comes straight from there."""
    split = _made_by(value, "Transpose")
    apart = split.inputs[0] if split is not None and tuple(split.attributes["perm"].as_ints()) == HEADS_FIRST else None
    if apart is None:
        apart = insert(graph, before, "Transpose", [value], {"perm": HEADS_FIRST})
    shaped = _made_by(apart, "Reshape")
    if shaped is not None and len(_parts(shaped.inputs[1])) == 4 and shaped.inputs[0] is not None:
        return shaped.inputs[0]
    return insert(graph, before, "Reshape", [apart, constant(graph, "heads.joined", np.array([0, 0, -1], np.int64))])


def check(graph: Graph, _before: Counts, _options: Options) -> str | None:
    """One operator a layer, and no softmax left of what they replace."""
    made, wanted = graph.op_counts().get("GroupQueryAttention", 0), caches(graph)
    return None if made == wanted else f"{made} of {wanted} layers' attention was recognised"


PASS = Pass(
    name="fuse_gqa",
    summary="a decoder's attention as one operator a layer, rotary positions and cache included",
    options=options,
    applies=applies,
    run=run,
    check=check,
)

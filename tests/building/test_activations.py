"""What a run is said to take is what its values turn out to hold, and near to what the process grows by."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from hotfoot import targets
from hotfoot.batching import ARENA, live_bytes, plan
from hotfoot_build import activations, graph, passes, shapes
from support import real, tiny
from support.asking import context, every_value

# full batches of every length, in no order, in a process of its own: how far its memory grows above what it held before
GROWTH = """
import random, re, sys
import numpy as np
from pathlib import Path
from hotfoot.model import Model

def memory(key):
    return 1024 * int(re.search(key + r":\\s+(\\d+)", Path("/proc/self/status").read_text()).group(1))

session = Model.open(sys.argv[1], threads=1).session._ort
run = lambda rows, tokens: session.run(None, {i.name: np.ones((rows, tokens), np.int32) for i in session.get_inputs()})
shapes = [tuple(map(int, shape.split("x"))) for shape in sys.argv[2:]]
random.Random(3).shuffle(shapes)
run(1, 8)
before = memory("VmRSS")
Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
for rows, tokens in shapes:
    run(rows, tokens)
print(memory("VmHWM") - before)
"""


def wave(nodes: list[onnx.NodeProto], constants: dict[str, NDArray[np.generic]] | None = None) -> ir.Graph:
    """A graph from input_ids (batch, sequence) in int32 to `y` in floats."""
    built = helper.make_graph(
        nodes,
        "wave",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT32, ["batch", "sequence"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "sequence"])],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    return ir.from_proto(helper.make_model(built, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)).graph


def test_what_nobody_reads_any_more_is_gone() -> None:
    chain = [
        helper.make_node("Cast", ["input_ids"], ["a"], to=TensorProto.FLOAT),
        helper.make_node("Exp", ["a"], ["b"]),
        helper.make_node("Sqrt", ["b"], ["c"]),
        helper.make_node("Abs", ["c"], ["y"]),
    ]
    assert activations.peak(wave(chain), 10) == 2 * 40  # never more than a value and what is made of it
    kept = [*chain[:3], helper.make_node("Add", ["a", "c"], ["y"])]
    assert activations.peak(wave(kept), 10) == 3 * 40  # `a` waits for the sum
    assert activations.peak(wave(kept), 10, batch=7) == 7 * 3 * 40


def test_a_view_takes_nothing_and_keeps_what_it_shows() -> None:
    nodes = [
        helper.make_node("Cast", ["input_ids"], ["a"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["a", "last"], ["view"]),
        helper.make_node("Exp", ["view"], ["b"]),
        helper.make_node("Squeeze", ["b", "last"], ["y"]),
    ]
    assert activations.peak(wave(nodes, {"last": np.array([-1])}), 10) == 2 * 40
    assert activations.peak(wave([*nodes[:2], helper.make_node("Squeeze", ["view", "last"], ["y"])], {"last": np.array([-1])}), 10) == 80


def test_types_that_nothing_declares() -> None:
    nodes = [
        helper.make_node("Cast", ["input_ids"], ["half"], to=TensorProto.FLOAT16),
        helper.make_node("Neg", ["half"], ["less"]),
        helper.make_node("Less", ["half", "less"], ["flags"]),
        helper.make_node("Cast", ["flags"], ["y"], to=TensorProto.FLOAT),
    ]
    # two tensors of halves, each with its copy in floats, and one of truths
    assert activations.peak(wave(nodes), 10) == 10 * (2 * (2 + 4) + 1)


def test_a_size_that_does_not_follow_leaves_all_of_it_open() -> None:
    nodes = [
        helper.make_node("NonZero", ["input_ids"], ["places"]),
        helper.make_node("Cast", ["places"], ["y"], to=TensorProto.FLOAT),
    ]
    assert activations.peak(wave(nodes), 10) is None
    assert activations.of(wave(nodes), 64) == ()


@pytest.mark.parametrize(("most", "lengths"), [(64, [8, 16, 32, 64]), (100, [8, 12, 25, 50, 100]), (8, [8]), (5, [5])])
def test_lengths_double_up_to_the_limit(most: int, lengths: list[int]) -> None:
    nodes = [helper.make_node("Cast", ["input_ids"], ["y"], to=TensorProto.FLOAT)]
    found = activations.of(wave(nodes), most)
    assert [a.tokens for a in found] == lengths
    assert [a.bytes for a in found] == [8 * n for n in lengths]


@pytest.mark.parametrize("precision", ["fp32", "int8", "int8-dynamic", "int4-weights"])
@pytest.mark.parametrize("name", ["embed", "tags"])
def test_every_value_has_the_bytes_that_are_counted(tmp_path: Path, name: str, precision: str) -> None:
    current = graph.load(tiny.exported(name))
    passes.apply(current, targets.local().recipes[precision], context(name, pooling="mean", normalize=True))
    graph.write(current, tmp_path / "model.onnx")
    read = ir.load(tmp_path / "model.onnx").graph
    known, widths = shapes.infer(read, {"batch": 3, "sequence": 13}), activations._widths(read)
    counted = {o.name: activations._bytes(o, known, widths) for node in read for o in node.outputs if o.uses() or o.is_graph_output()}
    found = every_value(onnx.load(tmp_path / "model.onnx"), 3, 13)
    assert counted == {key: found[str(key)].nbytes for key in counted}
    assert len(counted) > 40


@pytest.mark.parametrize("name", ["embed", "tags", "mpnet"])
def test_the_peak_lies_below_the_chord(name: str) -> None:
    made = tiny.artifact(name, "fp32")
    spec, read = made.manifest.graph(), ir.load(made.path / "model.onnx").graph
    assert spec.activations[-1].tokens == made.manifest.max_tokens
    for length in range(8, made.manifest.max_tokens + 1):
        exact = activations.peak(read, length)
        assert exact is not None
        assert exact <= live_bytes(spec.activations, length) <= 1.5 * exact


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({**tiny.TASKS, **tiny.MORE}))
def test_every_encoder_says_what_it_takes(name: str) -> None:
    made = tiny.artifact(name, "fp32").manifest
    assert [bool(g.activations) for g in made.graphs] == [g.role == "model" for g in made.graphs]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "precision"), [("embed", "int8"), ("pii", "int8"), ("embed", "fp32"), ("embed", "int8-weights")])
def test_a_process_grows_by_what_was_counted(name: str, precision: str) -> None:
    made = real.artifact(name, precision)
    limit = made.manifest.max_tokens
    runs = [(len(members), length) for n in range(8, limit + 1, 8) for length, members in plan([n] * 64, limit)[:1]]
    largest = max(rows * live_bytes(made.manifest.graph().activations, length) for rows, length in runs)
    command = [sys.executable, "-c", GROWTH, str(made.path), *(f"{rows}x{length}" for rows, length in runs)]
    grown = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    print(f"{grown / 1e6:.1f} MB for {largest / 1e6:.1f} MB in the largest run: {grown / largest:.2f} times")
    assert largest < grown < ARENA * largest

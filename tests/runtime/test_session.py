from __future__ import annotations

import platform
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from hotfoot import targets
from hotfoot.contract import manifest as manifests
from hotfoot.contract.errors import ArtifactError
from hotfoot.contract.manifest import Activation, GraphSpec, Manifest, Side, TensorSpec
from hotfoot.contract.target import Target
from hotfoot.session import Session, open_session, require_isa, session_options
from hotfoot.task import Encoded, Marks
from support.handmade import write_artifact
from support.serving import artifact, model

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
PAD_ID, PAD_TYPE = 7, 3
KINDS = {"int32": TensorProto.INT32, "int64": TensorProto.INT64}


def encoded(*ids: int, types: Sequence[int] | None = None) -> Encoded:
    count = len(ids)
    return Encoded(
        ids=np.array(ids, np.int32),
        type_ids=np.array(types if types is not None else [1] * count, np.int32),
        item=0,
        marks=lambda: Marks(((0, 0),) * count, (False,) * count, (0,) * count),
    )


def echo(inputs: Sequence[str], dtype: str, axis: str) -> onnx.ModelProto:
    """A graph whose output is what it was fed: (batch, tokens, one column an input), as floats. `axis` names the tokens' axis."""
    nodes, columns = [], []
    for name in inputs:
        nodes += [
            helper.make_node("Cast", [name], [f"{name}_f"], to=TensorProto.FLOAT),
            helper.make_node("Unsqueeze", [f"{name}_f", "last"], [f"{name}_u"]),
        ]
        columns.append(f"{name}_u")
    nodes.append(helper.make_node("Concat", columns, ["output"], axis=2))
    graph = helper.make_graph(
        nodes,
        "echo",
        [helper.make_tensor_value_info(name, KINDS[dtype], ["batch", axis]) for name in inputs],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, ["batch", axis, len(inputs)])],
        [numpy_helper.from_array(np.array([2], np.int64), "last")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(made)
    return made


def echoing(
    folder: Path, *, inputs: Sequence[str] = INPUTS, dtype: str = "int32", side: Side = "right", per_token: bool = True, limit: int = 64
) -> tuple[Path, Manifest]:
    """An artifact of the echo graph. Unless per_token, its rows come back with their padding, as a pooled vector would come whole."""
    axis = "sequence" if per_token else "everything"
    written = write_artifact(folder, target=targets.local().name, weights=echo(inputs, dtype, axis).SerializeToString())
    graph = GraphSpec(
        role="model",
        file="model.onnx",
        inputs=tuple(TensorSpec(name, dtype, ("batch", axis)) for name in inputs),
        outputs=(TensorSpec("output", "float32", ("batch", axis, len(inputs))),),
    )
    tokenizer = replace(written.tokenizer, pad_id=PAD_ID, pad_type_id=PAD_TYPE, pad_side=side)
    manifest = replace(written, graphs=(graph,), tokenizer=tokenizer, max_tokens=limit)
    (folder / "manifest.json").write_text(manifests.dumps(manifest), encoding="utf-8")
    return folder, manifest


def opened(folder: Path, **options: Any) -> Session:
    place, manifest = echoing(folder, **options)
    return open_session(place, manifest, threads=1)


# --- padding


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_texts_are_padded_at_the_models_side(tmp_path: Path, side: Side, dtype: str) -> None:
    session = opened(tmp_path, side=side, dtype=dtype, per_token=False)
    (row,) = session.run([encoded(11, 12, 13, types=[0, 0, 1])])
    real = [[11, 1, 0], [12, 1, 0], [13, 1, 1]]
    padding = [[PAD_ID, 0, PAD_TYPE]] * 5
    assert row.tolist() == (padding + real if side == "left" else real + padding)


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_never_leaves(tmp_path: Path, side: Side) -> None:
    session = opened(tmp_path, side=side)
    texts = [encoded(*range(10, 10 + n)) for n in (3, 8, 1, 9, 64, 3)]
    found = session.run(texts)
    assert [row[:, 0].tolist() for row in found] == [t.ids.tolist() for t in texts]
    assert all((row[:, 1] == 1).all() for row in found)


def test_a_graph_need_not_take_every_input(tmp_path: Path) -> None:
    session = opened(tmp_path, inputs=("attention_mask", "input_ids"), per_token=False)
    (row,) = session.run([encoded(11, 12)])
    assert row.tolist() == [[1, 11], [1, 12], *[[0, PAD_ID]] * 6]


def test_an_input_that_hotfoot_does_not_make_is_named(tmp_path: Path) -> None:
    session = opened(tmp_path, inputs=("input_ids", "bbox"))
    with pytest.raises(ArtifactError, match="the graph wants an input 'bbox', which hotfoot does not make"):
        session.run([encoded(11)])


def test_no_text_is_padded_past_the_limit(tmp_path: Path) -> None:
    session = opened(tmp_path, per_token=False, limit=5)
    assert [len(row) for row in session.run([encoded(1, 2, 3), encoded(*range(5))])] == [5, 5]


def test_results_come_in_the_order_of_the_inputs(tmp_path: Path) -> None:
    session = opened(tmp_path)
    texts = [encoded(i, *range(100, 100 + (i * 7) % 60)) for i in range(90)]
    assert [int(row[0, 0]) for row in session.run(texts)] == list(range(90))
    assert session.run([]) == []


# --- what a text's neighbours may not do


@pytest.mark.parametrize("task", ["text-classification", "token-classification", "feature-extraction"])
def test_a_result_is_the_same_bit_for_bit_in_any_company(task: str) -> None:
    rigged = model(task)
    words = ["good", "bad", "maria", "springfield", "east", "up", "hello", "world", "xyzzy"]
    texts = [" ".join(words[(i * 5 + j) % 9] for j in range(1 + (i * 11) % 20)) for i in range(60)]
    encoded_texts = rigged.tokenizer.encode(texts, truncate="right")
    together = rigged.session.run(encoded_texts)
    backwards = rigged.session.run(encoded_texts[::-1])[::-1]
    for one, a, b in zip(encoded_texts, together, backwards, strict=True):
        (alone,) = rigged.session.run([one])
        assert alone.tobytes() == a.tobytes() == b.tobytes()


def test_threads_share_a_session() -> None:
    rigged = model("feature-extraction")
    texts = rigged.tokenizer.encode([f"east {'up ' * (i % 9)}world" for i in range(32)], truncate=None)
    alone = [row.tobytes() for row in rigged.session.run(texts)]
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda i: rigged.session.run([texts[i % 32]])[0].tobytes() == alone[i % 32], range(400)))
    assert all(found)


class Counting:
    """Stands in for an ONNX Runtime session: counts the texts of each run."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def run(self, _outputs: list[str], feed: dict[str, Any]) -> list[Any]:
        ids = feed["input_ids"]
        self.sizes.append(len(ids))
        return [np.zeros((*ids.shape, 3), np.float32)]


@pytest.mark.parametrize(("independent", "sizes"), [(True, [3]), (False, [1, 1, 1])])
def test_a_graph_that_mixes_rows_runs_each_text_alone(tmp_path: Path, independent: bool, sizes: list[int]) -> None:
    _, manifest = echoing(tmp_path)
    counting = Counting()
    session = Session(counting, manifest.graph(), replace(manifest, independent_rows=independent))
    session.run([encoded(1, 2), encoded(3), encoded(4, 5, 6)])
    assert counting.sizes == sizes


@pytest.mark.parametrize(("room", "sizes"), [(None, [6]), (6000, [6]), (5999, [5, 1]), (3000, [3, 3]), (1000, [1] * 6), (0, [1] * 6)])
def test_a_runs_size_follows_the_room(tmp_path: Path, room: int | None, sizes: list[int]) -> None:
    _, manifest = echoing(tmp_path)
    counting = Counting()
    session = Session(counting, replace(manifest.graph(), activations=(Activation(8, 1000), Activation(64, 9000))), manifest)
    session.room = room
    session.run([encoded(1, 2) for _ in range(6)])
    assert counting.sizes == sizes


def test_without_activations_the_room_decides_nothing(tmp_path: Path) -> None:
    _, manifest = echoing(tmp_path)
    counting = Counting()
    session = Session(counting, manifest.graph(), manifest)
    session.room = 1
    session.run([encoded(1, 2) for _ in range(6)])
    assert counting.sizes == [6]


# --- opening


def with_target(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> Target:
    local = targets.local()
    changed = replace(local, **changes)
    monkeypatch.setattr(targets, "load", lambda _name: changed)
    return changed


def os_threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_number_of_threads_is_applied(tmp_path: Path, threads: int) -> None:
    place, manifest = echoing(tmp_path)
    before = os_threads()
    session = open_session(place, manifest, threads=threads)
    # the caller is one of them
    assert os_threads() - before == threads - 1
    options = session._ort.get_session_options()
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (threads, 1)


@pytest.mark.parametrize("name", targets.names())
def test_a_targets_settings_reach_the_session(name: str) -> None:
    target = targets.load(name)
    options = session_options(target, 2)
    for key, value in target.session.config.items():
        assert options.get_session_config_entry(key) == value
    assert options.enable_cpu_mem_arena is target.session.cpu_arena
    assert options.enable_mem_pattern is target.session.mem_pattern
    assert options.graph_optimization_level.name == "ORT_DISABLE_ALL"
    assert options.execution_mode.name == "ORT_SEQUENTIAL"


def test_entries_of_the_config_are_those_of_the_open_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, manifest = echoing(tmp_path)
    config = {"session.intra_op.allow_spinning": "1", "session.set_denormal_as_zero": "0", "mlas.disable_kleidiai": "1"}
    with_target(monkeypatch, session=replace(targets.local().session, config=config, cpu_arena=False))
    options = open_session(place, manifest, threads=1)._ort.get_session_options()
    assert {key: options.get_session_config_entry(key) for key in config} == config
    assert options.enable_cpu_mem_arena is False


def test_the_provider_is_the_targets(tmp_path: Path) -> None:
    assert opened(tmp_path).providers == ["CPUExecutionProvider"]


def test_another_provider_than_asked_for_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, manifest = echoing(tmp_path)
    target = with_target(monkeypatch, session=replace(targets.local().session, providers=("CUDAExecutionProvider", "CPUExecutionProvider")))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with pytest.raises(ArtifactError) as caught:
            open_session(place, manifest, threads=1)
    assert str(caught.value) == f"target {target.name} asks for CUDAExecutionProvider, ONNX Runtime gave CPUExecutionProvider"


@pytest.mark.parametrize("content", [b"", b"no graph at all", None])
def test_a_graph_that_cannot_be_opened_is_named(tmp_path: Path, content: bytes | None) -> None:
    place, manifest = echoing(tmp_path)
    (place / "model.onnx").unlink()
    if content is not None:
        (place / "model.onnx").write_bytes(content)
    with pytest.raises(ArtifactError, match=r"ONNX Runtime \S+ cannot open model\.onnx: "):
        open_session(place, manifest, threads=1)


def test_an_unknown_target_is_named(tmp_path: Path) -> None:
    place, manifest = echoing(tmp_path)
    with pytest.raises(Exception, match="no target 'toaster'"):
        open_session(place, replace(manifest, target="toaster"), threads=1)


# --- the instruction set


def test_a_cpu_that_lacks_a_feature_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, manifest = echoing(tmp_path)
    monkeypatch.setattr(targets, "cpu_features", lambda: frozenset({"avx2"}))
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    strict = replace(manifest, target="cpu-container-x86_64")
    with pytest.raises(ArtifactError) as caught:
        open_session(place, strict, threads=1)
    assert str(caught.value) == "the artifact is for cpu-container-x86_64, this CPU lacks vnni Build it with --target local."
    # the build stage measures foreign artifacts, and says so
    assert open_session(place, strict, threads=1, foreign=True).providers == ["CPUExecutionProvider"]
    open_session(place, replace(manifest, target="cpu-container-x86_64-avx2"), threads=1)


@pytest.mark.parametrize(("machine", "target"), [("aarch64", "lambda-x86_64"), ("x86_64", "lambda-arm64")])
def test_another_architecture_is_refused(monkeypatch: pytest.MonkeyPatch, machine: str, target: str) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(targets, "cpu_features", lambda: frozenset({"avx2", "vnni", "dotprod"}))
    here, there = targets.machine_arch(), targets.load(target).arch
    with pytest.raises(ArtifactError, match=f"the artifact is for {there}, this machine is {here}"):
        require_isa(targets.load(target))


def test_this_machine_may_open_what_was_built_for_it() -> None:
    require_isa(targets.local())
    assert open_session(artifact("text-classification"), model("text-classification").manifest, threads=1).providers

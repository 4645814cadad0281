"""Folders and graphs on this disk: read in place, named by their content."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from hotfoot.contract.errors import ArtifactError, HotfootError, InputError, UnsupportedError
from hotfoot_build.resolve import Snapshot, resolve

FILES = {
    "config.json": json.dumps({"architectures": ["BertModel"]}),
    "tokenizer.json": "{}",
    "README.md": "---\nlicense: mit\n---\n",
    "NOTICE": "notice",
    "model.safetensors": "weights",
    "modules.json": json.dumps(
        [{"path": "", "type": "sentence_transformers.models.Transformer"}, {"path": "1_P", "type": "sentence_transformers.P"}]
    ),
    "1_P/config.json": "{}",
    "additional_chat_templates/tool.jinja": "{{ x }}",
}
NOT_READ = (
    ".git/HEAD",
    ".cache/x",
    "1_P/.hidden",
    "onnx/model.onnx",
    "model.onnx",
    "optimizer.pt",
    "pytorch_model.bin",
    "checkpoint-5/config.json",
)


def call(model: Path | str, **options: Any) -> Snapshot:
    default = {"revision": None, "cache_dir": Path("/nowhere"), "allow_pickle": False, "trust_remote_code": False, "name": None}
    return resolve(str(model), **{**default, **options}, progress=lambda _: None)


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "mine", FILES)


def test_a_folder_is_read_in_place(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = call(folder)
    assert (snapshot.kind, snapshot.path, snapshot.files) == ("folder", folder, tuple(sorted(FILES)))
    assert (snapshot.model.id, snapshot.model.architecture, snapshot.model.license) == ("mine", "BertModel", "mit")
    assert snapshot.model.notices == ("NOTICE",)
    assert snapshot.model.revision.startswith("sha256:")
    assert call(folder, name="org/own").model.id == "org/own"
    monkeypatch.chdir(folder)
    assert call(".") == snapshot


def test_the_same_content_has_the_same_revision_wherever_it_lies(folder: Path, tmp_path: Path) -> None:
    first = call(folder).model.revision
    copy = shutil.copytree(folder, tmp_path / "elsewhere" / "copy")
    os.utime(copy / "config.json", (0, 0))
    write(copy, dict.fromkeys(NOT_READ, "junk"))
    assert call(copy).model.revision == first
    linked = tmp_path / "linked"
    linked.mkdir()
    for entry in folder.iterdir():
        (linked / entry.name).symlink_to(entry)
    assert call(linked).model.revision == first


@pytest.mark.parametrize("name", sorted(FILES))
def test_content_changes_the_revision(folder: Path, name: str) -> None:
    before = call(folder).model.revision
    (folder / name).write_text(FILES[name] + "\n ", encoding="utf-8")
    assert call(folder).model.revision != before


def test_a_revision_of_local_files_is_what_they_must_have(folder: Path) -> None:
    revision = call(folder).model.revision
    assert call(folder, revision=revision).model.revision == revision
    for other in ("main", "sha256:" + "0" * 64):
        with pytest.raises(InputError, match=f"has revision {revision}, not {other}"):
            call(folder, revision=other)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "1_P/config.json"])
def test_broken_links_are_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    (folder / name).symlink_to("gone")
    (folder / "last").symlink_to("gone too, but nobody reads it")
    with pytest.raises(InputError, match=f"a link that leads nowhere: {name}\\."):
        call(folder)


def test_local_pickles_and_code_are_refused_too(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(UnsupportedError, match="--allow-pickle"):
        call(folder)
    assert call(folder, allow_pickle=True).pickled
    write(folder, {"config.json": json.dumps({"architectures": ["X"], "auto_map": {"AutoModel": "x.X"}}), "x.py": "1"})
    with pytest.raises(UnsupportedError, match="--trust-remote-code"):
        call(folder, allow_pickle=True)
    trusted = call(folder, allow_pickle=True, trust_remote_code=True)
    write(folder, {"x.py": "2"})
    assert call(folder, allow_pickle=True, trust_remote_code=True).model.revision != trusted.model.revision


def test_a_file_that_is_no_graph(folder: Path) -> None:
    with pytest.raises(InputError, match=r"a file, but not an \.onnx file"):
        call(folder / "model.safetensors")
    (folder / "config.json").unlink()
    with pytest.raises(UnsupportedError, match=r"no config\.json"):
        call(folder)


# --- a graph that someone else exported


def graph(file: Path, location: str | None = "model.onnx.data", *, nested: bool = False) -> Path:
    """A graph with one tensor, outside the file where `location` is given, at the top or in a branch of an If."""
    file.parent.mkdir(parents=True, exist_ok=True)
    tensor = numpy_helper.from_array(np.arange(8, dtype=np.float32), "w")
    if location is not None:
        data = file.parent / "model.onnx.data"
        data.write_bytes(tensor.raw_data)
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=location)
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, [8])
    inner = helper.make_graph([helper.make_node("Identity", ["w"], ["y"])], "g", [], [out], [tensor])
    condition = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    node = helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
    outer = helper.make_graph([node], "g", [condition], [out]) if nested else inner
    onnx.save_model(helper.make_model(outer), file)
    return file


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("where", ["model.onnx", "onnx/model.onnx"])
def test_a_graph_with_external_data(folder: Path, where: str, nested: bool) -> None:
    file = graph(folder / where, nested=nested)
    snapshot = call(file)
    data = f"{where}.data"
    assert (snapshot.kind, snapshot.onnx_file, snapshot.path) == ("onnx", where, folder)
    assert {where, data, "config.json", "tokenizer.json"} <= set(snapshot.files)
    assert "model.safetensors" not in snapshot.files
    assert (snapshot.model.id, snapshot.model.license) == ("mine", "mit")
    (folder / data).write_bytes(bytes(32))
    assert call(file).model.revision != snapshot.model.revision
    (folder / data).unlink()
    with pytest.raises(InputError, match=rf"missing.*: {data}\."):
        call(file)


def test_a_graphs_folder_still_says_how_it_pools(folder: Path) -> None:
    assert {"modules.json", "1_P/config.json"} <= set(call(graph(folder / "onnx" / "model.onnx")).files)


def test_a_graph_that_holds_its_tensors(folder: Path, tmp_path: Path) -> None:
    first = call(graph(folder / "model.onnx", None), name="org/graph")
    assert first.model.id == "org/graph"
    assert call(shutil.copytree(folder, tmp_path / "copy") / "model.onnx").model.revision == first.model.revision


def test_a_relative_graph(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph(folder / "model.onnx")
    monkeypatch.chdir(folder / "1_P")
    assert call("../model.onnx") == call(folder / "model.onnx")


def test_a_graph_in_a_hubs_cache_is_a_link_without_neighbours(folder: Path, tmp_path: Path) -> None:
    blob = graph(tmp_path / "blobs" / "abc", None)
    (folder / "model.onnx").symlink_to(blob)
    assert call(folder / "model.onnx").onnx_file == "model.onnx"


@pytest.mark.parametrize("location", ["../secret", "/etc/passwd", "a/../../b", "..\\secret", "C:\\secret", ""])
def test_external_data_cannot_leave_the_folder(folder: Path, location: str) -> None:
    with pytest.raises(ArtifactError, match="names data outside its folder"):
        call(graph(folder / "model.onnx", location))


@pytest.mark.parametrize("content", [b"", b"version https://git-lfs.github.com/spec/v1\n", b"\x08\x01"])
def test_something_else_with_that_name(folder: Path, content: bytes) -> None:
    (folder / "model.onnx").write_bytes(content)
    with pytest.raises(ArtifactError, match="is not an ONNX model"):
        call(folder / "model.onnx")


@pytest.mark.parametrize("missing", ["config.json", "tokenizer.json"])
def test_a_graph_alone(folder: Path, missing: str) -> None:
    file = graph(folder / "model.onnx")
    (folder / missing).unlink()
    with pytest.raises(UnsupportedError, match=r"model\.onnx needs config\.json and tokenizer\.json beside it"):
        call(file)


@pytest.mark.parametrize("text", ["{", "[]", '{"architectures": ["ViTModel"]}'])
def test_a_graph_with_a_bad_config(folder: Path, text: str) -> None:
    file = graph(write(folder, {"config.json": text}) / "model.onnx")
    with pytest.raises(HotfootError, match=r"config\.json|not a text model"):
        call(file)

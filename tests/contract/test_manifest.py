from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotfoot.contract import codec
from hotfoot.contract import manifest as manifests
from hotfoot.contract.errors import ArtifactError
from hotfoot.contract.manifest import Activation, FileEntry, GraphSpec, Manifest, ModelRef, PassRecord, TensorSpec, TokenizerSpec
from support.handmade import write_artifact

names = st.text(max_size=8)
sizes = st.integers(min_value=0)
counts = st.dictionaries(names, sizes, max_size=3)
# no subnormals: nothing promises them, and a session configured so would have this thread flush them to zero
floats = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False)
scalars = st.none() | st.booleans() | st.integers() | floats | names
values = st.recursive(scalars, lambda v: st.lists(v, max_size=2) | st.dictionaries(names, v, max_size=2), max_leaves=4)
objects = st.dictionaries(names, values, max_size=3)
sides = st.sampled_from(["left", "right"])


def several(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(strategy, max_size=2).map(tuple)


tensors = st.builds(TensorSpec, name=names, dtype=names, shape=several(st.integers() | names))
files = st.builds(FileEntry, path=names, size=sizes, sha256=names)
made = st.builds(
    Manifest,
    format=st.just(manifests.FORMAT),
    model=st.builds(ModelRef, id=names, revision=names, architecture=names, license=names, notices=several(names)),
    task=names,
    target=names,
    precision=names,
    recipe=several(
        st.builds(PassRecord, name=names, options=objects, applied=st.booleans(), reason=names, ops_before=counts, ops_after=counts)
    ),
    graphs=several(
        st.builds(
            GraphSpec,
            role=names,
            file=names,
            inputs=several(tensors),
            outputs=several(tensors),
            activations=several(st.builds(Activation, tokens=sizes, bytes=sizes)),
        )
    ),
    tokenizer=st.builds(
        TokenizerSpec,
        hash=names,
        files=several(files),
        pad_id=st.integers(),
        pad_type_id=st.integers(),
        pad_side=sides,
        truncation_side=sides,
    ),
    max_tokens=sizes,
    labels=several(names),
    facts=objects,
    files=several(files),
    independent_rows=st.booleans(),
)

FULL = Manifest(
    format=2,
    model=ModelRef(id="made/by-hand", revision="0" * 40, architecture="Bert", license="apache-2.0", notices=("LICENSE",)),
    task="token-classification",
    target="lambda-arm64",
    precision="int8",
    recipe=(PassRecord("prune", {"deep": True, "keep": ["a", "b"]}, True, "", {"MatMul": 12, "Add": 9}, {"MatMul": 12}),),
    graphs=(
        GraphSpec(
            role="model",
            file="model.onnx",
            inputs=(TensorSpec("input_ids", "int64", ("batch", "sequence")), TensorSpec("attention_mask", "int64", ("batch", "sequence"))),
            outputs=(TensorSpec("logits", "float32", ("batch", "sequence", 3)),),
            activations=(Activation(8, 1000), Activation(512, 90_000)),
        ),
    ),
    tokenizer=TokenizerSpec("ab" * 32, (FileEntry("tokenizer.json", 10, "cd" * 32),), 0, 0, "right", "left"),
    max_tokens=512,
    labels=("O", "B-PER", "I-PER"),
    facts={"words": "pretokenizer", "nested": {"b": 1, "a": 0.5}, "none": None},
    files=(FileEntry("LICENSE", 3, "ef" * 32), FileEntry("model.onnx", 7, "01" * 32)),
)


def variants(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every document that differs from `value` in one place: a leaf changed, an item or optional key dropped, an order turned."""
    if isinstance(value, dict):
        for key, inner in value.items():
            for where, changed in variants(inner, f"{path}.{key}"):
                yield where, {**value, key: changed}
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield f"{path}[{i}] dropped", value[:i] + value[i + 1 :]
            for where, changed in variants(inner, f"{path}[{i}]"):
                yield where, [*value[:i], changed, *value[i + 1 :]]
        if len(value) > 1:
            yield f"{path} turned", value[::-1]
    else:
        yield path, _other(value)


def _other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if value in ("left", "right"):
        return {"left": "right", "right": "left"}[value]
    return value + 1 if isinstance(value, (int, float)) else f"{value or ''}x"


@given(made)
def test_what_is_written_is_read_back(manifest: Manifest) -> None:
    text = manifests.dumps(manifest)
    again = manifests.loads(text)
    assert again == manifest
    assert again.digest == manifest.digest
    assert manifests.dumps(again) == text


def test_the_digest_is_known() -> None:
    # a change here means that every artifact in the field gets another name: raise FORMAT with it
    assert FULL.digest == "32942db25e45472e5855d2acc3c44910a7d6b64e39982e4f953a3e7926661f31"


def test_the_digest_does_not_depend_on_the_order_of_keys() -> None:
    def turned(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: turned(v) for k, v in reversed(value.items())}
        return [turned(v) for v in value] if isinstance(value, list) else value

    assert codec.build(Manifest, turned(codec.plain(FULL)), "turned").digest == FULL.digest


@pytest.mark.parametrize("seed", ["0", "1"])
def test_the_digest_does_not_depend_on_the_process(tmp_path: Path, seed: str) -> None:
    (tmp_path / "manifest.json").write_text(manifests.dumps(FULL), encoding="utf-8")
    code = "import sys, pathlib; from hotfoot.contract import manifest; print(manifest.read(pathlib.Path(sys.argv[1])).digest)"
    found = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True, text=True
    )
    assert found.stdout.strip() == FULL.digest


CHANGES = dict(variants(codec.plain(FULL)))


def test_the_walk_reaches_every_field() -> None:
    assert set(CHANGES) >= {
        ".format",
        ".model.revision",
        ".model.notices[0]",
        ".target",
        ".recipe[0].ops_before.MatMul",
        ".recipe[0].options.keep turned",
        ".graphs[0].outputs[0].shape[2]",
        ".graphs[0].activations[1].bytes",
        ".tokenizer.pad_side",
        ".tokenizer.files[0].sha256",
        ".labels turned",
        ".facts.nested.a",
        ".facts.none",
        ".files[1].sha256",
        ".files[1].size",
        ".independent_rows",
    }


@pytest.mark.parametrize("where", CHANGES)
def test_the_digest_changes_with_every_field(where: str) -> None:
    assert codec.build(Manifest, CHANGES[where], where).digest != FULL.digest


def test_the_digest_does_not_depend_on_place_or_evidence(tmp_path: Path) -> None:
    here, there = write_artifact(tmp_path / "here"), write_artifact(tmp_path / "a" / "longer" / "way")
    (tmp_path / "here" / "evidence.json").write_text('{"seconds": 12.5}', encoding="utf-8")
    assert manifests.verify(tmp_path / "here").digest == here.digest == there.digest
    other = write_artifact(tmp_path / "other", weights=b"onny")
    assert other.digest != here.digest


def edited(**changes: Any) -> str:
    return json.dumps({**json.loads(manifests.dumps(FULL)), **changes})


def test_an_edited_manifest_is_refused() -> None:
    with pytest.raises(ArtifactError, match=f"was changed after the build: it says digest {FULL.digest}, its content has "):
        manifests.loads(edited(labels=["B-PER", "O", "I-PER"]))


@pytest.mark.parametrize("digest", [None, "", "0" * 64, 5])
def test_a_digest_that_does_not_fit_is_refused(digest: Any) -> None:
    with pytest.raises(ArtifactError, match="was changed after the build"):
        manifests.loads(edited(digest=digest))


@pytest.mark.parametrize("form", [0, 1, 3, "2", None, [2]])
def test_an_unknown_format_is_refused(form: Any) -> None:
    with pytest.raises(ArtifactError) as caught:
        manifests.loads(edited(format=form, labels="even if more is wrong"), "some.json")
    assert str(caught.value).startswith(f"some.json has format {form!r}; this hotfoot reads format 2. ")
    assert "Build the artifact again" in caught.value.hint


@pytest.mark.parametrize("form", [2.0])
def test_a_format_must_be_a_whole_number(form: Any) -> None:
    with pytest.raises(ArtifactError, match="format: must be int"):
        manifests.loads(edited(format=form))


def test_every_fault_of_a_manifest_is_named() -> None:
    document = json.loads(edited(labels=["O", 3], colour="red"))
    del document["max_tokens"]
    document["tokenizer"]["pad_side"] = "up"
    document["files"][1]["size"] = "7"
    with pytest.raises(ArtifactError) as caught:
        manifests.loads(json.dumps(document), "some.json")
    assert str(caught.value).splitlines() == [
        "some.json is not a valid Manifest:",
        "  colour: unknown field",
        "  tokenizer.pad_side: must be one of 'left', 'right', got \"up\"",
        "  max_tokens: missing",
        "  labels[1]: must be str, got 3",
        '  files[1].size: must be int, got "7"',
    ]


@pytest.mark.parametrize("text", ["[]", "7", '"manifest"', "null"])
def test_a_manifest_is_an_object(text: str) -> None:
    with pytest.raises(ArtifactError, match="must hold a JSON object"):
        manifests.loads(text)


def test_a_folder_without_a_manifest(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path, tmp_path / "nowhere", tmp_path / "file"):
        with pytest.raises(ArtifactError, match=r"no manifest\.json in .*hotfoot build --out"):
            manifests.read(place)


def test_a_manifest_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_bytes(b'{"format": 2, "task": "caf\xe9"}')
    with pytest.raises(ArtifactError, match="is not UTF-8"):
        manifests.read(tmp_path)


def test_graphs_are_found_by_role() -> None:
    assert FULL.graph().file == "model.onnx"
    two = replace(FULL, graphs=(replace(FULL.graphs[0], role="encoder"), replace(FULL.graphs[0], role="decoder")))
    with pytest.raises(ArtifactError, match="has no graph 'model'; it has encoder, decoder"):
        two.graph()


def faults(directory: Path) -> list[str]:
    with pytest.raises(ArtifactError) as caught:
        manifests.verify(directory)
    first, *lines = str(caught.value).splitlines()
    assert first == f"the artifact in {directory} has {len(lines)} fault(s):"
    return [line.strip() for line in lines]


def test_an_untouched_artifact_is_verified(tmp_path: Path) -> None:
    written = write_artifact(tmp_path / "a")
    assert manifests.verify(tmp_path / "a") == written
    shutil.move(tmp_path / "a", tmp_path / "b")
    assert manifests.verify(tmp_path / "b") == written


def test_every_tampering_is_named_at_once(tmp_path: Path) -> None:
    write_artifact(tmp_path)
    (tmp_path / "model.onnx").write_bytes(b"onny")  # same size
    (tmp_path / "LICENSE").unlink()
    (tmp_path / "tokenizer" / "tokenizer.json").write_text("{}", encoding="utf-8")
    (tmp_path / "tokenizer" / "extra.txt").write_text("", encoding="utf-8")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "er.bin").write_bytes(b"")
    found = faults(tmp_path)
    assert found == [
        "LICENSE: missing",
        "model.onnx: content differs from the manifest's sha256",
        f"tokenizer.json: 2 bytes, the manifest says {manifests.read(tmp_path).tokenizer.files[0].size}",
        "deep/er.bin: not in the manifest",
        "tokenizer/extra.txt: not in the manifest",
    ]


def test_a_resized_file_is_named_with_both_sizes(tmp_path: Path) -> None:
    write_artifact(tmp_path, weights=b"onnx")
    (tmp_path / "model.onnx").write_bytes(b"onnx and more")
    assert faults(tmp_path) == ["model.onnx: 13 bytes, the manifest says 4"]


def rewritten(directory: Path, **changes: Any) -> None:
    changed = replace(manifests.read(directory), **changes)
    (directory / "manifest.json").write_text(manifests.dumps(changed), encoding="utf-8")


def test_a_manifest_made_anew_cannot_lie_about_the_tokenizer(tmp_path: Path) -> None:
    written = write_artifact(tmp_path)
    rewritten(tmp_path, tokenizer=replace(written.tokenizer, hash="0" * 64))
    assert faults(tmp_path) == ["tokenizer: its files do not give the hash that the manifest names"]


def test_a_graph_must_be_one_of_the_files(tmp_path: Path) -> None:
    written = write_artifact(tmp_path)
    rewritten(tmp_path, graphs=(replace(written.graphs[0], file="evidence.json"),))
    assert faults(tmp_path) == ["evidence.json: graph 'model' names a file that the manifest does not list"]


@pytest.mark.parametrize("inside", [True, False])
def test_a_file_outside_the_artifact_is_refused(tmp_path: Path, inside: bool) -> None:
    written = write_artifact(tmp_path / "artifact")
    (tmp_path / "outside").write_bytes(b"")
    path = "../outside" if inside else str(tmp_path / "outside")
    entry = replace(manifests.describe(tmp_path, [tmp_path / "outside"])[0], path=path)
    rewritten(tmp_path / "artifact", files=(*written.files, entry))
    assert faults(tmp_path / "artifact") == [f"{path}: lies outside the artifact"]


def test_files_are_described_in_order_and_by_content(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "two").write_bytes(b"two")
    (tmp_path / "a").write_bytes(b"")
    one, two = manifests.describe(tmp_path, [tmp_path / "b" / "two", tmp_path / "a"])
    assert (one.path, one.size, one.sha256) == ("a", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
    assert (two.path, two.size, two.sha256) == ("b/two", 3, "3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3")
    assert manifests.combine([one, two]) == manifests.combine([two, one])
    assert manifests.combine([one]) != manifests.combine([one, two])
    assert manifests.combine([replace(one, path="c")]) != manifests.combine([one])

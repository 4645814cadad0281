from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from hotfoot.contract import bundle, codec, errors
from hotfoot.contract.bundle import Bundle, LayerDir
from hotfoot.contract.errors import KINDS, ArtifactError, HotfootError, InputError

LAYERS = (LayerDir("runtime", "layers/runtime", "aa", 900, 300), LayerDir("tokenizer", "layers/tokenizer", "bb", 70, 20))
BUNDLE = Bundle(
    target="lambda-arm64",
    python="3.13",
    arch="arm64",
    handler="hotfoot.handlers.http.handler",
    model_id="made/by-hand",
    model_digest="cc",
    bytecode=True,
    layers=LAYERS,
    code=LayerDir("code", "code", "dd", 5, 3),
)


def written(directory: Path, **changes: Any) -> Path:
    document = {**codec.plain(BUNDLE), **changes}
    (directory / "bundle.json").write_text(json.dumps(document), encoding="utf-8")
    return directory


def test_a_bundle_is_read_back(tmp_path: Path) -> None:
    assert bundle.read(written(tmp_path)) == BUNDLE


def test_sizes_count_the_code_and_every_layer() -> None:
    assert (BUNDLE.unzipped_bytes, BUNDLE.zipped_bytes) == (975, 323)


def test_a_folder_without_a_bundle(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"no bundle\.json in .*hotfoot bundle --out"):
        bundle.read(tmp_path)


def test_every_fault_of_a_bundle_is_named(tmp_path: Path) -> None:
    layer = {**codec.plain(LAYERS[0]), "kind": "magic", "zipped_bytes": None}
    with pytest.raises(ArtifactError) as caught:
        bundle.read(written(tmp_path, layers=[layer], bytecode="yes", extra=1))
    assert [line.strip() for line in str(caught.value).splitlines()[1:]] == [
        "extra: unknown field",
        'bytecode: must be bool, got "yes"',
        "layers[0].kind: must be one of 'runtime', 'fetch', 'tokenizer', 'model', 'code', 'weights', got \"magic\"",
        "layers[0].zipped_bytes: must be int, got null",
    ]


def test_a_bundle_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "bundle.json").write_bytes(b"\xff\xfe")
    with pytest.raises(ArtifactError, match="is not UTF-8"):
        bundle.read(tmp_path)


def children() -> list[type[HotfootError]]:
    return [v for v in vars(errors).values() if isinstance(v, type) and issubclass(v, HotfootError)]


def test_every_kind_of_error_has_one_class() -> None:
    assert sorted(c.kind for c in children()) == sorted(KINDS)
    assert get_args(errors.Kind) == KINDS


def test_an_error_says_where_what_and_what_to_do() -> None:
    assert str(InputError("is empty.", hint="Send a text.", where="inputs[1]")) == "inputs[1]: is empty. Send a text."
    assert str(InputError("is empty.")) == "is empty."
    error = InputError("is empty.", where="inputs")
    assert (error.kind, error.message, error.hint, error.where) == ("input", "is empty.", "", "inputs")

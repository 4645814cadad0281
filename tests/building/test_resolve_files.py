"""Which files of a repository are fetched, and which models are refused before their weights are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub
import pytest

from hotfoot.contract.errors import ArtifactError, HotfootError, UnsupportedError
from support.hub import Hub, serve
from support.resolving import MODEL, Call, Files, point, with_config, without


@pytest.fixture(scope="module")
def server() -> Iterator[Hub]:
    with serve() as running:
        yield running
        huggingface_hub.close_session()


@pytest.fixture
def hub(server: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    point(server, tmp_path, monkeypatch)
    return server


@pytest.fixture
def call(tmp_path: Path) -> Call:
    return Call(tmp_path / "cache")


def test_pickles_are_neither_fetched_nor_used(hub: Hub, call: Call) -> None:
    hub.repo("tiny").commit(without("model.safetensors", more={"pytorch_model.bin": b"pickle", "optimizer.pt": b"huge"}))
    with pytest.raises(UnsupportedError, match=r"only as Python pickles: pytorch_model\.bin\. .*--allow-pickle"):
        call("tiny")
    assert not [p for p in hub.paths("/resolve/") if "bin" in p or "optimizer" in p]
    snapshot = call("tiny", allow_pickle=True)
    assert snapshot.pickled
    assert {p.name for p in snapshot.path.iterdir()} == {*MODEL, "pytorch_model.bin"} - {"model.safetensors"}


def test_safetensors_come_first_and_foreign_files_stay_away(hub: Hub, call: Call) -> None:
    junk = (
        "pytorch_model.bin",
        "tf_model.h5",
        "flax_model.msgpack",
        "onnx/model.onnx",
        "checkpoint-1/tokenizer.json",
        "custom.py",
        ".gitattributes",
    )
    hub.repo("tiny").commit({**MODEL, **dict.fromkeys(junk, b"junk"), "consolidated.safetensors": b"twice"})
    snapshot = call("tiny", allow_pickle=True)
    assert (snapshot.pickled, snapshot.files) == (False, tuple(sorted(MODEL)))
    assert {p.name for p in snapshot.path.iterdir()} == set(MODEL)


def test_shards(hub: Hub, call: Call) -> None:
    index = json.dumps({"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}})
    sharded = without("model.safetensors", more={"model.safetensors.index.json": index, "model-00001-of-00002.safetensors": b"1"})
    repo = hub.repo("tiny")
    repo.commit(sharded)
    with pytest.raises(ArtifactError, match=r"index\.json names files that are not there: model-00002-of-00002\.safetensors"):
        call("tiny")
    repo.commit({**sharded, "model-00002-of-00002.safetensors": b"2"})
    assert {f for f in call("tiny").files if "model" in f} == {f for f in repo.commits[repo.refs["main"]] if "model" in f}


def test_one_file_wins_over_shards_that_were_left_behind(hub: Hub, call: Call) -> None:
    hub.repo("tiny").commit(
        {**MODEL, "model.safetensors.index.json": '{"weight_map": {"a": "gone"}}', "model-00001-of-00002.safetensors": b""}
    )
    assert call("tiny").files == tuple(sorted(MODEL))


MODULES = [
    {"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    {"idx": 2, "path": "2_Dense", "type": "sentence_transformers.models.Dense"},
]


def test_sentence_transformers_folders(hub: Hub, call: Call) -> None:
    repo = hub.repo("tiny")
    model = {
        **MODEL,
        "modules.json": json.dumps(MODULES),
        "1_Pooling/config.json": "{}",
        "2_Dense/config.json": "{}",
        "sentence_bert_config.json": "{}",
    }
    repo.commit({**model, "2_Dense/pytorch_model.bin": b"pickle"})
    with pytest.raises(UnsupportedError, match=r"only as Python pickles: 2_Dense/pytorch_model\.bin"):
        call("tiny")
    assert call("tiny", allow_pickle=True).pickled
    repo.commit({**model, "2_Dense/pytorch_model.bin": b"pickle", "2_Dense/model.safetensors": b"dense", "3_Old/config.json": "{}"})
    assert call("tiny").files == tuple(sorted({*model, "2_Dense/model.safetensors"}))


@pytest.mark.parametrize("path", ["../2_Dense", "/etc", None])
def test_module_folders_cannot_leave_the_model(hub: Hub, call: Call, path: str | None) -> None:
    hub.repo("tiny").commit({**MODEL, "modules.json": json.dumps([{**MODULES[0], "path": path}])})
    with pytest.raises(ArtifactError, match=r"modules\.json has an entry without"):
        call("tiny")


@pytest.mark.parametrize(
    ("files", "classes"),
    [
        (with_config(auto_map={"AutoConfig": "conf.C", "AutoTokenizer": ["tok.Slow", None]}), ("conf.C", "tok.Slow")),
        ({**MODEL, "tokenizer_config.json": '{"auto_map": {"AutoTokenizer": ["tok.Slow", "tok.Fast"]}}'}, ("tok.Fast", "tok.Slow")),
        ({**MODEL, "modules.json": '[{"path": "", "type": "custom_st.Transformer"}]'}, ("custom_st.Transformer",)),
    ],
)
def test_remote_code(hub: Hub, call: Call, files: Files, classes: tuple[str, ...]) -> None:
    hub.repo("tiny").commit({**files, "code.py": "print()"})
    with pytest.raises(UnsupportedError, match=rf"needs Python code of its own: {', '.join(classes)}\..*--trust-remote-code"):
        call("tiny")
    assert not [p for p in hub.paths("/resolve/") if ".py" in p or "safetensors" in p]
    snapshot = call("tiny", trust_remote_code=True)
    assert snapshot.remote_code == classes
    assert "code.py" in snapshot.files


def test_code_out_of_another_repository_cannot_be_pinned(hub: Hub, call: Call) -> None:
    hub.repo("tiny").commit(with_config(auto_map={"AutoModel": "org/other--modeling.M"}))
    with pytest.raises(UnsupportedError, match="out of another repository"):
        call("tiny", trust_remote_code=True)


@pytest.mark.parametrize(
    ("files", "kind", "message"),
    [
        (without("config.json"), UnsupportedError, "tiny has no config.json"),
        (without("config.json", more={"adapter_config.json": "{}"}), UnsupportedError, "merge_and_unload"),
        ({**MODEL, "config.json": "{"}, ArtifactError, "config.json is not JSON"),
        ({**MODEL, "config.json": "[]"}, ArtifactError, "config.json must hold a JSON object"),
        (with_config(architectures=None), UnsupportedError, "names no architecture"),
        (with_config(architectures=["ViTForImageClassification"]), UnsupportedError, "not a text model: its architecture is ViT"),
        (with_config(vision_config={}), UnsupportedError, "with vision_config"),
        (without("tokenizer.json", "tokenizer_config.json"), UnsupportedError, "no tokenizer files"),
        (without("model.safetensors"), UnsupportedError, "no weights that hotfoot can read"),
        (without("model.safetensors", more={"tf_model.h5": b"x"}), UnsupportedError, "it has tf_model.h5"),
    ],
)
def test_models_that_cannot_be_built(hub: Hub, call: Call, files: Files, kind: type[HotfootError], message: str) -> None:
    hub.repo("tiny").commit(files)
    with pytest.raises(kind, match=message):
        call("tiny")
    assert not [p for p in hub.paths("/resolve/") if "safetensors" in p]


def test_a_slow_tokenizer_is_noted(hub: Hub, call: Call) -> None:
    hub.repo("tiny").commit(without("tokenizer.json", more={"vocab.txt": "[UNK]"}))
    assert not call("tiny").fast_tokenizer


@pytest.mark.parametrize(
    ("card", "licence"),
    [
        ("---\nlicense: mit\n---\n", "mit"),
        ("\ufeff---\r\nlicense: mit\r\n---\r\n", "mit"),
        ("---\nlicense: other\nlicense_name: llama3\n---\n", "llama3"),
        ("---\nlicense:\n- mit\n- apache-2.0\n---\n", "mit, apache-2.0"),
        ("---\ntags: [x]\n---\n", ""),
        ("# no front matter", ""),
        ("---\nlicense: [mit\n---\n", ""),
        ("---\n- mit\n---\n", ""),
        (b"\xff\xfe", ""),
        ("---\nlicense: !!python/object/apply:os.system ['touch /tmp/pwned']\n---\n", ""),
    ],
)
def test_licence_out_of_the_card(hub: Hub, call: Call, card: str | bytes, licence: str) -> None:
    hub.repo("tiny").commit({**MODEL, "README.md": card})
    assert call("tiny").model.license == licence


def test_notices(hub: Hub, call: Call) -> None:
    names = ("LICENSE-MODEL.md", "NOTICE", "NOTICE.txt", "licence.txt", "COPYING", "LICENSE")
    hub.repo("tiny").commit(
        {**MODEL, **dict.fromkeys(names, "text"), "license_head.safetensors": b"x", "licensed.txt": "", "docs/LICENSE": ""}
    )
    assert call("tiny").model.notices == tuple(sorted(names))

"""What the tests of `resolve` share: a model's files, the client pointed at the stand-in, a call with the usual flags."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

from hotfoot_build import hub as hub_client
from hotfoot_build.resolve import Snapshot, resolve
from support.hub import Hub

Files = dict[str, bytes | str]
TOKEN = "hf_canaryCANARYcanary"
CONFIG = {"architectures": ["BertForSequenceClassification"], "model_type": "bert"}
MODEL: Files = {
    "config.json": json.dumps(CONFIG),
    "tokenizer.json": "{}",
    "tokenizer_config.json": "{}",
    "README.md": "---\nlicense: apache-2.0\n---\n# A model\n",
    "LICENSE": "the text",
    "model.safetensors": b"weights one",
}


def with_config(**changes: Any) -> Files:
    """MODEL with other entries in its config.json."""
    return {**MODEL, "config.json": json.dumps({**CONFIG, **changes})}


def without(*names: str, more: Files | None = None) -> Files:
    """MODEL without some files and with others."""
    return {**{n: c for n, c in MODEL.items() if n not in names}, **(more or {})}


class Call:
    """`resolve` with the defaults of the command line; `said` is the progress it told."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache
        self.said: list[str] = []

    def __call__(self, model: str, **options: Any) -> Snapshot:
        default = {"revision": None, "cache_dir": self.cache, "allow_pickle": False, "trust_remote_code": False, "name": None}
        return resolve(model, **{**default, **options}, progress=self.said.append)


def point(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Point the client of this process at the stand-in, with no token and no waiting.

    The library reads its variables when it is imported, so its constants are set; one test runs a process with the variables.
    """
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
    monkeypatch.setattr(constants, "AGENT_HARNESSES_PATH", str(tmp_path / "agents.json"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.url + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.delenv("HUGGING_FACE_HUB_TOKEN", raising=False)
    monkeypatch.setattr(hub_client, "WAIT_S", 0.0)
    hub.reset()

"""How many tokens a built artifact reads: the least that its model's files allow, all of them used, and none more."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from hotfoot.model import Model
from support import tiny
from support.serving import client

REFERENCE = (
    "import json, sys; from sentence_transformers import SentenceTransformer as S; "
    "print(json.dumps(S(sys.argv[1], device='cpu', local_files_only=True).encode(sys.argv[2]).tolist()))"
)


def test_a_position_table_is_used_to_its_last_row_and_no_further() -> None:
    """66 rows, of which RoBERTa's padding index takes two, and a tokenizer that names no limit."""
    assert json.loads((tiny.models() / "classes" / "tokenizer_config.json").read_text())["model_max_length"] > 1e9
    http = client(Model.open(tiny.artifact("classes").path, threads=1))
    info = http.get("/info").json()
    assert (info["max_tokens"], info["max_input_length"]) == (64, 64)
    whole = "the quick fox in paris plays a guitar " * 60
    tokens = http.post("/tokenize", json={"inputs": whole}).json()[0]
    assert len(tokens) > 300

    def of(count: int) -> str:
        return whole[: tokens[count - 2]["stop"]]

    for count in (63, 64):
        assert http.post("/", json={"inputs": of(count)}).headers["x-compute-tokens"] == str(count)
    for count in (65, 300):
        refused = http.post("/", json={"inputs": of(count)})
        assert refused.status_code == 422
        assert f"the text has {count} tokens, the limit is 64" in refused.json()["error"]
        cut = http.post("/", json={"inputs": of(count), "parameters": {"truncation": True}})
        assert cut.json() == http.post("/", json={"inputs": of(64)}).json()


def test_of_three_limits_the_least_counts_and_the_vectors_are_the_originals(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny.models() / "mpnet", folder)  # 66 rows of positions
    kinds = [("0", "", "Transformer"), ("1", "1_Pooling", "Pooling"), ("2", "2_Normalize", "Normalize")]
    listed = [{"idx": int(i), "name": i, "path": path, "type": f"sentence_transformers.models.{kind}"} for i, path, kind in kinds]
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 16, "do_lower_case": False}))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 64, "pooling_mode_mean_tokens": True}))
    said = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**said, "model_max_length": 48}))
    http = client(Model.open(tiny.run_build(tiny.request("mpnet", tmp_path / "out", model=str(folder))).path, threads=1))
    assert http.get("/info").json()["max_tokens"] == 16
    text = "the quick fox in paris plays a guitar on the stage of the old town hall near the river"
    assert len(http.post("/tokenize", json={"inputs": text}).json()[0]) >= 40
    answer = http.post("/embed", json={"inputs": text, "truncate": True})
    assert answer.headers["x-compute-tokens"] == "16"
    command = [str(tiny.interpreter()), "-c", REFERENCE, str(folder), text]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer.json()[0] == pytest.approx(json.loads(done.stdout.splitlines()[-1]), abs=1e-5)
    assert np.linalg.norm(answer.json()[0]) == pytest.approx(1, abs=1e-6)

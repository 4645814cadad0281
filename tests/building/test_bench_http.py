"""`scripts/bench http` on a tiny model. No test asks how long anything took."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from hotfoot.model import Model
from hotfoot_build.bench import http
from support.serving import artifact, model
from walls.house import ROOT


def test_it_measures_what_it_says(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hotfoot_build.bench", "http", str(artifact("feature-extraction")), "--quick", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    page = (tmp_path / "http.md").read_text()
    for row in ("computed anew", "texts known, answer made", "answer kept", "256 mixed", "31 short, 1 long"):
        assert f"| {row} |" in page
    assert "nan" not in page
    assert (tmp_path / "http.json").is_file()


def test_the_texts_are_of_many_lengths_and_the_mixes_are_made_of_them() -> None:
    opened = model("feature-extraction")
    texts = http.pick(opened)
    lengths = [len(t.ids) for t in texts]
    assert len(texts) == http.TEXTS
    assert lengths == sorted(lengths)
    assert lengths[0] < 30
    assert 60 < lengths[-1] <= min(http.LONGEST, opened.tokenizer.max_tokens)
    mixes = http.several(texts)
    assert [len(m) for m in mixes.values()] == [256, 64, 64, 32, 8, 2]
    assert [len(t.ids) for t in mixes["256 mixed"]] != lengths


def test_a_padded_batch_is_what_it_is_called() -> None:
    text = http.pick(model("feature-extraction"))[0]
    padded = http._padded(text, 40)
    assert padded.ids.tolist() == [*text.ids.tolist(), *[0] * (40 - len(text.ids))]


def test_the_clock_stands_still_when_told() -> None:
    clock = http.Stopped()
    before = clock()
    clock.leave_out(1000.0)
    assert -1000.0 <= clock() - before < -900.0


def test_the_event_is_one_that_the_handler_answers() -> None:
    folder = artifact("feature-extraction")
    with http._handler(folder) as function:
        answer = function.handler(http._event({"inputs": "north"}, {}), http.CONTEXT)
    assert answer["statusCode"] == 200
    assert np.allclose(Model.open(folder, threads=1).predict("north").answer, [[0, 1, 0, 0]])
    assert "run;dur=" in answer["headers"]["server-timing"]

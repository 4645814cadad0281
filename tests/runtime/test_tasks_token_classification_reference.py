"""The same model, texts and parameters through transformers' own pipeline: the same entities."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hotfoot.contract.manifest import Manifest
from hotfoot.task import Encoded
from hotfoot.tasks import token_classification
from hotfoot.tokenizer import Tokenizer
from hotfoot_build import environment
from support import pipeline_reference
from support.tagging import manifest
from support.tokenizers_made import made

pytestmark = pytest.mark.slow

TASK = token_classification.TASK
LABELS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
STRATEGIES = ("none", "simple", "first", "average", "max")
MAX_TOKENS = 24
CUT = [{"aggregation_strategy": s} for s in STRATEGIES]
WINDOWS = [{"aggregation_strategy": s, "stride": stride} for s in STRATEGIES[1:] for stride in (0, 3, 9)]
IGNORING = [
    {"aggregation_strategy": s, "ignore_labels": labels} for s in ("none", "simple", "max") for labels in ([], ["O", "LOC"], ["B-PER"])
]
# ours takes a label as it is spelled for a group too, the pipeline does not: so the last is for `none` alone
IGNORING = [p for p in IGNORING if p["ignore_labels"] != ["B-PER"] or p["aggregation_strategy"] == "none"]


@dataclass(frozen=True)
class Case:
    """A tokenizer of some kind, and texts that the pipeline's own rules are sound for."""

    kind: str
    unknown: str
    padding: str
    words: tuple[str, ...]
    parameters: tuple[Mapping[str, Any], ...]


CASES = [
    Case(
        "wordpiece",
        "[UNK]",
        "[PAD]",
        (
            "Paris",
            "in",
            "the",
            "guitars",
            "Playing",
            "café",
            "don't",
            "5.975,74",
            "U.S.",
            "(man)",
            "国語",
            "🦊",
            "x" * 120,
            "Łódź",
            "-",
            "…",
        ),
        (*CUT, *WINDOWS, *IGNORING),
    ),
    # no ## there: the pipeline guesses at words from blanks, so that only the token strategies are comparable; and where a
    # blank counts as its word's, the pipeline's choice of the longer of two windows' entities counts it too
    Case("byte-level", "<unk>", "<pad>", ("the", "in", "paris", "stage,", "1980", "5.975,74", "river", "towns"), (*CUT[:2], *WINDOWS[:3])),
    Case("byte-level-untrimmed", "<unk>", "<pad>", ("the", "in", "paris", "stage,", "1980", "river"), (*CUT[:2],)),
    Case("unigram", "<unk>", "<pad>", ("Paris", "in", "12", "mai", "1980,", "Lyon.", "le", "5.975,74"), (*CUT[:2],)),
]


def texts_of(case: Case, seed: int) -> list[str]:
    dice = np.random.default_rng(seed)
    return [" ".join(dice.choice(case.words, int(dice.integers(1, 31)))) for _ in range(60)]


def encoded(case: Case, text: str, parameters: Mapping[str, Any], about: Manifest) -> tuple[Any, tuple[Encoded, ...]]:
    # the pipeline cuts what is too long, where it is not asked for windows
    request = TASK.parse(text, {**parameters, "truncation": True}, about)
    return request, TASK.encode(request, Tokenizer(made(case.kind), MAX_TOKENS))


def expected(text: str, entities: Sequence[Mapping[str, Any]]) -> list[tuple[str, int, int]]:
    """The pipeline's spans, without the blanks that its tokenizers count as a word's and without entities of blanks only."""
    found = []
    for e in entities:
        word = text[e["start"] : e["end"]]
        start = e["start"] + len(word) - len(word.lstrip())
        if word.strip():
            found.append((e.get("entity_group") or e["entity"], start, start + len(word.strip())))
    return found


@pytest.mark.parametrize(
    ("case", "seed"),
    [(CASES[0], 1), *((case, 2) for case in CASES)],
    ids=lambda value: value.kind if isinstance(value, Case) else str(value),
)
def test_entities_are_those_of_the_pipeline(tmp_path: Path, case: Case, seed: int) -> None:
    about = manifest(LABELS, "pretokenizer" if case.kind == "wordpiece" else "whitespace")
    tokenizer = made(case.kind)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    texts = texts_of(case, seed)
    calls = [[encoded(case, text, parameters, about) for text in texts] for parameters in case.parameters]
    windows = [e for call in calls for _, some in call for e in some]
    request = {
        "seed": seed,
        "tokenizer": str(tmp_path / "tokenizer.json"),
        "special": {"unk_token": case.unknown, "pad_token": case.padding},
        "vocabulary": tokenizer.get_vocab_size(),
        "labels": LABELS,
        "max_tokens": MAX_TOKENS,
        "texts": texts,
        "parameters": case.parameters,
        "windows": [e.ids.tolist() for e in windows],
    }
    (tmp_path / "request.json").write_text(json.dumps(request), encoding="utf-8")
    command = [str(environment.python(print)), pipeline_reference.__file__, str(tmp_path / "request.json"), str(tmp_path / "answer.json")]
    environ = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")} | {"HF_HUB_OFFLINE": "1"}
    subprocess.run(command, check=True, env=environ, cwd=tmp_path)
    answer = json.loads((tmp_path / "answer.json").read_text(encoding="utf-8"))
    logits = iter(answer["logits"])
    count = 0
    for parameters, call, theirs in zip(case.parameters, calls, answer["answers"], strict=True):
        for text, (parsed, some), reference in zip(texts, call, theirs, strict=True):
            outputs = [np.array(next(logits), np.float32) for _ in some]
            mine = TASK.decode(parsed, some, outputs, about)
            said = f"{parameters} on {text!r}"
            spans = [(e.get("entity_group") or e["entity"], e["start"], e["end"]) for e in mine]
            assert spans == expected(text, reference), said
            kept = [e["score"] for e in reference if text[e["start"] : e["end"]].strip()]
            assert [e["score"] for e in mine] == pytest.approx(kept, abs=1e-4), said
            assert all(e["word"] == text[e["start"] : e["end"]] for e in mine), said
            count += len(mine)
    # random models that found next to nothing would prove next to nothing
    assert count > 4 * len(texts) * len(case.parameters)

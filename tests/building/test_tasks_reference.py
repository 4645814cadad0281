"""Tiny models through the real build, and through the libraries that they were made for: the same answers."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest

from hotfoot.model import Model
from support import original_answers, tiny

pytestmark = pytest.mark.slow

WORDS = (
    "the",
    "quick",
    "fox",
    "Maria",
    "Gonzalez",
    "5.975,74",
    "café",
    "naïve",
    "don't",
    "(dog)",
    "Street;",
    "1980",
    "x" * 30,
    "-",
    "U.S.",
    "ß",
)
FUNCTIONS = ("none", "sigmoid", "softmax")
QUESTIONS = [
    {},
    {"top_k": 4},
    {"max_answer_len": 3},
    {"doc_stride": 7},
    {"handle_impossible_answer": True, "top_k": 3},
    {"align_to_words": False},
]
QUESTIONS += [
    {"max_seq_len": 60, "doc_stride": 10, "top_k": 6},
    {"max_seq_len": 50, "top_k": 2, "align_to_words": False, "max_answer_len": 40},
]
ENTAILED = [{}, {"multi_label": True}, {"hypothesis_template": "the {} near paris", "multi_label": True}, {"hypothesis_template": "{}"}]
CLASSIFIED = [{"top_k": k, "truncation": True, **f} for k in (None, 1, 3) for f in ({}, *({"function_to_apply": f} for f in FUNCTIONS))]
MASKED = [{}, {"top_k": 3}, {"top_k": 9}, {"targets": ["fox", "dog", "zebra", " fox"]}, {"targets": "paris"}]


def sentence(dice: np.random.Generator, least: int, most: int) -> str:
    return " ".join(dice.choice(WORDS, int(dice.integers(least, most))))


def questions(model: str) -> list[Any]:
    dice = np.random.default_rng(len(model))
    made = [
        {"question": " ".join(dice.choice(WORDS[:5], 2)), "context": sentence(dice, 1, most)} for most in (3, 8, 30, 160) for _ in range(8)
    ]
    # a byte-level pre-tokenizer takes a line of Japanese for one word, and the pipeline answers with all of it
    own = (
        [{"question": "国語", "context": "全学年にわたって小学校の国語の教科書に挿し絵が用いられている"}] if "roberta" not in model else []
    )
    return [*made, *own, {"question": "who?", "context": "  Maria\n\t and 🦊🦊 the   fox  "}]


def statements(model: str) -> list[Any]:
    dice = np.random.default_rng(len(model))
    made = [
        {"sequences": sentence(dice, 1, most), "candidate_labels": list(dict.fromkeys(dice.choice(WORDS, 6).tolist()))}
        for most in (3, 9, 20, 80)
        for _ in range(5)
    ]
    several = [sentence(dice, 1, 30) for _ in range(4)]
    return [*made, {"sequences": several, "candidate_labels": "fox, street, Maria Gonzalez"}]


def lone(model: str) -> list[Any]:
    """Texts with one label each."""
    return [{**asked, "candidate_labels": asked["candidate_labels"][:1]} for asked in statements(model)[:-1]]


def classified(model: str) -> list[Any]:
    """Texts, and pairs of all lengths, whose limit is 64 tokens."""
    dice = np.random.default_rng(len(model))
    texts = [sentence(dice, 1, most) for most in (3, 9, 90) for _ in range(3)]
    pairs = [{"text": sentence(dice, 1, one), "text_pair": sentence(dice, 1, two)} for one in (3, 20, 90) for two in (3, 20, 90)]
    return [*texts, *pairs, texts]


def queries(model: str) -> list[Any]:
    dice = np.random.default_rng(len(model))
    return [{"query": " ".join(dice.choice(WORDS[:5], 3)), "texts": [sentence(dice, 1, 25) for _ in range(7)]} for _ in range(12)]


def gaps(model: str) -> list[Any]:
    dice, mask = np.random.default_rng(len(model)), "<mask>" if "roberta" in model else "[MASK]"
    made = [f"{sentence(dice, 1, 9)} {mask} {sentence(dice, 1, 9)}" for _ in range(12)]
    made += [f"{mask} the {mask}, {sentence(dice, 1, 9)}{mask}" for _ in range(6)]
    return [*made, mask, f"It is{mask}."]


JOBS: list[tuple[str, Any, Any]] = [
    *((f"answers{kind}", questions, QUESTIONS) for kind in ("", "-roberta")),
    *((f"ranks{kind}", queries, [{}]) for kind in ("", "-roberta")),  # the longest are cut
    *((f"masks{kind}", gaps, MASKED) for kind in ("", "-roberta")),
    *((f"nli{kind}", statements, ENTAILED) for kind in ("", "-two")),
    *((f"nli{kind}", lone, [{"multi_label": True}]) for kind in ("", "-two")),
    # two labels, labels that may all hold, numbers, one label, and twelve whose file has them in another order
    *((name, classified, CLASSIFIED) for name in ("pairs", "many", "scale", "score", "classes")),
]


TASKS = {**tiny.TASKS, **tiny.MORE}


@cache
def reference() -> list[Any]:
    """Their answers to each of JOBS."""
    jobs = [
        {
            "task": TASKS[name],
            "model": str(tiny.models() / name),
            "max_tokens": 64 if name == "classes" else None,
            "inputs": inputs(name),
            "parameters": parameters,
        }
        for name, inputs, parameters in JOBS
    ]
    folder = tiny.room() / "reference"
    folder.mkdir(exist_ok=True)
    (folder / "jobs.json").write_text(json.dumps(jobs), encoding="utf-8")
    command = [str(tiny.interpreter()), original_answers.__file__, str(folder / "jobs.json"), str(folder / "answers.json")]
    environ = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")} | {"HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, check=False, env=environ, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found: list[Any] = json.loads((folder / "answers.json").read_text(encoding="utf-8"))
    return found


def both(name: str, asked_with: Any = None) -> list[tuple[Any, Mapping[str, Any], Any, Any]]:
    """(inputs, parameters, our answer, theirs) of every call of a model's job: its first, or that with these inputs."""
    number, inputs, parameters = next((j, i, p) for j, (n, i, p) in enumerate(JOBS) if n == name and asked_with in (None, i))
    model = Model.open(tiny.artifact(name).path)
    cut = {"truncate": True} if "truncate" in model.task.parameters else {}
    calls: list[tuple[Any, Mapping[str, Any], Any, Any]] = []
    for given, theirs in zip(parameters, reference()[number], strict=True):
        calls += [
            (asked, given, model.predict(asked, {**given, **cut}).answer, answer)
            for asked, answer in zip(inputs(name), theirs, strict=True)
        ]
    return calls


def as_list(answer: Any) -> list[dict[str, Any]]:
    return answer if isinstance(answer, list) else [answer]


@pytest.mark.parametrize("name", ["answers", "answers-roberta"])
def test_answers_are_those_of_the_pipeline(name: str) -> None:
    count = windows = 0
    for asked, parameters, ours, theirs in both(name):
        context, said = asked["context"], f"{parameters} on {asked}"
        # spans of score 0 are none: the pipeline fills up with them where a context has fewer real ones than it looks for
        wanted = [a for a in as_list(theirs) if a["score"] > 0 and (context[a["start"] : a["end"]].strip() or a["end"] == 0)]
        mine = [a for a in as_list(ours) if a["score"] > 0]
        # two answers that differ by the white space around them are one here
        scores: dict[tuple[int, int], float] = {}
        for a in wanted:
            scores.setdefault(trimmed(context, a["start"], a["end"]), a["score"])
        assert [(a["start"], a["end"]) for a in mine][: len(scores)] == [*scores], said
        assert [a["score"] for a in mine][: len(scores)] == pytest.approx([*scores.values()], abs=1e-4), said
        assert len(mine) == len(scores) or len(scores) < len(wanted), said
        assert all(a["answer"] == context[a["start"] : a["end"]] for a in mine), said
        assert isinstance(ours, list) == (parameters.get("top_k", 1) > 1)
        count += len(mine)
        windows += len(context) > 500
    assert count > len(QUESTIONS) * 33
    assert windows > 10


def trimmed(context: str, start: int, end: int) -> tuple[int, int]:
    text = context[start:end]
    start += len(text) - len(text.lstrip())
    return start, start + len(text.strip())


@pytest.mark.parametrize("name", ["ranks", "ranks-roberta"])
def test_rankings_are_those_of_the_cross_encoder(name: str) -> None:
    for asked, _, ours, theirs in both(name):
        assert [o["index"] for o in ours] == [t["index"] for t in theirs], asked
        assert [o["score"] for o in ours] == pytest.approx([t["score"] for t in theirs], abs=1e-4)
        assert len({o["score"] for o in ours}) > 1


@pytest.mark.parametrize("name", ["masks", "masks-roberta"])
def test_fillings_are_those_of_the_pipeline(name: str) -> None:
    for asked, parameters, ours, theirs in both(name):
        said = f"{parameters} on {asked!r}"
        one = isinstance(theirs[0], dict)
        assert isinstance(ours[0], dict) == one, said
        for mine, wanted in zip([ours] if one else ours, [theirs] if one else theirs, strict=True):
            assert [m["token"] for m in mine] == [w["token"] for w in wanted], said
            assert [m["token_str"] for m in mine] == [w["token_str"] for w in wanted], said
            assert [m["score"] for m in mine] == pytest.approx([w["score"] for w in wanted], abs=1e-4), said
            if one:
                assert [m["sequence"] for m in mine] == [w["sequence"] for w in wanted], said
            else:  # theirs has the special tokens around it, and may lack the space before a mask
                assert [bare(m["sequence"]) for m in mine] == [bare(w["sequence"]) for w in wanted], said


@pytest.mark.parametrize("name", ["nli", "nli-two"])
def test_labels_are_those_of_the_pipeline(name: str) -> None:
    orders, spread = set(), 0.0
    for asked, parameters, ours, theirs in both(name):
        one = isinstance(theirs, dict)
        for mine, wanted in zip([ours] if one else ours, [theirs] if one else theirs, strict=True):
            assert [m["label"] for m in mine] == wanted["labels"], f"{parameters} on {asked}"
            assert [m["score"] for m in mine] == pytest.approx(wanted["scores"], abs=1e-4), f"{parameters} on {asked}"
            orders.add(tuple(wanted["labels"]))
            spread = max(spread, max(wanted["scores"]) - min(wanted["scores"]))
    assert len(orders) > 40
    assert spread > 0.1


@pytest.mark.parametrize("name", ["nli", "nli-two"])
def test_one_label_is_weighed_alone_as_the_pipeline_does_always(name: str) -> None:
    model, scores = Model.open(tiny.artifact(name).path), set()
    for asked, parameters, ours, theirs in both(name, lone):
        ((mine,), label) = ours, asked["candidate_labels"][0]
        assert (mine["label"], [mine["label"]]) == (label, theirs["labels"])
        assert [mine["score"]] == pytest.approx(theirs["scores"], abs=1e-4), asked
        more = model.predict({**asked, "candidate_labels": [label, "another"]}, {**parameters, "truncate": True}).answer
        assert {a["label"]: a["score"] for a in more}[label] == pytest.approx(mine["score"], abs=1e-5), asked
        scores.add(round(mine["score"], 3))
        # of one label that must hold there is nothing to say
        assert [a["score"] for a in model.predict(asked, {"truncate": True}).answer] == [1.0]
    assert len(scores) > 10
    assert all(0 < score < 1 for score in scores)


@pytest.mark.parametrize("name", ["pairs", "many", "scale", "score", "classes"])
def test_classes_are_those_of_the_pipeline(name: str) -> None:
    found = set()
    for asked, parameters, ours, theirs in both(name):
        for mine, wanted in zip(ours, theirs if isinstance(asked, list) else [theirs], strict=True):
            assert [m["label"] for m in mine] == [w["label"] for w in wanted], f"{parameters} on {asked}"
            assert [m["score"] for m in mine] == pytest.approx([w["score"] for w in wanted], abs=1e-4), f"{parameters} on {asked}"
            found.add(round(mine[0]["score"], 3))
    assert len(found) > 10


def bare(sequence: str) -> str:
    return re.sub(r"\s+|\[CLS\]|\[SEP\]|</?s>|##", "", sequence)

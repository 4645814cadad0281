"""What builds are proven on: hotfoot's own texts, pairs and rankings, and files of the user's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hotfoot.contract.errors import InputError
from hotfoot_build import calibrate, pairs_of_texts


def written(folder: Path, text: str, name: str = "mine.jsonl") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_questions_are_over_a_thousand_and_most_have_their_answer() -> None:
    own = calibrate.samples("questions", None)
    pairs = list(zip(own.texts, own.seconds, strict=True))
    assert len(pairs) > 1000
    assert len(set(pairs)) == len(pairs)
    assert own.groups == ()
    assert all(question.endswith("?") and "what" in question for question in own.texts)
    # what stands before the blank stands in the context too
    answered = sum(question.split("what")[0] in context for question, context in pairs)
    assert 0.85 < answered / len(pairs) < 0.92
    assert max(len(context.split()) for context in own.seconds) > 400  # past every limit
    assert max(len(question.split()) for question in own.texts) <= 12


def test_rankings_are_ten_documents_for_each_of_over_a_hundred_queries() -> None:
    own = calibrate.samples("rankings", None)
    assert set(own.groups) == {10}
    assert len(own.groups) > 100
    assert len(own.texts) == len(own.seconds) == sum(own.groups)
    for start in range(0, len(own.texts), 10):
        assert len(set(own.texts[start : start + 10])) == 1
        assert len(set(own.seconds[start : start + 10])) == 10
        query, line = own.texts[start], own.seconds[start]
        assert all(word in line for word in query.split())
    assert sum(len(document.split()) > 300 for document in own.seconds) >= 10


def test_hypotheses_are_several_on_each_of_nearly_two_hundred_texts() -> None:
    own = calibrate.samples("hypotheses", None)
    assert set(own.groups) <= {4, 5}  # one less where a text's own word is a topic, too
    assert 150 < len(own.groups) < 250
    assert len(own.texts) == len(own.seconds) == sum(own.groups)
    start = 0
    for count in own.groups:
        assert len(set(own.texts[start : start + count])) == 1
        assert len(set(own.seconds[start : start + count])) == count
        assert all(hypothesis.startswith("This example is ") for hypothesis in own.seconds[start : start + count])
        assert own.seconds[start].removeprefix("This example is ").rstrip(".") in own.texts[start]
        start += count
    assert len(own.texts[-1].split()) > 400  # past every limit


def test_masks_go_into_the_texts_once_they_are_known() -> None:
    own = calibrate.samples("masked", None)
    assert own == calibrate.samples("texts", None)
    masked = own.with_masks("<mask>")
    assert len(masked.texts) > 1000
    assert all(text.count("<mask>") == 1 for text in masked.texts)


def test_own_samples_are_the_same_every_time() -> None:
    lines = calibrate.samples("texts", None).texts[:200]
    assert pairs_of_texts.questions(lines) == pairs_of_texts.questions(lines)
    assert pairs_of_texts.rankings(lines) == pairs_of_texts.rankings(lines)
    assert pairs_of_texts.hypotheses(lines) == pairs_of_texts.hypotheses(lines)


def test_questions_of_the_users_own(tmp_path: Path) -> None:
    mine = written(tmp_path, '{"question": "Who?", "context": "Maria"}\n\n{"text": "Where?", "pair": "Paris", "id": 7}\n')
    assert calibrate.samples("questions", mine) == calibrate.Samples(("Who?", "Where?"), ("Maria", "Paris"))


def test_rankings_of_the_users_own(tmp_path: Path) -> None:
    lines = ('{"query": "a", "documents": ["x", "y", "z"]}', '{"text": "b", "pair": "x"}', '{"text": "b", "pair": "y"}')
    found = calibrate.samples("rankings", written(tmp_path, "\n".join(lines)))
    assert found == calibrate.Samples(("a", "a", "a", "b", "b"), ("x", "y", "z", "x", "y"), (3, 2))


def test_hypotheses_of_the_users_own(tmp_path: Path) -> None:
    lines = ('{"text": "a", "hypotheses": ["x", "y"]}', '{"text": "b", "pair": "x"}')
    found = calibrate.samples("hypotheses", written(tmp_path, "\n".join(lines)))
    assert found == calibrate.Samples(("a", "a", "b"), ("x", "y", "x"), (2, 1))


@pytest.mark.parametrize(
    ("corpus", "line", "said"),
    [
        ("questions", '{"question": "Who?"}', r'line 2 is not {"question": "…", "context": "…"} or {"text": "…", "pair": "…"}'),
        ("questions", '{"text": "Who?"}', "line 2 is not"),
        ("questions", '{"question": "", "context": "c"}', "line 2 is not"),
        ("questions", '"Who?"', "line 2 is not"),
        ("questions", "Who?", "line 2 is not JSON"),
        ("rankings", '{"query": "q", "documents": []}', r'line 2 is not {"query": "…", "documents": \["…"\]} or'),
        ("rankings", '{"query": "q", "documents": ["x", 5]}', "line 2 is not"),
        ("hypotheses", '{"text": "t", "hypotheses": []}', r'line 2 is not {"text": "…", "hypotheses": \["…"\]} or'),
    ],
)
def test_a_line_of_another_form_is_named(tmp_path: Path, corpus: Any, line: str, said: str) -> None:
    good = '{"text": "a", "pair": "b"}'
    with pytest.raises(InputError, match=said) as caught:
        calibrate.samples(corpus, written(tmp_path, f"{good}\n{line}\n"))
    assert caught.value.where == "--samples"


@pytest.mark.parametrize("corpus", ["questions", "rankings", "hypotheses"])
def test_pairs_need_a_file_that_can_hold_them(tmp_path: Path, corpus: Any) -> None:
    with pytest.raises(InputError, match=r"mine\.txt has no pairs of texts\. Give a \.jsonl file of"):
        calibrate.samples(corpus, written(tmp_path, "a\nb\n", "mine.txt"))
    with pytest.raises(InputError, match="there is no file"):
        calibrate.samples(corpus, tmp_path / "none.jsonl")
    with pytest.raises(InputError, match="has 1 text"):
        calibrate.samples(corpus, written(tmp_path, '{"text": "a", "pair": "b"}\n'))


@pytest.mark.parametrize(("corpus", "said"), [("rankings", "document a query"), ("hypotheses", "hypothesis a text")])
def test_an_order_takes_two(tmp_path: Path, corpus: Any, said: str) -> None:
    with pytest.raises(InputError, match=f"has one {said}; an order takes two"):
        calibrate.samples(corpus, written(tmp_path, '{"text": "a", "pair": "x"}\n{"text": "b", "pair": "x"}\n'))

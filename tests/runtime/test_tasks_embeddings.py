from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hotfoot.contract.errors import InputError
from hotfoot.model import Model
from hotfoot.task import load
from hotfoot.tasks import _vectors
from support.rigged import Rig, rigged_artifact
from support.serving import model

Floats = NDArray[np.float32]
PROMPTS = {"query": "north ", "document": "up "}
HALF = 2**-0.5


def opened(folder: Path, task: str = "feature-extraction", **rig: Any) -> Model:
    return Model.open(rigged_artifact(folder, task, Rig(**rig)), threads=1)


def vectors(of: Model, inputs: Any, **parameters: Any) -> Floats:
    return np.array(of.predict(inputs, parameters).answer, dtype=np.float32)


def wide(folder: Path) -> Model:
    return opened(folder, width=32)


def test_one_vector_a_text() -> None:
    found = model("feature-extraction").predict(["east", "up", "east north"]).answer
    assert np.array(found).tolist() == [[1, 0, 0, 0], [0, 0, 1, 0], pytest.approx([HALF, HALF, 0, 0])]


def test_a_bare_text_has_a_lists_shape() -> None:
    assert vectors(model("feature-extraction"), "east").shape == (1, 4)
    assert vectors(model("feature-extraction"), "east").tolist() == vectors(model("feature-extraction"), ["east"]).tolist()


@pytest.mark.parametrize("dimensions", [1, 8, 31])
def test_dimensions_are_cut_and_brought_to_length_one_again(tmp_path: Path, dimensions: int) -> None:
    of = wide(tmp_path)
    whole = vectors(of, ["hello world", "text"])
    head = vectors(of, ["hello world", "text"], dimensions=dimensions)
    assert head.shape == (2, dimensions)
    np.testing.assert_allclose(np.linalg.norm(head, axis=1), 1, atol=1e-6)
    cut = whole[:, :dimensions]
    np.testing.assert_allclose(head, cut / np.linalg.norm(cut, axis=1, keepdims=True), atol=1e-6)


def test_all_dimensions_are_the_vector(tmp_path: Path) -> None:
    of = wide(tmp_path)
    np.testing.assert_allclose(vectors(of, "hello", dimensions=32), vectors(of, "hello"), atol=1e-6)
    assert vectors(of, "hello", dimensions=None).tolist() == vectors(of, "hello").tolist()


def test_nothing_left_of_a_vector_is_no_nan() -> None:
    # `up` has its whole length in the third number
    assert vectors(model("feature-extraction"), "up", dimensions=2).tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"dimensions": 0}, "parameters.dimensions: is 0; it must be from 1 to 4."),
        ({"dimensions": -1}, "parameters.dimensions: is -1; it must be from 1 to 4."),
        ({"dimensions": 5}, "parameters.dimensions: is 5; it must be from 1 to 4."),
        ({"dimensions": "2"}, "parameters.dimensions: must be a whole number, not a text."),
        ({"dimensions": 2.0}, "parameters.dimensions: must be a whole number, not a number."),
        ({"dimensions": True}, "parameters.dimensions: must be a whole number, not a boolean."),
        ({"normalize": 1}, "parameters.normalize: must be a boolean, not a number."),
        ({"normalize": False}, "parameters.normalize: cannot be false: this artifact's graph ends in unit vectors."),
        ({"prompt_name": "query"}, "parameters.prompt_name: is 'query', which is no prompt of this model. This model has none."),
        ({"prompt_name": 3}, "parameters.prompt_name: must be a text, not a number."),
    ],
)
def test_wrong_parameters_are_named(parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        model("feature-extraction").predict("east", parameters)
    assert str(caught.value) == said


def test_normalize_of_a_graph_that_does_not() -> None:
    task = load("feature-extraction")
    manifest = model("feature-extraction").manifest
    plain = replace(manifest, facts={**manifest.facts, "normalize": False})
    outputs: list[Any] = [np.array([3, 0, 4, 0], np.float32), np.zeros(4, np.float32)]

    def decoded(**parameters: Any) -> list[list[float]]:
        request = task.parse(["east", "north"], parameters, plain)
        return [v.tolist() for v in task.decode(request, (), outputs, plain)]

    assert decoded() == decoded(normalize=False) == [[3, 0, 4, 0], [0, 0, 0, 0]]
    assert decoded(normalize=True) == [pytest.approx([0.6, 0, 0.8, 0]), [0, 0, 0, 0]]
    assert decoded(dimensions=1) == [[1.0], [0.0]]
    assert decoded(normalize=True, dimensions=3) == [pytest.approx([0.6, 0, 0.8]), [0, 0, 0]]


def test_normalize_true_is_fair_where_the_graph_does_it() -> None:
    assert vectors(model("feature-extraction"), "up", normalize=True).tolist() == vectors(model("feature-extraction"), "up").tolist()


@pytest.mark.parametrize("task", ["feature-extraction", "sentence-similarity"])
def test_an_unknown_prompt_lists_them(tmp_path: Path, task: str) -> None:
    of = opened(tmp_path, task, facts={"prompts": PROMPTS})
    with pytest.raises(InputError) as caught:
        of.predict(of.task.sample, {"prompt_name": "questions"})
    assert str(caught.value) == ("parameters.prompt_name: is 'questions', which is no prompt of this model. There are: document, query.")


def test_a_prompt_is_the_text_in_front(tmp_path: Path) -> None:
    of = opened(tmp_path, facts={"prompts": PROMPTS})
    assert vectors(of, "east", prompt_name="query").tolist() == vectors(of, "north east").tolist()
    assert vectors(of, ["east", "west"], prompt_name="document").tolist() == vectors(of, ["up east", "up west"]).tolist()
    assert vectors(of, "east").tolist() == [[1, 0, 0, 0]]


def test_the_default_prompt_stands_where_none_is_named(tmp_path: Path) -> None:
    of = opened(tmp_path, facts={"prompts": PROMPTS, "default_prompt": "query"})
    assert vectors(of, "east").tolist() == vectors(of, "east", prompt_name="query").tolist()
    assert vectors(of, "east").tolist() == vectors(of, "east", prompt_name=None).tolist()
    np.testing.assert_allclose(vectors(of, "east", prompt_name="document"), [[10**-0.5, 0, 3 * 10**-0.5, 0]], atol=1e-6)


def test_a_prompt_counts_towards_the_limit(tmp_path: Path) -> None:
    of = opened(tmp_path, facts={"prompts": PROMPTS}, max_tokens=4)
    assert vectors(of, "east up").shape == (1, 4)
    with pytest.raises(InputError, match=r"inputs\[0\]: the text has 5 tokens, the limit is 4"):
        of.predict(["east up"], {"prompt_name": "query"})


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        (["east", None], "inputs[1]: must be a text, not null."),
        (["east", 5], "inputs[1]: must be a text, not a number."),
        (["east", ["up"]], "inputs[1]: must be a text, not a list."),
        (["east", ""], "inputs[1]: is empty."),
        (["east", "ok\ud800bad"], "inputs[1]: has a lone surrogate at position 2, which is not text."),
        ([], "inputs: is an empty list; send at least one text."),
        (None, "inputs: must be a text or a list of texts, not null."),
        (True, "inputs: must be a text or a list of texts, not a boolean."),
        ({"text": "a"}, "inputs: must be a text or a list of texts, not an object."),
        ("", "inputs: is empty."),
    ],
)
def test_wrong_inputs_are_named(inputs: Any, said: str) -> None:
    with pytest.raises(InputError) as caught:
        model("feature-extraction").predict(inputs)
    assert str(caught.value) == said


def test_a_paired_surrogate_is_one_character() -> None:
    assert model("feature-extraction").predict("🦊").characters == 1


def test_the_order_is_that_of_the_request() -> None:
    dice = np.random.default_rng(43)
    of = model("feature-extraction")
    words = ["east", "north", "up", "west", "hello", "world", "text"]
    texts = [" ".join(dice.choice(words, int(dice.integers(1, 56)))) for _ in range(60)]
    texts += texts[:4]
    dice.shuffle(texts)
    together = vectors(of, texts)
    assert together.shape == (64, 4)
    for text, row in zip(texts, together, strict=True):
        assert row.tolist() == vectors(of, text)[0].tolist()


# --- similarity


def similarity(source: str, *sentences: str, of: Model | None = None, **parameters: Any) -> list[float]:
    found = (of or model("sentence-similarity")).predict({"source_sentence": source, "sentences": list(sentences)}, parameters).answer
    assert all(type(x) is float for x in found)
    return list(found)


def test_similarity_is_the_cosine() -> None:
    found = similarity("east", "east", "north", "west", "east north", "east north up")
    assert found == pytest.approx([1, 0, -1, HALF, 11**-0.5], abs=1e-6)
    assert all(-1 <= x <= 1 for x in found)


def test_similarity_keeps_the_order_of_the_sentences() -> None:
    sentences = ["up " * (i % 7 + 1) + "east " * (i % 5) for i in range(40)]
    together = similarity("east", *sentences)
    assert together == [similarity("east", s)[0] for s in sentences]


def test_similarity_has_prompts_too(tmp_path: Path) -> None:
    of = opened(tmp_path, "sentence-similarity", facts={"prompts": PROMPTS})
    assert similarity("east", "west", of=of, prompt_name="query") == pytest.approx([0.0], abs=1e-6)
    assert similarity("east", "west", of=of) == pytest.approx([-1.0], abs=1e-6)


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ("east", "inputs: must be an object with source_sentence and sentences, not a text."),
        (["east"], "inputs: must be an object with source_sentence and sentences, not a list."),
        ({"sentences": ["a"]}, "inputs.source_sentence: must be a text, not null."),
        ({"source_sentence": "a"}, "inputs.sentences: must be a list of at least one text."),
        ({"source_sentence": "a", "sentences": []}, "inputs.sentences: must be a list of at least one text."),
        ({"source_sentence": "a", "sentences": "b"}, "inputs.sentences: must be a list of at least one text."),
        ({"source_sentence": "a", "sentences": ["b", "c", 3]}, "inputs.sentences[2]: must be a text, not a number."),
        ({"source_sentence": "a", "sentences": ["b", "c", ""]}, "inputs.sentences[2]: is empty."),
        ({"source_sentence": "", "sentences": ["b"]}, "inputs.source_sentence: is empty."),
        ({"source_sentence": "a", "sentences": ["b"], "k": 1}, "inputs.k: is not known here; there are source_sentence and sentences."),
    ],
)
def test_wrong_similarity_inputs_are_named(inputs: Any, said: str) -> None:
    with pytest.raises(InputError) as caught:
        model("sentence-similarity").predict(inputs)
    assert str(caught.value) == said


def test_a_sentence_that_is_too_long_is_named() -> None:
    with pytest.raises(InputError, match=r"inputs\.sentences\[2\]: the text has 82 tokens, the limit is 64"):
        similarity("east", "up", "north", "west " * 80)
    assert similarity("east", "up", "north", "west " * 80, truncate=True)[2] == pytest.approx(-1, abs=1e-6)


# --- parity


def test_parity_is_the_cosine_of_each_text() -> None:
    ours: list[Any] = [np.array(v, np.float32) for v in ([1, 0], [1, 0], [3, 4])]
    reference: list[Any] = [np.array(v, np.float32) for v in ([2, 0], [0, 1], [3, 4])]
    found = _vectors.parity(ours, reference, model("feature-extraction").manifest)
    assert found["cosine_mean"] == pytest.approx(2 / 3)
    assert found["cosine_min"] == pytest.approx(0.0)
    assert found["cosine_min"] <= found["cosine_p1"] <= found["cosine_mean"]


def test_parity_sees_pairs_that_change_places() -> None:
    rng = np.random.default_rng(0)
    reference: list[Any] = list(rng.normal(size=(60, 8)).astype(np.float32))
    about = model("feature-extraction").manifest
    assert _vectors.parity(reference, reference, about)["pair_spearman"] == pytest.approx(1.0)
    turned: list[Any] = [np.roll(v, 1) for v in reference]  # another direction each, and every pair as it was
    found = _vectors.parity(turned, reference, about)
    assert found["cosine_mean"] < 0.5
    assert found["pair_spearman"] == pytest.approx(1.0)
    shuffled = _vectors.parity(reference[::-1], reference, about)
    assert abs(shuffled["pair_spearman"]) < 0.2


def test_vectors_may_come_packed() -> None:
    plain, packed = (model("feature-extraction").predict(["north", "hello"], {"encoding_format": f}).answer for f in ("float", "base64"))
    assert [np.frombuffer(base64.b64decode(v), "<f4").tolist() for v in packed] == [v.tolist() for v in plain]


@pytest.mark.parametrize(("strategy", "cut"), [("longest_first", True), ("only_first", True), ("do_not_truncate", False)])
def test_a_strategy_of_transformers_says_whether_to_cut(strategy: str, cut: bool) -> None:
    long = "north " * 100
    if cut:
        wanted = model("feature-extraction").predict(long, {"truncate": True}).answer
        assert np.array_equal(model("feature-extraction").predict(long, {"truncation": strategy}).answer, wanted)
        return
    with pytest.raises(InputError, match="the limit is 64"):
        model("feature-extraction").predict(long, {"truncation": strategy})


def test_another_strategy_is_refused() -> None:
    with pytest.raises(InputError, match="must be one of do_not_truncate, longest_first, only_first") as refused:
        model("feature-extraction").predict("north", {"truncation": "only_second"})
    assert refused.value.where == "parameters.truncation"

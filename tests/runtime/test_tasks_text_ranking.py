"""Text ranking: the order of documents, whose scores the test chooses word by word."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hotfoot.contract.errors import InputError, UnsupportedError
from hotfoot.model import Model
from hotfoot.task import Array
from hotfoot.tasks import text_ranking
from support.serving import client, model, opened

TASK = text_ranking.TASK
MANIFEST = model("text-ranking").manifest
# with a query of one word at 0, the mean over both words: 18, 19, 20 and -7.2
TEXTS = ["stage", "orchestra", "guitar", "market"]
LOGITS = {0: 18.0, 1: 19.0, 2: 20.0, 3: -7.2}


def rank(texts: list[str], query: str = "query", **parameters: Any) -> Any:
    return model("text-ranking").predict({"query": query, "texts": texts}, parameters).answer


def sigmoid(logit: float) -> float:
    return float(1 / (1 + np.exp(-np.float64(logit))))


# --- order


def test_scores_that_saturate_keep_the_order() -> None:
    found = rank(TEXTS)
    assert [f["index"] for f in found] == [2, 1, 0, 3]
    scores = [f["score"] for f in found]
    assert scores == sorted(set(scores), reverse=True)
    assert scores == pytest.approx([sigmoid(LOGITS[i]) for i in (2, 1, 0, 3)], abs=1e-9)
    raw = rank(TEXTS, function_to_apply="none")
    assert {f["index"]: f["score"] for f in raw} == pytest.approx(LOGITS)
    assert [f["index"] for f in raw] == [2, 1, 0, 3]


def test_past_what_a_float_tells_apart_the_logits_decide(tmp_path: Path) -> None:
    high = opened(tmp_path, "text-ranking", words={"query": (0.0,), "guitar": (200.0,), "drum": (210.0,), "piano": (205.0,)})
    found = high.predict({"query": "query", "texts": ["guitar", "drum", "piano"]}).answer
    assert [(f["index"], f["score"]) for f in found] == [(1, 1.0), (2, 1.0), (0, 1.0)]


def test_equal_ones_stay_in_order() -> None:
    assert [f["index"] for f in rank(["market", "guitar", "market", "guitar"])] == [1, 3, 0, 2]


def test_top_n_and_the_texts_themselves() -> None:
    assert rank(TEXTS, top_n=1, return_documents=True) == [{"index": 2, "score": pytest.approx(sigmoid(20.0)), "text": "guitar"}]
    assert len(rank(TEXTS, top_n=99)) == 4
    assert "text" not in rank(TEXTS)[0]


def test_a_list_with_the_query_as_parameter_gets_a_score_each() -> None:
    found = model("text-ranking").predict(TEXTS, {"query": "query", "function_to_apply": "none"}).answer
    assert found == pytest.approx([LOGITS[i] for i in range(4)])
    assert model("text-ranking").predict("guitar", {"query": "query", "function_to_apply": "none"}).answer == [pytest.approx(20.0)]


def test_neighbours_do_not_matter() -> None:
    alone = {text: rank([text])[0]["score"] for text in TEXTS}
    assert {TEXTS[f["index"] % 4]: f["score"] for f in rank(TEXTS * 40)} == alone


# --- what is cut


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A model of 64 tokens."""
    return opened(tmp_path_factory.mktemp("short"), "text-ranking")


@pytest.mark.parametrize("words", [20, 40, 60])
def test_only_the_document_is_cut(short: Model, words: int) -> None:
    query, document = "query " * words, "guitar " * 5000
    request = TASK.parse({"query": query, "texts": [document, "stage"]}, {"truncate": True}, short.manifest)
    long, brief = TASK.encode(request, short.tokenizer)
    room = 64 - 3 - words
    assert len(long.ids) == 64
    assert long.ids[1 : 1 + words].tolist() == brief.ids[1 : 1 + words].tolist()
    assert long.ids[-1] == brief.ids[-1] == 3
    cut = short.predict({"query": query, "texts": ["guitar " * room]}, {"function_to_apply": "none"}).answer
    assert short.predict({"query": query, "texts": [document]}, {"truncate": True, "function_to_apply": "none"}).answer == cut
    assert cut[0]["score"] == pytest.approx(40 * room / (words + room), rel=1e-5)


def test_the_side_of_the_cut_is_the_clients_choice(short: Model) -> None:
    document = "guitar " * 100 + "stage " * 100
    for side, logit in (("right", 40 * 60 / 61), ("left", 36 * 60 / 61)):
        given = {"truncate": True, "truncation_direction": side, "function_to_apply": "none"}
        assert short.predict({"query": "query", "texts": [document]}, given).answer[0]["score"] == pytest.approx(logit, rel=1e-5)


def test_what_is_too_long_is_named(short: Model) -> None:
    with pytest.raises(InputError) as caught:
        short.predict({"query": "query", "texts": ["stage", "guitar " * 61]})
    assert caught.value.where == "inputs.texts[1]"
    assert "the pair has 65 tokens, the limit is 64" in str(caught.value)
    for cut in (True, False):
        with pytest.raises(InputError, match="has 61 tokens; beside the 3 special ones they leave no room") as caught:
            short.predict({"query": "query " * 61, "texts": ["stage"]}, {"truncate": cut})
        assert caught.value.where == "inputs.query"


# --- requests


@pytest.mark.parametrize(
    ("inputs", "where", "said"),
    [
        ({"texts": ["a"]}, "inputs.query", "must be a text, not null."),
        ({"query": "q"}, "inputs.texts", "must be a list of at least one text"),
        ({"query": "q", "texts": []}, "inputs.texts", "must be a list of at least one text"),
        ({"query": "q", "documents": "a"}, "inputs.documents", "must be a list of at least one text"),
        ({"query": "q", "texts": ["a"], "documents": ["b"]}, "inputs.texts", "documents is another name of it"),
        ({"query": "q", "documents": ["a", ""]}, "inputs.documents[1]", "is empty."),
        ({"query": "q", "texts": ["a", 5]}, "inputs.texts[1]", "must be a text, not a number."),
        ({"query": "q", "texts": ["a"], "top_n": 1}, "inputs.top_n", "is not known here; there are query, texts, documents."),
        (["a"], "inputs", "must be an object with query and texts, or texts with parameters.query, not a list."),
    ],
)
def test_what_is_wrong_is_named(inputs: Any, where: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        model("text-ranking").predict(inputs)
    assert caught.value.where == where
    assert said in str(caught.value)


def test_a_query_is_given_once() -> None:
    with pytest.raises(InputError, match=r"parameters\.query: is given twice, here and in inputs"):
        model("text-ranking").predict({"query": "q", "texts": ["a"]}, {"query": "p"})
    with pytest.raises(InputError, match=r"parameters\.top_n: is 0; it must be at least 1"):
        rank(["a"], top_n=0)


# --- Text Embeddings Inference's route


def test_rerank_answers_as_text_embeddings_inference_does() -> None:
    http = client("text-ranking")
    assert http.post("/rerank", json={"query": "query", "texts": TEXTS}).json() == rank(TEXTS)
    raw = http.post("/rerank", json={"query": "query", "texts": TEXTS, "raw_scores": True, "return_text": True}).json()
    assert [(r["index"], r["text"]) for r in raw] == [(i, TEXTS[i]) for i in (2, 1, 0, 3)]
    assert {r["index"]: r["score"] for r in raw} == pytest.approx(LOGITS)
    long = {"query": "query", "texts": ["guitar " * 100], "truncate": True, "truncation_direction": "Left"}
    assert http.post("/rerank", json=long).status_code == 200


def test_there_a_score_is_between_0_and_1_unless_it_is_raw(tmp_path: Path) -> None:
    http = client(opened(tmp_path, "text-ranking", facts={"function_to_apply": "none"}))
    assert http.post("/rerank", json={"query": "query", "texts": ["market"]}).json()[0]["score"] == pytest.approx(sigmoid(-7.2))
    asked = {"inputs": {"query": "query", "texts": ["market"]}}
    assert http.post("/", json=asked).json()[0]["score"] == pytest.approx(-7.2)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"texts": ["a"]}, "query: is missing."),
        ({"query": "q", "texts": ["a", ""]}, "texts[1]: is empty."),
        ({"query": "q", "texts": "a"}, "texts: must be a list of at least one text"),
        ({"query": "q", "texts": ["a"], "raw_scores": "yes"}, "raw_scores: must be a boolean, not a text."),
        ({"query": "q", "texts": ["a"], "return_text": 1}, "return_text: must be a boolean, not a number."),
        ({"query": "q", "texts": ["a"], "top_n": 1}, "top_n: is not known here. There are: query, texts, truncate"),
        ({"query": "q", "texts": ["guitar " * 90]}, "texts[0]: the pair has 94 tokens, the limit is 64"),
    ],
)
def test_rerank_names_what_is_wrong_as_it_was_sent(body: dict[str, Any], said: str) -> None:
    answer = client("text-ranking").post("/rerank", json=body)
    assert answer.status_code == 422
    found = answer.json()["error"].removeprefix("parameters.")
    assert found.startswith(said), found


def test_no_other_artifact_reranks() -> None:
    assert client("text-classification").post("/rerank", json={"query": "q", "texts": ["a"]}).status_code == 404


# --- building it


@pytest.mark.parametrize(
    ("config", "card", "function"),
    [
        ({}, {}, "sigmoid"),
        ({"problem_type": "regression"}, {}, "sigmoid"),
        ({"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"}, {}, "none"),
        ({"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity", "version": "4.1.0"}}, {}, "none"),
        ({"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Sigmoid"}}, {}, "sigmoid"),
        ({}, {"activation_fn": "torch.nn.modules.linear.Identity"}, "none"),
    ],
)
def test_the_models_own_function_makes_the_scores(config: dict[str, Any], card: dict[str, Any], function: str) -> None:
    known = {"labels": ("LABEL_0",), "config": config, "sentence_transformers": card}
    assert TASK.facts(known) == {"function_to_apply": function}


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({"labels": ("a", "b")}, "the model has 2 labels; a ranking takes one score."),
        ({"config": {"sbert_ce_default_activation_function": "torch.nn.Tanh"}}, "the model's activation function is torch.nn.Tanh"),
        ({"modules": ["st.Transformer", "st.LogitScore"]}, "modules.json lists Transformer, LogitScore; a cross-encoder here is one"),
        ({"sentence_transformers": {"default_prompt_name": "web"}}, "the model puts its prompt 'web' before the texts"),
    ],
)
def test_what_a_ranking_could_not_honour_is_refused(known: dict[str, Any], said: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        TASK.facts({"labels": ("LABEL_0",), "config": {}, "sentence_transformers": {}, **known})
    assert str(caught.value).startswith(said)


def column(*logits: float) -> Array:
    return np.array([logits], np.float32).T


def test_parity_compares_orders_query_by_query() -> None:
    reference = [column(3, 2, 1), column(0, 1), column(5)]
    same = TASK.parity(reference, reference, MANIFEST)
    assert same == dict.fromkeys(same, pytest.approx(1.0))
    found = TASK.parity([column(2, 3, 1), column(0, 1), column(5)], reference, MANIFEST)
    # gains 1, 0.5, 0 at discounts 1, 0.63, 0.5; one pair of three the other way round; the single document has no order
    gain = 1 / np.log2(3)
    assert found["ndcg"] == pytest.approx(((0.5 + gain) / (1 + 0.5 * gain) + 1) / 2)
    assert found["kendall"] == pytest.approx((1 / 3 + 1) / 2)
    assert found["top1"] == 0.5
    drift = sigmoid(3) - sigmoid(2)
    assert found["score_mean"] == pytest.approx(1 - 2 * drift / 6)


def test_equal_scores_have_no_order_to_lose() -> None:
    found = TASK.parity([column(1, 2)], [column(7, 7)], MANIFEST)
    assert (found["ndcg"], found["kendall"], found["top1"]) == (1.0, 1.0, 1.0)


def test_raw_scores_drift_on_their_own_scale() -> None:
    raw = replace(MANIFEST, facts={"function_to_apply": "none"})
    one, ten = (TASK.parity([k * column(1.1, 2, 3)], [k * column(1, 2, 3)], raw)["score_mean"] for k in (1, 10))
    assert one == pytest.approx(ten)
    assert one == pytest.approx(1 - 0.1 / 3 / np.std([1, 2, 3]), abs=1e-5)

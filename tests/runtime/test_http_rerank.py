"""Jina's and Cohere's rerank, by the order that the logits have."""

from __future__ import annotations

from typing import Any

import pytest

from support.serving import client

DOCUMENTS = ["market", "guitar", "orchestra", "stage"]


def ask(path: str, **body: Any) -> Any:
    return client("text-ranking").post(path, json={"query": "query", "documents": DOCUMENTS, **body})


@pytest.mark.parametrize("path", ["/v1/rerank", "/v2/rerank"])
def test_best_first_although_scores_saturate(path: str) -> None:
    results = ask(path).json()["results"]
    # the mean of the query's 0 and the document's logit: 20, 19, 18 and -7.2
    assert [r["index"] for r in results] == [1, 2, 3, 0]
    scores = [r["relevance_score"] for r in results]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == 4
    assert [r["index"] for r in ask(path, top_n=2).json()["results"]] == [1, 2]


def test_jina_gives_the_documents_back_and_counts_tokens() -> None:
    document = ask("/v1/rerank", model="rigged/tiny").json()
    assert document["results"][0]["document"] == {"text": "guitar"}
    assert document["model"] == "rigged/tiny"
    assert document["usage"]["total_tokens"] == 4 * 5
    assert "document" not in ask("/v1/rerank", return_documents=False).json()["results"][0]


def test_documents_may_be_objects_of_a_text() -> None:
    plain = ask("/v2/rerank").json()
    assert ask("/v2/rerank", documents=[{"text": d} for d in DOCUMENTS]).json() == plain
    assert set(plain["results"][0]) == {"index", "relevance_score"}


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/v1/rerank", {"documents": []}, "documents: must be a list of at least one text"),
        ("/v1/rerank", {"documents": ["a", 5]}, "documents[1]: must be a text"),
        ("/v1/rerank", {"documents": ["a", {"title": "b"}]}, "documents[1]: must be a text, or an object with text"),
        ("/v1/rerank", {"documents": "a"}, "documents: must be a list"),
        ("/v1/rerank", {"query": ""}, "query: is empty"),
        ("/v1/rerank", {"top_n": 0}, "top_n: is 0"),
        ("/v1/rerank", {"rank_fields": ["a"]}, "rank_fields: is not known here"),
        ("/v2/rerank", {"return_documents": True}, "return_documents: is not known here"),
        ("/v2/rerank", {"max_tokens_per_doc": 10}, "max_tokens_per_doc: is 10; documents are cut where"),
        ("/v2/rerank", {"documents": ["hello " * 100]}, "documents[0]: the pair has 104 tokens, the limit is 64"),
    ],
)
def test_what_is_wrong_is_named_as_it_was_sent(path: str, body: dict[str, Any], said: str) -> None:
    answer = ask(path, **body)
    assert answer.status_code == 422
    assert answer.json()["error"].startswith(said), answer.text
    assert set(answer.json()) == {"error", "error_type"}


def test_a_long_document_is_cut_when_asked() -> None:
    long, cut = "hello " * 100, "hello " * 60
    answer = ask("/v2/rerank", documents=[long, "guitar"], truncate=True)
    assert answer.json()["results"] == ask("/v2/rerank", documents=[cut, "guitar"]).json()["results"]
    assert ask("/v2/rerank", max_tokens_per_doc=4096).status_code == 200

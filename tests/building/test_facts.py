"""What a model's files say is read as its own libraries read it, and nothing is guessed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hotfoot.contract.errors import UnsupportedError
from hotfoot_build import facts


def folder(root: Path, **files: Any) -> Path:
    """A model folder; `a__b` names a/b.json."""
    for name, content in files.items():
        path = root / (name.replace("__", "/") + ".json")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content), encoding="utf-8")
    return root


def modules(*kinds: str) -> list[dict[str, Any]]:
    return [{"idx": i, "name": str(i), "path": f"{i}_{k}", "type": f"sentence_transformers.models.{k}"} for i, k in enumerate(kinds)]


@pytest.mark.parametrize(
    ("config", "files", "limit"),
    [
        ({"max_position_embeddings": 512}, {}, 512),
        ({"max_position_embeddings": 514, "model_type": "roberta", "pad_token_id": 1}, {}, 512),
        ({"max_position_embeddings": 514, "model_type": "mpnet", "pad_token_id": 1}, {}, 512),
        ({"max_position_embeddings": 512}, {"tokenizer_config": {"model_max_length": 1e30}}, 512),
        ({"max_position_embeddings": 512}, {"tokenizer_config": {"model_max_length": 64}}, 64),
        ({"max_position_embeddings": 514, "model_type": "xlm-roberta"}, {}, 512),  # its padding index is 1 where none is written
        (
            {"max_position_embeddings": 512},
            {"sentence_xlm-roberta_config": {"max_seq_length": 100}, "modules": modules("Transformer", "Pooling")},
            100,
        ),
        ({"model_type": "t5"}, {"tokenizer_config": {"model_max_length": 512}}, 512),
        # sentence-transformers' own limit counts only in a folder of its modules
        ({"max_position_embeddings": 512}, {"sentence_bert_config": {"max_seq_length": 16}}, 512),
        (
            {"max_position_embeddings": 34, "model_type": "roberta", "pad_token_id": 1},
            {
                "sentence_bert_config": {"max_seq_length": 16},
                "tokenizer_config": {"model_max_length": 64},
                "modules": modules("Transformer", "Pooling"),
            },
            16,
        ),
    ],
)
def test_the_limit_is_the_least_of_all(config: dict[str, Any], files: dict[str, Any], limit: int, tmp_path: Path) -> None:
    assert facts.max_tokens(folder(tmp_path, **files), config, None) == limit


def test_a_model_without_a_limit_wants_to_be_told(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="--max-tokens"):
        facts.max_tokens(folder(tmp_path, tokenizer_config={"model_max_length": 1e30}), {}, None)
    assert facts.max_tokens(tmp_path, {}, 77) == 77


def test_prompts_are_kept_empty_ones_too(tmp_path: Path) -> None:
    card = {"prompts": {"query": "query: ", "document": ""}, "default_prompt_name": "document"}
    made = folder(tmp_path, modules=modules("Transformer", "Pooling"), config_sentence_transformers=card)
    folder(made, **{"1_Pooling__config": {"pooling_mode_cls_token": True}})
    assert facts.embedding(made, None) == {
        "pooling": "cls",
        "normalize": False,
        "prompts": {"query": "query: ", "document": ""},
        "default_prompt": "document",
    }


def test_a_default_prompt_that_is_none_of_the_prompts_is_refused(tmp_path: Path) -> None:
    card = {"prompts": {"query": "query: "}, "default_prompt_name": "passage"}
    made = folder(tmp_path, modules=modules("Transformer", "Pooling"), config_sentence_transformers=card)
    folder(made, **{"1_Pooling__config": {"pooling_mode_mean_tokens": True}})
    with pytest.raises(UnsupportedError, match="default prompt is 'passage'"):
        facts.embedding(made, None)


@pytest.mark.parametrize(
    ("config", "wrong"),
    [
        ({"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}, "mean_tokens, max_tokens"),
        ({"pooling_mode_weightedmean_tokens": True}, "weightedmean_tokens"),
        ({}, "nothing"),
        ({"pooling_mode_mean_tokens": True, "include_prompt": False}, "include_prompt"),
    ],
)
def test_a_pooling_that_would_come_out_otherwise_is_refused(config: dict[str, Any], wrong: str, tmp_path: Path) -> None:
    made = folder(tmp_path, modules=modules("Transformer", "Pooling"))
    folder(made, **{"1_Pooling__config": config})
    with pytest.raises(UnsupportedError, match=wrong):
        facts.embedding(made, None)


def test_labels_are_in_numeric_order() -> None:
    names = {str(i): f"class {i}" for i in range(12)}
    shuffled = {key: names[key] for key in sorted(names)}
    assert list(shuffled)[:3] == ["0", "1", "10"]
    assert facts.labels({"id2label": shuffled}) == tuple(f"class {i}" for i in range(12))


def test_labels_with_a_hole_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="none for 1"):
        facts.labels({"id2label": {"0": "a", "2": "b"}})


def test_a_lower_casing_before_the_tokenizer_is_refused(tmp_path: Path) -> None:
    made = folder(tmp_path, modules=modules("Transformer", "Pooling"), sentence_bert_config={"max_seq_length": 16, "do_lower_case": True})
    with pytest.raises(UnsupportedError, match="do_lower_case"):
        facts.max_tokens(made, {"max_position_embeddings": 512}, None)


def test_token_vectors_of_a_pooling_model(tmp_path: Path) -> None:
    made = folder(tmp_path, modules=modules("Transformer", "Pooling", "Normalize"))
    folder(made, **{"1_Pooling__config": {"pooling_mode_mean_tokens": True}})
    assert facts.embedding(made, "none")["pooling"] == "none"
    with pytest.raises(UnsupportedError, match="goes against"):
        facts.embedding(made, "cls")

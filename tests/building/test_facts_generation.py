"""What a model's files say of `generate`, and how far back its attention reaches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hotfoot import task
from hotfoot.contract.errors import UnsupportedError
from hotfoot_build import calibrate, facts


def write(folder: Path, config: dict[str, Any], generation: dict[str, Any] | None = None) -> Path:
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": 128, **config}))
    if generation is not None:
        (folder / "generation_config.json").write_text(json.dumps(generation))
    return folder


def read(folder: Path, name: str = "summarization") -> Any:
    return facts.read(folder, task.load(name), None, None).generation


def test_a_file_of_its_own_counts_before_config_json(tmp_path: Path) -> None:
    config = {"max_length": 20, "num_beams": 4, "eos_token_id": 2, "decoder_start_token_id": 0}
    older = read(write(tmp_path, config))
    assert (older["max_length"], older["num_beams"], older["eos_token_id"]) == (20, 4, 2)
    newer = read(write(tmp_path, config, {"max_length": 142, "eos_token_id": [2, 3]}))
    assert (newer["max_length"], newer["eos_token_id"]) == (142, [2, 3])
    assert "num_beams" not in newer
    assert newer["decoder_start_token_id"] == 0  # tokens are those of the model wherever they stand
    assert newer["target_positions"] == 128


def test_settings_for_the_task_come_last(tmp_path: Path) -> None:
    specific = {"summarization": {"max_length": 200, "prefix": "summarize: "}, "translation_en_to_de": {"prefix": "translate: "}}
    folder = write(tmp_path, {"task_specific_params": specific}, {"max_length": 20})
    assert (read(folder)["max_length"], read(folder)["prefix"]) == (200, "summarize: ")
    assert "prefix" not in read(folder, "translation")


@pytest.mark.parametrize("name", sorted(facts.UNKNOWN_SETTINGS))
def test_a_setting_that_would_be_left_out_is_refused(name: str, tmp_path: Path) -> None:
    folder = write(tmp_path, {}, {name: facts.UNKNOWN_SETTINGS[name]})
    assert read(folder) is not None
    with pytest.raises(UnsupportedError, match=f"have {name} 7, which hotfoot cannot honour"):
        read(write(tmp_path, {}, {name: 7}))


def test_tasks_that_make_no_text_have_no_settings_for_it(tmp_path: Path) -> None:
    assert read(write(tmp_path, {}, {"max_length": 7}), "text-classification") is None


def test_the_window_is_one_that_is_less_than_the_limit() -> None:
    assert facts.window({"sliding_window": 8}, 128) == 8
    assert facts.window({"sliding_window": 128}, 128) is None
    assert facts.window({"sliding_window": None}, 128) is None
    assert facts.window({"sliding_window": 8, "use_sliding_window": False}, 128) is None


def test_a_text_past_the_window_is_long_enough() -> None:
    samples = calibrate.Samples(("a", "b"))
    longer = samples.past(500)
    assert longer.texts[:2] == samples.texts
    assert len(longer.texts) == 3
    assert len(longer.texts[2].split()) > 500  # a word is a token at least

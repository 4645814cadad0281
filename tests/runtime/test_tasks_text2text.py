"""Summaries and translations through the opened model and over HTTP, by an encoder-decoder whose answers are set by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import InferenceClient

from hotfoot.contract.errors import InputError, UnsupportedError
from hotfoot.decoder import Decoder
from hotfoot.model import Model
from hotfoot.task import Encoded
from hotfoot.tasks import _text2text, summarization, translation
from support.rigged_text import LIMIT, Script, opened
from support.serving import client

TEXT = "Short 😀."
KEYS = {"summarization": "summary_text", "translation": "translation_text"}


@pytest.fixture(scope="module", params=sorted(KEYS))
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    return opened(tmp_path_factory.mktemp("pair") / "artifact", Script(TEXT), request.param)


def answers(model: Model, inputs: Any, **parameters: Any) -> list[str]:
    found = model.predict(inputs, parameters).answer
    assert [list(a) for a in found] == [[KEYS[model.task.name]]] * len(found)
    return [next(iter(a.values())) for a in found]


def test_a_text_gives_a_text_of_its_own(model: Model) -> None:
    assert answers(model, "a long one") == [TEXT]
    assert answers(model, ["a long one", "b"]) == [TEXT, TEXT]
    assert answers(model, "a", max_new_tokens=5, stop=["t"]) == ["Shor"]
    # what `generate` takes may stand in an object of its own, as today's client sends it
    assert answers(model, "a", generate_parameters={"max_new_tokens": 5}) == ["Short"]


@pytest.mark.parametrize(
    ("parameters", "where", "message"),
    [
        ({"generate_parameters": 5}, "parameters.generate_parameters", "must be an object, not a number."),
        ({"generate_parameters": {"beams": 4}}, "parameters.generate_parameters", "must be parameters of `generate`, and 'beams' is none."),
        ({"seed": 1, "generate_parameters": {"seed": 1}}, "parameters.seed", "is given twice"),
        ({"return_full_text": True}, "parameters.return_full_text", "is not a parameter of this task."),
        ({"max_new_tokens": LIMIT}, "parameters.max_new_tokens", "is 64; it must be from 1 to 63."),
    ],
)
def test_a_wrong_parameter_is_named(model: Model, parameters: dict[str, Any], where: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        model.predict("a", parameters)
    assert caught.value.where == where
    assert message in caught.value.message


def test_a_text_past_the_limit_is_refused_or_cut(model: Model) -> None:
    with pytest.raises(InputError, match="inputs: the text has 65 tokens, the limit is 64"):
        model.predict("x" * (LIMIT + 1), {})
    assert answers(model, "x" * (LIMIT + 1), truncation=True) == [TEXT]


def test_the_encoder_runs_once_a_text_and_the_decoder_starts_with_its_own_token(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    fed: list[list[int]] = []
    begin, feed = Decoder.begin, Decoder.feed

    def watched_begin(self: Decoder, inputs: Encoded) -> Any:
        begun.append(len(inputs.ids))
        return begin(self, inputs)

    def watched_feed(self: Decoder, state: Any, ids: Any) -> Any:
        fed.append(list(ids))
        assert state.cache["cross.0.key"].numpy().shape == (1, 1, begun[-1], 1)
        return feed(self, state, ids)

    monkeypatch.setattr(Decoder, "begin", watched_begin)
    monkeypatch.setattr(Decoder, "feed", watched_feed)
    answers(model, ["aaaa", "bb"], max_new_tokens=2)
    assert begun == [4, 2]
    assert fed[0] == fed[2] == list(model.manifest.facts["start"])
    assert [len(ids) for ids in fed] == [1, 1, 1, 1]


def test_the_models_own_settings_hold(tmp_path: Path) -> None:
    own = {"max_new_tokens": 6, "min_new_tokens": 5, "forced_bos_token_id": 40, "forced_eos_token_id": 256}
    model = opened(tmp_path / "artifact", Script("ab", own, facts={"target_tokens": 9}), "summarization")
    (found,) = answers(model, "a")
    first = model.tokenizer.decode([40], skip_special_tokens=True)
    assert found.startswith(first)
    assert len(found) == 5  # and the sixth is the token that ends
    with pytest.raises(InputError, match="it must be from 1 to 8"):
        model.predict("a", {"max_new_tokens": 9})


def test_what_the_model_expects_before_a_text_goes_there(tmp_path: Path) -> None:
    model = opened(tmp_path / "artifact", Script(TEXT, facts={"prefix": "summarize: "}), "summarization")
    request = model.task.parse("abc", {}, model.manifest)
    (encoded,) = model.task.encode(request, model.tokenizer)
    assert model.tokenizer.decode(encoded.ids.tolist(), skip_special_tokens=True) == "summarize: abc"
    assert request.texts == ("abc",)


def test_pairs_of_languages_are_chosen_by_their_words(tmp_path: Path) -> None:
    pairs = {"en_to_de": "translate English to German: ", "en_to_fr": "translate English to French: "}
    model = opened(tmp_path / "artifact", Script(TEXT, facts={"pairs": pairs}), "translation")

    def words(**parameters: str) -> str:
        (encoded,) = model.task.encode(model.task.parse("abc", parameters, model.manifest), model.tokenizer)
        return model.tokenizer.decode(encoded.ids.tolist(), skip_special_tokens=True)

    assert words() == "translate English to German: abc"
    assert words(src_lang="en", tgt_lang="fr") == "translate English to French: abc"
    with pytest.raises(InputError, match=r"tgt_lang: cannot be 'it' from 'en'\. This model has: en to de, en to fr\."):
        words(src_lang="en", tgt_lang="it")
    with pytest.raises(InputError, match="tgt_lang"):
        words(src_lang="en")


def test_a_model_of_one_pair_takes_no_languages(tmp_path: Path) -> None:
    model = opened(tmp_path / "artifact", Script(TEXT), "translation")
    with pytest.raises(InputError, match=r"parameters\.src_lang: has no effect: this model has one pair of languages"):
        model.predict("abc", {"src_lang": "en", "tgt_lang": "de"})


def test_todays_client_gets_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for task in KEYS:
        http, hub = client(opened(tmp_path / task, Script(TEXT), task)), InferenceClient(model="http://testserver")

        def post(request: Any, http: Any = http, **_rest: Any) -> bytes:
            answer = http.post("/", json=request.json)
            assert answer.status_code == 200, answer.text
            return bytes(answer.content)

        monkeypatch.setattr(hub, "_inner_post", post)
        if task == "summarization":
            assert hub.summarization("abc", generate_parameters={"max_new_tokens": 5}).summary_text == "Short"
        else:
            assert hub.translation("abc").translation_text == TEXT


def said(**generation: Any) -> dict[str, Any]:
    return {"config": {}, "generation": {"decoder_start_token_id": 0, "target_positions": None, **generation}}


def test_facts_count_new_tokens_as_hotfoot_does() -> None:
    found = _text2text.facts(said(max_length=142, min_length=56, eos_token_id=2, forced_bos_token_id=0, num_beams=4, prefix="summarize: "))
    assert found == {
        "generation": {"max_new_tokens": 141, "min_new_tokens": 55, "eos_token_id": [2], "forced_bos_token_id": 0},
        "start": [0],
        "prefix": "summarize: ",
        "target_tokens": 512,
    }
    assert _text2text.facts(said(target_positions=128))["target_tokens"] == 128
    assert _text2text.facts(said(max_new_tokens=9, max_length=20))["generation"]["max_new_tokens"] == 9
    assert _text2text.facts(said(eos_token_id=[1, 2]))["generation"]["eos_token_id"] == [1, 2]
    assert summarization.TASK.facts is _text2text.facts


def test_a_model_without_a_token_to_start_with_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="decoder_start_token_id"):
        _text2text.facts(said(decoder_start_token_id=None))


def test_pairs_come_from_the_models_settings_for_tasks() -> None:
    specific = {"translation_en_to_de": {"prefix": "translate English to German: "}, "summarization": {"prefix": "summarize: "}}
    known = {**said(), "config": {"model_type": "t5", "task_specific_params": specific}}
    assert translation.facts(known)["pairs"] == {"en_to_de": "translate English to German: "}
    assert translation.facts(said())["pairs"] == {}


@pytest.mark.parametrize("kind", translation.BY_TOKEN)
def test_a_model_that_is_told_languages_by_tokens_is_refused(kind: str) -> None:
    with pytest.raises(UnsupportedError, match=f"{kind} models are told"):
        translation.facts({**said(), "config": {"model_type": kind}})

"""Text generation through the opened model and over HTTP, by a decoder whose answers are set by hand."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from huggingface_hub import InferenceClient
from starlette.testclient import TestClient

from hotfoot import batching
from hotfoot.batching import Deadline
from hotfoot.bulk.answers import prepare
from hotfoot.contract.bulk import BulkOptions
from hotfoot.contract.errors import ArtifactError, InputError, OutOfTimeError, TooLargeError
from hotfoot.decoder import Decoder
from hotfoot.model import Model
from support import serving
from support.bulk import lines, run
from support.rigged_text import LIMIT, Script, opened
from support.serving import client

TEXT = "I saw 😀 END> and\n\nmore"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return opened(tmp_path_factory.mktemp("text") / "artifact", Script(TEXT))


@pytest.fixture(scope="module")
def http(model: Model) -> TestClient:
    return client(model)


def text(model: Model, prompt: str = "?", **parameters: Any) -> str:
    answer = model.predict(prompt, parameters).answer
    assert isinstance(answer, list)
    assert [set(a) for a in answer] == [{"generated_text"}]
    return str(answer[0]["generated_text"])


def test_it_goes_on_from_the_prompt_to_the_end(model: Model) -> None:
    assert text(model) == TEXT
    assert text(model, return_full_text=True) == "?" + TEXT
    assert text(model, "??") == TEXT[1:]


def test_the_most_tokens_end_it_and_no_character_is_half(model: Model) -> None:
    before = len("I saw ")
    for most, wanted in ((1, "I"), (before, "I saw "), (before + 1, "I saw "), (before + 3, "I saw "), (before + 4, "I saw 😀")):
        assert text(model, max_new_tokens=most) == wanted


@pytest.mark.parametrize(
    ("stop", "wanted"),
    [
        (["\n\n", "END>"], "I saw 😀 "),
        (["\n\n"], "I saw 😀 END> and"),
        ("END>", "I saw 😀 "),
        (["END>>"], TEXT),  # begins, and does not come
        (["I"], ""),
        ([], TEXT),
    ],
)
def test_stop_texts_are_no_part_of_it(model: Model, stop: Any, wanted: str) -> None:
    assert text(model, stop=stop) == wanted


def test_a_stop_text_that_is_cut_off_is_delivered(model: Model) -> None:
    assert text(model, stop=["END>"], max_new_tokens=len("I saw 😀 EN".encode())) == "I saw 😀 EN"


def test_no_end_before_the_least(tmp_path: Path) -> None:
    short = opened(tmp_path / "artifact", Script("ab"))
    assert text(short, max_new_tokens=6) == "ab"
    assert len(text(short, max_new_tokens=6, min_new_tokens=4)) == 4


def test_lists_in_lists_out(model: Model) -> None:
    found = model.predict(["?", "??", "???"], {"max_new_tokens": 3}).answer
    assert found == [{"generated_text": TEXT[n : n + 3]} for n in range(3)]


def test_sampling_is_asked_for_and_a_seed_repeats_it(model: Model) -> None:
    draws = {text(model, max_new_tokens=8, temperature=50.0, seed=seed) for seed in range(5)}
    assert len(draws) == 5
    assert text(model, max_new_tokens=8, temperature=50.0, seed=3) in draws
    assert text(model, max_new_tokens=8, do_sample=True, top_k=1) == "I saw "
    assert text(model, max_new_tokens=6, do_sample=True, temperature=0.01) == "I saw "


def test_the_models_own_settings_hold_where_the_request_says_nothing(tmp_path: Path) -> None:
    own = opened(tmp_path / "artifact", Script(TEXT, {"max_new_tokens": 5, "temperature": 0.01, "repetition_penalty": 1.0}))
    assert text(own) == "I saw"
    assert text(own, max_new_tokens=6) == "I saw "
    assert text(own, do_sample=True) == "I saw"


def test_the_model_may_end_with_several_tokens_and_ban_some(tmp_path: Path) -> None:
    plain = opened(tmp_path / "plain", Script("one two"))
    encoded = plain.tokenizer.encode([" "], truncate=None)
    space = int(encoded[0].ids[0])
    ends = opened(tmp_path / "ends", Script("one two", {"eos_token_id": [space, 256]}))
    assert text(ends) == "one"
    bans = opened(tmp_path / "bans", Script("one two", {"bad_words_ids": [[space]]}))
    assert " " not in text(bans)
    assert text(bans).startswith("one")


BAD = [
    ({"max_new_tokens": 0}, "parameters.max_new_tokens", "is 0; it must be from 1 to 63."),
    ({"max_new_tokens": 64}, "parameters.max_new_tokens", "is 64; it must be from 1 to 63."),
    ({"max_new_tokens": "9"}, "parameters.max_new_tokens", "must be a whole number, not a text."),
    ({"max_new_tokens": 3, "min_new_tokens": 4}, "parameters.min_new_tokens", "it must be from 0 to max_new_tokens, which is 3."),
    ({"temperature": 0.0, "do_sample": True}, "parameters.temperature", "is 0.0; it must be above 0"),
    ({"temperature": True}, "parameters.temperature", "must be a number, not a boolean."),
    ({"temperature": 0.5, "do_sample": False}, "parameters.temperature", "has no effect without sampling."),
    ({"seed": 1, "do_sample": False}, "parameters.seed", "has no effect without sampling."),
    ({"top_p": 1.5}, "parameters.top_p", "is 1.5; it must be above 0 and at most 1."),
    ({"top_k": -1}, "parameters.top_k", "is -1; it must be 0 (off) or more."),
    ({"seed": -1}, "parameters.seed", "is -1; it must be from 0 to 2^64 - 1."),
    ({"repetition_penalty": 0}, "parameters.repetition_penalty", "is 0; it must be above 0"),
    ({"no_repeat_ngram_size": -1}, "parameters.no_repeat_ngram_size", "is -1; it must be 0 or more."),
    ({"stop": ""}, "parameters.stop[0]", "must be a text of at least one character."),
    ({"stop": ["a", 5]}, "parameters.stop[1]", "must be a text of at least one character."),
    ({"stop": ["a"] * 17}, "parameters.stop", "has 17 texts; 16 at most."),
    ({"stop": 5}, "parameters.stop", "must be a list, not a number."),
    ({"stream": True}, "parameters.stream", "is not possible here; the answer comes as a whole."),
    ({"beams": 4}, "parameters.beams", "is not a parameter of this task."),
]


@pytest.mark.parametrize(("parameters", "where", "message"), BAD)
def test_a_wrong_parameter_is_named(model: Model, http: TestClient, parameters: dict[str, Any], where: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        model.predict("?", parameters)
    assert caught.value.where == where
    assert message in caught.value.message
    answer = http.post("/", json={"inputs": "?", "parameters": parameters})
    assert answer.status_code == 422
    assert where in answer.json()["error"]


@pytest.mark.parametrize("inputs", [None, 5, [], [""], ["a", 5], {"text": "a"}, "ok\ud800"])
def test_a_wrong_prompt_is_named(model: Model, inputs: Any) -> None:
    with pytest.raises(InputError) as caught:
        model.predict(inputs, {})
    assert caught.value.where.startswith("inputs")


def test_prompt_and_answer_share_the_context(model: Model) -> None:
    fits = "x" * (LIMIT - 3)
    assert len(text(model, fits, max_new_tokens=3)) <= 3
    with pytest.raises(InputError, match=f"inputs: the prompt has {LIMIT - 3} tokens and 4 new ones are to come; the model holds 64"):
        text(model, fits, max_new_tokens=4)
    # without a number, as many as there is room for
    assert text(model, "x" * (LIMIT - 1)) == ""
    with pytest.raises(InputError, match=r"inputs: the prompt has 64 tokens and 1 new ones are to come"):
        text(model, "x" * LIMIT)
    with pytest.raises(InputError, match=r"inputs\[1\]"):
        model.predict(["x", "x" * LIMIT], {})


def test_a_long_prompt_is_cut_where_that_is_asked_for(model: Model) -> None:
    long = "ab" * LIMIT
    for side in ("left", "right"):
        request = model.task.parse(long, {"truncation": True, "truncation_direction": side, "max_new_tokens": 4}, model.manifest)
        (encoded,) = model.task.encode(request, model.tokenizer)
        assert len(encoded.ids) == LIMIT - 4
    request = model.task.parse("a" * LIMIT + "b", {"truncation": True, "truncation_direction": "left", "max_new_tokens": 4}, model.manifest)
    (encoded,) = model.task.encode(request, model.tokenizer)
    assert encoded.ids[-1] == model.tokenizer.encode(["b"], truncate=None)[0].ids[0]


def test_a_prompt_longer_than_a_run_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hotfoot.decoder.CHUNK", 7)
    script = "".join(chr(ord("a") + n % 26) for n in range(50))
    long = opened(tmp_path / "artifact", Script(script))
    for size in (1, 6, 7, 8, 14, 30):
        assert text(long, "x" * size, max_new_tokens=5) == script[size - 1 : size + 4]


def test_a_state_can_be_gone_on_from_twice(model: Model) -> None:
    decoder = model.session
    assert isinstance(decoder, Decoder)
    (one,) = model.tokenizer.encode(["?"], truncate=None)
    _, state = decoder.feed(decoder.begin(one), one.ids)
    first, _ = decoder.feed(state, [70])
    again, after = decoder.feed(state, [71])
    assert first.argmax() == again.argmax()
    assert (state.tokens, after.tokens) == (1, 2)
    assert after.cache["past.0.key"].numpy().ravel().tolist() == [one.ids[0], 71]
    with pytest.raises(InputError, match="70 tokens are more than the 64 that the model can hold"):
        decoder.feed(state, [70] * 69)


class Clock:
    def __init__(self, left: float) -> None:
        self.now, self.left = 0.0, left

    def remaining(self) -> float:
        return self.left - self.now

    def monotonic(self) -> float:
        return self.now


def test_the_time_that_is_left_is_looked_at_before_every_token(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, fed = Clock(30.0), []
    monkeypatch.setattr(batching, "time", SimpleNamespace(monotonic=clock.monotonic))
    inner = Decoder.feed

    def feed(self: Decoder, state: Any, ids: Any) -> Any:
        clock.now += 4.0
        fed.append(len(ids))
        return inner(self, state, ids)

    monkeypatch.setattr(Decoder, "feed", feed)
    request = model.task.parse(["?", "??"], {"max_new_tokens": 4}, model.manifest)
    with pytest.raises(OutOfTimeError, match=r"1 of its 2 inputs .* are done and 6\.0 s are left"):
        model.answer(request, deadline=Deadline(clock.remaining))
    assert fed == [1, 1, 1, 1, 2, 1]
    clock.now, clock.left = 0.0, 60.0
    assert len(model.answer(request, deadline=Deadline(clock.remaining)).answer) == 2


def test_more_tokens_than_a_request_may_have_are_refused(model: Model) -> None:
    request = model.task.parse(["?" * 5, "?" * 5], {}, model.manifest)
    with pytest.raises(TooLargeError):
        model.answer(request, most_tokens=9)


def test_every_route_of_the_hugging_face_dialect(http: TestClient) -> None:
    wanted = [{"generated_text": "I saw"}]
    body = {"inputs": "?", "parameters": {"max_new_tokens": 5}}
    for path in ("/", "/models/rigged/text", "/pipeline/text-generation", "/models/rigged/text/pipeline/text-generation"):
        answer = http.post(path, json=body)
        assert (answer.status_code, answer.json()) == (200, wanted), path
        assert answer.headers["x-compute-tokens"] == "1"
    assert http.post("/", json=body).json() == http.post("/", json={**body, "options": {"use_cache": False}}).json()


def test_todays_client_gets_its_text(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    hub, http = InferenceClient(model="http://testserver"), client(model)

    def post(request: Any, **_rest: Any) -> bytes:
        answer = http.post("/", json=request.json)
        assert answer.status_code == 200, answer.text
        return answer.content

    monkeypatch.setattr(hub, "_inner_post", post)
    assert hub.text_generation("?", max_new_tokens=5) == "I saw"
    assert hub.text_generation("?", stop=["END>"], return_full_text=True) == "?I saw 😀 "
    assert hub.text_generation("?", max_new_tokens=5, do_sample=False, seed=None) == "I saw"


def test_bulk_answers_each_line(model: Model) -> None:
    work = prepare(model, BulkOptions(parameters={"max_new_tokens": 5}))
    _, found = run(b"?\n" + b"x" * 80 + b"\n??\n", work=work)
    first, second, third = lines(found)
    assert first["prediction"] == {"generated_text": "I saw"}
    assert second["error"]["kind"] == "input"
    assert third["prediction"] == {"generated_text": " saw "}


def test_warming_up_makes_two_tokens(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    fed: list[int] = []
    inner = Decoder.feed

    def feed(self: Decoder, state: Any, ids: Any) -> Any:
        fed.append(len(ids))
        return inner(self, state, ids)

    monkeypatch.setattr(Decoder, "feed", feed)
    model.warm_up()
    assert fed == [len(model.tokenizer.encode([str(model.sample)], truncate=None)[0].ids), 1]


def test_an_artifact_without_a_decoder_makes_no_text() -> None:
    encoder = serving.model("text-classification")
    request = encoder.task.parse("good", {}, encoder.manifest)
    with pytest.raises(ArtifactError, match="makes no text"):
        encoder.generate(request, (), lambda _done: None)

"""Fill-mask: rankings out of logits that the test chooses, and the texts that they make."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from huggingface_hub import InferenceClient
from tokenizers import AddedToken
from tokenizers import Tokenizer as RustTokenizer

from hotfoot.contract.errors import InputError, UnsupportedError
from hotfoot.contract.manifest import Manifest
from hotfoot.task import Array
from hotfoot.tasks import _tokens as tokens
from hotfoot.tasks import fill_mask
from hotfoot.tokenizer import Tokenizer
from support.serving import client, model, opened, served
from support.tokenizers_made import made

TASK = fill_mask.TASK
MANIFEST = model("fill-mask").manifest


def fill(inputs: Any, **parameters: Any) -> Any:
    return model("fill-mask").predict(inputs, parameters).answer


def roberta() -> tuple[RustTokenizer, Manifest]:
    """A byte-level tokenizer whose mask eats the space before it."""
    rust = made("byte-level")
    rust.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    return rust, replace(MANIFEST, facts={"mask_token": "<mask>", "mask_id": rust.token_to_id("<mask>"), "tidies": False})


def filled(rust: RustTokenizer, about: Manifest, text: str, logits: Mapping[str, float], **parameters: Any) -> Any:
    """The answer when each mask gives these tokens these logits, all others 0."""
    request = TASK.parse(text, parameters, about)
    (encoded,) = TASK.encode(request, Tokenizer(rust, 64))
    assert encoded.reads is not None
    row = np.zeros(rust.get_vocab_size(), np.float32)
    for token, logit in logits.items():
        row[rust.token_to_id(token)] = logit
    return TASK.decode(request, (encoded,), [np.stack([row] * len(encoded.reads))], about)


# --- one mask


def test_one_mask_is_one_ranking() -> None:
    found = fill("a [MASK] on stage.", top_k=3)
    assert [f["token_str"] for f in found] == ["guitar", "piano", "drum"]
    assert [f["sequence"] for f in found] == [f"a {f['token_str']} on stage." for f in found]
    total = sum(map(np.exp, (5.0, 4.0, 3.0, 2.0))) + model("fill-mask").tokenizer._rust.get_vocab_size() - 4
    assert [f["score"] for f in found] == pytest.approx([np.exp(x) / total for x in (5.0, 4.0, 3.0)])
    assert [f["token"] for f in found] == [5, 6, 7]


def test_five_are_the_default_and_the_vocabulary_the_most() -> None:
    assert len(fill("a [MASK]")) == 5
    every = fill("a [MASK]", top_k=10**6)
    assert len(every) == model("fill-mask").tokenizer._rust.get_vocab_size()
    assert sum(f["score"] for f in every) == pytest.approx(1.0)
    scores = [f["score"] for f in every]
    assert scores == sorted(scores, reverse=True)
    # equal ones by id
    assert [f["token"] for f in every[4:]] == sorted(f["token"] for f in every[4:])


def test_targets_are_the_only_candidates_and_keep_their_scores() -> None:
    free = {f["token_str"]: f["score"] for f in fill("a [MASK]")}
    found = fill("a [MASK]", targets=["drum", "piano", "piano"])
    assert [(f["token_str"], f["score"]) for f in found] == [("piano", free["piano"]), ("drum", free["drum"])]
    assert [f["token_str"] for f in fill("a [MASK]", targets="drum")] == ["drum"]
    assert [f["token_str"] for f in fill("a [MASK]", targets=["drum", "piano"], top_k=1)] == ["piano"]


def test_a_target_that_is_no_token_stands_for_its_first() -> None:
    # "xylo" is x ##y ##l ##o
    assert [f["token_str"] for f in fill("a [MASK]", targets=["xylo", "drum"])] == ["drum", "x"]


# --- zero and several masks


def test_several_masks_have_a_ranking_each_and_the_others_stay() -> None:
    found = fill("a [MASK] and a [MASK].", top_k=2)
    assert [[f["sequence"] for f in ranking] for ranking in found] == [
        ["a guitar and a [MASK].", "a piano and a [MASK]."],
        ["a [MASK] and a guitar.", "a [MASK] and a piano."],
    ]
    assert all("[CLS]" not in f["sequence"] and "[SEP]" not in f["sequence"] for ranking in found for f in ranking)


def test_lists_mix_both() -> None:
    one, two = "a [MASK].", "[MASK] [MASK]"
    assert fill([one, two, one]) == [fill(one), fill(two), fill(one)]
    assert fill([one]) == [fill(one)]


@pytest.mark.parametrize("text", ["It is nice.", "It is <mask>.", "it is [mask]", "[ MASK ]"])
def test_a_text_without_the_models_mask_is_refused(text: str) -> None:
    with pytest.raises(InputError) as caught:
        fill(["a [MASK]", text])
    assert str(caught.value) == "inputs[1]: has no mask; this model's is [MASK]."
    rust, about = roberta()
    with pytest.raises(InputError, match=r"inputs: has no mask; this model's is <mask>\."):
        filled(rust, about, "It is [MASK].", {})


def test_the_space_before_a_mask_stays() -> None:
    rust, about = roberta()
    assert rust.encode("in <mask>").ids[1:-1] == [rust.token_to_id("in"), rust.token_to_id("<mask>")]
    first, second = filled(rust, about, "in <mask> and <mask>", {"Ġthe": 9.0}, top_k=1)
    assert [first[0]["sequence"], second[0]["sequence"]] == ["in the and <mask>", "in <mask> and the"]
    first, second = filled(rust, about, "in<mask><mask>.", {"s": 9.0}, top_k=1)
    assert [first[0]["sequence"], second[0]["sequence"]] == ["ins<mask>.", "in<mask>s."]
    alone = filled(rust, about, "in <mask>.", {"Ġthe": 9.0, "s": 8.0}, top_k=2)
    assert [(a["token_str"], a["sequence"]) for a in alone] == [(" the", "in the."), ("s", "ins.")]


def test_special_tokens_that_were_sent_stay_where_masks_do() -> None:
    found = fill("[SEP] [MASK] [MASK]", top_k=1)
    assert [ranking[0]["sequence"] for ranking in found] == ["[SEP] guitar [MASK]", "[SEP] [MASK] guitar"]


def test_spaces_are_tidied_where_the_models_tokenizer_does_so() -> None:
    rust = made("wordpiece")
    rust.decoder = None  # tokens with a space between them
    about = replace(MANIFEST, facts={**MANIFEST.facts, "tidies": True})
    asked = "[MASK] paris , the man ' s guitar ."
    found = filled(rust, about, asked, {"in": 9.0}, top_k=1)
    assert found[0]["sequence"] == "in paris, the man's guitar."
    plain = filled(rust, replace(MANIFEST, facts={**about.facts, "tidies": False}), asked, {"in": 9.0}, top_k=1)
    assert plain[0]["sequence"] == "in paris , the man ' s guitar ."


def test_a_mask_that_was_cut_off_is_named() -> None:
    long = "hello " * 90 + "[MASK]"
    with pytest.raises(InputError, match=r"inputs\[1\]: has its mask behind the limit of 64 tokens, where it was cut"):
        fill(["[MASK]", long], truncation=True)
    assert fill(long, truncation=True, truncation_direction="left")[0]["token_str"] == "guitar"
    with pytest.raises(InputError, match="the text has 93 tokens, the limit is 64"):
        fill(long)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"top_k": 0}, "parameters.top_k: is 0; it must be at least 1."),
        ({"targets": []}, "parameters.targets: is an empty list; name at least one token."),
        ({"targets": 5}, "parameters.targets: must be a text or a list of texts, not a number."),
        ({"targets": ["a", 5]}, "parameters.targets[1]: must be a text, not a number."),
        ({"targets": ["drum", " "]}, "parameters.targets[1]: has no tokens."),
    ],
)
def test_wrong_parameters_are_named(parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        fill("a [MASK]", **parameters)
    assert str(caught.value) == said


# --- serving it


def test_the_official_client_is_satisfied() -> None:
    with served("fill-mask") as url:
        hub = InferenceClient(model=url)
        found = hub.fill_mask("a [MASK] on stage.", top_k=2)
        assert [(f.token_str, f.sequence) for f in found] == [("guitar", "a guitar on stage."), ("piano", "a piano on stage.")]
        assert [f.token_str for f in hub.fill_mask("a [MASK]", targets=["drum"])] == ["drum"]


def test_over_http_a_text_without_a_mask_is_422() -> None:
    http = client("fill-mask")
    refused = http.post("/", json={"inputs": ["a [MASK]", "nice"]})
    assert (refused.status_code, refused.json()["error"]) == (422, "inputs[1]: has no mask; this model's is [MASK].")
    assert http.post("/pipeline/fill-mask", json={"inputs": "a [MASK]", "parameters": {"top_k": 1}}).json()[0]["token_str"] == "guitar"


def test_only_the_masks_rows_leave_the_session() -> None:
    own = model("fill-mask")
    request = TASK.parse(["[MASK] hello [MASK]", "hello [MASK]"], {}, own.manifest)
    encoded = TASK.encode(request, own.tokenizer)
    whole = own.session.run([replace(e, reads=None) for e in encoded])
    for e, rows, every in zip(encoded, own.session.run(encoded), whole, strict=True):
        assert e.reads is not None
        assert np.array_equal(rows, every[e.reads])
        assert rows.base is None  # or the batch's output would live as long as one of its rows


# --- building it


def test_facts_name_the_mask() -> None:
    known = {"special": {"mask_token": "[MASK]"}, "tokenizer": json.loads(made("wordpiece").to_str()), "tidies": True}
    assert TASK.facts(known) == {"mask_token": "[MASK]", "mask_id": 4, "tidies": True}
    for special in ({}, {"mask_token": "<none>"}):
        with pytest.raises(UnsupportedError, match="has no mask token"):
            TASK.facts({**known, "special": special})


def test_ids_are_found_in_every_kind_of_tokenizer() -> None:
    for kind, token in (("wordpiece", "[MASK]"), ("wordpiece", "paris"), ("byte-level", "<mask>"), ("unigram", "▁Paris"), ("bare", "man")):
        rust = made(kind)
        assert tokens.id_of(json.loads(rust.to_str()), token) == rust.token_to_id(token), (kind, token)
    assert tokens.id_of({"model": {}}, "x") is None
    assert tokens.id_of(json.loads(made("bare").to_str()), None) is None


def test_a_text_gets_its_mask_by_rule() -> None:
    text = "The quick brown fox, jumps over the lazy dog!"
    found = tokens.masked(text, "[MASK]")
    assert found == tokens.masked(text, "[MASK]")
    assert found.count("[MASK]") == 1
    assert len(found.split()) == 9
    places = {tokens.masked(f"{text} {i}", "[MASK]").index("[MASK]") for i in range(200)}
    assert places == {f"{text} 1".index(word) for word in ("The", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog", "1")}
    assert tokens.masked("a [MASK] b", "[MASK]") == "a [MASK] b"
    assert tokens.masked("...", "[MASK]") == "... [MASK]"
    assert tokens.masked("word " * 9999, "[MASK]").index("[MASK]") < 24 * 5


def probed(ids: list[int], rows: Any) -> Array:
    return fill_mask.probe(np.array(ids), np.array(rows, np.float32))


@pytest.mark.parametrize("width", [3, 10, 64, 65, 1000])
def test_the_probe_keeps_the_best(width: int) -> None:
    rows = np.random.default_rng(width).normal(size=(70, width)).astype(np.float32)
    found = fill_mask.probe(np.arange(70), rows)
    kept = min(10, width)
    assert found.shape == (70, 1 + 2 * kept)
    assert found[:, 0].tolist() == list(range(70))
    assert np.array_equal(found[:, 1 : 1 + kept], np.argsort(-rows, axis=1)[:, :kept])
    shares = np.exp(rows.astype(np.float64)) / np.exp(rows.astype(np.float64)).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found[:, 1 + kept :], -np.sort(-shares, axis=1)[:, :kept], rtol=1e-5)


def test_parity_compares_the_masks_alone() -> None:
    # six tokens; 4 is the mask, and what is said of token 1 does not count
    one = probed([1, 4, 4], [[9, 0, 0, 0, 0, 0], [0, 9, 0, 0, 0, 0], [9, 8, 7, 6, 5, -9]])
    two = probed([1, 4, 4], [[0, 9, 0, 0, 0, 0], [0, 9, 0, 0, 0, 0], [8, 9, 7, 6, -9, 5]])
    same = TASK.parity([one], [one], MANIFEST)
    assert same == dict.fromkeys(same, pytest.approx(1.0))
    found = TASK.parity([two], [one], MANIFEST)
    assert found["top1"] == 0.5
    assert found["top5_overlap"] == pytest.approx((5 + 4) / 10)
    share = np.exp([9.0, 8.0, 7.0, 6.0, 5.0])
    drift = (share[0] - share[1]) / (share.sum() + np.exp(-9.0))
    assert found["score_mean"] == pytest.approx(1 - drift / 2, abs=1e-5)
    assert set(TASK.parity([one[:1]], [one[:1]], MANIFEST).values()) == {0.0}


def test_the_sample_has_the_models_own_mask(tmp_path: Any) -> None:
    assert "[MASK]" in model("fill-mask").sample
    about = {**MANIFEST.facts, "mask_token": "hello", "mask_id": 9}
    assert "hello" in opened(tmp_path, "fill-mask", facts=about).sample

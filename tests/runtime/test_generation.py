"""The rules for the next token and text out of tokens, over a decoder that is a table: next-token scores by the current token."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from tokenizers import Tokenizer

from hotfoot.generation import BROKEN, Rules, Start, Text, choose, tokens, write
from hotfoot.task import Array
from hotfoot.tasks import _generating
from support import tokenizers_made

WORDS = 12


def table(successors: Sequence[int]) -> Callable[[Sequence[int]], Array]:
    """A decoder that finds each token's successor the likeliest, and the one after that next."""

    def feed(ids: Sequence[int]) -> Array:
        logits = np.zeros(WORDS, np.float32)
        following = successors[ids[-1]]
        logits[following], logits[(following + 1) % WORDS] = 5.0, 3.0
        return logits

    return feed


RING = table([(i + 1) % WORDS for i in range(WORDS)])
SAME = table(list(range(WORDS)))


def test_greedy_takes_the_likeliest_and_feeds_each_token_once() -> None:
    fed: list[list[int]] = []

    def feed(ids: Sequence[int]) -> Array:
        fed.append(list(ids))
        return RING(ids)

    assert list(tokens(feed, [1, 2], Rules(most=4))) == [3, 4, 5, 6]
    assert fed == [[1, 2], [3], [4], [5]]  # nothing follows the last, so it is not fed


def test_an_ending_token_is_the_last_one() -> None:
    assert list(tokens(RING, [1], Rules(most=9, ends=(4, 7)))) == [2, 3, 4]


def test_no_ending_token_comes_before_the_least() -> None:
    # 4 is due first, and its neighbour comes in its place
    assert list(tokens(RING, [1], Rules(most=9, least=3, ends=(4,)))) == [2, 3, 5, 6, 7, 8, 9, 10, 11]


def test_a_penalty_weighs_on_tokens_of_the_prompt_too() -> None:
    logits = np.array([2.0, -1.0, 1.9], np.float32)
    assert choose(logits, [0, 1], 0, Rules(most=1), None) == 0
    assert choose(logits, [0, 1], 0, Rules(most=1, repetition_penalty=1.2), None) == 2
    # of a score below zero it makes a lower one
    below = np.array([-1.0, -1.1], np.float32)
    assert choose(below, [0], 0, Rules(most=1, repetition_penalty=1.2), None) == 1


def test_no_run_of_tokens_comes_twice() -> None:
    assert list(tokens(SAME, [5], Rules(most=4))) == [5, 5, 5, 5]
    made = [5, *tokens(SAME, [5], Rules(most=8, unrepeated=2))]
    pairs = Counter(itertools.pairwise(made))
    assert max(pairs.values()) == 1
    assert list(tokens(SAME, [5], Rules(most=3, unrepeated=1))) == [6, 7, 8]


def test_banned_runs_and_tokens_do_not_come() -> None:
    assert list(tokens(RING, [1], Rules(most=3, banned=((3,),)))) == [2, 4, 5]
    assert list(tokens(RING, [1], Rules(most=3, banned=((2, 3),)))) == [2, 4, 5]
    assert list(tokens(RING, [2], Rules(most=2, banned=((2, 3),)))) == [4, 5]
    assert list(tokens(RING, [1], Rules(most=2, never=(2,)))) == [3, 4]
    assert list(tokens(RING, [1], Rules(most=2, never_first=(2, 4)))) == [3, 4]


def test_first_and_last_are_forced() -> None:
    assert list(tokens(RING, [1], Rules(most=4, first=9))) == [9, 10, 11, 0]
    assert list(tokens(RING, [1], Rules(most=3, last=0, ends=(0,)))) == [2, 3, 0]
    assert list(tokens(RING, [10], Rules(most=5, last=0, ends=(0,)))) == [11, 0]


def draw(rules: Rules, logits: Array, times: int = 4000) -> Counter[int]:
    generator = np.random.default_rng(0)
    return Counter(choose(logits, [0], 0, rules, generator) for _ in range(times))


def test_sampling_draws_by_the_softmax_at_the_temperature() -> None:
    logits = np.log(np.array([0.5, 0.3, 0.15, 0.05], np.float32))
    for temperature in (1.0, 0.5, 2.0):
        wanted = np.array([0.5, 0.3, 0.15, 0.05]) ** (1 / temperature)
        found = draw(Rules(most=1, sample=True, temperature=temperature), logits)
        np.testing.assert_allclose([found[i] / 4000 for i in range(4)], wanted / wanted.sum(), atol=0.03)


def test_top_k_and_top_p_leave_the_likeliest() -> None:
    logits = np.log(np.array([0.5, 0.3, 0.15, 0.05], np.float32))
    assert set(draw(Rules(most=1, sample=True, top_k=2), logits)) == {0, 1}
    assert set(draw(Rules(most=1, sample=True, top_p=0.79), logits)) == {0, 1}
    assert set(draw(Rules(most=1, sample=True, top_p=0.81), logits)) == {0, 1, 2}
    assert set(draw(Rules(most=1, sample=True, top_p=0.01), logits)) == {0}
    # top_p is of what top_k left: 0.5 of 0.8
    assert set(draw(Rules(most=1, sample=True, top_k=2, top_p=0.6), logits)) == {0}


def test_a_seed_gives_the_same_answer_again() -> None:
    def answer(seed: int | None) -> list[int]:
        return list(tokens(RING, [1], Rules(most=30, sample=True, temperature=4.0, seed=seed)))

    assert answer(7) == answer(7)
    assert answer(7) != answer(8)
    assert answer(None) != answer(None)


@pytest.fixture(scope="module")
def byte_level() -> Tokenizer:
    return tokenizers_made.byte_level(trim_offsets=True)


def spelled(tokenizer: Tokenizer) -> Callable[[Sequence[int]], str]:
    return lambda ids: str(tokenizer.decode(list(ids), skip_special_tokens=True))


TEXTS = ("I saw 😀👨\u200d👩\u200d👧 there", "日本語のテキスト", "café naïve über", "a\n\nb  c", "plain words")


@pytest.mark.parametrize("text", TEXTS)
def test_characters_come_whole(text: str, byte_level: Tokenizer) -> None:
    ids = byte_level.encode(text, add_special_tokens=False).ids
    made = Text(spelled(byte_level))
    parts = [made.add(token) for token in ids] + [made.finish()]
    assert "".join(parts) == made.text == text
    assert not any(BROKEN in part for part in parts)


def test_a_character_that_stays_incomplete_is_left_out(byte_level: Tokenizer) -> None:
    ids = byte_level.encode("ok 😀", add_special_tokens=False).ids
    assert spelled(byte_level)(ids[:-1]).endswith(BROKEN)
    made = Text(spelled(byte_level))
    parts = [made.add(token) for token in ids[:-1]] + [made.finish()]
    assert "".join(parts) == made.text == "ok "


def test_a_text_that_goes_on_keeps_its_first_space() -> None:
    tokenizer = tokenizers_made.unigram()
    ids = tokenizer.encode("Paris in", add_special_tokens=False).ids
    alone, further = Text(spelled(tokenizer)), Text(spelled(tokenizer), context=ids[:1])
    assert alone.add(ids[1]) == "in"
    assert further.add(ids[1]) == " in"


@pytest.mark.parametrize("text", ["one END> two", "one END two", "one\n\ntwo", "one EN", "END>", "a END>END>"])
def test_stop_texts_end_it_wherever_tokens_begin(text: str, byte_level: Tokenizer) -> None:
    stops = ("\n\n", "END>")
    wanted = min((text.split(stop, maxsplit=1)[0] for stop in stops), key=len)
    whole = byte_level.encode(text, add_special_tokens=False).ids
    chars = [int(byte_level.token_to_id({" ": "Ġ", "\n": "Ċ"}.get(c, c)) or 0) for c in text]
    for ids in (whole, chars):
        made = Text(spelled(byte_level), stops)
        out = ""
        for token in ids:
            out += made.add(token)
            assert not any(stop in out for stop in stops)
            assert wanted.startswith(out)  # what may become a stop text is held back
            if made.stopped:
                break
        assert out + made.finish() == made.text == wanted
        assert made.stopped == any(stop in text for stop in stops)


def test_the_earliest_stop_text_counts() -> None:
    names = "abcdefghijkl"
    answer = write(RING, Start([0], continues=False), Rules(most=8), lambda ids: "".join(names[i] for i in ids), ["fg", "de"])
    assert (answer.text, answer.ending, answer.ids) == ("bc", "stop", (1, 2, 3, 4))


def test_an_answer_says_why_it_ended() -> None:
    names = "abcdefghijkl"

    def spell(ids: Sequence[int]) -> str:
        return "".join(names[i] for i in ids)

    assert write(RING, Start([0], continues=True), Rules(most=3), spell, []).ending == "length"
    ended = write(RING, Start([0], continues=True), Rules(most=9, ends=(3,)), spell, [])
    assert (ended.text, ended.ending, ended.ids) == ("bc", "end", (1, 2, 3))  # the token that ends is no part of the text


def test_any_order_of_pieces_gives_the_text_of_all(byte_level: Tokenizer) -> None:
    chosen, size = np.random.default_rng(0), byte_level.get_vocab_size()
    for _ in range(200):
        ids = chosen.integers(5, size, 12).tolist()
        made = Text(spelled(byte_level))
        out = "".join(made.add(token) for token in ids) + made.finish()
        assert out == spelled(byte_level)(ids).rstrip(BROKEN)


def test_agreement_is_counted_over_tokens() -> None:
    ids = np.array([3, 1, 2, 0])
    logits = np.log(np.array([[0.1, 0.6, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1], [0.25] * 4], np.float32))
    kept = _generating.probe(ids, logits)
    np.testing.assert_allclose(kept, [[1, np.log(0.6)], [3, np.log(0.3)], [0, np.log(0.7)]], rtol=1e-5)
    same = _generating.parity([kept], [kept], None)
    assert same == {"argmax_agreement": 1.0, "perplexity_ratio": 1.0}
    worse = kept.copy()
    worse[0] = [2, np.log(0.3)]
    found = _generating.parity([worse, kept[:0]], [kept, kept[:0]], None)
    assert found["argmax_agreement"] == pytest.approx(2 / 3)
    assert found["perplexity_ratio"] == pytest.approx(0.5 ** (1 / 3))
    assert _generating.parity([kept], [worse], None)["perplexity_ratio"] == 1.0  # better than the original is no better than equal

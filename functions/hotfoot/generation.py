"""One token after another: the rules for the next token, the loop over a decoder with a cache, and text out of tokens.

The rules and their order are those of transformers' `generate`, so that a greedy answer is the same token for token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hotfoot.task import Array

Ending = Literal["end", "stop", "length"]
BROKEN = "\ufffd"  # what bytes that make no character are decoded to
CONTEXT = 8  # tokens: more than the bytes of a character


@dataclass(frozen=True)
class Rules:
    """How the next token is chosen, and when no more come.

    most, least: new tokens. ends: tokens that end an answer. temperature, top_k, top_p: of sampling; top_k 0 is off. seed: None for
    other answers each time. repetition_penalty: above 1 against tokens that are there already, those of the prompt too.
    unrepeated: no run of so many tokens comes twice; 0 is off. banned: runs of tokens that never come. first, last: the token that
    an answer must begin with, and end with where `most` cuts it. never, never_first: tokens that do not come, and not as the first.
    """

    most: int
    least: int = 0
    ends: tuple[int, ...] = ()
    sample: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int | None = None
    repetition_penalty: float = 1.0
    unrepeated: int = 0
    banned: tuple[tuple[int, ...], ...] = ()
    first: int | None = None
    last: int | None = None
    never: tuple[int, ...] = ()
    never_first: tuple[int, ...] = ()


def tokens(feed: Callable[[Sequence[int]], Array], prompt: Sequence[int], rules: Rules) -> Iterator[int]:
    """The new tokens, the one that ends the answer included; a decoder is fed no token that nothing follows.

    feed: appends tokens and gives the logits, shape (vocabulary,), after the last of them.
    """
    random = np.random.default_rng(rules.seed) if rules.sample else None
    seen = [int(token) for token in prompt]
    waiting = list(seen)
    for made in range(rules.most):
        token = choose(feed(waiting), seen, made, rules, random)
        yield token
        if token in rules.ends:
            return
        seen.append(token)
        waiting = [token]


def choose(logits: Array, seen: Sequence[int], made: int, rules: Rules, random: np.random.Generator | None) -> int:
    """The next token after `seen`, of which `made` are new: the likeliest, or one drawn where there is a generator."""
    scores = logits.astype(np.float64)
    if rules.repetition_penalty != 1.0:
        known = np.unique(np.asarray(seen, np.intp))
        scores[known] = np.where(scores[known] < 0, scores[known] * rules.repetition_penalty, scores[known] / rules.repetition_penalty)
    scores[_forbidden(seen, made, rules)] = -np.inf
    forced = rules.first if made == 0 and rules.first is not None else rules.last if made == rules.most - 1 else None
    if forced is not None:
        return forced
    if random is None:
        return int(scores.argmax())
    return int(random.choice(len(scores), p=_probabilities(scores, rules)))


def _forbidden(seen: Sequence[int], made: int, rules: Rules) -> list[int]:
    """Tokens that may not come now."""
    found = [*rules.never, *(rules.never_first if made == 0 else ()), *(rules.ends if made < rules.least else ())]
    for run in rules.banned:
        head = len(run) - 1
        if head <= len(seen) and tuple(seen[len(seen) - head :]) == run[:-1]:
            found.append(run[-1])
    if rules.unrepeated and len(seen) >= rules.unrepeated:
        head = rules.unrepeated - 1
        tail = list(seen[len(seen) - head :]) if head else []
        found += [seen[i + head] for i in range(len(seen) - head) if list(seen[i : i + head]) == tail]
    return found


def _probabilities(scores: NDArray[np.float64], rules: Rules) -> NDArray[np.float64]:
    """Softmax at the temperature, over the top_k likeliest and of those over the likeliest that make up top_p."""
    scores = scores / rules.temperature
    if 0 < rules.top_k < len(scores):
        scores = np.where(scores < np.partition(scores, -rules.top_k)[-rules.top_k], -np.inf, scores)
    shares: NDArray[np.float64] = np.exp(scores - scores.max())
    shares /= shares.sum()
    if rules.top_p < 1.0:
        order = np.argsort(-shares, kind="stable")
        before = np.cumsum(shares[order]) - shares[order]  # what the likelier ones make up already
        shares[order[before >= rules.top_p]] = 0.0
        shares /= shares.sum()
    return shares


@dataclass
class Text:
    """Text out of tokens as they come, in whole characters. stops: texts that end it and are no part of it.

    decode: ids to text, special tokens left out. context: the tokens before the first, which say whether it begins with a space. A
    character whose bytes are spread over tokens appears with its last one; one that stays incomplete is left out. An end of the text
    that may become a stop text is held back until it is none.
    """

    decode: Callable[[Sequence[int]], str]
    stops: Sequence[str] = ()
    context: Sequence[int] = ()
    stopped: bool = False
    _ids: list[int] = field(default_factory=list)
    _from: int = 0  # tokens before this one no longer change how those after are written
    _read: int = 0  # tokens whose text is in _text
    _text: str = ""
    _given: int = 0  # characters of it that were given out

    def __post_init__(self) -> None:
        self._ids = [int(token) for token in self.context[-CONTEXT:]]
        self._read = len(self._ids)

    def add(self, token: int) -> str:
        """The text that this token lets out, often some characters, perhaps none."""
        self._ids.append(token)
        before, after = self.decode(self._ids[self._from : self._read]), self.decode(self._ids[self._from :])
        if len(after) > len(before) and not after.endswith(BROKEN):
            self._text += after[len(before) :]
            self._from, self._read = self._read, len(self._ids)
            self._cut(len(after) - len(before))
        return self._let_out(len(self._text) if self.stopped else len(self._text) - self._held_back())

    def finish(self) -> str:
        """The rest of the text, when no more tokens come."""
        if not self.stopped:
            before, after = self.decode(self._ids[self._from : self._read]), self.decode(self._ids[self._from :])
            added = after[len(before) :].rstrip(BROKEN)
            self._text += added
            self._read = len(self._ids)
            self._cut(len(added))
        return self._let_out(len(self._text))

    @property
    def text(self) -> str:
        """All of it so far, what is held back included."""
        return self._text

    def _cut(self, added: int) -> None:
        """End the text where the first stop text begins, if the last `added` characters complete one."""
        places = [self._text.find(stop, max(0, len(self._text) - added - len(stop) + 1)) for stop in self.stops]
        if any(place >= 0 for place in places):
            self._text = self._text[: min(place for place in places if place >= 0)]
            self.stopped = True

    def _held_back(self) -> int:
        longest = max(map(len, self.stops), default=1) - 1
        sizes = range(min(longest, len(self._text)), 0, -1)
        return next((size for size in sizes if any(stop.startswith(self._text[-size:]) for stop in self.stops)), 0)

    def _let_out(self, end: int) -> str:
        out = self._text[self._given : end]
        self._given = max(self._given, end)
        return out


@dataclass(frozen=True)
class Answer:
    """A finished text, the new tokens that made it, and why it ended: a token that ends, a stop text, or the most tokens."""

    text: str
    ids: tuple[int, ...]
    ending: Ending


@dataclass(frozen=True)
class Start:
    """Where an answer begins: the tokens that a decoder is fed first, and whether the answer goes on from their text."""

    prompt: Sequence[int]
    continues: bool


def write(
    feed: Callable[[Sequence[int]], Array], start: Start, rules: Rules, decode: Callable[[Sequence[int]], str], stops: Sequence[str]
) -> Answer:
    """Generate one answer to its end."""
    text, made = Text(decode, stops, start.prompt if start.continues else ()), []
    for token in tokens(feed, start.prompt, rules):
        made.append(token)
        if token not in rules.ends:
            text.add(token)
        if text.stopped:
            break
    text.finish()
    ending: Ending = "stop" if text.stopped else "end" if made and made[-1] in rules.ends else "length"
    return Answer(text.text, tuple(made), ending)

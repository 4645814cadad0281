"""The texts that a build is proven on: the user's own, or those that come with hotfoot."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from hotfoot.contract.errors import InputError
from hotfoot.task import Corpus
from hotfoot.tasks._tokens import masked
from hotfoot_build import pairs_of_texts

DATA = Path(__file__).parent / "data"

# what tokenizers trip over; compared id by id, outside the quality measures
TOKENIZER_TEXTS = (
    "café cafe\u0301 naïve Ångström",
    "👨\u200d👩\u200d👧 in Paris 😀😀",
    "全学年にわたって小学校の国語の教科書",
    "½ ﬃ ヿ Société……… x² № ™",
    "a" * 100,
    "a" * 101,
    "  two  spaces\tand\ttabs\nand lines\r\n ",
    "[CLS] [SEP] [MASK] <s> </s> <mask> <pad>",
    "don't can't we'll O'Neil's co-operate e-mail@example.com https://example.com/a?b=c#d",
    "1,234.56 5.975,74 12/05/1980 +44 (0)20 7946 0958",
    "\u200bzero\u200bwidth\ufeff and\u00a0no-break\u2028separators",
    "مرحبا بالعالم שלום עולם Привет мир สวัสดี",
    ".",
)
LONGEST_TOKEN = 6  # characters a token of English prose that no tokenizer goes beyond, on average
# what a line of a user's file may be called: the first text and the second
NAMES = {"questions": ("question", "context"), "rankings": ("query", "documents"), "hypotheses": ("text", "hypotheses")}
ORDERED = {"rankings": "document a query", "hypotheses": "hypothesis a text"}  # where the order of several is compared


@dataclass(frozen=True)
class Samples:
    """What a build is proven on. seconds: of pairs, the text that goes with each. groups: how many neighbours share a first text."""

    texts: tuple[str, ...]
    seconds: tuple[str, ...] = ()
    groups: tuple[int, ...] = ()

    def with_masks(self, mask: str) -> Samples:
        """The same with a word of each text replaced by the model's mask."""
        return replace(self, texts=tuple(masked(text, mask) for text in self.texts))

    def past(self, tokens: int) -> Samples:
        """The same with one text more, which is longer than `tokens`."""
        lines, text = itertools.cycle(_lines()), ""
        while len(text) <= LONGEST_TOKEN * tokens:
            text = f"{text} {next(lines)}".strip()
        return replace(self, texts=(*self.texts, text))


def samples(corpus: Corpus, path: Path | None) -> Samples:
    """What a task of this corpus is proven on: the user's file, or hotfoot's own, over a thousand. Raises InputError."""
    if corpus not in NAMES:
        return Samples(texts(path))
    if path is None:
        lines = _lines()
        if corpus == "questions":
            return _paired(pairs_of_texts.questions(lines))
        return _grouped((pairs_of_texts.rankings if corpus == "rankings" else pairs_of_texts.hypotheses)(lines))
    if path.suffix != ".jsonl":
        raise InputError(f"{path} has no pairs of texts.", hint=f"Give a .jsonl file of {_form(corpus)}.", where="--samples")
    found = [pair for number, line in _numbered(path) for pair in _pairs_of(line, number, corpus)]
    _check_count(path, len(found))
    if corpus == "questions":
        return _paired(found)
    grouped = _grouped([(query, [document for _, document in some]) for query, some in groupby(found, key=lambda pair: pair[0])])
    if max(grouped.groups) < 2:
        raise InputError(f"{path} has one {ORDERED[corpus]}; an order takes two.", where="--samples")
    return grouped


def texts(path: Path | None) -> tuple[str, ...]:
    """A text a line, or `{"text": …}` a line in a .jsonl file; without a file, hotfoot's own, some 1,200. Raises InputError."""
    if path is not None:
        found = tuple(_text_of(line, number) if path.suffix == ".jsonl" else line for number, line in _numbered(path))
        _check_count(path, len(found))
        return found
    lines = _lines()
    return (*lines, *(passage for passage, _ in pairs_of_texts.long_passages(lines)))


def _lines() -> list[str]:
    return [line for name in ("general.txt", "people.txt") for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


def _paired(pairs: list[tuple[str, str]]) -> Samples:
    return Samples(tuple(first for first, _ in pairs), tuple(second for _, second in pairs))


def _grouped(rankings: list[tuple[str, list[str]]]) -> Samples:
    made = _paired([(query, document) for query, documents in rankings for document in documents])
    return replace(made, groups=tuple(len(documents) for _, documents in rankings))


def _numbered(path: Path) -> Iterator[tuple[int, str]]:
    """Lines that are not blank, and the number of each from 1."""
    if not path.is_file():
        raise InputError(f"there is no file {path}", where="--samples")
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip():
            yield number, line


def _check_count(path: Path, count: int) -> None:
    if count < 2:
        raise InputError(f"{path} has {count} text(s); at least two are needed to measure anything", where="--samples")


def _parsed(line: str, number: int) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        raise InputError(f"line {number} is not JSON: {error}", where="--samples") from None


def _text_of(line: str, number: int) -> str:
    value = _parsed(line, number)
    text = value.get("text") if isinstance(value, dict) else value
    if not isinstance(text, str) or not text:
        raise InputError(f'line {number} is neither a text nor an object with a "text"', where="--samples")
    return text


def _pairs_of(line: str, number: int, corpus: Corpus) -> list[tuple[str, str]]:
    """The pairs of one line: `{"text", "pair"}`, or the task's own names, where documents and hypotheses are several."""
    value = _parsed(line, number)
    for first, second in (NAMES[corpus], ("text", "pair")):
        if isinstance(value, dict) and first in value:
            seconds = value.get(second)
            several = seconds if isinstance(seconds, list) else [seconds]
            if several and all(isinstance(text, str) and text for text in (value[first], *several)):
                return [(str(value[first]), str(text)) for text in several]
    raise InputError(f"line {number} is not {_form(corpus)}", where="--samples")


def _form(corpus: Corpus) -> str:
    first, second = NAMES[corpus]
    shown = '["…"]' if corpus in ORDERED else '"…"'
    return f'{{"{first}": "…", "{second}": {shown}}} or {{"text": "…", "pair": "…"}}'

"""Pairs of texts, made of single lines by rule: questions with a context, queries with documents, texts with hypotheses on them.

A question is a line without its longest word, so that the answer stands in the line itself; a query is the longest words of a line;
a hypothesis says that a text is about one word. Some passages reach every limit.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from hotfoot.tasks.zero_shot_classification import PLACE, TEMPLATE

CANDIDATES = 10  # documents a query
QUERY_STEP = 9  # every ninth line is asked for
QUERY_WORDS = 6
AROUND = 6  # words on each side of the word that is asked for: a question must leave room for its context
UNANSWERABLE = 9  # every ninth question is asked of a context that does not hold its line
LONG = range(4, 44)  # lines of the long passages: some 50 to over 600 tokens
LONG_EVERY = 8  # every eighth query has a document that reaches the limit, and every eighth long passage has hypotheses
TEXT_STEP = 6  # every sixth line has hypotheses
TOPICS = ("music", "sport", "politics", "cooking", "money", "health", "science", "travel", "family", "weather", "history")
TOPICS_EACH = 3  # a text, beside a word of its own and one of another text


def long_passages(lines: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Forty passages of 4 to 43 lines, so that long inputs and the limit itself are tried, and the first line of each."""
    start = 0
    for count in LONG:
        yield " ".join(lines[start : start + count]), start
        start = (start + count) % (len(lines) - 50)


def questions(lines: Sequence[str]) -> list[tuple[str, str]]:
    """(question, context): each line asked for once, its context one to four lines; and one question a long passage."""
    made = []
    for number, line in enumerate(lines):
        count = 1 + number % 4
        start = max(0, min(number - (number // 4) % count, len(lines) - count))
        if number % UNANSWERABLE == 0:
            start = (number + len(lines) // 2) % (len(lines) - count)
        made.append((_question(line), " ".join(lines[start : start + count])))
    for passage, start in long_passages(lines):
        made.append((_question(lines[start + 3 * len(made) % 4]), passage))
    return made


def _question(line: str) -> str:
    """Asks for a line's longest word: `He has a good bath every morning.` becomes `He has a good bath every what?`."""
    longest = _longest(line)
    before, after = line[: longest.start()].split(" ")[-AROUND:], line[longest.end() :].split(" ")[:AROUND]
    return " ".join(before) + "what" + " ".join(after).rstrip(" .!?;:,") + "?"


def _longest(line: str) -> re.Match[str]:
    return max(re.finditer(r"\w+", line), key=lambda word: len(word[0]))


def hypotheses(lines: Sequence[str]) -> list[tuple[str, list[str]]]:
    """(text, hypotheses): that it is about a word of its own, about one of another text, and about topics in turn."""
    passages = list(long_passages(lines))[LONG_EVERY - 1 :: LONG_EVERY]  # the longest is the last
    texts = [(lines[number], number) for number in range(0, len(lines), TEXT_STEP)]
    made: list[tuple[str, list[str]]] = []
    for text, number in [*texts, *passages]:
        words = [_longest(line)[0] for line in (lines[number], lines[(number + len(lines) // 2) % len(lines)])]
        words += [TOPICS[(len(made) + step) % len(TOPICS)] for step in range(TOPICS_EACH)]
        made.append((text, [TEMPLATE.replace(PLACE, word) for word in dict.fromkeys(words)]))
    return made


def rankings(lines: Sequence[str]) -> list[tuple[str, list[str]]]:
    """(query, documents): the line that it is made of, a passage around that, lines that share a word, and lines that share none."""
    holding: dict[str, list[int]] = defaultdict(list)
    for number, line in enumerate(lines):
        for word in sorted(_words(line)):
            holding[word].append(number)
    long = [passage for passage, _ in long_passages(lines)][-len(LONG) // 4 :]  # the longest ten
    made = []
    for number in range(0, len(lines), QUERY_STEP):
        query = _query(lines[number])
        rare = sorted(_words(lines[number]), key=lambda word: (len(holding[word]), word))
        chosen = dict.fromkeys([number, *(n for word in rare for n in holding[word][:2])])
        near = [lines[n] for n in chosen][: CANDIDATES // 2]
        near.append(" ".join(lines[max(0, number - 1) : number + 2]))
        if (number // QUERY_STEP) % LONG_EVERY == 0:
            near.append(long[(number // QUERY_STEP // LONG_EVERY) % len(long)])
        far = (lines[(number + 101 * step) % len(lines)] for step in range(1, len(lines)))
        documents = list(dict.fromkeys(near))
        documents += [line for line, _ in zip((f for f in far if f not in documents), range(CANDIDATES - len(documents)), strict=False)]
        made.append((query, documents))
    return made


def _words(line: str) -> set[str]:
    return {word for word in re.findall(r"\w+", line.lower()) if len(word) > 3}


def _query(line: str) -> str:
    words = re.findall(r"\w+", line)
    longest = set(sorted(range(len(words)), key=lambda i: (-len(words[i]), i))[:QUERY_WORDS])
    return " ".join(word for i, word in enumerate(words) if i in longest)

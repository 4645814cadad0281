"""Entities out of a text: `[LABEL]` in their place, and answers that say where they were and not what."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

WORDS = ("word", "index")  # what an entity says of the text itself


def masked(text: str, entities: Sequence[Mapping[str, Any]]) -> str:
    """The text with every entity replaced, those of one label that touch by one mark.

    An entity that begins or ends inside a word takes the whole word: half a name is still a name.
    """
    parts: list[str] = []
    cursor = 0
    for entity in sorted(entities, key=lambda e: (e["start"], e["end"])):
        start, end = _widened(text, entity["start"], entity["end"])
        if end <= cursor:
            continue
        label = label_of(entity)
        if not (parts and start <= cursor and parts[-1] == label):
            parts += [text[cursor : max(start, cursor)], label]
        cursor = end
    return "".join((*parts, text[cursor:]))


def label_of(entity: Mapping[str, Any]) -> str:
    """`[GIVEN_NAME]` of an entity."""
    name = re.sub(r"\W+", "_", str(entity["entity_group"])).strip("_").upper()
    return f"[{name or 'ENTITY'}]"


def wordless(entities: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Entities without what they quote: label, score, start and end (code points of the text as it was)."""
    return [{name: value for name, value in entity.items() if name not in WORDS} for entity in entities]


def _widened(text: str, start: int, end: int) -> tuple[int, int]:
    while 0 < start < len(text) and _joined(text, start):
        start -= 1
    while 0 < end < len(text) and _joined(text, end):
        end += 1
    return start, end


def _joined(text: str, place: int) -> bool:
    """Whether a cut at `place` runs through a word."""
    return _in_word(text[place - 1]) and (_in_word(text[place]) or _is_mark(text[place]))


def _in_word(character: str) -> bool:
    # letters of scripts with two cases, which put spaces between words as those without often do not, and digits
    return character.isdigit() or character.lower() != character.upper() or _is_mark(character)


def _is_mark(character: str) -> bool:
    return unicodedata.category(character).startswith("M")

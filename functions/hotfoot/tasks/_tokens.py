"""What tasks know of single tokens: their ids in tokenizer.json, and where a mask goes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from zlib import crc32

REACH = 24  # words from the beginning among which the masked one is: within the limit of any model


def id_of(tokenizer: Mapping[str, Any], token: str | None) -> int | None:
    """The id of a token, given tokenizer.json as JSON; None for one that is not in it."""
    added = {entry["content"]: int(entry["id"]) for entry in tokenizer.get("added_tokens") or ()}
    vocabulary = tokenizer.get("model", {}).get("vocab") or {}
    if isinstance(vocabulary, list):  # Unigram: [piece, score] each, by id
        vocabulary = {piece: number for number, (piece, _) in enumerate(vocabulary)}
    found = added.get(token, vocabulary.get(token))
    return None if found is None else int(found)


def masked(text: str, mask: str) -> str:
    """The text with one of its words replaced by `mask`, chosen by the text itself; as it is where it has a mask already."""
    words = list(re.finditer(r"\w+", text))[:REACH]
    if mask in text:
        return text
    if not words:
        return f"{text} {mask}"
    word = words[crc32(text.encode()) % len(words)]
    return text[: word.start()] + mask + text[word.end() :]

"""Where a long text may be cut so that the tokens before the cut are those of the whole text: to read no more of it than is kept."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tokenizers import Tokenizer as RustTokenizer

from hotfoot.contract.errors import InputError

LONGEST = 2**20  # characters of one text: some 250,000 tokens in windows, and the longest record of the bulk pipeline


def too_long(text: str, limit: int, path: str, hint: str) -> InputError:
    """The error for a text that is too long to be tokenised."""
    return InputError(f"the text has {len(text)} characters, more than the {limit} that are read here.", hint=hint, where=path)


def head_of(text: str, size: int, path: str) -> str:
    """The text up to its last safe place within `size` characters, or where there is none, within more; whole if it is short.

    Raises InputError for one that cannot be brought below LONGEST.
    """
    if len(text) <= min(size, LONGEST):
        return text
    for most in growing(size):
        at = text.rfind(" ", 0, most)
        while at > 0 and not (_plain(text[at - 1]) and _plain(text[at + 1 : at + 2])):
            at = text.rfind(" ", 0, at)
        if at > 0:
            return text[:at]
    if len(text) > LONGEST:
        raise too_long(text, LONGEST, path, "Send it in parts.")
    return text


def growing(size: int) -> Iterator[int]:
    """`size` and ever more, up to LONGEST."""
    while size < LONGEST:
        yield size
        size *= 8
    yield LONGEST


def _plain(character: str) -> bool:
    return character.isascii() and character.isalnum()


# normalizers and pre-tokenizers that see no further than a space between two ASCII letters or digits, with the settings that matter
NORMALIZERS: tuple[Mapping[str, Any], ...] = (
    *({"type": name} for name in ("BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Precompiled", "Strip", "StripAccents")),
    {"type": "Replace", "pattern": {"Regex": " {2,}"}},  # that space is a single one
)
SPLITTERS: tuple[Mapping[str, Any], ...] = (
    *({"type": name} for name in ("BertPreTokenizer", "Whitespace", "WhitespaceSplit")),
    {"type": "ByteLevel", "use_regex": True},
    {"type": "Metaspace", "split": True},
)


def splits_at_spaces(rust: RustTokenizer) -> bool:
    """Whether a text cut before a space, between two ASCII letters or digits, has the same tokens up to there as the whole text.

    So it is where that space always begins another pre-token: models look at one pre-token at a time. The normalizer must not look
    past it (composition, reordering and grapheme clusters all end at such a letter), the pre-tokenizer must split there, and no added
    token may reach over it. Of everything else this is not known, and its texts are read whole.
    """
    normalizers, splitters = _steps(rust.normalizer, "normalizers"), _steps(rust.pre_tokenizer, "pretokenizers")
    added = rust.get_added_tokens_decoder().values()
    return (
        all(_is_one_of(step, NORMALIZERS) for step in normalizers)
        and bool(splitters)
        and _is_one_of(splitters[0], SPLITTERS)  # what follows in a sequence sees one of its pieces at a time
        and not any(c.isspace() for token in added for c in token.content)
    )


def _steps(component: Any, members: str) -> list[dict[str, Any]]:
    if component is None:
        return []
    state: dict[str, Any] = json.loads(component.__getstate__())
    return list(state[members]) if state["type"] == "Sequence" else [state]


def _is_one_of(step: Mapping[str, Any], known: Iterable[Mapping[str, Any]]) -> bool:
    return any(step.items() >= settings.items() for settings in known)

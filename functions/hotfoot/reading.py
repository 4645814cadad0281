"""Texts to `Encoded` by the tokenizers library, or from memory where it has read them before."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding
from tokenizers import Tokenizer as RustTokenizer
from tokenizers.models import WordLevel

from hotfoot.encodings import Encodings, Kept, Places, kept_of, key_of
from hotfoot.task import Encoded, Marks

Ids = NDArray[np.int32]
PART = 2**18  # characters that the library gets at once, unless one text has more
POOL = "RAYON_NUM_THREADS"  # the only way to tell the library how many threads it may have
_starting = threading.Lock()


@cache
def start_pool(threads: int) -> None:
    """Start the library's threads, so many and not as many as the host has cores; the first call decides for the process.

    A number that the environment gives counts before it, and the environment stays as it was: child processes choose for themselves.
    """
    with _starting:  # or one who opens a model beside another would take the number below for the environment's own
        if POOL in os.environ:
            return
        os.environ[POOL] = str(threads)
        try:
            RustTokenizer(WordLevel({"a": 0})).encode_batch(["a", "a"])
        finally:
            del os.environ[POOL]


class Reader:
    """A tokenizer's library and what it said of late. Thread-safe.

    The library's own object of a text takes some 300 bytes a character: it is never remembered.
    """

    def __init__(self, rust: RustTokenizer, memory: Encodings | None) -> None:
        rust.no_padding()
        rust.no_truncation()
        self.rust = rust
        self.memory = memory

    def read(self, texts: Sequence[str], *, special: bool, cut: int | None = None) -> Iterator[Encoded]:
        """Each text whole, with the special tokens or without, in order; the library is given those that are new, in parts.

        cut: the tokens that the caller will keep at most: what comes out of a longer text holds nothing of the library's.
        """
        for part in parts(texts):
            if self.memory is None:
                for encoding in self.rust.encode_batch(part, add_special_tokens=special):
                    yield _encoded(encoding, cut)
            else:
                yield from self._part(part, self.memory, special=special, cut=cut)

    def _part(self, texts: list[str], memory: Encodings, *, special: bool, cut: int | None) -> list[Encoded]:
        keys = [key_of(text, special=special) for text in texts]
        found = {key: kept for key in dict.fromkeys(keys) if (kept := memory.get(key)) is not None}
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        made = {}
        if new:
            for key, encoding in zip(new, self.rust.encode_batch(list(new.values()), add_special_tokens=special), strict=True):
                made[key] = _noted(_encoded(encoding, cut), key, memory)
        return [
            made[key] if key in made else self._again(found[key], text, key, memory, special=special)
            for key, text in zip(keys, texts, strict=True)
        ]

    def _again(self, kept: Kept, text: str, key: bytes, memory: Encodings, *, special: bool) -> Encoded:
        """What is remembered of a text; for places that nobody has asked for yet, the text is read once more."""

        @cache
        def marks() -> Marks:
            if kept.places is not None:
                return kept.places.marks
            made = _marks(self.rust.encode(text, add_special_tokens=special))
            memory.put(key, Kept(kept.ids, kept.types, Places.of(made)))
            return made

        ids = np.frombuffer(kept.ids, np.int32)
        return Encoded(ids, np.frombuffer(kept.types, np.int32) if kept.types else np.zeros(len(ids), np.int32), 0, marks)


def _noted(encoded: Encoded, key: bytes, memory: Encodings) -> Encoded:
    """The same, remembered: its ids now, its places when they are first asked for."""
    kept = kept_of(encoded)
    memory.put(key, kept)

    @cache
    def marks() -> Marks:
        made = encoded.marks()
        memory.put(key, Kept(kept.ids, kept.types, Places.of(made)))
        return made

    return Encoded(encoded.ids, encoded.type_ids, 0, marks)


def _encoded(encoding: Encoding, cut: int | None) -> Encoded:
    """The library's object is held until the marks have been made, or not at all for a text that will be cut to `cut` tokens."""
    if cut is None or len(encoding) <= cut:
        return Encoded(*_ids(encoding), 0, cache(lambda: _marks(encoding)))
    places = Places.of(_marks(encoding))
    return Encoded(*_ids(encoding), 0, cache(lambda: places.marks))


def _ids(encoding: Encoding) -> tuple[Ids, Ids]:
    return np.array(encoding.ids, np.int32), np.array(encoding.type_ids, np.int32)


def _marks(encoding: Encoding) -> Marks:
    return Marks(
        offsets=tuple(encoding.offsets),
        special=tuple(flag == 1 for flag in encoding.special_tokens_mask),
        words=tuple(encoding.word_ids),
    )


def parts(texts: Iterable[str]) -> Iterator[list[str]]:
    """The texts in order, in lists of about PART characters at most."""
    part: list[str] = []
    size = 0
    for text in texts:
        if part and size + len(text) > PART:
            yield part
            part, size = [], 0
        part.append(text)
        size += len(text)
    if part:
        yield part

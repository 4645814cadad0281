"""What a tokenizer said of exact texts, in few bytes: a digest of the text and its tokens' ids, and nothing of the tokenizer's library.

The words as such are not in it, but it keeps no secret: whoever has the tokenizer can read a text from its ids.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain

import numpy as np

from hotfoot.cache import Cache, Stats
from hotfoot.contract.errors import ArtifactError
from hotfoot.task import Encoded, Marks

FILE = "encodings.json"  # in a tokenizer's folder: texts that were known at build time, as `dumps` writes them

KEY_BYTES = 32 + 33  # a digest and the object around it
OBJECT_BYTES = 160  # the object of an encoding and those of its bytes
PLACES_BYTES = 200  # the same for its places
NO_WORD = -1  # stands for None


@dataclass(frozen=True)
class Places:
    """The `Marks` of a text: offsets as pairs of int32, special as one byte a token, words as int32."""

    offsets: bytes
    special: bytes
    words: bytes

    @classmethod
    def of(cls, marks: Marks) -> Places:
        """The marks in 13 bytes a token; as the tuples that they are they take some 200."""
        words = (NO_WORD if word is None else word for word in marks.words)
        return cls(_packed(chain.from_iterable(marks.offsets)), bytes(marks.special), _packed(words))

    @property
    def marks(self) -> Marks:
        """The marks again."""
        edges = iter(np.frombuffer(self.offsets, np.int32).tolist())
        return Marks(
            offsets=tuple(zip(edges, edges, strict=True)),
            special=tuple(map(bool, self.special)),
            words=tuple(None if word == NO_WORD else word for word in np.frombuffer(self.words, np.int32).tolist()),
        )


def _packed(numbers: Iterable[int]) -> bytes:
    return np.fromiter(numbers, np.int32).tobytes()


@dataclass(frozen=True)
class Kept:
    """One text's ids and type ids as int32, no bytes for types that are all 0, and its places once someone has asked for them."""

    ids: bytes
    types: bytes
    places: Places | None = None

    @property
    def size(self) -> int:
        """Bytes of memory, all objects counted."""
        placed = 0 if self.places is None else PLACES_BYTES + len(self.places.offsets) + len(self.places.special) + len(self.places.words)
        return OBJECT_BYTES + len(self.ids) + len(self.types) + placed


class Encodings:
    """The encodings of the latest texts, within a bound of bytes. Thread-safe.

    One serves every artifact of a process that has the tokenizer: it knows of no limit and no cut, as what is cut is cut later.
    """

    def __init__(self, most_bytes: int) -> None:
        self._cache: Cache[bytes, Kept] = Cache(most_bytes)

    def get(self, key: bytes) -> Kept | None:
        """The text's encoding, None where it is not remembered."""
        return self._cache.get(key)

    def put(self, key: bytes, kept: Kept) -> None:
        """Remember an encoding, unless it is large."""
        self._cache.put(key, kept, KEY_BYTES + kept.size)

    @property
    def stats(self) -> Stats:
        """The memory's counts."""
        return self._cache.stats


def key_of(text: str, *, special: bool) -> bytes:
    """A name for the text, with the tokenizer's special tokens or without. Two texts share none."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=32, person=b"special" if special else b"bare").digest()


def kept_of(encoded: Encoded) -> Kept:
    """A text's ids and types, without its places."""
    types = encoded.type_ids.tobytes()
    return Kept(encoded.ids.tobytes(), types if types.strip(b"\0") else b"")


def dumps(known: Mapping[bytes, Kept]) -> str:
    """Encodings by their texts' names, as sorted JSON: ids that whoever has the tokenizer can read, and no words as such."""
    plain = {key.hex(): [_numbers(kept.ids), _numbers(kept.types)] if kept.types else [_numbers(kept.ids)] for key, kept in known.items()}
    return json.dumps(plain, sort_keys=True, separators=(",", ":")) + "\n"


def loads(text: str) -> dict[bytes, Kept]:
    """What `dumps` wrote. Raises ArtifactError for anything else."""
    try:
        found = {}
        for key, arrays in json.loads(text).items():
            ids, types = (np.array(numbers, np.int32) for numbers in (arrays if len(arrays) == 2 else [*arrays, []]))
            if ids.ndim != 1 or types.ndim != 1:
                raise ValueError(f"{key} has no list of ids")
            found[bytes.fromhex(key)] = Kept(ids.tobytes(), types.tobytes())
        return found
    except (AttributeError, OverflowError, TypeError, ValueError) as error:
        raise ArtifactError(f"{FILE} of the tokenizer cannot be read: {error}.", hint="Build the artifact again.") from None


def _numbers(array: bytes) -> list[int]:
    numbers: list[int] = np.frombuffer(array, np.int32).tolist()
    return numbers

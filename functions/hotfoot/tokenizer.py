"""`tokenizer.json` to arrays. Its padding and truncation state is never used: both are decided per call, so threads share one object."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tokenizers import Encoding
from tokenizers import Tokenizer as RustTokenizer

from hotfoot.contract.errors import ArtifactError, InputError
from hotfoot.contract.manifest import TOKENIZER_DIR, Manifest, Side, combine, describe
from hotfoot.task import Encoded


class Tokenizer:
    """Encodes texts for one artifact. Thread-safe: the Rust object does not change once it is open."""

    def __init__(self, rust: RustTokenizer, max_tokens: int) -> None:
        rust.no_padding()
        rust.no_truncation()
        self._rust = rust
        self._max_tokens = max_tokens

    @property
    def max_tokens(self) -> int:
        """The longest input, special tokens included."""
        return self._max_tokens

    def encode(
        self, texts: Sequence[str], *, truncate: Side | None, paths: Sequence[str] = (), stride: int | None = None
    ) -> tuple[Encoded, ...]:
        """One Encoded a text, cut at side `truncate`; with a stride, overlapping windows instead of a cut.

        Raises InputError, naming the text's path, for one that is too long when neither is asked for, or has no tokens; and
        for a stride that no window of this model can hold, however short the texts are.
        """
        if stride is not None:
            self._check_stride(stride)
        encoded: list[Encoded] = []
        for item, whole in enumerate(self.tokenize(texts)):
            path, count = paths[item] if paths else f"inputs[{item}]", len(whole.ids)
            if count == 0:
                raise InputError("the text has no tokens.", where=path)
            if count <= self._max_tokens:
                encoded.append(whole)
            elif stride is not None:
                encoded += self._windows(whole, stride)
            elif truncate:
                encoded.append(self._truncated(whole, truncate))
            else:
                raise InputError(
                    f"the text has {count} tokens, the limit is {self._max_tokens}, special tokens included.",
                    hint="Shorten it, or ask for truncation.",
                    where=path,
                )
        return tuple(encoded)

    def tokenize(self, texts: Sequence[str]) -> list[Encoded]:
        """Each text whole, however long: to count and to show, not to run."""
        return [_read(encoding, item) for item, encoding in enumerate(self._rust.encode_batch(list(texts)))]

    def _truncated(self, whole: Encoded, side: Side) -> Encoded:
        head, tail = _frame(whole)
        room = self._max_tokens - head - tail
        start = len(whole.ids) - tail - room if side == "left" else head
        return _slice(whole, head, start, start + room)

    def _check_stride(self, stride: int) -> None:
        room = self._max_tokens - int(self._rust.num_special_tokens_to_add(is_pair=False))
        if not 0 <= stride < room:
            raise InputError(
                f"is {stride}; it must be from 0 to {room - 1}: a window of this model holds {room} tokens.", where="parameters.stride"
            )

    def _windows(self, whole: Encoded, stride: int) -> list[Encoded]:
        head, tail = _frame(whole)
        room = self._max_tokens - head - tail
        last = len(whole.ids) - tail
        starts = range(head, max(head + 1, last - stride), room - stride)
        return [_slice(whole, head, start, min(start + room, last)) for start in starts]

    def token_of(self, token_id: int) -> str:
        """The token's own spelling (`##ing`), empty for an id outside the vocabulary."""
        return self._rust.id_to_token(token_id) or ""

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        """Ids back to text."""
        return str(self._rust.decode(list(ids), skip_special_tokens=skip_special_tokens))


def _read(encoding: Encoding, item: int) -> Encoded:
    return Encoded(
        ids=np.asarray(encoding.ids, dtype=np.int32),
        type_ids=np.asarray(encoding.type_ids, dtype=np.int32),
        offsets=tuple(encoding.offsets),
        special=tuple(flag == 1 for flag in encoding.special_tokens_mask),
        words=tuple(encoding.word_ids),
        item=item,
    )


def _frame(whole: Encoded) -> tuple[int, int]:
    """How many special tokens the post-processor put before and after the text."""
    count = len(whole.special)
    head = next((i for i, special in enumerate(whole.special) if not special), count)
    tail = next((i for i, special in enumerate(reversed(whole.special)) if not special), count)
    return head, tail


def _slice(whole: Encoded, head: int, start: int, stop: int) -> Encoded:
    """The window [start, stop) of a text inside the same frame of special tokens.

    Cut here and not by the Rust object: its truncation is state that threads would share, and a second post-processing
    would shift byte-level offsets twice.
    """
    count = len(whole.ids)
    tail = _frame(whole)[1]
    keep = [*range(head), *range(start, stop), *range(count - tail, count)]
    return Encoded(
        ids=whole.ids[keep],
        type_ids=whole.type_ids[keep],
        offsets=tuple(whole.offsets[i] for i in keep),
        special=tuple(whole.special[i] for i in keep),
        words=tuple(whole.words[i] for i in keep),
        item=whole.item,
    )


def find(artifact: Path, manifest: Manifest, layer_root: Path) -> Path:
    """The folder of the artifact's tokenizer: the layer's first, then the artifact's own.

    Raises ArtifactError when it is in neither, or when its content is not what the manifest names.
    """
    wanted = manifest.tokenizer.hash
    places = (layer_root / "hotfoot" / "tokenizers" / wanted, artifact / TOKENIZER_DIR)
    for place in places:
        if (place / "tokenizer.json").is_file():
            found = combine(describe(place, [p for p in place.rglob("*") if p.is_file()]))
            if found != wanted:
                raise ArtifactError(
                    f"the tokenizer in {place} has hash {found}, the manifest names {wanted}", hint="Bundle the artifact again."
                )
            return place
    raise ArtifactError(
        f"tokenizer {wanted} is in none of: {', '.join(map(str, places))}", hint="Attach the tokenizer layer of this bundle."
    )


def open_tokenizer(artifact: Path, manifest: Manifest, layer_root: Path) -> Tokenizer:
    """The artifact's tokenizer, ready to encode."""
    path = find(artifact, manifest, layer_root) / "tokenizer.json"
    return Tokenizer(RustTokenizer.from_file(str(path)), manifest.max_tokens)

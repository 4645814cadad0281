"""`tokenizer.json` to arrays. Its padding and truncation state is never used: both are decided per call, so threads share one object.

The library takes some 300 bytes and a microsecond a character, so every text has a bound before it gets there, texts go there in parts,
and only the tokens that are kept become Python objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding
from tokenizers import Tokenizer as RustTokenizer

from hotfoot.contract.errors import ArtifactError, InputError, TooLargeError
from hotfoot.contract.manifest import TOKENIZER_DIR, Manifest, Side, combine, describe
from hotfoot.cutting import LONGEST, growing, head_of, splits_at_spaces, too_long
from hotfoot.pairs import Frame, frame_of, room_for_second, stride_in
from hotfoot.task import Encoded, Fit, Marks

CHARACTERS = 128  # a token, past which a text is too long without being counted: prose has 4 to 6, tables and hashes some 30
HEAD = 16  # characters a token that are tried first where a text is to be cut
PART = 2**18  # characters that the library gets at once, unless one text has more


class Tokenizer:
    """Encodes texts for one artifact. Thread-safe: the Rust object does not change once it is open."""

    def __init__(self, rust: RustTokenizer, max_tokens: int) -> None:
        rust.no_padding()
        rust.no_truncation()
        self._rust = rust
        self._max_tokens = max_tokens
        self._cuts = splits_at_spaces(rust)

    @property
    def max_tokens(self) -> int:
        """The longest input, special tokens included."""
        return self._max_tokens

    @cached_property
    def _frame(self) -> Frame:
        return frame_of(self._rust)

    def encode(
        self,
        texts: Sequence[str],
        *,
        truncate: Side | None,
        paths: Sequence[str] = (),
        stride: int | None = None,
        most: int | None = None,
    ) -> tuple[Encoded, ...]:
        """One Encoded a text, cut at side `truncate`; with a stride, overlapping windows instead of a cut.

        Raises InputError, naming the text's path, for one that is too long when neither is asked for, has no tokens, or is longer than
        any text may be; and for a stride above half a window, however short the texts are. Raises TooLargeError for more than `most`
        tokens in all.
        """
        if stride is not None:
            self._check_stride(stride)
        named = paths or [f"inputs[{i}]" for i in range(len(texts))]
        whole = truncate is None and stride is None
        cut = truncate == "right" and stride is None and self._cuts
        encodings = self._heads(texts, named, self._max_tokens) if cut else self._read(texts, named, whole)
        encoded: list[Encoded] = []
        total = 0
        for item, (encoding, path) in enumerate(zip(encodings, named, strict=True)):
            count = len(encoding)
            if count == 0:
                raise InputError("the text has no tokens.", where=path)
            if count > self._max_tokens and whole:
                raise InputError(
                    f"the text has {count} tokens, the limit is {self._max_tokens}, special tokens included.",
                    hint="Shorten it, or ask for truncation.",
                    where=path,
                )
            if count <= self._max_tokens:
                total = add(total, count, most, path)
                encoded.append(_whole(encoding, item))
                continue
            head, tail = _frame(encoding)
            spans = self._spans(head, count - tail, self._max_tokens - head - tail, truncate, stride)
            total = add(total, sum(head + stop - start + tail for start, stop in spans), most, path)
            uncut = _whole(encoding, item)
            pieces = [uncut.slice(head, start, stop, tail) for start, stop in spans]
            # what is left of a cut text must not hold on to the library's object, which may be much larger
            encoded += pieces if stride is not None else [piece.settled() for piece in pieces]
        return tuple(encoded)

    def tokenize(self, texts: Sequence[str], *, paths: Sequence[str] = (), most: int | None = None) -> list[Encoded]:
        """Each text whole, past the model's limit too: to count and to show, not to run.

        Raises InputError for one that is longer than any text may be, TooLargeError for more than `most` tokens in all.
        """
        named = paths or [f"inputs[{i}]" for i in range(len(texts))]
        found: list[Encoded] = []
        total = 0
        for item, (encoding, path) in enumerate(zip(self._read(texts, named, whole=False), named, strict=True)):
            total = add(total, len(encoding), most, path)
            found.append(_whole(encoding, item))
        return found

    def encode_pairs(
        self, firsts: Sequence[str], seconds: Sequence[str], fit: Fit, paths: Sequence[tuple[str, str]], *, most: int | None = None
    ) -> tuple[Encoded, ...]:
        """One Encoded a pair, its second text cut as `fit` says, or as many windows as that takes.

        Raises InputError, naming a text's path, for a pair that is too long when neither is asked for, for a text without tokens, a
        first text that leaves the other no room, or a stride that leaves a window nothing new; TooLargeError for more than `most`
        tokens in all.
        """
        frame, window = self._frame, min(fit.window or self._max_tokens, self._max_tokens)
        heads = self._firsts(firsts, [path for path, _ in paths], fit.first)
        encoded: list[Encoded] = []
        total = 0
        for item, (encoding, first) in enumerate(zip(self._seconds(seconds, [path for _, path in paths], fit, window), heads, strict=True)):
            here, there = paths[item]
            room, count = room_for_second(window, frame, first, here), len(encoding)
            if count == 0:
                raise InputError("the text has no tokens.", where=there)
            spans = [(0, count)]
            stride = None if fit.stride is None else stride_in(fit, room, here)
            if count > room and stride is not None:
                spans = self._spans(0, count, room, None, stride)
            elif count > room and fit.truncate is not None:
                spans = self._spans(0, count, room, fit.truncate, None)
            elif count > room:
                raise InputError(
                    f"the pair has {count + window - room} tokens, the limit is {window}, special tokens included.",
                    hint="Shorten it, or ask for truncation.",
                    where=there,
                )
            total = add(total, sum(stop - start + window - room for start, stop in spans), most, there)
            second = _whole(encoding, item)
            pieces = [frame.join(first, second, start, stop, item) for start, stop in spans]
            encoded += [p.settled() for p in pieces] if count > room and fit.stride is None else pieces
        return tuple(encoded)

    def encode_cut(self, texts: Sequence[str], seconds: Sequence[str], side: Side) -> tuple[Encoded, ...]:
        """Texts, or pairs where there are seconds, each cut to the limit at `side`. Raises InputError as the others do."""
        if not seconds:
            return self.encode(texts, truncate=side)
        paths = [(f"texts[{i}]", f"seconds[{i}]") for i in range(len(texts))]
        return self.encode_pairs(texts, seconds, Fit(truncate=side), paths)

    def _firsts(self, texts: Sequence[str], paths: Sequence[str], most: int | None) -> list[Encoded]:
        """The first text of each pair, every one read once, and cut to `most` tokens."""
        named = dict(zip(reversed(texts), reversed(paths), strict=True))  # the first place of each
        read = zip(named, self._read(list(named), list(named.values()), most is None, special=False), strict=True)
        found = {text: _whole(e, 0).slice(0, 0, len(e) if most is None else min(most, len(e)), 0) for text, e in read}
        if bare := next((text for text, first in found.items() if not len(first.ids)), None):
            raise InputError("the text has no tokens.", where=named[bare])
        return [found[text] for text in texts]

    def _seconds(self, texts: Sequence[str], paths: Sequence[str], fit: Fit, window: int) -> Iterator[Encoding]:
        if fit.truncate == "right" and fit.stride is None and self._cuts:
            return self._heads(texts, paths, window, special=False)
        return self._read(texts, paths, fit.truncate is None and fit.stride is None, special=False)

    def _read(self, texts: Sequence[str], paths: Sequence[str], whole: bool, *, special: bool = True) -> Iterator[Encoding]:
        """Every text as the library reads it; `whole` ones are refused at once when they cannot be short enough."""
        limit = min(LONGEST, CHARACTERS * self._max_tokens) if whole else LONGEST
        for text, path in zip(texts, paths, strict=True):
            if len(text) > limit:
                raise too_long(text, limit, path, "Shorten it, or ask for truncation." if whole else "Send it in parts.")
        for part in parts(texts):
            yield from self._rust.encode_batch(part, add_special_tokens=special)

    def _heads(self, texts: Sequence[str], paths: Sequence[str], limit: int, *, special: bool = True) -> Iterator[Encoding]:
        """Of each text at least as much as the tokens before the limit come from."""
        heads = [head_of(text, HEAD * limit, path) for text, path in zip(texts, paths, strict=True)]
        rest = zip(texts, heads, paths, strict=True)
        for part in parts(heads):
            for encoding, (text, head, path) in zip(self._rust.encode_batch(part, add_special_tokens=special), rest, strict=False):
                enough = len(encoding) > limit or len(head) == len(text)
                yield encoding if enough else self._longer(text, len(head), path, limit, special=special)

    def _longer(self, text: str, read: int, path: str, limit: int, *, special: bool) -> Encoding:
        for size in growing(8 * HEAD * limit):
            head = head_of(text, size, path)
            if len(head) > read:
                encoding = self._rust.encode(head, add_special_tokens=special)
                if len(encoding) > limit or len(head) == len(text):
                    return encoding
        raise too_long(text, LONGEST, path, "Send it in parts.")

    @staticmethod
    def _spans(first: int, last: int, room: int, truncate: Side | None, stride: int | None) -> list[tuple[int, int]]:
        """The tokens [start, stop) of a text too long, whose own are [first, last), that run together."""
        if stride is None:
            return [(last - room, last)] if truncate == "left" else [(first, first + room)]
        return [(start, min(start + room, last)) for start in range(first, max(first + 1, last - stride), room - stride)]

    def _check_stride(self, stride: int) -> None:
        room = self._max_tokens - int(self._rust.num_special_tokens_to_add(is_pair=False))
        if not 0 <= stride <= room // 2:  # at a half each token is read twice; one below the room, `room` times
            raise InputError(
                f"is {stride}; it must be from 0 to {room // 2}, half of the {room} tokens that a window of this model holds.",
                where="parameters.stride",
            )

    def id_of(self, token: str) -> int | None:
        """The id of a token by its own spelling, None for one outside the vocabulary."""
        found: int | None = self._rust.token_to_id(token)
        return found

    def token_of(self, token_id: int) -> str:
        """The token's own spelling (`##ing`), empty for an id outside the vocabulary."""
        return self._rust.id_to_token(token_id) or ""

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        """Ids back to text."""
        return str(self._rust.decode(list(ids), skip_special_tokens=skip_special_tokens))


def add(total: int, tokens: int, most: int | None, path: str) -> int:
    """`total` with the tokens of one more text. Raises TooLargeError when that is more than `most`."""
    total += tokens
    if most is not None and total > most:
        said = f"the request has {total} tokens up to {path}, the limit is {most}."
        raise TooLargeError(said, hint="Send fewer or shorter texts a request.")
    return total


def _whole(encoding: Encoding, item: int) -> Encoded:
    @cache
    def marks() -> Marks:
        return Marks(
            offsets=tuple(encoding.offsets),
            special=tuple(flag == 1 for flag in encoding.special_tokens_mask),
            words=tuple(encoding.word_ids),
        )

    return Encoded(_array(encoding.ids), _array(encoding.type_ids), item, marks)


def _array(values: Sequence[int]) -> NDArray[np.int32]:
    return np.array(values, dtype=np.int32)


def _frame(encoding: Encoding) -> tuple[int, int]:
    """How many special tokens the post-processor put before and after the text."""
    mask = encoding.special_tokens_mask
    head = next((i for i, special in enumerate(mask) if not special), len(mask))
    tail = next((i for i, special in enumerate(reversed(mask)) if not special), len(mask))
    return head, tail


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

"""`tokenizer.json` to arrays. Its padding and truncation state is never used: both are decided per call, so threads share one object.

The library takes some 300 bytes and a microsecond a character, so every text has a bound before it gets there, texts go there in parts,
and only the tokens that are kept become Python objects.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from weakref import WeakValueDictionary

from tokenizers import Tokenizer as RustTokenizer

from hotfoot.contract.errors import ArtifactError, InputError, TooLargeError
from hotfoot.contract.manifest import TOKENIZER_DIR, Manifest, Side, combine, describe
from hotfoot.cutting import LONGEST, growing, head_of, splits_at_spaces, too_long
from hotfoot.encodings import FILE, Encodings, loads
from hotfoot.pairs import Frame, frame_of, joined, spans
from hotfoot.reading import Reader
from hotfoot.task import Cut, Encoded, Fit

CHARACTERS = 128  # a token, past which a text is too long without being counted: prose has 4 to 6, tables and hashes some 30
HEAD = 16  # characters a token that are tried first where a text is to be cut
Read = Callable[[list[str], list[str]], Iterator[Encoded]]


class Tokenizer:
    """Encodes texts for one artifact. Thread-safe: the Rust object does not change once it is open."""

    def __init__(self, source: RustTokenizer | Reader, max_tokens: int) -> None:
        """`source`: the library's object, to remember nothing of what it reads, or a reader that may."""
        self._reader = source if isinstance(source, Reader) else Reader(source, None)
        self._rust = self._reader.rust
        self._max_tokens = max_tokens
        self._cuts = splits_at_spaces(self._rust)
        self._edges: tuple[int, int] | None = None

    @property
    def encodings(self) -> Encodings | None:
        """What is remembered of the texts that it read, None where nothing is."""
        return self._reader.memory

    def forgetful(self) -> Tokenizer:
        """The same without a memory: it reads every text anew."""
        if self.encodings is None:
            return self
        other = copy(self)
        other._reader = Reader(self._rust, None)  # noqa: SLF001 - its own kind
        return other

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
        kept = self._max_tokens if truncate is not None and stride is None else None
        found = self._heads(texts, named, self._max_tokens) if cut else self._read(texts, named, whole, cut=kept)
        encoded: list[Encoded] = []
        total = 0
        for item, (one, path) in enumerate(zip(found, named, strict=True)):
            count = len(one.ids)
            if count == 0:
                raise InputError("the text has no tokens.", where=path)
            if count > self._max_tokens and whole:
                raise InputError(
                    f"the text has {count} tokens, the limit is {self._max_tokens}, special tokens included.",
                    hint="Shorten it, or ask for truncation.",
                    where=path,
                )
            uncut = Encoded(one.ids, one.type_ids, item, one.marks)
            if count <= self._max_tokens:
                total = add(total, count, most, path)
                encoded.append(uncut)
                continue
            head, tail = self._frame_of(one)
            windows = spans(head, count - tail, self._max_tokens - head - tail, truncate, stride)
            total = add(total, sum(head + stop - start + tail for start, stop in windows), most, path)
            encoded += [uncut.slice(head, start, stop, tail) for start, stop in windows]
        return tuple(encoded)

    def tokenize(self, texts: Sequence[str], *, paths: Sequence[str] = (), most: int | None = None) -> list[Encoded]:
        """Each text whole, past the model's limit too: to count and to show, not to run.

        Raises InputError for one that is longer than any text may be, TooLargeError for more than `most` tokens in all.
        """
        named = paths or [f"inputs[{i}]" for i in range(len(texts))]
        found: list[Encoded] = []
        total = 0
        for item, (one, path) in enumerate(zip(self._read(texts, named, whole=False), named, strict=True)):
            total = add(total, len(one.ids), most, path)
            found.append(Encoded(one.ids, one.type_ids, item, one.marks))
        return found

    def encode_pairs(
        self, firsts: Sequence[str], seconds: Sequence[str], fit: Fit, paths: Sequence[tuple[str, str]], *, most: int | None = None
    ) -> tuple[Encoded, ...]:
        """One Encoded a pair, cut as `fit` says, or as many windows as its second text takes.

        Raises InputError, naming a text's path, for a pair that is too long when neither is asked for, for a text without tokens, a
        text that is never cut and leaves the other no room, or a stride that leaves a window nothing new; TooLargeError for more than
        `most` tokens in all.
        """
        window = min(fit.window or self._max_tokens, self._max_tokens)
        heres, theres = [here for here, _ in paths], [there for _, there in paths]
        if fit.cuts == "second":
            heads = self._once(firsts, heres, lambda t, p: self._read(t, p, fit.first is None, special=False, cut=fit.first), fit.first)
            tails: Iterable[Encoded] = self._seconds(seconds, theres, fit, window)
        elif fit.cuts == "first":
            heads = self._once(firsts, heres, lambda t, p: self._seconds(t, p, fit, window))
            tails = self._once(seconds, theres, lambda t, p: self._read(t, p, whole=True, special=False))
        else:  # which of them is longer shows only when both are read to the end
            kept = None if fit.truncate is None else window
            heads, tails = (
                self._once(t, p, lambda t, p: self._read(t, p, kept is None, special=False, cut=kept))
                for t, p in ((firsts, heres), (seconds, theres))
            )
        encoded: list[Encoded] = []
        total = 0
        for pair, path in joined(self._frame, heads, tails, fit, window, paths):
            total = add(total, len(pair.ids), most, path)
            encoded.append(pair)
        return tuple(encoded)

    def encode_cut(self, texts: Sequence[str], seconds: Sequence[str], side: Side, cuts: Cut = "second") -> tuple[Encoded, ...]:
        """Texts, or pairs where there are seconds, cut to the limit at `side`; of a pair, what `cuts` says. Raises InputError."""
        if not seconds:
            return self.encode(texts, truncate=side)
        paths = [(f"texts[{i}]", f"seconds[{i}]") for i in range(len(texts))]
        return self.encode_pairs(texts, seconds, Fit(truncate=side, cuts=cuts), paths)

    @staticmethod
    def _once(texts: Sequence[str], paths: Sequence[str], read: Read, most: int | None = None) -> list[Encoded]:
        """Each text without special tokens, every distinct one read once, and cut to `most` tokens."""
        named = dict(zip(reversed(texts), reversed(paths), strict=True))  # the first place of each
        every = zip(named, read(list(named), list(named.values())), strict=True)
        found = {text: one if most is None or len(one.ids) <= most else one.slice(0, 0, most, 0) for text, one in every}
        if bare := next((text for text, first in found.items() if not len(first.ids)), None):
            raise InputError("the text has no tokens.", where=named[bare])
        return [found[text] for text in texts]

    def _seconds(self, texts: Sequence[str], paths: Sequence[str], fit: Fit, window: int) -> Iterator[Encoded]:
        if fit.truncate == "right" and fit.stride is None and self._cuts:
            return self._heads(texts, paths, window, special=False)
        kept = window if fit.truncate is not None and fit.stride is None else None
        return self._read(texts, paths, fit.truncate is None and fit.stride is None, special=False, cut=kept)

    def _read(
        self, texts: Sequence[str], paths: Sequence[str], whole: bool, *, special: bool = True, cut: int | None = None
    ) -> Iterator[Encoded]:
        """Every text as the library reads it; `whole` ones are refused at once when they cannot be short enough.

        cut: as the reader has it.
        """
        limit = min(LONGEST, CHARACTERS * self._max_tokens) if whole else LONGEST
        for text, path in zip(texts, paths, strict=True):
            if len(text) > limit:
                raise too_long(text, limit, path, "Shorten it, or ask for truncation." if whole else "Send it in parts.")
        yield from self._reader.read(texts, special=special, cut=cut)

    def _heads(self, texts: Sequence[str], paths: Sequence[str], limit: int, *, special: bool = True) -> Iterator[Encoded]:
        """Of each text at least as much as the tokens before the limit come from."""
        heads = [head_of(text, HEAD * limit, path) for text, path in zip(texts, paths, strict=True)]
        every = zip(self._reader.read(heads, special=special, cut=limit), texts, heads, paths, strict=True)
        for one, text, head, path in every:
            enough = len(one.ids) > limit or len(head) == len(text)
            yield one if enough else self._longer(text, len(head), path, limit, special=special)

    def _longer(self, text: str, read: int, path: str, limit: int, *, special: bool) -> Encoded:
        for size in growing(8 * HEAD * limit):
            head = head_of(text, size, path)
            if len(head) > read:
                (one,) = self._reader.read([head], special=special, cut=limit)
                if len(one.ids) > limit or len(head) == len(text):
                    return one
        raise too_long(text, LONGEST, path, "Send it in parts.")

    def _frame_of(self, longer: Encoded) -> tuple[int, int]:
        """How many special tokens stand before and after every text, as the first that is too long shows."""
        if self._edges is None:
            inside = [i for i, special in enumerate(longer.special) if not special]
            self._edges = inside[0], len(longer.ids) - 1 - inside[-1]
        return self._edges

    def _check_stride(self, stride: int) -> None:
        room = self._max_tokens - int(self._rust.num_special_tokens_to_add(is_pair=False))
        if not 0 <= stride <= room // 2:  # at a half each token is read twice; one below the room, `room` times
            raise InputError(
                f"is {stride}; it must be from 0 to {room // 2}, half of the {room} tokens that a window of this model holds.",
                where="parameters.stride",
            )

    @cached_property
    def unknown_id(self) -> int | None:
        """The id that stands for what the vocabulary has no token for; None where bytes make up for all."""
        model = self._rust.model
        own = getattr(model, "unk_id", None)
        token = getattr(model, "unk_token", None)
        return own if own is not None else None if token is None else self.id_of(token)

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


_readers: WeakValueDictionary[tuple[str, int], Reader] = WeakValueDictionary()  # by hash and bound; gone with the last that uses it
_opening = threading.Lock()


def open_tokenizer(artifact: Path, manifest: Manifest, layer_root: Path, cache_bytes: int = 0) -> Tokenizer:
    """The artifact's tokenizer, ready to encode; what it remembers, in `cache_bytes`, serves all artifacts of the process that have it."""
    place = find(artifact, manifest, layer_root)
    name = (manifest.tokenizer.hash, cache_bytes)
    with _opening:
        reader = _readers.get(name)
        if reader is None:
            reader = Reader(RustTokenizer.from_file(str(place / "tokenizer.json")), _memory(place, cache_bytes))
            _readers[name] = reader
    return Tokenizer(reader, manifest.max_tokens)


def _memory(place: Path, most_bytes: int) -> Encodings | None:
    """A memory that begins with what was known at build time: as entries like any other, so that those nobody asks for make room."""
    if not most_bytes:
        return None
    made = Encodings(most_bytes)
    if (place / FILE).is_file():
        for key, kept in loads((place / FILE).read_text(encoding="utf-8")).items():
            made.put(key, kept)
    return made

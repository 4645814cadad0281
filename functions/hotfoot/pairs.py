"""Two texts in one encoding: each is tokenised alone and once, and they are joined here in the frame that the tokenizer puts around pairs.

A tokenizer reads the two texts of a pair independently of each other, so a query is not read again for each of its documents, and
the windows over a long text cost no second reading.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer as RustTokenizer

from hotfoot.contract.errors import ArtifactError, InputError
from hotfoot.contract.manifest import Side
from hotfoot.task import Encoded, Fit, Marks

Ids = NDArray[np.int32]
Span = tuple[int, int]
T = TypeVar("T")


@dataclass(frozen=True)
class Frame:
    """Special tokens before, between and after the two texts of a pair, and the type id of each part, in the order they stand in."""

    before: Ids
    between: Ids
    after: Ids
    types: tuple[Ids, int, Ids, int, Ids]

    @property
    def tokens(self) -> int:
        """How many special tokens a pair has."""
        return len(self.before) + len(self.between) + len(self.after)

    def join(self, first: Encoded, second: Encoded, start: int, stop: int, item: int) -> Encoded:
        """The first text whole and tokens [start, stop) of the second; neither has special tokens of its own."""
        head = len(self.before) + len(first.ids) + len(self.between)
        before, a, between, b, after = self.types
        types = (before, np.full(len(first.ids), a), between, np.full(stop - start, b), after)

        @cache
        def marks() -> Marks:
            one, two = first.marks(), second.marks()
            return Marks(
                offsets=self._around((0, 0), one.offsets, two.offsets[start:stop]),
                special=self._around(True, (False,) * len(first.ids), (False,) * (stop - start)),
                words=self._around(None, one.words, two.words[start:stop]),
            )

        return Encoded(
            ids=np.concatenate([self.before, first.ids, self.between, second.ids[start:stop], self.after]),
            type_ids=np.concatenate(types, dtype=np.int32),
            item=item,
            marks=marks,
            second=(head, head + stop - start),
        )

    def _around(self, mark: T, first: tuple[T, ...], second: tuple[T, ...]) -> tuple[T, ...]:
        parts = ((mark,) * len(self.before), first, (mark,) * len(self.between), second, (mark,) * len(self.after))
        return tuple(chain.from_iterable(parts))


def frame_of(rust: RustTokenizer) -> Frame:
    """The frame that this tokenizer puts around pairs. Raises ArtifactError for one that keeps none apart."""
    found = rust.encode("a", "b")
    texts, ids, types = found.sequence_ids, np.array(found.ids, np.int32), np.array(found.type_ids, np.int32)
    if 0 not in texts or 1 not in texts:
        raise ArtifactError("the tokenizer makes no pairs of texts", hint="Its post-processor needs a form for pairs.")
    a, b = texts.index(0), texts.index(1)
    a_end, b_end = len(texts) - texts[::-1].index(0), len(texts) - texts[::-1].index(1)
    return Frame(
        before=ids[:a],
        between=ids[a_end:b],
        after=ids[b_end:],
        types=(types[:a], int(types[a]), types[a_end:b], int(types[b]), types[b_end:]),
    )


def joined(
    frame: Frame, firsts: Iterable[Encoded], seconds: Iterable[Encoded], fit: Fit, window: int, paths: Sequence[tuple[str, str]]
) -> Iterator[tuple[Encoded, str]]:
    """Texts without special tokens as pairs of `window` tokens at most, each with the path of the text that may be cut.

    Raises InputError, naming a text's path, for a second text without tokens, a pair that is too long when neither a cut nor windows
    are asked for, a text that is never cut and leaves the other no room, or a stride that leaves a window nothing new.
    """
    for item, (first, second, named) in enumerate(zip(firsts, seconds, paths, strict=True)):
        one, two = len(first.ids), len(second.ids)
        if two == 0:
            raise InputError("the text has no tokens.", where=named[1])
        path = _gives_way(fit, one, two, named)
        for (begin, end), (start, stop) in _places(frame, first, second, fit, window, named):
            kept = first if end - begin == one else first.slice(0, begin, end, 0)
            yield frame.join(kept, second, start, stop, item), path


def _places(frame: Frame, first: Encoded, second: Encoded, fit: Fit, window: int, named: tuple[str, str]) -> list[tuple[Span, Span]]:
    """Which tokens of both texts stand in each of their pairs; several where the second is read in windows."""
    (here, there), one, two, stride = named, len(first.ids), len(second.ids), fit.stride
    room = window - frame.tokens
    if fit.cuts == "first":
        most = room_beside(window, frame, second, there), two
    elif fit.cuts == "second":
        most = one, room_beside(window, frame, first, here)
        stride = None if fit.stride is None else stride_in(fit, most[1], here)
    else:
        most = longest_first(one, two, room)
    if one + two <= room:
        return [((0, one), (0, two))]
    if stride is not None:
        return [((0, one), span) for span in spans(0, two, most[1], None, stride)]
    if fit.truncate is None:
        raise InputError(
            f"the pair has {one + two + frame.tokens} tokens, the limit is {window}, special tokens included.",
            hint="Shorten it, or ask for truncation.",
            where=_gives_way(fit, one, two, named),
        )
    return [(spans(0, one, most[0], fit.truncate, None)[0], spans(0, two, most[1], fit.truncate, None)[0])]


def _gives_way(fit: Fit, one: int, two: int, named: tuple[str, str]) -> str:
    """The path of the text that is cut, or must be shortened."""
    return named[1] if fit.cuts == "second" or (fit.cuts == "longest" and two > one) else named[0]


def spans(first: int, last: int, room: int, truncate: Side | None, stride: int | None) -> list[Span]:
    """The tokens [start, stop) of a text too long, whose own are [first, last), that run together."""
    if stride is None:
        return [(last - room, last)] if truncate == "left" else [(first, first + room)]
    return [(start, min(start + room, last)) for start in range(first, max(first + 1, last - stride), room - stride)]


def longest_first(one: int, two: int, room: int) -> tuple[int, int]:
    """How many tokens of either text stay: the longer is cut down to the shorter, and then both; an odd one goes to the longer.

    As transformers and its tokenizers cut pairs where nothing else is asked for.
    """
    short = min(one, two)
    short, long = (room // 2, room - room // 2) if 2 * short > room else (short, room - short)
    return (long, short) if one > two else (short, long)


def room_beside(window: int, frame: Frame, first: Encoded, path: str) -> int:
    """How many tokens of the other text a window holds beside this one. Raises InputError that names it where there are none."""
    room = window - frame.tokens - len(first.ids)
    if room < 1:
        raise InputError(
            f"has {len(first.ids)} tokens; beside the {frame.tokens} special ones they leave no room for the other text,"
            f" as a pair has {window} tokens at most.",
            hint="Shorten it.",
            where=path,
        )
    return room


def stride_in(fit: Fit, room: int, path: str) -> int:
    """The overlap of windows that hold `room` tokens of the second text. Raises InputError for one that leaves them nothing new."""
    stride = fit.stride or 0
    if stride < room:
        return stride
    if fit.yields:
        return room // 2
    raise InputError(
        f"leaves {room} tokens of a window for the other text, so windows that overlap by {stride} would read nothing new.",
        hint="The overlap must be shorter than the window less the question and the special tokens.",
        where=path,
    )

"""What the graph said of an input, remembered: it depends on that input alone, bit for bit, so it can be told again."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Protocol

import numpy as np

from hotfoot.cache import Cache, Stats
from hotfoot.task import Array, Encoded, Session

# larger ones cost more bytes than the runs they save: 128 labels for each of 512 tokens fit, a vocabulary for each token does not
LARGEST = 2**18
KEY_BYTES = 32 + 33  # a digest and the object around it
ARRAY_BYTES = 128  # the object around an array's numbers
WORTH_ASKING_S = 0.1  # an input that takes less than this to run is not looked up over a network
KEPT = 0.9  # how much of what earlier runs took still counts after one more


class Shared(Protocol):
    """A memory that other processes share. It never fails: what it cannot tell in time, it does not know."""

    def prepare(self) -> None:
        """Get ready to be asked."""
        ...

    def get(self, keys: Sequence[bytes]) -> Mapping[bytes, Array]:
        """Those of the keys that it knows."""
        ...

    def put(self, found: Mapping[bytes, Array]) -> None:
        """Keep what was found for each key."""
        ...

    def forget(self) -> None:
        """Let go what must not be in a snapshot of this process; it is made anew when it is needed."""
        ...


class Pace:
    """How long a token takes here to run, from the runs so far, those of late above all. Thread-safe."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._tokens = 0.0
        self._lock = threading.Lock()

    def add(self, tokens: int, seconds: float) -> None:
        """One more run."""
        with self._lock:
            self._seconds = KEPT * self._seconds + seconds
            self._tokens = KEPT * self._tokens + tokens

    def expected(self, tokens: int) -> float:
        """Seconds that an input of so many tokens is likely to take; 0 before the first run."""
        with self._lock:
            return tokens * self._seconds / self._tokens if self._tokens else 0.0


class Outputs:
    """The outputs of one artifact's encoder: the latest here, and where there is a shared memory, those of other processes there.

    An array in it is read by many threads, so none of them can change it. Thread-safe.
    """

    def __init__(self, most_bytes: int, shared: Shared | None = None) -> None:
        self._cache: Cache[bytes, Array] = Cache(most_bytes)
        self.shared = shared
        self.pace = Pace()

    @property
    def stats(self) -> Stats:
        """The memory's counts in this process."""
        return self._cache.stats

    def known(self, wanted: Mapping[bytes, Encoded]) -> dict[bytes, Array]:
        """What is remembered of these inputs; the shared memory is asked only for those whose run takes longer than asking."""
        found = {key: array for key in wanted if (array := self._cache.get(key)) is not None}
        if self.shared is None:
            return found
        slow = [k for k, e in wanted.items() if k not in found and self.pace.expected(len(e.ids)) > WORTH_ASKING_S]
        told = self.shared.get(slow) if slow else {}
        return {**found, **{key: self.keep(key, array) for key, array in told.items()}}

    def keep(self, key: bytes, output: Array) -> Array:
        """Remember an output; gives it as every later request will get it: a copy that cannot be changed.

        A copy, as a row of a batch would keep the whole batch alive. One that is too large to be kept is not copied.
        """
        if output.nbytes <= LARGEST:
            output = output.copy()
            self._cache.put(key, output, output.nbytes + ARRAY_BYTES + KEY_BYTES)
        output.setflags(write=False)
        return output

    def warm(self, tokens: int, seconds: float, most_tokens: int) -> None:
        """Note what a run before the first request took; make the shared memory ready where inputs may be slow enough to be asked for."""
        self.pace.add(tokens, seconds)
        if self.shared is not None and self.pace.expected(most_tokens) > WORTH_ASKING_S:
            self.shared.prepare()

    def ran(self, made: Mapping[bytes, tuple[Encoded, Array]], seconds: float) -> None:
        """Note what a run took, and tell the shared memory of what was slow to make."""
        expected, tokens = self.pace.expected, sum(len(e.ids) for e, _ in made.values())
        self.pace.add(tokens, seconds)
        if self.shared is None:
            return
        slow = {key: array for key, (e, array) in made.items() if expected(len(e.ids)) > WORTH_ASKING_S}
        if slow:
            self.shared.put(slow)


class Remembering:
    """A session that runs only what is new, for tasks to use as they use any other; made for one request.

    `remembered`: how many of its inputs were known before the request. Equal inputs of a request run once.
    """

    def __init__(self, session: Session, outputs: Outputs) -> None:
        self._session, self._outputs = session, outputs
        self.remembered = 0

    def run(self, inputs: Sequence[Encoded]) -> list[Array]:
        """As the session's own, of arrays that cannot be changed."""
        keys = [key_of(e) for e in inputs]
        wanted = dict(zip(keys, inputs, strict=True))
        found = self._outputs.known(wanted)
        self.remembered += sum(key in found for key in keys)
        new = [key for key in wanted if key not in found]
        if new:
            start = time.perf_counter()
            rows = self._session.run([wanted[key] for key in new])
            seconds = time.perf_counter() - start
            made = {key: (wanted[key], self._outputs.keep(key, row)) for key, row in zip(new, rows, strict=True)}
            self._outputs.ran(made, seconds)
            found.update((key, array) for key, (_, array) in made.items())
        return [found[key] for key in keys]


def key_of(encoded: Encoded) -> bytes:
    """A name for all that the graph is given of an input and that the session keeps of its output. Two inputs share none."""
    ids, types = (array.astype(np.int32, copy=False).tobytes() for array in (encoded.ids, encoded.type_ids))
    # with the lengths before them, no two inputs give the same bytes
    parts = [len(ids).to_bytes(8, "big"), ids, types]
    if encoded.reads is not None:
        parts += [len(encoded.reads).to_bytes(8, "big"), encoded.reads.astype(np.int64, copy=False).tobytes()]
    return blake2b(b"".join(parts), digest_size=32).digest()

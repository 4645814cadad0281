"""What a task is: a record of plain functions, and strings that tell the build stage what to export.

A file `hotfoot/tasks/<name>.py` with a `TASK` is a task; so is any module of the user's own (`task = "mypkg.mytask"`).
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from hotfoot import tasks
from hotfoot.contract.errors import UnsupportedError
from hotfoot.contract.manifest import Manifest, Side

Array = NDArray[np.float32]
Options = Mapping[str, Any]
# what the build stage proves a task on: texts as they are, questions with a context, queries with documents, texts with hypotheses on
# them, texts with a masked word
Corpus = Literal["texts", "questions", "rankings", "hypotheses", "masked"]
Cut = Literal["first", "second"]
Family = Literal["encoder", "decoder", "encoder-decoder"]
T = TypeVar("T")


@dataclass(frozen=True)
class ExportSpec:
    """What to export: the transformers auto class, optimum's task name, and the one output that the task reads.

    pools: the output is token vectors, which become one vector a text as the model's own files say. labels: the output's last axis
    is the labels that config.json names. beside: further outputs of shape (batch, tokens) that the task reads: they leave the graph
    as one with `output`, of shape (batch, tokens, outputs) in this order. family: what kind of graphs, and so of passes, it takes.
    """

    auto_class: str
    optimum_task: str
    output: str
    pools: bool = False
    labels: bool = True
    beside: tuple[str, ...] = ()
    family: Family = "encoder"


@dataclass(frozen=True)
class Marks:
    """Where a text's tokens stand. offsets: (start, end) of each in code points of the text as sent, (0, 0) for special tokens.

    words: index of the word that each token belongs to, None for special tokens.
    """

    offsets: tuple[tuple[int, int], ...]
    special: tuple[bool, ...]
    words: tuple[int | None, ...]


@dataclass(frozen=True)
class Encoded:
    """One tokenised text, or a pair of them, special tokens included, without padding.

    ids, type_ids: int32 of shape (tokens,). item: which of the request's texts it is a window of. marks: makes the tokens' places
    when they are first asked for, as they take four times as long as the ids and most tasks have no use for them. second: of a
    pair, the tokens [start, stop) of the second text. reads: the tokens whose outputs the task wants, None for all. target: what an
    encoder-decoder's decoder is given to read where it makes no text of its own, as parity asks.
    """

    ids: NDArray[np.int32]
    type_ids: NDArray[np.int32]
    item: int
    marks: Callable[[], Marks]
    second: tuple[int, int] | None = None
    reads: NDArray[np.intp] | None = None
    target: NDArray[np.int32] | None = None

    @property
    def offsets(self) -> tuple[tuple[int, int], ...]:
        """(start, end) of each token, as Marks has them."""
        return self.marks().offsets

    @property
    def special(self) -> tuple[bool, ...]:
        """Whether each token is one that the tokenizer added."""
        return self.marks().special

    @property
    def words(self) -> tuple[int | None, ...]:
        """Each token's word, as Marks has them."""
        return self.marks().words

    def slice(self, head: int, start: int, stop: int, tail: int) -> Encoded:
        """The tokens [start, stop) inside the frame of the text's own special tokens, `head` before and `tail` after.

        Cut here and not by a tokenizer's library: its truncation is state that threads would share, and a second post-processing
        would shift byte-level offsets twice.
        """
        end = len(self.ids) - tail
        keep = np.r_[0:head, start:stop, end : end + tail]

        def cut(every: tuple[T, ...]) -> tuple[T, ...]:
            return every[:head] + every[start:stop] + every[end:]

        @cache
        def marks() -> Marks:
            whole = self.marks()
            return Marks(cut(whole.offsets), cut(whole.special), cut(whole.words))

        return Encoded(self.ids[keep], self.type_ids[keep], self.item, marks)


@dataclass(frozen=True)
class Request:
    """A parsed request: the texts in order, the path of each in the body, and the task's options with defaults filled in.

    single: the client sent a bare text. truncate: the side to cut at, None to refuse a text that is too long. beside: texts that go
    with them: the query of documents, the question of each context.
    """

    texts: tuple[str, ...]
    paths: tuple[str, ...]
    single: bool
    truncate: Side | None
    options: Options
    beside: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fit:
    """How a pair is brought to the limit: one of its texts is cut, or its second read in windows.

    truncate: the side to cut at, None to refuse a pair that is too long. cuts: which text is cut, the other never is; longest: the
    longer, and both once they are equal, as transformers does where nothing else is asked for. stride: read the second in windows that
    overlap by so many tokens. yields: a stride that would leave a window nothing new becomes half of what the window holds; else it is
    refused. window: tokens of a pair at most, None for the model's limit. first: tokens of the first text at most, the rest is cut;
    None for all.
    """

    truncate: Side | None = None
    stride: int | None = None
    yields: bool = False
    window: int | None = None
    first: int | None = None
    cuts: Cut | Literal["longest"] = "second"


class Tokenizer(Protocol):
    """Text to ids; knows the artifact's limit."""

    @property
    def max_tokens(self) -> int:
        """The longest input, special tokens included."""
        ...

    def encode(
        self, texts: Sequence[str], *, truncate: Side | None, paths: Sequence[str] = (), stride: int | None = None
    ) -> tuple[Encoded, ...]:
        """One Encoded a text; with a stride, as many windows a text as it takes, `stride` tokens overlapping."""
        ...

    def encode_pairs(
        self, firsts: Sequence[str], seconds: Sequence[str], fit: Fit, paths: Sequence[tuple[str, str]]
    ) -> tuple[Encoded, ...]:
        """One Encoded a pair, or as many windows as the second text takes; `paths` names both texts of each."""
        ...

    def id_of(self, token: str) -> int | None:
        """The id of a token by its own spelling (`##ing`), None for one outside the vocabulary."""
        ...

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        """Ids back to text."""
        ...


class Session(Protocol):
    """Runs the artifact's graphs on a list of inputs, in micro-batches that never change a result."""

    def run(self, inputs: Sequence[Encoded]) -> list[Array]:
        """One output array an input, in order, padding removed."""
        ...


class Generator(Protocol):
    """A generative artifact's graphs. A state is never changed, so that a search may go on from one more than once."""

    @property
    def limit(self) -> int:
        """The most tokens that the decoder may have read and made together."""
        ...

    def begin(self, inputs: Encoded) -> Any:
        """The state before the decoder's first token."""
        ...

    def feed(self, state: Any, ids: Sequence[int]) -> tuple[Array, Any]:
        """The logits, shape (vocabulary,), after the last of `ids`, and the state that has read them."""
        ...


@dataclass(frozen=True)
class Means:
    """What generating takes. decode: ids to text, special tokens left out.

    check: called before every run of a graph with the number of texts done; raises when time is up.
    """

    graphs: Generator
    decode: Callable[[Sequence[int]], str]
    check: Callable[[int], None]


def everything(_ids: NDArray[np.int64], output: Array) -> Array:
    """The probe of tasks with small outputs."""
    return output


def nothing(_facts: Mapping[str, Any]) -> tuple[str, ...]:
    """What is known of requests to most tasks."""
    return ()


@dataclass(frozen=True)
class Task:
    """One task, for both sides of the wall.

    parameters: what `parse` accepts. facts: what the manifest must know, out of config.json. parity: agreement of the
    artifact's outputs with the original's, input by input, as numbers that grow with agreement; thresholds: the least of
    each, by precision. sample: an input that the task answers, for warm-up and documentation, or what makes one out of the
    manifest. probe: what parity compares of one input, given its ids and what the graph says of it: all, unless that is large (a
    whole vocabulary a token). It is asked of the original too, so that neither side keeps more. corpus: what the task is proven
    on. generate: of a task that makes text, one answer an input for `decode` to take; its `run` then gives the logits of given
    tokens, for parity. known: out of the facts, the texts that requests will bring again and again.
    """

    name: str
    summary: str
    export: ExportSpec
    parameters: tuple[str, ...]
    facts: Callable[[Mapping[str, Any]], dict[str, Any]]
    parse: Callable[[Any, Options, Manifest], Request]
    encode: Callable[[Request, Tokenizer], tuple[Encoded, ...]]
    run: Callable[[Session, tuple[Encoded, ...]], list[Array]]
    decode: Callable[[Request, tuple[Encoded, ...], list[Any], Manifest], Any]
    parity: Callable[[Sequence[Array], Sequence[Array], Manifest], dict[str, float]]
    thresholds: Mapping[str, Mapping[str, float]]
    sample: Any
    probe: Callable[[NDArray[np.int64], Array], Array] = everything
    corpus: Corpus = "texts"
    generate: Callable[[Request, tuple[Encoded, ...], Means], list[Any]] | None = None
    known: Callable[[Mapping[str, Any]], tuple[str, ...]] = nothing

    @property
    def cuts(self) -> Cut:
        """Which text is cut of the pairs that the task is proven on: a document for its query, a text for its hypothesis."""
        return "first" if self.corpus == "hypotheses" else "second"


def encode_texts(request: Request, tokenizer: Tokenizer) -> tuple[Encoded, ...]:
    """The encode step of tasks that read each text once."""
    return tokenizer.encode(request.texts, truncate=request.truncate, paths=request.paths)


def run_encoder(session: Session, inputs: tuple[Encoded, ...]) -> list[Array]:
    """The run step of every encoder task: one pass over the graph."""
    return session.run(inputs)


def names() -> list[str]:
    """The tasks that come with hotfoot, by their Hub names."""
    return sorted(m.name.replace("_", "-") for m in pkgutil.iter_modules(tasks.__path__) if not m.name.startswith("_"))


def load(name: str) -> Task:
    """The task called `name`: one of `names()`, or a dotted module of the user's own with a `TASK`.

    Raises UnsupportedError that lists the tasks.
    """
    module = f"{tasks.__name__}.{name.replace('-', '_')}" if name in names() else name
    if not all(part.isidentifier() for part in module.split(".")) or "." not in module:
        raise UnsupportedError(f"no task {name!r}.", hint=f"There are: {', '.join(names())}; or a module of your own, as mypkg.mytask.")
    try:
        found = import_module(module)
    except ImportError as error:
        raise UnsupportedError(f"task module {name!r} cannot be imported: {error}.") from None
    if not hasattr(found, "TASK"):
        raise UnsupportedError(f"task module {name!r} has no TASK.")
    task = found.TASK
    if not isinstance(task, Task):
        raise UnsupportedError(f"{name}.TASK is a {type(task).__name__}, not a hotfoot.task.Task.")
    return task

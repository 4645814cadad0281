"""A batch of records through the model at once. A bad text becomes an error record and leaves its neighbours alone."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hotfoot import task
from hotfoot.bulk.deadline import Deadline, OutOfTimeError
from hotfoot.bulk.keys import DIGEST
from hotfoot.bulk.mask import masked, wordless
from hotfoot.bulk.readers import Fault, Record
from hotfoot.contract.bulk import BulkOptions
from hotfoot.contract.errors import HotfootError, InputError, TooLargeError, UnsupportedError
from hotfoot.model import Model
from hotfoot.task import Array, Encoded, Session
from hotfoot.wire import dumps

STRIDE = 64  # tokens that two windows over a long text share: more than a name has
# What one text may cost, the windows' overlap included: some 450 kB of English. A large model on one processor reads 500 tokens a
# second, so that is five minutes, a function's usual time. A text is answered whole or not at all: one that takes longer than the
# function has would be begun anew forever.
TEXT_TOKENS = 2**17
RUN_TOKENS = 2**14  # between two looks at the clock: tens of seconds for that same model
REFUSALS = (InputError, TooLargeError)  # what is wrong with a text and with nothing else


@dataclass(frozen=True)
class Answers:
    """One JSON line a record, in order, and what the model read for them."""

    lines: tuple[bytes, ...]
    tokens: int = 0
    characters: int = 0


@dataclass(frozen=True)
class Work:
    """A model, what the pipeline wants of it, and the task's parameters that follow from that."""

    model: Model
    options: BulkOptions
    parameters: Mapping[str, Any]

    def answer(self, records: Sequence[Record], deadline: Deadline | None = None) -> Answers:
        """Answer every record: `{"line", "id", "text", "prediction", "digest", "options"}`, or with `error` for text and prediction.

        Raises OutOfTimeError where that would end too late.
        """
        faults = ((i, record.fault or self._too_large(record.text)) for i, record in enumerate(records))
        outcomes: dict[int, Any] = {i: fault for i, fault in faults if fault}
        open_ones = [i for i in range(len(records)) if i not in outcomes]
        found, tokens = self._predict([records[i].text for i in open_ones], Clocked(self.model.session, deadline or Deadline()))
        outcomes.update(zip(open_ones, found, strict=True))
        lines = tuple(self._line(record, outcomes[i]) for i, record in enumerate(records))
        return Answers(lines, tokens, sum(len(records[i].text) for i in open_ones))

    def _too_large(self, text: str) -> Fault | None:
        """A fault for a text that only windows could read, and too many of them; counted before they are made."""
        own, stride = self.model.tokenizer, self.parameters.get("stride")
        if "doc_stride" in self.model.task.parameters and 2 * len(text) > TEXT_TOKENS:  # windows read most tokens twice
            (whole,) = own.tokenize([text])
            most = TEXT_TOKENS // 2
            return Fault("too_large", f"the text has {len(whole.ids)} tokens, {most} is the most") if len(whole.ids) > most else None
        if stride is None or len(text) <= own.max_tokens:
            return None
        whole, bare = own.tokenize([text, ""])
        frame = len(bare.ids)
        windows = math.ceil((len(whole.ids) - frame - stride) / (own.max_tokens - frame - stride))
        if len(whole.ids) <= own.max_tokens or windows * own.max_tokens <= TEXT_TOKENS:
            return None
        return Fault("too_large", f"the text takes {windows} windows of {own.max_tokens} tokens, {TEXT_TOKENS} tokens is the most")

    def _predict(self, texts: list[str], session: Clocked) -> tuple[list[Any], int]:
        """An answer or a Fault for each text, and the tokens read. All at once; only after a refusal is each looked at alone."""
        if not texts:
            return [], 0
        try:
            return self._together(texts, session)
        except REFUSALS:
            outcomes: list[Any] = [self._fault(text) for text in texts]
        good = [i for i, fault in enumerate(outcomes) if fault is None]
        try:
            found, tokens = self._together([texts[i] for i in good], session) if good else ([], 0)
        except REFUSALS:  # a task that refuses after encoding
            return self._one_by_one(texts, session)
        for i, answer in zip(good, found, strict=True):
            outcomes[i] = answer
        return outcomes, tokens

    def _together(self, texts: list[str], session: Clocked) -> tuple[list[Any], int]:
        own = self.model
        request = own.task.parse(texts, self.parameters, own.manifest)
        encoded = own.task.encode(request, own.tokenizer)
        outputs = own.task.run(session, encoded) if own.task.generate is None else own.generate(request, encoded, session.look)
        return list(own.task.decode(request, encoded, outputs, own.manifest)), sum(len(e.ids) for e in encoded)

    def _one_by_one(self, texts: list[str], session: Clocked) -> tuple[list[Any], int]:
        outcomes: list[Any] = []
        total = 0
        for text in texts:
            try:
                found, tokens = self._together([text], session)
            except REFUSALS as error:
                found, tokens = [self._refused(error)], 0
            outcomes += found
            total += tokens
        return outcomes, total

    def _fault(self, text: str) -> Fault | None:
        own = self.model
        try:
            own.task.encode(own.task.parse([text], self.parameters, own.manifest), own.tokenizer)
        except REFUSALS as error:
            return self._refused(error)
        return None

    def _refused(self, error: HotfootError) -> Fault:
        # hotfoot's own tasks never quote a text, a user's own might
        own = self.model.task.name in task.names()
        return Fault(error.kind, error.message if own else "the task refused the text")

    def _line(self, record: Record, outcome: Any) -> bytes:
        if isinstance(outcome, Fault):
            return self._error(record, outcome)
        fields: dict[str, Any] = {"line": record.line}
        if record.id is not None:
            fields["id"] = record.id
        if self.options.mask:
            fields["text"] = masked(record.text, outcome)
            outcome = wordless(outcome)
        try:
            return dumps({**fields, "prediction": outcome, **self._marks()}) + b"\n"
        except HotfootError as error:  # a number that is not finite
            return self._error(record, Fault(error.kind, error.message))

    def _error(self, record: Record, fault: Fault) -> bytes:
        fields: dict[str, Any] = {"line": record.line, "error": {"kind": fault.kind, "message": fault.message}}
        # with mask too: whoever names an id_field wants to find the record again. An id that is the text itself is text
        if record.id is not None and self.options.id_field != self.options.field:
            fields["id"] = record.id
        return dumps({**fields, **self._marks()}) + b"\n"

    def _marks(self) -> dict[str, str]:
        return {"digest": self.model.manifest.digest[:DIGEST], "options": self.options.fingerprint}


class Clocked:
    """A session that runs so many tokens at a time, and looks at the clock in between; results are those of one run."""

    def __init__(self, session: Session, deadline: Deadline) -> None:
        self._session, self._deadline = session, deadline
        self._begun, self._last = False, 0.0  # whoever asked has looked before the first

    def run(self, inputs: Sequence[Encoded]) -> list[Array]:
        """One output array an input, in order. Raises OutOfTimeError."""
        outputs: list[Array] = []
        for some in _slices(inputs):
            self.look()
            outputs += self._session.run(some)
            self._deadline.lap(time.monotonic() - self._last)
        return outputs

    def look(self, _done: int = 0) -> None:
        """Before a run of a graph: note what the one before took, and raise OutOfTimeError where this one could end too late."""
        now = time.monotonic()
        if self._begun:
            self._deadline.lap(now - self._last)
        if self._begun and self._deadline.is_near():
            raise OutOfTimeError("the time ran out within a batch")
        self._begun, self._last = True, now


def _slices(inputs: Sequence[Encoded]) -> Iterator[Sequence[Encoded]]:
    first = size = 0
    for number, encoded in enumerate(inputs):
        if size and size + len(encoded.ids) > RUN_TOKENS:
            yield inputs[first:number]
            first, size = number, 0
        size += len(encoded.ids)
    if size:
        yield inputs[first:]


def prepare(model: Model, options: BulkOptions) -> Work:
    """Check that the model can do what is asked, before the first object is read.

    Raises UnsupportedError for a task that does not read single texts or that has no entities to mask, InputError for a
    parameter or a stride that the task refuses.
    """
    own, manifest = model.task, model.manifest
    sample = _sample(model, options)
    if options.mask and own.name != "token-classification":
        raise UnsupportedError(f"mask needs entities, which {own.name} does not find.", hint="Use a token-classification artifact.")
    aggregated = options.parameters.get("aggregation_strategy") != "none"
    if options.mask and not aggregated:
        raise InputError("must not be none with mask: single tokens are not entities.", where="parameters.aggregation_strategy")
    parameters = dict(options.parameters)
    if options.stride:
        parameters["doc_stride" if "doc_stride" in own.parameters else "stride"] = options.stride
    elif "stride" in own.parameters and aggregated:
        parameters["stride"] = min(STRIDE, manifest.max_tokens // 4)
    # windows read the whole text, so where there are any nothing is left to cut
    if options.truncate and "stride" not in parameters and "doc_stride" not in own.parameters:
        parameters["truncate"] = True
    request = own.parse([sample], parameters, manifest)
    own.encode(replace(request, truncate=manifest.tokenizer.truncation_side), model.tokenizer)
    return Work(model, options, parameters)


# the parameters of tasks that read more than a text
ASKED = {"question": "one question", "query": "one query", "candidate_labels": "the same labels"}


def _sample(model: Model, options: BulkOptions) -> str:
    """A text that the task answers. Raises UnsupportedError for a task that reads no texts, InputError where what it asks is missing."""
    if isinstance(model.sample, str):
        return model.sample
    asked = next((name for name in ASKED if name in model.task.parameters), None)
    if asked is None:
        raise UnsupportedError(f"the task {model.task.name} does not read texts one by one, so it has no bulk form.")
    if asked not in options.parameters and not model.manifest.facts.get(asked):
        raise InputError(f"is missing: {model.task.name} puts {ASKED[asked]} to every text.", where=f"parameters.{asked}")
    return "A text."

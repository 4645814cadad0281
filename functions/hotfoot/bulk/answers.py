"""A batch of records through the model at once. A bad text becomes an error record and leaves its neighbours alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hotfoot import task
from hotfoot.bulk.keys import DIGEST
from hotfoot.bulk.mask import masked, wordless
from hotfoot.bulk.readers import Fault, Record
from hotfoot.contract.bulk import BulkOptions
from hotfoot.contract.errors import HotfootError, InputError, UnsupportedError
from hotfoot.model import Model
from hotfoot.wire import dumps

STRIDE = 64  # tokens that two windows over a long text share: more than a name has


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

    def answer(self, records: Sequence[Record]) -> Answers:
        """Answer every record: `{"line", "id", "text", "prediction", "digest", "options"}`, or `{"line", "error"}`."""
        outcomes: dict[int, Any] = {i: record.fault for i, record in enumerate(records) if record.fault}
        open_ones = [i for i in range(len(records)) if i not in outcomes]
        found, tokens = self._predict([records[i].text for i in open_ones])
        outcomes.update(zip(open_ones, found, strict=True))
        lines = tuple(self._line(record, outcomes[i]) for i, record in enumerate(records))
        return Answers(lines, tokens, sum(len(records[i].text) for i in open_ones))

    def _predict(self, texts: list[str]) -> tuple[list[Any], int]:
        """An answer or a Fault for each text, and the tokens read. All at once; only after a refusal is each looked at alone."""
        if not texts:
            return [], 0
        try:
            return self._together(texts)
        except InputError:
            outcomes: list[Any] = [self._fault(text) for text in texts]
        good = [i for i, fault in enumerate(outcomes) if fault is None]
        try:
            found, tokens = self._together([texts[i] for i in good]) if good else ([], 0)
        except InputError:  # a task that refuses after encoding
            return self._one_by_one(texts)
        for i, answer in zip(good, found, strict=True):
            outcomes[i] = answer
        return outcomes, tokens

    def _together(self, texts: list[str]) -> tuple[list[Any], int]:
        prediction = self.model.answer(self.model.task.parse(texts, self.parameters, self.model.manifest))
        return list(prediction.answer), prediction.tokens

    def _one_by_one(self, texts: list[str]) -> tuple[list[Any], int]:
        outcomes: list[Any] = []
        total = 0
        for text in texts:
            try:
                found, tokens = self._together([text])
            except InputError as error:
                found, tokens = [self._refused(error)], 0
            outcomes += found
            total += tokens
        return outcomes, total

    def _fault(self, text: str) -> Fault | None:
        own = self.model
        try:
            own.task.encode(own.task.parse([text], self.parameters, own.manifest), own.tokenizer)
        except InputError as error:
            return self._refused(error)
        return None

    def _refused(self, error: InputError) -> Fault:
        # hotfoot's own tasks never quote a text, a user's own might
        own = self.model.task.name in task.names()
        return Fault(error.kind, error.message if own else "the task refused the text")

    def _line(self, record: Record, outcome: Any) -> bytes:
        if isinstance(outcome, Fault):
            return _error(record, outcome)
        fields: dict[str, Any] = {"line": record.line}
        if record.id is not None:
            fields["id"] = record.id
        if self.options.mask:
            fields["text"] = masked(record.text, outcome)
            outcome = wordless(outcome)
        marks = {"digest": self.model.manifest.digest[:DIGEST], "options": self.options.fingerprint}
        try:
            return dumps({**fields, "prediction": outcome, **marks}) + b"\n"
        except HotfootError as error:  # a number that is not finite
            return _error(record, Fault(error.kind, error.message))


def _error(record: Record, fault: Fault) -> bytes:
    return dumps({"line": record.line, "error": {"kind": fault.kind, "message": fault.message}}) + b"\n"


def prepare(model: Model, options: BulkOptions) -> Work:
    """Check that the model can do what is asked, before the first object is read.

    Raises UnsupportedError for a task that does not read single texts or that has no entities to mask, InputError for a
    parameter or a stride that the task refuses.
    """
    own, manifest = model.task, model.manifest
    if not isinstance(own.sample, str):
        raise UnsupportedError(f"the task {own.name} does not read texts one by one, so it has no bulk form.")
    if options.mask and own.name != "token-classification":
        raise UnsupportedError(f"mask needs entities, which {own.name} does not find.", hint="Use a token-classification artifact.")
    aggregated = options.parameters.get("aggregation_strategy") != "none"
    if options.mask and not aggregated:
        raise InputError("must not be none with mask: single tokens are not entities.", where="parameters.aggregation_strategy")
    parameters = dict(options.parameters)
    if options.stride:
        parameters["stride"] = options.stride
    elif "stride" in own.parameters and aggregated:
        parameters["stride"] = min(STRIDE, manifest.max_tokens // 4)
    # windows read the whole text, so where there are any nothing is left to cut
    if options.truncate and "stride" not in parameters:
        parameters["truncate"] = True
    request = own.parse([own.sample], parameters, manifest)
    own.encode(replace(request, truncate=manifest.tokenizer.truncation_side), model.tokenizer)
    return Work(model, options, parameters)

"""One object from its bytes to its report."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from hotfoot.bulk import keys, readers, report
from hotfoot.bulk.answers import Work
from hotfoot.bulk.deadline import Deadline, OutOfTimeError
from hotfoot.bulk.report import BulkReport, Origin
from hotfoot.bulk.writers import Results, Writer, check_options


class GoneError(Exception):
    """The object is not there any more, or not as it was announced; there is nothing to do."""


@dataclass(frozen=True)
class Source:
    """An object to read. chunks: its bytes, read when they are asked for; raises GoneError."""

    origin: Origin
    chunks: Iterable[bytes]


@dataclass(frozen=True)
class Sums:
    """What this attempt gave to the model."""

    texts: int = 0
    tokens: int = 0
    characters: int = 0


@dataclass(frozen=True)
class Outcome:
    """What became of an object: already means that an earlier attempt did it all."""

    status: Literal["done", "already", "rejected"]
    report: BulkReport
    sums: Sums = Sums()


def process(
    work: Work,
    source: Source,
    results: Results,
    prefix: str,
    *,
    deadline: Deadline | None = None,
    watch: Callable[[int], None] = lambda _records: None,
) -> Outcome:
    """Read an object, answer its records, write parts and then the report; what an earlier attempt wrote is not made again.

    watch is told how many records have been answered, batch by batch. Raises GoneError, OutOfTimeError, UnsupportedError for a result made
    with other options, and what `source` and `results` raise.
    """
    manifest, options, origin = work.model.manifest, work.options, source.origin
    folder = keys.folder(prefix, manifest, origin.key, origin.version)
    report_key = f"{folder}/{keys.REPORT}"
    if (found := results.read(report_key)) is not None:
        earlier = report.loads(found, report_key)
        check_options(earlier.options_fingerprint, options.fingerprint)
        return Outcome("already", earlier)
    if reason := readers.refusal(origin.key):
        made = report.make(origin, manifest, options, (), reason)
        results.create(report_key, report.dumps(made))
        return Outcome("rejected", made)
    writer = Writer(results, folder, options.part_bytes, options.fingerprint)
    writer.adopt()
    sums = _answer(work, source, writer, deadline or Deadline(), watch)
    made = report.make(origin, manifest, options, writer.parts)
    results.create(report_key, report.dumps(made))
    return Outcome("done", made, sums)


def _answer(work: Work, source: Source, writer: Writer, deadline: Deadline, watch: Callable[[int], None]) -> Sums:
    sums = Sums()
    for batch in readers.batches(readers.records(source.chunks, source.origin.key, work.options)):
        rest = batch[writer.skip(len(batch)) :]
        if rest:
            try:
                if deadline.is_near():
                    raise OutOfTimeError("the time ran out between two batches")
                answers = work.answer(rest, deadline)
            except OutOfTimeError as error:
                writer.flush()
                raise OutOfTimeError(error.message, further=sums.texts > 0) from None
            writer.write(answers.lines)
            sums = Sums(sums.texts + len(rest), sums.tokens + answers.tokens, sums.characters + answers.characters)
            watch(len(rest))
    writer.flush()
    return sums

"""`_report.json`: what became of one object. Written last, so where it is the result is whole. No clock, no text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from hotfoot.contract import codec
from hotfoot.contract.bulk import BulkOptions
from hotfoot.contract.errors import ArtifactError
from hotfoot.contract.manifest import Manifest

FORMAT = 1


@dataclass(frozen=True)
class Part:
    """One file of a result. errors: how many of its records are error records, by kind."""

    name: str
    records: int
    bytes: int
    errors: Mapping[str, int]


@dataclass(frozen=True)
class BulkReport:
    """What was read, by what, and how it went. bucket is empty for a local file; key is the object's own, however long.

    status: rejected means that the object can never be read, for the reason given.
    """

    format: int
    status: Literal["done", "rejected"]
    reason: str
    bucket: str
    key: str
    version: str
    model: str
    revision: str
    digest: str
    task: str
    options: BulkOptions
    options_fingerprint: str
    records: int
    failed: int
    errors: Mapping[str, int]
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Origin:
    """An object by its place and version."""

    bucket: str
    key: str
    version: str


def make(origin: Origin, manifest: Manifest, options: BulkOptions, parts: Iterable[Part], reason: str = "") -> BulkReport:
    """The report of an object: done, or with a reason rejected."""
    written = tuple(parts)
    errors: Counter[str] = Counter()
    for part in written:
        errors.update(part.errors)
    return BulkReport(
        format=FORMAT,
        status="rejected" if reason else "done",
        reason=reason,
        bucket=origin.bucket,
        key=origin.key,
        version=origin.version,
        model=manifest.model.id,
        revision=manifest.model.revision,
        digest=manifest.digest,
        task=manifest.task,
        options=options,
        options_fingerprint=options.fingerprint,
        records=sum(part.records for part in written),
        failed=errors.total(),
        errors=dict(errors),
        parts=written,
    )


def dumps(report: BulkReport) -> bytes:
    """The report as written."""
    return codec.dumps(report).encode()


def loads(body: bytes, source: str) -> BulkReport:
    """A report as read. Raises ArtifactError for what is none."""
    try:
        return codec.loads(BulkReport, body.decode(errors="replace"), source)
    except ArtifactError:  # its message would quote the file, whatever that is
        raise ArtifactError(f"{source} is not a report of this hotfoot.", hint="Remove it, or use another prefix.") from None

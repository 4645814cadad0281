"""What a queue's messages say: which objects are new. EventBridge writes keys plainly, S3's own notifications as in a form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus

import orjson

from hotfoot.contract.errors import InputError


@dataclass(frozen=True)
class ObjectRef:
    """A new object. version_id is None where the bucket keeps no versions; etag is without its quotes."""

    bucket: str
    key: str
    version_id: str | None
    etag: str | None


def objects(body: Any) -> list[ObjectRef]:
    """The objects that a message's body announces; none for S3's test event. Raises InputError for a foreign message."""
    document = _parse(body)
    if document.get("Type") == "Notification" and isinstance(document.get("Message"), str):
        document = _parse(document["Message"])  # SNS wraps it once more
    if document.get("Event") == "s3:TestEvent":
        return []
    if document.get("source") == "aws.s3" and document.get("detail-type") == "Object Created":
        detail = _object(document.get("detail"))
        return [_announced(detail, "version-id", "etag", encoded=False)]
    records = document.get("Records")
    if isinstance(records, list) and records and all(map(_is_created, records)):
        return [_announced(_object(record.get("s3")), "versionId", "eTag", encoded=True) for record in records]
    raise InputError("the message announces no new object of S3.")


def _parse(body: Any) -> dict[str, Any]:
    try:
        return _object(orjson.loads(body))
    except orjson.JSONDecodeError:  # its text may quote the body, and bodies are not ours to repeat
        raise InputError("the message is not JSON.") from None


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError("the message is no announcement: an object is missing.")
    return value


def _is_created(record: Any) -> bool:
    return isinstance(record, dict) and record.get("eventSource") == "aws:s3" and str(record.get("eventName")).startswith("ObjectCreated")


def _announced(detail: Mapping[str, Any], version_name: str, etag_name: str, *, encoded: bool) -> ObjectRef:
    found = _object(detail.get("object"))
    bucket, key = _object(detail.get("bucket")).get("name"), found.get("key")
    if not isinstance(bucket, str) or not isinstance(key, str) or not bucket or not key:
        raise InputError("the message names no bucket or no key.")
    if encoded:
        try:
            key = unquote_plus(key, errors="strict")
        except UnicodeDecodeError:
            raise InputError("the message's key is not UTF-8.") from None
    version, etag = found.get(version_name), found.get(etag_name)
    # "null" is the version of all that was written while versions were off: it names no content, the etag does
    named = version if isinstance(version, str) and version not in ("", "null") else None
    return ObjectRef(bucket, key, named, etag.strip('"') if isinstance(etag, str) and etag.strip('"') else None)

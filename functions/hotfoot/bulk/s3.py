"""S3 as the pipeline needs it.

Rights: GetObject, GetObjectVersion and ListBucket on the texts, GetObject, PutObject and ListBucket on the results. Without
ListBucket, S3 says of an absent object that it is forbidden.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import cache
from typing import Any

from hotfoot import aws
from hotfoot.bulk.messages import ObjectRef
from hotfoot.bulk.pipeline import GoneError, Source
from hotfoot.bulk.report import Origin

CHUNK = 8 * 2**20  # bytes a request: one that lasted as long as the model works would be cut off
ABSENT = ("NoSuchKey", "NoSuchVersion", "404")  # 404: HEAD has no body to say more
PAUSES_S = (0.1, 0.3, 0.9, 2.7)  # between the tries of a write that met another one


@cache
def client() -> Any:
    """The one S3 client of this process."""
    return aws.client("s3")


def forget() -> None:
    """Close the client; the next use makes another."""
    if client.cache_info().currsize:
        client().close()
    client.cache_clear()


def source(ref: ObjectRef) -> Source:
    """The object that a message announced, in its announced version. Raises GoneError where that takes a request."""
    version = ref.version_id or ref.etag or _etag(ref)
    return Source(Origin(ref.bucket, ref.key, version), _chunks(ref, version))


def _etag(ref: ObjectRef) -> str:
    from botocore.exceptions import ClientError

    try:
        return str(client().head_object(Bucket=ref.bucket, Key=ref.key)["ETag"]).strip('"')
    except ClientError as error:
        raise _read_error(error) from None


def _chunks(ref: ObjectRef, version: str) -> Iterator[bytes]:
    from botocore.exceptions import ClientError

    pinned = {"VersionId": ref.version_id} if ref.version_id else {"IfMatch": f'"{version}"'}
    start, size = 0, 1
    while start < size:
        try:
            found = client().get_object(Bucket=ref.bucket, Key=ref.key, Range=f"bytes={start}-{start + CHUNK - 1}", **pinned)
        except ClientError as error:
            if start == 0 and _status(error) == 416:
                return  # an empty object has no first byte
            raise _read_error(error) from None
        chunk: bytes = found["Body"].read()
        size = int(found["ContentRange"].rpartition("/")[2])
        start += len(chunk)
        yield chunk


def _read_error(error: Any) -> Exception:
    if code_of(error) in ABSENT:
        return GoneError("deleted")
    if _status(error) == 412:
        return GoneError("replaced")  # the newer content has a message of its own
    found: Exception = error
    return found


class S3Results:
    """Results in a bucket."""

    def __init__(self, bucket: str) -> None:
        self._bucket = bucket

    def create(self, key: str, body: bytes) -> bool:
        """Write `key` unless it is there.

        409 means that somebody else is writing or removing it at this moment: then the same question once more, and the answer
        is that it is there (412) or that it is ours.
        """
        from botocore.exceptions import ClientError

        kind = "application/json" if key.endswith(".json") else "application/x-ndjson"
        pauses = iter(PAUSES_S)
        while True:
            try:
                client().put_object(Bucket=self._bucket, Key=key, Body=body, ContentType=kind, IfNoneMatch="*")
                return True
            except ClientError as error:
                if _status(error) == 412:
                    return False
                if _status(error) != 409 or (pause := next(pauses, None)) is None:
                    raise
            time.sleep(pause)

    def read(self, key: str) -> bytes | None:
        """What lies at `key`, None where there is nothing."""
        from botocore.exceptions import ClientError

        try:
            body: bytes = client().get_object(Bucket=self._bucket, Key=key)["Body"].read()
        except ClientError as error:
            if code_of(error) in ABSENT:
                return None
            raise
        return body


def code_of(error: BaseException) -> str:
    """S3's word for what went wrong (`AccessDenied`, `SlowDown`), empty for an error that is not S3's."""
    answer = getattr(error, "response", None)
    return str(answer.get("Error", {}).get("Code", "")) if isinstance(answer, dict) else ""


def _status(error: Any) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))

"""S3 as the pipeline needs it: the one place that imports boto3, and only once there is something to do.

Rights: GetObject, GetObjectVersion and ListBucket on the texts, GetObject, PutObject and ListBucket on the results. Without
ListBucket, S3 says of an absent object that it is forbidden.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import cache
from typing import Any

from hotfoot.bulk.messages import ObjectRef
from hotfoot.bulk.pipeline import GoneError, Source
from hotfoot.bulk.report import Origin

CHUNK = 8 * 2**20  # bytes a request: one that lasted as long as the model works would be cut off
ABSENT = ("NoSuchKey", "NoSuchVersion", "404")  # 404: HEAD has no body to say more
QUIET = ("boto3", "botocore", "s3transfer", "urllib3")


@cache
def client() -> Any:
    """The one S3 client of this process; `AWS_ENDPOINT_URL` and the like are boto3's to read."""
    import boto3
    from botocore.config import Config

    for name in QUIET:  # Lambda can set every logger to DEBUG, and there versions of these write out requests, bodies and all
        logging.getLogger(name).setLevel(logging.INFO)
    config = Config(retries={"mode": "standard", "max_attempts": 5}, connect_timeout=5, read_timeout=60)
    return boto3.client("s3", config=config)


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
        """Write `key` unless it is there."""
        from botocore.exceptions import ClientError

        kind = "application/json" if key.endswith(".json") else "application/x-ndjson"
        try:
            client().put_object(Bucket=self._bucket, Key=key, Body=body, ContentType=kind, IfNoneMatch="*")
        except ClientError as error:
            if _status(error) == 412:
                return False
            raise
        return True

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

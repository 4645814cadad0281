"""Where results lie: a folder that only the same object, read by the same model, can have."""

from __future__ import annotations

import hashlib
import re

from hotfoot.contract.manifest import Manifest

REPORT = "_report.json"  # written last; readers of tables skip names that begin with an underscore
KEY_BYTES = 1024  # the longest key in S3
DIGEST = 12  # hex digits of the model's digest
_LONGEST_NAME = len("/part-00000000.jsonl")
_HASH = 32


def folder(prefix: str, manifest: Manifest, key: str, version: str) -> str:
    """`{prefix}/{model}/{digest}/{key}/{version}`. A key that would not fit is cut and ends in its own hash."""
    before = f"{prefix}/{model_name(manifest.model.id)}/{manifest.digest[:DIGEST]}/"
    room = KEY_BYTES - _LONGEST_NAME - len(before.encode()) - len(version.encode()) - 1
    raw = key.encode()
    if len(raw) > room:
        kept = raw[: max(0, room - _HASH - 1)].decode(errors="ignore")
        key = f"{kept}-{hashlib.sha256(raw).hexdigest()[:_HASH]}"
    return f"{before}{key}/{version}"


def model_name(model_id: str) -> str:
    """The last part of a model's id, in characters that need no escape anywhere."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", model_id.rstrip("/").rpartition("/")[2]).strip(".-")[:100] or "model"


def part(number: int) -> str:
    """The name of a part."""
    return f"part-{number:05d}.jsonl"


def is_result(bucket: str, key: str, results_bucket: str, prefix: str) -> bool:
    """Whether an object lies where results are written: to read it would feed the pipeline with its own output."""
    return bucket == results_bucket and key.startswith(f"{prefix}/")

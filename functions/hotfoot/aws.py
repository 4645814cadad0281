"""Clients of AWS: the one place that imports boto3, and only once there is something to do."""

from __future__ import annotations

import logging
import sys
from typing import Any

QUIET = ("boto3", "botocore", "s3transfer", "urllib3")


def client(service: str, *, attempts: int = 6, connect_s: float = 5, read_s: float = 60) -> Any:
    """A new client; `AWS_ENDPOINT_URL` and the like are boto3's to read. attempts: the first one counts."""
    import boto3
    from botocore.config import Config

    for name in QUIET:  # Lambda can set every logger to DEBUG, and there versions of these write out requests, bodies and all
        logging.getLogger(name).setLevel(logging.INFO)
    config = Config(retries={"mode": "standard", "total_max_attempts": attempts}, connect_timeout=connect_s, read_timeout=read_s)
    return boto3.client(service, config=config)


def forget() -> None:
    """Let the credentials go that clients share; those made from now on ask for new ones."""
    if "boto3" in sys.modules:
        import boto3

        boto3.DEFAULT_SESSION = None

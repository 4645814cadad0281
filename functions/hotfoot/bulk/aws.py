"""Clients of AWS: the one place that imports boto3, and only once there is something to do."""

from __future__ import annotations

import logging
from typing import Any

QUIET = ("boto3", "botocore", "s3transfer", "urllib3")


def client(service: str) -> Any:
    """A new client; `AWS_ENDPOINT_URL` and the like are boto3's to read."""
    import boto3
    from botocore.config import Config

    for name in QUIET:  # Lambda can set every logger to DEBUG, and there versions of these write out requests, bodies and all
        logging.getLogger(name).setLevel(logging.INFO)
    config = Config(retries={"mode": "standard", "max_attempts": 5}, connect_timeout=5, read_timeout=60)
    return boto3.client(service, config=config)

"""The only reader of the environment: typed, read once a call, and a bad value names its key."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hotfoot.contract import bulk
from hotfoot.contract.bulk import BulkOptions
from hotfoot.contract.errors import ArtifactError

MB_PER_VCPU = 1769  # Lambda grants one vCPU for each 1,769 MB
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


@dataclass(frozen=True)
class Settings:
    """What the environment says. artifact is None where `HOTFOOT_ARTIFACT` is unset; memory_mb None outside Lambda.

    service tells the deployments apart that share a namespace.
    """

    artifact: Path | None
    layer_root: Path
    threads: int
    memory_mb: int | None
    metrics_namespace: str
    service: str
    log_level: str


def read(environ: Mapping[str, str] = os.environ) -> Settings:
    """Read the settings. Raises ArtifactError for a value that does not fit, naming key and value."""
    layer_root = Path(environ.get("HOTFOOT_LAYER_ROOT") or "/opt")
    memory = _integer(environ, "AWS_LAMBDA_FUNCTION_MEMORY_SIZE")
    return Settings(
        artifact=Path(environ["HOTFOOT_ARTIFACT"]) if environ.get("HOTFOOT_ARTIFACT") else None,
        layer_root=layer_root,
        threads=_integer(environ, "HOTFOOT_THREADS") or usable_threads(memory),
        memory_mb=memory,
        metrics_namespace=environ.get("POWERTOOLS_METRICS_NAMESPACE") or "hotfoot",
        service=environ.get("POWERTOOLS_SERVICE_NAME") or "hotfoot",
        log_level=_level(environ, "HOTFOOT_LOG_LEVEL"),
    )


@dataclass(frozen=True)
class BulkSettings:
    """What the environment says to the bulk function. results_bucket is None where it is unset; the prefix has no slash at its ends."""

    results_bucket: str | None
    results_prefix: str
    options: BulkOptions


def read_bulk(environ: Mapping[str, str] = os.environ) -> BulkSettings:
    """Read the bulk function's settings. Raises ArtifactError that names the key, and every fault of `HOTFOOT_BULK`."""
    prefix = environ.get("HOTFOOT_RESULTS_PREFIX", "").strip("/") or "results"
    if len(prefix.encode()) > 512:
        raise ArtifactError("HOTFOOT_RESULTS_PREFIX in the environment has more than 512 bytes, which leaves no room for keys.")
    return BulkSettings(environ.get("HOTFOOT_RESULTS_BUCKET") or None, prefix, bulk.read(environ.get("HOTFOOT_BULK", "")))


def artifact_dir(settings: Settings) -> Path:
    """Where the artifact lies: `HOTFOOT_ARTIFACT`, else the model layer."""
    return settings.artifact or settings.layer_root / "hotfoot" / "model"


def usable_threads(memory_mb: int | None) -> int:
    """CPUs that this process may really use: its affinity, its cgroup quota, and on Lambda its memory's share.

    `os.cpu_count()` counts the host's cores, and a pool of that size is throttled or pinned outside the allowed set.
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    share = memory_mb / MB_PER_VCPU if memory_mb else math.inf
    return max(1, min(allowed, math.ceil(min(share, cgroup_cpus(), allowed))))


def cgroup_cpus(root: Path = Path("/sys/fs/cgroup")) -> float:
    """CPUs granted by the cgroup's quota, infinity where there is none (version 2, then version 1)."""
    try:
        if (root / "cpu.max").is_file():
            quota, period = (root / "cpu.max").read_text().split()
            return math.inf if quota == "max" else int(quota) / int(period)
        quota_us = int((root / "cpu" / "cpu.cfs_quota_us").read_text())
        return math.inf if quota_us <= 0 else quota_us / int((root / "cpu" / "cpu.cfs_period_us").read_text())
    except (OSError, ValueError):  # hidden on Lambda, absent on macOS
        return math.inf


def _level(environ: Mapping[str, str], key: str) -> str:
    text = environ.get(key) or "INFO"
    if text.upper() not in LOG_LEVELS:
        raise ArtifactError(f"{key}={text!r} in the environment is none of {', '.join(LOG_LEVELS)}.")
    return text.upper()


def _integer(environ: Mapping[str, str], key: str) -> int | None:
    text = environ.get(key, "")
    if not text:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise ArtifactError(f"{key}={text!r} in the environment is not a whole number above 0.")
    return int(text)

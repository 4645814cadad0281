"""The only reader of the environment: typed, read once a call, and a bad value names its key."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hotfoot.contract import peers
from hotfoot.contract.errors import ArtifactError
from hotfoot.contract.peers import Peer

if TYPE_CHECKING:
    from hotfoot.contract.bulk import BulkOptions

MB_PER_VCPU = 1769  # Lambda grants one vCPU for each 1,769 MB
MIB = 2**20
UNLIMITED = 2**60  # bytes: version 1 of cgroups has no word for it, and says the largest number of pages
CACHE_MIB = 64  # where no function's memory says otherwise
AnswerShape = Literal["current", "classic"]
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


@dataclass(frozen=True)
class Settings:
    """What the environment says. artifact is None where `HOTFOOT_ARTIFACT` is unset; memory_mb None outside Lambda.

    service tells the deployments apart that share a namespace. name is the deployment's own where it shares an API with others; peers,
    in order, are all that share it, itself among them, where requests for another model are this one's to hand on. token: what a server
    wants in `Authorization: Bearer`, None for one that asks for none. answer_shape: where a request in the Hugging Face dialect does not
    say which. cache_bytes: what the process may remember, 0 for nothing. cache_table and cache_secret: the table that environments share
    and the secret that its keys are made with, None for none. snap_start: this process is started to be frozen, and copies of it wake.
    weights: where the artifact's weights are when they are not beside its graphs.
    """

    artifact: Path | None
    layer_root: Path
    threads: int
    memory_mb: int | None
    metrics_namespace: str
    service: str
    log_level: str
    name: str | None
    peers: tuple[Peer, ...]
    token: str | None
    answer_shape: AnswerShape
    cache_bytes: int
    cache_table: str | None
    cache_secret: str | None
    snap_start: bool
    weights: str | None


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
        name=environ.get("HOTFOOT_NAME") or None,
        peers=peers.loads(environ.get(peers.KEY, "")),
        token=_token(environ, "HOTFOOT_TOKEN"),
        answer_shape=_shape(environ, "HOTFOOT_ANSWER_SHAPE"),
        cache_bytes=_cache_bytes(environ, memory),
        cache_table=environ.get("HOTFOOT_CACHE_TABLE") or None,
        cache_secret=_secret(environ),
        snap_start=environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") == "snap-start",  # as AWS's runtime client asks
        weights=environ.get("HOTFOOT_WEIGHTS", "").strip() or None,
    )


@dataclass(frozen=True)
class S3Access:
    """Where S3 is, None for AWS's own, and with whose rights: keys, or an endpoint that gives some, as under SnapStart.

    Shown anywhere, it tells no secret.
    """

    region: str | None
    endpoint: str | None
    key_id: str | None
    secret: str | None = field(repr=False)
    token: str | None = field(repr=False)
    container_url: str | None
    container_token: str | None = field(repr=False)


def s3_access(environ: Mapping[str, str] = os.environ) -> S3Access:
    """What the environment says of S3, by the names that AWS's own clients read. Raises ArtifactError for an endpoint that is none."""
    # without the white space that a file or a shell leaves around it: in a header it would be a fault, and that would quote the value
    said = {key: text.strip() for key, text in environ.items() if key.startswith("AWS_") and text.strip()}
    # with a token in a file, or relative to a container's agent, obstore finds it by itself
    own = not {"AWS_ACCESS_KEY_ID", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"} & set(said)
    return S3Access(
        region=said.get("AWS_REGION") or said.get("AWS_DEFAULT_REGION"),
        endpoint=_endpoint(said),
        key_id=said.get("AWS_ACCESS_KEY_ID"),
        secret=said.get("AWS_SECRET_ACCESS_KEY"),
        token=said.get("AWS_SESSION_TOKEN"),
        container_url=said.get("AWS_CONTAINER_CREDENTIALS_FULL_URI") if own else None,
        container_token=said.get("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
    )


@dataclass(frozen=True)
class BulkSettings:
    """What the environment says to the bulk function. results_bucket is None where it is unset; the prefix has no slash at its ends."""

    results_bucket: str | None
    results_prefix: str
    options: BulkOptions


def read_bulk(environ: Mapping[str, str] = os.environ) -> BulkSettings:
    """Read the bulk function's settings. Raises ArtifactError that names the key, and every fault of `HOTFOOT_BULK`."""
    from hotfoot.contract import bulk  # which the other functions have no use for

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


def memory_limit(memory_mb: int | None) -> int | None:
    """Bytes that this process may hold: the function's memory, elsewhere what its cgroup may; None for no limit."""
    return cgroup_memory() if memory_mb is None else memory_mb * MIB


def cgroup_memory(root: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Bytes granted by the cgroup, None where there is no limit (version 2, then version 1)."""
    for path in (root / "memory.max", root / "memory" / "memory.limit_in_bytes"):
        try:
            text = path.read_text().strip()
        except OSError:  # hidden on Lambda, absent on macOS
            continue
        return int(text) if text.isdecimal() and int(text) < UNLIMITED else None
    return None


def _endpoint(said: Mapping[str, str]) -> str | None:
    """AWS's own variables, the service's before all services'. obstore breaks down over one that is no address."""
    from urllib.parse import urlsplit  # which few have a use for

    key = next((key for key in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL") if key in said), None)
    if key is None:
        return None
    try:
        parts = urlsplit(said[key])
        fits = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0 and not re.search(r"\s", said[key])
    except ValueError:  # of a port or an IPv6 address
        fits = False
    if not fits:
        raise ArtifactError(f"{key}={said[key]!r} in the environment is not of the form http://HOST:PORT or https://HOST.")
    return said[key]


def _level(environ: Mapping[str, str], key: str) -> str:
    text = environ.get(key) or "INFO"
    if text.upper() not in LOG_LEVELS:
        raise ArtifactError(f"{key}={text!r} in the environment is none of {', '.join(LOG_LEVELS)}.")
    return text.upper()


def _cache_bytes(environ: Mapping[str, str], memory_mb: int | None) -> int:
    """`HOTFOOT_CACHE_MB` in MiB; else on Lambda a 32nd of the function's memory, from 8 to 128 MiB, as the model needs the most of it."""
    asked = _integer(environ, "HOTFOOT_CACHE_MB", least=0)
    if asked is not None:
        return asked * MIB
    return min(max(memory_mb * MIB // 32, 8 * MIB), 128 * MIB) if memory_mb else CACHE_MIB * MIB


def _secret(environ: Mapping[str, str]) -> str | None:
    """`HOTFOOT_CACHE_SECRET`. Raises ArtifactError for a table without one: whoever knows a text could look whether it was ever sent."""
    found = environ.get("HOTFOOT_CACHE_SECRET") or None
    if environ.get("HOTFOOT_CACHE_TABLE") and found is None:
        raise ArtifactError(
            "HOTFOOT_CACHE_SECRET in the environment is not set, and HOTFOOT_CACHE_TABLE is.", hint="Give the ARN of the table's secret."
        )
    return found


def _token(environ: Mapping[str, str], key: str) -> str | None:
    """Without the white space that a file or a shell leaves around it."""
    text = environ.get(key)
    if text is not None and not text.strip() and text:
        raise ArtifactError(f"{key} in the environment is blank, which is no token.")
    return (text or "").strip() or None


def _shape(environ: Mapping[str, str], key: str) -> AnswerShape:
    text = environ.get(key) or "current"
    if text == "classic":
        return "classic"
    if text != "current":
        raise ArtifactError(f"{key}={text!r} in the environment is neither current nor classic.")
    return "current"


def _integer(environ: Mapping[str, str], key: str, least: int = 1) -> int | None:
    text = environ.get(key, "")
    if not text:
        return None
    if not text.isdecimal() or int(text) < least:
        said = f"above {least - 1}" if least else "from 0 on"
        raise ArtifactError(f"{key}={text!r} in the environment is not a whole number {said}.")
    return int(text)

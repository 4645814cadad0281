from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from hotfoot import settings
from hotfoot.contract.errors import ArtifactError


def cores(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(count)))


def quota(monkeypatch: pytest.MonkeyPatch, cpus: float) -> None:
    monkeypatch.setattr(settings, "cgroup_cpus", lambda: cpus)


def test_an_empty_environment_gives_the_defaults() -> None:
    found = settings.read({})
    assert found.artifact is None
    assert found.layer_root == Path("/opt")
    assert (found.metrics_namespace, found.service, found.log_level) == ("hotfoot", "hotfoot", "INFO")
    assert found.memory_mb is None
    assert (found.weights, found.snap_start) == (None, False)
    assert settings.artifact_dir(found) == Path("/opt/hotfoot/model")


def test_an_empty_value_counts_as_unset() -> None:
    keys = ["HOTFOOT_ARTIFACT", "HOTFOOT_LAYER_ROOT", "HOTFOOT_THREADS", "HOTFOOT_LOG_LEVEL", "HOTFOOT_WEIGHTS"]
    keys += ["POWERTOOLS_METRICS_NAMESPACE", "POWERTOOLS_SERVICE_NAME"]
    assert settings.read(dict.fromkeys(keys, "")) == settings.read({})


def test_what_the_environment_says_is_read() -> None:
    found = settings.read(
        {
            "HOTFOOT_ARTIFACT": "/models/x",
            "HOTFOOT_LAYER_ROOT": "/layers",
            "HOTFOOT_THREADS": "3",
            "HOTFOOT_LOG_LEVEL": "debug",
            "POWERTOOLS_METRICS_NAMESPACE": "mine",
            "POWERTOOLS_SERVICE_NAME": "shop",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "512",
            "AWS_LAMBDA_INITIALIZATION_TYPE": "snap-start",
            "HOTFOOT_WEIGHTS": " s3://bucket/key\n",
        }
    )
    assert settings.artifact_dir(found) == Path("/models/x")
    assert (found.layer_root, found.threads, found.log_level, found.metrics_namespace) == (Path("/layers"), 3, "DEBUG", "mine")
    assert found.service == "shop"
    assert found.memory_mb == 512
    assert found.snap_start
    assert found.weights == "s3://bucket/key"


@pytest.mark.parametrize("key", ["HOTFOOT_THREADS", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE"])
@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5", " 4", "²", "1e3"])
def test_a_bad_number_names_its_key(key: str, value: str) -> None:
    with pytest.raises(ArtifactError) as caught:
        settings.read({key: value})
    assert str(caught.value) == f"{key}={value!r} in the environment is not a whole number above 0."


def test_a_bad_log_level_names_its_key() -> None:
    with pytest.raises(
        ArtifactError, match=r"HOTFOOT_LOG_LEVEL='loud' in the environment is none of DEBUG, INFO, WARNING, ERROR, CRITICAL"
    ):
        settings.read({"HOTFOOT_LOG_LEVEL": "loud"})


@pytest.mark.parametrize(
    ("memory", "threads"),
    [(128, 1), (512, 1), (1769, 1), (1770, 2), (3538, 2), (5307, 3), (7076, 4), (10240, 6)],
)
def test_lambda_grants_cpus_by_memory(monkeypatch: pytest.MonkeyPatch, memory: int, threads: int) -> None:
    cores(monkeypatch, 6)
    quota(monkeypatch, math.inf)
    assert settings.read({"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(memory)}).threads == threads


@pytest.mark.parametrize(
    ("affinity", "cpus", "memory", "threads"),
    [
        (8, math.inf, None, 8),
        (2, math.inf, None, 2),
        (8, 0.5, None, 1),
        (8, 1.5, None, 2),
        (8, 3.0, None, 3),
        (2, 16.0, None, 2),
        (2, math.inf, 10240, 2),
        (64, 2.0, 10240, 2),
    ],
)
def test_the_least_of_affinity_quota_and_share_counts(
    monkeypatch: pytest.MonkeyPatch, affinity: int, cpus: float, memory: int | None, threads: int
) -> None:
    cores(monkeypatch, affinity)
    quota(monkeypatch, cpus)
    assert settings.usable_threads(memory) == threads


def test_the_real_affinity_is_honoured() -> None:
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert settings.usable_threads(None) == 1
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.parametrize(
    ("text", "cpus"), [("150000 100000\n", 1.5), ("max 100000\n", math.inf), ("50000 100000", 0.5), ("nonsense", math.inf)]
)
def test_quota_of_cgroup_version_2(tmp_path: Path, text: str, cpus: float) -> None:
    (tmp_path / "cpu.max").write_text(text)
    assert settings.cgroup_cpus(tmp_path) == cpus


@pytest.mark.parametrize(("quota_us", "cpus"), [("250000\n", 2.5), ("-1\n", math.inf), ("0", math.inf), ("many", math.inf)])
def test_quota_of_cgroup_version_1(tmp_path: Path, quota_us: str, cpus: float) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text(quota_us)
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    assert settings.cgroup_cpus(tmp_path) == cpus


def test_no_cgroup_is_no_limit(tmp_path: Path) -> None:
    assert settings.cgroup_cpus(tmp_path) == math.inf


@pytest.mark.parametrize(
    ("text", "limit"),
    [("536870912\n", 2**29), ("max\n", None), ("9223372036854771712", None), ("many", None), ("", None)],
)
@pytest.mark.parametrize("file", ["memory.max", "memory/memory.limit_in_bytes"])
def test_memory_of_a_cgroup(tmp_path: Path, file: str, text: str, limit: int | None) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(text)
    assert settings.cgroup_memory(tmp_path) == limit


def test_no_cgroup_limits_no_memory(tmp_path: Path) -> None:
    assert settings.cgroup_memory(tmp_path / "hidden") is None


def test_a_functions_memory_counts_before_its_cgroups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "cgroup_memory", lambda: 2**30)
    assert settings.memory_limit(512) == 2**29
    assert settings.memory_limit(None) == 2**30


# --- what may be remembered

MIB = 2**20


@pytest.mark.parametrize(
    ("memory", "mib"), [(None, 64), (128, 8), (255, 8), (256, 8), (512, 16), (1769, 55.28125), (4096, 128), (10_240, 128)]
)
def test_a_32nd_of_a_functions_memory_may_be_remembered(memory: int | None, mib: float) -> None:
    environ = {} if memory is None else {"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(memory)}
    assert settings.read(environ).cache_bytes == int(mib * MIB)


@pytest.mark.parametrize(("value", "mib"), [("0", 0), ("1", 1), ("300", 300), ("", 16)])
def test_how_much_may_be_remembered_can_be_said(value: str, mib: int) -> None:
    environ = {"HOTFOOT_CACHE_MB": value, "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "512"}
    assert settings.read(environ).cache_bytes == mib * MIB


@pytest.mark.parametrize("value", ["-1", "two", "1.5", " 4"])
def test_a_bad_size_names_its_key(value: str) -> None:
    with pytest.raises(ArtifactError) as caught:
        settings.read({"HOTFOOT_CACHE_MB": value})
    assert str(caught.value) == f"HOTFOOT_CACHE_MB={value!r} in the environment is not a whole number from 0 on."


def test_a_shared_table_needs_its_secret() -> None:
    assert (settings.read({}).cache_table, settings.read({}).cache_secret) == (None, None)
    found = settings.read({"HOTFOOT_CACHE_TABLE": "answers", "HOTFOOT_CACHE_SECRET": "arn:aws:secretsmanager:x"})
    assert (found.cache_table, found.cache_secret) == ("answers", "arn:aws:secretsmanager:x")
    with pytest.raises(ArtifactError, match="HOTFOOT_CACHE_SECRET in the environment is not set, and HOTFOOT_CACHE_TABLE is"):
        settings.read({"HOTFOOT_CACHE_TABLE": "answers", "HOTFOOT_CACHE_SECRET": ""})


def test_a_token_comes_without_the_space_around_it() -> None:
    assert settings.read({"HOTFOOT_TOKEN": " abc\n"}).token == "abc"
    assert settings.read({"HOTFOOT_TOKEN": ""}).token is None
    with pytest.raises(ArtifactError, match="HOTFOOT_TOKEN in the environment is blank"):
        settings.read({"HOTFOOT_TOKEN": " \n"})


# --- S3

ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


def test_s3_s_own_endpoint_counts_before_that_of_all() -> None:
    own, every = "http://127.0.0.1:9000", "https://[::1]/"
    assert settings.s3_access(dict(zip(ENDPOINTS, (own, every), strict=True))).endpoint == own
    assert settings.s3_access(dict(zip(ENDPOINTS, ("", every), strict=True))).endpoint == every
    assert settings.s3_access({}).endpoint is None


@pytest.mark.parametrize("key", ENDPOINTS)
@pytest.mark.parametrize(
    "value", ["localhost:9000", "garbage", "http://", "http://[bad", "http://a:1x", "http://a:0", "ftp://a", "http://a b"]
)
def test_an_endpoint_that_is_no_address_names_its_key(key: str, value: str) -> None:
    with pytest.raises(ArtifactError) as caught:
        settings.s3_access({key: value})
    assert str(caught.value) == f"{key}={value!r} in the environment is not of the form http://HOST:PORT or https://HOST."


def test_access_comes_without_the_space_around_it_and_shows_no_secret() -> None:
    said = {"AWS_SECRET_ACCESS_KEY": " hid1", "AWS_SESSION_TOKEN": "hid2\n", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "hid3\r\n"}
    found = settings.s3_access({"AWS_ACCESS_KEY_ID": "AKIDTEST\n", **said})
    assert (found.secret, found.token, found.container_token) == ("hid1", "hid2", "hid3")
    assert found.key_id == "AKIDTEST"
    assert "hid" not in repr(found)


@pytest.mark.parametrize(
    ("beside", "asked"),
    [({}, True), ({"AWS_ACCESS_KEY_ID": "AKIDTEST"}, False), ({"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "/token"}, False)],
)
def test_a_container_s_endpoint_is_for_who_has_nothing_else(beside: dict[str, str], asked: bool) -> None:
    found = settings.s3_access({"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1/x", **beside})
    assert (found.container_url == "http://127.0.0.1/x") is asked

"""S3 through the real boto3: conditions, absence, ranges, versions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hotfoot.bulk import s3
from hotfoot.bulk.messages import ObjectRef
from hotfoot.bulk.pipeline import GoneError
from support.objects import Objects, boto_server

# a version, an etag, or neither
ANYHOW: tuple[tuple[str | None, str | None], ...] = (("v1", None), (None, "e"), (None, None))


@pytest.fixture(scope="module")
def server_objects() -> Iterator[Objects]:
    with boto_server() as running:
        yield running.objects


@pytest.fixture
def objects(server_objects: Objects) -> Objects:
    server_objects.versions.clear()
    server_objects.requests.clear()
    server_objects.forbidden = set()
    server_objects.conflicts = 0
    return server_objects


def read(version_id: str | None = None, etag: str | None = None, key: str = "a b+ü.txt") -> bytes:
    return b"".join(s3.source(ObjectRef("texts", key, version_id, etag)).chunks)


def test_results_are_created_once(objects: Objects) -> None:
    results = s3.S3Results("results")
    assert results.read("a b+ü/x.jsonl") is None
    assert results.create("a b+ü/x.jsonl", b"1\n")
    assert not results.create("a b+ü/x.jsonl", b"2\n")
    assert results.read("a b+ü/x.jsonl") == b"1\n"
    objects.forbidden = {"y"}
    for attempt in (lambda: results.read("y"), lambda: results.create("y", b"")):
        with pytest.raises(Exception, match="AccessDenied") as caught:
            attempt()
        assert s3.code_of(caught.value) == "AccessDenied"


class TestConflicts:
    """409: somebody else writes or removes the same key at this moment."""

    @pytest.fixture
    def pauses(self, monkeypatch: pytest.MonkeyPatch) -> list[float]:
        made: list[float] = []
        monkeypatch.setattr("time.sleep", made.append)
        return made

    def test_asked_again_until_it_is_ours(self, objects: Objects, pauses: list[float]) -> None:
        objects.conflicts = 2
        assert s3.S3Results("results").create("x.jsonl", b"1\n")
        assert objects.files("results") == {"x.jsonl": b"1\n"}
        assert pauses == [0.1, 0.3]

    def test_asked_again_until_it_is_there(self, objects: Objects, pauses: list[float]) -> None:
        objects.put("results", "x.jsonl", b"theirs")
        objects.conflicts = 1
        assert not s3.S3Results("results").create("x.jsonl", b"mine")
        assert objects.files("results") == {"x.jsonl": b"theirs"}
        assert len(pauses) == 1

    def test_not_for_ever(self, objects: Objects, pauses: list[float]) -> None:
        objects.conflicts = 99
        with pytest.raises(Exception, match="ConditionalRequestConflict"):
            s3.S3Results("results").create("x.jsonl", b"mine")
        assert (99 - objects.conflicts, len(pauses)) == (5, 4)
        assert objects.files("results") == {}


@pytest.mark.parametrize(("size", "requests"), [(0, 1), (1, 1), (9, 1), (10, 1), (11, 2), (20, 2), (25, 3)])
def test_ranges(objects: Objects, monkeypatch: pytest.MonkeyPatch, size: int, requests: int) -> None:
    monkeypatch.setattr(s3, "CHUNK", 10)
    body = bytes(range(size))
    objects.put("texts", "a b+ü.txt", body)
    assert read("v1") == body
    assert len(objects.requests) == requests


def test_versions(objects: Objects) -> None:
    for body in (b"old", b"new"):
        objects.put("texts", "a b+ü.txt", body)
    new = objects.get("texts", "a b+ü.txt")
    assert new
    assert (read("v1"), read("v2"), read(), read(etag=new.etag)) == (b"old", b"new", b"new", b"new")
    assert s3.source(ObjectRef("texts", "a b+ü.txt", "v1", "e")).origin.version == "v1"
    assert s3.source(ObjectRef("texts", "a b+ü.txt", None, None)).origin.version == new.etag


@pytest.mark.parametrize(("version_id", "etag", "reason"), [("v9", None, "deleted"), (None, "feed", "replaced")])
def test_gone(objects: Objects, version_id: str | None, etag: str | None, reason: str) -> None:
    objects.put("texts", "a b+ü.txt", b"x")
    with pytest.raises(GoneError, match=reason):
        read(version_id, etag)
    for version, tag in ANYHOW:
        with pytest.raises(GoneError, match="deleted"):
            read(version, tag, "nowhere.txt")


def test_replaced_while_it_is_read(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "CHUNK", 10)
    stored = objects.put("texts", "k.txt", b"0123456789abc")
    assert stored
    chunks = iter(s3.source(ObjectRef("texts", "k.txt", None, stored.etag)).chunks)
    assert next(chunks) == b"0123456789"
    objects.put("texts", "k.txt", b"another content")
    with pytest.raises(GoneError, match="replaced"):
        next(chunks)


def test_forbidden_is_not_gone(objects: Objects) -> None:
    objects.forbidden = {"k.txt"}
    for version, tag in ANYHOW:
        with pytest.raises(Exception, match=r"AccessDenied|403|Forbidden"):
            read(version, tag, "k.txt")

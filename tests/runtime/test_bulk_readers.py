"""Bytes as records: lines as they are counted, whatever the chunks, and a fault for what cannot be read."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotfoot.bulk import readers
from hotfoot.bulk.readers import Record, batches, lines, records, refusal
from hotfoot.contract.bulk import BulkOptions

PLAIN = BulkOptions()


def read(body: bytes, key: str = "a.txt", options: BulkOptions = PLAIN) -> list[Record]:
    return list(records([body], key, options))


def texts(body: bytes, key: str = "a.txt", options: BulkOptions = PLAIN) -> list[tuple[int, str]]:
    return [(r.line, r.fault.message if r.fault else r.text) for r in read(body, key, options)]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b"", []),
        (b"\n \n\t\r\n", []),
        (b"one", [(1, "one")]),
        (b"one\n", [(1, "one")]),
        (b"one\r\ntwo\r\n", [(1, "one"), (2, "two")]),
        (b"one\n\n\ntwo", [(1, "one"), (4, "two")]),
        (b"\xef\xbb\xbfone\n\xef\xbb\xbftwo", [(1, "one"), (2, "\ufefftwo")]),
        (b"\xef\xbb\xbf", []),
        # only LF ends a line
        ("a\u2028b\x0bc\x0cd\x85e\rf\n".encode(), [(1, "a\u2028b\x0bc\x0cd\x85e\rf")]),
        (b"  spaced \n", [(1, "  spaced ")]),
        (b"ok\nb\xffd\nok", [(1, "ok"), (2, "not UTF-8 at byte 1"), (3, "ok")]),
        ("zero\x00 cafe\u0301".encode(), [(1, "zero\x00 cafe\u0301")]),
    ],
)
def test_lines_of_text(body: bytes, found: list[tuple[int, str]]) -> None:
    assert texts(body) == found


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (b'{"text": "good"}', "good"),
        (b'{"text": "caf\\u00e9", "other": [1]}', "café"),
        (b"good", "not JSON at character 0"),
        (b'{"text": "x"', "not JSON at character 12"),
        (b'{"text": NaN}', "not JSON at character 9"),
        (b'{"text": "\\ud800"}', "not JSON at character 10"),
        (b'["x"]', "not a JSON object"),
        (b"{}", "the object has no field 'text'"),
        (b'{"text": null}', "the field 'text' is not a text"),
        (b'{"text": 5}', "the field 'text' is not a text"),
        (b'{"text": "\xff"}', "not UTF-8 at byte 10"),
        (b"[" * 100_000, "not JSON at character"),
    ],
)
def test_json_lines(line: bytes, found: str) -> None:
    [(first, text), (last, after)] = texts(line + b"\n\n" + b'{"text": "after"}', "A.JSONL")
    assert (first, last, after) == (1, 3, "after")
    assert text == found or text.startswith(found + " ")


@pytest.mark.parametrize(
    ("value", "found"), [("7", 7), ('"a"', "a"), ("null", None), ("true", "fault"), ("1.5", "fault"), ("[]", "fault"), (None, None)]
)
def test_ids(value: str | None, found: object) -> None:
    line = '{"body": "x"}' if value is None else f'{{"body": "x", "id": {value}}}'
    [record] = read(line.encode(), "a.jsonl", BulkOptions(field="body", id_field="id"))
    if found == "fault":
        assert record.fault
        assert record.fault.message == "the field 'id' is neither a text nor a whole number"
    else:
        assert (record.text, record.id) == ("x", found)


@pytest.mark.parametrize(
    ("line", "found"), [(b'{"id": 7}', 7), (b'{"text": 5, "id": "a"}', "a"), (b'{"text": "x", "id": []}', None), (b'"id"', None)]
)
def test_a_faulty_record_keeps_its_id(line: bytes, found: object) -> None:
    [record] = read(line, "a.jsonl", BulkOptions(id_field="id"))
    assert record.fault
    assert record.id == found


def test_whole_documents() -> None:
    whole = BulkOptions(whole=True)
    assert texts(b"\xef\xbb\xbfone\r\n\r\ntwo\n", options=whole) == [(1, "one\r\n\r\ntwo\n")]
    assert texts(b" \n", options=whole) == []
    assert texts(b"one\nb\xff", options=whole) == [(1, "not UTF-8 at byte 5")]
    # JSON lines say themselves where a text begins
    assert texts(b'{"text": "a"}\n{"text": "b"}', "a.jsonl", whole) == [(1, "a"), (2, "b")]


@pytest.mark.parametrize("whole", [False, True])
def test_texts_beyond_the_limit(whole: bool) -> None:
    most = readers.TEXT_BYTES
    for size, good in ((most, True), (most + 1, False), (3 * most, False)):
        body = b"\xef\xbb\xbf" + b"a" * size + (b"" if whole else b"\nnext")
        pieces = [body[i : i + 300_000] for i in range(0, len(body), 300_000)]
        found = list(records(pieces, "a.txt", BulkOptions(whole=whole)))
        assert (found[0].fault is None) is good
        assert [r.text for r in found[1:]] == ([] if whole else ["next"])
        if found[0].fault:
            assert (found[0].fault.kind, found[0].fault.message) == ("too_large", f"the text has more than {most} bytes")


@given(st.lists(st.binary(max_size=12)), st.integers(1, 7))
def test_chunks_make_no_difference(pieces: list[bytes], step: int) -> None:
    body = b"\n".join(pieces)
    wanted = [line.removesuffix(b"\r") for line in body.split(b"\n")]
    if wanted:
        wanted[0] = wanted[0].removeprefix(b"\xef\xbb\xbf")
    if body.endswith(b"\n") or not body:
        wanted.pop()
    assert list(lines([body])) == wanted
    assert list(lines(body[i : i + step] for i in range(0, len(body), step))) == wanted


@given(st.lists(st.integers(0, 30)), st.integers(1, 5), st.integers(1, 40))
def test_batches_are_bounded_and_lose_nothing(sizes: list[int], most: int, characters: int) -> None:
    found = [Record(i, "x" * size) for i, size in enumerate(sizes, 1)]
    made = list(batches(found, most, characters))
    assert [r for batch in made for r in batch] == found
    assert all(0 < len(batch) <= most and sum(len(r.text) for r in batch[:-1]) < characters for batch in made)
    assert all(len(a) == most or sum(len(r.text) for r in a) >= characters for a, _ in pairwise(made))


@pytest.mark.parametrize("key", ["a.txt", "b.JSONL", "x/y.Txt"])
def test_read_names(key: str) -> None:
    assert refusal(key) == ""


@pytest.mark.parametrize("key", ["a.csv", "a.txt.gz", "txt", "a.json", "a.txt/"])
def test_refused_names(key: str) -> None:
    assert ".txt" in refusal(key)


def test_a_record_does_not_show_its_text() -> None:
    [record] = read(json.dumps({"text": "canary", "id": "canary"}).encode(), "a.jsonl", BulkOptions(id_field="id"))
    assert record.text == "canary"
    assert "canary" not in repr(record)

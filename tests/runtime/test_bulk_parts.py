"""The small parts of the bulk pipeline: options, keys, masks, messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotfoot import settings
from hotfoot.bulk import keys
from hotfoot.bulk.mask import label_of, masked, wordless
from hotfoot.bulk.messages import ObjectRef, objects
from hotfoot.contract import bulk, manifest
from hotfoot.contract.bulk import BulkOptions
from hotfoot.contract.errors import ArtifactError, InputError
from support import events
from support.serving import artifact

MANIFEST = manifest.read(artifact("token-classification"))
CREATED = '"eventSource": "aws:s3", "eventName": "ObjectCreated:Put"'
REF = ObjectRef("texts", "in/a+b ü.txt", "IYV3p45BT0ac8hjHg1houSdS1a.Mro8e", "b1946ac92492d2347c6235b4d2611184")


class TestOptions:
    def test_defaults(self) -> None:
        assert bulk.read("") == bulk.read("{}") == BulkOptions()
        assert settings.read_bulk({}) == settings.BulkSettings(None, "results", BulkOptions())

    def test_the_environment(self) -> None:
        told: dict[str, Any] = {
            "mask": True,
            "whole": True,
            "field": "body",
            "id_field": "id",
            "truncate": True,
            "stride": 8,
            "part_bytes": 5,
        }
        document = json.dumps({**told, "parameters": {"ignore_labels": []}})
        found = settings.read_bulk({"HOTFOOT_RESULTS_BUCKET": "b", "HOTFOOT_RESULTS_PREFIX": "/out/x/", "HOTFOOT_BULK": document})
        assert (found.results_bucket, found.results_prefix) == ("b", "out/x")
        assert found.options == BulkOptions(**told, parameters={"ignore_labels": []})

    def test_every_fault_is_named(self) -> None:
        with pytest.raises(ArtifactError) as caught:
            bulk.read('{"mask": 1, "stride": "x", "parts": 5, "parameters": []}')
        for fault in ("HOTFOOT_BULK", "mask: must be bool, got 1", "stride:", "parts: unknown field", "parameters: must be an object"):
            assert fault in str(caught.value)
        with pytest.raises(ArtifactError) as caught:
            bulk.read('{"field": "", "id_field": "", "part_bytes": 0, "stride": -1, "parameters": {"truncate": true, "stride": 3}}')
        for fault in ("field:", "id_field:", "part_bytes:", "stride:", "parameters.truncate:", "parameters.stride:"):
            assert f"\n  {fault}" in str(caught.value)

    def test_an_id_cannot_undo_the_mask(self) -> None:
        with pytest.raises(ArtifactError, match=r"id_field: is the text's own field, 'text': .* would undo mask"):
            bulk.read('{"mask": true, "id_field": "text"}')
        assert bulk.read('{"mask": true, "id_field": "text", "field": "body"}').mask
        assert bulk.read('{"id_field": "text"}').id_field == "text"  # nobody asked to hide anything

    @pytest.mark.parametrize("text", ["[]", "{", "5", '{"mask": NaN}', '{"mask": true, "mask": true}'])
    def test_what_is_no_object(self, text: str) -> None:
        with pytest.raises(ArtifactError, match="HOTFOOT_BULK"):
            bulk.read(text)

    def test_a_prefix_that_leaves_no_room(self) -> None:
        with pytest.raises(ArtifactError, match="HOTFOOT_RESULTS_PREFIX"):
            settings.read_bulk({"HOTFOOT_RESULTS_PREFIX": "x" * 513})

    def test_fingerprints_tell_readings_apart(self) -> None:
        base = BulkOptions()
        others = [
            {"mask": True},
            {"whole": True},
            {"field": "x"},
            {"id_field": "x"},
            {"truncate": True},
            {"stride": 1},
            {"parameters": {"a": 1}},
        ]
        made = {base.fingerprint, *(replace(base, **other).fingerprint for other in others)}  # type: ignore[arg-type]
        assert len(made) == len(others) + 1
        assert replace(base, part_bytes=1).fingerprint == base.fingerprint


class TestKeys:
    def test_layout(self) -> None:
        digest = MANIFEST.digest[:12]
        assert keys.folder("results", MANIFEST, "in/a+b ü.txt", "v1") == f"results/tiny/{digest}/in/a+b ü.txt/v1"

    @pytest.mark.parametrize(
        ("model_id", "name"),
        [("org/bert-base_1.5", "bert-base_1.5"), ("modèle x", "mod-le-x"), ("a/..", "model"), ("", "model"), ("x/", "x"), ("é", "model")],
    )
    def test_model_names(self, model_id: str, name: str) -> None:
        assert keys.model_name(model_id) == name

    @given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=1024), st.integers(0, 1000))
    def test_keys_fit_and_stay_apart(self, key: str, extra: int) -> None:
        key = (key + "ü" * extra)[:1024]
        made = keys.folder("results", MANIFEST, key, "v" * 32)
        assert len(f"{made}/{keys.part(12_345_678)}".encode()) <= 1024
        assert made.startswith("results/tiny/")
        assert made.endswith("/" + "v" * 32)
        assert made != keys.folder("results", MANIFEST, key + "x", "v" * 32)

    def test_own_results_are_known(self) -> None:
        assert keys.is_result("b", "results/x.jsonl", "b", "results")
        assert not keys.is_result("b", "results.txt", "b", "results")
        assert not keys.is_result("b", "results-2/x.txt", "b", "results")
        assert not keys.is_result("other", "results/x.jsonl", "b", "results")


def entity(label: str, start: int, end: int) -> dict[str, Any]:
    return {"entity_group": label, "score": 0.5, "word": "canary", "start": start, "end": end}


class TestMask:
    @pytest.mark.parametrize(
        ("text", "entities", "found"),
        [
            ("no one", [], "no one"),
            ("Maria lives", [entity("PER", 0, 5)], "[PER] lives"),
            ("in Lyon", [entity("given name-1", 3, 7)], "in [GIVEN_NAME_1]"),
            # out of order, adjacent, overlapping, inside one another
            ("ab cd", [entity("B", 3, 5), entity("A", 0, 2)], "[A] [B]"),
            ("ab,cd", [entity("A", 0, 3), entity("B", 3, 5)], "[A][B]"),
            ("one two six", [entity("A", 0, 7), entity("B", 4, 11)], "[A][B]"),
            # as models give them that begin an entity with each piece of a word
            ("417-229 x", [entity("TEL", 0, 3), entity("TEL", 3, 4), entity("TEL", 4, 7)], "[TEL] x"),
            ("[A] b", [entity("A", 4, 5)], "[A] [A]"),
            ("one two six", [entity("A", 0, 11), entity("B", 4, 7)], "[A]"),
            # half a word is the whole word; a script without spaces is not widened
            ("Gonzalez lives", [entity("PER", 0, 3)], "[PER] lives"),
            ("call 0791-23", [entity("TEL", 7, 9)], "call [TEL]-23"),
            ("Maria's", [entity("PER", 0, 5)], "[PER]'s"),
            ("東京都に住む", [entity("LOC", 0, 2)], "[LOC]都に住む"),
            # a combining mark belongs to the letter before it
            ("cafe\u0301 in Paris", [entity("ORG", 0, 4), entity("LOC", 9, 14)], "[ORG] in [LOC]"),
            ("👨\u200d👩\u200d👧 in Paris", [entity("LOC", 9, 14)], "👨\u200d👩\u200d👧 in [LOC]"),
        ],
    )
    def test_masked(self, text: str, entities: list[dict[str, Any]], found: str) -> None:
        assert masked(text, entities) == found

    @given(st.text(), st.lists(st.tuples(st.integers(0, 40), st.integers(1, 10))))
    def test_no_character_of_an_entity_stays(self, text: str, spans: list[tuple[int, int]]) -> None:
        inside = [(start, min(start + size, len(text))) for start, size in spans if start < len(text)]
        left = masked(text, [entity("X", *span) for span in inside]).split("[X]")
        gone = {i for start, end in inside for i in range(start, end)}
        kept = "".join(c for i, c in enumerate(text) if i not in gone)
        rest = iter(kept)  # what is left is a part of what may stay, in order
        assert "[X]" in text or all(any(c == other for other in rest) for c in "".join(left))

    def test_entities_lose_their_words(self) -> None:
        assert wordless([entity("PER", 0, 5)]) == [{"entity_group": "PER", "score": 0.5, "start": 0, "end": 5}]

    def test_odd_labels(self) -> None:
        assert label_of({"entity_group": "***"}) == "[ENTITY]"


def body(name: str) -> str:
    return str(events.load(name)["Records"][0]["body"])


class TestMessages:
    @pytest.mark.parametrize("name", ["sqs_eventbridge_created", "sqs_s3_created", "sqs_s3_sns"])
    def test_recorded(self, name: str) -> None:
        assert objects(body(name)) == [REF]

    def test_test_event(self) -> None:
        assert objects(body("sqs_s3_test_event")) == []

    @pytest.mark.parametrize(
        ("raw", "key"),
        [
            ("this+is+a+test.txt", "this is a test.txt"),
            ("a%2Bb.txt", "a+b.txt"),
            ("dir/%C3%BCn%C3%AF+%F0%9F%98%80.txt", "dir/ünï 😀.txt"),
            ("10%3A47.log", "10:47.log"),
            ("100%25.txt", "100%.txt"),
        ],
    )
    def test_keys_are_decoded_once_and_only_where_they_are_encoded(self, raw: str, key: str) -> None:
        document = json.loads(body("sqs_s3_created"))
        document["Records"][0]["s3"]["object"]["key"] = raw
        assert [ref.key for ref in objects(json.dumps(document))] == [key]
        plain = json.loads(body("sqs_eventbridge_created"))
        plain["detail"]["object"]["key"] = raw
        assert [ref.key for ref in objects(json.dumps(plain))] == [raw]

    @pytest.mark.parametrize(
        ("fields", "version", "etag"),
        [
            ({"version-id": "null", "etag": '"abc"'}, None, "abc"),
            ({"version-id": "", "etag": "abc"}, None, "abc"),
            ({"etag": "abc-2"}, None, "abc-2"),
            ({"version-id": "v"}, "v", None),
            ({"etag": ""}, None, None),
        ],
    )
    def test_versions(self, fields: Mapping[str, str], version: str | None, etag: str | None) -> None:
        document = json.loads(body("sqs_eventbridge_created"))
        document["detail"]["object"] = {"key": "k", **fields}
        assert objects(json.dumps(document)) == [ObjectRef("texts", "k", version, etag)]

    def test_several_objects_in_one_message(self) -> None:
        document = json.loads(body("sqs_s3_created"))
        document["Records"] *= 2
        assert objects(json.dumps(document)) == [REF, REF]

    @pytest.mark.parametrize(
        "text",
        [
            "canary", "", None, 5, "[]", "null", '"canary"', "{}", '{"Records": []}', '{"Records": 5}', '{"Records": ["canary"]}',
            '{"Records": [{"eventSource": "aws:sqs", "eventName": "ObjectCreated:Put"}]}',
            '{"Records": [{"eventSource": "aws:s3", "eventName": "ObjectRemoved:Delete", "s3": {}}]}',
            '{"Records": [{"eventSource": "aws:s3", "eventName": "ObjectCreated:Put"}]}',
            '{"Records": [{"eventSource": "aws:s3", "eventName": "ObjectCreated:Put", "s3": {"bucket": {}, "object": {}}}]}',
            f'{{"Records": [{{{CREATED}, "s3": {{"bucket": {{"name": "b"}}, "object": {{"key": "%ff"}}}}}}]}}',
            '{"source": "aws.s3", "detail-type": "Object Deleted", "detail": {}}',
            '{"source": "aws.s3", "detail-type": "Object Created"}',
            '{"source": "aws.s3", "detail-type": "Object Created", "detail": {"bucket": {"name": ""}, "object": {"key": "k"}}}',
            '{"Type": "Notification", "Message": "canary"}', '{"Type": "Notification"}', "[" * 100_000,
        ],
    )  # fmt: skip
    def test_foreign_messages(self, text: Any) -> None:
        with pytest.raises(InputError, match=r"^the message") as caught:
            objects(text)
        assert "canary" not in str(caught.value)


def test_the_letters_are_readable() -> None:
    letters = sorted((Path(__file__).parents[1] / "fixtures" / "letters").glob("*.txt"))
    assert len(letters) == 5
    assert all(letter.read_text(encoding="utf-8").strip() for letter in letters)

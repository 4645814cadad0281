from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotfoot import targets
from hotfoot.contract import codec
from hotfoot.contract.errors import ArtifactError
from hotfoot.contract.target import Target


@dataclass(frozen=True)
class Wheel:
    size: int
    colour: Literal["black", "red"] = "black"


@dataclass(frozen=True)
class Car:
    name: str
    wheels: tuple[Wheel, ...]
    weight: float
    electric: bool
    spare: Wheel | None
    position: tuple[int, int]
    counts: Mapping[str, int]
    extras: Mapping[str, Any]
    shape: tuple[int | str, ...]
    note: str | None = None
    tags: tuple[str, ...] = field(default_factory=tuple)


# no subnormals: nothing promises them, and a session configured so would have this thread flush them to zero
floats = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | floats | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
wheels = st.builds(Wheel, size=st.integers(), colour=st.sampled_from(["black", "red"]))
cars = st.builds(
    Car,
    name=st.text(),
    wheels=st.lists(wheels, max_size=3).map(tuple),
    weight=floats,
    electric=st.booleans(),
    spare=st.none() | wheels,
    position=st.tuples(st.integers(), st.integers()),
    counts=st.dictionaries(st.text(), st.integers(), max_size=3),
    extras=st.dictionaries(st.text(), json_values, max_size=3),
    shape=st.lists(st.integers() | st.text(), max_size=3).map(tuple),
    note=st.none() | st.text(),
    tags=st.lists(st.text(), max_size=2).map(tuple),
)
CAR: dict[str, Any] = {
    "name": "beetle",
    "wheels": [{"size": 15}, {"size": 15, "colour": "red"}],
    "weight": 800.5,
    "electric": False,
    "spare": None,
    "position": [1, 2],
    "counts": {"doors": 2},
    "extras": {"any": [1, None, {"thing": "goes"}]},
    "shape": ["batch", 3],
}


def load(**changes: Any) -> Car:
    return codec.loads(Car, json.dumps({**CAR, **changes}), "car.json")


def faults(text: str) -> list[str]:
    with pytest.raises(ArtifactError) as caught:
        codec.loads(Car, text, "car.json")
    first, *lines = str(caught.value).splitlines()
    assert first == "car.json is not a valid Car:"
    return [line.strip() for line in lines]


def faults_with(**changes: Any) -> list[str]:
    return faults(json.dumps({**CAR, **changes}))


@given(cars)
def test_what_is_written_is_read_back(car: Car) -> None:
    assert codec.loads(Car, codec.dumps(car), "car.json") == car


@given(cars)
def test_one_value_has_one_text(car: Car) -> None:
    text = codec.dumps(car)
    assert codec.dumps(codec.loads(Car, text, "car.json")) == text
    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def test_defaults_may_be_left_out() -> None:
    car = load()
    assert car.wheels == (Wheel(15, "black"), Wheel(15, "red"))
    assert (car.note, car.tags, car.position, car.shape) == (None, (), (1, 2), ("batch", 3))


def test_a_whole_number_is_a_fair_float() -> None:
    weight = load(weight=800).weight
    assert weight == 800.0
    assert isinstance(weight, float)


def test_every_fault_is_named_at_once_with_its_path() -> None:
    document = {
        "name": 7,
        "wheels": [{"size": "big"}, "round", {"size": 1, "colour": "blue", "rim": 1}, {}],
        "weight": "heavy",
        "electric": 1,
        "spare": {"size": 1.5},
        "position": [1, True],
        "counts": {"doors": "two", "seats": None},
        "shape": [1, 2.5],
        "note": 1,
        "tags": "fast",
        "wings": 2,
    }
    assert faults(json.dumps(document)) == [
        "wings: unknown field",
        "name: must be str, got 7",
        'wheels[0].size: must be int, got "big"',
        'wheels[1]: must be an object, got "round"',
        "wheels[2].rim: unknown field",
        "wheels[2].colour: must be one of 'black', 'red', got \"blue\"",
        "wheels[3].size: missing",
        'weight: must be float, got "heavy"',
        "electric: must be bool, got 1",
        "spare.size: must be int, got 1.5",
        "position[1]: must be int, got true",
        'counts.doors: must be int, got "two"',
        "counts.seats: must be int, got null",
        "extras: missing",
        "shape[1]: must be int or str, got 2.5",
        "note: must be str or null, got 1",
        'tags: must be a list, got "fast"',
    ]


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"electric": 0}, "electric: must be bool, got 0"),
        ({"weight": True}, "weight: must be float, got true"),
        ({"weight": None}, "weight: must be float, got null"),
        ({"position": [1, 2, 3]}, "position: must be a list of 2, got [1, 2, 3]"),
        ({"position": [1]}, "position: must be a list of 2, got [1]"),
        ({"counts": [1]}, "counts: must be an object, got [1]"),
        ({"extras": None}, "extras: must be an object, got null"),
        ({"spare": []}, "spare: must be Wheel or null, got []"),
        ({"name": ["x" * 100]}, 'name: must be str, got ["' + "x" * 55 + "..."),
    ],
)
def test_faults(changes: dict[str, Any], fault: str) -> None:
    assert faults_with(**changes) == [fault]


@pytest.mark.parametrize("text", ["[]", "null", '"car"', "3"])
def test_a_document_that_is_no_object(text: str) -> None:
    assert faults(text) == [f"document: must be an object, got {text}"]


@pytest.mark.parametrize(
    "text",
    ["", "{", "{'name': 1}", '{"weight": NaN}', '{"weight": Infinity}', '{"name": "a", "name": "b"}', "[" * 100_000],
    ids=["empty", "cut", "quotes", "nan", "infinity", "key twice", "deep"],
)
def test_what_is_not_json_is_refused_by_name(text: str) -> None:
    with pytest.raises(ArtifactError, match=r"^car\.json is not JSON: "):
        codec.loads(Car, text, "car.json")


def test_a_number_that_json_cannot_hold_is_not_written() -> None:
    with pytest.raises(ValueError, match="JSON"):
        codec.dumps({"loss": float("nan")})


@pytest.mark.parametrize("name", targets.names())
def test_targets_travel_as_json(name: str) -> None:
    target = targets.load(name)
    assert codec.loads(Target, codec.dumps(target), name) == target

"""`[api.NAME]` of hotfoot.toml: deployments that share an API."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from hotfoot.contract import project
from hotfoot.contract.errors import InputError
from hotfoot.contract.project import FILE, Api, Deploy, Project

FAULTY = """[deploy.a]
auth = "none"
throttle_burst = 200
cors_origins = ["*"]
throttle_rate = 60
log_retention_days = 7
[deploy.b]
memory_mb = 64
[deploy.a-2]
[deploy.a2]
[deploy.taken]
[api.text]
deploys = [
  "a", "b", "nobody", "a",
]
default = "taken"
timeout_s = 3
[api.more]
deploys = ["b", "a-2", "a2"]
default = "c"
throttle_rate = 500
[api.taken]
deploys = []
[api.none]
auth = "none"
"""


def read(folder: Path, text: str) -> Project:
    (folder / FILE).write_text(text, encoding="utf-8")
    return project.read(folder / FILE)


def faults(folder: Path, text: str) -> list[str]:
    with pytest.raises(InputError) as refused:
        read(folder, text)
    return [line.strip().removeprefix("hotfoot.toml:") for line in str(refused.value).splitlines()[1:]]


def test_an_api_says_what_its_door_lets_in(tmp_path: Path) -> None:
    text = (
        '[api.text]\ndeploys = ["a", "b", "c"]\ndefault = "b"\nauth = "none"\n[deploy.a]\nlog_retention_days = 7\n[deploy.b]\n[deploy.c]\n'
    )
    made = read(tmp_path, text)
    assert made.apis == {"text": Api(deploys=("a", "b", "c"), default="b", auth="none")}
    assert made.apis["text"].members == ("b", "a", "c")
    assert made.deploys["a"] == Deploy(log_retention_days=7)  # logs and data stay each deployment's own matter
    assert Api(deploys=("a", "b")).members == ("a", "b")


def test_every_fault_is_named_with_its_line(tmp_path: Path) -> None:
    # a table with an unknown key is none, so what else is wrong with it is told the next time
    found = faults(tmp_path, FAULTY)
    assert [line for line in found if "api.text" in line and "deploy.a." not in line] == [
        f"17: api.text.timeout_s: unknown key; there are {', '.join(sorted(field.name for field in dataclasses.fields(Api)))}"
    ]
    assert faults(tmp_path, FAULTY.replace("timeout_s = 3\n", "\n")) == [
        "2: deploy.a.auth: is for [api.text] to say, which a stands behind; put it there",
        "3: deploy.a.throttle_burst: is for [api.text] to say, which a stands behind; put it there",
        "4: deploy.a.cors_origins: is for [api.text] to say, which a stands behind; put it there",
        "5: deploy.a.throttle_rate: is for [api.text] to say, which a stands behind; put it there",
        "8: deploy.b.memory_mb: must be from 128 to 10240, got 64",
        "13: api.text.deploys: 'a' is there more than once",
        "13: api.text.deploys: there is no [deploy.nobody]; there are a, a-2, a2, b, taken",
        "16: api.text.default: is 'taken', none of its deploys: a, b, nobody, a",
        "18: api.more.throttle_burst: is 100, less than the rate of 500 a second",
        "19: api.more.deploys: 'a-2' and 'a2' differ by `-` alone; give one of them another name",
        "19: api.more.deploys: 'b' is in [api.text] already, and can be in one alone",
        "20: api.more.default: is 'c', none of its deploys: b, a-2, a2",
        "22: api.taken: [deploy.taken] has that name, and its stack hotfoot-taken would be replaced; give one of them another name",
        "23: api.taken.deploys: must name at least one [deploy.NAME]",
        "24: api.none: deploys is missing",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("api = 1\n", "1: api: must be tables of the form [api.NAME]"),
        ('[api.T]\ndeploys = ["a"]\n[deploy.a]\n', "1: api.T: a name has lower-case letters"),
        ('[api.t]\ndeploys = "a"\n[deploy.a]\n', "2: api.t.deploys: must be a list, got 'a'"),
        ('[api.t]\ndeploys = ["a"]\n', "2: api.t.deploys: there is no [deploy.a]; there are none"),
        ('[api.t]\ndeploys = ["a"]\nbulk = true\n[deploy.a]\n', "3: api.t.bulk: unknown key"),
        ("apis = 1\n", "1: apis: unknown table; there are [build.NAME], [deploy.NAME] and [api.NAME]"),
    ],
)
def test_a_fault(text: str, said: str, tmp_path: Path) -> None:
    (found,) = faults(tmp_path, text)
    assert found.startswith(said)


def test_an_api_is_not_called_as_one_that_it_has(tmp_path: Path) -> None:
    """Where that was deployed alone before, the API's stack would take the place of its function and its buckets."""
    assert faults(tmp_path, '[api.a]\ndeploys = ["a"]\n[deploy.a]\n') == [
        "1: api.a: [deploy.a] has that name, and its stack hotfoot-a would be replaced; give one of them another name"
    ]

"""hotfoot.toml: what it gives, and that whatever is wrong with it is said at once, with lines."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from hotfoot.contract import project
from hotfoot.contract.bulk import BulkOptions
from hotfoot.contract.errors import InputError
from hotfoot.contract.project import FILE, Bulk, Deploy, Project
from hotfoot.contract.toml import lines_of

PRECISIONS = "'auto', 'fp32', 'fp16', 'int8', 'int8-dynamic', 'int8-static', 'int8-weights', 'int4-weights'"
FAULTY = '''# a comment
bogus = 1
[build.embed]
model = "a/b"
thresholds = { cosine_mean = 0.99, worst = "x" }

[deploy.Bad]
memory_mb = 64
auth = "jwt"
timeout_s = true
[deploy.long]
bundle = """
[deploy.none]
"""
log_retention_days = 8
throttle_rate = "fast"
[deploy.long.bulk]
input_suffixes = [
  ".txt",
  "*.x",
]
input_prefix = "/in"
wrong = 4
"also wrong" = 5
parameters.nested.deeper = 3
'''


def read(folder: Path, text: str) -> Project:
    (folder / FILE).write_text(text, encoding="utf-8")
    return project.read(folder / FILE)


def faults(folder: Path, text: str) -> list[str]:
    with pytest.raises(InputError) as refused:
        read(folder, text)
    return [line.strip() for line in str(refused.value).splitlines()[1:]]


def test_every_fault_is_named_with_its_line(tmp_path: Path) -> None:
    found = faults(tmp_path, FAULTY)
    starts = [
        "hotfoot.toml:2: bogus: unknown table",
        "hotfoot.toml:3: build.embed: task is missing",
        "hotfoot.toml:5: build.embed.thresholds.worst: must be a number, got 'x'",
        "hotfoot.toml:7: deploy.Bad: a name has lower-case letters",
        "hotfoot.toml:8: deploy.Bad.memory_mb: must be from 128 to 10240, got 64",
        "hotfoot.toml:9: deploy.Bad.auth: must be one of 'none', 'iam', got 'jwt'",
        "hotfoot.toml:10: deploy.Bad.timeout_s: must be a whole number, got True",
        "hotfoot.toml:15: deploy.long.log_retention_days: must be one of 1, 3,",
        "hotfoot.toml:16: deploy.long.throttle_rate: must be a number, got 'fast'",
        "hotfoot.toml:18: deploy.long.bulk.input_suffixes: must be the end of a key",
        "hotfoot.toml:22: deploy.long.bulk.input_prefix: must be a key prefix",
        "hotfoot.toml:23: deploy.long.bulk.wrong: unknown key; there are batch_size,",
        "hotfoot.toml:24: deploy.long.bulk.also wrong: unknown key",
    ]
    assert len(found) == len(starts)
    for said, start in zip(found, starts, strict=True):
        assert said.startswith(start)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[deploy.a]\nreserved_concurrency = 2\nprovisioned_concurrency = 3\n", ":3: deploy.a.provisioned_concurrency: is 3, more than"),
        (
            "[deploy.a]\nsnap_start = true\nprovisioned_concurrency = 1\n",
            ":2: deploy.a.snap_start: is no choice beside provisioned_concurrency, as AWS allows a function one of the two only",
        ),
        ("[deploy.a]\nthrottle_rate = 500\n", ":1: deploy.a.throttle_burst: is 100, less than the rate"),
        ("[deploy.a.bulk]\nbatch_size = 11\n", ":2: deploy.a.bulk.batch_size: is 11; above 10"),
        ("[deploy.a.bulk]\nparameters = { stride = 1 }\n", ":2: deploy.a.bulk.parameters.stride: is an option of its own"),
        (f'[deploy.a.bulk]\nfield = "{"x" * 3000}"\n', ":1: deploy.a.bulk: is too much for a function's environment"),
        ('[deploy.a.bulk]\nfield = ""\n', ":2: deploy.a.bulk.field: must not be empty"),
        ('[deploy.a.bulk]\nmask = true\n\nid_field = "text"\n', ":4: deploy.a.bulk.id_field: is the text's own field, 'text'"),
        ('[deploy.a]\ncors_origins = ["app.example.com"]\n', ":2: deploy.a.cors_origins: must be the origin of a web page"),
        (
            "[build.a]\nmodel = 'm'\ntask = 't'\nprecision = 'int3'\n",
            f":4: build.a.precision: must be one of {PRECISIONS}, got 'int3'",
        ),
        ("[build.a]\nmodel = 'm'\ntask = 't'\npooling = 'men'\n", ":4: build.a.pooling: must be one of 'cls', 'mean',"),
        ("deploy = 1\n", ":1: deploy: must be tables"),
        ("[deploy]\na = 1\n", ":2: deploy.a: must be a table, got 1"),
        ("[build.a]\nmodel = 'm'\ntask = 't'\nallow_pickle = 1\n", ":4: build.a.allow_pickle: must be true or false, got 1"),
        ("[build.a]\nmodel = 1979-05-27\ntask = 't'\n", ":2: build.a.model: must be a string"),
        ("[[build.a]]\nmodel = 'm'\n", ":1: build.a: must be a table"),
    ],
)
def test_a_fault(text: str, said: str, tmp_path: Path) -> None:
    (found,) = faults(tmp_path, text)
    assert said in found


@pytest.mark.parametrize("text", ["[deploy.a]\nauth = none\n", "[deploy.a]\nauth = 'iam'\nauth = 'iam'\n", '[deploy.a]\nauth = "iam'])
def test_what_is_no_toml_is_refused_with_its_line(text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"hotfoot\.toml:[23]: is not TOML"):
        read(tmp_path, text)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="`hotfoot init` writes one"):
        project.read(tmp_path / FILE)


def test_defaults_and_places(tmp_path: Path) -> None:
    made = read(tmp_path, "[build.a]\nmodel = 'm'\ntask = 't'\n[deploy.a]\nthrottle_rate = 5\n[deploy.b]\nbundle = 'elsewhere'\n")
    assert made.deploys["a"] == Deploy(throttle_rate=5.0)
    assert made.deploys["a"].auth == "iam"  # nobody gets a public API unasked
    assert made.bundle_dir("a") == tmp_path / "bundles/a"
    assert made.bundle_dir("b") == tmp_path / "elsewhere"
    assert made.artifact_dir("a") == tmp_path / "artifacts/a"
    with pytest.raises(InputError, match=r"no \[build\.b\]; it has a"):
        made.build("b")


def test_names_are_checked_by_whoever_knows_them(tmp_path: Path) -> None:
    text = "[build.a]\nmodel = 'm'\ntask = 'fill-msk'\ntarget = 'moon'\n[build.b]\nmodel = 'm'\ntask = 'my.task'\nprecision = 'int3'\n"
    (tmp_path / FILE).write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as refused:
        project.read(tmp_path / FILE, tasks=["fill-mask", "b"], targets=["local", "sun"])
    assert [line.strip() for line in str(refused.value).splitlines()[1:]] == [
        "hotfoot.toml:3: build.a.task: is 'fill-msk'; there are b, fill-mask, or a module of your own, as mypkg.mytask",
        "hotfoot.toml:4: build.a.target: is 'moon'; there are local, sun",
        f"hotfoot.toml:8: build.b.precision: must be one of {PRECISIONS}, got 'int3'",
    ]
    (tmp_path / FILE).write_text(text.replace("precision = 'int3'", ""), encoding="utf-8")
    assert project.read(tmp_path / FILE).builds["a"].target == "moon"  # nobody here knows better


def test_one_object_an_invocation_unless_asked() -> None:
    assert Bulk().batch_size == 1


def test_bulk_options_have_their_names_and_defaults() -> None:
    assert {f.name for f in dataclasses.fields(BulkOptions)} < {f.name for f in dataclasses.fields(Bulk)}
    assert Bulk().options == BulkOptions()


def test_lines_of_keys_in_every_form() -> None:
    text = 'a.b = 1\n[t]\n"q r" = """\nx = 1\n"""\nd = { e = 1 }\n\n[t.u.v]\nf = [\n 1,\n]\n[[w]]\ng = 1\n[[w]]\nh = 1\n'
    assert lines_of(text) == {
        ("a",): 1, ("a", "b"): 1, ("t",): 2, ("t", "q r"): 3, ("t", "d"): 6, ("t", "d", "e"): 6, ("t", "u"): 8, ("t", "u", "v"): 8,
        ("t", "u", "v", "f"): 9, ("w",): 12, ("w", "g"): 13, ("w", "h"): 15,
    }  # fmt: skip

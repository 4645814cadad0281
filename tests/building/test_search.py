"""The search: who leads, what is tried, and what it leaves behind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hotfoot import targets
from hotfoot.contract import codec, manifest
from hotfoot.contract.errors import InputError, ParityError
from hotfoot.contract.project import FILE
from hotfoot.contract.target import Target
from hotfoot_build import cli, named
from hotfoot_build.search import climb, recipes
from hotfoot_build.search import report as search_report
from hotfoot_build.search.climb import Ready, Tried
from hotfoot_build.search.recipes import Recipe
from support import tiny


class Clock:
    """A clock that only work moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def work(self, seconds: float) -> None:
        self.now += seconds


def climbed(*candidates: tuple[str, bool, float | None]) -> tuple[str | None, list[Tried[str]]]:
    """Who leads of (name, right, seconds of its work), and what was tried."""
    clock, tried = Clock(), list[Tried[str]]()
    made = (Ready(name, right, None if cost is None else lambda cost=cost: clock.work(cost)) for name, right, cost in candidates)  # type: ignore[misc]
    return climb.climb(made, tried, clock, lambda _: None), tried


def test_who_is_surely_faster_leads() -> None:
    best, tried = climbed(("fp32", True, 0.2), ("int8", True, 0.1), ("other", True, 0.097), ("wrong", False, 0.01), ("best", True, 0.09))
    assert best == "best"
    assert [t.leads for t in tried] == [True, True, False, False, True]
    assert [t.ratio.median if t.ratio else None for t in tried] == pytest.approx([None, 0.5, 0.97, None, 0.9])
    assert [t.seconds for t in tried] == pytest.approx([0.2, 0.1, 0.097, None, 0.09])


def test_where_time_cannot_be_told_the_first_that_is_right_leads() -> None:
    assert climbed(("a", False, None), ("b", True, None), ("c", True, None))[0] == "b"
    assert climbed(("a", False, None))[0] is None
    assert climbed()[0] is None


def test_the_next_candidate_may_depend_on_what_was_tried() -> None:
    tried: list[Tried[int]] = []

    def until_right() -> Iterator[Ready[int]]:
        for number in range(9):
            if tried and tried[-1].right:
                return
            yield Ready(number, number == 2, None)

    assert climb.climb(until_right(), tried, Clock(), lambda _: None) == 2
    assert [t.what for t in tried] == [0, 1, 2]


@pytest.mark.parametrize(
    ("arch", "isa", "features", "told"),
    [
        ("x86_64", ("avx2", "vnni"), {"avx2", "vnni"}, True),
        ("x86_64", ("avx2",), {"avx2"}, True),
        ("x86_64", ("avx2",), {"avx2", "vnni"}, False),  # its kernels are slower than those here
        ("x86_64", ("avx2", "vnni"), {"avx2"}, False),
        ("arm64", ("dotprod",), {"avx2", "vnni"}, False),
    ],
)
def test_times_are_told_where_the_kernels_are_the_same(
    arch: str, isa: tuple[str, ...], features: set[str], told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets, "cpu_features", lambda: frozenset(features))
    monkeypatch.setattr(targets, "machine_arch", lambda: "x86_64")
    target: Target = replace(targets.load("cpu-container-x86_64"), arch=arch, isa=isa)  # type: ignore[arg-type]
    assert recipes.times_here(target) == told


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparisons that take no time: what they say is chance, and is not looked at."""
    monkeypatch.setattr(climb, "ROUNDS", 6)
    monkeypatch.setattr(climb, "SECONDS", 0.001)


LOOSE = dict.fromkeys(("cosine_mean", "cosine_p1", "cosine_min", "pair_spearman"), 0.9)


@pytest.mark.usefixtures("hasty")
def test_a_search_builds_what_it_chose_and_tells_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipes, "times_here", lambda _: True)
    out = tmp_path / "artifact"
    built = tiny.run_build(tiny.request("embed", out, "auto", thresholds=LOOSE))
    found = built.found
    assert found is not None
    tried = {t.recipe.label for t in found.trials}
    assert {"fp32", "int8", "int8, not smoothed"} <= tried
    assert {t.recipe.precision for t in found.trials} == set(targets.local().recipes)
    assert [t.chosen for t in found.trials].count(True) == 1
    assert built.manifest.precision == found.recipe.precision
    assert all((t.bytes and t.metrics) or t.error for t in found.trials)
    assert all(t.right == all(m.passed for m in t.metrics) for t in found.trials if t.metrics)
    fp32 = next(t for t in found.trials if t.recipe.label == "fp32")
    assert min(m.value for m in fp32.metrics) > 0.9999
    folder = search_report.folder_of(out)
    assert sorted(p.name for p in folder.iterdir()) == sorted(search_report.FILES)
    told = json.loads((folder / "trials.json").read_text())
    assert told["recipe"]["precision"] == built.manifest.precision
    table = (folder / "trials.md").read_text()
    assert all(f"| {label} |" in table for label in tried)
    assert (folder / "trials.png").read_bytes().startswith(b"\x89PNG")
    kept = tiny.run_build(tiny.request("embed", out, "auto", thresholds=LOOSE))
    assert (kept.manifest, codec.dumps(kept.found)) == (built.manifest, codec.dumps(found))  # up to date, and not searched again


@pytest.mark.usefixtures("hasty")
def test_for_another_machine_the_rule_chooses_and_no_time_is_told(tmp_path: Path) -> None:
    built = tiny.run_build(tiny.request("embed", tmp_path / "artifact", "auto", target="lambda-arm64", thresholds=LOOSE))
    assert built.found is not None
    assert [t.recipe.label for t in built.found.trials] == ["int8"]
    assert built.found.trials[0].ms is None
    assert built.found.rule.startswith("no times for lambda-arm64 here: the first of these inside the gate")
    assert built.manifest.precision == "int8"


@pytest.mark.usefixtures("hasty")
def test_what_int8_loses_layers_in_fp32_bring_back(tmp_path: Path) -> None:
    int8 = tiny.run_build(tiny.request("embed", tmp_path / "int8", "int8", target="lambda-arm64", thresholds=LOOSE))
    reached = next(m.value for m in int8.parity.metrics if m.name == "cosine_mean")
    bar = {**LOOSE, "cosine_mean": reached + (1 - reached) / 100}
    built = tiny.run_build(tiny.request("embed", tmp_path / "auto", "auto", target="lambda-arm64", thresholds=bar))
    assert built.found is not None
    assert [t.recipe.label for t in built.found.trials] == ["int8", "int8, 1 in fp32"]
    record = next(r for r in built.manifest.recipe if r.name == "mixed")
    assert record.applied
    assert len(record.options["layers"]) == 1


@pytest.mark.usefixtures("hasty")
def test_a_bar_that_nothing_reaches_fails_with_every_figure(tmp_path: Path) -> None:
    with pytest.raises(
        ParityError, match=r"no recipe is inside the gate:\n  int8: cosine_mean \d\.\d+ < 1\.1.*\n(?s:.*)  fp32: cosine_mean"
    ):
        tiny.run_build(tiny.request("embed", tmp_path / "out", "auto", target="lambda-arm64", thresholds={"cosine_mean": 1.1}))
    assert list(tmp_path.iterdir()) == []


def test_options_have_no_place_beside_auto(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="have no place beside precision auto"):
        tiny.run_build(tiny.request("embed", tmp_path / "out", "auto", options={"int8_rowwise": {"smooth": 0.5}}))


TOML = """# mine
[build.mine]
model = "a/b"   # a model
task = "feature-extraction"
precision = "auto"

[deploy.mine]
"""


def test_what_was_found_is_pinned_and_every_other_line_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(FILE).write_text(TOML, encoding="utf-8")
    assert named.request("mine", (), force=False).precision == "auto"
    recipe = Recipe("int8", {"mixed": {"layers": ("/a/MatMul", "/b/MatMul")}})
    named.pin("mine", recipe)
    text = Path(FILE).read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if "pinned" not in line] == TOML.splitlines()
    request = named.request("mine", (), force=False)
    assert (request.precision, request.options) == ("int8", {"mixed": {"layers": ["/a/MatMul", "/b/MatMul"]}})
    named.pin("mine", Recipe("fp32"))  # once more, in its place
    assert Path(FILE).read_text(encoding="utf-8").count("pinned") == 1
    assert named.request("mine", (), force=False).options == {}


@pytest.mark.usefixtures("hasty")
def test_the_command_pins_what_it_found_and_builds_the_same_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model, texts = tiny.models() / "embed", tiny.texts()
    bars = ", ".join(f"{name} = {bar}" for name, bar in LOOSE.items())
    lines = [f'model = "{model}"', 'task = "feature-extraction"', 'target = "lambda-arm64"', 'precision = "auto"', f'samples = "{texts}"']
    Path(FILE).write_text("\n".join(["[build.mine]", *lines, f"thresholds = {{ {bars} }}"]) + "\n", encoding="utf-8")
    with tiny.own_cache():
        first = CliRunner().invoke(cli.app, ["build", "mine"], catch_exceptions=False)
        digest = manifest.verify(Path("artifacts/mine")).digest
        again = CliRunner().invoke(cli.app, ["build", "mine", "--force"], catch_exceptions=False)
    assert "chosen: int8" in first.stderr
    assert "search" in first.stderr
    assert 'pinned = {precision = "int8"}' in Path(FILE).read_text(encoding="utf-8")
    assert "search" not in again.stderr
    assert manifest.verify(Path("artifacts/mine")).digest == digest

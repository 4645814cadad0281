"""`scripts/bench cold` on a tiny model: a real bundle, and every peer in its own environment. No test asks how long anything took."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotfoot.targets import machine_arch
from hotfoot_build.bench import case, cold, cold_imports, cold_peer, cold_starts
from hotfoot_build.bench.cold_imports import BARE, BUNDLED, STALE, ZIPPED
from hotfoot_build.bench.timing import Ratio
from hotfoot_build.package import interpreters
from hotfoot_build.package.bundle import bundle
from hotfoot_build.progress import Step
from support import tiny
from support.handmade import retarget
from support.parted import parted_artifact

pytestmark = pytest.mark.slow
SILENT = Step(lambda _: None)


def test_a_real_bundle_is_measured(tmp_path: Path) -> None:
    made = tmp_path / "bundle"
    bundle(tiny.artifact("embed", "int8").path, made, progress=print)
    wanted = cold.Wanted(made, "embed", (tiny.models(),), tmp_path, 6, peers=False, samples=tiny.texts(), requests=20, every=5)
    with tiny.own_cache():
        found = cold.run(wanted, tiny.quiet())
    [ours] = found.starts
    assert ours.cosine > 0.98
    assert 0 < ours.cpu_s < 30
    assert 40e6 < ours.peak_bytes <= ours.most_bytes
    assert [tree.name for tree in found.imports] == [BUNDLED, ZIPPED, BARE, STALE]
    assert found.imports[0].modules > 150
    assert found.imports[0].to_bundled == Ratio(1, 1, 1, 6)
    assert found.imports[2].to_bundled.low > 1.2  # compiling is that much dearer, whatever the machine does meanwhile
    assert found.imports[3].to_bundled.low > 1.2
    for kind in found.memory:
        assert kind.requests == (5, 10, 15, 20)
        assert all(40e6 < count <= kind.peak for count in kind.resident)
    assert found.notes == ("The peers were left out, as --no-peers asked.",)


def test_the_imports_of_a_bundle_whose_weights_are_in_s3_are_measured_too(tmp_path: Path) -> None:
    artifact, minor = parted_artifact(tmp_path / "artifact", "feature-extraction"), interpreters.running_minor()
    retarget(artifact, f"lambda-{machine_arch()}")
    made = bundle(artifact, tmp_path / "bundle", progress=print, python=minor, package="s3")
    python = interpreters.find(minor)
    assert python is not None
    laid = cold_imports.trees(tmp_path / "bundle", made, python, tmp_path / "trees", SILENT)
    for one in laid.values():
        assert (one.opt / "python" / "obstore" / "__init__.py").is_file()
        assert "hotfoot.model" in cold_imports.modules(one, python.path, "hotfoot.handlers.http")
    assert not list((tmp_path / "trees" / BARE).rglob("*.pyc"))


@pytest.mark.parametrize("way", sorted(cold_peer.WAYS))
def test_every_way_of_a_peer_makes_the_originals_vector(way: str, tmp_path: Path) -> None:
    with tiny.own_cache():
        one = case.open_case("embed", "feature-extraction", tiny.models() / "embed", tiny.texts(), tiny.quiet())
    text = one.original.samples.texts[0]
    made, notes = cold_starts.candidates(tmp_path, one, text, tmp_path, SILENT, peers=True)
    assert notes == []
    assert [c.name for c in made if c.peer == way] == [cold_starts.WAYS[way], f"{cold_starts.WAYS[way]}, one thread"]
    plain, single = [c.start() for c in made if c.peer == way]
    for found in (plain, single):
        assert cold_starts.cosine(found.vector, one.original.reference.outputs[0]) >= cold_starts.LEAST_COSINE
    assert single.threads <= plain.threads

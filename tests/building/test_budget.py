"""How an artifact travels: the first way that fits, or the one that is asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hotfoot import targets
from hotfoot.contract.bundle import Package
from hotfoot.contract.errors import BudgetError, InputError
from hotfoot_build import budget, pipeline
from hotfoot_build.budget import BASE_IMAGE_BYTES, S3_BYTES, Parts, choose
from hotfoot_build.pipeline import BuildRequest
from hotfoot_build.progress import silent

LAMBDA = targets.load("lambda-arm64")
LIMIT = 262_144_000
SMALL = Parts(artifact=24_000_000, weights=22_000_000, runtime=90_000_000, fetch=15_000_000)


def sized(artifact: int, beside: int = 2_000_000) -> Parts:
    """An artifact of these bytes, all but `beside` of them weights."""
    return replace(SMALL, artifact=artifact, weights=artifact - beside)


@pytest.mark.parametrize(
    ("parts", "package"),
    [
        (SMALL, "layers"),
        (sized(LIMIT - SMALL.runtime), "layers"),
        (sized(LIMIT - SMALL.runtime + 1), "s3"),
        (sized(S3_BYTES + 2_000_000), "s3"),
        (sized(S3_BYTES + 2_000_001), "image"),
        (sized(200_000_000, beside=200_000_000), "image"),  # all of it inside the graph, as in artifacts of before
        (sized(400_000_000, beside=180_000_000), "image"),
        (sized(10_737_418_240 - BASE_IMAGE_BYTES - SMALL.runtime), "image"),
    ],
)
def test_the_first_way_that_fits(parts: Parts, package: Package) -> None:
    found = choose(parts, LAMBDA)
    assert found.package == package
    assert choose(parts, LAMBDA, package).package == package


def test_the_reason_names_the_sizes_and_what_did_not_fit() -> None:
    assert choose(SMALL, LAMBDA).reason == "in layers: 24.0 MB artifact + 90.0 MB runtime = 43% of 262.1 MB"
    reason = choose(sized(400_000_000), LAMBDA).reason
    assert reason == (
        "400.0 MB artifact + 90.0 MB runtime = 490.0 MB; lambda-arm64 allows 262.1 MB in layers; "
        "398.0 MB of weights from S3 into memory, 107.0 MB in layers"
    )
    assert choose(sized(3_000_000_000), LAMBDA).reason.count(";") == 3


def test_what_fits_nowhere_is_refused_with_every_reason() -> None:
    with pytest.raises(BudgetError) as caught:
        choose(sized(12_000_000_000), LAMBDA)
    message = str(caught.value)
    assert "lambda-arm64 allows 262.1 MB in layers" in message
    assert "too much to read from S3 at each start" in message
    assert "lambda-arm64 allows 10737.4 MB in an image" in message
    assert "choose a smaller model" in message


def test_what_is_asked_for_is_taken_or_refused_and_nothing_else_instead() -> None:
    assert choose(SMALL, LAMBDA, "s3").package == "s3"
    assert choose(SMALL, LAMBDA, "image").package == "image"
    with pytest.raises(BudgetError, match=r"490\.0 MB; lambda-arm64 allows 262\.1 MB in layers.*Without --package it would be: s3\."):
        choose(sized(400_000_000), LAMBDA, "layers")
    with pytest.raises(BudgetError, match=r"no weights\.data in the artifact"):
        choose(sized(24_000_000, beside=24_000_000), LAMBDA, "s3")
    with pytest.raises(InputError, match=r"package: is 'zip'; it must be one of layers, s3, image"):
        choose(SMALL, LAMBDA, "zip")


def test_a_container_is_an_image_of_any_size() -> None:
    target = targets.load("cpu-container-arm64")
    assert choose(sized(50_000_000_000), target) == choose(sized(50_000_000_000), target, "image")
    assert choose(SMALL, target).package == "image"
    with pytest.raises(BudgetError, match="cpu-container-arm64 runs images, not s3"):
        choose(SMALL, target, "s3")


@pytest.mark.parametrize(("package", "told"), [("zip", "must be one of layers, s3, image"), ("s3", "x86_64 runs images, not s3")])
def test_a_build_is_told_before_it_begins(package: str, told: str, tmp_path: Path) -> None:
    """The model is nowhere: whoever looked for it first would say so."""
    request = BuildRequest(str(tmp_path / "none"), "feature-extraction", "cpu-container-x86_64", package=package)
    with pytest.raises((InputError, BudgetError), match=told):
        pipeline.build(request, silent())


def test_the_estimates_are_there_for_every_machine() -> None:
    arches = {targets.load(name).arch for name in targets.names()}
    assert set(budget.RUNTIME_BYTES) == set(budget.FETCH_BYTES) == arches

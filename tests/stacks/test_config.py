"""From hotfoot.toml and bundles to deployments, without the CDK."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from hotfoot.contract import codec
from hotfoot.contract.bundle import BUNDLE, Bundle
from hotfoot.contract.errors import InputError
from hotfoot_infra import config, models
from hotfoot_infra.config import Deployment, Shared
from hotfoot_infra.models import Member
from support.cloud.bundles import write_bundle

TOML = '[deploy.a]\n[deploy.b]\nbundle = "other"\n'


def project(folder: Path, text: str = TOML) -> Path:
    path = folder / "hotfoot.toml"
    path.write_text(text, encoding="utf-8")
    return path


def rewrite(directory: Path, made: Bundle) -> None:
    (directory / BUNDLE).write_text(codec.dumps(made), encoding="utf-8")


def test_a_deployment_knows_its_bundle(tmp_path: Path) -> None:
    write_bundle(tmp_path / "bundles" / "a")
    made = write_bundle(tmp_path / "other")
    first, second = config.read(project(tmp_path))
    assert isinstance(first, Deployment)
    assert isinstance(second, Deployment)
    assert (first.name, first.directory) == ("a", tmp_path / "bundles" / "a")
    assert (second.directory, second.bundle) == (tmp_path / "other", made)


def test_what_cannot_be_deployed_is_named_at_once(tmp_path: Path) -> None:
    made = write_bundle(tmp_path / "other")
    big = replace(made, layers=tuple(replace(layer, unzipped_bytes=100_000_000) for layer in made.layers) * 2)
    rewrite(tmp_path / "other", big)
    shutil.rmtree(tmp_path / "other" / "code")
    with pytest.raises(InputError) as refused:
        config.read(project(tmp_path))
    said = [line.strip() for line in str(refused.value).splitlines()]
    assert said[0] == "hotfoot.toml has 4 fault(s):"
    assert re.match(r"hotfoot\.toml:1: deploy\.a\.bundle: no bundle\.json in .*bundles/a", said[1])
    assert re.match(r"hotfoot\.toml:3: deploy\.b\.bundle: code is missing in", said[2])
    assert re.search("has 6 layers, lambda-arm64 allows 5", said[3])
    assert re.search(r"600,000,\d+ bytes unzipped, lambda-arm64 allows 262,144,000", said[4])


def test_a_container_bundle_is_no_function(tmp_path: Path) -> None:
    rewrite(tmp_path / "other", replace(write_bundle(tmp_path / "other"), target="cpu-container-arm64"))
    with pytest.raises(InputError, match="is no Lambda; build with --target lambda-arm64"):
        config.read(project(tmp_path, '[deploy.b]\nbundle = "other"\n'))


def test_nothing_to_deploy_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no \[deploy\.NAME\]"):
        config.read(project(tmp_path, ""))


SHARED = """[api.text]
deploys = ["a", "b"]
default = "b"
[deploy.a]
[deploy.b]
[deploy.alone]
"""


def test_an_api_has_its_deployments_and_the_others_their_own_stacks(tmp_path: Path) -> None:
    for name in ("a", "b", "alone"):
        write_bundle(tmp_path / "bundles" / name, model_id=f"org/{name}-model")
    alone, shared = config.read(project(tmp_path, SHARED))
    assert isinstance(alone, Deployment)
    assert isinstance(shared, Shared)
    assert (alone.name, shared.name) == ("alone", "text")
    assert [deployment.name for deployment in shared.deployments] == ["b", "a"]
    assert shared.deployments[0].member == Member("b", "org/b-model", "text-classification")


def test_what_cannot_stand_behind_one_api_is_named_with_the_bundles(tmp_path: Path) -> None:
    rewrite(tmp_path / "bundles" / "a", replace(write_bundle(tmp_path / "bundles" / "a"), task=""))
    write_bundle(tmp_path / "bundles" / "b", model_id="a/model")
    with pytest.raises(InputError) as refused:
        config.read(project(tmp_path, SHARED))
    said = [line.strip() for line in str(refused.value).splitlines()[1:]]
    assert said[0] == "hotfoot.toml:2: api.text.deploys: 'a' is a deployment, and begins 'a/model', the model of b; give it another name"
    assert said[1] == ("hotfoot.toml:2: api.text.deploys: the bundle of a does not say its task; make it again with `hotfoot bundle`")
    assert re.match(r"hotfoot\.toml:6: deploy\.alone\.bundle: no bundle\.json in ", said[2])


def test_as_many_models_as_the_environment_has_room_for() -> None:
    def faults(count: int) -> list[str]:
        return models.faults([Member(f"name-{n:02d}", f"sentence-transformers/model-{n:02d}", "feature-extraction") for n in range(count)])

    assert faults(13) == []
    assert [fault.partition(" of the ")[0] for fault in faults(14)] == ["the list of 14 models may take 3093"]


def test_paths_lead_by_name_and_by_the_models_id() -> None:
    same, other = Member("a", "org/one", "t"), Member("b", "org/one", "t")
    plain, local = Member("gpt2", "gpt2", "t"), Member("c", "my folder", "t")
    assert models.paths([same, other, plain, local]) == {
        "a": ("/models/a", "/models/org/one"), "b": ("/models/b",), "gpt2": ("/models/gpt2",), "c": ("/models/c",),
    }  # fmt: skip
    assert models.paths([other, same])["b"] == ("/models/b", "/models/org/one")
    assert models.faults([same, other, plain, local]) == []

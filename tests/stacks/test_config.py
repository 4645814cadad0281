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
from hotfoot_infra import config
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

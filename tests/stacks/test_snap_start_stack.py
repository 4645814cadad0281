"""SnapStart in the template: one function has it, behind its alias, and no snapshot is left behind to be paid for."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotfoot.contract.errors import InputError
from hotfoot_infra import config
from support.cloud.bundles import write_bundle
from support.cloud.synthesized import Template, synthesize

TOML = "[deploy.tiny]\nsnap_start = true\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Template:
    return synthesize(tmp_path_factory.mktemp("snap-start"), TOML + "[deploy.tiny.bulk]\n")


@pytest.mark.slow
def test_the_http_function_has_it_and_the_bulk_function_does_not(made: Template) -> None:
    assert made.one("AWS::Lambda::Function", "Http")["SnapStart"] == {"ApplyOn": "PublishedVersions"}
    assert "SnapStart" not in made.one("AWS::Lambda::Function", "Bulk")
    assert made.findings == {"AwsSolutions": [], "Serverless": []}
    assert not made.warnings


@pytest.mark.slow
def test_a_version_goes_with_its_snapshot_when_the_alias_has_left_it(made: Template) -> None:
    found = {name: r for name, r in made.document["Resources"].items() if r["Type"] == "AWS::Lambda::Version"}
    policies = {name[:4]: (r["DeletionPolicy"], r.get("UpdateReplacePolicy")) for name, r in found.items()}
    assert policies == {"Http": ("Delete", "Delete"), "Bulk": ("RetainExceptOnCreate", "Retain")}
    http = made.id("AWS::Lambda::Version", "Http")
    assert made.one("AWS::Lambda::Alias", "Http")["FunctionVersion"] == {"Fn::GetAtt": [http, "Version"]}


@pytest.mark.slow
def test_without_it_nothing_is_said(tmp_path: Path) -> None:
    assert "SnapStart" not in synthesize(tmp_path, "[deploy.tiny]\n").one("AWS::Lambda::Function")


@pytest.mark.parametrize(("python", "fits"), [("3.11", False), ("3.12", True), ("3.13", True)])
def test_the_bundles_python_is_new_enough(python: str, fits: bool, tmp_path: Path) -> None:
    write_bundle(tmp_path / "bundles" / "tiny", python=python)
    (tmp_path / "hotfoot.toml").write_text(TOML, encoding="utf-8")
    if fits:
        [deployment] = config.read(tmp_path / "hotfoot.toml")
        assert isinstance(deployment, config.Deployment)
        assert deployment.settings.snap_start
        return
    with pytest.raises(InputError) as refused:
        config.read(tmp_path / "hotfoot.toml")
    said = str(refused.value).splitlines()[1].strip()
    assert said == "hotfoot.toml:2: deploy.tiny.snap_start: is there from Python 3.12 on, and the bundle is for 3.11"

"""Which AWS credentials are set up: said by files and variables alone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hotfoot import targets
from hotfoot_build import aws_profile, doctor
from support.bare_machine import bare_machine, only, states

LAMBDA = targets.load("lambda-arm64")
PROFILES = """
[default]
region = eu-north-1
[profile work]
sso_session = my
region = eu-west-3
[profile ran]
credential_process = touch {ran}
[profile empty]
"""


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    return bare_machine(monkeypatch, tmp_path)


@pytest.mark.parametrize(
    ("environ", "credentials", "region"),
    [
        ({}, None, "eu-north-1"),
        ({"AWS_REGION": "us-east-1"}, None, "us-east-1"),
        ({"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "hidden-1"}, "an access key in the variables", "eu-north-1"),
        ({"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE"}, None, "eu-north-1"),
        ({"AWS_PROFILE": "work"}, "single sign-on, of profile work", "eu-west-3"),
        ({"AWS_PROFILE": "ran"}, "a program, of profile ran", None),
        ({"AWS_PROFILE": "empty", "AWS_WEB_IDENTITY_TOKEN_FILE": "/there"}, "a web identity", None),
        ({"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.23/v1"}, "the container", "eu-north-1"),
    ],
)
def test_aws(environ: dict[str, str], credentials: str | None, region: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "home" / ".aws").mkdir()
    (tmp_path / "home" / ".aws" / "config").write_text(PROFILES.format(ran=tmp_path / "ran"), encoding="utf-8")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    seen = aws_profile.look()
    assert (seen.credentials, seen.region) == (credentials, region)
    assert states(doctor.aws(None)) == {
        "AWS credentials": "ok" if credentials else "warning",
        "AWS region": "ok" if region else "warning",
    }
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(("profile", "lack"), [("", "none in variables or files"), ("nope", "there is no profile nope")])
def test_no_aws_credentials(profile: str, lack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", profile)
    credentials, region = doctor.aws(LAMBDA)
    assert (credentials.status, credentials.detail) == ("warning", f"{lack}; deploying and signing need some")
    assert region.fix == "export AWS_REGION=eu-west-1"


def test_an_access_key_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "home" / ".aws").mkdir()
    (tmp_path / "home" / ".aws" / "credentials").write_text("[default]\naws_access_key_id = AKIAEXAMPLE\naws_secret_access_key = hidden\n")
    assert doctor.aws(None)[0].detail == "an access key, of profile default, not tried"


def test_no_botocore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    found = only(doctor.aws(None))
    assert found.status == "warning"
    assert found.fix.endswith(" -m pip install botocore")

"""Which AWS credentials and region are set up on this machine, as files and variables say: nothing is asked, run or refreshed.

botocore's own search would call the instance's metadata service, or run a `credential_process`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

# of a profile, the first key that is there says where its credentials come from
SOURCES = {
    "role_arn": "a role",
    "sso_session": "single sign-on",
    "sso_start_url": "single sign-on",
    "login_session": "aws login",
    "aws_access_key_id": "an access key",
    "credential_process": "a program",
}
VARIABLES = {
    "AWS_WEB_IDENTITY_TOKEN_FILE": "a web identity",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "the container",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI": "the container",
}


@dataclass(frozen=True)
class Seen:
    """credentials: where they come from, without any of them; None where there are none, and lack says why. region may be None, too."""

    credentials: str | None
    lack: str
    region: str | None


def look(environ: Mapping[str, str] = os.environ) -> Seen:
    """What is set up. Raises ModuleNotFoundError without botocore, whose reader of the files it is."""
    from botocore.session import Session

    session = Session()
    name = environ.get("AWS_PROFILE") or environ.get("AWS_DEFAULT_PROFILE")
    profile = session.full_config["profiles"].get(name or "default")
    region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or (profile or {}).get("region")
    if name and profile is None:
        return Seen(None, f"there is no profile {name}", region)
    source = _source(profile or {}, environ, name)
    return Seen(source, "" if source else f"profile {name} has none" if name else "none in variables or files", region)


def _source(profile: Mapping[str, str], environ: Mapping[str, str], name: str | None) -> str | None:
    """As botocore ranks them, for which the key in the variables comes first."""
    if environ.get("AWS_ACCESS_KEY_ID") and environ.get("AWS_SECRET_ACCESS_KEY"):
        return "an access key in the variables"
    if words := next((words for key, words in SOURCES.items() if profile.get(key)), None):
        return f"{words}, of profile {name or 'default'}"
    return next((words for key, words in VARIABLES.items() if environ.get(key)), None)

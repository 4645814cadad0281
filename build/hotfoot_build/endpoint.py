"""A deployed endpoint, and requests to it: signed with the user's AWS credentials, with a bearer token, or as they are."""

from __future__ import annotations

import ipaddress
import os
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPException, HTTPMessage
from typing import IO, Any
from urllib.parse import urlsplit

from hotfoot.contract.errors import InputError, UnsupportedError

TIMEOUT_S = 60  # twice what an HTTP API waits for a function
# abc123.execute-api.eu-west-1.amazonaws.com, abc123.lambda-url.eu-west-1.on.aws
AWS_HOST = re.compile(r"\.(?P<door>execute-api|lambda-url)\.(?P<region>[a-z0-9-]+)\.(vpce\.)?(amazonaws\.com(\.cn)?|on\.aws|api\.aws)$")
SERVICES = {"execute-api": "execute-api", "lambda-url": "lambda"}
BEARER = "HOTFOOT_TOKEN"  # the variable that also tells a server what to ask for

# method, address, headers (names in lower case), body -> headers with what proves who asks
Prove = Callable[[str, str, Mapping[str, str], bytes], dict[str, str]]


@dataclass(frozen=True)
class Answer:
    """What came back, whatever its status."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


@dataclass(frozen=True)
class Endpoint:
    """An address without a slash at its end, and how requests to it prove who asks."""

    url: str
    prove: Prove

    def send(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """The answer to one request. Raises OSError where there is none; a redirection is an answer, and not followed."""
        address = self.url + path
        proven = self.prove(method, address, headers, body)
        request = urllib.request.Request(address, body or None, proven, method=method)  # noqa: S310 - the user's own address
        try:
            with OPENER.open(request, timeout=TIMEOUT_S) as found:
                return Answer(found.status, tuple(found.headers.items()), found.read())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, tuple(error.headers.items()), error.read())
        except HTTPException as error:
            raise OSError(f"the answer breaks off or is none of HTTP ({type(error).__name__})") from error


class Stay(urllib.request.HTTPRedirectHandler):
    """Follows nothing: what proves who asks is for one address."""

    def redirect_request(self, req: Any, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str) -> None:  # noqa: ARG002
        """No request."""
        return


OPENER = urllib.request.build_opener(Stay)


def connect(url: str, token: str | None, region: str | None) -> Endpoint:
    """The endpoint at `url`: with the token where there is one, else signed where the address is AWS's or a region is given.

    Without a token the environment's counts, but not where requests are signed: it may be a server's own secret, which AWS would not
    take and should not see.
    Raises InputError for an address that is none, or over which credentials would travel in the open; UnsupportedError where signing
    lacks botocore or credentials.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or "@" in parts.netloc:
        raise InputError(f"is {url!r}; it must be an address as https://HOST or https://HOST/STAGE.", where="--url")
    found = AWS_HOST.search(parts.hostname.rstrip("."))
    if token is None and not found and not region:
        token = os.environ.get(BEARER) or None
    prove: Prove = _plain
    if token is not None:
        prove = _bearer(token)
    elif found or region:
        prove = _signed(SERVICES[found["door"]] if found else "execute-api", region or (found["region"] if found else ""))
    if prove is not _plain and parts.scheme == "http" and not _is_here(parts.hostname):
        raise InputError("is http: whoever is on the way could read your credentials.", hint="Use https.", where="--url")
    return Endpoint(url.rstrip("/"), prove)


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _plain(_method: str, _url: str, headers: Mapping[str, str], _body: bytes) -> dict[str, str]:
    return dict(headers)


def _bearer(token: str) -> Prove:
    return lambda _method, _url, headers, _body: {**headers, "authorization": f"Bearer {token}"}


def _signed(service: str, region: str) -> Prove:
    """Signature Version 4 with the credentials that the AWS command line would use."""
    try:
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import BotoCoreError
        from botocore.session import Session
    except ModuleNotFoundError:
        raise UnsupportedError(
            "requests to this address are signed, which needs botocore: pip install botocore.", hint="Or give a --token."
        ) from None
    try:
        credentials = Session().get_credentials()
    except BotoCoreError as error:
        raise UnsupportedError(f"the AWS credentials cannot be read: {error}") from None
    if credentials is None:
        raise UnsupportedError(
            "requests to this address are signed, and there are no AWS credentials.",
            hint="Make some as for the AWS command line, with `aws sso login` or AWS_PROFILE; or give a --token.",
        )

    def prove(method: str, url: str, headers: Mapping[str, str], body: bytes) -> dict[str, str]:
        # only what nobody on the way changes; host is added. Credentials that expire are fetched anew when they have
        kept = {name: value for name, value in headers.items() if name == "content-type"}
        request = AWSRequest(method=method, url=url, data=body, headers=kept)
        try:
            SigV4Auth(credentials.get_frozen_credentials(), service, region).add_auth(request)
        except BotoCoreError as error:
            raise OSError(f"the AWS credentials cannot be renewed: {error}") from error
        signature = {name.lower(): value for name, value in request.headers.items()}
        return {**{name: value for name, value in headers.items() if name != "authorization"}, **signature}

    return prove

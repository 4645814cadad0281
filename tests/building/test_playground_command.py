"""`hotfoot playground`: requests arrive signed or with a token, and nobody but the page may send any."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from hotfoot.contract.errors import InputError, UnsupportedError
from hotfoot.http import pages
from hotfoot_build import endpoint, playground_command
from walls.house import BLOCKER

KEYS = Credentials("AKIDEXAMPLE", "a secret", "a session's token")
BODY = '{"inputs": "Zoë, 👩‍👧"}'.encode()
HTML = {"accept": "text/html,*/*"}


@pytest.fixture(autouse=True)
def no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOTFOOT_TOKEN", raising=False)


@dataclass
class Deployed:
    """A deployment as it looks from outside: what it was asked, and what it answers."""

    url: str
    asked: list[tuple[str, str, Mapping[str, str], bytes]] = field(default_factory=list)


@contextmanager
def deployed() -> Iterator[Deployed]:
    class Door(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            found.asked.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            moved = self.path.endswith("/moved")
            self.send_response(302 if moved else 422)
            self.send_header("x-cache", "hit")
            self.send_header("server-timing", "run;dur=1.5")
            if moved:
                self.send_header("location", f"{found.url}/elsewhere")
            self.send_header("content-length", "15")
            self.end_headers()
            self.wfile.write(b'{"error":"why"}')

        do_GET = do_POST  # noqa: N815 - a name of the base class's choosing

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Door) as server:
        found = Deployed(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield found
        server.shutdown()
        thread.join()


@contextmanager
def local(url: str, token: str | None = None, region: str | None = None) -> Iterator[playground_command.Server]:
    with playground_command.Server(0, endpoint.connect(url, token, region)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(
    server: playground_command.Server, method: str = "POST", path: str = "/", headers: Mapping[str, str] | None = None
) -> tuple[int, Mapping[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.request(method, path, BODY if method == "POST" else None, {"content-type": "application/json", **(headers or {})})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, {k.lower(): v for k, v in answer.getheaders()}, body


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_PROFILE", "AWS_DEFAULT_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEYS.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEYS.secret_key)
    monkeypatch.setenv("AWS_SESSION_TOKEN", str(KEYS.token))


def signature(method: str, url: str, headers: Mapping[str, str], body: bytes) -> str:
    """What AWS would have the request's authorization be, worked out from what arrived."""
    credential, signed = (headers["authorization"].split(f"{name}=")[1].split(",")[0] for name in ("Credential", "SignedHeaders"))
    _, _, region, service, _ = credential.split("/")
    kept = {name: headers[name] for name in signed.split(";")}
    request = AWSRequest(method=method, url=url, data=body, headers=kept)
    request.context["timestamp"] = headers["x-amz-date"]
    verifier = SigV4Auth(KEYS, service, region)
    proof = verifier.signature(verifier.string_to_sign(request, verifier.canonical_request(request)), request)
    return f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={signed}, Signature={proof}"


@pytest.mark.parametrize("path", ["/", "/models/a%20b/pipeline/x?top_k=2&a=%2F"])
@pytest.mark.usefixtures("credentials")
def test_a_request_arrives_signed_as_aws_would_have_it(path: str) -> None:
    with deployed() as there, local(f"{there.url}/prod", region="eu-west-1") as server:
        status, headers, body = ask(server, path=path, headers={"x-use-cache": "false", "authorization": "Bearer mine"})
        assert (status, body) == (422, b'{"error":"why"}')
        assert (headers["x-cache"], headers["server-timing"]) == ("hit", "run;dur=1.5")
    [(method, asked, sent, arrived)] = there.asked
    assert (method, asked, arrived) == ("POST", f"/prod{path}", BODY)
    assert (sent["content-type"], sent["x-use-cache"]) == ("application/json", "false")
    assert "/eu-west-1/execute-api/aws4_request" in sent["authorization"]
    assert sent["x-amz-security-token"] == KEYS.token
    assert sent["authorization"] == signature("POST", there.url + asked, sent, arrived)
    assert sent["authorization"] != signature("POST", there.url + asked, sent, b"{}")


@pytest.mark.parametrize(
    ("host", "scope"),
    [
        ("abc.execute-api.eu-central-1.amazonaws.com", "eu-central-1/execute-api"),
        ("abc.execute-api.cn-north-1.amazonaws.com.cn", "cn-north-1/execute-api"),
        ("abc.lambda-url.us-east-2.on.aws", "us-east-2/lambda"),
        ("abc.execute-api.us-east-1.api.aws.", "us-east-1/execute-api"),
        ("vpce-1-2.execute-api.us-east-1.vpce.amazonaws.com", "us-east-1/execute-api"),
    ],
)
@pytest.mark.usefixtures("credentials")
def test_an_address_of_aws_says_what_to_sign_for(host: str, scope: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTFOOT_TOKEN", "a server's own secret")
    found = endpoint.connect(f"https://{host}/", None, None)
    proven = found.prove("GET", f"{found.url}/info", {}, b"")
    assert f"/{scope}/aws4_request" in proven["authorization"]
    sent = {**proven, "host": host}
    assert proven["authorization"] == signature("GET", f"https://{host}/info", sent, b"")


@pytest.mark.parametrize(
    "host", ["abc.execute-api.eu-west-1.example.com", "abc.lambda-url.us-east-2.on.aws.example.com", "execute-api.eu-west-1.amazonaws.com"]
)
def test_an_address_that_looks_like_one_of_aws_is_none(host: str) -> None:
    assert endpoint.connect(f"https://{host}", None, None).prove("GET", f"https://{host}/", {"a": "b"}, b"") == {"a": "b"}


@pytest.mark.usefixtures("credentials")
def test_the_environments_token_is_for_what_is_not_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    def proof(url: str, token: str | None, region: str | None) -> str:
        return endpoint.connect(url, token, region).prove("GET", url, {}, b"").get("authorization", "").partition(" ")[0]

    aws, other = "https://abc.lambda-url.us-east-2.on.aws/", "https://api.example.com/"
    monkeypatch.setenv("HOTFOOT_TOKEN", "a server's own secret")
    assert [proof(url, None, None) for url in (aws, other)] == ["AWS4-HMAC-SHA256", "Bearer"]
    assert [proof(url, "typed", None) for url in (aws, other)] == ["Bearer", "Bearer"]
    assert proof(other, None, "eu-west-1") == "AWS4-HMAC-SHA256"
    monkeypatch.setenv("HOTFOOT_TOKEN", "")
    assert proof(other, None, None) == ""


def test_a_token_takes_the_place_of_a_signature() -> None:
    with deployed() as there, local(there.url, token="t0k3n", region="eu-west-1") as server:
        ask(server)
    assert there.asked[0][2]["authorization"] == "Bearer t0k3n"
    assert "x-amz-date" not in there.asked[0][2]


def test_elsewhere_a_request_goes_as_it_is_and_tells_nothing_of_this_machine() -> None:
    with deployed() as there, local(there.url) as server:
        own = {"origin": f"http://localhost:{server.server_port}", "cookie": "a=b", "referer": "http://x/", "sec-fetch-site": "same-origin"}
        assert ask(server, headers={**own, "authorization": "Bearer typed"})[0] == 422
    sent = there.asked[0][2]
    assert sent["authorization"] == "Bearer typed"
    assert sent["host"] == urlsplit(there.url).netloc
    assert not {"origin", "cookie", "referer", "sec-fetch-site"} & set(sent)


def test_a_redirection_is_passed_on_and_not_followed() -> None:
    with deployed() as there, local(there.url, token="t0k3n") as server:
        status, headers, _ = ask(server, path="/moved")
    assert (status, headers["location"], len(there.asked)) == (302, f"{there.url}/elsewhere", 1)


def test_a_browser_gets_the_page() -> None:
    with deployed() as there, local(there.url) as server:
        for path in ("/", "/?a=b", "/models/org/name/"):
            status, headers, body = ask(server, "GET", path, HTML)
            assert (status, body) == (200, pages.playground().body)
            assert headers["content-security-policy"] == pages.playground().headers["content-security-policy"]
        assert there.asked == []
        assert ask(server, "GET", "/", {"accept": "application/json"})[0] == 422
        assert ask(server, "GET", "/docs", HTML)[0] == 422
        assert [path for _, path, _, _ in there.asked] == ["/", "/docs"]


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"host": "evil.example"},
        {"host": "evil.example:80"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_another_site_is_refused(method: str, headers: dict[str, str]) -> None:
    with deployed() as there, local(there.url, token="t0k3n") as server:
        status, said, body = ask(server, method, "/info", headers)
    assert (status, said["connection"], json.loads(body)["error_type"]) == (403, "close", "Forbidden")
    assert there.asked == []


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("POST .evil.example/ HTTP/1.1", 400),
        ("POST http://evil.example/ HTTP/1.1", 400),
        ("POST /models/zoë HTTP/1.1", 400),
        ("POST /\x7f HTTP/1.1", 400),
        ("POST / HTTP/1.1", 411),
    ],
)
def test_what_is_no_request_of_a_page_is_refused(line: str, status: int) -> None:
    with deployed() as there, local(there.url, token="t0k3n") as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
        connection.connect()
        length = "transfer-encoding: chunked" if status == 411 else "content-length: 0"
        connection.sock.sendall(f"{line}\r\nhost: 127.0.0.1:{server.server_port}\r\n{length}\r\n\r\n".encode())
        answer = connection.sock.recv(100)
        connection.close()
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert there.asked == []


def test_an_endpoint_that_is_not_there_is_named() -> None:
    with deployed() as there:
        pass
    with local(there.url) as server:
        status, _, body = ask(server)
    assert status == 502
    assert json.loads(body)["error"].startswith(f"{there.url} does not answer: ")


@pytest.mark.parametrize("url", ["example.com", "ftp://example.com", "https://", "https://a:b@example.com", "https://example.com/?a=b"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InputError, match="must be an address"):
        endpoint.connect(url, None, None)


def test_credentials_do_not_travel_in_the_open() -> None:
    with pytest.raises(InputError, match="Use https"):
        endpoint.connect("http://api.example.com", "t0k3n", None)
    assert endpoint.connect("http://api.example.com", None, None).url == "http://api.example.com"


@pytest.mark.usefixtures("credentials")
def test_without_credentials_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(UnsupportedError, match=r"no AWS credentials.*aws sso login"):
        endpoint.connect("https://abc.lambda-url.us-east-2.on.aws", None, None)
    monkeypatch.setenv("AWS_PROFILE", "absent")
    with pytest.raises(UnsupportedError, match=r"cannot be read.*absent"):
        endpoint.connect("https://abc.lambda-url.us-east-2.on.aws", None, None)


def test_without_botocore_it_says_what_to_do() -> None:
    code = f"{BLOCKER}\nblock('botocore', 'boto3')\nfrom hotfoot_build import cli\ncli.main()"
    command = [sys.executable, "-c", code, "playground", "--no-open", "--url", "https://abc.lambda-url.us-east-2.on.aws"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, "")
    assert "pip install botocore" in done.stderr


def test_a_port_that_is_taken_is_named() -> None:
    with deployed() as there, pytest.raises(UnsupportedError, match="Choose another --port"):
        playground_command.Server(int(urlsplit(there.url).port or 0), endpoint.connect(there.url, None, None))


def test_the_command_serves_until_it_is_interrupted() -> None:
    with deployed() as there:
        command = [sys.executable, "-c", "from hotfoot_build import cli\ncli.main()", "playground", "--url", there.url, "--no-open"]
        environ = {**os.environ, "HOTFOOT_TOKEN": "from outside"}
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ) as process:
            assert process.stdout is not None
            address = urlsplit(process.stdout.readline().strip())
            connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=10)
            connection.request("GET", "/info")
            assert connection.getresponse().read() == b'{"error":"why"}'
            connection.close()
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=20)
        assert (process.returncode, said) == (0, "")
        assert there.asked[0][2]["authorization"] == "Bearer from outside"

"""An AWS account on the loopback device, and the `cdk` command to deploy into it."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import boto3

from hotfoot_build import cache

ACCOUNT, REGION = "123456789012", "eu-central-1"
CDK = "aws-cdk@2.1148.1"  # older than the library, it would refuse what the library writes; 3.0.0 is an old, withdrawn number
NODE = 20
ROOT = Path(__file__).resolve().parents[3]
KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_REGION": REGION, "AWS_DEFAULT_REGION": REGION}
# what would point the CDK, or a function, at a real account
FOREIGN = re.compile(r"AWS_|CDK_|HOTFOOT_|NODE_")


def missing_node() -> str | None:
    """None, or why the CDK cannot run on this machine."""
    node = shutil.which("node")
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip() if node else "absent"
    fits = re.match(rf"v(?:{NODE}|2[1-9]|[3-9]\d)\.", said)
    return None if fits else f"the CDK needs node {NODE} or newer; node is {said}"


def cdk_command() -> Path:
    """The pinned `cdk`, installed once into the user's cache. Fails, and says what to do, where there is no node for it."""
    lack = missing_node()
    assert lack is None, lack

    def install(aside: Path) -> None:
        npm = ["npm", "install", "--prefix", str(aside), "--silent", "--no-audit", "--no-fund", "--ignore-scripts", CDK]
        subprocess.run(npm, check=True)

    return cache.made_once(cache.root() / "cdk" / CDK.replace("@", "-"), install) / "node_modules" / ".bin" / "cdk"


class Account:
    """`with Account(folder) as account:` the account is empty at first; folder takes the server's log.

    docker: the program that the CDK makes images with.
    """

    def __init__(self, folder: Path, docker: Path | None = None) -> None:
        self._log = folder / "server.log"
        self._docker = {} if docker is None else {"CDK_DOCKER": str(docker)}
        self.port = free_port()

    @property
    def url(self) -> str:
        """Where the AWS services are."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        path = os.pathsep.join(filter(None, [str(ROOT / "tests"), os.environ.get("PYTHONPATH")]))
        command = [sys.executable, "-m", "support.cloud.server", str(self.port)]
        with self._log.open("wb") as sink:
            self._process = subprocess.Popen(command, env={**self._environ(), "PYTHONPATH": path}, stdout=sink, stderr=sink)
        deadline = time.monotonic() + 60
        while True:
            assert self._process.poll() is None, f"the server ended at once:\n{self.log}"
            assert time.monotonic() < deadline, f"the server does not answer:\n{self.log}"
            try:
                with urllib.request.urlopen(f"{self.url}/moto-api/data.json", timeout=5):
                    return self
            except OSError:
                time.sleep(0.1)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def log(self) -> str:
        """What the server wrote."""
        return self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else ""

    def client(self, service: str) -> Any:
        """A boto3 client of this account."""
        return boto3.client(
            service, endpoint_url=self.url, region_name=REGION, aws_access_key_id="testing", aws_secret_access_key="testing"
        )

    def function_environ(self) -> dict[str, str]:
        """What a function has to know to find this account instead of AWS."""
        return {**KEYS, "AWS_ENDPOINT_URL": self.url}

    def cdk(self, project: Path, *arguments: str) -> str:
        """Run `cdk` in the folder `project`; gives what it printed, and fails with that where it failed."""
        environ = {
            **self._environ(),
            **KEYS,
            **self._docker,
            "AWS_ENDPOINT_URL": self.url,  # an address and no name: then S3 is asked by path and not by host
            "AWS_ENDPOINT_URL_S3_FOR_CLOUDFORMATION": f"http://localhost:{self.port}",  # moto knows a template's URL by this name
            "AWS_EC2_METADATA_DISABLED": "true",
            "CDK_DISABLE_CLI_TELEMETRY": "true",
            "CI": "true",
            "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "1",
        }
        command = [str(cdk_command()), *arguments, "--no-notices", "--no-color"]
        done = subprocess.run(
            command,
            cwd=project,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"cdk {' '.join(arguments)}\n{done.stdout}\n{self.log[-3000:]}"
        return done.stdout

    def _environ(self) -> dict[str, str]:
        return {key: value for key, value in os.environ.items() if not FOREIGN.match(key)}


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

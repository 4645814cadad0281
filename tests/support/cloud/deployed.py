"""What was deployed, taken back out of the account and run: the function's configuration, its code, its layers, its queue."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hotfoot.contract import codec
from hotfoot.contract.bundle import BUNDLE, Bundle, LayerDir, LayerKind
from hotfoot_build.package.emulate import Emulator
from support.cloud.account import ACCOUNT, REGION, Account

ASSETS = f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}"
SDK = ("boto3", "botocore", "dateutil", "jmespath", "s3transfer", "six", "urllib3")  # pure Python, so any version runs them
Message = dict[str, Any]


@dataclass(frozen=True)
class Stack:
    """A deployed stack."""

    account: Account
    name: str

    @property
    def outputs(self) -> dict[str, str]:
        """Its outputs."""
        found = self.account.client("cloudformation").describe_stacks(StackName=self.name)["Stacks"][0]["Outputs"]
        return {output["OutputKey"]: output["OutputValue"] for output in found}

    def configuration(self, function: str) -> dict[str, Any]:
        """What the version behind the function's alias is."""
        found: dict[str, Any] = self.account.client("lambda").get_function(FunctionName=function, Qualifier="live")["Configuration"]
        return found

    def unpack(self, function: str, directory: Path) -> Path:
        """Code and layers of the function's live version, as Lambda would lay them out, as a bundle in `directory`."""
        live, template = self.configuration(function), self._template()
        logical = {r["PhysicalResourceId"]: r["LogicalResourceId"] for r in self.resources()}
        self._fetch(template[logical[function]]["Properties"]["Code"]["S3Key"], directory / "code")
        layers = []
        for number, layer in enumerate(live["Layers"]):
            self._fetch(template[logical[layer["Arn"]]]["Properties"]["Content"]["S3Key"], directory / f"layer{number}")
            layers.append(described("runtime", f"layer{number}"))
        made = Bundle(
            target="",
            python=live["Runtime"].removeprefix("python"),
            arch=live["Architectures"][0],
            handler=live["Handler"],
            model_id="",
            model_digest="",
            bytecode=True,
            layers=tuple(layers),
            code=described("code", "code"),
        )
        (directory / BUNDLE).write_text(codec.dumps(made), encoding="utf-8")
        return directory

    def run(self, function: str, directory: Path, told: Mapping[str, str] | None = None) -> Emulator:
        """The function's live version under AWS's emulator, with the environment that was deployed, and the SDK that Lambda has.

        told: what it has to know besides to find this account's parts.
        """
        live = self.configuration(function)
        environ = {**live["Environment"]["Variables"], **self.account.function_environ(), **(told or {})}
        bundle = self.unpack(function, directory)
        return WithSdk(bundle, memory_mb=live["MemorySize"], timeout_s=live["Timeout"], env=environ)

    def _template(self) -> dict[str, Any]:
        body = self.account.client("cloudformation").get_template(StackName=self.name)["TemplateBody"]
        resources: dict[str, Any] = (body if isinstance(body, dict) else json.loads(body))["Resources"]
        return resources

    def resources(self) -> list[dict[str, str]]:
        """What the stack is made of."""
        found: list[dict[str, str]] = self.account.client("cloudformation").list_stack_resources(StackName=self.name)[
            "StackResourceSummaries"
        ]
        return found

    def _fetch(self, key: str, into: Path) -> None:
        body = self.account.client("s3").get_object(Bucket=ASSETS, Key=key)["Body"].read()
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            archive.extractall(into)


def described(kind: LayerKind, path: str) -> LayerDir:
    """A part of a bundle of which only the place matters."""
    return LayerDir(kind=kind, path=path, hash="", unzipped_bytes=0, zipped_bytes=0)


class WithSdk(Emulator):
    """Lambda's Python comes with boto3."""

    def _environment(self, opt: Path) -> dict[str, str]:
        sdk = opt.parent / "sdk"
        sdk.mkdir(exist_ok=True)
        for name in SDK:
            spec = find_spec(name)
            assert spec, f"{name} is missing: it comes with boto3"
            assert spec.origin
            source = Path(spec.origin)
            link = sdk / (name if source.name == "__init__.py" else source.name)
            if not link.exists():
                link.symlink_to(source.parent if source.name == "__init__.py" else source)
        environ = super()._environment(opt)
        return {**environ, "PYTHONPATH": f"{environ['PYTHONPATH']}:{sdk}"}


@dataclass(frozen=True)
class Queue:
    """An SQS queue, and the part of Lambda that reads it for a function."""

    account: Account
    url: str

    def take(self) -> list[Message]:
        """Everything that is visible now; it stays invisible to others for the queue's time."""
        client, found = self.account.client("sqs"), []
        while batch := client.receive_message(QueueUrl=self.url, MaxNumberOfMessages=10, AttributeNames=["All"]).get("Messages"):
            found += batch
        return found

    def deliver(self, messages: Sequence[Message], function: Emulator, batch: int = 10) -> list[Message]:
        """Invoke the function with batches of messages and delete what it does not report; gives what failed."""
        client, failed = self.account.client("sqs"), []
        for some in batches(messages, batch):
            answer = function.invoke(self.event(some))
            bad = {item["itemIdentifier"] for item in answer["batchItemFailures"]}
            for message in some:
                if message["MessageId"] in bad:
                    failed.append(message)
                    client.change_message_visibility(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)
                else:
                    client.delete_message(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])
        return failed

    def event(self, messages: Iterable[Message]) -> dict[str, Any]:
        """The event that Lambda makes of a batch."""
        arn = self.account.client("sqs").get_queue_attributes(QueueUrl=self.url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        return {
            "Records": [
                {
                    "messageId": m["MessageId"],
                    "receiptHandle": m["ReceiptHandle"],
                    "body": m["Body"],
                    "attributes": m.get("Attributes", {}),
                    "messageAttributes": {},
                    "md5OfBody": m["MD5OfBody"],
                    "eventSource": "aws:sqs",
                    "eventSourceARN": arn,
                    "awsRegion": REGION,
                }
                for m in messages
            ]
        }


def batches(messages: Sequence[Message], size: int) -> Iterator[list[Message]]:
    """At most `size` messages at a time, and none twice in one batch, as in SQS."""
    rest = list(messages)
    while rest:
        batch: dict[str, Message] = {}
        later = []
        for message in rest:
            if len(batch) < size and message["MessageId"] not in batch:
                batch[message["MessageId"]] = message
            else:
                later.append(message)
        yield list(batch.values())
        rest = later

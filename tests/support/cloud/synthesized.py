"""Templates, made in this process: the CDK takes seconds to load, and node, and little after that."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hotfoot.contract.project import FILE
from support.cloud.account import ROOT
from support.cloud.bundles import write_bundle

CONTEXT = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
PUBLIC = """
[deploy.tiny]
auth = "none"
timeout_s = {timeout_s}
memory_mb = {memory_mb}
throttle_rate = 5
throttle_burst = 7
log_retention_days = 7
removal = "destroy"
[deploy.tiny.bulk]
input_suffixes = [".jsonl", ".txt"]
results_prefix = "out/"
timeout_s = {bulk_timeout_s}
mask = true
parameters = {{ aggregation_strategy = "simple" }}
"""
CLOSED = """
[deploy.tiny]
reserved_concurrency = 4
provisioned_concurrency = 2
"""


@dataclass(frozen=True)
class Template:
    """A stack's template, and what each validation said of it."""

    document: dict[str, Any]
    findings: dict[str, list[dict[str, Any]]]
    warnings: list[str]

    def all(self, kind: str) -> dict[str, dict[str, Any]]:
        """The properties of every resource of a type, by logical id."""
        found = self.document["Resources"].items()
        return {name: resource.get("Properties", {}) for name, resource in found if resource["Type"] == kind}

    def one(self, kind: str, part: str = "") -> dict[str, Any]:
        """The properties of the only resource of a type whose logical id has `part` in it."""
        (found,) = [properties for name, properties in self.all(kind).items() if part in name]
        return found

    def id(self, kind: str, part: str = "") -> str:
        """The logical id of that only resource."""
        (found,) = [name for name in self.all(kind) if part in name]
        return found


def synthesize(folder: Path, toml: str, weights: str = "weights") -> Template:
    """The template of `[deploy.tiny]` over a bundle whose model is `weights`."""
    write_bundle(folder / "bundles" / "tiny", weights=weights)
    (made,) = synthesize_all(folder, toml).values()
    return made


def synthesize_all(folder: Path, toml: str) -> Mapping[str, Template]:
    """The templates of all that the file asks for, by the stacks' names; the bundles are there."""
    import aws_cdk as cdk  # here, or the fast tests would need node only to be collected

    from hotfoot_infra.compose import build

    path = folder / FILE
    path.write_text(toml, encoding="utf-8")
    app = cdk.App(context=CONTEXT, outdir=str(folder / "cdk.out"))
    names = [stack.stack_name for stack in build(path, app)]
    made = app.synth()
    report = json.loads((folder / "cdk.out" / "validation-report.json").read_text(encoding="utf-8"))
    findings = {said["pluginName"]: said["violations"] for said in report["pluginReports"]}
    stacks = {name: made.get_stack_by_name(name) for name in names}
    return {name: Template(one.template, findings, [str(message.entry.data) for message in one.messages]) for name, one in stacks.items()}


def references(value: Any) -> Iterator[str]:
    """Logical ids that a piece of a template names."""
    if isinstance(value, dict):
        yield from [value["Ref"]] if "Ref" in value else []
        yield from [value["Fn::GetAtt"][0]] if "Fn::GetAtt" in value else []
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from references(inner)

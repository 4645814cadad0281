"""The bundle's layers. A stack owns its layers, and all its functions share them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import aws_cdk as cdk
from aws_cdk import aws_lambda as lam

from hotfoot_infra.config import Deployment

T = TypeVar("T")


def runtime_of(deployment: Deployment) -> lam.Runtime:
    """The managed Python that the bundle's bytecode and compiled modules were made for."""
    # supports_snap_start: the CDK asks it of its own list of runtimes; here the version was checked with hotfoot.toml
    return lam.Runtime(f"python{deployment.bundle.python}", lam.RuntimeFamily.PYTHON, supports_snap_start=True)


def architecture_of(deployment: Deployment) -> lam.Architecture:
    """The processor that the bundle's wheels and model were made for."""
    return lam.Architecture.ARM_64 if deployment.bundle.arch == "arm64" else lam.Architecture.X86_64


def layers_of(stack: cdk.Stack, deployment: Deployment, among: Sequence[Deployment]) -> list[lam.LayerVersion]:
    """The bundle's layers in the order in which Lambda merges them, each made once a stack; none for an image, which has them inside.

    among: all deployments of the stack. Content names the construct, and so the resource. What did not change is neither uploaded nor
    published again; what did change is another resource, and with it every function that has the layer gets a new version.
    """
    found = []
    for layer in () if deployment.bundle.package == "image" else deployment.bundle.layers:
        name = f"{layer.kind.title()}Layer{layer.hash[:12]}"
        existing = stack.node.try_find_child(name)
        made = existing if isinstance(existing, lam.LayerVersion) else None
        # a tokenizer is data, so bundles of two machines may share its layer
        users = [other for other in among if layer.hash in {part.hash for part in other.bundle.layers}]
        found.append(
            made
            or lam.LayerVersion(
                stack,
                name,
                code=lam.Code.from_asset(str(deployment.directory / layer.path)),
                compatible_runtimes=once(map(runtime_of, users), by=lambda runtime: runtime.name),
                compatible_architectures=once(map(architecture_of, users), by=lambda architecture: architecture.name),
                description=f"hotfoot {layer.kind} {layer.hash[:12]}",
                # versions that use it keep working when it is deleted
                removal_policy=cdk.RemovalPolicy.DESTROY,
            )
        )
    return found


def once(found: Iterable[T], *, by: Callable[[T], str]) -> list[T]:
    """Each of them once, by its name, in the order of the names: the CDK's own objects are never equal."""
    named = {by(one): one for one in found}
    return [named[name] for name in sorted(named)]

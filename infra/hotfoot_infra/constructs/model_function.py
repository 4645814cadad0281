"""A function that runs the bundle's code and layers, with its own role and log group, behind the alias `live`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ecr_assets as ecr_assets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

from hotfoot.contract.bundle import MODEL_PLACE
from hotfoot.contract.manifest import WEIGHTS
from hotfoot.contract.project import Door
from hotfoot_infra.config import Deployment
from hotfoot_infra.constructs.layers import architecture_of, runtime_of
from hotfoot_infra.constructs.raw import raw

ALIAS = "live"
# but not where a deployment failed: Lambda publishes nothing twice, so the same deployment would fail again over what is left of it
KEPT = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE


@dataclass(frozen=True)
class FunctionSpec:
    """What differs between the functions of one bundle.

    service: the function's name in its logs and metrics. recursive: it may call itself by way of a queue. snap_start: its environments
    wake from a snapshot.
    """

    handler: str
    description: str
    memory_mb: int
    timeout_s: int
    service: str
    environment: Mapping[str, str]
    reserved_concurrency: int | None = None
    provisioned_concurrency: int | None = None
    snap_start: bool = False
    recursive: bool = False


class ModelFunction(Construct):
    """`alias` is the only door: a version behind it never changes, so a deployment is a switch and can be taken back.

    The versions before stay, until the function goes and takes them along; but with SnapStart each has a snapshot, which is paid for
    by the hour, so there the one before goes as soon as the alias has left it, and going back means to deploy what was before.
    `function` is there for its metrics and its name.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, deployment: Deployment, layers: Sequence[lam.LayerVersion], spec: FunctionSpec
    ) -> None:
        super().__init__(scope, construct_id)
        log_group = log_group_of(self, "Logs", deployment.settings)
        # a role of its own: AWS's managed policy would let it write to every log group of the account
        self.role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        log_group.grant_write(self.role)
        self.function = lam.Function(
            self,
            "Function",
            architecture=architecture_of(deployment),
            **_code(deployment, spec),
            layers=list(layers) or None,  # an image may not even have an empty list
            memory_size=spec.memory_mb,
            timeout=cdk.Duration.seconds(spec.timeout_s),
            role=self.role,
            log_group=log_group,
            description=spec.description,
            reserved_concurrent_executions=spec.reserved_concurrency,
            environment={**_environment(deployment, spec), **self._weights(deployment)},
            recursive_loop=lam.RecursiveLoop.ALLOW if spec.recursive else None,
            snap_start=lam.SnapStartConf.ON_PUBLISHED_VERSIONS if spec.snap_start else None,
            # KEPT, or CloudFormation deletes a version as soon as the alias leaves it, and there is nothing to go back to
            current_version_options=lam.VersionOptions(removal_policy=cdk.RemovalPolicy.DESTROY if spec.snap_start else KEPT),
        )
        if spec.snap_start:
            reason = "the alias, the only door, leads to a published version"
            cdk.Annotations.of(self.function).acknowledge_warning("@aws-cdk/aws-lambda:snapStartRequirePublish", reason)
        if layers:  # in the bundle's order: the CDK sorts them by name
            raw(self.function, lam.CfnFunction).layers = [layer.layer_version_arn for layer in layers]
        self.alias = lam.Alias(
            self,
            "Alias",
            alias_name=ALIAS,
            version=self.function.current_version,
            provisioned_concurrent_executions=spec.provisioned_concurrency,
        )

    def _weights(self, deployment: Deployment) -> dict[str, str]:
        """What tells the function of an object with its weights, with the right to read this one; nothing where it has them itself.

        The object's name is its content's, so each version of the function reads the weights it was published with.
        """
        if deployment.bundle.weights is None:
            return {}
        asset = assets.Asset(self, "Weights", path=str(deployment.directory / deployment.bundle.weights.path / MODEL_PLACE / WEIGHTS))
        self.role.add_to_policy(
            iam.PolicyStatement(actions=["s3:GetObject"], resources=[asset.bucket.arn_for_objects(asset.s3_object_key)])
        )
        return {"HOTFOOT_WEIGHTS": asset.s3_object_url}


def _code(deployment: Deployment, spec: FunctionSpec) -> dict[str, Any]:
    """What runs in the function: the bundle's code on the managed Python, or the image that its Dockerfile makes."""
    if deployment.bundle.package == "image":
        platform = ecr_assets.Platform.LINUX_ARM64 if deployment.bundle.arch == "arm64" else ecr_assets.Platform.LINUX_AMD64
        image = lam.Code.from_asset_image(str(deployment.directory), cmd=[spec.handler], platform=platform)
        return {"runtime": lam.Runtime.FROM_IMAGE, "handler": lam.Handler.FROM_IMAGE, "code": image}
    code = lam.Code.from_asset(str(deployment.directory / deployment.bundle.code.path))
    return {"runtime": runtime_of(deployment), "handler": spec.handler, "code": code}


def removal_of(settings: Door) -> cdk.RemovalPolicy:
    """What becomes of data and logs when the stack is deleted."""
    return cdk.RemovalPolicy.DESTROY if settings.removal == "destroy" else cdk.RemovalPolicy.RETAIN


def log_group_of(scope: Construct, construct_id: str, settings: Door) -> logs.LogGroup:
    """A log group that forgets after the days that hotfoot.toml says."""
    made = logs.LogGroup(scope, construct_id, removal_policy=removal_of(settings))
    raw(made, logs.CfnLogGroup).retention_in_days = settings.log_retention_days
    return made


def _environment(deployment: Deployment, spec: FunctionSpec) -> dict[str, str]:
    return {
        "HOTFOOT_LOG_LEVEL": deployment.settings.log_level,
        "ORT_DISABLE_TELEMETRY": "1",
        "POWERTOOLS_SERVICE_NAME": spec.service,
        "POWERTOOLS_METRICS_NAMESPACE": "hotfoot",
        **spec.environment,
    }

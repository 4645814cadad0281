"""A function that runs the bundle's code and layers, with its own role and log group, behind the alias `live`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lam
from aws_cdk import aws_logs as logs
from constructs import Construct

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

    service: the function's name in its logs and metrics. recursive: it may call itself by way of a queue.
    """

    handler: str
    description: str
    memory_mb: int
    timeout_s: int
    service: str
    environment: Mapping[str, str]
    reserved_concurrency: int | None = None
    provisioned_concurrency: int | None = None
    recursive: bool = False


class ModelFunction(Construct):
    """`alias` is the only door: a version behind it never changes, so a deployment is a switch and can be taken back.

    The versions before stay, until the function goes and takes them along. `function` is there for its metrics and its name.
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
            runtime=runtime_of(deployment),
            architecture=architecture_of(deployment),
            handler=spec.handler,
            code=lam.Code.from_asset(str(deployment.directory / deployment.bundle.code.path)),
            layers=list(layers),
            memory_size=spec.memory_mb,
            timeout=cdk.Duration.seconds(spec.timeout_s),
            role=self.role,
            log_group=log_group,
            description=spec.description,
            reserved_concurrent_executions=spec.reserved_concurrency,
            environment=_environment(deployment, spec),
            recursive_loop=lam.RecursiveLoop.ALLOW if spec.recursive else None,
            # or CloudFormation deletes a version as soon as the alias leaves it, and there is nothing to go back to
            current_version_options=lam.VersionOptions(removal_policy=KEPT),
        )
        # in the bundle's order: the CDK sorts them by name
        raw(self.function, lam.CfnFunction).layers = [layer.layer_version_arn for layer in layers]
        self.alias = lam.Alias(
            self,
            "Alias",
            alias_name=ALIAS,
            version=self.function.current_version,
            provisioned_concurrent_executions=spec.provisioned_concurrency,
        )


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

"""hotfoot.toml becomes stacks, checked."""

from __future__ import annotations

from pathlib import Path

import aws_cdk as cdk
from cdk_nag import AwsSolutionsChecks, ServerlessChecks

from hotfoot_infra import config
from hotfoot_infra.acknowledged import acknowledge
from hotfoot_infra.config import Deployment
from hotfoot_infra.constructs.doors import refuse_latest
from hotfoot_infra.stacks import ApiStack, DeploymentStack, HotfootStack


def build(path: Path, app: cdk.App) -> list[HotfootStack]:
    """Add a stack to `app` for each `[api.NAME]` of the file, and for each `[deploy.NAME]` in none of them.

    Raises HotfootError for what cannot be deployed. What cdk-nag finds beyond that makes `app.synth()` fail.
    """
    wanted = config.read(path)
    stacks: list[HotfootStack] = [DeploymentStack(app, one) if isinstance(one, Deployment) else ApiStack(app, one) for one in wanted]
    for stack in stacks:
        acknowledge(stack)
        refuse_latest(stack)
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app), ServerlessChecks(app))
    return stacks

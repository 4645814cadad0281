"""`python -m hotfoot_infra.app`, which the `cdk` command runs: hotfoot.toml becomes stacks."""

from __future__ import annotations

import sys
from pathlib import Path

import aws_cdk as cdk
from cdk_nag import AwsSolutionsChecks, ServerlessChecks

from hotfoot.contract.errors import HotfootError
from hotfoot.contract.project import FILE
from hotfoot_infra import config
from hotfoot_infra.acknowledged import acknowledge
from hotfoot_infra.constructs.doors import refuse_latest
from hotfoot_infra.stacks import HotfootStack


def build(path: Path, app: cdk.App) -> list[HotfootStack]:
    """Add a stack to `app` for each `[deploy.NAME]` of the file. Raises HotfootError for what cannot be deployed."""
    stacks = [HotfootStack(app, deployment) for deployment in config.read(path)]
    for stack in stacks:
        acknowledge(stack)
        refuse_latest(stack)
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app), ServerlessChecks(app))
    return stacks


def main() -> None:
    """Synthesize the stacks of ./hotfoot.toml, or of the file that `-c hotfoot=FILE` names."""
    app = cdk.App()
    try:
        build(Path(app.node.try_get_context("hotfoot") or FILE), app)
    except HotfootError as error:
        sys.exit(f"{error.kind}: {error}")
    app.synth()


if __name__ == "__main__":
    main()

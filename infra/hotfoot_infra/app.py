"""`python -m hotfoot_infra.app`, which the `cdk` command runs."""

from __future__ import annotations

import sys
from pathlib import Path

from hotfoot.contract.errors import HotfootError
from hotfoot.contract.project import FILE


def main() -> None:
    """Synthesize the stacks of ./hotfoot.toml, or of the file that `-c hotfoot=FILE` names."""
    try:
        import aws_cdk as cdk

        from hotfoot_infra.compose import build
    except ModuleNotFoundError as error:  # a first deployment is where the extra is still missing
        sys.exit(f"{sys.executable} has no {error.name}. Install hotfoot there with its extra `infra`.")
    app = cdk.App()
    try:
        build(Path(app.node.try_get_context("hotfoot") or FILE), app)
    except HotfootError as error:
        sys.exit(f"{error.kind}: {error}")
    app.synth()


if __name__ == "__main__":
    main()

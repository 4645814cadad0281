"""Does it fit? The artifact and the runtime's packages against the target's limits."""

from __future__ import annotations

from hotfoot.contract.errors import BudgetError
from hotfoot.contract.target import Target
from hotfoot_build.progress import size

# unzipped runtime layer and code, measured by `hotfoot bundle`; a slow test holds real bundles to these within 5 %
RUNTIME_BYTES = {"arm64": 92_000_000, "x86_64": 101_000_000}


def check(artifact_bytes: int, target: Target) -> str:
    """How the package stands against the limit, as a sentence. Raises BudgetError when it cannot fit."""
    limit = target.limits.package_bytes
    runtime = RUNTIME_BYTES[target.arch]
    total = artifact_bytes + runtime
    if limit is None:
        return f"{size(artifact_bytes)} artifact, no package limit on {target.name}"
    if total > limit:
        raise BudgetError(
            f"{size(artifact_bytes)} artifact + {size(runtime)} runtime = {size(total)}; {target.name} allows {size(limit)}.",
            hint="Build with --precision int8, choose a smaller model, or a container target.",
        )
    return f"{size(artifact_bytes)} artifact + {size(runtime)} runtime = {total / limit:.0%} of {size(limit)}"

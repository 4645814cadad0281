"""hotfoot.toml and the bundles that it names, as what there is to deploy. Every fault is named at once, with its line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hotfoot import targets
from hotfoot.contract import bundle, project
from hotfoot.contract.bundle import Bundle
from hotfoot.contract.errors import HotfootError, InputError
from hotfoot.contract.project import Deploy, Project


@dataclass(frozen=True)
class Deployment:
    """One `[deploy.NAME]` and the bundle that it is about. directory is absolute."""

    name: str
    directory: Path
    bundle: Bundle
    settings: Deploy


def read(path: Path) -> tuple[Deployment, ...]:
    """What `path` (a hotfoot.toml) asks for. Raises InputError: every fault of the file, or every bundle that cannot be deployed."""
    wanted = project.read(path, targets=[targets.LOCAL, *targets.names()])  # the tasks are code, which infrastructure does not import
    if not wanted.deploys:
        raise InputError(f"{path.name} has no [deploy.NAME], so there is nothing to deploy.")
    found = [_deployment(wanted, name) for name in sorted(wanted.deploys)]
    wanted.document.check()
    return tuple(d for d in found if d is not None)


def _deployment(wanted: Project, name: str) -> Deployment | None:
    directory = wanted.bundle_dir(name).resolve()
    where = ("deploy", name, "bundle")
    try:
        made = bundle.read(directory)
        messages = faults(made, directory)
    except HotfootError as error:
        messages = [str(error)]
    for message in messages:
        wanted.document.fault(where, message)
    return None if messages else Deployment(name, directory, made, wanted.deploys[name])


def faults(made: Bundle, directory: Path) -> list[str]:
    """Why Lambda would not take this bundle: its own numbers against the target's limits, and what is missing of it."""
    target = targets.load(made.target)
    if target.system != "lambda":
        return [f"the bundle is for {target.name}, which is no Lambda; build with --target lambda-arm64 or lambda-x86_64"]
    found = [f"{part.path} is missing in {directory}" for part in (*made.layers, made.code) if not (directory / part.path).is_dir()]
    if target.limits.layers is not None and len(made.layers) > target.limits.layers:
        found.append(f"the bundle has {len(made.layers)} layers, {target.name} allows {target.limits.layers}")
    if target.limits.package_bytes is not None and made.unzipped_bytes > target.limits.package_bytes:
        found.append(f"the bundle has {made.unzipped_bytes:,} bytes unzipped, {target.name} allows {target.limits.package_bytes:,}")
    return found

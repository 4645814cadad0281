"""hotfoot.toml and the bundles that it names, as what there is to deploy. Every fault is named at once, with its line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hotfoot import targets
from hotfoot.contract import bundle, project
from hotfoot.contract.bundle import MODEL_PLACE, Bundle
from hotfoot.contract.errors import HotfootError, InputError
from hotfoot.contract.manifest import WEIGHTS
from hotfoot.contract.project import Api, Deploy, Project
from hotfoot.contract.target import MIB
from hotfoot_infra import models
from hotfoot_infra.models import Member

OLDEST_SNAP_START = (3, 12)  # Python, as Lambda has it
BESIDE_WEIGHTS_MB = 200  # all else: 173 with BERT-base in fp32, 435 MB of weights


@dataclass(frozen=True)
class Deployment:
    """One `[deploy.NAME]` and the bundle that it is about. directory is absolute."""

    name: str
    directory: Path
    bundle: Bundle
    settings: Deploy

    @property
    def member(self) -> Member:
        """What the others behind the same API may know of it."""
        return Member(self.name, self.bundle.model_id, self.bundle.task)


@dataclass(frozen=True)
class Shared:
    """One `[api.NAME]` and the deployments behind it, the default first."""

    name: str
    settings: Api
    deployments: tuple[Deployment, ...]


def read(path: Path) -> tuple[Deployment | Shared, ...]:
    """What `path` (a hotfoot.toml) asks for: a stack each, by name.

    Raises InputError: every fault of the file, or every bundle that cannot be deployed.
    """
    wanted = project.read(path, targets=[targets.LOCAL, *targets.names()])  # the tasks are code, which infrastructure does not import
    if not wanted.deploys:
        raise InputError(f"{path.name} has no [deploy.NAME], so there is nothing to deploy.")
    found = {name: made for name in sorted(wanted.deploys) if (made := _deployment(wanted, name)) is not None}
    behind = {name for api in wanted.apis.values() for name in api.deploys}
    stacks: list[Deployment | Shared] = [made for name, made in found.items() if name not in behind]
    for name, api in wanted.apis.items():
        shared = Shared(name, api, tuple(found[member] for member in api.members if member in found))
        for message in models.faults([made.member for made in shared.deployments]):
            wanted.document.fault(("api", name, "deploys"), message)
        stacks.append(shared)
    wanted.document.check()
    return tuple(sorted(stacks, key=lambda stack: stack.name))


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
    if messages:
        return None
    settings = wanted.deploys[name]
    for key, message in _misfits(made, settings).items():
        wanted.document.fault(("deploy", name, *key.split(".")), message)
    return Deployment(name, directory, made, settings)


def _misfits(made: Bundle, settings: Deploy) -> dict[str, str]:
    """What the settings ask for that cannot be with this bundle, by their keys."""
    found = {}
    if settings.snap_start and _version(made.python) < OLDEST_SNAP_START:
        oldest = ".".join(map(str, OLDEST_SNAP_START))
        found["snap_start"] = f"is there from Python {oldest} on, and the bundle is for {made.python}"
    if made.weights is not None:
        least = (2 * made.weights.unzipped_bytes) // MIB + BESIDE_WEIGHTS_MB
        sizes = {"memory_mb": settings.memory_mb, **({"bulk.memory_mb": settings.bulk.memory_mb} if settings.bulk else {})}
        for key, memory_mb in sizes.items():
            if memory_mb < least:
                found[key] = f"is {memory_mb}; the bundle's weights come from S3 and lie in memory twice at first, which takes {least}"
    return found


def _version(python: str) -> tuple[int, ...]:
    return tuple(map(int, python.split(".")))


def faults(made: Bundle, directory: Path) -> list[str]:
    """Why Lambda would not take this bundle: its own numbers against the target's limits, and what is missing of it."""
    target = targets.load(made.target)
    if target.system != "lambda":
        return [f"the bundle is for {target.name}, which is no Lambda; build with --target lambda-arm64 or lambda-x86_64"]
    found = [f"{part.path} is missing in {directory}" for part in (*made.layers, made.code) if not (directory / part.path).is_dir()]
    files = [
        *([f"{made.weights.path}/{MODEL_PLACE}/{WEIGHTS}"] if made.weights else []),
        *(["Dockerfile"] if made.package == "image" else []),
    ]
    found += [f"{file} is missing in {directory}" for file in files if not (directory / file).is_file()]
    if made.package == "image":  # neither limit is about images, and theirs was checked when it was bundled
        return found
    if target.limits.layers is not None and len(made.layers) > target.limits.layers:
        found.append(f"the bundle has {len(made.layers)} layers, {target.name} allows {target.limits.layers}")
    if target.limits.package_bytes is not None and made.unzipped_bytes > target.limits.package_bytes:
        found.append(f"the bundle has {made.unzipped_bytes:,} bytes unzipped, {target.name} allows {target.limits.package_bytes:,}")
    return found

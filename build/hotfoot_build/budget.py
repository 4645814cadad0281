"""Does it fit, and how does it travel? The artifact and the runtime's packages against the target's limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hotfoot.contract.bundle import PACKAGES, Package
from hotfoot.contract.errors import BudgetError, InputError
from hotfoot.contract.manifest import WEIGHTS, Manifest
from hotfoot.contract.target import Arch, Target
from hotfoot_build.progress import size

# unzipped, measured by `hotfoot bundle`; a slow test holds real bundles to these within 5 %
RUNTIME_BYTES: dict[Arch, int] = {"arm64": 90_000_000, "x86_64": 99_000_000}  # runtime layer and code
FETCH_BYTES: dict[Arch, int] = {"arm64": 14_700_000, "x86_64": 15_900_000}  # what reads weights from S3
BASE_IMAGE_BYTES = 700_000_000  # AWS's base image, generously
# Weights lie in memory twice while they are opened, and a function has 10,240 MB of it, and ten seconds. What AWS itself tells of is
# half of this.
S3_BYTES = 2_000_000_000


@dataclass(frozen=True)
class Parts:
    """What a package is made of, in bytes: the artifact, of it the weights that can lie elsewhere, and what runs it."""

    artifact: int
    weights: int
    runtime: int
    fetch: int

    @classmethod
    def of(cls, manifest: Manifest, arch: Arch) -> Parts:
        """Those of an artifact on such a machine."""
        weights = sum(file.size for file in manifest.files if file.path == WEIGHTS)
        artifact = sum(file.size for file in (*manifest.files, *manifest.tokenizer.files))
        return cls(artifact, weights, RUNTIME_BYTES[arch], FETCH_BYTES[arch])

    @property
    def layers(self) -> int:
        """Unzipped, all of it in layers and code."""
        return self.artifact + self.runtime

    @property
    def beside_s3(self) -> int:
        """Unzipped, the weights elsewhere."""
        return self.artifact - self.weights + self.runtime + self.fetch

    @property
    def image(self) -> int:
        """Uncompressed, in an image."""
        return self.layers + BASE_IMAGE_BYTES


@dataclass(frozen=True)
class Choice:
    """How an artifact travels, and a sentence that says why."""

    package: Package
    reason: str


def check_asked(asked: str | None, target: Target) -> None:
    """Raise InputError for an unknown package, BudgetError for one that the target cannot run, whatever the sizes are."""
    if asked is not None and asked not in PACKAGES:
        raise InputError(f"is {asked!r}; it must be one of {', '.join(PACKAGES)}.", where="package")
    if target.system == "container" and asked not in (None, "image"):
        raise BudgetError(f"{target.name} runs images, not {asked}.", hint="Leave the package out, or say image.")


def choose(parts: Parts, target: Target, asked: str | None = None) -> Choice:
    """The package that fits, the one with the shortest way to the function first; or the one that is asked for.

    Raises what `check_asked` raises, BudgetError with the sizes for one that cannot be, and where none can.
    """
    check_asked(asked, target)
    if target.system == "container":
        return Choice("image", f"{size(parts.artifact)} artifact; no package limit on {target.name}")
    tried: dict[Package, Choice | str] = {package: TRIES[package](parts, target) for package in PACKAGES}
    for package, found in tried.items():
        if isinstance(found, Choice) and asked in (None, package):
            missed = [reason for reason in list(tried.values())[: PACKAGES.index(package)] if isinstance(reason, str)]
            return Choice(package, "; ".join([*missed, found.reason]) if asked is None else found.reason)
    reasons = [reason for package, reason in tried.items() if isinstance(reason, str) and asked in (None, package)]
    raise BudgetError(
        f"{'; '.join(reasons)}.",
        hint="Build with --precision int8, choose a smaller model, or a container target."
        if asked is None
        else f"Without --package it would be: {choose(parts, target).package}.",
    )


def _layers(parts: Parts, target: Target) -> Choice | str:
    limit = target.limits.package_bytes
    sum_of = f"{size(parts.artifact)} artifact + {size(parts.runtime)} runtime"
    if limit is None:
        return Choice("layers", f"in layers: {sum_of}")
    if parts.layers > limit:
        return f"{sum_of} = {size(parts.layers)}; {target.name} allows {size(limit)} in layers"
    return Choice("layers", f"in layers: {sum_of} = {parts.layers / limit:.0%} of {size(limit)}")


def _s3(parts: Parts, target: Target) -> Choice | str:
    limit = target.limits.package_bytes
    if not parts.weights:
        return f"there is no {WEIGHTS} in the artifact that S3 could hold"
    if parts.weights > S3_BYTES:
        return f"{size(parts.weights)} of weights are too much to read from S3 at each start, which ends at {size(S3_BYTES)}"
    if limit is not None and parts.beside_s3 > limit:
        return f"without its weights it has {size(parts.beside_s3)}; {target.name} allows {size(limit)} in layers"
    return Choice("s3", f"{size(parts.weights)} of weights from S3 into memory, {size(parts.beside_s3)} in layers")


def _image(parts: Parts, target: Target) -> Choice | str:
    limit = target.limits.image_bytes
    sum_of = f"{size(parts.layers)} and the base of {size(BASE_IMAGE_BYTES)} at most"
    if limit is not None and parts.image > limit:
        return f"{sum_of} are {size(parts.image)}; {target.name} allows {size(limit)} in an image"
    return Choice("image", f"in a container image: {sum_of}")


TRIES: dict[Package, Callable[[Parts, Target], Choice | str]] = {"layers": _layers, "s3": _s3, "image": _image}

"""Where the bytes of a bundle are: by part, by Python package and by file, against the target's limit, and what pruning saved.

`ledger.json` lies beside `bundle.json`, in no layer: it is for people, is hashed nowhere and deploys nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hotfoot.contract import codec
from hotfoot.contract.bundle import Package
from hotfoot.contract.errors import ArtifactError
from hotfoot.contract.target import Target
from hotfoot_build.package import tree
from hotfoot_build.package.layers import Part

LEDGER = "ledger.json"
PACKAGES = "python/"  # where a runtime layer has them
LARGEST = 8  # files named of each part and package
METADATA = ".dist-info"
DIGITS = 6  # of a share


@dataclass(frozen=True)
class Row:
    """Bytes on the disk, bytes of a zip, and the share of the limit (0 to 1) that those on the disk take; None without a limit."""

    name: str
    unzipped_bytes: int
    zipped_bytes: int
    share: float | None


@dataclass(frozen=True)
class PartRow(Row):
    """A layer or the code, with its heaviest files, heaviest first. Its zipped bytes are those of the whole zip."""

    largest: tuple[Row, ...]


@dataclass(frozen=True)
class PackageRow(PartRow):
    """A Python package of the runtime: its modules, shared libraries and metadata. version is empty where no metadata names it."""

    version: str


@dataclass(frozen=True)
class Ledger:
    """A bundle's bytes. parts are in the bundle's order, packages heaviest first; saved has every prune rule, also one that found nothing.

    The packages' zipped bytes are those of the runtime layer's zip, but for the 22 of the record at its end.
    """

    target: str
    limit_bytes: int | None
    unzipped_bytes: int
    zipped_bytes: int
    share: float | None
    left_bytes: int | None
    parts: tuple[PartRow, ...]
    packages: tuple[PackageRow, ...]
    saved: Mapping[str, int]

    @classmethod
    def of(cls, parts: Sequence[Part], target: Target, package: Package = "layers") -> Ledger:
        """The ledger of a bundle of these parts for `target`; an image has a limit of its own, against which its base counts, too."""
        limit = target.limits.image_bytes if package == "image" else target.limits.package_bytes
        total = sum(part.layer.unzipped_bytes for part in parts)
        return cls(
            target=target.name,
            limit_bytes=limit,
            unzipped_bytes=total,
            zipped_bytes=sum(part.layer.zipped_bytes for part in parts),
            share=_share(total, limit),
            left_bytes=None if limit is None else limit - total,
            parts=tuple(_part(part, limit) for part in parts),
            packages=_packages([part for part in parts if part.layer.kind == "runtime"], limit),
            saved={rule: sum(part.saved.get(rule, 0) for part in parts) for rule in {rule: None for part in parts for rule in part.saved}},
        )


def read(bundle: Path) -> Ledger:
    """The ledger of the bundle in a folder. Raises ArtifactError where there is none or it is faulty."""
    path = bundle / LEDGER
    if not path.is_file():
        raise ArtifactError(f"no {LEDGER} in {bundle}", hint="Make the bundle again with `hotfoot bundle`.")
    return codec.loads(Ledger, path.read_text(encoding="utf-8"), str(path))


def package_of(path: str) -> str:
    """The package that a file below `python/` belongs to: numpy, numpy.libs and numpy-2.5.5.dist-info are one.

    A wheel's name is taken for that of what it installs, with `_` for `-`; where they differ, its metadata is a package of its own.
    """
    first, _, rest = path.partition("/")
    if first.endswith(METADATA):
        return first.partition("-")[0].lower()
    # a module of one file has its bytecode in a folder that all such share
    name = rest if first == "__pycache__" else first
    return name.partition(".")[0].lower()


def _part(part: Part, limit: int | None) -> PartRow:
    layer = part.layer
    share = _share(layer.unzipped_bytes, limit)
    return PartRow(layer.kind, layer.unzipped_bytes, layer.zipped_bytes, share, _largest(part.files, limit))


def _packages(runtimes: Iterable[Part], limit: int | None) -> tuple[PackageRow, ...]:
    owned: dict[str, dict[str, tree.Weight]] = defaultdict(dict)
    versions: dict[str, str] = {}
    for runtime in runtimes:
        for path, weight in runtime.files.items():
            inside = path.removeprefix(PACKAGES)
            name = package_of(inside)
            owned[name][inside] = weight
            folder = inside.partition("/")[0]
            if folder.endswith(METADATA):
                versions[name] = folder.removesuffix(METADATA).partition("-")[2]
    rows = (_package(name, versions.get(name, ""), files, limit) for name, files in owned.items())
    return tuple(sorted(rows, key=_heaviest))


def _package(name: str, version: str, files: Mapping[str, tree.Weight], limit: int | None) -> PackageRow:
    unzipped = sum(weight.unzipped_bytes for weight in files.values())
    zipped = sum(weight.zipped_bytes for weight in files.values())
    return PackageRow(name, unzipped, zipped, _share(unzipped, limit), _largest(files, limit), version)


def _largest(files: Mapping[str, tree.Weight], limit: int | None) -> tuple[Row, ...]:
    rows = (Row(path, weight.unzipped_bytes, weight.zipped_bytes, _share(weight.unzipped_bytes, limit)) for path, weight in files.items())
    return tuple(sorted(rows, key=_heaviest)[:LARGEST])


def _heaviest(row: Row) -> tuple[int, str]:
    return -row.unzipped_bytes, row.name


def _share(count: int, limit: int | None) -> float | None:
    return None if limit is None else round(count / limit, DIGITS)

"""Reads just enough ELF to say whether a compiled file runs on the target: its machine, and the glibc that it asks for.

After "ELF-64 Object File Format" and the symbol versioning chapter of the Linux Standard Base. 64 bit, little endian: both
architectures that hotfoot has targets for.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hotfoot.contract.target import Arch
from hotfoot_build.package import tree

MAGIC = b"\x7fELF"
MACHINES: dict[Arch, int] = {"x86_64": 62, "arm64": 183}
_NEEDS = 0x6FFFFFFE  # SHT_GNU_verneed
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_NEED = struct.Struct("<HHIII")
_AUX = struct.Struct("<IHHII")


@dataclass(frozen=True)
class Elf:
    """machine is the number of the ELF header; glibc is the newest version whose symbols the file needs, None for none."""

    machine: int
    glibc: tuple[int, int] | None


def read(path: Path) -> Elf | None:
    """What `path` asks of a machine; None where it is no ELF file. Raises ValueError for one that is cut off or of another class."""
    with path.open("rb") as stream:
        if stream.read(4) != MAGIC:
            return None
    data = path.read_bytes()
    if data[4:6] != b"\x02\x01":
        raise ValueError("not 64-bit little-endian ELF")
    try:
        header = _HEADER.unpack_from(data)
        versions = [v for v in map(_glibc_version, _needed_versions(data, header)) if v]
    except (struct.error, IndexError):
        raise ValueError("a damaged ELF file") from None
    return Elf(machine=header[2], glibc=max(versions, default=None))


def _needed_versions(data: bytes, header: tuple[int, ...]) -> Iterator[str]:
    """Names of the symbol versions in the file's .gnu.version_r, such as `GLIBC_2.28`."""
    offset, entry_size, count = header[6], header[11], header[12]
    if count == 0:
        raise ValueError("no section headers, so its needs cannot be read")
    sections = [_SECTION.unpack_from(data, offset + i * entry_size) for i in range(count)]
    for _, kind, _, _, start, _, link, entries, *_ in sections:
        if kind != _NEEDS:
            continue
        strings = sections[link][4]
        need = start
        for _ in range(entries):
            _, auxiliaries, _, first, following = _NEED.unpack_from(data, need)
            aux = need + first
            for _ in range(auxiliaries):
                _, _, _, name, after = _AUX.unpack_from(data, aux)
                yield data[strings + name : data.index(b"\0", strings + name)].decode()
                aux += after
            need += following


def _glibc_version(name: str) -> tuple[int, int] | None:
    match = re.match(r"GLIBC_(\d+)\.(\d+)", name)  # not GLIBCXX_, which is libstdc++'s; not GLIBC_PRIVATE
    return (int(match[1]), int(match[2])) if match else None


def faults(directory: Path, *, arch: Arch, glibc: tuple[int, int], python: str) -> list[str]:
    """Every way in which the compiled files below `directory` do not fit: machine, glibc, or another Python's ABI."""
    found: list[str] = []
    for path in tree.files(directory):
        name = path.relative_to(directory).as_posix()
        try:
            elf = read(path)
        except ValueError as error:
            found.append(f"{name}: {error}")
            continue
        if elf is None:
            if path.suffix == ".so":
                found.append(f"{name}: not an ELF file")
            continue
        if elf.machine != MACHINES[arch]:
            found.append(f"{name}: made for ELF machine {elf.machine}, {arch} is {MACHINES[arch]}")
        if elf.glibc and elf.glibc > glibc:
            found.append(f"{name}: needs glibc {_dotted(elf.glibc)}, the target has {_dotted(glibc)}")
        tag = re.search(r"\.cpython-(3)(\d+)", path.name)
        if tag and f"{tag[1]}.{tag[2]}" != python:
            found.append(f"{name}: made for Python {tag[1]}.{tag[2]}, the target has {python}")
    return found


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))

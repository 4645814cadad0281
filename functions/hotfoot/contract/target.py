"""A target: the machine an artifact is made for, as data. One file of `hotfoot.targets` each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Arch = Literal["x86_64", "arm64"]
MIB = 1024 * 1024


@dataclass(frozen=True)
class Limits:
    """What the platform allows, in bytes; None where it has no such limit."""

    package_bytes: int | None
    layers: int | None
    image_bytes: int | None
    request_bytes: int
    response_bytes: int


@dataclass(frozen=True)
class SessionSpec:
    """How ONNX Runtime is opened there. `config` goes into the session as it is."""

    providers: tuple[str, ...]
    cpu_arena: bool
    mem_pattern: bool
    config: Mapping[str, str]


@dataclass(frozen=True)
class Target:
    """`isa` lists the CPU features that the artifact relies on; the runtime refuses a machine that lacks one.

    python is `3.13` and the like, or empty for the interpreter that runs the build; platform is uv's name for the wheels;
    int8_range is the largest |weight| that the machine's int8 kernels sum without saturating; recipes maps a precision to
    the passes, in order; decoder_recipes does for the graphs of models that make text.
    """

    name: str
    summary: str
    system: Literal["lambda", "container"]
    arch: Arch
    isa: tuple[str, ...]
    python: str
    platform: str
    glibc: tuple[int, int]
    limits: Limits
    session: SessionSpec
    int8_range: int
    recipes: Mapping[str, tuple[str, ...]]
    decoder_recipes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

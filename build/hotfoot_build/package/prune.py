"""What a wheel carries and a function never opens. Rules are data, each with its reason.

Licence and notice files are never removed: what is shipped is redistributed.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from hotfoot_build.package import tree


@dataclass(frozen=True)
class Rule:
    """Patterns over paths relative to the `python/` directory, where `*` also crosses `/`; a matching directory goes whole."""

    name: str
    patterns: tuple[str, ...]
    reason: str


# folders of its utilities; jmespath_utils and typing stay, which the logger imports
POWERTOOLS = (
    *("auth_alpha", "batch", "circuit_breaker", "data_classes", "data_masking", "feature_flags", "idempotency", "kafka", "metadata"),
    *("parameters", "parser", "serialization.py", "streaming", "validation"),
)
RULES = (
    Rule("bytecode", ("*/__pycache__", "__pycache__"), "made by another Python; ours is compiled afterwards"),
    Rule("commands", ("bin",), "console scripts with this machine's interpreter in their first line"),
    Rule(
        "tests",
        ("*/tests", "numpy/_core/_*_tests.*.so", "numpy/conftest.py", "numpy/testing", "numpy/_pyinstaller"),
        "test suites and their data; numpy.testing is loaded only when it is asked for",
    ),
    Rule("stubs", ("*.pyi", "*/py.typed", "*.pxd"), "read by type checkers and Cython only"),
    Rule(
        "install records",
        tuple(f"*.dist-info/{name}" for name in ("RECORD", "INSTALLER", "REQUESTED", "WHEEL", "entry_points.txt", "sboms")),
        "read by installers; METADATA stays, for importlib.metadata and the licence it names",
    ),
    Rule(
        "onnxruntime C library",
        ("onnxruntime/capi/libonnxruntime.so*",),
        "a second full copy of the engine: the Python module contains its own and links none of it. "
        "libonnxruntime_providers_shared.so stays: each start logs an error without it",
    ),
    Rule(
        "onnxruntime tools",
        tuple(f"onnxruntime/{name}" for name in ("transformers", "quantization", "tools", "datasets", "backend")),
        "for making models, which is over when a bundle is made",
    ),
    Rule(
        "numpy development",
        (
            "numpy/f2py",
            "numpy/_core/include",
            "numpy/_core/lib",
            "numpy/random/lib",
            "numpy/random/_examples",
            "numpy/_core/_simd.*.so",
            "numpy/doc",
        ),
        "headers, static libraries and the Fortran compiler's bridge; _simd is the test bed of numpy's vector code",
    ),
    Rule(
        "Powertools' other tools",
        (
            "aws_lambda_powertools/event_handler",
            *(f"aws_lambda_powertools/utilities/{name}" for name in POWERTOOLS),
        ),
        "hotfoot has of it the logger and the metrics, which use neither its router nor its helpers for events, stores and validation",
    ),
)


def prune(directory: Path, rules: tuple[Rule, ...] = RULES) -> Mapping[str, int]:
    """Remove what the rules name below `directory`; gives bytes saved by each rule, a rule that found nothing included."""
    saved: dict[str, int] = {}
    for rule in rules:
        saved[rule.name] = 0
        for path in list(_matches(directory, directory, rule)):
            saved[rule.name] += tree.size(path) if path.is_dir() else path.stat().st_size
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
    _remove_empty(directory)
    return saved


def is_licence(path: Path) -> bool:
    """True for a file that a licence obliges to keep, by its name or its folder."""
    name = path.name.lower()
    return "licenses" in path.parts or name.startswith(("license", "licence", "copying", "notice", "thirdparty", "authors"))


def _matches(root: Path, folder: Path, rule: Rule) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        relative = path.relative_to(root)
        named = any(fnmatchcase(relative.as_posix(), pattern) for pattern in rule.patterns)
        if path.is_dir() and not (named and not _holds_licence(path)):
            # a directory with a licence in it is gone through file by file
            yield from _all_but_licences(path) if named else _matches(root, path, rule)
        elif named and not is_licence(relative):
            yield path


def _holds_licence(folder: Path) -> bool:
    return any(is_licence(p.relative_to(folder)) for p in tree.files(folder))


def _all_but_licences(folder: Path) -> list[Path]:
    return [p for p in tree.files(folder) if not is_licence(p.relative_to(folder))]


def _remove_empty(directory: Path) -> None:
    for path in sorted(directory.rglob("*"), key=lambda p: len(p.parts), reverse=True):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()

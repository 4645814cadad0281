"""The flags of the command line: what some say of themselves, their texts read, and an artifact by its folder or its name."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotfoot.contract.errors import ArtifactError, InputError

if TYPE_CHECKING:
    import typer

HELP = (
    "Serverless transformer inference: a Hugging Face model in, a small and proven artifact out.\n\n"
    "A first round:\n\n"
    "  hotfoot build sentence-transformers/all-MiniLM-L6-v2 --task feature-extraction --out artifacts/embed\n\n"
    "  hotfoot serve artifacts/embed\n\n"
    "  hotfoot bundle artifacts/embed --out bundles/embed"
)
PRECISION = (
    "fp32; int8 (one scale a token and column); int8-weights or int4-weights (activations stay in fp32); int8-dynamic or int8-static "
    "(one scale a tensor); fp16; or auto: try them, and take the fastest that is still right."
)
PACKAGE = (
    "How it travels: layers; s3, where the function reads its weights into memory as it starts; or image, for a container. Default: the "
    "first of these that fits."
)
KNOWN = "Texts whose tokens ship with the tokenizer, readable by whoever has it; a text a line."
BUNDLE = "Folder of the bundle. Default: where hotfoot.toml says, or bundles/ and the folder's name."
BEARER = "Bearer token, where the endpoint wants one. Without it, and where nothing is signed, what HOTFOOT_TOKEN says."
REGION = "AWS region to sign for, where the address does not name it."
ARTIFACT = "Folder that `hotfoot build` wrote, or a \\[build.NAME] of hotfoot.toml."


def given(context: typer.Context) -> set[str]:
    """The flags of this command that the command line names."""
    found = [p for p in context.command.params if p.param_type_name == "option" and p.name]
    return {p.opts[0] for p in found if getattr(context.get_parameter_source(str(p.name)), "name", "") == "COMMANDLINE"}


def options(texts: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Settings by pass and name, of PASS.NAME=VALUE. Raises InputError for a value that is no JSON."""
    found: dict[str, dict[str, Any]] = {}
    for text in texts:
        path, _, value = text.partition("=")
        owner, _, name = path.partition(".")
        try:
            found.setdefault(owner, {})[name] = json.loads(value)
        except ValueError:
            raise InputError(f"is {text!r}; it must be PASS.NAME=VALUE, as int8_rowwise.weight_range=64.", where="--option") from None
    return found


def thresholds(texts: Iterable[str]) -> dict[str, float]:
    """Numbers by measure, of NAME=VALUE. Raises InputError for another value."""
    found = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            found[name] = float(value)
        except ValueError:
            raise InputError(f"is {text!r}; it must be NAME=VALUE, as cosine_mean=0.99.", where="--threshold") from None
    return found


def labels(text: str | None) -> tuple[str, ...]:
    """The labels of a text with commas, as in a request: each once, none empty, no space around. Raises InputError where that is none."""
    found = tuple(dict.fromkeys(label.strip() for label in (text or "").split(",") if label.strip()))
    if text is not None and not found:
        raise InputError("has no label; give at least one.", where="--labels")
    return found


def parameters(text: str) -> dict[str, Any]:
    """A task's parameters. Raises InputError for what is no JSON object."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise InputError(f"is not JSON: {error}", where="--parameters") from None
    if not isinstance(found, dict):
        raise InputError("must be a JSON object.", where="--parameters")
    return found


def columns(rows: Iterable[tuple[str, str]]) -> str:
    """A line a row, its second column aligned."""
    every = list(rows)
    width = max((len(name) for name, _ in every), default=0) + 2
    return "\n".join(f"{name:<{width}}{words}" for name, words in every)


def package(artifact: Path) -> str | None:
    """How the artifact is to travel where it is given by its name in hotfoot.toml, and that says so."""
    from hotfoot_build import named

    return named.package(str(artifact)) if named.is_name(artifact) else None


def folders(artifact: Path) -> tuple[Path, Path]:
    """The folder of an artifact that is given by path or by its name in hotfoot.toml, and where its bundle goes."""
    if artifact.is_dir():
        return artifact, Path("bundles") / artifact.resolve().name
    from hotfoot_build import named  # with all of the build stage behind it

    if not named.is_name(artifact):
        raise ArtifactError(f"there is no folder {artifact}.", hint="Make one with `hotfoot build`, or give a name of hotfoot.toml.")
    try:
        return named.folders(str(artifact))
    except InputError as error:
        raise InputError(f"there is no folder {artifact}, and {error}") from error

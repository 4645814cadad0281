"""`hotfoot build NAME` and `hotfoot bundle NAME`: what the tables of ./hotfoot.toml ask for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

from hotfoot import targets, task
from hotfoot.contract import codec, project
from hotfoot.contract.errors import InputError
from hotfoot.contract.project import FILE, Project
from hotfoot_build.pipeline import AUTO, BuildRequest
from hotfoot_build.search.recipes import Recipe


def request(name: str, others: Iterable[str], *, force: bool) -> BuildRequest:
    """The build that `[build.NAME]` describes. others: flags that were given too, which the table would silently win over.

    Raises InputError where there is no such table, or for another flag.
    """
    made = _read(name, "or give --task")
    table = made.build(name)
    if flags := sorted(others):
        raise InputError(f"[build.{name}] of {FILE} says what to build, so {', '.join(flags)} cannot; change it there.")
    said = {f.name: getattr(table, f.name) for f in fields(table) if f.name != "pinned"}
    said |= {"out": made.artifact_dir(name), "samples": _path(table.samples), "known": _path(table.known)}
    if table.precision == AUTO and table.pinned is not None:
        said |= {"precision": table.pinned.precision, "options": table.pinned.options}
    return BuildRequest(**said, force=force)


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


def pin(name: str, recipe: Recipe) -> None:
    """Write what a search found into `[build.NAME]`, and leave every other line of hotfoot.toml as it is."""
    import tomlkit

    path = Path(FILE)
    document: Any = tomlkit.parse(path.read_text(encoding="utf-8"))
    document["build"][name]["pinned"] = inline(recipe)
    aside = path.with_suffix(".toml.writing")
    aside.write_text(tomlkit.dumps(document), encoding="utf-8")
    aside.replace(path)


def inline(recipe: Recipe) -> Any:
    """The recipe as a TOML table on one line."""
    import tomlkit

    table = tomlkit.inline_table()
    table["precision"] = recipe.precision
    if recipe.options:
        table["options"] = codec.plain(recipe.options)
    return table


def folders(name: str) -> tuple[Path, Path]:
    """Where the artifact of `[build.NAME]` lies, and where its bundle goes: the one that `[deploy.NAME]` deploys."""
    made = _read(name, "or give an artifact's folder")
    return made.artifact_dir(name), made.bundle_dir(name)


def package(name: str) -> str | None:
    """How the artifact of `[build.NAME]` is to travel, where the table says so."""
    return _read(name, "or give an artifact's folder").build(name).package


def is_name(artifact: Path) -> bool:
    """Whether a word is a table's name and no folder's path."""
    return not artifact.exists() and artifact.name == str(artifact)


def _read(name: str, otherwise: str) -> Project:
    if not Path(FILE).is_file():
        raise InputError(f"there is no {FILE} here that could say what {name} is.", hint=f"Write one with `hotfoot init`, {otherwise}.")
    return project.read(Path(FILE), tasks=task.names(), targets=[targets.LOCAL, *targets.names()])

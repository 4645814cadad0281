"""`hotfoot build`: run the build, and say what came of it."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from hotfoot import targets
from hotfoot.contract.errors import InputError
from hotfoot_build import named, pipeline
from hotfoot_build.pipeline import BuildRequest
from hotfoot_build.progress import Progress, say, size


def build(request: BuildRequest, name: str | None, console: Console) -> Path:
    """The artifact's folder. name: the `[build.NAME]` that the request is, which keeps what a search finds.

    Raises InputError for an unknown precision, and what the build raises.
    """
    if request.precision not in pipeline.PRECISIONS:
        raise InputError(f"is {request.precision!r}; it must be one of {', '.join(pipeline.PRECISIONS)}.", where="precision")
    say(console, "Building ", (request.model, "bold"), f" for {request.task} on {targets.load(request.target).name}")
    built = pipeline.build(request, Progress(console))
    if built.found is not None and request.precision == pipeline.AUTO:
        if name is not None:
            named.pin(name, built.found.recipe)
        say(console, f"  chosen: {built.found.recipe.label} ({built.found.rule}). To build it again without a search, hotfoot.toml")
        say(console, f"  {'takes' if name is None else 'has'}: pinned = {named.inline(built.found.recipe).as_string()}")
    total = sum(f.size for f in (*built.manifest.files, *built.manifest.tokenizer.files))
    say(console, (str(built.path), "bold"), f"  {size(total)}, digest {built.manifest.digest[:12]}")
    return built.path

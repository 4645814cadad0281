"""`hotfoot cache`: what lies in the user's cache folder, and how to be rid of it."""

from __future__ import annotations

from collections.abc import Callable

from hotfoot.contract.errors import InputError
from hotfoot_build import cache, hub
from hotfoot_build.progress import size


def listing() -> list[str]:
    """A line a kind with its size, their sum, and the hub's cache, which is not hotfoot's to clear."""
    found = cache.sizes()
    lines = [f"{name:<14}{size(found[name]):>12}  {kind.what}" for name, kind in cache.KINDS.items()]
    lines.append(f"{'together':<14}{size(sum(found.values())):>12}  {cache.root()}")
    shared = hub.default_cache()
    return [*lines, f"{'hub':<14}{size(cache.size(shared)):>12}  {shared}, which is huggingface_hub's: `hf cache` clears it"]


def clearing(kind: str, say: Callable[[str], None]) -> list[str]:
    """Remove what is of `kind`, or `all`; `say` hears of what is in use and stays. Raises InputError for an unknown kind."""
    if kind not in (*cache.KINDS, "all"):
        raise InputError(f"is {kind!r}; it must be one of all, {', '.join(cache.KINDS)}.", where="--clear")
    before = sum(cache.sizes().values())
    for busy in [path for name in cache.KINDS if kind in (name, "all") for path in cache.clear(name)]:
        say(f"in use, not removed: {busy}")
    return [f"{size(max(0, before - sum(cache.sizes().values())))} removed"]

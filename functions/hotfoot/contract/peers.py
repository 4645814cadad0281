"""The deployments that share one API, as the default one's function learns of them: infrastructure writes it, the runtime reads it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hotfoot.contract import codec
from hotfoot.contract.errors import ArtifactError

KEY = "HOTFOOT_MODELS"


@dataclass(frozen=True)
class Peer:
    """A deployment by its name, its model's id and its task. function: the ARN of its alias; empty for the one that reads this."""

    name: str
    model: str
    task: str
    function: str


def dumps(peers: Iterable[Peer]) -> str:
    """As the environment holds it: one line, for all of the environment has 4 KB."""
    return json.dumps([codec.plain(peer) for peer in peers], separators=(",", ":"))


def loads(text: str) -> tuple[Peer, ...]:
    """What `dumps` wrote; nothing for an empty text. Raises ArtifactError that names the key and every fault."""
    if not text:
        return ()
    document = codec.parse(text, KEY)
    if not isinstance(document, list):
        raise ArtifactError(f"{KEY} in the environment is not a list.")
    found = tuple(codec.build(Peer, entry, f"{KEY}[{number}]") for number, entry in enumerate(document))
    names = [peer.name for peer in found]
    if len(set(names)) < len(names) or [peer.function for peer in found].count("") != 1:
        raise ArtifactError(f"{KEY} in the environment must name each deployment once, and leave the function of exactly one empty.")
    return found


def named(peers: Sequence[Peer], asked: str) -> Peer | None:
    """The deployment of this name, else the first with a model of this id; None where there is none."""
    return next((p for p in peers if p.name == asked), None) or next((p for p in peers if p.model == asked), None)

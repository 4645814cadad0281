"""Which model behind a shared API answers where: the paths that lead to it, and the list that the default one goes by."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hotfoot.contract import peers
from hotfoot.contract.peers import Peer
from hotfoot.contract.project import ENVIRONMENT

# the longest ARN of an alias: CloudFormation makes the function's name, of 64 characters at most
ARN = len("arn:aws-us-gov:lambda:ap-southeast-1:123456789012:function:" + "x" * 64 + ":live")
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?", re.ASCII)


@dataclass(frozen=True)
class Member:
    """A deployment behind a shared API: its name, its model's id and its task."""

    name: str
    model: str
    task: str


def faults(members: Sequence[Member]) -> list[str]:
    """Why these cannot stand behind one API, the default first."""
    names = {member.name for member in members}
    found = [f"the bundle of {m.name} does not say its task; make it again with `hotfoot bundle`" for m in members if not m.task]
    for member in members:
        first = member.model.partition("/")[0]
        if first in names - {member.name}:
            found.append(f"{first!r} is a deployment, and begins {member.model!r}, the model of {member.name}; give it another name")
    size = len(environment(members, dict.fromkeys(names, "x" * ARN)))
    if size > ENVIRONMENT:
        found.append(
            f"the list of {len(members)} models may take {size} of the {ENVIRONMENT} characters that a function's environment has for it; "
            "make two APIs of it"
        )
    return found


def environment(members: Sequence[Member], functions: Mapping[str, str]) -> str:
    """What the first is told. functions: the ARN of each one's alias; its own is not needed, and would be a circle."""
    return peers.dumps(Peer(m.name, m.model, m.task, functions[m.name] if m != members[0] else "") for m in members)


def paths(members: Sequence[Member]) -> dict[str, tuple[str, ...]]:
    """The paths under `/models` that lead to each, by name. The id of a model that two have leads to the first.

    An id that is none of the Hub's, as a folder's name, can have no path of its own: the default one hands its requests on.
    """
    found: dict[str, tuple[str, ...]] = {}
    taken = {member.name for member in members}
    for member in members:
        found[member.name] = (f"/models/{member.name}",)
        if member.model not in taken and HUB_ID.fullmatch(member.model):
            found[member.name] += (f"/models/{member.model}",)
            taken.add(member.model)
    return found

"""Whether the `[api.NAME]` of a hotfoot.toml fit its `[deploy.NAME]`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from hotfoot.contract.toml import Document

Api = tuple[Sequence[str], str | None]  # the deployments that share it, and its default


def check(document: Document, apis: Mapping[str, Api], shared: Collection[str]) -> None:
    """Note every fault in the document. shared: the settings that are the API's, once there is one.

    Tables are looked up as the file has them: a deployment with a fault of its own is there all the same.
    """
    tables = document.values.get("deploy")
    deploys = tables if isinstance(tables, dict) else {}
    taken: dict[str, str] = {}
    for name, (members, default) in apis.items():
        _check_members(document, name, members, deploys)
        if default is not None and default not in members:
            document.fault(("api", name, "default"), f"is {default!r}, none of its deploys: {', '.join(members) or 'there are none'}")
        for member in dict.fromkeys(members):
            owner = taken.setdefault(member, name)
            if owner != name:
                document.fault(("api", name, "deploys"), f"{member!r} is in [api.{owner}] already, and can be in one alone")
            elif member in deploys:
                _check_settings(document, name, member, shared)
    for name in apis:
        if name in deploys:  # also where it is one of its own: a stack that stands already would lose its function and its buckets
            said = f"[deploy.{name}] has that name, and its stack hotfoot-{name} would be replaced; give one of them another name"
            document.fault(("api", name), said)


def _check_members(document: Document, name: str, members: Sequence[str], deploys: Collection[str]) -> None:
    where = ("api", name, "deploys")
    if not members:
        document.fault(where, "must name at least one [deploy.NAME]")
    there = ", ".join(sorted(deploys)) or "none"
    seen: dict[str, str] = {}
    for member in members:
        if member not in deploys:
            document.fault(where, f"there is no [deploy.{member}]; there are {there}")
        plain = member.replace("-", "")  # as the stack's outputs are named
        other = seen.setdefault(plain, member)
        if other != member:
            document.fault(where, f"{other!r} and {member!r} differ by `-` alone; give one of them another name")
    for member in sorted({m for m in members if members.count(m) > 1}):
        document.fault(where, f"{member!r} is there more than once")


def _check_settings(document: Document, name: str, member: str, shared: Collection[str]) -> None:
    table = document.values["deploy"][member]
    for key in shared if isinstance(table, dict) else ():
        if key in table:
            document.fault(("deploy", member, key), f"is for [api.{name}] to say, which {member} stands behind; put it there")

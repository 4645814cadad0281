"""Which artifact a request means: by `/models/{name}` in front of its path, by its body's `model`, or the first that can answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hotfoot.contract.errors import ArtifactError
from hotfoot.contract.json_types import json_type
from hotfoot.contract.peers import Peer, named
from hotfoot.http.errors import RequestError
from hotfoot.http.operations import Operation
from hotfoot.http.service import Service

PREFIX = "/models/"


@dataclass(frozen=True)
class Place:
    """Where a path leads: the artifacts that it may mean, or the peer that it names, and the rest of it."""

    services: tuple[Service, ...]
    path: str
    named: bool = False
    peer: Peer | None = None


class Site:
    """The artifacts served here, the default first, and their peers: those of the same API that other functions serve."""

    def __init__(self, services: Sequence[Service], peers: Sequence[Peer] = ()) -> None:
        self.services, self.peers = tuple(services), tuple(peers)
        names = [s.name for s in self.services]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ArtifactError(f"two artifacts are called {twice[0]}.", hint="Serve them from folders of different names.")
        self._by_name: dict[str, Service] = {}
        for service in self.services:
            self._by_name.setdefault(service.id, service)
        self._by_name |= {s.name: s for s in self.services}  # a name is one artifact's own, a model may be several artifacts'
        self._names = {*self._by_name, *(p.name for p in self.peers), *(p.model for p in self.peers)}

    @property
    def default(self) -> Service:
        """What answers where nothing says which."""
        return self.services[0]

    def place(self, path: str) -> Place:
        """The artifacts that `path` may mean. Raises RequestError (404) where it names one that is not here."""
        path = path.rstrip("/") or "/"
        if not path.startswith(PREFIX):
            return Place(self.services, path)
        rest = path.removeprefix(PREFIX)
        # a model's id has a slash of its own, and one name may begin as another does
        found = max((n for n in self._names if rest == n or rest.startswith(f"{n}/")), key=len, default=None)
        if found is None:
            raise self.unknown(rest)
        rest = rest.removeprefix(found) or "/"
        if found in self._by_name:
            return Place((self._by_name[found],), rest, named=True)
        return Place(self.services, rest, named=True, peer=named(self.peers, found))

    def is_front(self, path: str) -> bool:
        """Whether `path` is where a page is: `/`, or an artifact's own."""
        path = path.rstrip("/") or "/"
        return path == "/" or (path.startswith(PREFIX) and path.removeprefix(PREFIX) in self._names)

    def first(self, place: Place, operation: Operation, params: Mapping[str, str]) -> Service:
        """The first artifact that can answer. Raises UnservedError where none can."""
        return able(place.services, place.path, operation, params)

    def asked(self, place: Place, operation: Operation, params: Mapping[str, str], name: Any) -> Service | Peer:
        """The artifact that a body's `model` names. Raises RequestError (404) for none, UnservedError for one that cannot answer."""
        if not isinstance(name, str):
            raise self.unknown(name)
        # a name is one artifact's, a model's id may be several artifacts'
        meant = [s for s in place.services if s.name == name] or [s for s in place.services if s.id == name]
        if meant:
            return able(meant, place.path, operation, params)
        peer = None if place.named else named(self.peers, name)
        if peer is None:
            raise self.unknown(name)
        return peer

    def names(self) -> dict[str, str]:
        """Name -> model id of every artifact of the API, the default first."""
        return {s.name: s.id for s in self.services} | {p.name: p.model for p in self.peers}

    def unknown(self, asked: Any) -> RequestError:
        """404 for a model that is not here: it names those that are."""
        shown = asked if isinstance(asked, str) else json_type(asked)
        names = [n if n == i else f"{n} ({i})" for n, i in self.names().items()]
        hint = f"This is {names[0]}." if len(names) == 1 else f"There are {', '.join(names)}."
        return RequestError(404, "UnknownModel", f"model {shown[:100]!a} is not served here.", hint=hint)


class UnservedError(RequestError):
    """404 for a path that these artifacts' tasks have no use for; the app adds the routes that they have."""

    def __init__(self, services: Sequence[Service], path: str) -> None:
        tasks = ", ".join(dict.fromkeys(s.model.manifest.task for s in services))
        super().__init__(404, "NotFound", f"there is no {path[:100]!a} for the task {tasks}.")
        self.services = tuple(services)


def able(services: Sequence[Service], path: str, operation: Operation, params: Mapping[str, str]) -> Service:
    """The first of them that can answer. Raises UnservedError."""
    found = next((s for s in services if operation.serves(s, params)), None)
    if found is None:
        raise UnservedError(services, path)
    return found

"""A model hub on this machine: the routes, headers and refusals that huggingface_hub meets on the real one, served over HTTP.

Repositories have commits, moving branches and tags; they can be private or gated. Large files are answered by a redirect to
another origin (`localhost` for `127.0.0.1`), as the real hub sends clients to its CDN, and small ones by a redirect at home.
Every request is recorded, without the token that it carried.
"""

from __future__ import annotations

import hashlib
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

LFS = (".safetensors", ".bin", ".onnx", ".onnx_data", ".data", ".pt", ".ckpt", ".h5", ".msgpack")


@dataclass(frozen=True)
class Seen:
    """One request: what was asked, and whether a token came with it."""

    method: str
    path: str
    host: str
    authorized: bool


@dataclass
class Repo:
    """A repository: commits by sha, and the names (branches, tags) that point to them."""

    id: str
    private: bool = False
    gated: bool = False
    moved_to: str | None = None
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    readers: set[str] = field(default_factory=set)

    def commit(self, files: Mapping[str, bytes | str], *, branch: str = "main") -> str:
        """Add a commit that holds exactly `files`, move `branch` to it, and return its sha."""
        held = {name: content.encode() if isinstance(content, str) else content for name, content in files.items()}
        state = [self.id, str(len(self.commits)), *(f"{n} {git_oid(c)}" for n, c in sorted(held.items()))]
        sha = hashlib.sha1("\n".join(state).encode(), usedforsecurity=False).hexdigest()
        self.commits[sha] = held
        self.refs[branch] = sha
        return sha

    def commit_folder(self, folder: Path, *, branch: str = "main") -> str:
        """A commit of every file below a folder."""
        return self.commit({p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}, branch=branch)

    def find(self, revision: str) -> str | None:
        """The commit that a branch, tag, full or short sha names."""
        if revision in self.refs:
            return self.refs[revision]
        matches = [sha for sha in self.commits if len(revision) >= 7 and sha.startswith(revision)]
        return matches[0] if len(matches) == 1 else None


def git_oid(content: bytes) -> str:
    """git's name for a blob."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


class Hub:
    """The server's state. `before` runs before each answer; `failures` maps part of a path to the statuses that come first."""

    def __init__(self) -> None:
        self.url = ""
        self.reset()

    def reset(self) -> None:
        """An empty hub again, at the same address."""
        self.repos: dict[str, Repo] = {}
        self.tokens: set[str] = set()
        self.seen: list[Seen] = []
        self.failures: dict[str, list[int]] = {}
        self.before: Callable[[Seen], object] = id
        self.page = 1000

    def repo(self, name: str, *, private: bool = False, gated: bool = False) -> Repo:
        """A new, empty repository."""
        self.repos[name] = Repo(name, private=private, gated=gated)
        return self.repos[name]

    def grant(self, token: str, *repos: Repo) -> None:
        """Make a token valid, and let it read these repositories."""
        self.tokens.add(token)
        for repo in repos:
            repo.readers.add(token)

    def paths(self, part: str = "") -> list[str]:
        """`METHOD path` of the requests so far whose path has `part` in it."""
        return [f"{s.method} {s.path}" for s in self.seen if part in s.path]

    def answer(self, request: Request) -> Response:
        """One request, from the outside in: recorded, failed on purpose, authorised, answered."""
        seen = Seen(request.method, request.url.path, request.url.hostname or "", "authorization" in request.headers)
        self.seen.append(seen)
        self.before(seen)
        for part, statuses in self.failures.items():
            if part in seen.path and statuses:
                return Response(status_code=statuses.pop(0))
        parts = [unquote(p) for p in request.scope["raw_path"].decode().strip("/").split("/")]
        if parts[0] == "cdn":
            return self._cdn(request, parts[1])
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if token and token not in self.tokens:
            return refuse(401, "", "Invalid credentials in Authorization header")
        if parts[:3] == ["api", "resolve-cache", "models"]:
            return self._cached(request, parts[3:], token)
        if parts[:2] == ["api", "models"]:
            return self._api(request, parts[2:], token)
        return self._resolve(parts, token)

    def _repo(self, parts: list[str], verbs: tuple[str, ...], token: str) -> tuple[Repo | Response, list[str]]:
        at = next((i for i, p in enumerate(parts) if p in verbs and i), len(parts))
        repo = self.repos.get("/".join(parts[:at]))
        if repo is None or (repo.private and token not in repo.readers):
            # without a token the real hub does not tell whether there is something
            return refuse(404 if token else 401, "RepoNotFound", "Repository not found"), []
        return repo, parts[at:]

    def _api(self, request: Request, parts: list[str], token: str) -> Response:
        repo, rest = self._repo(parts, ("revision", "tree"), token)
        if isinstance(repo, Response):
            return repo
        if repo.moved_to:
            return Response(
                status_code=307, headers={"location": request.url.path.replace(repo.id, repo.moved_to, 1) + f"?{request.url.query}"}
            )
        sha = repo.find(rest[1] if len(rest) > 1 else "main")
        if sha is None:
            return refuse(404, "RevisionNotFound", f"Invalid rev id: {rest[1:]}")
        if rest[:1] == ["tree"]:
            return self._tree(request, repo, sha)
        blobs = "blobs" in request.query_params
        siblings = [{"rfilename": n, **(_entry(c) if blobs else {})} for n, c in sorted(repo.commits[sha].items())]
        body = {
            "_id": "0",
            "id": repo.id,
            "modelId": repo.id,
            "sha": sha,
            "private": repo.private,
            "gated": "auto" if repo.gated else False,
        }
        return JSONResponse({**body, "siblings": siblings, "tags": [], "downloads": 0, "likes": 0})

    def _tree(self, request: Request, repo: Repo, sha: str) -> Response:
        files = sorted(repo.commits[sha].items())
        start = int(request.query_params.get("cursor", "0"))
        page = [{"type": "file", "path": n, "oid": git_oid(c), "size": len(c), **_lfs(n, c)} for n, c in files[start : start + self.page]]
        end = start + self.page
        link = f'<{self.url}{request.url.path}?recursive=True&cursor={end}>; rel="next"'
        return JSONResponse(page, headers={"link": link} if end < len(files) else {})

    def _resolve(self, parts: list[str], token: str) -> Response:
        repo, rest = self._repo(parts, ("resolve",), token)
        if isinstance(repo, Response):
            return repo
        if repo.gated and token not in repo.readers:
            return refuse(403 if token else 401, "GatedRepo", f"Access to model {repo.id} is restricted.")
        sha, name = (repo.find(rest[1]) if len(rest) > 2 else None), "/".join(rest[2:])
        if sha is None:
            return refuse(404, "RevisionNotFound", "Invalid rev id")
        headers = {"x-repo-commit": sha, "accept-ranges": "bytes"}
        if name not in repo.commits[sha]:
            return refuse(404, "EntryNotFound", "Entry not found", headers)
        content = repo.commits[sha][name]
        if name.endswith(LFS):
            digest = hashlib.sha256(content).hexdigest()
            headers |= {"x-linked-etag": f'"{digest}"', "x-linked-size": str(len(content))}
            place = self.url.replace("127.0.0.1", "localhost") + f"/cdn/{digest}?Signature=secret"
            return Response(status_code=302, headers={**headers, "location": place})
        headers |= {"x-linked-etag": f'"{git_oid(content)}"', "x-linked-size": str(len(content))}
        return Response(status_code=307, headers={**headers, "location": quote(f"/api/resolve-cache/models/{repo.id}/{sha}/{name}")})

    def _cached(self, request: Request, parts: list[str], token: str) -> Response:
        for id_parts in (1, 2):
            repo = self.repos.get("/".join(parts[:id_parts]))
            if repo is None or len(parts) < id_parts + 2 or parts[id_parts] not in repo.commits:
                continue
            if (repo.gated or repo.private) and token not in repo.readers:
                return refuse(401, "GatedRepo", "Access is restricted.")
            content = repo.commits[parts[id_parts]]["/".join(parts[id_parts + 1 :])]
            return send(request, content, {"etag": f'"{git_oid(content)}"', "x-repo-commit": parts[id_parts]})
        return refuse(404, "EntryNotFound", "Entry not found")

    def _cdn(self, request: Request, digest: str) -> Response:
        every = (c for repo in self.repos.values() for files in repo.commits.values() for c in files.values())
        content = next((c for c in every if hashlib.sha256(c).hexdigest() == digest), None)
        if content is None or "Signature" not in request.query_params:
            return Response(status_code=403)
        return send(request, content, {"etag": f'"{digest}"'})


def _lfs(name: str, content: bytes) -> dict[str, Any]:
    if not name.endswith(LFS):
        return {}
    return {"lfs": {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}}


def _entry(content: bytes) -> dict[str, Any]:
    return {"size": len(content), "blobId": git_oid(content)}


def refuse(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """A refusal with the headers that the client reads."""
    told = {"x-error-message": message, **({"x-error-code": code} if code else {}), **(headers or {})}
    return JSONResponse({"error": message}, status_code=status, headers=told)


def send(request: Request, content: bytes, headers: Mapping[str, str]) -> Response:
    """A file, whole or from the byte that `Range: bytes=N-` asks for."""
    start = int(request.headers.get("range", "bytes=0-").removeprefix("bytes=").partition("-")[0] or 0)
    told = {**headers, "accept-ranges": "bytes", "content-length": str(len(content) - start)}
    if "range" in request.headers:
        told["content-range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
    body = b"" if request.method == "HEAD" else content[start:]
    return Response(body, status_code=206 if "range" in request.headers else 200, headers=told)


@contextmanager
def serve() -> Iterator[Hub]:
    """A hub on a free port of 127.0.0.1, for as long as the block runs."""
    hub = Hub()
    app = Starlette(routes=[Route("/{path:path}", hub.answer, methods=["GET", "HEAD"])])
    listener = socket.create_server(("127.0.0.1", 0))  # listening before the thread starts: nobody has to wait for it
    hub.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.should_exit = True
        thread.join(timeout=10)
        listener.close()

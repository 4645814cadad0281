"""What a person sees in a browser: the playground of an artifact, and its API reference.

Each page is one document, its style and script inside it: it asks nobody but the server that it came from, and its
Content-Security-Policy holds it to that.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

FOLDER = Path(__file__).parent
STYLE, SCRIPT = "/*style*/", "/*script*/"  # where they go in a page's HTML


@dataclass(frozen=True)
class Page:
    """A document as UTF-8, and the headers that it is answered with."""

    body: bytes
    headers: dict[str, str]


@cache
def playground() -> Page:
    """The page that tries the artifact out, whatever its task: it asks `info` which that is."""
    return _page("playground.html", ("look.css", "playground.css"), ("dom.js", "views.js", "tasks.js", "snippets.js", "playground.js"))


@cache
def docs() -> Page:
    """The page that shows `openapi.json` as a reference."""
    return _page("docs.html", ("look.css", "docs.css"), ("dom.js", "docs.js"))


def _page(html: str, styles: tuple[str, ...], scripts: tuple[str, ...]) -> Page:
    style, script = _joined(styles), _joined(scripts)
    body = _read(html).replace(STYLE, style).replace(SCRIPT, script)
    policy = {
        "default-src": "'none'",
        "script-src": _hash(script),
        "style-src": _hash(style),
        "connect-src": "'self'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    headers = {
        "content-type": "text/html; charset=utf-8",
        "content-security-policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        # a new version of the server has a new page at the same address
        "cache-control": "no-cache",
        "vary": "accept",
    }
    return Page(body.encode(), headers)


def _joined(names: tuple[str, ...]) -> str:
    return "".join(f"\n{_read(name)}" for name in names)


def _read(name: str) -> str:
    # newlines as they are in the repository, on whatever system it was checked out: the hashes are over them
    return (FOLDER / name).read_text(encoding="utf-8").replace("\r\n", "\n")


def _hash(text: str) -> str:
    """A source expression that allows exactly this text between its tags."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"

"""The pages as they leave the server: whole, small, and held by their policy to what they hold."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

import pytest

from hotfoot.http import pages
from hotfoot.http.pages import Page
from support import serving

PAGES = [pytest.param(pages.playground(), id="playground"), pytest.param(pages.docs(), id="docs")]
BUDGET = 60_000  # bytes


class Seen(HTMLParser):
    """What stands in a document: its tags with their attributes, and the text of its styles and scripts."""

    def __init__(self, page: Page) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inline: dict[str, list[str]] = {"style": [], "script": []}
        self._inside = ""
        self.feed(page.body.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        if tag == self._inside:
            self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside in self.inline:
            self.inline[self._inside].append(data)


def policy(page: Page) -> dict[str, str]:
    parts = (part.strip().partition(" ") for part in page.headers["content-security-policy"].split(";"))
    return {name: value for name, _, value in parts}


@pytest.mark.parametrize("page", PAGES)
def test_the_policy_allows_what_the_page_holds_and_nothing_else(page: Page) -> None:
    found = Seen(page)
    allowed = policy(page)
    for tag, inside in found.inline.items():
        assert len(inside) == 1
        assert allowed[f"{tag}-src"] == f"'sha256-{b64encode(sha256(inside[0].encode()).digest()).decode()}'"
    own = {name: allowed.pop(name) for name in ("style-src", "script-src")}
    assert set(own) == {"style-src", "script-src"}
    assert allowed == {
        "default-src": "'none'",
        "connect-src": "'self'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }


@pytest.mark.parametrize("page", PAGES)
def test_the_page_is_one_small_document_that_asks_nobody_else(page: Page) -> None:
    assert len(page.body) <= BUDGET
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["x-content-type-options"] == "nosniff"
    text = page.body.decode()
    assert text.startswith("<!doctype html>")
    assert not {pages.STYLE, pages.SCRIPT} & {m.group() for m in re.finditer(r"/\*\w+\*/", text)}
    found = Seen(page)
    for tag, attributes in found.tags:
        # the policy would refuse them
        assert not [name for name in attributes if name == "style" or name.startswith("on")], tag
        for name in ("src", "href"):
            assert not (attributes.get(name) or "").startswith(("http:", "https:", "//")), tag
    [css] = found.inline["style"]
    assert "url(" not in css
    assert "@import" not in css


def test_every_field_of_the_pages_has_a_label() -> None:
    for page in (pages.playground(), pages.docs()):
        found = Seen(page)
        labelled = {attributes.get("for") for tag, attributes in found.tags if tag == "label"}
        loose = [a for tag, a in found.tags if tag in ("input", "select", "textarea") and a.get("id") not in labelled]
        # those that stand inside their label
        assert {a.get("id") for a in loose} <= {"model", "cache"}


def test_a_browser_gets_them_and_a_program_gets_facts() -> None:
    client = serving.client("text-classification")
    browser = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    for path, page in (("/", pages.playground()), ("/docs", pages.docs())):
        answer = client.get(path, headers=browser)
        assert (answer.status_code, answer.content) == (200, page.body)
        assert {name: answer.headers[name] for name in page.headers} == page.headers
    assert client.get("/", headers={"accept": "*/*"}).json()["task"] == "text-classification"

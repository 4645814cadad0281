"""The API reference in a real browser: what openapi.json says, readable, and code that really runs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Browser
from starlette.types import Receive, Scope, Send

from hotfoot.http import pages
from hotfoot.http.app import Options, create_app
from support import serving, trying
from support.browser import PHONE, WIDE, visit
from support.serving import running

pytestmark = pytest.mark.slow

# a schema that holds itself, choices, bounds, a parameter of a path, and words with a quote and code in them
DESCRIBED: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Trees & <b>leaves</b>", "version": "1", "description": "First `x-y`.\n\nSecond."},
    "tags": [{"name": "Trees", "description": "All of them."}],
    "paths": {
        "/trees/{id}": {
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string", "default": "a b"}}],
            "post": {
                "tags": ["Trees"],
                "summary": "Grow",
                "requestBody": {
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Tree"}, "example": {"name": "it's"}}}
                },
                "responses": {"200": {"description": "Grown", "content": {"application/json": {"schema": {"type": "array", "items": {}}}}}},
            },
        }
    },
    "components": {
        "schemas": {
            "Tree": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string", "description": "What it is called"},
                    "height": {"type": ["number", "null"], "minimum": 0, "default": 1.5},
                    "kind": {"enum": ["oak", "elm"]},
                    "branches": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}},
                    "soil": {"oneOf": [{"type": "object", "properties": {"acid": {"type": "boolean"}}}, {"type": "integer"}]},
                },
            }
        }
    },
}


async def trees(scope: Scope, _receive: Receive, send: Send) -> None:
    """The page, and a description made up for it."""
    page = scope["path"] == "/docs"
    headers = pages.docs().headers if page else {"content-type": "application/json"}
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": 200, "headers": raw})
    await send({"type": "http.response.body", "body": pages.docs().body if page else json.dumps(DESCRIBED).encode()})


@pytest.mark.parametrize("task", serving.TASKS)
def test_every_operation_is_there(task: str, chromium: Browser) -> None:
    app = create_app(serving.model(task), Options(threads=1))
    with running(app) as url, visit(chromium, f"{url}/docs", width=PHONE, scheme="dark") as seen:
        described = serving.client(task).get("/openapi.json").json()
        wanted = sorted(
            f"{method.upper()} {path}" for path, item in described["paths"].items() for method in item if method != "parameters"
        )
        assert len(wanted) > 10
        shown = seen.page.locator(".operation > header").all_inner_texts()
        assert sorted(" ".join(text.split()) for text in shown) == wanted
        assert sorted(seen.page.locator("#index a").all_text_contents()) == wanted
        assert (seen.overflow(), seen.faint()) == (0, [])
        first = seen.page.locator(".operation", has=seen.page.locator(".method", has_text="POST")).first
        answer = trying.by_shell(first.locator("pre").first.text_content() or "")
        assert trying.leaves(answer) == pytest.approx(trying.leaves(trying.asked(url, {"inputs": serving.model(task).sample})), abs=1e-6)
        seen.clean()


def test_schemas_are_set_out(chromium: Browser) -> None:
    with running(trees) as url, visit(chromium, f"{url}/docs", width=WIDE) as seen:
        assert seen.page.locator("h1").inner_text() == "Trees & <b>leaves</b>"
        assert seen.page.locator("#reference .about").all_inner_texts() == ["First x-y.", "Second.", "All of them."]
        rows = [" ".join(text.split()) for text in seen.page.locator(".operation .rows li").all_inner_texts()]
        assert rows[0] == 'id text, in path, default "a b" required'
        assert rows[1] == "name text required What it is called"
        assert rows[2] == "height number or null, at least 0, default 1.5"
        assert rows[3] == 'kind "oak" or "elm"'
        assert rows[4] == "branches list of object"  # what is inside it is what it is inside of
        assert rows[5].startswith("soil object or whole number")
        assert rows[6] == "acid true or false"
        assert rows[7] == "200 list of anything Grown"
        assert seen.page.locator("pre").text_content() == (
            f"curl '{url}/trees/a%20b' \\\n  -H 'content-type: application/json' \\\n  -d '{{\n  \"name\": \"it'\\''s\"\n}}'"
        )
        assert seen.overflow() == 0
        seen.clean()


def test_a_link_to_an_operation_leads_there(chromium: Browser) -> None:
    with running(create_app(serving.model("fill-mask"), Options(threads=1))) as url, visit(chromium, f"{url}/docs") as seen:
        link = seen.page.locator("#index a", has_text="/v1/models").first
        link.focus()
        seen.page.keyboard.press("Enter")
        target = seen.page.locator(f"[id='{(link.get_attribute('href') or '').removeprefix('#')}']")
        assert target.evaluate("e => e.getBoundingClientRect().top < innerHeight && e.getBoundingClientRect().bottom > 0")
        seen.clean()


def test_a_token_is_asked_for(chromium: Browser) -> None:
    with running(create_app(serving.model("fill-mask"), Options(threads=1, token="t0k3n"))) as url, visit(chromium, f"{url}/docs") as seen:
        seen.page.get_by_label("This endpoint wants a bearer token").fill("t0k3n")
        seen.page.keyboard.press("Enter")
        seen.page.wait_for_selector(".operation")
        assert "$HOTFOOT_TOKEN" in (seen.page.locator("pre").first.text_content() or "")
        assert "t0k3n" not in seen.page.locator("main").inner_text()

"""A real browser for the tests of pages, and what a page did in it: what it logged, what it asked for."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
WIDE, PHONE = 1280, 360  # CSS pixels
REFUSED = "Failed to load resource: the server responded with a status of "  # what a browser itself says of an answer that is an error

# of each visible text: its colour over its background as WCAG weighs them, where that is less than it must be
CONTRAST = """
() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], [x, y, z]) => [r * a + x * (1 - a), g * a + y * (1 - a), b * a + z * (1 - a), 1];
  const behind = (element) => {
    const own = rgba(getComputedStyle(element).backgroundColor);
    return own[3] === 1 || !element.parentElement ? over(own, [255, 255, 255, 1]) : over(own, behind(element.parentElement));
  };
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const faults = [];
  const look = (element, text) => {
    const ground = behind(element), one = light(over(rgba(getComputedStyle(element).color), ground)), other = light(ground);
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < 4.5) faults.push(`${ratio.toFixed(2)} ${element.tagName}.${element.className}: ${text.slice(0, 40)}`);
    return ratio;
  };
  let seen = 0;
  for (const element of document.querySelectorAll("body *")) {
    if (!element.checkVisibility()) continue;
    const own = [...element.childNodes].filter((n) => n.nodeType === Node.TEXT_NODE).map((n) => n.data.trim()).join("");
    const text = own || (["INPUT", "TEXTAREA"].includes(element.tagName) && element.value);
    if (text) { look(element, text); seen += 1; }
  }
  return [seen, faults];
}
"""


@dataclass
class Visit:
    """A page in the browser. said: warnings and errors of its console, CSP violations and uncaught exceptions among them.

    asked: every address that it asked for.
    """

    page: Page
    origin: str
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    @property
    def elsewhere(self) -> list[str]:
        """What it asked of anybody else; data: asks nobody."""
        return [url for url in self.asked if not url.startswith((f"{self.origin}/", "data:"))]

    def clean(self) -> None:
        """Fail where the page complained or asked anybody else."""
        assert (self.said, self.elsewhere) == ([], [])

    def overflow(self) -> int:
        """CSS pixels that the page is wider than its window."""
        wide: int = self.page.evaluate("document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth")
        return wide

    def faint(self) -> list[str]:
        """Visible texts whose contrast is below 4.5."""
        seen, faults = self.page.evaluate(CONTRAST)
        assert seen > 5
        found: list[str] = faults
        return found


def executable() -> str:
    """The browser of this machine. Raises RuntimeError where there is none: a page that nobody looked at is not tested."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        raise RuntimeError(f"no browser on PATH, of {', '.join(NAMES)}: apt-get install chromium")
    return found


@contextmanager
def browser() -> Iterator[Browser]:
    """The browser, without a window."""
    # as root it starts without its sandbox or not at all
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=executable(), args=arguments)
        try:
            yield started
        finally:
            started.close()


@contextmanager
def visit(of: Browser, url: str, *, width: int = WIDE, scheme: Literal["light", "dark"] = "light", reduced: bool = True) -> Iterator[Visit]:
    """A page at `url` in a context of its own, once it has come to rest. reduced: it is asked to move nothing."""
    context = of.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce" if reduced else "no-preference"
    )
    page = context.new_page()
    page.set_default_timeout(10_000)
    seen = Visit(page, "{0.scheme}://{0.netloc}".format(urlsplit(url)))
    page.on("console", lambda message: seen.said.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: seen.said.append(str(error)))
    page.on("request", lambda request: seen.asked.append(request.url))
    try:
        page.goto(url, wait_until="networkidle")
        yield seen
    finally:
        context.close()

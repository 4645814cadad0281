"""What the tests of pages share: one browser a module, and a server for each case of the playground."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from hotfoot.http.app import Options, create_app
from support import browser, serving
from support.serving import running
from support.trying import CASES, Case

IDS = [f"{case.task}{'-pairs' if case.switch else ''}" for case in CASES]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser.browser() as started:
        yield started


@pytest.fixture(scope="module", params=CASES, ids=IDS)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Case, str]]:
    """A case, and a server over an artifact of its task."""
    model = serving.opened(tmp_path_factory.mktemp("artifact"), request.param.task, max_tokens=512)
    with running(create_app(model, Options(threads=1))) as url:
        yield request.param, f"{url}/"

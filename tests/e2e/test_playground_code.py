"""The request as code, in step with the form: a shell, Python and JavaScript really run it, and get the same answer."""

from __future__ import annotations

from dataclasses import replace

import pytest
from playwright.sync_api import Browser

from hotfoot.http.app import Options, create_app
from support import serving, trying
from support.browser import visit
from support.serving import running
from support.trying import HARD, Case

pytestmark = pytest.mark.slow


def test_the_code_gives_the_same_answer(served: tuple[Case, str], chromium: Browser) -> None:
    case, url = served
    wanted = trying.leaves(trying.asked(url, case.body))
    with visit(chromium, url) as seen:
        trying.fill(seen, case)
        found = {
            "curl": trying.by_shell(trying.code(seen, "curl")),
            "Python": trying.by_python(trying.code(seen, "Python")),
            "JavaScript": trying.by_javascript(seen, trying.code(seen, "JavaScript")),
        }
        for answer in found.values():
            assert trying.leaves(answer) == pytest.approx(wanted, abs=1e-6)
        assert ("InferenceClient" in trying.code(seen, "Python")) is (case.task != "text-ranking")
        seen.clean()


def test_the_code_quotes_whatever_is_written(served: tuple[Case, str], chromium: Browser) -> None:
    case, url = served
    hard = HARD + (" [MASK]" if case.task == "fill-mask" else "")
    with visit(chromium, url) as seen:
        trying.fill(seen, replace(case, fill=dict.fromkeys(case.fill, hard), parameters={}))
        with seen.page.expect_request(lambda request: request.method == "POST") as sent:
            trying.run(seen)
        body = sent.value.post_data_json
        assert body is not None
        assert hard in trying.leaves(body)
        wanted = trying.leaves(trying.asked(url, body))
        for found in (
            trying.by_shell(trying.code(seen, "curl")),
            trying.by_python(trying.code(seen, "Python")),
            trying.by_javascript(seen, trying.code(seen, "JavaScript")),
        ):
            assert trying.leaves(found) == pytest.approx(wanted, abs=1e-6)
        seen.clean()


def test_parameters_that_the_client_lacks_are_sent_without_it(chromium: Browser) -> None:
    with running(create_app(serving.model("text-classification"), Options(threads=1))) as url, visit(chromium, url) as seen:
        seen.page.get_by_label("Text").fill("good " * 100)
        seen.page.get_by_label("truncate").check()
        snippet = trying.code(seen, "Python")
        assert "InferenceClient" not in snippet
        assert trying.by_python(snippet) == trying.asked(url, {"inputs": "good " * 100, "parameters": {"truncate": True}})


def test_code_is_copied(chromium: Browser) -> None:
    with running(create_app(serving.model("text-classification"), Options(threads=1))) as url, visit(chromium, url) as seen:
        seen.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        snippet = trying.code(seen, "curl")
        seen.page.get_by_role("button", name="Copy curl code").click()
        seen.page.get_by_text("Copied").wait_for()
        assert seen.page.evaluate("navigator.clipboard.readText()") == snippet

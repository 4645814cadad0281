"""The playground wherever it may be: behind a token, a stage or a model's name, or on this machine over a deployed endpoint."""

from __future__ import annotations

import threading

import pytest
from playwright.sync_api import Browser

from hotfoot.http.app import Options, create_app
from hotfoot_build import endpoint, playground_command
from support import serving, trying
from support.browser import REFUSED, visit
from support.serving import running
from support.trying import CASES, check

pytestmark = pytest.mark.slow


def test_a_token_is_asked_for_and_kept_out_of_the_code(chromium: Browser) -> None:
    app = create_app(serving.model("text-classification"), Options(threads=1, token="t0k3n"))
    with running(app) as url, visit(chromium, url) as seen:
        assert seen.said == [f"{REFUSED}401 (Unauthorized)"]
        seen.page.keyboard.type("t0k3n")
        seen.page.keyboard.press("Enter")
        seen.page.wait_for_selector("#facts div")
        assert not seen.page.locator("#auth").is_visible()
        trying.run(seen)
        assert seen.page.locator(".lead").count() == 1
        snippet = trying.code(seen, "curl")
        assert "t0k3n" not in snippet + trying.code(seen, "Python") + trying.code(seen, "JavaScript")
        by_shell = trying.by_shell(snippet, HOTFOOT_TOKEN="t0k3n")
        assert trying.leaves(by_shell) == pytest.approx(trying.leaves(trying.by_python(trying.code(seen, "Python"), HOTFOOT_TOKEN="t0k3n")))
        # of this tab: there after a reload, and nowhere that outlives it
        seen.page.reload(wait_until="networkidle")
        assert not seen.page.locator("#auth").is_visible()
        assert seen.page.evaluate("[localStorage.length, document.cookie]") == [0, ""]


def test_it_works_behind_a_stage(chromium: Browser) -> None:
    app = trying.behind("/prod", create_app(serving.model("text-classification"), Options(threads=1)))
    with running(app) as url:
        for address in (f"{url}/prod/", f"{url}/prod/models/rigged/tiny/", f"{url}/prod/models/rigged/tiny"):
            with visit(chromium, address) as seen:
                before = len(seen.asked)
                seen.page.get_by_label("Text").fill("good")
                trying.run(seen)
                assert seen.page.locator(".lead").inner_text().startswith("POSITIVE")
                assert seen.asked[before:] == [address.rstrip("/") + "/"]
                assert trying.by_shell(trying.code(seen, "curl"))[0][0]["label"] == "POSITIVE"
                seen.page.get_by_text("API reference").click()
                seen.page.wait_for_selector(".operation")
                assert seen.page.url == address.rstrip("/") + "/docs"
                seen.page.get_by_text("Playground", exact=True).click()
                seen.page.wait_for_selector("#facts div")
                assert seen.page.url == address.rstrip("/") + "/"
                seen.clean()


def test_one_goes_from_model_to_model(chromium: Browser) -> None:
    models = {"feelings": serving.model("text-classification"), "names": serving.model("token-classification")}
    with running(create_app(models, Options(threads=1))) as url, visit(chromium, url) as seen:
        assert seen.page.get_by_label("Model").input_value() == "feelings"
        seen.page.get_by_label("Model").select_option("names")
        seen.page.wait_for_url(f"{url}/models/names/")
        seen.page.wait_for_selector("#parameter-aggregation_strategy")
        assert seen.page.get_by_label("Model").input_value() == "names"
        seen.page.get_by_label("Text").fill("Maria")
        trying.run(seen)
        assert seen.page.locator("mark").inner_text().split() == ["Maria", "PER"]
        seen.clean()


def test_a_deployed_endpoint_is_tried_from_this_machine(chromium: Browser) -> None:
    app = trying.behind("/prod", create_app(serving.model("text-classification"), Options(threads=1, token="t0k3n")))
    with running(app) as url, playground_command.Server(0, endpoint.connect(f"{url}/prod", "t0k3n", None)) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        with visit(chromium, f"http://localhost:{server.server_port}/") as seen:
            seen.page.get_by_label("Text").fill("good")
            trying.run(seen)
            check(seen, CASES[0])
            assert [t.split()[0] for t in seen.page.locator(".stages li").all_inner_texts()] == [
                "tokenize",
                "queue",
                "run",
                "post",
                "network",
            ]
            assert trying.by_shell(trying.code(seen, "curl"))[0][0]["label"] == "POSITIVE"
            seen.clean()
        server.shutdown()

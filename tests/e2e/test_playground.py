"""The playground in a real browser, over the real app: every task by keyboard, right answers, nothing asked of anybody else."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser

from hotfoot.http.app import Options, create_app
from hotfoot.model import Model
from support import serving, trying
from support.browser import PHONE, REFUSED, WIDE, visit
from support.serving import running
from support.trying import Case, check

pytestmark = pytest.mark.slow

# name of what has the focus, none at the end of the page, and whether that shows
FOCUSED = """
() => {
  const element = document.activeElement, style = getComputedStyle(element);
  const name = element === document.body ? "" : element.id || element.textContent.trim();
  return [name, style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2];
}
"""


@pytest.mark.parametrize(("width", "scheme"), [(WIDE, "light"), (PHONE, "light"), (PHONE, "dark"), (WIDE, "dark")])
def test_a_task_is_answered(served: tuple[Case, str], width: int, scheme: Literal["light", "dark"], chromium: Browser) -> None:
    case, url = served
    with visit(chromium, url, width=width, scheme=scheme) as seen:
        trying.fill(seen, case)
        assert (seen.overflow(), seen.faint()) == (0, [])
        trying.run(seen)
        check(seen, case)
        assert "round trip" in seen.page.locator("#status").inner_text()
        assert [t.split()[0] for t in seen.page.locator(".stages li").all_inner_texts()] == ["tokenize", "queue", "run", "post", "network"]
        told = dict(t.rsplit(" ", 1) for t in seen.page.locator(".told li").all_inner_texts())
        assert (told["cache"], told["device"]) == ("bypass", "cpu")
        assert int(told["tokens"]) > 0
        assert len(told["request id"]) == 32
        assert (seen.overflow(), seen.faint()) == (0, [])
        seen.page.get_by_text("As JSON").click()
        seen.page.locator(".raw pre").wait_for()
        assert seen.overflow() == 0
        seen.clean()


def test_everything_is_reached_by_keyboard(chromium: Browser) -> None:
    with running(create_app(serving.model("question-answering"), Options(threads=1))) as url, visit(chromium, url) as seen:
        trying.run(seen)
        seen.page.evaluate("document.activeElement.blur()")
        reached = []
        for _ in range(40):
            seen.page.keyboard.press("Tab")
            element = seen.page.evaluate(FOCUSED)
            if not element[0]:
                break
            reached.append(element)
        names = [name for name, _ in reached]
        for name in ("reference", "field-question", "field-context", "parameter-top_k", "cache", "run", "tab-curl", "Copy", "As JSON"):
            assert name in names, names
        assert names.index("field-question") < names.index("run") < names.index("As JSON") < names.index("tab-curl")
        assert [name for name, outlined in reached if not outlined and name != "Skip to the form"] == []
        # a button by its own key, and the other answers by theirs
        seen.page.locator("#run").focus()
        seen.page.keyboard.press("Enter")
        seen.page.wait_for_selector(".bars button")
        buttons = seen.page.locator(".bars button")
        buttons.nth(1).focus()
        seen.page.keyboard.press("Enter")
        assert buttons.nth(1).get_attribute("aria-pressed") == "true"
        assert seen.page.locator("mark").inner_text() == buttons.nth(1).inner_text()


def test_the_cache_is_told_and_can_be_left_out(chromium: Browser) -> None:
    with (
        running(create_app(serving.model("text-classification"), Options(threads=1, cache_bytes=2**20))) as url,
        visit(chromium, url) as seen,
    ):
        told = []
        for _ in range(2):
            trying.run(seen)
            told.append(seen.page.locator(".told").inner_text().split("\n")[:2])
        seen.page.get_by_label("Use cache").uncheck()
        trying.run(seen)
        told.append(seen.page.locator(".told").inner_text().split("\n")[:2])
        assert told == [["cache miss", "device cpu"], ["cache hit", "device cache"], ["cache bypass", "device cpu"]]
        for language in ("curl", "Python", "JavaScript"):
            assert "x-use-cache" in trying.code(seen, language)
        assert trying.leaves(trying.by_python(trying.code(seen, "Python")))[0] == seen.page.locator(".bars .name").first.inner_text()
        seen.clean()


def test_an_error_is_shown_as_the_server_says_it(chromium: Browser) -> None:
    with running(create_app(serving.model("text-classification"), Options(threads=1))) as url, visit(chromium, url) as seen:
        seen.page.get_by_label("Text").fill("word " * 100)
        trying.run(seen)
        shown = seen.page.get_by_role("alert").filter(has_text="Validation").inner_text()
        assert shown.startswith("422 Validation")
        assert "102 tokens" in shown
        assert "64" in shown
        assert [said.partition(" (")[0] for said in seen.said] == [f"{REFUSED}422"]
        seen.page.get_by_label("truncate").check()
        trying.run(seen)
        seen.page.wait_for_selector(".bars")
        assert seen.page.locator(".problem").count() == 0


def test_a_server_that_is_gone_is_said(chromium: Browser) -> None:
    with running(create_app(serving.model("text-classification"), Options(threads=1))) as url:
        entered = visit(chromium, url)
        seen = entered.__enter__()
    trying.run(seen)
    assert seen.page.locator(".problem").inner_text().startswith("No answer")
    entered.__exit__(None, None, None)


def test_the_facts_of_the_artifact_are_there(chromium: Browser) -> None:
    model = serving.model("token-classification")
    with running(create_app(model, Options(threads=3))) as url, visit(chromium, url) as seen:
        assert seen.page.locator("h1").inner_text() == "rigged/tiny"
        assert seen.page.title() == "rigged/tiny · playground"
        facts = dict(text.split("\n") for text in seen.page.locator("#facts > div").all_inner_texts())
        assert facts == {
            "Task": "token-classification",
            "Revision": "0" * 12,
            "Digest": model.manifest.digest[:12],
            "Precision": "fp32",
            "Target": model.manifest.target,
            "Device": "cpu",
            "Threads": "3",
            "Longest input": "64 tokens",
            "Licence": "apache-2.0",
            "ONNX Runtime": facts["ONNX Runtime"],
            "Labels": "O, PER, LOC",
        }


def test_a_mask_is_put_where_the_cursor_is(chromium: Browser) -> None:
    with running(create_app(serving.model("fill-mask"), Options(threads=1))) as url, visit(chromium, url) as seen:
        field = seen.page.get_by_label("Text with a mask")
        assert "[MASK]" in field.input_value()
        field.fill("hello world")
        for _ in "world":
            seen.page.keyboard.press("ArrowLeft")
        seen.page.get_by_role("button", name="Insert [MASK]").click()
        seen.page.keyboard.type(" [MASK] ")
        assert field.input_value() == "hello [MASK] [MASK] world"
        trying.run(seen)
        assert seen.page.locator(".sub").all_inner_texts() == ["Mask 1", "Mask 2"]
        first = trying.asked(url, {"inputs": "hello [MASK] [MASK] world"})[0][0]
        assert seen.page.locator(".bars .name").first.inner_text() == first["token_str"] == "guitar"
        assert seen.page.locator(".bars .score").first.inner_text() == f"{first['score']:.4f}"
        seen.clean()


def own_task() -> Model:
    """A task of somebody's own, whose answer no view was made for."""
    model = serving.model("text-classification")

    def decode(*_: Any) -> Any:
        return {"verdict": [1, {"deep": None}]}

    task = replace(model.task, name="mypkg.verdicts", decode=decode, sample="good")
    return replace(model, task=task, manifest=replace(model.manifest, task="mypkg.verdicts"))


def test_a_task_of_somebody_s_own_is_shown_as_json(chromium: Browser) -> None:
    with running(create_app(own_task(), Options(threads=1))) as url, visit(chromium, url) as seen:
        assert seen.page.get_by_label("Inputs").input_value() == "good"
        parameters = seen.page.get_by_label("Parameters")
        parameters.fill('{"top_k": ')
        seen.page.keyboard.press("Control+Enter")
        assert seen.page.locator("#field-parameters-fault").inner_text().startswith("Not JSON")
        assert parameters.get_attribute("aria-invalid") == "true"
        parameters.fill('{"top_k": 1}')
        with seen.page.expect_request(lambda request: request.method == "POST") as sent:
            trying.run(seen)
        assert sent.value.post_data_json == {"inputs": "good", "parameters": {"top_k": 1}}
        assert seen.page.locator("#answer pre").inner_text() == json.dumps({"verdict": [1, {"deep": None}]}, indent=2)
        assert trying.by_python(trying.code(seen, "Python")) == {"verdict": [1, {"deep": None}]}
        seen.clean()


def test_a_great_answer_is_cut_for_reading(chromium: Browser) -> None:
    with running(create_app(serving.model("feature-extraction"), Options(threads=1))) as url, visit(chromium, url) as seen:
        seen.page.get_by_label("Texts").fill("\n".join(["east", "north"] * 50))
        trying.run(seen)
        assert seen.page.locator("caption").inner_text() == "Cosine of each pair of the first 24 texts of 100"
        assert seen.page.locator("table.heat td.cold, table.heat tbody td").count() == 24 * 24
        assert seen.page.locator(".sub").inner_text() == "100 vectors of 4 numbers"
        assert seen.overflow() == 0
        seen.page.set_viewport_size({"width": PHONE, "height": 800})
        assert seen.overflow() == 0
    with running(create_app(serving.model("text-ranking"), Options(threads=1))) as url, visit(chromium, url) as seen:
        seen.page.get_by_label("Texts to rank").fill("\n".join(["guitar"] * 250))
        trying.run(seen)
        assert seen.page.locator(".bars .score").count() == 200
        assert seen.page.locator(".bars > .rest").inner_text() == "50 more rows under \u201cAs JSON\u201d"
        seen.clean()


def test_nothing_moves_where_that_is_asked_for(chromium: Browser) -> None:
    moved = []
    with running(create_app(serving.model("text-classification"), Options(threads=1))) as url:
        for reduced in (True, False):
            with visit(chromium, url, reduced=reduced) as seen:
                trying.run(seen)
                style = "e => [getComputedStyle(e).animationName, getComputedStyle(document.querySelector('#run')).transitionDuration]"
                moved.append(seen.page.locator(".bars i").first.evaluate(style))
    assert moved == [["none", "0s"], ["grow", "0.12s, 0.12s"]]


def test_what_the_tests_look_for_would_be_found(chromium: Browser) -> None:
    with running(create_app(serving.model("text-classification"), Options(threads=1))) as url, visit(chromium, url, width=PHONE) as seen:
        seen.clean()
        seen.page.evaluate("document.querySelector('h1').style.setProperty('color', '#999')")
        assert [fault.split()[1] for fault in seen.faint()] == ["H1.:"]
        seen.page.evaluate("document.querySelector('h1').style.setProperty('width', '500px')")
        assert seen.overflow() > 100
        seen.page.evaluate("document.body.append(Object.assign(document.createElement('img'), { src: 'https://example.com/a.png' }))")
        seen.page.evaluate("document.body.append(Object.assign(document.createElement('style'), { textContent: 'h1 { color: red }' }))")
        seen.page.evaluate("fetch('https://example.com/').catch(() => null)")
        assert len([said for said in seen.said if "Content Security Policy" in said]) >= 3

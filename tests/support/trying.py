"""What a person does with the playground, and what the right answer looks like, task by task."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from support.browser import Visit

# what a shell, a Python text or a JavaScript text could stumble over
HARD = """it's "so" `so` $HOME $(id) %s ! \\n \\ <b>&amp; {x} zoë 👩‍👧"""
# at the end of a snippet in Python: its answer as JSON, whatever the client made of it
SAID = "\nimport json as _json, sys as _sys\n_json.dump(answer, _sys.stderr, default=lambda value: value.tolist())\n"


@dataclass(frozen=True)
class Case:
    """A form filled in: texts by label, parameters by name, the body that it must make, and what must be seen then.

    seen: (selector, text) in order, each the text of the first elements that match. switch: a choice to make first.
    """

    task: str
    fill: Mapping[str, str]
    body: Mapping[str, Any]
    seen: tuple[tuple[str, Sequence[str]], ...]
    parameters: Mapping[str, str | bool] = field(default_factory=dict)
    switch: str = ""


BARS, SCORES = ".bars .name", ".bars .score"
SENTENCES = "east\nnorth\nwest"
CASES = (
    Case(
        "text-classification",
        {"Text": "good"},
        {"inputs": "good", "parameters": {"top_k": 2, "function_to_apply": "softmax"}},
        # softmax of -2 and 3
        ((".lead", ["POSITIVE0.9933"]), (BARS, ["POSITIVE", "NEGATIVE"]), (SCORES, ["0.9933", "0.0067"])),
        {"top_k": "2", "function_to_apply": "softmax"},
    ),
    Case(
        "zero-shot-classification",
        {"Text": "text", "Labels": "politics\nmusic"},
        {"inputs": "text", "parameters": {"candidate_labels": ["politics", "music"], "hypothesis_template": "{}", "multi_label": True}},
        # means with `text`, which has zeros: entailment against contradiction is 3 to -1, and -2 to 2
        ((".lead", ["music0.9820"]), (BARS, ["music", "politics"]), (SCORES, ["0.9820", "0.0180"])),
        {"hypothesis_template": "{}", "multi_label": True},
    ),
    Case(
        "token-classification",
        {"Text": "👩‍👧 Maria Gonzalez\nlives in Springfield"},
        {"inputs": "👩‍👧 Maria Gonzalez\nlives in Springfield", "parameters": {"aggregation_strategy": "simple"}},
        (
            (".reading", ["👩‍👧 Maria Gonzalez\u00a0PER\nlives in Springfield\u00a0LOC"]),
            ("mark", ["Maria Gonzalez\u00a0PER", "Springfield\u00a0LOC"]),
            (".legend li", ["PER1", "LOC1"]),
            ("tbody tr", ["Maria GonzalezPER0.99874\u201318", "SpringfieldLOC0.998728\u201339"]),
        ),
        {"aggregation_strategy": "simple"},
    ),
    Case(
        "question-answering",
        {"Question": "where is it", "Context": "👩‍👧 Maria lives in Springfield and not in Paris"},
        {"inputs": {"question": "where is it", "context": "👩‍👧 Maria lives in Springfield and not in Paris"}, "parameters": {"top_k": 2}},
        ((".lead", ["Springfield"]), ("mark", ["Springfield"]), (BARS, ["1Springfield", "2"])),
        {"top_k": "2"},
    ),
    Case(
        "feature-extraction",
        {"Texts": SENTENCES},
        {"inputs": ["east", "north", "west"], "parameters": {"normalize": True}},
        (("table.heat tbody tr", ["1east1.000.00-1.00", "2north0.001.000.00", "3west-1.000.001.00"]), (".sub", ["3 vectors of 4 numbers"])),
        {"normalize": "true"},
    ),
    Case(
        "sentence-similarity",
        {"Sentence": "east", "Compared with": SENTENCES},
        {"inputs": {"source_sentence": "east", "sentences": ["east", "north", "west"]}},
        ((BARS, ["1east", "2north", "3west"]), (SCORES, ["1.0000", "0.0000", "-1.0000"])),
    ),
    Case(
        "sentence-similarity",
        {"Texts": "east\nnorth"},
        {"inputs": ["east", "north"]},
        (("table.heat tbody tr", ["1east1.000.00", "2north0.001.00"]),),
        switch="Every pair",
    ),
    Case(
        "text-ranking",
        {"Query": "query", "Texts to rank": "market\norchestra\nguitar"},
        {"inputs": {"query": "query", "texts": ["market", "orchestra", "guitar"]}, "parameters": {"function_to_apply": "none"}},
        # means with the query, which has zero
        ((BARS, ["1guitar", "2orchestra", "3market"]), (SCORES, ["20.0000", "19.0000", "-7.2000"])),
        {"function_to_apply": "none"},
    ),
    Case(
        "fill-mask",
        {"Text with a mask": "hello [MASK]"},
        {"inputs": "hello [MASK]", "parameters": {"top_k": 2, "targets": ["drum", "piano"]}},
        ((BARS, ["piano", "drum"]), (".bars .rest", ["hello piano", "hello drum"])),
        {"top_k": "2", "targets": "drum, piano"},
    ),
    Case(
        "text-generation",
        {"Prompt": "x"},
        {"inputs": "x", "parameters": {"max_new_tokens": 7}},
        ((".reading", ["xand so "]),),
        {"max_new_tokens": "7"},
    ),
    Case(
        "summarization",
        {"Text": "x"},
        {"inputs": "x", "parameters": {"max_new_tokens": 6, "repetition_penalty": 1.5}},
        ((".reading", ["and so"]),),
        {"max_new_tokens": "6", "repetition_penalty": "1.5"},
    ),
    Case("translation", {"Text": "x"}, {"inputs": "x"}, ((".reading", ["and so it goes on."]),)),
)


def behind(prefix: str, app: ASGIApp) -> ASGIApp:
    """The app as a front door with a stage shows it: the stage is in the address, and the app never sees it."""

    async def door(scope: Scope, receive: Receive, send: Send) -> None:
        inside = scope["path"].startswith(f"{prefix}/")
        await app({**scope, "path": scope["path"].removeprefix(prefix) if inside else "/outside"}, receive, send)

    return door


def fill(seen: Visit, case: Case) -> None:
    """Fill the form in as the case has it."""
    page = seen.page
    if case.switch:
        page.get_by_label(case.switch).check()
    for label, text in case.fill.items():
        page.get_by_label(label, exact=False).first.fill(text)
    for name, value in case.parameters.items():
        control = page.locator(f"#parameter-{name}")
        if value is True:
            control.check()
        elif control.evaluate("c => c.tagName") == "SELECT":
            control.select_option(label=str(value))
        else:
            control.fill(str(value))


def run(seen: Visit) -> None:
    """Run by keyboard, and wait for what comes."""
    page = seen.page
    page.evaluate("document.querySelector('#measured').replaceChildren()")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".measured, .problem")


def check(seen: Visit, case: Case) -> None:
    """Fail where what is seen is not what the case has."""
    for selector, texts in case.seen:
        found = [text.replace("\n", "") if selector != ".reading" else text for text in seen.page.locator(selector).all_text_contents()]
        assert len(found) >= len(texts)
        for text, wanted in zip(found, texts, strict=False):
            assert text.startswith(wanted), f"{selector}: {text!r}"


def code(seen: Visit, language: str) -> str:
    """What the page shows for a language; chosen by keyboard."""
    page = seen.page
    page.get_by_role("tab", selected=True).focus()
    page.keyboard.press("Home")
    while page.get_by_role("tab", selected=True).inner_text() != language:
        page.keyboard.press("ArrowRight")
    return str(page.locator("#code pre").text_content())


def by_shell(snippet: str, **environ: str) -> Any:
    """The answer that a shell gets."""
    command = ["bash", "-euo", "pipefail", "-c", snippet.replace("curl ", "curl --silent --show-error ", 1)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **environ})
    return json.loads(done.stdout)


def by_python(snippet: str, **environ: str) -> Any:
    """The answer that Python gets."""
    command = [sys.executable, "-c", snippet + SAID]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environ})
    assert done.returncode == 0, f"{snippet}\n{done.stderr}"
    assert done.stdout  # an empty answer is a line of its own
    return json.loads(done.stderr.splitlines()[-1])


def by_javascript(seen: Visit, snippet: str) -> Any:
    """The answer that JavaScript gets."""
    return seen.page.evaluate(f"async () => {{ {snippet}\nreturn answer; }}")


def asked(url: str, body: Mapping[str, Any]) -> Any:
    """The answer to a body."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def leaves(value: Any) -> list[Any]:
    """Every text and number of an answer in one order, however deep a client or dialect wraps them."""
    if isinstance(value, dict):
        return [leaf for name in sorted(value) for leaf in leaves(value[name])]
    if isinstance(value, list):
        return [leaf for one in value for leaf in leaves(one)]
    return [] if value is None else [value]

"""What holds for every task: a new file in the folder is tested here at once."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

from hotfoot import task as task_module
from hotfoot import tasks
from hotfoot.contract import manifest as manifests
from hotfoot.contract.errors import InputError, UnsupportedError
from hotfoot.contract.manifest import Manifest
from hotfoot.model import Model
from hotfoot.task import Task, load, names
from hotfoot.tasks._tokens import masked
from support import rigged, serving

FOLDER = Path(tasks.__file__).parent
FILES = sorted(p for p in FOLDER.glob("*.py") if not p.name.startswith("_"))


@cache
def opened(name: str) -> Model:
    assert name in rigged.LABELS, f"teach tests/support/rigged.py to make an artifact for {name}"
    return serving.model(name)


def test_the_folder_is_the_list() -> None:
    assert names() == sorted(p.stem.replace("_", "-") for p in FILES)
    assert {"text-classification", "token-classification", "feature-extraction", "sentence-similarity"} <= set(names())


@pytest.mark.parametrize("name", names())
def test_a_task_is_called_like_its_file_and_explains_itself(name: str) -> None:
    found = load(name)
    module = import_module(f"hotfoot.tasks.{name.replace('-', '_')}")
    assert found is module.TASK
    assert found.name == name
    assert module.__doc__
    assert found.summary.endswith(".")
    assert set(found.thresholds) >= {"fp32", "fp16", "int8", "int4"}
    for function in (found.facts, found.parse, found.decode, found.parity):
        assert function.__doc__, function


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_a_task_imports_only_numpy_and_the_contract(path: Path) -> None:
    allowed = ("hotfoot.contract", "hotfoot.task", "hotfoot.tasks", "hotfoot.generation", "numpy", "__future__")
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        found = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        found += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for module in found:
            assert module.split(".")[0] in sys.stdlib_module_names or module.startswith(allowed), module


@pytest.mark.parametrize("name", names())
def test_the_sample_is_answered(name: str) -> None:
    model = opened(name)
    found = model.predict(model.sample)
    assert found.answer
    assert found.tokens > 0
    assert set(found.timings) == {"tokenize", "run", "post"}
    shown = json.dumps(found.answer, default=np.ndarray.tolist, allow_nan=False)
    assert json.loads(shown) == json.loads(json.dumps(model.predict(model.sample).answer, default=np.ndarray.tolist))


def parsed(name: str, parameters: Mapping[str, Any]) -> task_module.Request:
    model = opened(name)
    return model.task.parse(model.sample, parameters, model.manifest)


PARAMETERS = [(name, parameter) for name in names() for parameter in load(name).parameters]


@pytest.mark.parametrize(("name", "parameter"), PARAMETERS)
def test_every_parameter_is_known_and_read(name: str, parameter: str) -> None:
    # null counts as absent
    assert parsed(name, {parameter: None}) == parsed(name, {})
    # no parameter is an object: one that parse does not look at would let it pass
    with pytest.raises(InputError, match="must be") as caught:
        parsed(name, {parameter: {"x": 1}})
    assert caught.value.where == f"parameters.{parameter}"


@pytest.mark.parametrize("name", names())
def test_an_unknown_parameter_lists_the_known(name: str) -> None:
    with pytest.raises(InputError) as caught:
        parsed(name, {"flavour": 1})
    known = ", ".join(load(name).parameters)
    assert str(caught.value) == f"parameters.flavour: is not a parameter of this task. There are: {known}."


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("inputs", [None, 123, True, 1.5, {"x": 1}, [], ["a", None], ["a", 5], [["a", "b"]], "", ["a", ""], "ok\ud800bad"])
def test_wrong_inputs_are_refused_with_a_path(name: str, inputs: Any) -> None:
    model = opened(name)
    with pytest.raises(InputError) as caught:
        model.predict(inputs)
    assert caught.value.where.startswith("inputs")
    assert "Traceback" not in str(caught.value)
    assert model.predict(model.sample).answer


def proven(model: Model) -> list[task_module.Array]:
    """What parity would compare of a few texts, as the task's corpus has them."""
    texts = tuple(f"{word} in the world" for word in ("maria", "good", "east", "springfield", "guitar"))
    if model.task.corpus in ("questions", "rankings", "hypotheses"):
        outputs = model.outputs(texts, texts[::-1])[1]
        return outputs if model.task.corpus == "questions" else [np.stack(outputs)]
    if model.task.corpus == "masked":
        texts = tuple(masked(text, str(model.manifest.facts["mask_token"])) for text in texts)
    return model.outputs(texts)[1]


@pytest.mark.parametrize("name", names())
def test_a_model_agrees_with_itself(name: str) -> None:
    model = opened(name)
    outputs = proven(model)
    found = model.task.parity(outputs, outputs, model.manifest)
    for thresholds in model.task.thresholds.values():
        assert set(thresholds) == set(found)
        assert all(found[key] >= least for key, least in thresholds.items())
    assert all(value == pytest.approx(1.0, abs=1e-6) for value in found.values())


@pytest.mark.parametrize("name", ["nonsense", "text_classification", "", ".", "..", ".tasks", "mypkg.", "a..b", "../x", "_texts"])
def test_an_unknown_task_lists_them(name: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        load(name)
    assert str(caught.value) == f"no task {name!r}. There are: {', '.join(names())}; or a module of your own, as mypkg.mytask."


SHOUT = '''
"""Shouts."""
from dataclasses import replace
from hotfoot.task import load

def decode(request, encoded, outputs, manifest):
    return [text.upper() for text in request.texts]

TASK = replace(load("text-classification"), name="shout", decode=decode)
'''


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "acmetasks"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    for name in [n for n in sys.modules if n.split(".")[0] == "acmetasks"]:
        del sys.modules[name]


def test_a_task_of_the_users_own_needs_no_fork(package: Path, tmp_path: Path) -> None:
    (package / "shout.py").write_text(SHOUT)
    assert load("acmetasks.shout").name == "shout"
    artifact = rigged.rigged_artifact(tmp_path / "artifact", "text-classification")
    renamed(artifact, "acmetasks.shout")
    assert Model.open(artifact, threads=1).predict(["good", "bad"]).answer == ["GOOD", "BAD"]


def renamed(artifact: Path, task: str) -> None:
    changed: Manifest = replace(manifests.read(artifact), task=task)
    (artifact / "manifest.json").write_text(manifests.dumps(changed), encoding="utf-8")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("", "task module 'acmetasks.mine' has no TASK."),
        ("TASK = 'text'", "acmetasks.mine.TASK is a str, not a hotfoot.task.Task."),
        ("import nosuchmodule", "task module 'acmetasks.mine' cannot be imported: No module named 'nosuchmodule'."),
        ("from hotfoot.task import Tusk", "task module 'acmetasks.mine' cannot be imported: cannot import name 'Tusk'"),
    ],
)
def test_a_faulty_task_module_is_named(package: Path, source: str, said: str) -> None:
    (package / "mine.py").write_text(dedent(source))
    with pytest.raises(UnsupportedError) as caught:
        load("acmetasks.mine")
    assert str(caught.value).startswith(said)


def test_a_users_own_mistake_is_not_hidden(package: Path) -> None:
    (package / "mine.py").write_text("import json\njson.nothing\n")
    with pytest.raises(AttributeError, match="nothing"):
        load("acmetasks.mine")


def test_a_module_that_is_not_there() -> None:
    with pytest.raises(UnsupportedError, match=r"task module 'acmenothing\.mytask' cannot be imported: No module named 'acmenothing'"):
        load("acmenothing.mytask")


def test_tasks_are_frozen() -> None:
    with pytest.raises(AttributeError):
        load("text-classification").name = "other"  # type: ignore[misc]
    assert isinstance(load("text-classification"), Task)

"""Two models behind one API, deployed into an account on this machine and asked over HTTP by the paths and grants that were deployed."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from huggingface_hub import InferenceClient

from hotfoot.contract.project import FILE
from hotfoot.targets import machine_arch
from hotfoot_build.init_command import init
from hotfoot_build.package.bundle import bundle
from hotfoot_build.package.emulate import Emulator, InvocationError
from support.cloud.account import ACCOUNT, REGION, Account
from support.cloud.deployed import Stack
from support.handmade import retarget
from support.invoking import FunctionError, RefusedError, Server, serving
from support.rigged import Rig, rigged_artifact

pytestmark = pytest.mark.slow

STACK = "hotfoot-text"
TOML = """
[api.text]
deploys = ["mood", "names"]
auth = "none"
removal = "destroy"
[deploy.mood]
bundle = "mood"
removal = "destroy"
[deploy.names]
bundle = "names"
removal = "destroy"
"""
TASKS = {"mood": "text-classification", "names": "token-classification"}
MODELS = {"mood": "org/mood-model", "names": "org/names-model"}


@dataclass(frozen=True)
class Deployed:
    """The stack, a front that stands for API Gateway and for Lambda, and the ARN of each deployment's alias."""

    account: Account
    stack: Stack
    front: Server
    aliases: dict[str, str]

    def post(self, path: str, body: Any) -> tuple[int, Any, dict[str, str]]:
        """Status, document and headers of an answer."""
        sent = urllib.request.Request(f"{self.front.url}{path}", json.dumps(body).encode(), {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(sent, timeout=60) as answer:
                return answer.status, json.loads(answer.read()), dict(answer.headers)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read()), dict(error.headers)


def routes_of(account: Account) -> dict[str, str]:
    """Route key -> ARN of the alias, as the account has them."""
    client = account.client("apigatewayv2")
    (api,) = client.get_apis()["Items"]
    targets = {i["IntegrationId"]: i["IntegrationUri"] for i in client.get_integrations(ApiId=api["ApiId"])["Items"]}
    return {route["RouteKey"]: targets[route["Target"].rpartition("/")[2]] for route in client.get_routes(ApiId=api["ApiId"])["Items"]}


def called(function: Emulator) -> Any:
    def call(event: dict[str, Any]) -> Any:
        try:
            return function.invoke(event)
        except InvocationError as error:
            raise FunctionError(error.error_type, error.message) from None

    return call


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    home = tmp_path_factory.mktemp("deploy-api")
    folder, account = home / "project", Account(home)
    init(folder)
    for name, task in TASKS.items():
        artifact = rigged_artifact(home / f"artifact-{name}", task, Rig(model_id=MODELS[name]))
        retarget(artifact, f"lambda-{machine_arch()}")
        bundle(artifact, folder / name, progress=print)
    (folder / FILE).write_text(TOML, encoding="utf-8")
    with ExitStack() as kept:
        kept.enter_context(account)
        account.cdk(folder, "synth", "--quiet")
        account.cdk(folder, "bootstrap", f"aws://{ACCOUNT}/{REGION}", "--app", "cdk.out")
        account.cdk(folder, "deploy", STACK, "--require-approval", "never", "--app", "cdk.out")
        stack, front = Stack(account, STACK), kept.enter_context(serving({}, routes_of(account)))
        names = {name: stack.outputs[f"{name.title()}FunctionName"] for name in TASKS}
        client = account.client("lambda")
        aliases = {name: client.get_alias(FunctionName=function, Name="live")["AliasArn"] for name, function in names.items()}
        for name, function in names.items():
            running = stack.run(function, home / f"run-{name}", {"AWS_ENDPOINT_URL_LAMBDA": front.url})
            front.functions[aliases[name]] = called(kept.enter_context(running))
        yield Deployed(account, stack, front, aliases)
        account.cdk(folder, "destroy", STACK, "--force", "--app", "cdk.out")
        assert account.client("lambda").list_functions()["Functions"] == []
        assert account.client("apigatewayv2").get_apis()["Items"] == []


def test_one_api_leads_to_two_functions(deployed: Deployed) -> None:
    assert deployed.stack.outputs["ApiUrl"].startswith("https://")
    assert len(deployed.account.client("lambda").list_functions()["Functions"]) == 2
    functions = [deployed.stack.outputs[f"{name.title()}FunctionName"] for name in TASKS]
    layers = [{layer["Arn"] for layer in deployed.stack.configuration(function)["Layers"]} for function in functions]
    assert len(layers[0] & layers[1]) == 1  # the runtime; these two have words of their own
    routes = routes_of(deployed.account)
    assert {routes["$default"], routes["ANY /models/mood"]} == {deployed.aliases["mood"]}
    assert set(routes.values()) == set(deployed.aliases.values())
    told = deployed.stack.configuration(deployed.stack.outputs["MoodFunctionName"])["Environment"]["Variables"]
    assert [peer["function"] for peer in json.loads(told["HOTFOOT_MODELS"])] == ["", deployed.aliases["names"]]


@pytest.mark.parametrize("path", ["", "/models/mood", "/models/org/mood-model"])
def test_the_default_answers_by_itself(path: str, deployed: Deployed) -> None:
    deployed.front.invoked.clear()
    status, answer, _ = deployed.post(path or "/", {"inputs": "good"})
    assert (status, answer[0][0]["label"]) == (200, "POSITIVE")
    assert deployed.front.invoked == []


@pytest.mark.parametrize("path", ["/models/names", "/models/org/names-model"])
def test_a_path_leads_to_the_other(path: str, deployed: Deployed) -> None:
    deployed.front.invoked.clear()
    status, answer, _ = deployed.post(path, {"inputs": "maria"})
    assert (status, answer[0]["word"]) == (200, "maria")
    assert deployed.front.invoked == []  # API Gateway called it, and no function did


def test_the_official_client_asks_by_a_path(deployed: Deployed) -> None:
    for path, words in (("/models/names", ["maria", "gonzalez"]), ("/models/org/names-model", ["springfield"])):
        client = InferenceClient(model=f"{deployed.front.url}{path}")
        assert [found.word for found in client.token_classification(" lives ".join(words))] == words
    client = InferenceClient(model=f"{deployed.front.url}/models/mood")
    assert client.text_classification("good")[0].label == "POSITIVE"


def test_what_is_below_a_path_is_the_models_own(deployed: Deployed) -> None:
    with urllib.request.urlopen(f"{deployed.front.url}/models/names/info", timeout=60) as answer:
        assert json.loads(answer.read())["model_id"] == MODELS["names"]
    with urllib.request.urlopen(f"{deployed.front.url}/info", timeout=60) as answer:
        assert json.loads(answer.read())["model_id"] == MODELS["mood"]


@pytest.mark.parametrize("model", ["names", "org/names-model"])
def test_a_body_that_names_the_other_is_handed_on(model: str, deployed: Deployed) -> None:
    deployed.front.invoked.clear()
    status, answer, headers = deployed.post("/", {"inputs": "maria", "model": model})
    direct = deployed.post("/models/names", {"inputs": "maria"})
    assert (status, answer) == direct[:2]
    assert deployed.front.invoked == [deployed.aliases["names"]]
    assert headers["x-model-digest"] == direct[2]["x-model-digest"]  # whose answer it is


def test_what_the_other_refuses_is_refused(deployed: Deployed) -> None:
    deployed.front.invoked.clear()
    status, answer, _ = deployed.post("/", {"inputs": 5, "model": "names"})
    assert (status, answer["error_type"]) == (422, "Validation")
    assert deployed.front.invoked == [deployed.aliases["names"]]


def test_a_model_that_nobody_has_is_unknown(deployed: Deployed) -> None:
    deployed.front.invoked.clear()
    for path in ("/", "/models/names"):
        status, answer, _ = deployed.post(path, {"inputs": "good", "model": "org/else"})
        assert status == 404
        assert "org/else" in answer["error"]
    assert deployed.front.invoked == []


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RefusedError(429, "TooManyRequestsException"), 429),
        (FunctionError("Sandbox.Timedout", "Task timed out after 29.00 seconds"), 504),
        (FunctionError("Runtime.ExitError", "signal: killed"), 500),
    ],
)
def test_the_other_in_trouble_is_a_clear_answer(error: Exception, status: int, deployed: Deployed) -> None:
    def failing(_event: dict[str, Any]) -> Any:
        raise error

    arn = deployed.aliases["names"]
    running = deployed.front.functions[arn]
    deployed.front.functions[arn] = failing
    try:
        found, answer, headers = deployed.post("/", {"inputs": "maria", "model": "names"})
    finally:
        deployed.front.functions[arn] = running
    assert found == status
    assert set(answer) == {"error", "error_type"}
    assert ("retry-after" in {name.lower() for name in headers}) is (status == 429)
    assert deployed.post("/", {"inputs": "good"})[0] == 200  # and the default goes on

"""What the templates say of several models behind one API, and that a deployment beside it is as it was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from hotfoot.contract import peers, project
from hotfoot.contract.peers import Peer
from support.cloud.account import ROOT
from support.cloud.bundles import write_bundle
from support.cloud.synthesized import CLOSED, Template, references, synthesize, synthesize_all

pytestmark = pytest.mark.slow

TOML = """
[api.text]
deploys = ["embed", "pii", "pii-raw"]
default = "pii"
throttle_rate = 5
throttle_burst = 7
log_retention_days = 1
removal = "destroy"
{api}
[deploy.embed]
log_retention_days = 7
timeout_s = 60
[deploy.pii]
reserved_concurrency = 3
[deploy.pii.bulk]
[deploy.pii-raw]
"""
MODELS = {
    "pii": ("org/ner", "token-classification"),
    "embed": ("sentence-transformers/MiniLM-L6", "feature-extraction"),
    "pii-raw": ("org/ner", "token-classification"),
}


def made(folder: Path, api: str = "", other: str = "") -> Mapping[str, Template]:
    for name, (model, task) in MODELS.items():
        write_bundle(folder / "bundles" / name, weights=name, model_id=model, task=task)
    write_bundle(folder / "bundles" / "tiny")
    return synthesize_all(folder, TOML.format(api=api) + other)


@pytest.fixture(scope="session")
def stacks(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Template]:
    return made(tmp_path_factory.mktemp("shared"), other=CLOSED)


@pytest.fixture(scope="session")
def text(stacks: Mapping[str, Template]) -> Template:
    return stacks["hotfoot-text"]


def alias(template: Template, name: str) -> str:
    return template.id("AWS::Lambda::Alias", f"{name}HttpAlias")


def leads_to(template: Template) -> dict[str, str]:
    """Each route's key, and the alias that its integration calls."""
    integrations = template.all("AWS::ApiGatewayV2::Integration")
    found = {}
    for route in template.all("AWS::ApiGatewayV2::Route").values():
        (target,) = set(references(route["Target"]))
        (found[route["RouteKey"]],) = references(integrations[target]["IntegrationUri"])
    return found


def test_there_is_one_stack_for_the_api_and_one_beside_it(stacks: Mapping[str, Template]) -> None:
    assert sorted(stacks) == ["hotfoot-text", "hotfoot-tiny"]
    assert all(stack.findings == {"AwsSolutions": [], "Serverless": []} for stack in stacks.values())
    kinds = {resource["Type"] for resource in stacks["hotfoot-text"].document["Resources"].values()}
    assert not [kind for kind in kinds if kind.startswith(("Custom::", "AWS::CloudFormation::"))]


def test_a_deployment_beside_an_api_is_as_it_is_alone(stacks: Mapping[str, Template], tmp_path: Path) -> None:
    assert stacks["hotfoot-tiny"].document == synthesize(tmp_path, CLOSED).document


def test_every_model_has_its_function_and_what_they_share_is_there_once(text: Template) -> None:
    functions = text.all("AWS::Lambda::Function")
    assert len(functions) == 4  # three that answer, and one for texts in a bucket
    assert len(text.all("AWS::ApiGatewayV2::Api")) == 1
    # one runtime and one tokenizer, which are equal, and three models
    layers = sorted(name[:9] for name in text.all("AWS::Lambda::LayerVersion"))
    assert layers == ["ModelLaye"] * 3 + ["RuntimeLa", "Tokenizer"]
    assert {tuple(layer["Ref"][:8] for layer in f["Layers"]) for f in functions.values()} == {("RuntimeL", "Tokenize", "ModelLay")}
    assert len({f["Layers"][2]["Ref"] for f in functions.values()}) == 3
    assert text.one("AWS::Lambda::Function", "embedHttp")["Timeout"] == 60
    assert text.one("AWS::Lambda::Function", "piiHttp")["ReservedConcurrentExecutions"] == 3
    assert any("HTTP API gives up after 30 s" in warning for warning in text.warnings)


def test_paths_lead_to_each_model_and_all_else_to_the_default(text: Template) -> None:
    pii, raw, embed = alias(text, "pii"), alias(text, "piiraw"), alias(text, "embed")
    assert leads_to(text) == {
        "$default": pii,
        "ANY /models/pii": pii,
        "ANY /models/pii/{proxy+}": pii,
        "ANY /models/org/ner": pii,  # both have it, and this one is first
        "ANY /models/org/ner/{proxy+}": pii,
        "ANY /models/pii-raw": raw,
        "ANY /models/pii-raw/{proxy+}": raw,
        "ANY /models/embed": embed,
        "ANY /models/embed/{proxy+}": embed,
        "ANY /models/sentence-transformers/MiniLM-L6": embed,
        "ANY /models/sentence-transformers/MiniLM-L6/{proxy+}": embed,
    }
    assert {route["AuthorizationType"] for route in text.all("AWS::ApiGatewayV2::Route").values()} == {"AWS_IAM"}
    assert {i["PayloadFormatVersion"] for i in text.all("AWS::ApiGatewayV2::Integration").values()} == {"2.0"}


def test_the_api_may_call_each_alias_and_nothing_else_does(text: Template) -> None:
    (api,) = text.all("AWS::ApiGatewayV2::Api")
    permissions = text.all("AWS::Lambda::Permission").values()
    called = [set(references(permission["FunctionName"])) for permission in permissions]
    assert set().union(*called) == {alias(text, name) for name in ("pii", "piiraw", "embed")}
    assert len(called) <= 4  # not one a route: a function's policy has 20 KB
    assert all(api in references(permission["SourceArn"]) for permission in permissions)


def test_the_default_alone_knows_the_others_and_may_call_these(text: Template) -> None:
    told = {name: f["Environment"]["Variables"] for name, f in text.all("AWS::Lambda::Function").items() if "Http" in name}
    assert sorted(v["HOTFOOT_NAME"] for v in told.values()) == ["embed", "pii", "pii-raw"]
    (listing,) = [v["HOTFOOT_MODELS"] for v in told.values() if "HOTFOOT_MODELS" in v]
    assert next(v["HOTFOOT_NAME"] for v in told.values() if "HOTFOOT_MODELS" in v) == "pii"
    # as CloudFormation puts it together
    joined = "".join(part if isinstance(part, str) else f"<{part['Ref']}>" for part in listing["Fn::Join"][1])
    assert peers.loads(joined) == (
        Peer("pii", *MODELS["pii"], ""),
        Peer("embed", *MODELS["embed"], f"<{alias(text, 'embed')}>"),
        Peer("pii-raw", *MODELS["pii-raw"], f"<{alias(text, 'piiraw')}>"),
    )
    allowed = {}
    for name, policy in text.all("AWS::IAM::Policy").items():
        for statement in policy["PolicyDocument"]["Statement"]:
            if "lambda:InvokeFunction" in statement["Action"]:
                allowed[name] = statement["Resource"]
    assert {name[:8]: found for name, found in allowed.items()} == {
        "piiHttpR": [{"Ref": alias(text, "embed")}, {"Ref": alias(text, "piiraw")}]
    }


def test_nothing_depends_on_itself(text: Template) -> None:
    resources = text.document["Resources"]

    def needs(name: str) -> Iterator[str]:
        wanted: Any = resources[name].get("DependsOn", [])
        yield from (other for other in [*wanted, *references(resources[name])] if other in resources)

    done: set[str] = set()

    def visit(name: str, way: tuple[str, ...]) -> None:
        assert name not in way, (*way, name)
        if name not in done:
            for other in needs(name):
                visit(other, (*way, name))
            done.add(name)

    for name in resources:
        visit(name, ())
    assert done == set(resources)


def test_the_door_is_the_apis_and_logs_and_data_are_each_deployments(text: Template) -> None:
    stage = text.one("AWS::ApiGatewayV2::Stage")
    assert stage["DefaultRouteSettings"] == {"ThrottlingBurstLimit": 7, "ThrottlingRateLimit": 5}
    kept = {name: r for name, r in text.document["Resources"].items() if r["Type"] in ("AWS::Logs::LogGroup", "AWS::S3::Bucket")}
    assert {n[:9]: (r["Properties"]["RetentionInDays"], r["DeletionPolicy"]) for n, r in kept.items() if r["Type"].endswith("Group")} == {
        "EndpointA": (1, "Delete"),
        "embedHttp": (7, "Retain"),
        "piiHttpLo": (30, "Retain"),
        "piiBulkFu": (30, "Retain"),
        "piirawHtt": (30, "Retain"),
    }
    assert {r["DeletionPolicy"] for r in kept.values() if r["Type"] == "AWS::S3::Bucket"} == {"Retain"}


def test_alarms_say_whose_they_are(text: Template) -> None:
    alarms = text.all("AWS::CloudWatch::Alarm")
    watched = [next(iter(references(d["Value"]))) for a in alarms.values() for d in a["Dimensions"] if d["Name"] == "FunctionName"]
    assert sorted(watched) == sorted(2 * list(text.all("AWS::Lambda::Function")))  # errors and throttles of each
    assert [a["MetricName"] for a in alarms.values()].count("5xx") == 1
    assert "The HTTP function of pii-raw raised, died or ran out of time." in [a["AlarmDescription"] for a in alarms.values()]


def test_outputs_have_names_of_their_own(text: Template) -> None:
    bulk = ("BulkFunctionName", "InputBucket", "ResultsBucket", "QueueUrl", "DlqUrl", "UndeliveredUrl")
    names = {f"{name}{key}" for name in ("Pii", "Embed", "PiiRaw") for key in ("FunctionName", "Alias")}
    assert set(text.document["Outputs"]) == {"ApiUrl", *names, *(f"Pii{key}" for key in bulk)}


def test_browsers_may_ask_on_every_path(tmp_path: Path) -> None:
    template = made(tmp_path, api='cors_origins = ["https://app.example.com"]')["hotfoot-text"]
    assert template.findings == {"AwsSolutions": [], "Serverless": []}
    routes = {route["RouteKey"]: route["AuthorizationType"] for route in template.all("AWS::ApiGatewayV2::Route").values()}
    signed = {key.removeprefix("ANY ") for key, kind in routes.items() if kind == "AWS_IAM"} - {"$default"}
    opened = {key.removeprefix("OPTIONS ") for key, kind in routes.items() if kind == "NONE"}
    assert opened == signed | {"/", "/{proxy+}"}
    called = leads_to(template)
    assert all(called[f"OPTIONS {path}"] == called[f"ANY {path}"] for path in signed)


def test_a_public_api_is_public_for_all_its_models(tmp_path: Path) -> None:
    template = made(tmp_path, api='auth = "none"')["hotfoot-text"]
    assert template.findings == {"AwsSolutions": [], "Serverless": []}
    assert {route["AuthorizationType"] for route in template.all("AWS::ApiGatewayV2::Route").values()} == {"NONE"}


def test_the_example_can_be_deployed(tmp_path: Path) -> None:
    asked = project.read(ROOT / "examples" / "one-api.toml")
    for name, build in asked.builds.items():
        write_bundle(tmp_path / "bundles" / name, weights=name, model_id=build.model, task=build.task)
    (template,) = synthesize_all(tmp_path, asked.path.read_text(encoding="utf-8")).values()
    assert template.findings == {"AwsSolutions": [], "Serverless": []}
    assert leads_to(template)["$default"] == alias(template, "mood")
    assert len([path for path in leads_to(template) if path.startswith("ANY /models/")]) == 12


def test_a_tokenizer_is_shared_between_machines(tmp_path: Path) -> None:
    write_bundle(tmp_path / "bundles" / "a")
    write_bundle(tmp_path / "bundles" / "b", target="lambda-x86_64", arch="x86_64")
    toml = '[api.both]\ndeploys = ["a", "b"]\n[deploy.a]\n[deploy.b]\n'
    template = synthesize_all(tmp_path, toml)["hotfoot-both"]
    layer = template.one("AWS::Lambda::LayerVersion", "Tokenizer")
    assert layer["CompatibleArchitectures"] == ["arm64", "x86_64"]
    assert layer["CompatibleRuntimes"] == ["python3.13"]

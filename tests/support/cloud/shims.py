"""CloudFormation resource types that moto lacks, each made and removed through moto's own backends."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from moto.apigatewayv2.models import apigatewayv2_backends
from moto.awslambda.exceptions import ConflictException
from moto.awslambda.models import lambda_backends
from moto.cloudwatch.models import cloudwatch_backends
from moto.core.common_models import CloudFormationModel
from moto.s3.models import s3_backends
from moto.sqs.models import sqs_backends

Properties = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """Where a resource is made."""

    account: str
    region: str
    name: str


@dataclass(frozen=True)
class Made:
    """A resource's physical id, and what `Fn::GetAtt` gives of it."""

    physical_id: str
    attributes: Mapping[str, str] = field(default_factory=dict)


def nothing(_properties: Properties, _place: Place, _made: str) -> None:
    """Removed with what it belongs to."""


def define(
    cloudformation_type: str,
    make: Callable[[Properties, Place], Made],
    remove: Callable[[Properties, Place, str], None] = nothing,
    *,
    again: bool = False,
) -> None:
    """Teach moto a type. again: an update is to make it once more, over what is there; else an update is refused."""

    def create(
        cls: Any, /, resource_name: str, cloudformation_json: Properties, account_id: str, region_name: str, **_rest: Any
    ) -> CloudFormationModel:
        made = make(cloudformation_json.get("Properties", {}), Place(account_id, region_name, resource_name))
        resource: Any = cls()
        resource.physical_resource_id, resource.attributes = made.physical_id, made.attributes
        return resource  # type: ignore[no-any-return]

    def update(cls: Any, /, new_resource_name: str, **rest: Any) -> CloudFormationModel:
        return create(cls, new_resource_name, **rest)

    def delete(_cls: Any, /, resource_name: str, cloudformation_json: Properties, account_id: str, region_name: str) -> None:
        remove(cloudformation_json.get("Properties", {}), Place(account_id, region_name, resource_name), resource_name)

    body: dict[str, Any] = {
        "cloudformation_type": staticmethod(lambda: cloudformation_type),
        "cloudformation_name_type": staticmethod(lambda: ""),
        "create_from_cloudformation_json": classmethod(create),
        "delete_from_cloudformation_json": classmethod(delete),
        "has_cfn_attr": classmethod(lambda _cls, _attribute: True),
        "get_cfn_attribute": lambda self, name: self.attributes[name],
        "is_created": lambda _self: True,
    }
    if again:
        body["update_from_cloudformation_json"] = classmethod(update)
    # moto looks at direct subclasses, and where two have one type takes the later one
    DEFINED.append(type(cloudformation_type.replace("::", ""), (CloudFormationModel,), body))


DEFINED: list[type] = []  # a class goes with its last reference, and moto finds them by asking their parent


def snake(properties: Properties) -> Properties:
    """`PayloadFormatVersion` as `payload_format_version`."""
    return {"".join("_" + c.lower() if c.isupper() else c for c in key).lstrip("_"): value for key, value in properties.items()}


def api(p: Properties, place: Place) -> Made:
    """An HTTP API."""
    made = apigatewayv2_backends[place.account][place.region].create_api(
        api_key_selection_expression=p.get("ApiKeySelectionExpression"),  # type: ignore[arg-type]
        cors_configuration=p.get("CorsConfiguration"),  # type: ignore[arg-type]
        description=p.get("Description"),  # type: ignore[arg-type]
        disable_schema_validation=None,  # type: ignore[arg-type]
        disable_execute_api_endpoint=p.get("DisableExecuteApiEndpoint"),  # type: ignore[arg-type]
        name=p.get("Name", place.name),
        protocol_type=p["ProtocolType"],
        route_selection_expression=p.get("RouteSelectionExpression"),  # type: ignore[arg-type]
        tags=p.get("Tags") or {},
        version=p.get("Version"),  # type: ignore[arg-type]
    )
    return Made(made.api_id, {"ApiId": made.api_id, "ApiEndpoint": made.api_endpoint})


INTEGRATION = (
    "connection_id connection_type content_handling_strategy credentials_arn description integration_method integration_subtype "
    "integration_type integration_uri passthrough_behavior payload_format_version request_parameters request_templates "
    "response_parameters template_selection_expression timeout_in_millis tls_config"
)
ROUTE = (
    "api_key_required authorization_scopes authorization_type authorizer_id model_selection_expression operation_name "
    "request_models request_parameters route_key route_response_selection_expression target"
)


def integration(p: Properties, place: Place) -> Made:
    """What an API calls."""
    given: Any = snake(p)
    made = apigatewayv2_backends[place.account][place.region].create_integration(
        given["api_id"], **{key: given.get(key) for key in INTEGRATION.split()}
    )
    return Made(made.id, {"IntegrationId": made.id})


def route(p: Properties, place: Place) -> Made:
    """A path of an API."""
    given: Any = snake(p)
    made = apigatewayv2_backends[place.account][place.region].create_route(
        given["api_id"], **{key: given.get(key) for key in ROUTE.split()}
    )
    return Made(made.route_id, {"RouteId": made.route_id})


def stage(p: Properties, place: Place) -> Made:
    """Where an API is reached."""
    config = {key[0].lower() + key[1:]: value for key, value in p.items() if key != "ApiId"}
    apigatewayv2_backends[place.account][place.region].create_stage(p["ApiId"], config)
    return Made(p["StageName"])


def version(p: Properties, place: Place) -> Made:
    """A published version; moto's own type gives no `Fn::GetAtt Version`."""
    made: Any = lambda_backends[place.account][place.region].publish_version(p["FunctionName"])
    return Made(made.function_arn, {"Version": str(made.version), "FunctionArn": made.function_arn})


def version_removed(_p: Properties, place: Place, made: str) -> None:
    """A version goes; one that an alias still leads to would be refused, and with its function it is gone already."""
    name, number = made.rsplit(":", 2)[1:]
    backend = lambda_backends[place.account][place.region]
    if name in {function.function_name for function in backend.list_functions()}:
        backend.delete_function(name, number)


def alias(p: Properties, place: Place) -> Made:
    """A name for a version."""
    backend = lambda_backends[place.account][place.region]
    given = (p["Name"], p["FunctionName"], p["FunctionVersion"], p.get("Description", ""), p.get("RoutingConfig"))
    try:
        made = backend.create_alias(*given)  # type: ignore[arg-type]
    except ConflictException:
        made = backend.update_alias(*given)  # type: ignore[arg-type]
    return Made(made.arn, {"AliasArn": made.arn})


def bucket_policy(p: Properties, place: Place) -> Made:
    """Without its denials that depend on a condition: moto reads no condition and would deny everything."""
    document = dict(p["PolicyDocument"])
    document["Statement"] = [s for s in document["Statement"] if not (s["Effect"] == "Deny" and "Condition" in s)]
    if document["Statement"]:
        s3_backends[place.account]["aws"].put_bucket_policy(p["Bucket"], json.dumps(document).encode())
    return Made(place.name)


def queue_policy(p: Properties, place: Place) -> Made:
    """Who may use a queue."""
    for url in p["Queues"]:
        sqs_backends[place.account][place.region].set_queue_attributes(url.rsplit("/", 1)[1], {"Policy": json.dumps(p["PolicyDocument"])})
    return Made(place.name)


def alarm(p: Properties, place: Place) -> Made:
    """An alarm; nothing here ever sets it off."""
    made = cloudwatch_backends[place.account][place.region].put_metric_alarm(
        name=p.get("AlarmName", place.name),
        namespace=p["Namespace"],
        metric_name=p["MetricName"],
        comparison_operator=p["ComparisonOperator"],
        evaluation_periods=p["EvaluationPeriods"],
        period=p["Period"],
        threshold=p["Threshold"],
        statistic=p["Statistic"],
        description=p["AlarmDescription"],
        dimensions=p.get("Dimensions", []),
        alarm_actions=p.get("AlarmActions", []),
    )
    return Made(made.name, {"Arn": made.alarm_arn})


def define_all() -> None:
    """Every type that a stack of ours has and moto has not."""
    define("AWS::ApiGatewayV2::Api", api, lambda _p, at, made: apigatewayv2_backends[at.account][at.region].delete_api(made))
    define("AWS::ApiGatewayV2::Integration", integration)
    define("AWS::ApiGatewayV2::Route", route)
    define("AWS::ApiGatewayV2::Stage", stage)
    define("AWS::Lambda::Version", version, version_removed)
    define("AWS::Lambda::Alias", alias, again=True)
    define("AWS::S3::BucketPolicy", bucket_policy, again=True)
    define("AWS::SQS::QueuePolicy", queue_policy, again=True)
    alarms = cloudwatch_backends
    define("AWS::CloudWatch::Alarm", alarm, lambda _p, at, made: alarms[at.account][at.region].delete_alarms([made]), again=True)

"""Models behind an HTTP API: one route for everything, as the app inside has its own, and where several share the API, paths to each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import aws_cdk as cdk
from aws_cdk import aws_apigatewayv2 as http
from aws_cdk import aws_apigatewayv2_authorizers as authorizers
from aws_cdk import aws_apigatewayv2_integrations as integrations
from constructs import Construct

from hotfoot.contract.project import Door
from hotfoot_infra.constructs.model_function import ModelFunction, log_group_of
from hotfoot_infra.constructs.raw import raw

API_LIMIT_S = 29  # an HTTP API waits 30 seconds at most; what runs on after that is paid for and answers nobody
# What a page may send, what signing with AWS credentials adds to it, and what it may read. The API answers for the app here, and
# drops what the app itself says of this.
SENT = ("authorization", "content-encoding", "content-type", "x-answer-shape", "x-request-id", "x-use-cache", "x-wait-for-model")
SIGNED = ("x-amz-content-sha256", "x-amz-date", "x-amz-security-token")
READ = (
    "retry-after", "server-timing", "x-cache", "x-compute-characters", "x-compute-time", "x-compute-tokens", "x-compute-type",
    "x-model-digest", "x-request-id",
)  # fmt: skip
# a line a request: never a body, so never a text
ACCESS_FIELDS = {
    "requestId": "$context.requestId",
    "time": "$context.requestTime",
    "ip": "$context.identity.sourceIp",
    "method": "$context.httpMethod",
    "path": "$context.path",
    "status": "$context.status",
    "bytes": "$context.responseLength",
    "milliseconds": "$context.responseLatency",
    "functionMilliseconds": "$context.integrationLatency",
    "error": "$context.error.message",
    "functionError": "$context.integrationErrorMessage",
}


class ModelEndpoint(Construct):
    """An HTTP API with the payload format 2.0, an access log and throttling, in front of functions' aliases."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        description: str,
        door: Door,
        default: ModelFunction,
        paths: Mapping[str, ModelFunction] | None = None,
    ) -> None:
        """paths: what each function other than by `default` is asked for under, with all that is below."""
        super().__init__(scope, construct_id)
        integration = integrations.HttpLambdaIntegration(
            "Function", default.alias, payload_format_version=http.PayloadFormatVersion.VERSION_2_0
        )
        self.api = http.HttpApi(
            self,
            "Api",
            description=description,
            create_default_stage=False,  # the stage below is the default one, with a log and limits
            default_integration=integration,
            default_authorizer=authorizers.HttpIamAuthorizer() if door.auth == "iam" else None,
            cors_preflight=_cors(door.cors_origins) if door.cors_origins else None,
        )
        # a browser asks before it signs, and without routes of its own the question itself would be refused
        self._asks_first = bool(door.cors_origins) and door.auth == "iam"
        if self._asks_first:
            self._preflight(("/", "/{proxy+}"), integration)
        self._routes(paths or {})
        access = log_group_of(self, "AccessLogs", door)
        stage = http.HttpStage(
            self,
            "Stage",
            http_api=self.api,
            stage_name="$default",
            auto_deploy=True,
            throttle=http.ThrottleSettings(rate_limit=door.throttle_rate, burst_limit=door.throttle_burst),
        )
        raw(stage, http.CfnStage).access_log_settings = http.CfnStage.AccessLogSettingsProperty(
            destination_arn=access.log_group_arn, format=json.dumps(ACCESS_FIELDS)
        )

    def _routes(self, paths: Mapping[str, ModelFunction]) -> None:
        made: dict[str, http.HttpRouteIntegration] = {}
        for path, function in paths.items():
            name = function.node.path
            if name not in made:
                # one permission a function, for any path of this API: one a route would fill the function's policy
                made[name] = integrations.HttpLambdaIntegration(
                    f"To{name}",
                    function.alias,
                    payload_format_version=http.PayloadFormatVersion.VERSION_2_0,
                    scope_permission_to_route=False,
                )
            both = (path, f"{path}/{{proxy+}}")
            for one in both:
                self.api.add_routes(path=one, methods=[http.HttpMethod.ANY], integration=made[name])
            if self._asks_first:  # what is more precise than the open `/{proxy+}` hides it
                self._preflight(both, made[name])

    def _preflight(self, paths: Sequence[str], integration: http.HttpRouteIntegration) -> None:
        for path in paths:
            self.api.add_routes(path=path, methods=[http.HttpMethod.OPTIONS], integration=integration, authorizer=http.HttpNoneAuthorizer())


def warn_of_time(construct: Construct, timeout_s: int) -> None:
    """Warn of a function with more time than an HTTP API waits."""
    if timeout_s > API_LIMIT_S:
        cdk.Annotations.of(construct).add_warning_v2(
            "hotfoot:timeout",
            f"timeout_s is {timeout_s}: the HTTP API gives up after 30 s, and only direct invocations can use the rest.",
        )


def _cors(origins: Sequence[str]) -> http.CorsPreflightOptions:
    return http.CorsPreflightOptions(
        allow_origins=list(origins),
        allow_methods=[http.CorsHttpMethod.GET, http.CorsHttpMethod.POST, http.CorsHttpMethod.OPTIONS],
        allow_headers=[*SENT, *SIGNED],
        expose_headers=list(READ),
        max_age=cdk.Duration.days(1),
    )

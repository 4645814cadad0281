"""The model behind an HTTP API: one route for everything, as the app inside has its own."""

from __future__ import annotations

import json
from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_apigatewayv2 as http
from aws_cdk import aws_apigatewayv2_authorizers as authorizers
from aws_cdk import aws_apigatewayv2_integrations as integrations
from constructs import Construct

from hotfoot_infra.config import Deployment
from hotfoot_infra.constructs.model_function import ModelFunction, log_group_of
from hotfoot_infra.constructs.raw import raw

API_LIMIT_S = 29  # an HTTP API waits 30 seconds at most; what runs on after that is paid for and answers nobody
# What a page may send, what signing with AWS credentials adds to it, and what it may read. The API answers for the app here, and
# drops what the app itself says of this.
SENT = ("authorization", "content-encoding", "content-type", "x-request-id", "x-use-cache", "x-wait-for-model")
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
    """An HTTP API with the payload format 2.0, an access log and throttling, in front of a function's alias."""

    def __init__(self, scope: Construct, construct_id: str, *, deployment: Deployment, function: ModelFunction) -> None:
        super().__init__(scope, construct_id)
        settings = deployment.settings
        if settings.timeout_s > API_LIMIT_S:
            cdk.Annotations.of(self).add_warning_v2(
                "hotfoot:timeout",
                f"timeout_s is {settings.timeout_s}: the HTTP API gives up after 30 s, and only direct invocations can use the rest.",
            )
        integration = integrations.HttpLambdaIntegration(
            "Function", function.alias, payload_format_version=http.PayloadFormatVersion.VERSION_2_0
        )
        self.api = http.HttpApi(
            self,
            "Api",
            description=f"hotfoot {deployment.name}: {deployment.bundle.model_id}",
            create_default_stage=False,  # the stage below is the default one, with a log and limits
            default_integration=integration,
            default_authorizer=authorizers.HttpIamAuthorizer() if settings.auth == "iam" else None,
            cors_preflight=_cors(settings.cors_origins) if settings.cors_origins else None,
        )
        if settings.cors_origins and settings.auth == "iam":
            # a browser asks before it signs, and without these the question itself would be refused
            for path in ("/", "/{proxy+}"):
                self.api.add_routes(
                    path=path, methods=[http.HttpMethod.OPTIONS], integration=integration, authorizer=http.HttpNoneAuthorizer()
                )
        access = log_group_of(self, "AccessLogs", deployment)
        stage = http.HttpStage(
            self,
            "Stage",
            http_api=self.api,
            stage_name="$default",
            auto_deploy=True,
            throttle=http.ThrottleSettings(rate_limit=settings.throttle_rate, burst_limit=settings.throttle_burst),
        )
        raw(stage, http.CfnStage).access_log_settings = http.CfnStage.AccessLogSettingsProperty(
            destination_arn=access.log_group_arn, format=json.dumps(ACCESS_FIELDS)
        )


def _cors(origins: Sequence[str]) -> http.CorsPreflightOptions:
    return http.CorsPreflightOptions(
        allow_origins=list(origins),
        allow_methods=[http.CorsHttpMethod.GET, http.CorsHttpMethod.POST, http.CorsHttpMethod.OPTIONS],
        allow_headers=[*SENT, *SIGNED],
        expose_headers=list(READ),
        max_age=cdk.Duration.days(1),
    )

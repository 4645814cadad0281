"""One deployment, one stack: composed here, its parts made in `constructs/`."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from hotfoot_infra.config import Deployment
from hotfoot_infra.constructs.alarms import Alarms
from hotfoot_infra.constructs.bulk_pipeline import BulkPipeline
from hotfoot_infra.constructs.layers import layers_of
from hotfoot_infra.constructs.model_endpoint import ModelEndpoint
from hotfoot_infra.constructs.model_function import FunctionSpec, ModelFunction


class HotfootStack(cdk.Stack):
    """A bundle behind an HTTP API and, where hotfoot.toml asks for it, an S3 text pipeline."""

    def __init__(self, scope: Construct, deployment: Deployment) -> None:
        super().__init__(
            scope,
            f"hotfoot-{deployment.name}",
            description=f"hotfoot {deployment.name}: {deployment.bundle.model_id}"[:1024],
            tags={"hotfoot": deployment.name},
        )
        self.deployment, settings = deployment, deployment.settings
        layers = layers_of(self, deployment)
        self.http = ModelFunction(
            self,
            "Http",
            deployment=deployment,
            layers=layers,
            spec=FunctionSpec(
                handler=deployment.bundle.handler,
                description=f"hotfoot {deployment.name}: {deployment.bundle.model_id}"[:256],
                memory_mb=settings.memory_mb,
                timeout_s=settings.timeout_s,
                service=self.stack_name,
                environment={},
                reserved_concurrency=settings.reserved_concurrency,
                provisioned_concurrency=settings.provisioned_concurrency,
            ),
        )
        self.endpoint = ModelEndpoint(self, "Endpoint", deployment=deployment, function=self.http)
        self.bulk: BulkPipeline | None = None
        if settings.bulk is not None and settings.bulk.enabled:
            self.bulk = BulkPipeline(self, "Bulk", deployment=deployment, bulk=settings.bulk, layers=layers)
        Alarms(self, "Alarms", function=self.http, endpoint=self.endpoint, bulk=self.bulk)
        self._outputs()

    def _outputs(self) -> None:
        outputs = {
            "ApiUrl": self.endpoint.api.api_endpoint,
            "FunctionName": self.http.function.function_name,
            "Alias": self.http.alias.alias_name,
        }
        if self.bulk is not None:
            outputs |= {
                "InputBucket": self.bulk.buckets.input.bucket_name,
                "ResultsBucket": self.bulk.buckets.results.bucket_name,
                "QueueUrl": self.bulk.queue.queue_url,
                "DlqUrl": self.bulk.dead_letters.queue_url,
                "UndeliveredUrl": self.bulk.undelivered.queue_url,
                "BulkFunctionName": self.bulk.function.function.function_name,
            }
        for name, value in outputs.items():
            cdk.CfnOutput(self, name, value=value)

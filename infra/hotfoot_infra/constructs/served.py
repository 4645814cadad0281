"""What one deployment is in a stack: its HTTP function and, where hotfoot.toml asks for them, its text pipeline and shared cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import aws_lambda as lam
from constructs import Construct

from hotfoot_infra.config import Deployment
from hotfoot_infra.constructs.bulk_pipeline import BulkPipeline
from hotfoot_infra.constructs.model_endpoint import warn_of_time
from hotfoot_infra.constructs.model_function import FunctionSpec, ModelFunction
from hotfoot_infra.constructs.shared_cache import SharedCache


@dataclass(frozen=True)
class Served:
    """The parts of a deployment."""

    deployment: Deployment
    http: ModelFunction
    bulk: BulkPipeline | None
    cache: SharedCache | None

    @property
    def functions(self) -> tuple[ModelFunction, ...]:
        """All its functions."""
        return (self.http,) if self.bulk is None else (self.http, self.bulk.function)

    @property
    def outputs(self) -> dict[str, str]:
        """What a stack should tell of it, by the output's name."""
        found = {"FunctionName": self.http.function.function_name, "Alias": self.http.alias.alias_name}
        if self.bulk is not None:
            found |= {
                "InputBucket": self.bulk.buckets.input.bucket_name,
                "ResultsBucket": self.bulk.buckets.results.bucket_name,
                "QueueUrl": self.bulk.queue.queue_url,
                "DlqUrl": self.bulk.dead_letters.queue_url,
                "UndeliveredUrl": self.bulk.undelivered.queue_url,
                "BulkFunctionName": self.bulk.function.function.function_name,
            }
        return found


def serve(scope: Construct, deployment: Deployment, layers: Sequence[lam.LayerVersion], environment: Mapping[str, str]) -> Served:
    """Make the deployment's parts in `scope`. environment: what its HTTP function is told besides."""
    settings = deployment.settings
    http = ModelFunction(
        scope,
        "Http",
        deployment=deployment,
        layers=layers,
        spec=FunctionSpec(
            handler=deployment.bundle.handler,
            description=f"hotfoot {deployment.name}: {deployment.bundle.model_id}"[:256],
            memory_mb=settings.memory_mb,
            timeout_s=settings.timeout_s,
            service=f"hotfoot-{deployment.name}",
            environment=environment,
            reserved_concurrency=settings.reserved_concurrency,
            provisioned_concurrency=settings.provisioned_concurrency,
            # and not for the bulk function: its messages wait in a queue, where a second is nothing that anybody would pay a snapshot for
            snap_start=settings.snap_start,
        ),
    )
    warn_of_time(http, settings.timeout_s)
    bulk = None
    if settings.bulk is not None and settings.bulk.enabled:
        bulk = BulkPipeline(scope, "Bulk", deployment=deployment, bulk=settings.bulk, layers=layers)
    cache = SharedCache(scope, "SharedCache", function=http.function) if settings.shared_cache else None
    return Served(deployment, http, bulk, cache)

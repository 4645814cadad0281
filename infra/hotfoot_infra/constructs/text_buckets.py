"""The two buckets of the bulk pipeline: texts come into one, answers go into the other, so no answer is ever taken for a text."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_s3 as s3
from constructs import Construct

from hotfoot_infra.config import Deployment
from hotfoot_infra.constructs.model_function import removal_of
from hotfoot_infra.constructs.raw import raw

LEFTOVERS = cdk.Duration.days(7)  # parts of an upload that never ended
OLD_VERSIONS = cdk.Duration.days(30)


class TextBuckets(Construct):
    """Private, encrypted, reached over TLS alone. `input` tells EventBridge of each new object."""

    def __init__(self, scope: Construct, construct_id: str, *, deployment: Deployment) -> None:
        super().__init__(scope, construct_id)
        # versions: an object that is overwritten while it waits in the queue is still read as it was announced
        self.input = self._bucket("Input", deployment, versioned=True)
        self.results = self._bucket("Results", deployment, versioned=False)
        # the property itself: event_bridge_enabled=True would deploy a function just to set it
        raw(self.input, s3.CfnBucket).notification_configuration = s3.CfnBucket.NotificationConfigurationProperty(
            event_bridge_configuration=s3.CfnBucket.EventBridgeConfigurationProperty(event_bridge_enabled=True)
        )

    def _bucket(self, name: str, deployment: Deployment, *, versioned: bool) -> s3.Bucket:
        return s3.Bucket(
            self,
            name,
            versioned=versioned,
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            minimum_tls_version=1.2,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            lifecycle_rules=[
                s3.LifecycleRule(
                    abort_incomplete_multipart_upload_after=LEFTOVERS, noncurrent_version_expiration=OLD_VERSIONS if versioned else None
                )
            ],
            removal_policy=removal_of(deployment.settings),
        )

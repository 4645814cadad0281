"""The table in which a function's environments share what the graph said, and the secret that its keys are made with.

A lookup is a round trip over the network, so it pays for slow models only. The function decides by itself, by what it measures: it asks
for no input that it expects to run in under a tenth of a second, and with a fast model neither the table nor the secret is ever touched.
The bundle holds no such time, as it would be another machine's, so nothing can be said of it here.
"""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lam
from aws_cdk import aws_secretsmanager as secrets
from constructs import Construct

# cdk-nag's findings on it, each with its reason
STANDS = {
    "AwsSolutions::AwsSolutions-DDB3": "A cache: what is lost is computed again, so there is nothing to recover.",
    "AwsSolutions::AwsSolutions-SMG4": "A new secret empties the cache, for its keys are made with it; rotate it whenever that is wanted.",
}


class SharedCache(Construct):
    """Items expire by `expires`, are encrypted under a key of the account, and go with the stack, whatever it says of other data.

    The function may read and write items by their keys and read the secret, and nothing else: it cannot list or scan the table.
    """

    def __init__(self, scope: Construct, construct_id: str, *, function: lam.Function) -> None:
        super().__init__(scope, construct_id)
        self.table = dynamodb.Table(
            self,
            "Table",
            partition_key=dynamodb.Attribute(name="id", type=dynamodb.AttributeType.BINARY),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            time_to_live_attribute="expires",
            encryption=dynamodb.TableEncryption.AWS_MANAGED,
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        self.secret = secrets.Secret(
            self,
            "Secret",
            description=f"Keys of {cdk.Stack.of(self).stack_name}'s shared cache: whoever has it can tell whether a text was sent.",
            generate_secret_string=secrets.SecretStringGenerator(password_length=64, exclude_punctuation=True),
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        # not grant_read_write_data, which lets a function scan the table too
        function.add_to_role_policy(
            iam.PolicyStatement(actions=["dynamodb:BatchGetItem", "dynamodb:BatchWriteItem"], resources=[self.table.table_arn])
        )
        function.add_to_role_policy(iam.PolicyStatement(actions=["secretsmanager:GetSecretValue"], resources=[self.secret.secret_arn]))
        function.add_environment("HOTFOOT_CACHE_TABLE", self.table.table_name)
        function.add_environment("HOTFOOT_CACHE_SECRET", self.secret.secret_arn)

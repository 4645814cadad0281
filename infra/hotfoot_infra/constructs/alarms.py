"""What should wake somebody. The alarms have no action yet: who is to be told is the account's to say."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cw
from constructs import Construct

from hotfoot_infra.constructs.bulk_pipeline import BulkPipeline
from hotfoot_infra.constructs.model_endpoint import ModelEndpoint
from hotfoot_infra.constructs.model_function import ModelFunction

PERIOD = cdk.Duration.minutes(5)


class Alarms(Construct):
    """Errors and throttles of the functions, server errors of the API, and messages that ended in a dead-letter queue."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        function: ModelFunction | None = None,
        endpoint: ModelEndpoint | None = None,
        bulk: BulkPipeline | None = None,
        owner: str = "",
    ) -> None:
        """Watch what is given; owner names a deployment where the stack has several."""
        super().__init__(scope, construct_id)
        of = f" of {owner}" if owner else ""
        if function is not None:
            self._function("Http", f"The HTTP function{of}", function)
        if endpoint is not None:
            # the function answers a fault of its own with a 500 and returns well, so its Errors do not count that
            self._alarm(
                "ApiServerErrors", "The API answered with a 5xx status.", endpoint.api.metric_server_error(period=PERIOD, statistic="sum")
            )
        if bulk is not None:
            self._function("Bulk", f"The bulk function{of}", bulk.function)
            for name, queue in (("DeadLetters", bulk.dead_letters), ("Undelivered", bulk.undelivered)):
                metric = queue.metric_approximate_number_of_messages_visible(period=PERIOD, statistic="max")
                self._alarm(name, "Objects were announced and not processed; redrive the queue when the cause is gone.", metric)

    def _function(self, name: str, words: str, function: ModelFunction) -> None:
        self._alarm(f"{name}Errors", f"{words} raised, died or ran out of time.", function.function.metric_errors(period=PERIOD))
        self._alarm(
            f"{name}Throttles", f"{words} was asked for more than it may run at once.", function.function.metric_throttles(period=PERIOD)
        )

    def _alarm(self, name: str, words: str, metric: cw.Metric) -> None:
        cw.Alarm(
            self,
            name,
            alarm_description=words,
            metric=metric,
            threshold=1,
            evaluation_periods=1,
            comparison_operator=cw.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            treat_missing_data=cw.TreatMissingData.NOT_BREACHING,
        )

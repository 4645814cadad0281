"""One deployment, one stack, or one API with several: composed here, their parts made in `constructs/`."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from hotfoot.contract import peers
from hotfoot.contract.project import Door
from hotfoot_infra import models
from hotfoot_infra.config import Deployment, Shared
from hotfoot_infra.constructs.alarms import Alarms
from hotfoot_infra.constructs.layers import layers_of
from hotfoot_infra.constructs.model_endpoint import ModelEndpoint
from hotfoot_infra.constructs.served import Served, serve


class HotfootStack(cdk.Stack):
    """Functions behind one HTTP API. door: the API's settings; served: what is behind it, the default first."""

    door: Door
    endpoint: ModelEndpoint
    served: tuple[Served, ...]

    def tell(self, outputs: dict[str, str]) -> None:
        """Make them outputs of the stack."""
        for name, value in outputs.items():
            cdk.CfnOutput(self, name, value=value)


class DeploymentStack(HotfootStack):
    """A bundle behind an HTTP API and, where hotfoot.toml asks for it, an S3 text pipeline."""

    def __init__(self, scope: Construct, deployment: Deployment) -> None:
        words = f"hotfoot {deployment.name}: {deployment.bundle.model_id}"
        super().__init__(scope, f"hotfoot-{deployment.name}", description=words[:1024], tags={"hotfoot": deployment.name})
        self.door = deployment.settings
        only = serve(self, deployment, layers_of(self, deployment, [deployment]), {})
        self.served = (only,)
        self.endpoint = ModelEndpoint(self, "Endpoint", description=words, door=self.door, default=only.http)
        Alarms(self, "Alarms", function=only.http, endpoint=self.endpoint, bulk=only.bulk)
        self.tell({"ApiUrl": self.endpoint.api.api_endpoint, **only.outputs})


class ApiStack(HotfootStack):
    """Bundles behind one HTTP API, each with its own functions and all with the layers that they have in common.

    A path says which one is meant. What no path says, a body may: the default one hands such a request on, so it alone knows the
    others, and none of them knows it.
    """

    def __init__(self, scope: Construct, shared: Shared) -> None:
        names = ", ".join(deployment.name for deployment in shared.deployments)
        words = f"hotfoot {shared.name}: {names}"[:1024]
        super().__init__(scope, f"hotfoot-{shared.name}", description=words, tags={"hotfoot": shared.name})
        self.door, self._shared = shared.settings, shared
        others = [self._serve(deployment, {}) for deployment in shared.deployments[1:]]
        first = self._serve(shared.deployments[0], {peers.KEY: self._models(others)})
        if others:
            aliases = [one.http.alias.function_arn for one in others]
            first.http.role.add_to_policy(iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=aliases))
        self.served = (first, *others)
        paths = models.paths([deployment.member for deployment in shared.deployments])
        self.endpoint = ModelEndpoint(
            self,
            "Endpoint",
            description=words,
            door=self.door,
            default=first.http,
            paths={path: one.http for one in self.served for path in paths[one.deployment.name]},
        )
        Alarms(self, "Alarms", endpoint=self.endpoint)
        self.tell({"ApiUrl": self.endpoint.api.api_endpoint, **self._outputs()})

    def _serve(self, deployment: Deployment, environment: dict[str, str]) -> Served:
        place = Construct(self, deployment.name)
        layers = layers_of(self, deployment, self._shared.deployments)
        made = serve(place, deployment, layers, {"HOTFOOT_NAME": deployment.name, **environment})
        Alarms(place, "Alarms", function=made.http, bulk=made.bulk, owner=deployment.name)
        return made

    def _models(self, others: list[Served]) -> str:
        functions = {one.deployment.name: one.http.alias.function_arn for one in others}
        return models.environment([deployment.member for deployment in self._shared.deployments], functions)

    def _outputs(self) -> dict[str, str]:
        """As `EmbedFunctionName`: an output's name has letters and digits alone."""
        said = ((one.deployment.name.title().replace("-", ""), one.outputs) for one in self.served)
        return {f"{name}{key}": value for name, outputs in said for key, value in outputs.items()}

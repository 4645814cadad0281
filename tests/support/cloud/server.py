"""moto's server with what it lacks for a stack of ours, and loud: an unknown type or a failed update fails the deployment.

python -m support.cloud.server PORT
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from typing import Any

from moto.awslambda.models import EventSourceMapping, ImageConfig, LambdaFunction, LayerVersion
from moto.cloudformation import models, parsing
from moto.cloudformation.exceptions import CloudFormationError, ValidationError
from moto.s3.models import FakeBucket
from moto.sqs.models import sqs_backends

from support.cloud import shims

IGNORED = {"AWS::CDK::Metadata"}


class ChangeSetNotFoundError(CloudFormationError):
    """What the CDK waits for after it has deleted a change set."""

    code = "ChangeSetNotFound"


def after(cls: Any, method: str, then: Any) -> None:
    """Let `then(made, properties, account, region)` go on after a class method that makes a resource out of a template."""
    original = getattr(cls, method).__func__

    def wrapped(kind: Any, /, resource_name: str, cloudformation_json: Any, account_id: str, region_name: str, **rest: Any) -> Any:
        made = original(kind, resource_name, cloudformation_json, account_id, region_name, **rest)
        then(made, cloudformation_json.get("Properties", {}), account_id, region_name)
        return made

    setattr(cls, method, classmethod(wrapped))


def function_made(function: Any, p: Any, _account: str, _region: str) -> None:
    """moto forgets these."""
    function.layers = function._get_layers_data(p.get("Layers", []))
    function.architectures = p.get("Architectures", ["x86_64"])
    function.tracing_config = p.get("TracingConfig", {"Mode": "PassThrough"})
    function.package_type, function.image_config = p.get("PackageType", "Zip"), ImageConfig(p.get("ImageConfig", {}))


def bucket_made(bucket: Any, p: Any, _account: str, _region: str) -> None:
    """moto forgets that a bucket tells EventBridge."""
    if "EventBridgeConfiguration" in p.get("NotificationConfiguration", {}):
        bucket.set_notification_configuration({"EventBridgeConfiguration": {}})


def source_made(source: Any, p: Any, account: str, region: str) -> None:
    """moto's own poller would run Docker, inside SendMessage, and knows no partial failure: the tests have their own."""
    source.function_arn = f"arn:aws:lambda:{region}:{account}:function:{p['FunctionName']}"  # with its alias, which moto resolves
    for queue in sqs_backends[account][region].queues.values():
        queue.lambda_event_source_mappings.clear()


def fill_gaps() -> None:
    """Properties that moto's own types drop."""
    LayerVersion.physical_resource_id = property(lambda self: self.arn)  # type: ignore[attr-defined] # or a Ref is an object
    after(LambdaFunction, "create_from_cloudformation_json", function_made)
    after(FakeBucket, "create_from_cloudformation_json", bucket_made)
    after(EventSourceMapping, "create_from_cloudformation_json", source_made)


def references(value: Any) -> Iterator[str]:
    """Logical ids that a piece of a template names."""
    if isinstance(value, list):
        for item in value:
            yield from references(item)
    elif isinstance(value, dict):
        if isinstance(value.get("Ref"), str):
            yield value["Ref"]
        if "Fn::GetAtt" in value:
            yield value["Fn::GetAtt"][0]
        for inner in value.values():
            yield from references(inner)


def in_order(resources: dict[str, Any]) -> list[str]:
    """Logical ids, each after all that it depends on."""
    done: dict[str, None] = {}

    def visit(name: str) -> None:
        if name in done or name not in resources:
            return
        wanted = resources[name].get("DependsOn", [])
        for other in [*([wanted] if isinstance(wanted, str) else wanted), *references(resources[name])]:
            visit(other)
        done[name] = None

    for name in resources:
        visit(name)
    return list(done)


def update(self: Any, template: dict[str, Any], parameters: dict[str, Any] | None = None) -> None:
    """Add and modify in the order of dependency, then remove: moto itself publishes a version before it has updated the function."""
    slots = template.get("Parameters", {})
    # "as before" reaches this place as the value of an SSM parameter, which would be looked up as if it were the name of one
    known = {key: value for key, value in (parameters or {}).items() if key in slots and not slots[key]["Type"].startswith("AWS::SSM")}
    changes, old, new = self.build_resource_diff(template, known), self._resource_json_map, template["Resources"]
    self._template, self.input_parameters, self._resource_json_map = template, known, new
    for load in (self.load_mapping, self.load_parameters, self.load_conditions):
        load()
    replaced: set[str] = set()
    for name in in_order(new):
        if name in changes["Add"]:
            _ = self[name]  # to look at it is to make it
        elif name in changes["Modify"] or replaced.intersection(references(new[name])):
            before = self[name]
            modify(self, name)
            if getattr(before, "physical_resource_id", None) != getattr(self[name], "physical_resource_id", None):
                replaced.add(name)
    for name in reversed(in_order(old)):
        gone = self._parsed_resources.pop(name, None) if name in changes["Remove"] else None
        if gone is not None and not old[name].get("DeletionPolicy", "").startswith("Retain"):
            self._delete_resource(gone, old[name])


def modify(resources: Any, name: str) -> None:
    """Update one resource; raises where moto cannot."""
    wanted = resources._resource_json_map[name]
    if wanted["Type"] in IGNORED:
        return
    made: Any = parsing.parse_and_update_resource(name, wanted, resources, resources._account_id, resources._region_name)
    if made is None:
        raise ValidationError(message=f"moto cannot update {name}, a {wanted['Type']}")
    resources._parsed_resources[name] = made


def strict(resource_type: str, known: Any = parsing.resource_class_from_type) -> Any:
    """The class of a type; raises where moto would only warn."""
    found = known(resource_type)
    if found is None and resource_type not in {*parsing.NULL_MODELS, *IGNORED}:
        raise ValidationError(message=f"moto has no CloudFormation support for {resource_type}")
    return found


def execute(
    self: Any, change_set_name: str, stack_name: str | None = None, original: Any = models.CloudFormationBackend.execute_change_set
) -> None:
    """A failure becomes the stack's state. As an HTTP 500 it would be tried again, and the second time pass."""
    try:
        original(self, change_set_name, stack_name)
    except Exception as error:  # noqa: BLE001 - the edge: whatever it is must be seen
        traceback.print_exc()
        wanted = next(c for key, c in self.change_sets.items() if change_set_name in (key, c.change_set_name))
        stack = self.stacks[wanted.stack_id]
        stack.status = "ROLLBACK_COMPLETE"
        stack._add_stack_event("ROLLBACK_COMPLETE", resource_status_reason=repr(error))


def apply(self: Any, original: Any = models.ChangeSet.apply) -> None:
    """moto forgets the outputs."""
    original(self)
    self.stack.template = self.template
    self.stack._parse_template()
    self.stack.output_map = self.stack._create_output_map()


def delete_change_set(self: Any, change_set_name: str) -> None:
    """By name too; moto wants the ARN."""
    for key in [k for k, c in self.change_sets.items() if change_set_name in (k, c.change_set_name)]:
        del self.change_sets[key]


def describe_change_set(self: Any, change_set_name: str, original: Any = models.CloudFormationBackend.describe_change_set) -> Any:
    """Says that it is gone in the words that the CDK waits for."""
    try:
        return original(self, change_set_name)
    except ValidationError:
        raise ChangeSetNotFoundError(f"ChangeSet [{change_set_name}] does not exist") from None


def main(port: str) -> None:
    """Serve on the loopback device."""
    shims.define_all()
    fill_gaps()
    parsing.resource_class_from_type = strict
    parsing.ResourceMap.update = update  # type: ignore[method-assign]
    backend: Any = models.CloudFormationBackend
    backend.execute_change_set, backend.delete_change_set, backend.describe_change_set = execute, delete_change_set, describe_change_set
    models.ChangeSet.apply = apply  # type: ignore[method-assign]
    from moto.server import main as serve

    serve(["-H", "127.0.0.1", "-p", port])


if __name__ == "__main__":
    main(sys.argv[1])

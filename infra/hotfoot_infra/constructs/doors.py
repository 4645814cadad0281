"""Nothing may call a function's `$LATEST`: it changes under whoever calls it, and a deployment could not be taken back."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_apigatewayv2 as http
from aws_cdk import aws_lambda as lam
from constructs import IConstruct

from hotfoot.contract.errors import HotfootError


def refuse_latest(stack: cdk.Stack) -> None:
    """Raise HotfootError where a permission, an event source or an API of the stack names a function and not its alias."""
    functions = {_logical_id(stack, node) for node in stack.node.find_all() if isinstance(node, lam.CfnFunction)}
    found = []
    for node in stack.node.find_all():
        target = target_of(node)
        named = set() if target is None else referenced(stack.resolve(target)) & functions
        found += [f"{node.node.path} calls $LATEST of {name}" for name in sorted(named)]
    if found:
        raise HotfootError("\n".join(found), hint="Point it at the alias.")


def target_of(node: IConstruct) -> str | None:
    """The function that this resource calls or lets be called; None where it is another kind of resource."""
    if isinstance(node, lam.CfnPermission | lam.CfnEventSourceMapping | lam.CfnEventInvokeConfig):
        return node.function_name
    if isinstance(node, lam.CfnUrl):
        return node.target_function_arn
    return node.integration_uri if isinstance(node, http.CfnIntegration) else None


def referenced(value: Any) -> set[str]:
    """Every logical id that a piece of a template refers to."""
    if isinstance(value, list):
        return set().union(*map(referenced, value)) if value else set()
    if not isinstance(value, dict):
        return set()
    if set(value) == {"Ref"}:
        return {value["Ref"]}
    if set(value) == {"Fn::GetAtt"}:
        return {value["Fn::GetAtt"][0]}
    return referenced(list(value.values()))


def _logical_id(stack: cdk.Stack, node: lam.CfnFunction) -> str:
    return str(stack.resolve(node.logical_id))

"""The CloudFormation resource inside a construct, for what the construct has no word for."""

from __future__ import annotations

from typing import TypeVar

from constructs import Construct

T = TypeVar("T")


def raw(construct: Construct, kind: type[T]) -> T:
    """The resource that `construct` makes; raises TypeError where it is not of this kind."""
    found = construct.node.default_child
    if not isinstance(found, kind):
        raise TypeError(f"{construct.node.path} makes {type(found).__name__} and not {kind.__name__}")
    return found

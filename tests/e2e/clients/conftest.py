"""What the tests of clients share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from support.clients import Doors


@pytest.fixture(scope="session")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """A server's process and Lambda functions over every rigged artifact."""
    with ExitStack() as stack:
        yield Doors(tmp_path_factory.mktemp("doors"), stack)
    sys.modules.pop("hotfoot.handlers.http", None)

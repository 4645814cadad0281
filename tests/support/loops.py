"""Coroutines in tests that are none themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def apart(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, in a thread and loop of its own: the Lambda adapter keeps one open in the main thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()

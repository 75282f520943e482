"""Graphs that meet faults."""

import time
from collections.abc import Callable

import pytest

BOTH = pytest.mark.parametrize("scheduler", ["sync", "threads"])


def inc(x: int) -> int:
    return x + 1


def until(condition: Callable[[], bool]) -> bool:
    """Give threads that are on their way out the time to get there."""
    end = time.monotonic() + 5
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0)
    return True

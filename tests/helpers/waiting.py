"""Waiting for what other threads and processes do on their own, and nothing announces; a clock."""

import time
from collections.abc import Callable
from typing import Any


class FakeClock:
    """A clock whose time a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def until(condition: Callable[[], Any], seconds: float = 10.0) -> bool:
    """Look until something is so, or the time is up; tells which."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.001)
    return True

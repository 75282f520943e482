"""What belongs to a whole process, as workers take it over from the caller: environment variables
and the recursion limit.

They are looked at once per compute, and a worker is sent what differs from what it was told.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from typing import Any, NamedTuple

__all__ = ["Surroundings", "surroundings", "take_over"]


class _CallersNow(NamedTuple):
    """The caller's surroundings at one look; 0 is a limit that was not told."""

    variables: dict[Any, Any]
    limit: int

    def since(self, told: _CallersNow) -> tuple[dict[Any, Any], int]:
        """Return for `take_over` what differs from what was told before."""
        changes: dict[Any, Any] = dict.fromkeys(told.variables.keys() - self.variables.keys())
        changes |= dict(self.variables.items() - told.variables.items())
        return changes, self.limit if self.limit != told.limit else 0


class Surroundings:
    """Those of this process; `current` is as of the last `look`."""

    def __init__(self) -> None:
        self.current = _CallersNow({}, 0)

    def look(self) -> None:
        """Learn of changes since the last look."""
        # The bytes of the variables: to compare them takes a microsecond, their text twenty.
        variables = getattr(os.environ, "_data", os.environ)
        limit = sys.getrecursionlimit()
        if limit != self.current.limit or variables != self.current.variables:
            self.current = _CallersNow(dict(variables), limit)


def take_over(changes: dict[Any, Any], limit: int) -> None:
    """Set in a worker what has changed of the caller's; a variable that is None was removed."""
    for name, value in changes.items():
        if value is None:
            os.environb.pop(os.fsencode(name), None)
        else:
            os.environb[os.fsencode(name)] = os.fsencode(value)
    if not {b"TZ", "TZ"}.isdisjoint(changes):
        time.tzset()
    if limit:
        with suppress(RecursionError):  # what is running here is deeper already
            sys.setrecursionlimit(limit)


#: Of this process.
surroundings = Surroundings()

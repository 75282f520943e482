"""How a scheduler's workers end with Python."""

from __future__ import annotations

import sys
from collections.abc import Callable

EXIT_GRACE = 2.0  # seconds that running tasks get when the interpreter ends


def end_with_python(shutdown: Callable[[float], list[str]]) -> None:
    """Shut a pool down at the end of Python; wait for running tasks unless Ctrl-C ended it."""
    was_interrupted = getattr(sys, "last_type", None) is KeyboardInterrupt
    try:
        left = shutdown(0.0 if was_interrupted else EXIT_GRACE)
        for name in () if was_interrupted else left:
            print(f"lazyflow: still running when Python ended: {name}", file=sys.stderr)
    except KeyboardInterrupt:  # the user does not want to wait for the end of running tasks
        pass

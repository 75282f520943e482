"""The log "lazyflow": its lines change nothing, whatever the program's handlers and filters do."""

from __future__ import annotations

from contextlib import suppress

#: Levels, as `logging` numbers them.
ERROR, WARNING, INFO = 40, 30, 20


def log(level: int, text: str, *values: object, error: BaseException | None = None) -> None:
    """Write a line with these values in it, and the traceback of an error.

    >>> log(INFO, "a line that no handler of this program takes: %d", 1)
    """
    import logging  # 5 ms that a program with nothing to tell does not pay

    with suppress(Exception):
        logging.getLogger("lazyflow").log(level, text, *values, exc_info=error, stacklevel=2)


def log_failure(observer: object, event: str, error: BaseException) -> None:
    """Tell that an observer, or something else that only shows, has raised and is dropped.

    >>> log_failure(object(), "task_ended", OSError("no room"))
    """
    log(
        ERROR, "the observer %s failed in %s and is not called again; results are not affected",
        type(observer).__name__, event, error=error,
    )

"""In a worker: what tasks log and warn of is sent to the caller, whose settings hold here.

Handlers that the caller's loggers have as well are not called here. Nothing is installed in
`logging` before the caller has it configured, and a task that neither logs nor warns is not slowed
down.
"""

from __future__ import annotations

import builtins
import marshal
import pickle
import sys
import warnings
from collections import deque
from collections.abc import Callable
from typing import Any


class Reporter:
    """Sends records and warnings of this process.

    Parameters
    ----------
    send
        Sends what is waiting, now or by the thread that is sending.

    Attributes
    ----------
    is_forked
        This is a copy of a worker that a task has forked: the caller hears of the original only.
    waiting
        What was not sent yet. The thread that has the socket sends it: a finalizer may log at any
        time.
    """

    def __init__(self, send: Callable[[], None]) -> None:
        self.is_forked = False
        self.waiting: deque[tuple[str, Any]] = deque()
        self._send = send
        self._filters: list[Any] | None = None
        self._has_warned = False
        self._loggers: dict[str, tuple[int, tuple[str, ...], bool]] = {}
        self._show = warnings.showwarning
        self._call: Any = None  # Logger.callHandlers as it was
        warnings.showwarning = self._warned

    def configure(self, settings: tuple[Any, ...]) -> None:
        """Take over what the caller has set; `settings` are `notices.NoticeSettings`."""
        _, disabled, loggers, filters = settings
        self._filters = [entry for each in filters if (entry := _loaded(each)) is not None]
        self._set_filters()
        if disabled is not None or self._call is not None:
            self._set_loggers(disabled or 0, loggers)

    def begin_run(self) -> None:
        """Warn again of what an earlier run has warned of: the caller knows what it has shown."""
        if self._filters is not None and (self._has_warned or warnings.filters != self._filters):
            self._set_filters()
            self._has_warned = False

    def _set_filters(self) -> None:
        warnings.resetwarnings()
        warnings.filters.extend(self._filters or ())  # type: ignore[attr-defined]

    def _set_loggers(self, disabled: int, loggers: dict[str, Any]) -> None:
        import logging

        if self._call is None:
            self._call = logging.Logger.callHandlers
            logging.Logger.callHandlers = (  # type: ignore[method-assign]
                lambda logger, record: self.logged(logger, record)  # type: ignore[assignment]
            )
        logging.disable(disabled)
        for name in self._loggers.keys() - loggers.keys():
            logging.getLogger(name).setLevel(logging.NOTSET)
            logging.getLogger(name).disabled = False
        for name, (level, _, is_disabled) in loggers.items():
            logging.getLogger(name).setLevel(level)
            logging.getLogger(name).disabled = is_disabled
        self._loggers = loggers

    def logged(self, logger: Any, record: Any) -> None:
        """Send a record, and call the handlers that only this process has."""
        from lazyflow.schedulers.processes.notices import handler_key

        if self.is_forked:
            self._call(logger, record)
            return
        self._report("log", _plain(record))
        while logger is not None:
            theirs = self._loggers.get(logger.name, (0, (), False))[1]
            for each in logger.handlers:
                if record.levelno >= each.level and handler_key(each) not in theirs:
                    each.handle(record)
            logger = logger.parent if logger.propagate else None

    def _warned(
        self, message: Any, category: Any, filename: str, lineno: int, file: Any = None,
        line: str | None = None,
    ) -> None:
        """Stand in for `warnings.showwarning`."""
        if file is not None or self.is_forked:
            self._show(message, category, filename, lineno, file, line)
            return
        self._has_warned = True
        frame: Any = sys._getframe(1)
        while frame and (frame.f_code.co_filename, frame.f_lineno) != (filename, lineno):
            frame = frame.f_back
        module = frame.f_globals.get("__name__") if frame else None
        kinds = [(each.__module__, each.__qualname__) for each in category.__mro__]
        self._report("warning", (str(message), kinds, filename, lineno, module))

    def _report(self, what: str, details: Any) -> None:
        self.waiting.append((what, details))
        self._send()


def _plain(record: Any) -> dict[str, Any]:
    """Return what a record has, its message and exception as text, the rest as it can travel."""
    import logging

    found = dict(record.__dict__)
    found["msg"], found["args"] = record.getMessage(), None
    if record.exc_info:
        found["exc_text"] = record.exc_text or logging.Formatter().formatException(record.exc_info)
        found["exc_info"] = None
    for name, value in found.items():
        try:
            marshal.dumps(value)
        except ValueError:
            found[name] = str(value)
    return found


class _CategoryByName(type):
    """The class of a category that is known by its name, whether it is imported here or not."""

    name: tuple[str, str]

    def __subclasscheck__(cls, other: type) -> bool:
        return any((each.__module__, each.__qualname__) == cls.name for each in other.__mro__)


def _loaded(data: bytes) -> tuple[Any, ...] | None:
    """Return a filter as `warnings` has it: it looks for the category by `issubclass`."""
    try:
        action, message, (module, name), *place = pickle.loads(data)
    except Exception:  # a text of a class of the program's own: a worker must start all the same
        return None
    category: Any = vars(builtins).get(name) if module == "builtins" else None
    if category is None:
        members = {"__module__": module, "name": (module, name)}
        category = _CategoryByName(name, (Warning,), members)
    return action, message, category, *place

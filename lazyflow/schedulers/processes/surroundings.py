"""Settings of a whole process that workers take over from the caller.

Environment variables, the recursion limit, and how logging and warnings are configured.

They are looked at once per compute, and a worker is sent what differs from what it was told.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
import time
import warnings
from contextlib import suppress
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

__all__ = [
    "NoticeSettings", "Surroundings", "handle_notice", "handler_key", "notices",
    "surroundings", "take_over",
]


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


# -- logging and warnings -----------------------------------------------------------------
#
# Logging and warnings of tasks: workers take the caller's settings over, and report to it.
#
# Levels, handlers and the filters of warnings are looked at once per compute. To see that none has
# changed takes a fraction of a microsecond: `logging` empties a cache when a level changes, and the
# filters are in one list. `logging` takes 3 ms to import, so that is left to the program.

_LOOKED: Any = "lazyflow"  # a key of the root logger's cache of levels, while nothing has changed


#: The settings of logging and warnings that a worker takes over.
NoticeSettings: TypeAlias = tuple[
    int,  # a number that grows with each change
    int | None,  # the level of `logging.disable`; None: logging is not configured here
    # loggers by name: the level, the handlers, and whether the logger is disabled
    dict[str, tuple[int, tuple[str, ...], bool]],
    list[bytes],  # the filters of `warnings`, pickled, each with its category's name
]


class Notices:
    """What this process has configured; `settings` are as of the last `look`."""

    def __init__(self) -> None:
        self.settings: NoticeSettings = (0, None, {}, [])
        self._filters: list[Any] = []
        self._lock = threading.Lock()

    def look(self) -> None:
        """Learn of changes since the last look."""
        root = getattr(sys.modules.get("logging"), "root", None)  # None: nothing is configured
        is_known = root is None or root._cache.get(_LOOKED) == _counts(root)
        if not is_known or warnings.filters != self._filters:
            with self._lock:
                if root is not None:  # before: what changes meanwhile is looked at again
                    root._cache[_LOOKED] = _counts(root)
                self._learn(root)

    def _learn(self, root: Any) -> None:
        self._filters = list(warnings.filters)
        filters = [data for each in self._filters if (data := _pickled(each)) is not None]
        disabled, loggers = (None, {}) if root is None else _logging_settings(root)
        number, *before = self.settings
        if [disabled, loggers, filters] != before:
            self.settings = number + 1, disabled, loggers, filters


def _counts(root: Any) -> tuple[int, int]:
    return len(root.manager.loggerDict), len(root.handlers)


def _logging_settings(root: Any) -> tuple[int | None, dict[str, Any]]:
    import logging

    disabled = root.manager.disable
    loggers = {}
    for each in (root, *root.manager.loggerDict.values()):
        if isinstance(each, logging.Logger):
            handlers = tuple(
                handler_key(h) for h in each.handlers if type(h) is not logging.NullHandler
            )
            if each.level or handlers or each.disabled:
                loggers[each.name] = each.level, handlers, each.disabled
    if not disabled and not any(
        handlers or is_disabled or level > logging.WARNING
        for level, handlers, is_disabled in loggers.values()
    ):
        return None, {}
    return disabled, loggers


def handler_key(handler: Any) -> str:
    """Return a text by which a worker's handler is known as one that the caller has as well."""
    return f"{type(handler).__qualname__} {getattr(handler, 'baseFilename', '')}"


def _pickled(entry: Any) -> bytes | None:
    """Pickle a filter, its category by name; None if that fails.

    Pickled as itself a category would be imported by every worker as it starts: scikit-learn's
    and SciPy's made each start 0.13 s slower, whether tasks need them or not.
    """
    action, message, category, module, line = entry
    named = category.__module__, category.__qualname__
    try:
        return pickle.dumps((action, message, named, module, line))
    except Exception:  # a message or module that is no text and no pattern
        return None


#: Of this process.
notices = Notices()

#: What was shown of files that are no module here, by file.
_registries: dict[str, dict[Any, Any]] = {}


def handle_notice(what: str, details: Any) -> None:
    """Handle what a worker has logged or warned of, as if it had been here.

    This runs in the driver's thread, so nothing that a handler raises may leave it.
    """
    try:
        if what == "log":
            _log(details)
        else:
            _warn(*details)
    except BaseException:
        import traceback

        traceback.print_exc()


def _log(attributes: dict[str, Any]) -> None:
    import logging

    record = logging.makeLogRecord(attributes)
    logger = logging.getLogger(record.name)
    if logger.isEnabledFor(record.levelno):
        logger.handle(record)


def _warn(text: str, kinds: list[Any], filename: str, line: int, module: str | None) -> None:
    category = _category(kinds)
    home = sys.modules.get(module or "")
    if type(home) is ModuleType:
        registry = vars(home).setdefault("__warningregistry__", {})
    else:
        registry = _registries.setdefault(filename, {})
    # Given None, `warn_explicit` would take the warning for one of no module.
    known: Any = {} if module is None else {"module": module}
    try:
        warnings.warn_explicit(text, category, filename, line, registry=registry, **known)
    except Warning as error:  # by a filter that is newer than the task
        warnings.showwarning(error, category, filename, line)


def _category(kinds: list[tuple[str, str]]) -> Any:
    """Return the first of these classes that is known here."""
    for module, name in kinds:
        found: Any = sys.modules.get(module)
        for part in name.split("."):
            found = getattr(found, part, None)
        if isinstance(found, type) and issubclass(found, Warning):
            return found
    return Warning

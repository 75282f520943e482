"""The caller's environment, as tasks in other processes see it.

- Of each run: context variables, lazyflow's settings, the directory, the error state of NumPy and
  the context of decimal. A context variable travels by the name under which a module has it; one
  whose value can't be pickled or restored stays behind. A worker sets all of this once per run, so
  later tasks of the run in that worker see the changes of a task, as on threads.
- Of the program: the versions of the user's modules.
- On processes, also environment variables, the recursion limit, and how logging and warnings are
  configured. These are compared at each compute, and workers are sent the changes.
"""

from __future__ import annotations

import ast
import contextvars
import os
import pickle
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import resolve_name
from operator import attrgetter, is_
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

from lazyflow import config
from lazyflow.graph.kinds import IMMUTABLE
from lazyflow.store.pickling.functions import same_code

_ERRSTATE = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}

_PLAIN = (bool, int, float, str, type(None))  # of settings that go along

#: Where the process listens whose task or actor runs here: it knows actors by name.
home: contextvars.ContextVar[tuple[Any, ...] | None] = contextvars.ContextVar(
    "lazyflow_home", default=None
)


def _nowhere() -> tuple[Any, ...] | None:
    return home.get()


#: Returns the `home` for the caller's tasks; `lazyflow.api.actors` sets it.
own_home: Callable[[], tuple[Any, ...] | None] = _nowhere

_packed: dict[tuple[Any, ...], bytes] = {}  # without variables: few differ


def packed() -> bytes:
    """Return the environment of the calling thread, as bytes."""
    directory = _directory()
    settings = {name: value for name, value in config.values().items() if type(value) in _PLAIN}
    numpy: Any = sys.modules.get("numpy")
    errstate = numpy.geterr() if hasattr(numpy, "geterr") else _ERRSTATE
    variables = []
    precision = None
    for variable, value in contextvars.copy_context().items():
        if variable.name == "decimal_context":
            precision = value.copy()
        elif not variable.name.startswith(("lazyflow_", "numpy.")):
            variables.append((variable, value))
    address = own_home()
    if not variables and precision is None:
        key = (directory, tuple(settings.items()), tuple(errstate.items()), address)
        known = _packed.get(key)
        if known is None:
            if len(_packed) > 100:
                _packed.clear()
            plain: tuple[Any, ...] = (
                directory, settings, errstate, None, [], address)
            known = _packed[key] = pickle.dumps(plain)
        return known
    return pickle.dumps(
        (directory, settings, errstate, precision, _pickled(variables), address))


def _directory() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return None


def _pickled(variables: list[tuple[Any, Any]]) -> list[Any]:
    from lazyflow.store.pickling.serialize import encode
    from lazyflow.store.pickling.unpicklable import Unpicklable

    pickled = []
    for pair in variables:
        try:
            encoded = encode(pair, bytes, explain=False)  # type: ignore[arg-type]
            pickled.append((encoded.payload, encoded.buffers, encoded.size))
        except Unpicklable:
            pass
    return pickled


def enter(data: bytes) -> None:
    """Set the environment, inside the context in which the run's tasks are called."""
    directory, settings, errstate, precision, variables, address = pickle.loads(data)
    home.set(address)
    if directory is not None and directory != _directory():
        with suppress(OSError):
            os.chdir(directory)
    config.adopt(settings)
    if errstate != _ERRSTATE:
        import numpy

        numpy.seterr(**errstate)
    if precision is not None:
        import decimal

        decimal.setcontext(precision)
    for parts in variables:
        from lazyflow.store.pickling.serialize import Encoded, decode

        try:
            variable, value = decode(Encoded(*parts), lambda buffer: buffer)
            variable.set(value)
        except BaseException:  # as a variable that can't be pickled, it is left out
            pass


# -- versions of modules ------------------------------------------------------------------
#
# The versions of the user's modules in this program, so that its workers have the same.
#
# Followed are modules that are written in Python and not installed. The version of one is the time
# and size of its source when it was imported or reloaded. That a module was reloaded shows in its
# new `__spec__`; IPython's autoreload may patch a module in place, and keeps times of its own.
#
# Attributes that the program sets on a module (``hm.K = 5``) are not followed: a worker has those
# of the source, as with `multiprocessing`, dask and joblib.


Stat = tuple[int, int]  # time in ns, size

_LIBRARY = os.path.dirname(os.__file__) + os.sep
_AUTORELOAD = "IPython.extensions.autoreload"
_SPEC = attrgetter("__spec__")


def is_users(name: str, spec: Any) -> bool:
    """Tell whether a module is written in Python, and neither installed nor a part of Python."""
    origin = getattr(spec, "origin", None)
    return (
        type(origin) is str
        and origin.endswith(".py")
        and name.partition(".")[0] not in ("__main__", "__mp_main__", "lazyflow")
        and "site-packages" not in origin
        and "dist-packages" not in origin
        and not origin.startswith(_LIBRARY)
    )


def stat_of(path: str) -> Stat | None:
    """Return the time and size of a file, None if there is none."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size


class ModuleVersions(NamedTuple):
    """The versions of the caller's modules, as they are sent to workers.

    number, reloads
        `number` grows with each change; `reloads` when functions may differ from those sent.
    versions
        By name of the module: time and size of its source, and how often it was reloaded.
    refused
        By name of the module: why a worker that has not imported it must not do so now.
    in_place
        Whether IPython's autoreload is at work, which patches old functions and classes too.
    """

    number: int
    reloads: int
    path: list[str]
    versions: dict[str, tuple[int, int, int]]
    refused: dict[str, str]
    in_place: bool


class _Known(NamedTuple):
    """A module of the user's; ``is_old``: its source has changed since it was imported."""

    module: ModuleType
    spec: Any
    stat: Stat
    reloads: int
    is_old: bool


class Versions:
    """The user's modules in this process.

    Attributes
    ----------
    current
        The versions as the last `look` found them.
    reloaded
        Names of modules, one entry for each reload that was seen.
    """

    def __init__(self) -> None:
        self.current = ModuleVersions(0, 0, [], {}, {}, False)
        self.reloaded: list[str] = []
        self._known: dict[str, _Known] = {}
        self._modules: list[ModuleType] = []
        self._specs: list[Any] = []
        self._count = -1
        self._lock = threading.Lock()

    def look(self) -> int:
        """Note imports and reloads since the last look; return the number of reloads so far."""
        if len(sys.modules) != self._count or sys.path != self.current.path or not self._is_same():
            with self._lock:
                self._count = len(sys.modules)
                self._learn()
        return len(self.reloaded)

    def _is_same(self) -> bool:
        # Each run looks, and a program may have hundreds of modules: no step of Python for each.
        if not all(map(is_, map(sys.modules.get, self._known), self._modules)):
            return False
        if not all(map(is_, map(_SPEC, self._modules), self._specs)):
            return False
        return _AUTORELOAD not in sys.modules or not any(map(_is_patched, self._known.values()))

    def _learn(self) -> None:
        modules: dict[str, _Known] = {}
        refused: dict[str, str] = {}
        count = len(self.reloaded)
        for name, module in tuple(sys.modules.items()):
            if not issubclass(type(module), ModuleType):  # asking others may run their code
                continue
            spec = object.__getattribute__(module, "__dict__").get("__spec__")
            if not is_users(name, spec) or (stat := stat_of(spec.origin)) is None:
                continue
            known = self._known.get(name)
            is_kept = known is not None and known.spec is spec
            if known is not None and is_kept and not _is_patched(known):
                modules[name] = known
            else:
                reloads = 0
                if known is not None:
                    self.reloaded.append(name)
                    reloads = known.reloads + 1
                is_old = not is_kept and _edited_since_import(spec, stat)
                modules[name] = _Known(module, spec, stat, reloads, is_old)
            if modules[name].is_old:
                refused[name] = f"{spec.origin} was edited after this program imported it"
        gone = self._known.keys() - modules.keys()
        self._known = modules
        self._modules = [known.module for known in modules.values()]
        self._specs = [known.spec for known in modules.values()]
        if self.reloaded:
            refused |= _old_parts(modules, set(self.reloaded))
        before = self.current
        versions = {name: (*known.stat, known.reloads) for name, known in modules.items()}
        new = before._replace(
            reloads=before.reloads + bool(gone or len(self.reloaded) > count),
            path=list(sys.path), versions=versions, refused=refused,
            in_place=_AUTORELOAD in sys.modules,
        )
        if new != before:
            self.current = new._replace(number=before.number + 1)


def _is_patched(known: _Known) -> bool:
    """Tell whether IPython's autoreload has brought a module up to its source since the look."""
    stat = stat_of(known.spec.origin)
    if stat is None or stat == known.stat:
        return False
    try:
        shell = sys.modules["IPython"].get_ipython()
        reloader = shell.magics_manager.registry["AutoreloadMagics"]._reloader
        seen = reloader.modules_mtimes.get(known.module.__name__)
        failed = reloader.failed.get(known.spec.origin)
    except (AttributeError, KeyError):  # it is imported, but not at work
        return False
    return bool(seen == os.stat(known.spec.origin).st_mtime != failed)


def _edited_since_import(spec: Any, stat: Stat) -> bool:
    """Tell whether the compiled form that the import left behind is that of an older source."""
    cached = spec.cached
    if type(spec.loader) is not SourceFileLoader or cached is None or sys.dont_write_bytecode:
        return False  # pytest, for example, leaves another form behind
    if not os.access(os.path.dirname(cached), os.W_OK):
        return False
    try:
        with open(cached, "rb") as file:
            head = file.read(16)
    except OSError:
        return False
    if len(head) < 16 or head[4:8] != bytes(4):  # checked by hash
        return False
    time, size = int.from_bytes(head[8:12], "little"), int.from_bytes(head[12:], "little")
    return (time, size) != (stat[0] // 10**9 & 0xFFFFFFFF, stat[1] & 0xFFFFFFFF)


def _old_parts(modules: dict[str, _Known], reloaded: set[str]) -> dict[str, str]:
    """Find modules with objects of others from before a reload: new workers would lack these."""
    refused = {}
    homes = reloaded & modules.keys()
    for name, known in modules.items():
        spec = known.spec
        for home, old_name, name_here in _taken_from(spec.origin, known.stat, spec.parent):
            if home not in homes:
                continue
            old = vars(known.module).get(name_here)
            new = vars(modules[home].module).get(old_name)
            if old is new or (old == new if type(old) in IMMUTABLE else same_code(old, new)):
                continue
            refused[name] = (
                f"in the program, {name} has {home}.{old_name} as it was before {home} was "
                f"reloaded; importlib.reload({name}) there brings it up to date"
            )
    return refused


@cache  # one for each module, and for each reload of it
def _taken_from(path: str, stat: Stat, package: str) -> list[tuple[str, str, str]]:
    """Return the imported names in the source of a module: module, name there, name here."""
    try:
        with open(path, "rb") as file:
            nodes = list(ast.walk(ast.parse(file.read())))
    except (OSError, SyntaxError, ValueError):  # edited meanwhile: workers are refused it anyway
        return []
    return [
        (home, alias.name, alias.asname or alias.name)
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        and node.level <= package.count(".") + bool(package)
        for home in [resolve_name("." * node.level + (node.module or ""), package)]
        for alias in node.names
        if alias.name != "*"
    ]


#: Of this process.
versions = Versions()


# -- environment variables and the recursion limit ----------------------------------------


class ProcessSettings(NamedTuple):
    """Environment variables and the recursion limit of a process; 0: not known."""

    variables: dict[Any, Any]
    limit: int

    def since(self, told: ProcessSettings) -> tuple[dict[Any, Any], int]:
        """Return the differences from settings that were sent before, for `take_over`."""
        changes: dict[Any, Any] = dict.fromkeys(told.variables.keys() - self.variables.keys())
        changes |= dict(self.variables.items() - told.variables.items())
        return changes, self.limit if self.limit != told.limit else 0


class SettingsWatch:
    """The settings of this process; `current` is as of the last `look`."""

    def __init__(self) -> None:
        self.current = ProcessSettings({}, 0)

    def look(self) -> None:
        """Learn of changes since the last look."""
        # The bytes of the variables: to compare them takes a microsecond, their text twenty.
        variables = getattr(os.environ, "_data", os.environ)
        limit = sys.getrecursionlimit()
        if limit != self.current.limit or variables != self.current.variables:
            self.current = ProcessSettings(dict(variables), limit)


def take_over(changes: dict[Any, Any], limit: int) -> None:
    """Apply changes of the caller's settings in a worker; a variable that is None was removed."""
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
process_settings = SettingsWatch()


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
    """The settings of logging and warnings here; `settings` are as of the last `look`."""

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
        filters = [data for each in self._filters if (data := _pickled_filter(each)) is not None]
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
    for logger in (root, *root.manager.loggerDict.values()):
        if isinstance(logger, logging.Logger):
            handlers = tuple(
                handler_key(h) for h in logger.handlers if type(h) is not logging.NullHandler
            )
            if logger.level or handlers or logger.disabled:
                loggers[logger.name] = logger.level, handlers, logger.disabled
    if not disabled and not any(
        handlers or is_disabled or level > logging.WARNING
        for level, handlers, is_disabled in loggers.values()
    ):
        return None, {}
    return disabled, loggers


def handler_key(handler: Any) -> str:
    """Return a text by which a worker's handler is known as one that the caller has as well."""
    return f"{type(handler).__qualname__} {getattr(handler, 'baseFilename', '')}"


def _pickled_filter(entry: Any) -> bytes | None:
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

#: Registries of shown warnings for files that are no module here, by file.
_registries: dict[str, dict[Any, Any]] = {}


def handle_notice(kind: str, details: Any) -> None:
    """Handle a log record or a warning of a worker as if it had been made here.

    This runs in the driver's thread, so nothing that a handler raises may leave it.
    """
    try:
        if kind == "log":
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
        category: Any = sys.modules.get(module)
        for part in name.split("."):
            category = getattr(category, part, None)
        if isinstance(category, type) and issubclass(category, Warning):
            return category
    return Warning

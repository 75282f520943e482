"""The caller's context variables, settings and directory, and the versions of its modules.

The caller's context variables go along, each by the name under which a module has it; one whose
value can't be pickled, or not be restored, stays behind. numpy's error state and decimal's
context go by what they say. All is set in the worker once per run, so what a task sets is seen
by later tasks of that run in that worker, as on threads.
"""

from __future__ import annotations

import ast
import contextvars
import os
import pickle
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import resolve_name
from operator import attrgetter, is_
from types import ModuleType
from typing import Any, NamedTuple

from lazyflow import config
from lazyflow.graph.kinds import IMMUTABLE
from lazyflow.store.pickling.functions import same_code

__all__ = ["ModuleVersions", "is_users", "stat_of", "versions"]


_ERRSTATE = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}

_PLAIN = (bool, int, float, str, type(None))  # of settings that go along

#: Where the process listens whose task or actor runs here: it knows actors by name.
home: contextvars.ContextVar[tuple[Any, ...] | None] = contextvars.ContextVar(
    "lazyflow_home", default=None
)


def _nowhere() -> tuple[Any, ...] | None:
    return home.get()


#: Returns what `home` is to be where the caller's tasks run; `lazyflow.api.actors` sets it.
own_home: Callable[[], tuple[Any, ...] | None] = _nowhere

_packed: dict[tuple[Any, ...], bytes] = {}  # without variables: few differ


def packed() -> bytes:
    """Return the environment of the calling thread, as bytes."""
    settings = {name: value for name, value in config.values().items() if type(value) in _PLAIN}
    directory = _directory()
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

    found = []
    for pair in variables:
        try:
            encoded = encode(pair, bytes, explain=False)  # type: ignore[arg-type]
            found.append((encoded.payload, encoded.buffers, encoded.size))
        except Unpicklable:
            pass
    return found


def enter(data: bytes) -> None:
    """Set the environment, inside the context in which the run's tasks are called."""
    directory, settings, errstate, precision, variables, address = pickle.loads(data)
    home.set(address)
    config.adopt(settings)
    if directory is not None and directory != _directory():
        with suppress(OSError):
            os.chdir(directory)
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
# Not followed is what the program sets on a module (``hm.K = 5``): a worker has what the source
# says, as with `multiprocessing`, dask and joblib.


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
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


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
        found: dict[str, _Known] = {}
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
                found[name] = known
            else:
                reloads = 0
                if known is not None:
                    self.reloaded.append(name)
                    reloads = known.reloads + 1
                is_old = not is_kept and _edited_since_import(spec, stat)
                found[name] = _Known(module, spec, stat, reloads, is_old)
            if found[name].is_old:
                refused[name] = f"{spec.origin} was edited after this program imported it"
        gone = self._known.keys() - found.keys()
        self._known = found
        self._modules = [known.module for known in found.values()]
        self._specs = [known.spec for known in found.values()]
        if self.reloaded:
            refused |= _old_parts(found, set(self.reloaded))
        before = self.current
        versions = {name: (*known.stat, known.reloads) for name, known in found.items()}
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


def _old_parts(found: dict[str, _Known], reloaded: set[str]) -> dict[str, str]:
    """Find modules that hold what others had before a reload: a new worker would not."""
    refused = {}
    homes = reloaded & found.keys()
    for name, known in found.items():
        spec = known.spec
        for home, old_name, name_here in _taken_from(spec.origin, known.stat, spec.parent):
            if home not in homes:
                continue
            old = vars(known.module).get(name_here)
            new = vars(found[home].module).get(old_name)
            if old is new or (old == new if type(old) in IMMUTABLE else same_code(old, new)):
                continue
            refused[name] = (
                f"in the program, {name} has {home}.{old_name} as it was before {home} was "
                f"reloaded; importlib.reload({name}) there brings it up to date"
            )
    return refused


@cache  # one for each module, and for each reload of it
def _taken_from(path: str, stat: Stat, package: str) -> list[tuple[str, str, str]]:
    """Return what the source of a module takes from others: module, name there, name here."""
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

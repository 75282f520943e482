"""The settings, each in one place.

=================  ==========  ===================================================================
key                default     meaning
=================  ==========  ===================================================================
scheduler          None        name, `Scheduler` or Executor used when none is given; None: the one
                               where the persisted inputs live, else "threads"
num_workers        None        tasks that run at once; None: the cores that this process may use
check_mutation     False       compare each task's inputs before and after; raises `InputMutated`
max_runs_ahead     16          unfinished `persist` calls of one thread before the next call waits
max_pending_calls  10000       pending calls of an actor before the caller of the next one sleeps
crash_retries      2           how often a task runs again after the worker that ran it died
exit_timeout       None        seconds for which the end of the program waits for unfinished
                               submitted calls and calls of actors; None: until they are done
group_memory       0.25        share of the memory of a cluster's worker that a group of tasks may
                               hold at once; larger groups run as separate tasks
ray_options        None        a dict of options passed unchanged to Ray's tasks and actors:
                               scheduling_strategy, runtime_env, accelerator_type and others
share_from         65536       bytes from which a part of a value goes through shared memory
store_limit        None        bytes of shared memory for values, in each worker; None: all that
                               the machine has
memory_limit       None        bytes of memory, also as text ("4 GB", "4 GiB"): values that a run or
                               `persist` keeps beyond it are written to files; "auto": 60 % of the
                               memory of the machine or its control group; None: no limit
spill_folder       None        folder of these files, which have no names; None: that of temporary
                               files, or /var/tmp where those are in memory
chunk_bytes        8388608     bytes that ``chunks="auto"`` aims at for each chunk of an array
array_fusion       True        whether neighbouring operations on arrays become one task per block
kernels            "auto"      how fused array expressions run: "auto", "numpy" (by NumPy alone)
                               or "native" (a kernel at once, else an error: for tests)
math               "own"       elementary functions of arrays (exp, sin, ...): "own", vectorised and
                               within a unit in the last place, or "numpy"
show_values        None        where numbers and strings among arguments are shown by value; None:
                               in errors and `repr`, not on pages and pictures; "scalars": in both;
                               "none": nowhere. ``delayed(f, hide="password")`` hides single ones
kernel_cache       None        folder of compiled kernels; None: lazyflow/kernels in the user's
                               cache folder; False: none
=================  ==========  ===================================================================

Settings are looked up in this order: the enclosing ``with config.set(...)`` (a context variable:
threads and async tasks do not see each other's), then plain ``config.set(...)`` (for the process),
then the environment (``LAZYFLOW_SCHEDULER``, ``LAZYFLOW_NUM_WORKERS``, ..., read at import), then
the default. Where a program keeps the object, as in ``x = config.set(...)``, its settings apply
from the next look-up by the same thread.

State::

    _process :: {name: value}    settings outside of blocks; `_merge` writes them
    _layers :: [_Layer]          objects of ``set`` that may still become blocks; the newest last
    _made :: {number: Gone}      objects that were not entered and not freed
    _over :: deque[Gone]         those that were freed, put in as they go, in any thread

`_process` and `_layers` change under `_changing` only. `_made` and `_over` change by single steps
without it, and `get` reads all four without it.
"""

from __future__ import annotations

import os
import re
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from functools import cache
from itertools import count
from typing import Any

from lazyflow.finalizers import Gone, gone
from lazyflow.system import at_fork, core_count, granted_memory

__all__ = ["cpu_count", "default_workers", "get", "nearest", "set", "values"]


_FLAGS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


class _Key:
    """A setting.

    Attributes
    ----------
    default
        The value where none was set.
    check
        Returns the value of ``set`` as it is kept, or raises ValueError.
    parse
        Returns the value that a text in the environment means, or raises LookupError.
    """

    __slots__ = ("check", "default", "parse")

    def __init__(
        self, default: Any, check: Callable[[Any], Any], parse: Callable[[str], Any]
    ) -> None:
        self.default = default
        self.check = check
        self.parse = parse


def _whole(name: str, default: int | None, low: int) -> _Key:
    def check(value: Any) -> Any:
        if value is None and default is None:
            return None
        if type(value) is not int or value < low:
            raise ValueError(f"{name} must be a whole number, {low} or more; got {value!r}")
        return value

    def parse(text: str) -> Any:
        if not text.strip().isdecimal():
            raise LookupError
        return check(int(text))

    return _Key(default, check, parse)


def _number(
    name: str, default: float | None, words: str, is_right: Callable[[float], bool]
) -> _Key:
    def check(value: Any) -> Any:
        if value is None and default is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not is_right(value):
            raise ValueError(f"{name} must be {words}; got {value!r}")
        return value

    def parse(text: str) -> Any:
        try:
            return check(float(text))
        except ValueError:
            raise LookupError from None

    return _Key(default, check, parse)


def _flag(name: str, default: bool) -> _Key:
    def check(value: Any) -> bool:
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be True or False; got {value!r}")
        return value

    return _Key(default, check, lambda text: _FLAGS[text.lower()])


def _choice(name: str, default: str | None, *words: str) -> _Key:
    *first, last = [f'"{word}"' for word in words] + ["None"] * (default is None)

    def check(value: Any) -> Any:
        if value is None and default is None:
            return None
        if not isinstance(value, str) or value not in words:
            raise ValueError(f"{name} must be {', '.join(first)} or {last}; got {value!r}")
        return str(value)

    return _Key(default, check, {word: word for word in words}.__getitem__)


def _folder(value: Any) -> Any:
    if value is False:
        return value
    return _folder_named("kernel_cache", "a folder, None or False", value)


def _spill_folder(value: Any) -> Any:
    return _folder_named("spill_folder", "a folder or None", value)


def _folder_named(name: str, words: str, value: Any) -> Any:
    if value is None:
        return value
    if not isinstance(value, str | os.PathLike):
        raise ValueError(f"{name} must be {words}; got {value!r}")
    path = os.fspath(value)
    if not os.path.isabs(path):  # it would be another one in each working directory
        raise ValueError(f"{name} must be an absolute path; got {value!r}")
    return path


_SIZE = re.compile(r"(\d+(?:\.\d+)?) *(?:([kMGT])(i?))?B?", re.IGNORECASE)


def _memory_limit(value: Any) -> Any:
    """Return a number of bytes, "auto" or None.

    >>> _memory_limit("1.5 GB"), _memory_limit("2GiB"), _memory_limit("auto")
    (1500000000, 2147483648, 'auto')
    """
    if value is None or value == "auto":
        return value
    found = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is not None:
        number, unit, is_binary = found.groups()
        power = " kmgt".index((unit or " ").lower())
        return int(float(number) * (1024 if is_binary else 1000) ** power)
    if type(value) is not int or value < 1:
        raise ValueError(
            "memory_limit must be a number of bytes, a text like '4 GB', 'auto' or None; got "
            f"{value!r}"
        )
    return value


def _folder_of(text: str) -> Any:
    return text if _FLAGS.get(text.lower(), True) else False


_RAYS = ("name", "num_returns", "max_retries", "retry_exceptions")  # which lazyflow gives itself


def _ray_options(value: Any) -> Any:
    taken = isinstance(value, Mapping) and [word for word in value if word in _RAYS]
    if taken or not (value is None or isinstance(value, Mapping)):
        raise ValueError(
            "ray_options must be a dict of the options of ray.remote, such as "
            f"{{'scheduling_strategy': 'SPREAD'}}, without {', '.join(_RAYS)}; got {value!r}"
        )
    return value


def _as_given(value: Any) -> Any:
    return value


_KEYS: dict[str, _Key] = {
    # A scheduler is checked where it is resolved: entry points may name more.
    "scheduler": _Key(None, _as_given, _as_given),
    "num_workers": _whole("num_workers", None, 1),
    "check_mutation": _flag("check_mutation", False),
    "max_runs_ahead": _whole("max_runs_ahead", 16, 1),
    "max_pending_calls": _whole("max_pending_calls", 10_000, 1),
    "crash_retries": _whole("crash_retries", 2, 0),
    "exit_timeout": _number(
        "exit_timeout", None, "seconds, 0 or more, or None", lambda value: value >= 0),
    "group_memory": _number(
        "group_memory", 0.25, "a number above 0, 1 at most", lambda value: 0 < value <= 1),
    "ray_options": _Key(None, _ray_options, _as_given),
    "share_from": _whole("share_from", 1 << 16, 1),
    "store_limit": _whole("store_limit", None, 0),
    "memory_limit": _Key(None, _memory_limit, _memory_limit),
    "spill_folder": _Key(None, _spill_folder, _spill_folder),
    "chunk_bytes": _whole("chunk_bytes", 8 << 20, 1),
    "array_fusion": _flag("array_fusion", True),
    "kernels": _choice("kernels", "auto", "auto", "numpy", "native"),
    "math": _choice("math", "own", "own", "numpy"),
    "show_values": _choice("show_values", None, "scalars", "none"),
    "kernel_cache": _Key(None, _folder, _folder_of),
}


class _Layer:
    """Settings of an object of ``set``.

    Attributes
    ----------
    thread
        That has made it.
    is_in
        It is among the layers, or was merged into the one below.
    is_final
        The object has gone: no block can take the settings back.
    was_entered
        They are a block's. Another thread may have its weak reference still.
    """

    __slots__ = ("is_final", "is_in", "number", "thread", "values", "was_entered")

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values
        self.number = next(_numbers)
        self.thread = threading.get_ident()
        self.is_in = self.is_final = self.was_entered = False


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of the keys that the environment has."""
    settings: dict[str, Any] = {}
    for name, key in _KEYS.items():
        variable = f"LAZYFLOW_{name.upper()}"
        text = environ.get(variable)
        if text:
            try:
                settings[name] = key.parse(text)
            except (LookupError, ValueError):
                try:
                    settings[name] = key.check(text)
                except ValueError as error:  # which says what may be given
                    raise ValueError(f"{variable} in the environment: {error}") from None
    return settings


#: The values outside of blocks; keys are set one by one, each at once for all threads.
_process: dict[str, Any] = {name: key.default for name, key in _KEYS.items()}
_process |= _from_environment(os.environ)
#: Settings above these, of objects of ``set`` that may still become blocks; the newest last.
_layers: list[_Layer] = []
#: For each object of ``set`` that was not entered, by its number: put into `_over` when it goes.
_made: dict[int, Gone] = {}
_over: deque[Gone] = deque()
_numbers = count()
_changing = threading.RLock()  # an object may go, and a signal come, while it is held
_context: ContextVar[Mapping[str, Any]] = ContextVar("lazyflow_config", default={})  # noqa: B039


def nearest(name: str, known: Any) -> str:
    """Return ``"; did you mean 'x'?"`` for a misspelt name, or a full stop.

    >>> nearest("schedular", ["scheduler", "timeout"])
    "; did you mean 'scheduler'?"
    """
    from difflib import get_close_matches

    if name.startswith("__"):  # asked by tools of every module, and a search takes milliseconds
        return "."
    close = get_close_matches(name.lower(), list(known), n=1, cutoff=0.7)
    return f"; did you mean {close[0]!r}?" if close else "."


def values() -> dict[str, Any]:
    """Return all keys with their current values.

    >>> values()["max_runs_ahead"]
    16
    """
    if _made or _over:
        _settle()
    while True:
        layers, found = tuple(_layers), dict(_process)
        if layers == tuple(_layers):  # else one was merged while the values were copied
            break
    for layer in layers:
        found.update(layer.values)
    return found | dict(_context.get())


def default(name: str) -> Any:
    """Return the value of a key where none was set.

    >>> default("max_runs_ahead")
    16
    """
    _check_name(name)
    return _KEYS[name].default


def adopt(settings: Mapping[str, Any]) -> None:
    """Set keys in this context for good: a caller's, as `values` has returned them there."""
    _context.set({**_context.get(), **settings})


def _check_name(name: str) -> None:
    if name not in _KEYS:
        raise KeyError(
            f"unknown config key {name!r}{nearest(name, _KEYS)} Known keys: {', '.join(_KEYS)}"
        )


def get(name: str) -> Any:
    """Return the current value of a key.

    Raises
    ------
    KeyError
        Unknown key; the message has the nearest one.

    Examples
    --------
    >>> from lazyflow import config
    >>> with config.set(num_workers=3):
    ...     config.get("num_workers")
    3
    """
    _check_name(name)
    if _made or _over:
        _settle()
    inner = _context.get()
    if name in inner:
        return inner[name]
    for layer in reversed(_layers):
        if name in layer.values:
            return layer.values[name]
    return _process[name]


def _settle() -> None:
    """Apply the settings of objects that were freed, and of those that this thread keeps."""
    with _changing:
        _put_in()


def _put_in() -> None:  # loops beside `with`: see schedulers/threads.py
    while _over:
        gone_one = _over[0]
        layer: _Layer = gone_one.then
        _made.pop(layer.number, None)
        layer.is_final = True
        _add(layer)
        if _over and _over[0] is gone_one:  # else this was called again meanwhile
            _over.popleft()
    here = threading.get_ident()
    for made in tuple(_made.values()):
        if made.then.thread == here and made() is not None:
            _add(made.then)
    _merge()


def _add(layer: _Layer) -> None:
    if not (layer.is_in or layer.was_entered):
        layer.is_in = True
        _layers.append(layer)


def _merge() -> None:
    """Merge final layers into final ones below them, since no block can take them back."""
    at = 0
    while at < len(_layers):
        if _layers[at].is_final and (at == 0 or _layers[at - 1].is_final):
            below = _layers[at - 1].values if at else _process
            below.update(_layers[at].values)
            del _layers[at]
        else:
            at += 1


def _after_fork() -> None:
    global _changing
    _changing = threading.RLock()  # another thread of the parent may have held it


at_fork(after_in_child=_after_fork)


def _take_back(layer: _Layer) -> None:
    if layer in _layers:
        _layers.remove(layer)
    _merge()


class set:
    """Set keys: for a block as a context manager, otherwise for the process.

    Raises
    ------
    KeyError
        Unknown key; the message has the nearest one.
    ValueError
        The key can't have that value.

    Examples
    --------
    >>> from lazyflow import config
    >>> with config.set(scheduler="sync"):
    ...     config.get("scheduler")
    'sync'
    """

    # A plain call and a block look the same until the block is entered. The object of a plain call
    # is freed before the next statement; the next look-up applies its settings. If the object is
    # kept, as by a notebook for its output, its settings apply from its thread's next look-up on,
    # until it is entered. Setting at once is rejected: a block would change the settings of other
    # threads for an instant.

    def __init__(self, arg: Mapping[str, Any] | None = None, /, **values: Any) -> None:
        values = dict(arg or {}) | values
        for name, value in values.items():
            _check_name(name)
            values[name] = _KEYS[name].check(value)
        self._values: Mapping[str, Any] = values
        self._tokens: list[Token[Mapping[str, Any]]] = []  # one may be entered inside itself
        self._layer: _Layer | None = _Layer(dict(values))  # None: it was entered
        _made[self._layer.number] = gone(self, _over.append, self._layer)

    def __repr__(self) -> str:
        _settle()
        shown = ", ".join(f"{name}={value!r}" for name, value in self._values.items())
        return f"<lazyflow.config.set({shown})>"

    def __enter__(self) -> None:
        layer, self._layer = self._layer, None
        if layer is not None:
            layer.was_entered = True
            _made.pop(layer.number, None)
            if layer.is_in:
                with _changing:
                    _take_back(layer)
        self._tokens.append(_context.set({**_context.get(), **self._values}))

    def __exit__(self, *error: object) -> None:
        _context.reset(self._tokens.pop())


def cpu_count() -> int:
    """Return the number of cores this process may use, by its affinity and control groups.

    >>> cpu_count() >= 1
    True
    """
    return core_count()


@cache
def default_workers() -> int:
    """Return the number of workers where none is given: `cpu_count`, looked up once.

    >>> default_workers() >= 1
    True
    """
    return cpu_count()


_AUTO = 0.6  # of the memory that the process may use, for memory_limit="auto"; a guess
_sharers = [1]  # how many processes share the limit


def share_memory_limit(count: int) -> None:
    """Let this process have one part in `count` of the limit: it is one of as many workers."""
    _sharers[0] = count


def memory_limit() -> int | None:
    """Return the bytes to which memory is limited where this is called; None: there is no limit."""
    limit = get("memory_limit")
    if limit is None:
        return None
    if limit == "auto":
        granted = granted_memory()
        if granted is None:
            return None
        limit = int(granted * _AUTO)
    return max(1, int(limit) // _sharers[0])

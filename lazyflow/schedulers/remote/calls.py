"""A task as it travels to a worker, and how it is called there.

A record is ``(id, function, arguments, inputs, drops, flags, extra)``. Arguments that are plain
numbers and strings go as they are; everything else as an encoded blob of its own, which is
opened when the task's turn comes: what can't be read, or ends the process when it is read,
is charged to this task and to no other.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from lazyflow.errors import SerializationError
from lazyflow.graph.arguments import Binder
from lazyflow.graph.kinds import IMMUTABLE
from lazyflow.graph.options import DEFAULT, Options
from lazyflow.graph.task import HELD, VALUE, Task, call_arguments, place_text, task_name
from lazyflow.schedulers.core.errors.failures import dressed, text_of, with_call_note
from lazyflow.schedulers.core.errors.words import call_words
from lazyflow.schedulers.core.slow_calls import SlowCall, literals_of
from lazyflow.store.pickling.unpicklable import Unpicklable, serialization_error

Record = tuple[
    int, int, Any, tuple[int, ...] | None, tuple[int, ...], int, tuple[Any, ...] | None
]

KEEP = 1  # other tasks use the result
SMALL = 2  # send it to the parent if it is small
WANT = 4  # send it in any case
BOUND = 8  # `arguments` is a template with holes: extra[0] is (positions, number, names)
BLOB = 16  # `arguments` is the encoded arguments, or their Binder
AS_HELD = 128  # of an actor: the values of inputs are not copied, so they are read-only
TIMED = 64  # of an actor: the outcome ends with its `CallTimes`
SPECIAL = 32  # extra[1] is the options that only few tasks have

#: These stand in the place of a batch's number, before versions of modules, settings of logging and
#: warnings, a worker's notices, the name of something that a worker keeps and the program has
#: dropped, settings of the process, or a large function with its number.
FOLLOW, CONFIGURE, NOTICES, DROP, SETTINGS, FUNCTION = -1, -2, -3, -4, -5, -6

#: The first item of other messages to the process of an actor: the kind of the message.
MAKE, CALLS, ARENAS = range(3)

_LONGEST = 1 << 16  # characters of a text, or bytes, that may go as they are; a guess


def is_plain(items: Any) -> bool:
    """Tell whether items are numbers and texts that may go as they are."""
    for item in items:
        kind = type(item)
        if kind not in IMMUTABLE or (kind in (str, bytes) and len(item) > _LONGEST):
            return False
        if kind is int and item.bit_length() > 10_000:
            return False
    return True


def is_short(value: Any) -> bool:
    """Tell whether a number or a text may go in an answer as it is."""
    return is_plain((value,))


_CONTAINERS = (tuple, list, set, frozenset)
_FEW = 100  # items; a guess
_DEPTH = 3  # of containers that are looked into; a guess


def is_quick(values: Any, least: int, depth: int = _DEPTH) -> bool:
    """Tell whether pickling values takes no time, can't fail, and runs no code of the user's.

    `least` is the size in bytes from which they would go to shared memory. Types of the library say
    by an attribute ``_lazyflow_quick`` that it holds for them.
    """
    for value in values:
        kind = type(value)
        if kind in IMMUTABLE:
            if kind in (str, bytes) and len(value) > _LONGEST:
                return False
        elif kind is slice:
            if not is_quick((value.start, value.stop, value.step), least, 0):
                return False
        elif kind in _CONTAINERS or kind is dict:
            if not depth or len(value) > _FEW or not is_quick(value, least, depth - 1):
                return False
            if kind is dict and not is_quick(value.values(), least, depth - 1):
                return False
        elif not (_is_small_of_numpy(kind, value, least) or "_lazyflow_quick" in kind.__dict__):
            return False
    return True


def _is_small_of_numpy(kind: type, value: Any, least: int) -> bool:
    numpy: Any = sys.modules.get("numpy")
    if not hasattr(numpy, "number"):  # it is being imported: this name comes last
        return False
    if kind is numpy.ndarray:
        return not value.dtype.hasobject and value.nbytes < least
    return issubclass(kind, (numpy.number, numpy.bool_))


def is_quickly_packed(task: Task, least: int) -> bool:
    """Tell whether a task's arguments can be packed when it is sent: `is_quick` of all."""
    bind = task._bind
    if bind is None:
        return bool(task._inputs) or is_quick(task._args, least)
    return not bind.makers and is_quick(bind.template, least)


def travels_well(value: Any) -> bool:
    """Tell whether pickling a small value can't fail and runs no code of the user's."""
    kind = type(value)
    if kind in _CONTAINERS:
        return is_plain(value)
    if kind is dict:
        return is_plain(value) and is_plain(value.values())
    if kind.__module__ != "numpy" or not hasattr(value, "dtype"):  # a ufunc has none
        return False
    return not value.dtype.hasobject


def packed_call(
    task: Task, encode: Callable[[Any], Any]
) -> tuple[Any, int, tuple[Any, ...] | None]:
    """Return arguments, flags and binding of a task's record."""
    bind = task._bind
    if bind is None:
        if task._inputs:
            return None, 0, None
        if is_plain(task._args):
            return task._args, 0, None
        return encode(task._args), BLOB, None
    if not bind.makers and is_plain(bind.template):
        positions = tuple([at for at, _ in bind.holes])  # type: ignore[misc]
        sources = tuple([source for _, source in bind.holes])  # type: ignore[misc]
        if sources == tuple(range(len(sources))):
            return tuple(bind.template), BOUND, (positions, bind.n_positional, bind.names)
    return encode(bind), BLOB, None


_NAME, _PLACE = 4, 5  # where the texts stand in what `special_of` returns


def special_of(task: Task, check: bool) -> tuple[Any, ...] | None:
    """Return the options that the worker has to know, with two texts; None for most tasks."""
    options = task._options
    if not (options.retries or options.mutates or options.nout is not None or check):
        return None
    return (
        options.retries, options.mutates, options.nout, check, task_name(task), place_text(task)
    )


def call_bound(
    function: Callable[..., Any], template: tuple[Any, ...], given: list[Any], binding: Any
) -> Any:
    """Call with inputs in the holes of a template."""
    positions, count, names = binding
    items = list(template)
    for at, value in zip(positions, given, strict=True):
        items[at] = value
    if names:
        return function(*items[:count], **dict(zip(names, items[count:], strict=True)))
    return function(*items)


class RecordCall(SlowCall):
    """The slow call of a record.

    Parameters
    ----------
    function
        The function to call.
    arguments, flags, extra
        Fields of the record; a blob is decoded already.
    raw
        The stored values of the inputs.
    copied
        For each input, whether this task gets a copy of its own.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: Any,
        flags: int,
        extra: Any,
        raw: list[Any],
        copied: list[bool],
    ) -> None:
        self.raw = self.given = raw
        self.copied = copied
        self._function = function
        self._arguments = arguments
        self._binding: Any = extra[0] if flags & BOUND else None
        self.special = None
        if extra and extra[1] is not None:
            self.special = extra[1][:_NAME]
            self._named = extra[1]

    def call_once(self) -> Any:
        if self._arguments is None:
            return self._function(*self.given)
        args, kwargs = self.filled()
        try:
            return self._function(*args, **kwargs)
        finally:
            del args, kwargs  # an error may keep the frame alive

    def filled(self) -> tuple[list[Any], dict[str, Any]]:
        """Return positional and named arguments, with the inputs in their places."""
        arguments = self._arguments
        if self._binding is not None:
            positions, count, names = self._binding
            items = list(arguments)
            for at, value in zip(positions, self.given, strict=True):
                items[at] = value
            return items[:count], dict(zip(names, items[count:], strict=True))
        if type(arguments) is Binder:
            return arguments.fill(self.given)
        return (self.given if arguments is None else list(arguments)), {}

    def literals(self) -> list[Any]:
        if self._binding is not None:  # they are plain numbers and strings
            return []
        arguments = self._arguments
        return literals_of(arguments) if type(arguments) is Binder else list(arguments or ())

    def name(self) -> str:
        return str(self._named[_NAME])

    def place(self) -> str:
        return str(self._named[_PLACE])

    def words(self) -> tuple[str, ...]:
        """Describe the arguments, for the note of a failure."""
        return call_words(*self.filled())


# -- copies of tasks that keep no other task or value alive -------------------------------
#
# A task points at its inputs, a held input at its future, and a future at its value in a worker.
# The scheduler knows inputs by its own nodes, so the task that it keeps to make a lost value again
# needs none of these references.


class _Named:
    """Stands for a future of which only the name is needed."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


def bare_task(func: Any, args: tuple[Any, ...]) -> Task:
    """Return a task without inputs, options, name and place."""
    task = object.__new__(Task)
    task._func, task._args, task._inputs, task._bind = func, args, (), None
    task._options, task._code, task._lasti = DEFAULT, None, 0
    task._height, task._key = 0, None
    return task


#: A task that belongs to no run.
NOTHING = bare_task(VALUE, (None,))


def without_inputs(task: Task) -> Task:
    """Return a copy of a task that is called the same but refers to no other task or future."""
    inputs = (NOTHING,) * len(task._inputs)
    args = inputs if task._args is task._inputs else task._args
    if task._func is HELD:
        args = (_Named(task._args[0].name),)
    new = bare_task(task._func, args)
    new._inputs, new._bind, new._options = inputs, task._bind, task._options
    new._code, new._lasti = task._code, task._lasti
    new._height, new._key = task._height, task._key
    return new


def name_only(task: Task) -> Task:
    """Return a task that has only the name and place of another, and how often it may run again."""
    new = bare_task(VALUE, (None,))
    new._options = _label(task_name(task), task._options.crash_retries)
    new._code, new._lasti = task._code, task._lasti
    return new


@lru_cache(maxsize=1000)
def _label(name: str, crash_retries: int | None) -> Options:
    return Options(label=name, crash_retries=crash_retries)


# -- errors of values that can't be pickled or unpickled, and of calls that failed in a worker

_UNPICKLABLE = "unpicklable"  # the first item of such a record


def failure_record(error: BaseException, role: str = "result") -> Any:
    """Return the record of an exception; `role` names the value that was being pickled."""
    from lazyflow.schedulers.core.errors import records

    if isinstance(error, Unpicklable):
        return _UNPICKLABLE, role, error.path, records.record(error.error)
    return records.record(error)


def error_of(task: Task, record: Any, words: Any) -> BaseException:
    """Return the exception of a call that failed in a worker, as the caller is to see it."""
    from lazyflow.schedulers.core.errors.records import rebuilt

    if record[0] == _UNPICKLABLE:
        _, role, path, cause = record
        return unsendable(task, role, Unpicklable(path, rebuilt(cause)))
    return with_call_note(rebuilt(record), task, words)


def unsendable(task: Task, role: str, error: BaseException) -> BaseException:
    """Return the error of a task whose part named `role` could not be pickled."""
    if not isinstance(error, Unpicklable):  # StoreFull, for example
        return dressed(error, task, None)
    text = f"{task_name(task)}, made at {place_text(task)}"
    return dressed(serialization_error(text, role, error), task, None)


def culprit(
    task: Task, role: str, failed: Unpicklable, pack: Callable[[Any], object]
) -> tuple[str, Unpicklable]:
    """Find the argument that can't be pickled, after all were pickled together in vain.

    Parameters
    ----------
    role, failed
        Returned when each argument can be packed by itself.
    pack
        Tries a value, and raises Unpicklable.
    """
    args, kwargs = call_arguments(task, [None] * len(task._inputs))
    named = [(f"args[{at}]", value) for at, value in enumerate(args)]
    named += [(f"argument {name}", value) for name, value in kwargs.items()]
    for name, value in named:
        try:
            pack(value)
        except Unpicklable as found:
            return name, found
        except Exception:
            continue
    return role, failed


_RESTORABLE = (
    "Use what pickle can restore there, such as arrays, numbers, or functions and classes of "
    "modules that can be imported."
)


def unreadable(
    what: str, error: BaseException, of: str = "a task", advice: str = _RESTORABLE
) -> SerializationError:
    """Return the error of `what` of a task or an actor, which its worker can't unpickle."""
    return SerializationError(
        f"{what} of {of} was pickled but can't be unpickled in its worker: "
        f"{type(error).__name__}: {text_of(error)}. {advice}"
    )


def unreadable_result(error: BaseException) -> SerializationError:
    """Return the error of a result that its worker has pickled, and that can't be unpickled."""
    return SerializationError(
        f"the result of a task was pickled in its worker but can't be unpickled where it is "
        f"needed: {type(error).__name__}: {text_of(error)}. Return what pickle can restore, such "
        "as arrays, numbers, or objects of classes that are importable."
    )

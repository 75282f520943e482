"""How an exception of a task reaches the caller.

It keeps its type and loses the frames of lazyflow; a note names the task, the line where it was
made, and its arguments. An exception that would end the caller's program, generator or event
loop becomes the cause of a RemoteTaskError.
"""

from __future__ import annotations

import os
import signal
import sys
from types import CodeType, TracebackType
from typing import Any

from lazyflow.errors import RemoteTaskError
from lazyflow.graph import arguments
from lazyflow.graph.kinds import ITERATOR, kinds
from lazyflow.graph.task import Task, is_leaf, place_text
from lazyflow.schedulers.core.errors.words import call_in_words, call_text


def edit_advice(error: BaseException) -> str:
    """Return advice for an error of a task that changes its input; empty for other errors."""
    if isinstance(error, ValueError | TypeError) or type(error).__module__.startswith("numba."):
        text = text_of(error)
        if "read-only" in text or "readonly" in text:
            return (
                "\nArrays reach tasks read-only, since other tasks may share them. Edit a copy, "
                "x = x.copy(), or get a private, writable value by delayed(f, mutates=True)."
            )
    return ""


def _must_be_wrapped(error: BaseException) -> bool:
    if not isinstance(error, Exception) or isinstance(error, StopIteration | StopAsyncIteration):
        return True
    for name in ("asyncio", "concurrent.futures"):  # which another thread may be importing now
        if isinstance(error, getattr(sys.modules.get(name), "CancelledError", ())):
            return True
    return False


_SCHEDULERS = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
_PACKAGE = os.path.dirname(_SCHEDULERS) + os.sep
_OURS = (
    _SCHEDULERS + os.sep,
    os.path.abspath(arguments.__file__),
)

#: File and name of `Run.work`, below which tasks are called in the thread that waits.
_WORK = os.path.join(_SCHEDULERS, "core", "run.py"), "work"


def users_frames(trace: TracebackType | None) -> TracebackType | None:
    """Drop the leading frames of a traceback that belong to this package."""
    while trace is not None and _is_ours(trace.tb_frame.f_code):
        trace = trace.tb_next
    return trace


def _is_ours(code: CodeType) -> bool:
    """Tell whether code is the schedulers', or else of this package and marked to be hidden."""
    file = code.co_filename
    return file.startswith(_OURS) or (
        file.startswith(_PACKAGE) and "__tracebackhide__" in code.co_varnames
    )


# Classes may have a __traceback__, __repr__ or add_note of their own, which raise: so those of
# BaseException are used.
_trace: Any = BaseException.__dict__["__traceback__"]
_context: Any = BaseException.__dict__["__context__"]


def traceback_of(error: BaseException) -> TracebackType | None:
    """Return the traceback of an exception, even if its class overrides `__traceback__`."""
    trace: TracebackType | None = _trace.__get__(error)
    return trace


def text_of(error: BaseException) -> str:
    """Return ``str(error)``, or a text that says why there is none.

    >>> text_of(ValueError("no"))
    'no'
    """
    try:
        return str(error)
    except BaseException as broken:
        return f"(its text can't be had: __str__ raised {type(broken).__name__})"


def notes_of(error: BaseException) -> list[str]:
    """Return the notes of an exception, none when they can't be read."""
    try:
        return [str(note) for note in getattr(error, "__notes__", ())]
    except BaseException:
        return []


def forget_context(error: BaseException, earlier: BaseException) -> None:
    """Remove an earlier try's exception from the contexts of `error`."""
    at, seen = error, {id(error)}
    while True:
        below = _context.__get__(at)
        if below is earlier:
            _context.__set__(at, None)
        if below is None or below is earlier or id(below) in seen:
            return
        seen.add(id(below))
        at = below


def dressed(error: BaseException, task: Task, given: list[Any] | None) -> BaseException:
    """Return an exception as the caller will see it: user's frames, a note, a safe type."""
    BaseException.with_traceback(error, users_frames(traceback_of(error)))
    return _with_call(error, task, call_text(task, given))


def with_call_note(
    error: BaseException, task: Task, words: tuple[str, ...] | None
) -> BaseException:
    """Return an exception from another process as the caller will see it.

    `words` describe the arguments of the task, as `call_words` does; None if unknown.
    """
    return _with_call(error, task, call_in_words(task, words))


def _with_call(error: BaseException, task: Task, call: str) -> BaseException:
    note = f"in lazyflow task {call}, made at {place_text(task)}"
    return with_note(error, note + _advice(error, task))


def _advice(error: BaseException, task: Task) -> str:
    """Return advice for a task that edits its input, unless it is its own anyway."""
    return "" if task._owns_arguments or task._options.mutates else edit_advice(error)


def interrupted(error: BaseException) -> BaseException:
    """Return Ctrl-C as the caller will see it: with the task's frames only."""
    trace = traceback_of(error)
    while trace is not None:
        code = trace.tb_frame.f_code
        if (code.co_filename, code.co_name) == _WORK:
            break
        trace = trace.tb_next
    _context.__set__(error, None)  # such as an IndexError that lazyflow handled meanwhile
    return BaseException.with_traceback(error, users_frames(trace))


def with_note(error: BaseException, note: str) -> BaseException:
    """Add a note to an exception, and wrap one that would end the caller."""
    if _must_be_wrapped(error):
        wrapped = RemoteTaskError(
            f"a task raised {type(error).__name__}, which would end the caller if it were raised "
            f"as it is: {type(error).__name__}({text_of(error)})"
        )
        wrapped.__cause__ = error
        error = wrapped
    try:
        if note not in getattr(error, "__notes__", ()):  # one instance may be raised many times
            BaseException.add_note(error, note)
    except BaseException:  # an exception class may refuse attributes
        pass
    return error


_BUG = "an error of lazyflow's own, not of a task: please report it. "
_MOST_TOLD = 8  # running tasks


def tell_of_bug(bug: BaseException, run: Any, i: int | None = None) -> None:
    """Add to an error of lazyflow's own which tasks of a run were running; it never fails.

    `i` is the task whose result was being taken, where no worker has it any more.
    """
    try:
        if not isinstance(bug, Exception) or _is_of_a_handler(bug):  # Ctrl-C, an alarm
            return
        if any(note.startswith(_BUG) for note in notes_of(bug)):  # a run inside a task had it
            return
        names = run.running()
        if i is not None:
            names.insert(0, f"{run.task_name(i)}, just done")
        more = f"; and {len(names) - _MOST_TOLD:,} more" if len(names) > _MOST_TOLD else ""
        words = "; ".join(names[:_MOST_TOLD]) + more or "none"
        BaseException.add_note(bug, f"{_BUG}Tasks that were running: {words}")
    except Exception:  # memory may have run out
        pass


def _is_of_a_handler(error: Exception) -> bool:
    """Tell whether a signal handler of the program raised it, wherever our code was."""
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    codes = {getattr(getattr(h, "__func__", h), "__code__", None) for h in handlers}
    trace = traceback_of(error)
    while trace is not None and trace.tb_frame.f_code not in codes:
        trace = trace.tb_next
    return trace is not None


# -- which call an exception came from, kept with it, so that the call can be made again --

_NAME = "_lazyflow_call"  # of the attribute of exceptions


class FailedCall:
    """A call that failed, kept where it was made: pickles of its exception go without it.

    task
        The task; None in a pickle's copy.
    given
        The values of its inputs; None where they are in other processes, or were edited or used up.
    leaves
        The values that leaves of its graph had in that run, where they were not their own.
    """

    __slots__ = ("given", "leaves", "task")

    def __init__(
        self,
        task: Task | None = None,
        given: list[Any] | None = None,
        leaves: dict[Task, Any] | None = None,
    ) -> None:
        self.task = task
        self.given = given
        self.leaves = leaves or {}

    def __reduce__(self) -> tuple[type[FailedCall], tuple[()]]:
        return FailedCall, ()


def keep_call(
    error: BaseException, task: Task, given: list[Any] | None, leaves: dict[Task, Any]
) -> None:
    """Keep with an exception the call that raised it: the innermost, which is the first to come."""
    if is_leaf(task) or call_of(error) is not None:
        return
    if given and (task._options.mutates or any(kinds[type(v)] == ITERATOR for v in given)):
        given = None
    try:
        # Of BaseException: a class of the user's may have a __setattr__ that raises.
        BaseException.__setattr__(error, _NAME, FailedCall(task, given, leaves))
    except Exception:  # it may refuse attributes
        pass


def call_of(error: BaseException) -> FailedCall | None:
    """Return the call that an exception came from, if it is known here."""
    try:
        call = BaseException.__getattribute__(error, _NAME)
    except Exception:
        return None
    return call if type(call) is FailedCall and call.task is not None else None

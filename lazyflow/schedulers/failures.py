"""What becomes of an exception that a task raised.

It keeps its type and loses our frames; a note says which task, where it was made and with what
arguments. What would end the caller's program, generator or event loop if it were raised as it
is arrives as the cause of a RemoteTaskError.
"""

from __future__ import annotations

import os
import sys
import threading
from types import TracebackType
from typing import Any

from lazyflow.errors import RemoteTaskError
from lazyflow.graph import arguments
from lazyflow.graph.task import Task, place, task_name

_SCALARS = (int, float, complex, bool, str, bytes, type(None))
_LONGEST = 60  # characters of one argument in a note
_MOST = 8  # arguments in a note


def summary(value: Any) -> str:
    """Describe an argument in a few words: scalars by value, everything else by type and shape.

    >>> summary(3), summary("x" * 80)
    ('3', "'" + 'x' * 56 + '...')
    >>> summary([1, 2, 3]), summary({"a": 1})
    ('list of 3', 'dict of 1')
    """
    kind = type(value)
    if kind in _SCALARS:
        if kind is int and value.bit_length() > 256:
            return f"int of {value.bit_length()} bits"
        text = repr(value[: _LONGEST + 1] if kind in (str, bytes) else value)
        return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
    if isinstance(value, Task):
        return f"<{task_name(value)}>"
    try:
        if isinstance(getattr(value, "shape", None), tuple):
            dtype = f" {value.dtype}" if hasattr(value, "dtype") else ""
            return f"{kind.__name__}{value.shape}{dtype}"
        if kind in (list, tuple, dict, set, frozenset):
            return f"{kind.__name__} of {len(value)}"
    except Exception:  # a hostile object must not stop an error message
        pass
    return kind.__name__


def call_text(task: Task, given: list[Any]) -> str:
    """Write a task as a call, with the values `given` for its inputs."""
    if task._bind is not None:
        args, kwargs = task._bind.fill(given)
    else:
        args, kwargs = (given if task._inputs else list(task._args)), {}
    words = [summary(x) for x in args] + [f"{k}={summary(v)}" for k, v in kwargs.items()]
    if len(words) > _MOST:
        words = [*words[:_MOST], f"... {len(words) - _MOST} more"]
    return f"{task_name(task)}({', '.join(words)})"


def describe(task: Task, given: list[Any]) -> str:
    """Return the note of a failed task, whose inputs had the values `given`."""
    file, line, function = place(task)
    return f"in lazyflow task {call_text(task, given)}, made at {file}:{line} in {function}"


def is_users_interrupt(error: BaseException) -> bool:
    """Tell whether this is Ctrl-C, which is the user's own and not the task's."""
    return (
        isinstance(error, KeyboardInterrupt)
        and threading.current_thread() is threading.main_thread()
    )


def _must_be_wrapped(error: BaseException) -> bool:
    if not isinstance(error, Exception) or isinstance(error, StopIteration | StopAsyncIteration):
        return True
    asyncio: Any = sys.modules.get("asyncio")
    futures: Any = sys.modules.get("concurrent.futures")
    return any(m is not None and isinstance(error, m.CancelledError) for m in (asyncio, futures))


_OURS = (
    os.path.dirname(os.path.abspath(__file__)) + os.sep,
    os.path.abspath(arguments.__file__),
)


def users_frames(trace: TracebackType | None) -> TracebackType | None:
    """Drop the leading frames of a traceback that are this package's."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    return trace


def dressed(error: BaseException, task: Task, given: list[Any]) -> BaseException:
    """Return the exception as the caller will see it: own frames only, note added, safe type."""
    error.__traceback__ = users_frames(error.__traceback__)
    try:
        note = describe(task, given)
    except Exception as broken:  # for example a binder over a hostile container
        note = f"in lazyflow task {task_name(task)} (its arguments can't be shown: {broken!r})"
    if _must_be_wrapped(error):
        wrapped = RemoteTaskError(
            f"a task raised {type(error).__name__}, which would end the caller if it were raised "
            f"as it is: {error!r}"
        )
        wrapped.__cause__ = error
        error = wrapped
    try:
        error.add_note(note)
    except Exception:  # an exception class may refuse attributes
        pass
    return error

"""Makes tasks of calls, and leaves of values."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from lazyflow.graph.binding import bind
from lazyflow.graph.kinds import LAZY, kinds
from lazyflow.graph.options import DEFAULT, NAMED, Options, annotation
from lazyflow.graph.task import Task, height_over


def new_task(
    cls: type[Task],
    func: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    options: Options = DEFAULT,
    *,
    key: str | None = None,
    traverse: bool = True,
    depth: int = 1,
) -> Any:
    """Return a task of any call; the line that made it is `depth` frames above this one."""
    note = annotation.get()
    if note is not None:
        options = note.apply(options)
    task = object.__new__(Task)
    if len(args) == 1 and kinds[type(args[0])] == LAZY and not kwargs:  # most operators and items
        task._inputs = task._args = args
        task._bind = None
        height = args[0]._height + 1
    else:
        task._inputs, binder = bind(args, kwargs or {}, options.mutates, traverse)
        if binder.holes or kwargs:
            task._bind, task._args = binder, ()
        else:
            task._bind, task._args = None, tuple(binder.template)
        height = height_over(task._inputs)
    task._func = func
    task._options = options
    frame = sys._getframe(depth)
    task._code = frame.f_code
    task._lasti = frame.f_lasti
    task._height = height
    task._key = key
    task.__class__ = cls  # last: Delayed refuses assignment
    return task


def new_leaf(
    cls: type[Task],
    func: Callable[..., Any],
    value: Any,
    key: str | None = None,
    *,
    made_at: Task | None = None,
    depth: int = 1,
) -> Any:
    """Return a leaf: ``func`` is VALUE or HELD; ``made_at`` is a task made at the same line."""
    leaf = object.__new__(Task)
    leaf._func = func
    leaf._args = (value,)
    leaf._inputs = ()
    leaf._bind = None
    leaf._options = DEFAULT if key is None else NAMED
    if made_at is not None:
        leaf._code, leaf._lasti = made_at._code, made_at._lasti
    else:
        frame = sys._getframe(depth)
        leaf._code, leaf._lasti = frame.f_code, frame.f_lasti
    leaf._height = 0
    leaf._key = key
    leaf.__class__ = cls
    return leaf

"""Copies of tasks that keep no other task or value alive.

A task points at its inputs, a held input at its future, and a future at its value in a worker.
The scheduler knows inputs by its own nodes, so the task that it keeps to make a lost value again
needs none of these references.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from lazyflow.graph.options import DEFAULT, Options
from lazyflow.graph.task import HELD, VALUE, Task, task_name


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


#: A task that is nobody's.
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

"""Copies of tasks that keep no other task or value alive.

A task points at its inputs, a held input at its future, and a future at its value in a worker.
The scheduler knows inputs by its own nodes, so the task that it keeps to make a lost value again
needs none of these references.
"""

from __future__ import annotations

from lazyflow.graph.options import Options
from lazyflow.graph.task import HELD, VALUE, Task, task_name


class _Named:
    """Stands for a future of which only the name is needed."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


def _copy(task: Task) -> Task:
    new = object.__new__(Task)
    new._func = task._func
    new._args = task._args
    new._inputs = task._inputs
    new._bind = task._bind
    new._options = task._options
    new._code, new._lasti = task._code, task._lasti
    new._height = task._height
    new._key = task._key
    return new


def _nothing() -> Task:
    task = object.__new__(Task)
    task._func, task._args, task._inputs, task._bind = VALUE, (None,), (), None
    task._options = Options()
    task._code, task._lasti, task._height, task._key = None, 0, 0, None
    return task


_NOTHING = _nothing()


def without_inputs(task: Task) -> Task:
    """Return a copy of a task that is called the same but refers to no other task or future."""
    new = _copy(task)
    if task._func is HELD:
        new._args = (_Named(task._args[0].name),)
        return new
    inputs = (_NOTHING,) * len(task._inputs)
    if task._args is task._inputs:
        new._args = inputs
    new._inputs = inputs
    return new


def name_only(task: Task) -> Task:
    """Return a task that has only the name and place of another, for messages."""
    new = _copy(_NOTHING)
    new._options = Options(label=task_name(task))
    new._code, new._lasti = task._code, task._lasti
    return new

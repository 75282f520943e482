"""Names of tasks as text, made only when something needs one.

A key that the user gave is used as it is. A pure task, and an operator on anything, is named by
its function, its arguments and the keys of its inputs; every other task gets a name that no
other task has. Once made, a key stays with its task, also through pickle.
"""

from __future__ import annotations

import threading
import weakref
from os import urandom
from typing import Any

from lazyflow.departures import WeakTable
from lazyflow.errors import KeyConflict
from lazyflow.graph.task import HELD, Task, function_name, is_leaf, place_text, set_key

#: The future of a task under a given key -> the task, while it lives, and its content.
_held: WeakTable[Any, tuple[weakref.ref[Task], str]] = WeakTable()

_naming = threading.Lock()  # two threads that ask at once get one name


def key_of(task: Task) -> str:
    """Return the key of a task; it and the keys that it is derived from are made when needed.

    >>> from lazyflow import delayed
    >>> key_of(delayed(5, name="five"))
    'five'
    >>> f = delayed(abs, pure=True)
    >>> key_of(f(-1)) == key_of(f(-1)), key_of(f(-1)) == key_of(f(-2))
    (True, False)
    """
    stack = [task]
    while stack:
        top = stack[-1]
        if top._key is not None:
            stack.pop()
        elif top._options.pure or top._options.operator:
            unnamed = [x for x in top._inputs if x._key is None]
            if unnamed:
                stack.extend(unnamed)
            else:
                set_key(top, f"{_prefix(top)}-{content_token(top)}")
        else:
            with _naming:
                if top._key is None:
                    set_key(top, f"{_prefix(top)}-{urandom(16).hex()}")
    assert task._key is not None
    return task._key


def _prefix(task: Task) -> str:
    """Return the word a key starts with; not the label, which equal tasks need not share."""
    return type(task._args[0]).__name__ if is_leaf(task) else function_name(task._func)


class _Input:
    """Stands among the arguments for the value of an input, whose key is its content."""

    __slots__ = ("key",)

    def __init__(self, key: str) -> None:
        self.key = key

    def __lazyflow_tokenize__(self) -> str:
        return self.key


def content_token(task: Task) -> str:
    """Return the hash of a task's function, arguments and input keys."""
    from lazyflow.graph.tokens.tokenize import tokenize, unique_token

    if task._func is HELD:
        held = _held.get(task._args[0])
        return held[1] if held is not None else unique_token()
    inputs = [key_of(x) for x in task._inputs]
    binder = task._bind
    if binder is None:
        literals = [None] * len(inputs) if inputs else list(task._args)
        return tokenize(task._func, literals, list(range(len(inputs))), inputs)
    if not binder.makers and not binder.names:
        places = [position for position, _ in binder.holes]  # type: ignore[misc]
        return tokenize(task._func, binder.template, places, inputs)
    try:  # filled as for a run, since the order of sets and keywords must not count
        args, kwargs = binder.fill([_Input(key) for key in inputs])
    except Exception:  # a container of the user's that takes only real values
        parts = (binder.template, binder.holes, binder.makers, binder.n_positional, binder.names)
        return tokenize(task._func, parts, inputs)
    return tokenize(task._func, args, kwargs)


def hold_content(future: Any, task: Task) -> None:
    """Note that the future of a task's value has the content of the task, which has a given key."""
    try:
        token = content_token(task)
    except Exception:  # a __lazyflow_tokenize__ that raises must not stop a persist
        token = f"unknown-{id(future)}"
    _held[future] = (weakref.ref(task), token)


def _origin(task: Task) -> Task | None:
    held = _held.get(task._args[0]) if task._func is HELD else None
    return task if held is None else held[0]()


def same_content(one: Task, other: Task) -> bool:
    """Tell whether two tasks that carry one key are the same call on equal arguments."""
    origin = _origin(one)
    if origin is not None and origin is _origin(other):
        return True
    return content_token(one) == content_token(other)


def conflict(one: Task, other: Task) -> KeyConflict:
    """Return the error for two different tasks under one key."""

    def line_of(task: Task) -> str:
        what = "value" if is_leaf(task) else function_name(task._func)
        return f"  {what}, made at {place_text(task)}"

    return KeyConflict(
        f"the key {key_of(one)!r} was given to two different tasks:\n"
        f"{line_of(one)}\n{line_of(other)}\n"
        "Give each its own dask_key_name= (or name=); for a label that several tasks may share, "
        "use lazyflow.annotate(name=...)."
    )



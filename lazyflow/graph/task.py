"""A task: one call to run, which points at the tasks whose results it needs.

A graph consists only of tasks that point at their inputs. A task never changes once it is made, so
it can be shared, planned by several threads at once, and kept. `Delayed` (api/lazy.py) is this
class with operators: one object per call, not an object and a proxy. It refuses assignment. A bare
`Task` is lazyflow's own, made when a graph is planned or arrays are lowered; users get none, so it
refuses nothing.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

from lazyflow.graph.arguments import Binder
from lazyflow.graph.kinds import LAZY
from lazyflow.graph.options import Options

Place = tuple[str, int, str]  # file, line, qualified name of the function


class Task:
    """One call to run; made by ``binding.new_task``, or field by field on the hottest path.

    Whoever makes a task may fill in its fields before anything else has it; then none changes.
    All fields are private, since public names belong to the user's value:

    _func       the function; VALUE or HELD for a leaf
    _args       the arguments as given when they hold no container, ``(value,)`` for a leaf
    _inputs     the tasks among the arguments, in order, repeated when used twice;
                the very object `_args` when every argument is a task
    _bind       None when the inputs, or `_args` without inputs, are the positional arguments;
                else a Binder
    _options    Options, shared
    _code       code object of the line that made it, or a Place once pickled
    _lasti      offset in that code
    _height     longest path to a leaf; planning runs the higher input first
    _key        name as text, once it was needed
    """

    __slots__ = (
        "__weakref__",
        "_args",
        "_bind",
        "_code",
        "_func",
        "_height",
        "_inputs",
        "_key",
        "_lasti",
        "_options",
    )
    _lazyflow_kind = LAZY
    _owns_arguments = False  # the arguments of an actor's calls are its own, to be edited

    _func: Callable[..., Any]
    _args: tuple[Any, ...]
    _inputs: tuple[Task, ...]
    _bind: Binder | None
    _options: Options
    _code: CodeType | Place | None
    _lasti: int
    _height: int
    _key: str | None


_key_slot: Any = Task.__dict__["_key"]


def set_key(task: Task, key: str) -> None:
    """Give a task its name as text: the only field that is filled in once others have the task."""
    _key_slot.__set__(task, key)


height_of = operator.attrgetter("_height")


def height_over(inputs: Sequence[Task]) -> int:
    """Return one more than the longest path below these inputs, 0 without inputs."""
    return max(map(height_of, inputs)) + 1 if inputs else 0


def VALUE(value: Any) -> Any:
    """Mark a leaf whose only argument is its value."""
    return value


def HELD(future: Any) -> Any:
    """Mark a leaf whose only argument is the future of a value made by an earlier run."""
    return future.result()


def users_depth() -> int:
    """Return the number of frames between the caller and the first line of the user's code."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("lazyflow."):
        depth, frame = depth + 1, frame.f_back
    return depth


def call_arguments(task: Task, given: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments that a task is called with, for these values of its inputs."""
    if task._bind is not None:
        return task._bind.fill(given)
    return (given if task._inputs else list(task._args)), {}


def is_hidden(value: Any) -> bool:
    """Tell whether something is the result of a task that is hidden as a whole."""
    return isinstance(value, Task) and value._options.hide is True


def is_leaf(task: Task) -> bool:
    """Tell whether a task is a value rather than a call."""
    return task._func is VALUE or task._func is HELD


def place(task: Task) -> Place:
    """Return file, line and function of the line that made a task."""
    code = task._code
    if code is None:
        return ("<unknown>", 0, "<unknown>")
    if isinstance(code, tuple):
        return code
    return (code.co_filename, line_of(code, task._lasti), code.co_qualname)


def line_of(code: CodeType, lasti: int) -> int:
    """Return the line of an offset in code."""
    for start, end, line in code.co_lines():
        if start <= lasti < end:
            return line or code.co_firstlineno
    return code.co_firstlineno


def attribute_of(getter: Any) -> str:
    """Return the attribute that an attrgetter gets."""
    return str(getter.__reduce__()[1][0])


def place_text(task: Task) -> str:
    """Return where a task was made, as text: ``file.py:12 in main``, or a notebook's cell."""
    file, line, function = place(task)
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is not None:
        try:
            cell = shell.compile.format_code_name(file)  # ("Cell", "In[3]") for its cells
        except Exception:  # another shell, or another version of it
            cell = None
        if cell:
            file = " ".join(cell)
    return f"{file}:{line} in {function}"


def function_name(func: Any) -> str:
    """Return the short name of any callable.

    >>> function_name(len)
    'len'
    """
    if isinstance(func, operator.attrgetter):
        return f".{attribute_of(func)}"
    try:
        for _ in range(10):  # partials of partials
            if not hasattr(func, "func") or hasattr(func, "__name__"):
                break
            func = func.func
        name = func.__name__
    except Exception:  # a hostile __getattr__ must not stop an error message
        name = None
    return name if isinstance(name, str) else type(func).__name__


def task_name(task: Task) -> str:
    """Return a task's name in messages: its label, its given key, or its function's name."""
    options = task._options
    if options.label is not None:
        return options.label
    if options.named and task._key is not None:
        return task._key
    if task._func is HELD:
        return str(task._args[0].name)
    return "value" if task._func is VALUE else function_name(task._func)

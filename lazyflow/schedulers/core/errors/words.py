"""A call and its arguments in a few words, for errors, `repr`, drawings and pages.

Scalars are shown by value, where the user has not said otherwise; everything else by type and
shape. Two things keep a value out of them: ``config.set(show_values="none")``, for all values,
and ``delayed(f, hide="password")`` for those of a task.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lazyflow import config
from lazyflow.graph.kinds import ATOM
from lazyflow.graph.task import Task, call_arguments, function_name, is_hidden, task_name

_SCALARS = (int, float, complex, bool, str, bytes, type(None))
_LONGEST = 60  # characters of one argument
_MAX_ARGUMENTS = 8  # arguments of one call
_HIDDEN = "<hidden>"


def on_messages() -> bool:
    """Tell whether messages and `repr` show scalars by value."""
    return config.get("show_values") != "none"


def on_pages() -> bool:
    """Tell whether pages and drawings, which others may come to see, show scalars by value."""
    return config.get("show_values") == "scalars"


def summary(value: Any, scalars: bool | None = None) -> str:
    """Describe an argument in a few words: scalars by value, everything else by type and shape.

    Parameters
    ----------
    scalars
        False: scalars are shown by their type, too; None: as the settings say for messages.

    Examples
    --------
    >>> summary(3), len(summary("x" * 80)), summary("x", scalars=False)
    ('3', 60, 'str')
    >>> summary([1, 2, 3]), summary({"a": 1})
    ('list of 3', 'dict of 1')
    """
    kind = type(value)
    if kind in _SCALARS:
        if not (on_messages() if scalars is None else scalars):
            return kind.__name__
        if kind is int and value.bit_length() > 256:
            return f"int of {value.bit_length()} bits"
        text = repr(value[: _LONGEST + 1] if kind in (str, bytes) else value)
        return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
    if issubclass(kind, Task):
        return f"<{task_name(value)}>"
    try:
        shown = getattr(kind, "_lazyflow_summary", None)  # of arguments that lazyflow has put there
        if shown is not None:
            return str(shown(value))
        if isinstance(getattr(value, "shape", None), tuple):
            dtype = f" {value.dtype}" if hasattr(value, "dtype") else ""
            return f"{kind.__name__}{value.shape}{dtype}"
        if kind in (list, tuple, dict, set, frozenset):
            return f"{kind.__name__} of {len(value)}"
        if getattr(kind, "_lazyflow_kind", None) == ATOM and kind.__repr__ is not object.__repr__:
            return repr(value)[:_LONGEST]  # of ours, with a name of its own
    except BaseException:  # a hostile object must not stop an error message
        pass
    return kind.__name__


def leaf_text(leaf: Task, scalars: bool | None = None) -> str:
    """Describe the value of a leaf, unless it is hidden."""
    return _HIDDEN if leaf._options.hide else summary(leaf._args[0], scalars)


def call_words(
    args: Sequence[Any], kwargs: dict[str, Any], scalars: bool | None = None
) -> tuple[str, ...]:
    """Describe the arguments of a call, one after the other.

    >>> call_words([1, [2, 3]], {"k": 0.5})
    ('1', 'list of 2', 'k=0.5')
    """
    words = [summary(x, scalars) for x in args]
    words += [f"{k}={summary(v, scalars)}" for k, v in kwargs.items()]
    if len(words) > _MAX_ARGUMENTS:
        words = [*words[:_MAX_ARGUMENTS], f"... {len(words) - _MAX_ARGUMENTS} more"]
    return tuple(words)


def call_text(task: Task, given: list[Any] | None, scalars: bool | None = None) -> str:
    """Write a task as a call, with the values `given` for its inputs.

    None for `given`: its values are unknown, and the text is its name alone.
    """
    if given is None:
        return task_name(task)
    try:
        return call_in_words(task, call_words(*call_arguments(task, given), scalars))
    except BaseException:  # hostile arguments, or a container that takes only real values
        return f"{task_name(task)}(...)"


def call_in_words(task: Task, words: Sequence[str] | None) -> str:
    """Write a task as a call whose arguments are described by `words`, as `call_words` does."""
    if words is None:
        return task_name(task)
    return f"{task_name(task)}({', '.join(_without_hidden(task, words))})"


def _without_hidden(task: Task, words: Sequence[str]) -> Sequence[str]:
    """Return the words with another in the place of those that the user hides."""
    hide = task._options.hide
    if not hide and not any(map(is_hidden, task._inputs)):
        return words
    try:
        args, kwargs = call_arguments(task, list(task._inputs))
    except Exception:  # a container that takes only real values
        return [_HIDDEN]
    position, keyword = _hiding(task._func, hide)
    kept = [
        _HIDDEN if position(at) or is_hidden(value) else word
        for at, (value, word) in enumerate(zip(args, words, strict=False))
    ]
    kept += [
        f"{name}={_HIDDEN}" if keyword(name) or is_hidden(value) else word
        for (name, value), word in zip(kwargs.items(), words[len(args) :], strict=False)
    ]
    return [*kept, *words[len(kept) :]]  # "... more"


def _hiding(
    func: Callable[..., Any], hide: tuple[str, ...] | bool
) -> tuple[Callable[[int], bool], Callable[[str], bool]]:
    """Return whether a positional argument is hidden, by its place, and a keyword, by its name.

    An argument that can't be told from a hidden one is hidden: those of a function whose
    parameters are not known, and ``*args`` that may be passed on to such a parameter.
    """
    if isinstance(hide, bool):
        return (lambda at: hide), (lambda name: hide)
    parameters = _ParameterNames(func)
    rest = not parameters.named | {parameters.keywords} >= set(hide)
    return (
        lambda at: parameters.positional[at] in hide if at < len(parameters.positional) else rest,
        lambda name: name in hide or (parameters.keywords in hide and name not in parameters.named),
    )


class _ParameterNames:
    """The names of a function's parameters.

    `is_open`: it takes arguments of any number or name, or its signature is not known.
    """

    def __init__(self, func: Callable[..., Any]) -> None:
        import inspect  # takes 5 ms

        self.positional: list[str] = []
        self.named: set[str] = set()
        self.keywords: str | None = None  # of ``**keywords``
        self.is_open = False
        try:
            parameters = inspect.signature(func).parameters
        except Exception:  # a function of C, or an object with a signature that can't be read
            self.is_open = True
            return
        for name, parameter in parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                self.keywords = name
            if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                self.is_open = True
                continue
            self.named.add(name)
            if parameter.kind is not parameter.KEYWORD_ONLY:
                self.positional.append(name)


def check_hidden(func: Callable[..., Any], hide: tuple[str, ...] | bool) -> None:
    """Raise a TypeError for a name to be hidden that is not a parameter's."""
    if isinstance(hide, bool):
        return
    parameters = _ParameterNames(func)
    for name in hide:
        if not parameters.is_open and name not in parameters.named:
            names = sorted(parameters.named)
            raise TypeError(
                f"hide={name!r}: {function_name(func)} has no such parameter"
                f"{config.nearest(name, names)} It has: {', '.join(names)}"
            )

"""Where inside a value the object is that can't be pickled.

`pickle` says what it refused, and not where that is. The search descends from the value: of the
parts of an object, as pickle would see them, it takes the first that can't be pickled alone, until
all parts can be and only the object itself is left. It halves the list of parts at each try, so a
level costs about twice the failed pickling. It is bounded in depth and time and has no recursion of
its own; an exception of the user's code on the way ends it with the path found so far.
"""

from __future__ import annotations

import threading
from time import monotonic
from typing import Any

from lazyflow.errors import SerializationError
from lazyflow.store.pickling.nested import InsideOut
from lazyflow.store.pickling.parts import named_parts, type_text
from lazyflow.store.pickling.pickler import Pickler, PieceWriter

__all__ = ["Unpicklable", "dump", "serialization_error"]

_DEEPEST = 50  # steps of a path; a guess, like the next
_SECONDS = 2.0  # of a search
_LONGEST = 300  # characters of the cause in the message


class Unpicklable(Exception):
    """A value can't be pickled.

    Attributes
    ----------
    path : str
        Where in the value the object is: ``.lock``, ``[3].conn``, ``closure variable 'lock' of
        f``; empty: the value itself.
    error : BaseException
        The exception that pickle, or the user's code that it called, raised.
    culprit : str
        The type of that object, if known.
    """

    def __init__(self, path: str, error: BaseException, culprit: str = "") -> None:
        super().__init__(path, error, culprit)
        self.path = path
        self.error = error
        self.culprit = culprit


def dump(value: Any, pickler: Pickler, explain: bool = True) -> None:
    """Pickle a value.

    Parameters
    ----------
    explain
        Whether to look for what can't be pickled, which may take a second; else the error has
        neither path nor culprit.

    Raises
    ------
    Unpicklable
        Anything but `MemoryError` and the user's own Ctrl-C was raised on the way.
    """
    failure = _failure(value, pickler)
    if isinstance(failure, RecursionError):
        inside_out = InsideOut(value)
        if inside_out.inner:
            pickler.forget()
            failure = _failure(inside_out, pickler)
        del inside_out
    if failure is None:
        return
    path, culprit = _search(value, failure) if explain else ("", "")
    try:
        raise Unpicklable(path, failure, culprit)
    finally:  # the error holds this frame: it must not hold the error, nor the value
        del value, failure, pickler


def _failure(value: Any, pickler: Pickler) -> BaseException | None:
    """Pickle a value; return the exception that prevented it, or None."""
    try:
        pickler.dump(value)
        return None
    except MemoryError:
        raise
    except BaseException as error:
        if _is_ctrl_c(error):
            raise
        return error
    finally:  # the error holds this frame
        del value, pickler


def _is_ctrl_c(error: BaseException) -> bool:
    return (
        isinstance(error, KeyboardInterrupt)
        and threading.current_thread() is threading.main_thread()
    )


def serialization_error(task_text: str, role: str, failed: Unpicklable) -> SerializationError:
    """Return the error that the caller sees.

    Parameters
    ----------
    task_text : str
        The name of the task and the line that made it.
    role : str
        The part of the task: ``args[0]``, ``the result``, ``the function``.

    Examples
    --------
    >>> print(serialization_error("f", "args[0]", Unpicklable(".lock", TypeError("no"), "lock")))
    args[0].lock of task f can't be pickled, so it can't pass between processes.
    It is of type lock; the cause is TypeError: no
    Make it inside the task that uses it, leave it out by a __getstate__ of its owner, or run where
    nothing is pickled: scheduler="threads".
    """
    error, path = failed.error, failed.path
    if path and path[0] not in ".[":
        path = f", {path},"
    if isinstance(error, RecursionError):
        cause = (
            "its objects are nested too deeply for pickle, or a __reduce__ calls itself without "
            "end: keep long chains in a flat list"
        )
    else:
        cause = f"the cause is {type(error).__name__}: {_text(error)}"
    if failed.culprit:
        cause = f"it is of type {failed.culprit}; {cause}"
    found = SerializationError(
        f"{role}{path} of task {task_text} can't be pickled, so it can't pass between processes.\n"
        f"{cause[0].upper()}{cause[1:]}\n"
        f"Make it inside the task that uses it, leave it out by a __getstate__ of its owner, or "
        f'run where\nnothing is pickled: scheduler="threads".'
    )
    found.__cause__ = error
    return found


def _text(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException as broken:
        return f"(its text can't be had: __str__ raised {type(broken).__name__})"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


# -- the search -----------------------------------------------------------------------------


class _Probe(Pickler):
    """Pickles to see whether it can be done; the objects on the path count as pickled.

    Otherwise a part that refers back to the whole would be blamed for another part of it.
    """

    def __init__(self, passed: dict[int, Any]) -> None:
        super().__init__(PieceWriter(), 1)
        self.passed = passed

    def persistent_id(self, obj: Any) -> Any:
        return 0 if id(obj) in self.passed else None


class _CulpritSearch:
    """A descent from a value to the object in it that can't be pickled."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.path: list[str] = []
        self.passed = {id(value): value}  # held, so that no id is used again
        self.end = monotonic() + _SECONDS
        self.is_cut = False

    def run(self) -> None:
        while True:
            found = self._next()
            if found is None:
                return
            if len(self.path) == _DEEPEST:
                self.is_cut = True
                return
            name, self.value = found
            self.path.append(name)
            self.passed[id(self.value)] = self.value

    def _next(self) -> tuple[str, Any] | None:
        rest = named_parts(self.value)
        while True:
            try:
                group = next(rest, None)
                if group is None:
                    return None
                if not self._can_pickle(group.values):
                    bad = self._first_bad(group.values)
                    at = next(i for i, each in enumerate(group.values) if each is bad)
                    return group.name(at), bad
            except BaseException as error:  # from the user's code
                if _is_ctrl_c(error):
                    raise
                return None

    def _first_bad(self, values: list[Any]) -> Any:
        while len(values) > 1:
            half = len(values) // 2
            is_left = not self._can_pickle(values[:half])
            values = values[:half] if is_left else values[half:]
        return values[0]

    def _can_pickle(self, values: list[Any]) -> bool:
        if monotonic() > self.end:
            self.is_cut = True
            raise TimeoutError
        try:
            _Probe(self.passed).dump(values)
            return True
        except BaseException as error:
            if _is_ctrl_c(error):
                raise
            return False


def _search(value: Any, failure: BaseException) -> tuple[str, str]:
    """Return the path to the object that can't be pickled, and its type."""
    search = _CulpritSearch(value)
    search.run()
    if search.is_cut and isinstance(failure, RecursionError):
        return "", type_text(value)  # no single object is to blame
    path = "".join(search.path) + (", somewhere in it" if search.is_cut else "")
    return path.removeprefix(", "), type_text(search.value)

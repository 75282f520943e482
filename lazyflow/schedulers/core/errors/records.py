"""Exceptions as plain data: recorded where a task failed, rebuilt in the caller.

A record is made of builtins that `marshal` can carry, so that reading one can't fail as
unpickling an exception can. It has each exception that belongs to an error (causes, contexts,
members of groups) by its type, text, notes, frames and, where it can travel, its pickled form.
"""

from __future__ import annotations

from collections.abc import Iterator
from pickle import PicklingError
from typing import Any, NamedTuple

from lazyflow.errors import RemoteTaskError
from lazyflow.schedulers.core.errors.failures import (
    is_users_interrupt,
    notes_of,
    text_of,
    traceback_of,
    users_frames,
)
from lazyflow.schedulers.core.errors.pickles import LONGEST, pickled, reason, unpickled
from lazyflow.schedulers.core.errors.tracebacks import Frame, frames_of, plain, traceback_from

_MOST_NOTES = 100
_MOST = 1_000  # exceptions in a record

#: Taken from BaseException and type, as classes and metaclasses may override these.
_cause: Any = BaseException.__dict__["__cause__"]
_context: Any = BaseException.__dict__["__context__"]
_suppress: Any = BaseException.__dict__["__suppress_context__"]
_dict: Any = BaseException.__dict__["__dict__"]
_members: Any = BaseExceptionGroup.__dict__["exceptions"]
_module: Any = type.__dict__["__module__"]
_qualname: Any = type.__dict__["__qualname__"]


class _Entry(NamedTuple):
    """The part of a record for one exception; sent as the plain tuple of its fields.

    Other exceptions are given by their place in the record, in which what an exception is made
    of comes before it. `pickled` is None for what can't travel, for the reason `why`.
    """

    module: str
    name: str
    text: str
    notes: tuple[str, ...]
    frames: tuple[tuple[Any, ...], ...]
    pickled: bytes | None
    why: str
    cause: int | None
    context: int | None
    suppress: bool
    members: tuple[int, ...]

    def full_name(self) -> str:
        known = self.module in ("", "builtins", "__main__")  # as in printed tracebacks
        return self.name if known else f"{self.module}.{self.name}"


_NOT_IN_MAIN = (
    "in a worker, functions and classes of the program itself are not found in __main__, where "
    "multiprocessing.Pool and others look for them by name. Put them into a module and import it, "
    "or compute delayed calls inside the task, which run in its worker."
)


def record(error: BaseException, arguments: tuple[str, ...] = ()) -> tuple[Any, ...]:
    """Describe an exception with what belongs to it, as plain data. Never raises.

    Parameters
    ----------
    error
        Any exception, however hostile its class. Its traceback is cut to the task's own frames,
        the first and last 50 of them; messages and notes to 10,000 characters; all that belongs
        to it to 1,000 exceptions.
    arguments
        The task's arguments in words, for `arguments_of`.

    Examples
    --------
    >>> try:
    ...     {}["x"]
    ... except KeyError as error:
    ...     data = record(error)
    >>> import marshal
    >>> rebuilt(marshal.loads(marshal.dumps(data)))
    KeyError('x')
    """
    try:
        if type(error) is PicklingError and "__main__" in text_of(error):
            error.add_note(_NOT_IN_MAIN)
        family = _family(error)
        places = {id(one): i for i, one in enumerate(family)}
        entries = tuple(tuple(_entry(one, family, places)) for one in family)
        return entries, tuple(plain(text, LONGEST) for text in arguments)
    except BaseException as broken:  # for example MemoryError
        return (tuple(_undescribed(error, broken)),), ()


def rebuilt(record: tuple[Any, ...]) -> BaseException:
    """Make the exception that a record describes.

    It has the type it had where that can travel, else it is a `RemoteTaskError` with the name of
    that type, the text and the place. Its traceback is real: it shows the frames of the task.
    Never raises, but for the user's own Ctrl-C.
    """
    try:
        entries = [_Entry(*fields) for fields in record[0]]
        errors: list[BaseException] = []
        for entry in entries:
            errors.append(_error_of(entry, errors))
        for entry, error in zip(entries, errors, strict=True):
            _join(entry, error, errors)
        return errors[-1]
    except BaseException as broken:
        if is_users_interrupt(broken):
            raise
        return RemoteTaskError(
            "a task raised an exception that can't be read here "
            f"({type(broken).__name__}: {text_of(broken):.1000}); does the worker have the "
            "version of lazyflow that the caller has?"
        )


def arguments_of(record: tuple[Any, ...]) -> tuple[str, ...]:
    """Return the arguments in words that were given to `record`."""
    words: tuple[str, ...] = record[1]
    return words


# -- recording ------------------------------------------------------------------------------


def _relatives(error: BaseException) -> Iterator[BaseException]:
    """Yield the members of a group, the cause and the context."""
    if issubclass(type(error), BaseExceptionGroup):
        yield from _members.__get__(error)
    for link in (_cause, _context):
        other = link.__get__(error)
        if other is not None:
            yield other


def _family(root: BaseException) -> list[BaseException]:
    """Return an exception after all the exceptions that belong to it."""
    ordered = []
    seen = {id(root)}
    stack = [(root, _relatives(root))]
    while stack:
        error, relatives = stack[-1]
        for other in relatives:
            if id(other) not in seen and len(seen) < _MOST:
                seen.add(id(other))
                stack.append((other, _relatives(other)))
                break
        else:
            stack.pop()
            ordered.append(error)
    return ordered


def _entry(error: BaseException, family: list[BaseException], places: dict[int, int]) -> _Entry:
    try:
        kind = type(error)
        text = text_of(error)
        data, why = pickled(error, text, family, places)
        cause, context = _cause.__get__(error), _context.__get__(error)
        is_group = issubclass(kind, BaseExceptionGroup)
        members = [places.get(id(one)) for one in _members.__get__(error)] if is_group else []
        return _Entry(
            module=_module_of(kind),
            name=plain(_qualname.__get__(kind), LONGEST),
            text=plain(text, LONGEST),
            notes=_notes(error, places) + ((why,) if data is not None and why else ()),
            frames=tuple(map(tuple, frames_of(users_frames(traceback_of(error))))),
            pickled=data,
            why=why,
            cause=None if cause is None else places.get(id(cause)),
            context=None if context is None else places.get(id(context)),
            suppress=_suppress.__get__(error),
            members=tuple(i for i in members if i is not None),
        )
    except BaseException as broken:
        return _undescribed(error, broken)


def _undescribed(error: BaseException, broken: BaseException) -> _Entry:
    why = f"{type(broken).__name__} was raised while it was described"
    return _Entry(
        "", type(error).__name__, "its text is lost", (), (), None, why, None, None, False, ()
    )


def _module_of(kind: type) -> str:
    try:
        module = _module.__get__(kind)
    except AttributeError:
        return ""
    return plain(module, LONGEST) if isinstance(module, str) else ""


def _notes(error: BaseException, places: dict[int, int]) -> tuple[str, ...]:
    notes = [plain(note, LONGEST) for note in notes_of(error)[:_MOST_NOTES]]
    lost = sum(id(one) not in places for one in _relatives(error))
    if lost:
        notes.append(f"({lost} of the exceptions that belong to this one were left out)")
    return tuple(notes)


# -- rebuilding -----------------------------------------------------------------------------


def _error_of(entry: _Entry, errors: list[BaseException]) -> BaseException:
    """Make one exception of a record; its members are in `errors` already."""
    if entry.pickled is None:
        return _stand_in(
            entry,
            errors,
            f"It can't be pickled ({entry.why}): a __reduce__ method of its class can leave out "
            "what can't",
        )
    try:
        error = unpickled(entry.pickled, errors)
        if issubclass(type(error), BaseException):
            return error
        why = f"it gives {type(error).__name__}"
    except BaseException as broken:
        if is_users_interrupt(broken):
            raise
        why = reason(broken)
    return _stand_in(entry, errors, f"It can't be unpickled here ({why})")


def _stand_in(entry: _Entry, errors: list[BaseException], why: str) -> RemoteTaskError:
    place = ""
    if entry.frames:
        last = Frame(*entry.frames[-1])
        place = f" at {last.file}:{last.line}, in {last.name}"
    error = RemoteTaskError(f"a task raised {entry.full_name()}({entry.text}){place}. {why}")
    if entry.members:
        members = [errors[i] for i in entry.members]
        error.__cause__ = BaseExceptionGroup("its members", members)
    return error


def _join(entry: _Entry, error: BaseException, errors: list[BaseException]) -> None:
    """Set the traceback, notes, cause and context of an exception."""
    frames = [Frame(*fields) for fields in entry.frames]
    BaseException.with_traceback(error, traceback_from(frames))
    if entry.cause is not None:
        _cause.__set__(error, errors[entry.cause])
    _context.__set__(error, None if entry.context is None else errors[entry.context])
    _suppress.__set__(error, entry.suppress)
    if entry.notes:
        _dict.__get__(error)["__notes__"] = list(entry.notes)

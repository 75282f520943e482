"""Exceptions as plain data: recorded where a task failed, rebuilt in the caller.

A record is made of builtins that `marshal` can carry, so that reading one can't fail as
unpickling an exception can. It has each exception that belongs to an error (causes, contexts,
members of groups) by its type, text, notes, frames and, where it can travel, its pickled form.

Policy: the user sees the exception that the task raised, of the same class, with the traceback of
the task's own frames. What can't travel is left out piece by piece, and a note says what was left
out; if all else fails, a `RemoteTaskError` with the class's name and the text stands in. Neither
`record` nor `rebuilt` runs the ``__init__`` of an exception again, unless its class says so, and
code of a class that fails here never ends the worker. All sizes are limited.

The way of an error::

    worker   record(error):  _family      error, its causes, contexts and members, parts first
                             _entry       of each: texts, `frames_of`, `pickled`
    socket   ((module, name, text, notes, frames, pickled or None, why, ...), ...)
    caller   rebuilt(data):  _error_of    of each: `unpickled`, or else `_stand_in`
                             _join        traceback, notes, cause, context by their places

The module has no state, except for a cache of the code objects of frames (`_code`) and the class
of the pickler, which is made at first use. A record, once made, is not changed.
"""

from __future__ import annotations

import copyreg
import io
import os
import pickle
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import islice
from pickle import PicklingError
from types import (
    BuiltinFunctionType,
    CodeType,
    FrameType,
    FunctionType,
    MemberDescriptorType,
    MethodDescriptorType,
    TracebackType,
    WrapperDescriptorType,
)
from typing import Any, NamedTuple

from lazyflow.errors import RemoteTaskError
from lazyflow.interrupts import is_users_interrupt
from lazyflow.schedulers.core.errors.failures import (
    notes_of,
    text_of,
    traceback_of,
    users_frames,
)
from lazyflow.store.pickling.classes import class_by_value, is_by_value

# -- tracebacks as plain data, and real tracebacks made of it in another process ----------
#
# The copy can be raised, printed by the interpreter and read by `traceback`: it shows file, line,
# source and the marks under it as the first one did. Its frames have no local variables.

_FIRST = _LAST = 50  # frames kept at each end of a traceback
_LONGEST = 1_000  # characters of a name


class Frame(NamedTuple):
    """A place in a traceback; sent as the plain tuple of its fields.

    `first` is the line where its function begins: IPython counts a cell's lines from there.
    """

    file: str
    line: int
    name: str
    qualname: str
    module: str
    end_line: int | None
    column: int | None
    end_column: int | None
    first: int


def plain(text: str, longest: int) -> str:
    """Return a string as an exact `str`, cut to the length given.

    >>> plain("abcdef", 3)
    'abc... (6 characters in all)'
    """
    # The methods are those of str: a subclass may have others, and can't be marshalled.
    length = str.__len__(text)
    start = str.__getitem__(text, slice(0, longest))
    return start if length <= longest else f"{start}... ({length} characters in all)"


def frames_of(trace: TracebackType | None) -> list[Frame]:
    """Describe a traceback, its first and last 50 frames if there are more."""
    all_of_them = []
    while trace is not None:
        all_of_them.append(trace)
        trace = trace.tb_next
    left_out = len(all_of_them) - _FIRST - _LAST
    if left_out <= 0:
        return [_frame_of(at) for at in all_of_them]
    mark = Frame(f"<{left_out} more frames>", 1, "...", "...", "", None, None, None, 1)
    return [
        *map(_frame_of, all_of_them[:_FIRST]),
        mark,
        *map(_frame_of, all_of_them[-_LAST:]),
    ]


def _frame_of(at: TracebackType) -> Frame:
    code, lasti = at.tb_frame.f_code, at.tb_lasti
    line, end_line, column, end_column = None, None, None, None
    if lasti >= 0:
        nothing = (None, None, None, None)
        line, end_line, column, end_column = next(
            islice(code.co_positions(), lasti // 2, None), nothing
        )
    if line != at.tb_lineno:  # the traceback was given a line by hand
        line, end_line, column, end_column = at.tb_lineno, None, None, None
    module = dict.get(at.tb_frame.f_globals, "__name__")
    return Frame(
        _file_name(code),
        max(line or 0, 0),
        plain(code.co_name, _LONGEST),
        plain(code.co_qualname, _LONGEST),
        plain(module, _LONGEST) if isinstance(module, str) else "",
        end_line,
        column,
        end_column,
        code.co_firstlineno,
    )


def _file_name(code: CodeType) -> str:
    name = plain(code.co_filename, _LONGEST).replace("\0", "\\0")
    try:
        os.fsencode(name)
    except UnicodeEncodeError:  # printing it would fail
        name = name.encode("utf-8", "backslashreplace").decode()
    return name


def traceback_from(frames: list[Frame]) -> TracebackType | None:
    """Make a traceback of frames that were described, maybe in another process."""
    trace = None
    for frame in reversed(frames):
        code, lasti = _code(frame)
        trace = TracebackType(trace, _frame(code, frame), lasti, frame.line)
    return trace


def _frame(code: CodeType, frame: Frame) -> FrameType:
    # The frame of a generator that waits refers to no frame that called it, so it keeps nothing
    # of the caller's process alive. It has gone to its yield, since IPython asks it for its line.
    made = FunctionType(code, {"__name__": frame.module, "__file__": frame.file})()
    next(made)
    made_frame: FrameType = made.gi_frame
    return made_frame


@lru_cache(1024)
def _code(frame: Frame) -> tuple[CodeType, int]:
    """Return code that stands where the frame did, and the offset of its instruction there."""
    place = (frame.line, frame.end_line, frame.column, frame.end_column)
    code = _code_at(frame.first, *place) or _code_at(frame.line, frame.line, frame.line, 0, 0)
    assert code is not None
    places = list(code.co_positions())
    lasti = 2 * places.index(place) if place in places else -1
    return (
        code.replace(co_filename=frame.file, co_name=frame.name, co_qualname=frame.qualname),
        lasti,
    )


def _code_at(
    first: int, line: int, end_line: int | None, column: int | None, end_column: int | None
) -> CodeType | None:
    """Return the code of a generator that begins at a line and yields at a place in a file.

    None if there is no such place.
    """
    import ast

    if end_line is None or column is None or end_column is None:
        return None
    ends: dict[str, Any] = {
        "lineno": line,
        "end_lineno": end_line,
        "col_offset": column,
        "end_col_offset": end_column,
    }
    whole = ends | {"lineno": first, "col_offset": 0} if 0 < first < line else ends
    # Not a lambda: since Python 3.13 its frame refers, when it ends, to the one that ended it.
    module = ast.parse("def made():\n    yield")
    for node in ast.walk(module.body[0]):
        vars(node).update(ends)
    vars(module.body[0]).update(whole)
    try:
        outer = compile(module, "", "exec")
    except ValueError:  # places of generated code may run backwards
        return None
    (inner,) = (const for const in outer.co_consts if isinstance(const, CodeType))
    return inner


# -- exceptions pickled so that they arrive as they were ----------------------------------
#
# A class that says how it is pickled (``__reduce__`` and such) is pickled so. Any other exception
# is taken apart, and put together without running its ``__init__``: that may not take ``args``, or
# make another message of them. Parts that can't travel, such as a lock, are left out in a second
# try.


LONGEST = 10_000  # characters of a message or a note
_LARGEST = 64 << 20  # bytes of one pickled exception; a guess

#: Taken from BaseException and type, as classes and metaclasses may override these.
_args: Any = BaseException.__dict__["args"]
_dict: Any = BaseException.__dict__["__dict__"]
_members: Any = BaseExceptionGroup.__dict__["exceptions"]
_message: Any = BaseExceptionGroup.__dict__["message"]
_mro: Any = type.__dict__["__mro__"]
_base: Any = type.__dict__["__base__"]
_class_dict: Any = type.__dict__["__dict__"]

_MADE_BY_PYTHON = 1 << 9  # Py_TPFLAGS_HEAPTYPE
_C_METHODS = (MethodDescriptorType, WrapperDescriptorType, BuiltinFunctionType)


class _Bounded(io.BytesIO):
    """A file that refuses bytes beyond its size."""

    def write(self, data: Any) -> int:
        written = super().write(data)
        if self.tell() > _LARGEST:
            raise ValueError(f"it is larger than {_LARGEST >> 20} MiB when pickled")
        return written


def pickled(
    error: BaseException, text: str, family: list[BaseException], places: dict[int, int]
) -> tuple[bytes | None, str]:
    """Return the pickled form of an exception, or None and why there is none. Never raises.

    Where parts of it were left out, the second string says which.

    Parameters
    ----------
    text
        The exception's text, shortened.
    family
        The exceptions of the record, by their place in it. Those before `error` are pickled as
        that place.
    places
        The same by id.
    """
    try:
        return _pickled(_pickler_class()(error, text, places), error, family), ""
    except BaseException as broken:  # no code of a class may end the worker
        first = broken
    try:
        if not _says_how(type(error)):
            pickler = _pickler_class()(error, text, places, family)
            data = _pickled(pickler, error, family)
            if pickler.left_out:
                return data, "left out, since it can't travel: " + "; ".join(pickler.left_out)
    except BaseException:  # the first try's error says why
        pass
    return None, reason(first)


def _dumped(pickler: Any, value: Any) -> bytes:
    pickler.dump(value)
    data: bytes = pickler.file.getvalue()
    return data


def _pickled(pickler: Any, error: BaseException, family: list[BaseException]) -> bytes:
    """Pickle an exception, and check that it can be unpickled."""
    data: bytes = _dumped(pickler, error)
    again = type(unpickled(data, family))
    if again is not type(error):
        raise TypeError(f"unpickling it gives {again.__name__}")
    return data


def unpickled(data: bytes, earlier: list[BaseException]) -> Any:
    """Load the result of `pickled`; `earlier` are the exceptions before it in the record.

    Raises whatever the class does when it is unpickled.
    """
    return _Unpickler(data, earlier).load()


def reason(broken: BaseException) -> str:
    """Say why an exception can't travel."""
    return plain(f"{type(broken).__name__}: {text_of(broken)}", 1_000)


@cache
def _pickler_class() -> Any:
    import cloudpickle

    class Pickler(cloudpickle.Pickler):
        """Pickles exceptions in parts, and those that come earlier in a record by their place.

        Given the `family`, it tries each part alone, and leaves out those that can't travel.
        """

        def __init__(
            self,
            error: BaseException,
            text: str,
            places: dict[int, int],
            family: list[BaseException] | None = None,
        ) -> None:
            self.file = _Bounded()
            super().__init__(self.file, protocol=5)
            self.error, self.text, self.places, self.family = error, text, places, family
            self.place = places[id(error)]
            self.long_text = text if str.__len__(text) > LONGEST else ""
            self.left_out: list[str] = []

        def persistent_id(self, value: Any) -> int | None:
            place = self.places.get(id(value))
            return place if place is not None and place < self.place else None

        def reducer_override(self, value: Any) -> Any:
            if not issubclass(type(value), BaseException) or _says_how(type(value)):
                how = super().reducer_override(value)
                return class_by_value(value) if is_by_value(how) else how
            args, state = _parts(value, self.places)
            if self.long_text:
                args, state = _shortened(args, state, self.long_text)
            if self.family is not None and value is self.error:
                args = tuple(
                    arg if _travels(self, arg, f"args[{i}]") else LeftOut(arg)
                    for i, arg in enumerate(args)
                )
                state = tuple(
                    {name: x for name, x in part.items() if _travels(self, x, f"its {name}")}
                    for part in state
                )
            return _made, (type(value), args), state, None, None, _filled

    return Pickler


def _travels(pickler: Any, part: Any, name: str) -> bool:
    """Tell whether a part can be pickled and unpickled; note its name and why not."""
    try:
        alone = _pickler_class()(pickler.error, pickler.text, pickler.places)
        alone.place += 1  # it may hold the exception itself
        unpickled(_dumped(alone, part), pickler.family)
    except BaseException as broken:
        pickler.left_out.append(f"{name} ({reason(broken)})")
        return False
    return True


class LeftOut:
    """Stands for an argument that can't be pickled, and is shown as that argument was."""

    def __init__(self, value: Any) -> None:
        try:
            self._shown = plain(repr(value), LONGEST)
        except BaseException:  # nested too deeply, say
            self._shown = f"<{type(value).__name__}>"

    def __repr__(self) -> str:
        return self._shown


class _Unpickler(pickle.Unpickler):
    def __init__(self, pickled: bytes, earlier: list[BaseException]) -> None:
        super().__init__(io.BytesIO(pickled))
        self.earlier = earlier

    def persistent_load(self, place: Any) -> BaseException:
        return self.earlier[place]


def _says_how(kind: type) -> bool:
    """Tell whether a class defines how it is pickled."""
    for name in ("__reduce_ex__", "__reduce__", "__getstate__", "__setstate__"):
        if type(_found(kind, name)) not in _C_METHODS:
            return True
    how = copyreg.dispatch_table.get(kind)
    # One for all exceptions, as importing `distributed` installs it (tblib's), is about tracebacks,
    # which a record has anyway, and loses the state that C code keeps.
    return how is not None and how is not copyreg.dispatch_table.get(BaseException)


def _found(kind: type, name: str, types: tuple[type, ...] = (object,)) -> Any:
    """Return the nearest attribute of a class and its bases, by name and type."""
    for base in _mro.__get__(kind):
        attribute = _class_dict.__get__(base).get(name)
        if attribute is not None and issubclass(type(attribute), types):
            return attribute
    return None


def _parts(
    error: BaseException, places: dict[int, int]
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """Take an exception apart: arguments for `_made`, attributes and slots for `_filled`."""
    args = _args.__get__(error)
    if issubclass(type(error), BaseExceptionGroup):
        members = _members.__get__(error)
        kept = [one for one in members if id(one) in places]
        args = (_message.__get__(error), kept or list(members))
    attributes = dict(_dict.__get__(error))
    attributes.pop("__notes__", None)  # the entry has them
    return args, (attributes, _slots(error))


def _shortened(
    args: tuple[Any, ...], state: tuple[dict[str, Any], ...], text: str
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """Shorten the parts that make an exception's text long."""
    return (
        tuple(_cut(arg, text) for arg in args),
        tuple({name: _cut(x, text) for name, x in part.items()} for part in state),
    )


def _cut(value: Any, text: str) -> Any:
    if type(value) is str and value in text:
        return plain(value, LONGEST)
    return value


def _slots(error: BaseException) -> dict[str, Any]:
    """Return the values in an exception's slots: its classes' own and those of C."""
    values: dict[str, Any] = {}
    for base in _mro.__get__(type(error)):
        if base is BaseExceptionGroup or base is BaseException:  # their slots are set elsewhere
            continue
        of_c = not base.__flags__ & _MADE_BY_PYTHON
        for name, slot in _class_dict.__get__(base).items():
            if type(slot) is not MemberDescriptorType or name in values:
                continue
            if base is AttributeError and name == "obj":  # may be anything, however large
                continue
            try:
                value = slot.__get__(error)
            except AttributeError:  # not set
                continue
            if value is not None or not of_c:  # None may stand for NULL there
                values[name] = value
    return values


def _made(kind: type, args: tuple[Any, ...]) -> BaseException:
    """Make an exception as C code does, running no method that is written in Python."""
    base = kind  # C accepts the __new__ of the first class of its own among the __base__s only
    while base.__flags__ & _MADE_BY_PYTHON:
        base = _base.__get__(base)
    error: BaseException = _found(base, "__new__", _C_METHODS)(kind, *args)
    try:
        _found(kind, "__init__", _C_METHODS)(error, *args)
    except Exception:  # its __init__ calls that in C with other arguments
        pass
    _args.__set__(error, args)
    return error


def _filled(error: BaseException, state: tuple[dict[str, Any], dict[str, Any]]) -> None:
    attributes, slots = state
    _dict.__get__(error).update(attributes)
    for name, value in slots.items():
        _found(type(error), name, (MemberDescriptorType,)).__set__(error, value)


_MOST_NOTES = 100  # of an exception; a guess
_MAX_EXCEPTIONS = 1_000  # exceptions in a record; a guess

#: Taken from BaseException and type, as classes and metaclasses may override these.
_cause: Any = BaseException.__dict__["__cause__"]
_context: Any = BaseException.__dict__["__context__"]
_suppress: Any = BaseException.__dict__["__suppress_context__"]
_module: Any = type.__dict__["__module__"]
_qualname: Any = type.__dict__["__qualname__"]


# -- records ------------------------------------------------------------------------------


class _Entry(NamedTuple):
    """The part of a record for one exception; sent as the plain tuple of its fields.

    Other exceptions are given by their place in the record; the parts of an exception come before
    it. `pickled` is None if it can't travel, for the reason `why`.
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


def record(error: BaseException) -> tuple[Any, ...]:
    """Describe an exception with its causes and notes, as plain data. Never raises.

    Parameters
    ----------
    error
        Any exception, however hostile its class. Its traceback is cut to the task's own frames,
        the first and last 50 of them; messages and notes to 10,000 characters; all that belongs
        to it to 1,000 exceptions.

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
        return tuple(tuple(_entry(one, family, places)) for one in family)
    except BaseException as broken:  # for example MemoryError
        return (tuple(_undescribed(error, broken)),)


def rebuilt(record: tuple[Any, ...]) -> BaseException:
    """Make the exception that a record describes.

    It has the type it had where that can travel, else it is a `RemoteTaskError` with the name of
    that type, the text and the place. Its traceback is real: it shows the frames of the task.
    Raises only the user's own Ctrl-C.
    """
    try:
        entries = [_Entry(*fields) for fields in record]
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
            if id(other) not in seen and len(seen) < _MAX_EXCEPTIONS:
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

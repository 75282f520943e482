"""Exceptions pickled so that they arrive as they were.

A class that says how it is pickled (``__reduce__`` and such) is pickled so. Any other exception
is taken apart, and put together without running its ``__init__``: ``args`` need not be what that
takes, and if it takes them it may make another message of them. What of its parts can't travel,
as a lock, is left out in a second try.
"""

from __future__ import annotations

import copyreg
import io
import pickle
from functools import cache
from types import (
    BuiltinFunctionType,
    MemberDescriptorType,
    MethodDescriptorType,
    WrapperDescriptorType,
)
from typing import Any

from lazyflow.schedulers.core.errors.failures import text_of
from lazyflow.schedulers.core.errors.tracebacks import plain
from lazyflow.store.pickling.classes import class_by_value, is_by_value

LONGEST = 10_000  # characters of a message or a note
_LARGEST = 64 << 20  # bytes of one pickled exception

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
    """A file that refuses what is beyond its size."""

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
        The exception's text; what makes it long is cut.
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
    """Load what `pickled` gave; `earlier` are those that come before it in the record.

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
    # which a record has anyway, and loses what C code keeps.
    return how is not None and how is not copyreg.dispatch_table.get(BaseException)


def _found(kind: type, name: str, types: tuple[type, ...] = (object,)) -> Any:
    """Return the nearest attribute of a class and its bases, by name and type."""
    for base in _mro.__get__(kind):
        found = _class_dict.__get__(base).get(name)
        if found is not None and issubclass(type(found), types):
            return found
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
    """Return what an exception has in slots: its classes' own and those of C."""
    found: dict[str, Any] = {}
    for base in _mro.__get__(type(error)):
        if base is BaseExceptionGroup or base is BaseException:  # their slots are set elsewhere
            continue
        of_c = not base.__flags__ & _MADE_BY_PYTHON
        for name, slot in _class_dict.__get__(base).items():
            if type(slot) is not MemberDescriptorType or name in found:
                continue
            if base is AttributeError and name == "obj":  # may be anything, however large
                continue
            try:
                value = slot.__get__(error)
            except AttributeError:  # not set
                continue
            if value is not None or not of_c:  # None may stand for NULL there
                found[name] = value
    return found


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

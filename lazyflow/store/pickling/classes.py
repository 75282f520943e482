"""Classes that travel by value: by cloudpickle, with the parts that it does not restore.

A copy has the slots of its class, and every name of an enum, those of composite flags and aliases
too. It is made once in a process, and no code of the user's runs while it is made: effects of
metaclasses and ``__init_subclass__`` where the class was defined, such as an entry in a registry,
travel with it, and must not happen twice. A class that returns to the process that
defined it is that class, and stays as it is there.

An object that says by ``__reduce__`` that it is a variable of `__main__`, as sentinels do, is one
object in each process.
"""

from __future__ import annotations

import copyreg
import os
import threading
from collections.abc import Iterator
from enum import Enum
from types import MemberDescriptorType, resolve_bases
from typing import Any

from lazyflow.finalizers import WeakTable
from lazyflow.graph.function_code import resolve

Reduced = tuple[Any, ...]

_HERE = os.urandom(8).hex()

#: The processes that defined the classes that arrived from others.
_homes: WeakTable[type, str] = WeakTable()

_making = threading.local()

#: Attributes that Python gives an enum and its members.
_OF_ENUMS = frozenset({
    "_generate_next_value_", "_member_names_", "_member_map_", "_member_type_",
    "_value2member_map_",
})
_OF_MEMBERS = frozenset({"_value_", "_name_", "__objclass__", "_sort_order_"})


def is_by_value(how: Any) -> bool:
    """Tell whether cloudpickle reduces a class to its parts and not to its name."""
    from cloudpickle import cloudpickle

    makers = cloudpickle._make_skeleton_class, cloudpickle._make_skeleton_enum
    return type(how) is tuple and how[0] in makers


def class_by_value(cls: type) -> Reduced:
    """Reduce a class to its parts."""
    from cloudpickle import cloudpickle

    home = _homes.get(cls) or _HERE
    metaclass, name, bases, namespace, identity, _ = cloudpickle._class_getnewargs(cls)
    if metaclass.__name__ != "_TypedDictMeta":  # which takes none but its own
        if "__orig_bases__" in vars(cls):
            namespace["__orig_bases__"] = bases
        bases = cls.__bases__
    state = cloudpickle._class_getstate(cls)[0]
    if issubclass(cls, Enum):
        boundary, members = getattr(cls, "_boundary_", None), cls.__members__
        parts = [(key, _newargs(value), value._value_) for key, value in members.items()]
        kept = {k: x for k, x in state.items() if k not in _OF_ENUMS and k not in members}
        states = {key: _own_state(value) for key, value in members.items()}
        made = metaclass, name, bases, cls.__module__, boundary, identity, parts
        return _made_enum, made, (home, kept, states), None, None, _filled_enum
    if "__slots__" in vars(cls):
        slots = [k for k, value in vars(cls).items() if type(value) is MemberDescriptorType]
        namespace["__slots__"] = [*slots, *({"__dict__", "__weakref__"} & vars(cls).keys())]
        state = {k: value for k, value in state.items() if k not in slots}
    how = metaclass, name, bases, namespace, identity
    return _made_class, how, (home, state), None, None, _filled_class


def _newargs(obj: Any) -> tuple[Any, ...]:
    """Return the arguments from which the class in C of an object makes an equal one."""
    base = _in_c(type(obj))
    if base is not object and "__reduce__" in vars(base):
        args: tuple[Any, ...] = base.__reduce__(obj)[1]
        return args
    return base.__getnewargs__(obj) if hasattr(base, "__getnewargs__") else ()


def _in_c(cls: type) -> Any:
    while cls.__flags__ & _MADE_BY_PYTHON:
        cls = cls.__base__  # type: ignore[assignment]
    return cls


_MADE_BY_PYTHON = 1 << 9  # Py_TPFLAGS_HEAPTYPE


def _own_state(member: Any) -> Any:
    """Return the state of a member of an enum without the attributes that Python sets."""
    state = member.__getstate__()
    parts = state if type(state) is tuple else (state,)
    parts = tuple(
        {k: x for k, x in part.items() if k not in _OF_MEMBERS} if type(part) is dict else part
        for part in parts
    )
    return parts if type(state) is tuple else parts[0]


def _fill(obj: Any, state: Any) -> None:
    """Set the state of an object, as the unpickler does."""
    if hasattr(obj, "__setstate__"):
        obj.__setstate__(state)
        return
    attributes, slots = state if type(state) is tuple else (state, None)
    if attributes:
        obj.__dict__.update(attributes)
    for name, value in (slots or {}).items():
        object.__setattr__(obj, name, value)


# -- copies ---------------------------------------------------------------------------------


def _made_class(
    metaclass: type, name: str, bases: tuple[Any, ...], namespace: dict[str, Any], identity: str
) -> type:
    """Return the class of an identity, made empty if there is none."""
    return _known(identity) or _tracked(identity, _new(metaclass, name, bases, namespace))


def _filled_class(cls: type, arrived: tuple[str, dict[str, Any]]) -> None:
    from cloudpickle import cloudpickle

    home, state = arrived
    if home == _HERE:
        return
    _homes[cls] = home
    hook = state.get("__init_subclass__")
    if type(hook) is classmethod:
        state["__init_subclass__"] = _NotOfCopies(hook.__func__)
    cloudpickle._class_setstate(cls, (state, {}))


def _made_enum(
    metaclass: type, name: str, bases: tuple[Any, ...], module: str, boundary: Any, identity: str,
    members: list[tuple[str, tuple[Any, ...], Any]],
) -> type:
    """Return the enum of an identity; the state of its members is still to be set."""
    known: type | None = _known(identity)
    if known is not None:
        return known
    coming = iter(members)

    def next_member(cls: type, *_: Any) -> Any:
        args, value = next(coming)[1:]
        member = _in_c(cls).__new__(cls, *args)
        member._value_ = value
        return member

    namespace: dict[str, Any] = {"__module__": module}
    if members:
        namespace |= {"__new__": next_member, "__init__": _nothing}
    namespace |= {each[0]: i for i, each in enumerate(members)}
    keywords = {} if boundary is None else {"boundary": boundary}
    return _tracked(identity, _new(metaclass, name, bases, namespace, **keywords))


def _filled_enum(cls: Any, arrived: tuple[str, dict[str, Any], dict[str, Any]]) -> None:
    home, own, members = arrived
    if home == _HERE:
        return
    for name in {"__init__", "__new_member__"} & vars(cls).keys() - own.keys():
        delattr(cls, name)  # it helped to make the members
    _filled_class(cls, (home, own))
    for name, each in members.items():
        _fill(cls.__members__[name], each)


def _new(
    metaclass: Any, name: str, bases: tuple[Any, ...], namespace: dict[str, Any], **keywords: Any
) -> type:
    """Make a class; of its metaclasses only those that did not travel run."""
    from cloudpickle import cloudpickle

    travelled = cloudpickle._DYNAMIC_CLASS_TRACKER_BY_CLASS
    maker = next(each for each in metaclass.__mro__ if each not in travelled)
    resolved = resolve_bases(bases)
    _making.is_on = True
    try:
        names = maker.__prepare__(name, resolved, **keywords)
        for key, value in namespace.items():  # an enum's namespace notes each
            names[key] = value
        made: type = maker.__new__(metaclass, name, resolved, names, **keywords)
        maker.__init__(made, name, resolved, names, **keywords)
        return made
    finally:
        _making.is_on = False


def _known(identity: str) -> Any:
    from cloudpickle import cloudpickle

    return cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID.get(identity)


def _tracked(identity: str, cls: type) -> type:
    from cloudpickle import cloudpickle

    tracked: type = cloudpickle._lookup_class_or_track(identity, cls)
    return tracked


def _nothing(*args: Any, **kwargs: Any) -> None:
    pass


class _NotOfCopies(classmethod):
    """An ``__init_subclass__`` that does not run when a copy of a class is made."""

    def __get__(self, obj: Any, owner: Any = None) -> Any:
        return _nothing if getattr(_making, "is_on", False) else super().__get__(obj, owner)

    def __reduce__(self) -> tuple[Any, ...]:
        return classmethod, (self.__func__,)


# -- variables of __main__ --------------------------------------------------------------------

#: Stand-ins for variables of the caller's `__main__`, by class and name.
_stand_ins: dict[tuple[type, str], Any] = {}


def names_itself(cls: type) -> bool:
    """Tell whether objects of a class may say that they are pickled as the name of a variable."""
    if _in_c(cls) is cls or issubclass(cls, Enum) or cls in copyreg.dispatch_table:
        return False
    ways = (cls.__reduce__, object.__reduce__), (cls.__reduce_ex__, object.__reduce_ex__)
    return any(way is not usual for way, usual in ways)


def variable_of_main(obj: Any, protocol: int) -> Any:
    """Reduce an object of a class that `names_itself`."""
    how, cls = obj.__reduce_ex__(protocol), type(obj)
    if type(how) is not str or not any(each is obj for each in _variables(cls, how)):
        return how
    return _variable, (cls, how, _newargs(obj)), (how, obj.__getstate__()), None, None, _filled


def _variables(cls: type, name: str) -> Iterator[Any]:
    yield resolve(cls.__module__, name)
    yield _stand_ins.get((cls, name))


def _variable(cls: Any, name: str, args: tuple[Any, ...]) -> Any:
    for variable in _variables(cls, name):
        if type(variable) is cls:
            return variable
    return _stand_ins.setdefault((cls, name), _in_c(cls).__new__(cls, *args))


def _filled(obj: Any, state: tuple[str, Any]) -> None:
    name, own = state
    if _stand_ins.get((type(obj), name)) is obj:
        _fill(obj, own)

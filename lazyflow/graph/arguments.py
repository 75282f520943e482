"""Puts the values of a task's inputs where they were found among its arguments.

`lazyflow.graph.binding` looks for inputs once, when the call is made; `Binder.fill` runs at every
execution. A binder is a short program:

    template   the arguments, with None where something has to be put
    holes      (position, source): source >= 0 is an input, ~source a container made before
    makers     the containers to make first, inner before outer, each with template and holes

so an execution costs a list copy and one assignment per hole, and every execution gets containers
of its own. A container met twice is made once, as it was. Pickled graphs name the functions here.
"""

from __future__ import annotations

import copy
import operator
import os
import pickle
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Sequence
from operator import is_not
from typing import Any

from lazyflow.finalizers import WeakValues
from lazyflow.graph.kinds import (
    ARRAY,
    COPIED,
    DICT,
    DICTLIKE,
    DICTVIEW,
    FRAME,
    FROZENSET,
    IMMUTABLE,
    ITERATOR,
    LIST,
    LISTLIKE,
    NAMEDTUPLE,
    SET,
    SLICE,
    TUPLE,
    frame_copy,
    kinds,
)

# -- shallow copies -----------------------------------------------------------------------
#
# `copy.copy` fills a copy by the methods of its class. A class that changes keys or items when they
# are set would change them once more; those that differ afterwards are set by the builtin class.

#: Types of which it is known how an item is replaced.
BUILTIN = frozenset({list, dict, deque, OrderedDict, defaultdict, Counter})

_BELOW = (OrderedDict, dict, deque, list, set)


def shallow_copy(x: Any) -> Any:
    """Return a shallow copy of any object.

    >>> class Quoted(dict):
    ...     def __setitem__(self, key, value):
    ...         super().__setitem__(f"<{key}>", value)
    >>> x = Quoted()
    >>> x["a"] = 1
    >>> copy.copy(x), shallow_copy(x)
    ({'<<a>>': 1}, {'<a>': 1})
    """
    new = copy.copy(x)
    below = None if type(x) in BUILTIN else _builtin_below(type(x))
    if below is not None and new is not x:
        set_right(new, _items(below, x))
    return new


def items_of(x: Any) -> list[Any]:
    """Return the items of a container, or its keys and then its values, as they are stored."""
    below = _builtin_below(type(x))
    return list(x) if below is None else _items(below, x)


def set_right(new: Any, items: Sequence[Any]) -> None:
    """Make sure that a container has exactly these items.

    It was filled by methods of its class, which may have stored others.
    """
    below = _builtin_below(type(new))
    if below is None or below is type(new):
        return
    has = _items(below, new)
    if below is set:
        if set(map(id, has)) != set(map(id, items)):
            set.clear(new)
            set.update(new, items)
    elif len(has) != len(items) or any(map(is_not, has, items)):
        below.clear(new)
        if issubclass(below, dict):
            half = len(items) // 2
            for key, value in zip(items[:half], items[half:], strict=True):
                below.__setitem__(new, key, value)
        else:
            below.extend(new, items)


def _builtin_below(t: type) -> Any:
    return next((each for each in t.__mro__ if each in _BELOW), None)


def _items(below: Any, x: Any) -> list[Any]:
    if issubclass(below, dict):
        return [*below.keys(x), *below.values(x)]
    return list(below.__iter__(x))


# -- binders ------------------------------------------------------------------------------

Holes = list[tuple[int, int]] | range

#: Makes a container of its items and of other facts, such as its class.
Make = Callable[[list[Any], Any], Any]


def read_only(array: Any) -> Any:
    """Return a view of a numpy array that can't be written through."""
    view = array.view()
    view.flags.writeable = False
    return view


class Binder:
    """Makes the arguments of one task from the values of its inputs."""

    __slots__ = ("holes", "makers", "n_positional", "names", "template")

    def __init__(
        self,
        template: list[Any],
        holes: Holes,
        makers: list[tuple[Make, list[Any] | None, Holes, Any]],
        n_positional: int,
        names: tuple[str, ...],
    ) -> None:
        self.template = template
        self.holes = holes
        self.makers = makers
        self.n_positional = n_positional
        self.names = names

    def fill(self, values: list[Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return positional and keyword arguments for these values of the inputs."""
        made: list[Any] = []
        for make, template, holes, extra in self.makers:
            if template is None:  # every item is an input, and they follow each other
                items = values[holes.start : holes.stop]  # type: ignore[union-attr]
            else:
                items = template.copy()
                for position, source in holes:  # type: ignore[misc]
                    items[position] = values[source] if source >= 0 else made[~source]
            made.append(make(items, extra))
        items = self.template.copy()
        for position, source in self.holes:  # type: ignore[misc]
            items[position] = values[source] if source >= 0 else made[~source]
        if not self.names:
            return items, {}
        n = self.n_positional
        return items[:n], dict(zip(self.names, items[n:], strict=True))


# -- how containers are taken apart and made again ------------------------------------------


def same(items: list[Any], extra: Any) -> Any:
    """Return the items: they are a list of this execution's own."""
    return items


def _of_type(items: list[Any], extra: Any) -> Any:
    return extra(items)


def _spread(items: list[Any], extra: Any) -> Any:
    return extra(*items)


def _dict(items: list[Any], extra: Any) -> Any:
    half = len(items) // 2
    return dict(zip(items[:half], items[half:], strict=True))


def _dict_view(items: list[Any], extra: str) -> Any:
    if extra.endswith("values"):
        return dict(enumerate(items)).values()
    return dict(items).items() if extra.endswith("items") else dict.fromkeys(items).keys()


def _dictlike(items: list[Any], extra: Any) -> Any:
    new = copy.copy(extra)  # an emptied copy of the user's: keeps default_factory and the like
    half = len(items) // 2
    for key, value in zip(items[:half], items[half:], strict=True):
        new[key] = value
    set_right(new, items)
    return new


def _listlike(items: list[Any], extra: Any) -> Any:
    new = copy.copy(extra)
    (new.update if isinstance(new, set) else new.extend)(items)
    set_right(new, items)
    return new


def _dataclass(items: list[Any], extra: Any) -> Any:
    prototype, names = extra
    new = copy.copy(prototype)
    for name, value in zip(names, items, strict=True):
        object.__setattr__(new, name, value)  # frozen dataclasses too
    return new


def _object_array(items: list[Any], extra: Any) -> Any:
    new = extra.copy()
    flat = new.reshape(-1)
    for position, item in enumerate(items):  # at once, numpy would look into the items
        flat[position] = item
    return new


def copied(items: list[Any], extra: Any) -> Any:
    """Return a shallow copy of the only item, or the item where it can't be copied."""
    only = items[0]
    if type(only) in _QUICK:
        return only.copy()
    try:
        return shallow_copy(only)
    except Exception:  # a container that can't be filled again can't be edited either
        return only


_QUICK = frozenset({list, dict, set})


_LONG = 1 << 14  # items: the copies of shorter containers take less than 131 kB each


class SharedCopy(list[Any]):
    """A list of one copy of a long container, for all calls that were given the same items.

    One of numbers and texts is pickled once, to a buffer that all its users have in common, and
    unpickled once in each process: no task edits it, as each gets a copy.
    """

    __slots__ = ("__weakref__", "_packed")

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        packed = self._pack() if protocol >= 5 else None
        if packed is None:
            return list, (list(self),)
        name, data = packed
        return _received_copy, (name, pickle.PickleBuffer(data))

    def _pack(self) -> tuple[bytes, bytes] | None:
        try:
            return self._packed
        except AttributeError:
            only = self[0]
            types = {*map(type, only), *map(type, only.values() if type(only) is dict else ())}
            # Other items may change while the container has the same ones.
            plain = IMMUTABLE.issuperset(types)
            self._packed: tuple[bytes, bytes] | None = (
                (os.urandom(16), pickle.dumps(only, 5)) if plain else None)
            return self._packed


_received: WeakValues[SharedCopy] = WeakValues()  # by the names that their senders gave them
_latest: list[SharedCopy] = []  # which lives on between two tasks
_KEPT = 128 << 20  # bytes of a pickle: a longer one is unpickled again when no task has it; a guess


def _received_copy(name: bytes, data: Any) -> SharedCopy:
    copy = _received.get(name)
    if copy is None:
        _received[name] = copy = SharedCopy([pickle.loads(data)])
    if len(memoryview(data)) <= _KEPT:
        _latest[:] = [copy]
    return copy


_shared: WeakValues[SharedCopy] = WeakValues()  # by the id of what was copied


def shared_copy(item: Any, copier: Make) -> list[Any]:
    """Return a list of a copy of a container: that of an earlier call if it has the same items.

    A copy whose items are copied, too, is not shared.
    """
    mine = copier([item], None)
    if copier is not copied or type(mine) not in (list, dict) or len(mine) < _LONG:
        return [mine]
    known = _shared.get(id(item))
    if known is None or not _has_the_same(mine, known[0]):
        _shared[id(item)] = known = SharedCopy([mine])
    return known


def _has_the_same(one: Any, other: Any) -> bool:
    """Tell whether two containers have the very same items, in the same order.

    Neither may be one that another thread edits.
    """
    if type(one) is not type(other) or len(one) != len(other):
        return False
    if type(one) is dict and not all(map(operator.is_, one.values(), other.values())):
        return False
    return all(map(operator.is_, one, other))


def copied_to_depth(items: list[Any], extra: Any) -> Any:
    """Return a copy of the only item in which the containers are copied, to any depth.

    A container that is met twice is copied once. Objects of other classes, and of subclasses of
    users, are not searched.
    """
    top = items[0]
    now: dict[int, Any] = {}  # id -> copy
    opened: list[Any] = []  # copies whose items have to be replaced
    rows: list[Any] = []  # tuples, each after those in it
    stack: list[tuple[Any, bool]] = [(top, False)]
    while stack:
        part, is_done = stack.pop()
        if is_done:
            rows.append(part)
        if id(part) in now:
            continue
        kind = kinds[type(part)]
        if kind in _ROWS:
            now[id(part)] = part
            stack.append((part, True))
            inside = part
        elif kind in COPIED and kind != FRAME:
            now[id(part)] = mine = copied([part], None)
            if type(part) not in BUILTIN or mine is part:
                continue
            opened.append(mine)
            inside = mine.values() if isinstance(mine, dict) else mine
        else:
            continue
        stack += [(item, False) for item in inside if kinds[type(item)]]
    for row in rows:
        inside = [now.get(id(item), item) for item in row]
        if any(map(operator.is_not, inside, row)):
            now[id(row)] = tuple(inside) if type(row) is tuple else type(row)._make(inside)
    for mine in opened:
        for place, item in list(mine.items() if isinstance(mine, dict) else enumerate(mine)):
            if id(item) in now:
                mine[place] = now[id(item)]
    return now.get(id(top), top)


_ROWS = frozenset({TUPLE, NAMEDTUPLE})


def deeply_copied(items: list[Any], extra: Any) -> Any:
    """Return a deep copy of the only item, or the item where it can't be copied."""
    try:
        return copy.deepcopy(items[0])
    except Exception:  # a lock, a module: it can't be copied, and is not edited by accident
        return items[0]


def frame_copied(items: list[Any], extra: Any) -> Any:
    """Return a copy of a pandas object, deep where `extra` is true."""
    return items[0].copy(deep=True) if extra else frame_copy(items[0])


def take_apart(kind: int, x: Any) -> tuple[list[Any], Make, Any]:
    """Return the items of a container, the function that makes one like it, and its `extra`."""
    if kind == LIST:
        return x, same, None
    if kind in (TUPLE, SET, FROZENSET):
        return list(x), _of_type, type(x)
    if kind == DICT:
        return [*x.keys(), *x.values()], _dict, None
    if kind == SLICE:
        return [x.start, x.stop, x.step], _spread, slice
    if kind == NAMEDTUPLE:
        return list(x), _of_type, type(x)._make
    if kind == ITERATOR:
        return list(x), _of_type, iter
    if kind == DICTVIEW:
        return list(x), _dict_view, type(x).__name__
    if kind == LISTLIKE:
        return items_of(x), _listlike, x
    if kind == DICTLIKE:
        return items_of(x), _dictlike, x
    if kind == ARRAY:
        return x.reshape(-1).tolist(), _object_array, x
    from dataclasses import fields  # loaded already: x is one

    names = [field.name for field in fields(x) if hasattr(x, field.name)]
    return [getattr(x, name) for name in names], _dataclass, (x, names)


"""Results belong to the caller, who may edit them without effect on anything else.

This rule is the same for every scheduler and every way of getting a value. A value held elsewhere
(a literal, the value of a future, another output, the state of an actor) is copied; a value that
nothing else holds is passed on uncopied, without the read-only mark of tasks' views. Both hold for
arrays, sparse matrices, bytearrays and pandas objects, alone or at any depth in lists, tuples,
dicts, sets, dataclasses and their subclasses. Objects of other classes are not searched: if
tasks share the caller's memory, those objects are shared.
"""

from __future__ import annotations

import copy
import operator
import sys
from collections import deque
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

from lazyflow.graph.guards import is_open
from lazyflow.graph.kinds import (
    ARRAY,
    DATACLASS,
    DICT,
    DICTLIKE,
    FRAME,
    LIST,
    LISTLIKE,
    NAMEDTUPLE,
    SET,
    TUPLE,
    TypeTable,
    kinds,
)
from lazyflow.store.values import IteratorItems, consumer_copy, locked, made_writable, memory_of

_NOTHING, _ARRAY, _SPARSE, _WHOLE, _ITEMS, _PAIRS, _FIELDS, _ROW = range(8)

#: The form of an array, in `forms`.
ARRAY_FORM = _ARRAY

#: The form of a sparse matrix, whose arrays `arrays_of` returns.
SPARSE_FORM = _SPARSE

#: How the kinds are copied: as a whole, or item by item.
_OF_KINDS = {
    ARRAY: _ARRAY, FRAME: _WHOLE, SET: _WHOLE, LIST: _ITEMS, DICT: _PAIRS, DICTLIKE: _PAIRS,
    DATACLASS: _FIELDS, TUPLE: _ROW, NAMEDTUPLE: _ROW,
}


def _form(t: type) -> int:
    if t is bytearray or (kinds[t] == LISTLIKE and issubclass(t, set)):
        return _WHOLE
    if kinds[t] == LISTLIKE and t is not IteratorItems:
        return _ITEMS
    sparse: Any = sys.modules.get("scipy.sparse")
    if any(issubclass(t, getattr(sparse, name, ())) for name in ("spmatrix", "sparray")):
        return _SPARSE
    return _OF_KINDS.get(kinds[t], _NOTHING)


#: ``forms[type(x)]`` is true when ``x`` can be edited, or something that can be may be in it.
forms = TypeTable(_form)


class _Done:
    """A note on the stack of a walk that everything in a tuple was visited."""

    __slots__ = ("row",)

    def __init__(self, row: Any) -> None:
        self.row = row


class EditableParts:
    """The parts of a value that can be edited.

    whole
        Parts that are copied as they are: arrays and the like, and containers of plain values.
    nested
        Containers in whose copies other parts have to be put.
    rows
        Tuples to be made again, each after those that are in it.
    memory
        Ids of the memory that an edit would change: other values may have the same.
    is_marked
        Whether an array among the parts is read-only.
    """

    __slots__ = ("is_marked", "memory", "nested", "rows", "value", "whole")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.whole: list[Any] = []
        self.nested: list[Any] = []
        self.rows: list[Any] = []
        self.memory: list[int] = []
        self.is_marked = False
        known: set[int] = set()
        stack = [value]
        while stack:
            part = stack.pop()
            if type(part) is _Done:
                self.rows.append(part.row)
            elif id(part) not in known:
                known.add(id(part))
                stack += self._step(part)

    def _step(self, part: Any) -> list[Any]:
        """Note one part; return the parts in it that have to be visited next."""
        form = forms[type(part)]
        if form < _ITEMS:
            self.whole.append(part)
            self.memory += _memories(part, form)
            self.is_marked = self.is_marked or _is_marked(part, form)
            return []
        inside = _inside(part, form)
        types = set(map(type, inside))
        if form != _ROW:
            self.memory.append(id(part))
        is_plain = not any(map(forms.__getitem__, types))
        if is_plain or _is_table(inside, types):
            if is_plain or types == _TUPLES:
                self.whole += [part] if form != _ROW else []
                return []
            self.whole += inside
            self.memory += map(id, inside)
            inside = ()
        todo = [each for each in inside if forms[type(each)]]
        if form != _ROW:
            self.nested.append(part)
        elif todo:  # it is made again after them
            todo.insert(0, _Done(part))
        else:
            self.rows.append(part)
        return todo

    def remade(self, held: set[int] | None) -> Any:
        """Return the value made anew, so that no part is read-only or has memory in `held`.

        ``held=None`` makes all parts anew.
        """
        now: dict[int, Any] = {}
        for part in self.whole:
            form = forms[type(part)]
            if held is None or not held.isdisjoint(_memories(part, form)):
                now[id(part)] = _copy(part, form)
            elif _is_marked(part, form):
                now[id(part)] = made_writable(part) if form == _ARRAY else part.copy()
        return self._with(now)

    def locked(self, is_own: bool) -> Any:
        """Return the value with views for its arrays that can't be written through.

        It is the value itself where that holds already. ``is_own`` tells that only the library
        holds the value; its parts may be held elsewhere nevertheless.
        """
        arrays = [part for part in self.whole if _is_open(part)]
        self.whole = []
        if not arrays:
            return self.value
        containers = [part for part in (*self.nested, *self.rows) if part is not self.value]
        for at in range(len(containers)):  # by index: a name would be one more reference
            is_own = is_own and sys.getrefcount(containers[at]) <= _IN_A_BOX + 2
        now = {}
        for at in range(len(arrays)):
            is_alone = is_own and sys.getrefcount(arrays[at]) <= _IN_A_BOX + 1
            now[id(arrays[at])] = locked(arrays[at], is_alone)
        return self._with(now)

    def changed(self, change: Callable[[Any], Any]) -> Any:
        """Return the value with `change` applied to each of its whole parts."""
        now = {id(part): new for part in self.whole if (new := change(part)) is not part}
        return self._with(now) if now else self.value

    def _with(self, now: dict[int, Any]) -> Any:
        """Return the value with new forms of parts, by their ids, in their places."""
        for part in self.nested:
            now[id(part)] = consumer_copy(part)
        for row in self.rows:
            inside = [now.get(id(each), each) for each in row]
            now[id(row)] = tuple(inside) if type(row) is tuple else type(row)._make(inside)
        for part in self.nested:
            _fill(now[id(part)], part, now)
        return now.get(id(self.value), self.value)


_TUPLES, _LISTS, _DICTS = {tuple}, {list}, {dict}


def _is_table(inside: Any, types: set[type]) -> bool:
    """Tell whether a container has only rows of plain values, which are not visited singly."""
    if types == _DICTS:
        things = chain.from_iterable(map(dict.values, inside))
    elif types in (_TUPLES, _LISTS):
        things = chain.from_iterable(inside)
    else:
        return False
    return not any(map(forms.__getitem__, set(map(type, things))))


def _inside(part: Any, form: int) -> Any:
    """Return the items of a container, without calling methods that a user has overridden."""
    if form == _ROW or type(part) is list:
        return part
    if form == _PAIRS:
        return dict.values(part)
    if form == _ITEMS:
        return list(part) if isinstance(part, deque) else list.__getitem__(part, slice(None))
    return [getattr(part, each.name, None) for each in _fields(part)]


def _fields(part: Any) -> Any:
    return type(part).__dataclass_fields__.values()


def _memories(part: Any, form: int) -> list[int]:
    if form == _ARRAY:
        return [memory_of(part)]
    if form == _SPARSE:
        return [id(part), *(memory_of(each) for each in arrays_of(part))]
    return [id(part)]


def arrays_of(matrix: Any) -> list[Any]:
    """Return the arrays that a sparse matrix consists of."""
    return [each for each in vars(matrix).values() if kinds[type(each)] == ARRAY]


def _is_marked(part: Any, form: int) -> bool:
    if form == _ARRAY:
        return not part.flags.writeable
    return form == _SPARSE and not all(each.flags.writeable for each in arrays_of(part))


def _is_open(part: Any) -> bool:
    """Tell whether a part is an array that can be written to, or be made so."""
    return forms[type(part)] == _ARRAY and is_open(part)


def _copy(part: Any, form: int) -> Any:
    """Return a copy of one part; the copy of a container has the same items."""
    if form == _ARRAY and part.dtype.hasobject:
        return _deep(part)
    if form in (_ARRAY, _SPARSE):
        return part.copy()
    return consumer_copy(part)


def _deep(array: Any) -> Any:
    try:
        return copy.deepcopy(array)
    except Exception:  # it holds a lock: it can't be copied, and is not edited by accident
        return array.copy()


def _fill(mine: Any, part: Any, now: dict[int, Any]) -> None:
    """Put the new forms of a container's items in their places in its copy."""
    if mine is part:  # it can't be copied
        return
    form = forms[type(part)]
    positions: Iterable[Any]
    put: Callable[[Any, Any, Any], None]
    inside = _inside(part, form)
    if form == _PAIRS:
        positions, put = dict.keys(part), dict.__setitem__
    elif form == _FIELDS:
        positions, put = [each.name for each in _fields(part)], object.__setattr__
    else:
        positions, put = range(len(inside)), list.__setitem__
        if isinstance(part, deque):
            put = operator.setitem
    for position, old in zip(positions, inside, strict=True):
        if id(old) in now:
            put(mine, position, now[id(old)])


def copied(value: Any) -> Any:
    """Return a copy of a value that shares nothing editable with it.

    >>> import numpy as np
    >>> state = np.zeros(2)
    >>> taken = copied({"w": [state]})
    >>> state += 1
    >>> taken
    {'w': [array([0., 0.])]}
    """
    if type(value) is IteratorItems:
        return iter(copied(value.items))
    return EditableParts(value).remade(None) if forms[type(value)] else value


def writable_within(value: Any) -> Any:
    """Return a value that nothing else holds with arrays in it that can be edited."""
    parts = EditableParts(value) if forms[type(value)] else None
    return parts.remade(_NOTHING_HELD) if parts is not None and parts.is_marked else value


class ResultHandover:
    """Hands the results of one run over to the caller, writable and its own.

    Parameters
    ----------
    held
        Values that are kept elsewhere: the literals of the graph and the values of futures.
    """

    def __init__(self, held: Iterable[Any]) -> None:
        self.kept: dict[int, Any] = {}  # by id
        self.seen: set[int] = set()
        self._held = list(held)  # ids are good while these and the copies live
        for value in self._held:
            form = forms[type(value)]
            if form == _ARRAY:  # most are, hundreds in a solver's pass, and have one part
                self.seen.add(memory_of(value))
            elif form and id(value) not in self.kept:
                self._remember(EditableParts(value))

    def _remember(self, parts: EditableParts) -> None:
        self.kept[id(parts.value)] = parts
        self.seen.update(parts.memory)

    def __call__(self, value: Any) -> Any:
        """Return one output as the caller's own."""
        form = forms[type(value)]
        if not form:
            return copied(value) if type(value) is IteratorItems else value
        number = id(value)
        # A list of plain values, which is frequent, needs no search.
        if form == _ITEMS and not any(map(forms.__getitem__, set(map(type, value)))):
            if number in self.seen:
                return consumer_copy(value)
            self.seen.add(number)
            self.kept[number] = value
            return value
        parts = self.kept.get(number) or EditableParts(value)
        if not self.seen.isdisjoint(parts.memory):
            return parts.remade(self.seen)
        self._remember(parts)
        return parts.remade(_NOTHING_HELD) if parts.is_marked else value


_NOTHING_HELD: set[int] = set()


# -- from an actor to other code in its process ---------------------------------------------


def is_alone(box: list[Any]) -> bool:
    """Return whether the only item of a list is an array that nothing else holds, nor its memory.

    >>> import numpy as np
    >>> x = np.zeros(2)
    >>> is_alone([np.zeros(2)]), is_alone([x]), is_alone([x[:1]])
    (True, False, False)
    """
    if sys.getrefcount(box[0]) > _IN_A_BOX or kinds[type(box[0])] != ARRAY:
        return False
    return box[0].base is None


def detached(box: list[Any]) -> Any:
    """Return the result of an actor's call, which it takes out of `box`, as others may keep it."""
    return box.pop() if is_alone(box) else copied(box.pop())


def own(box: list[Any]) -> Any:
    """Return a value, taken out of `box`, as an actor may edit and keep it.

    >>> import numpy as np
    >>> x = np.zeros(2)
    >>> own([x]) is x
    False
    """
    is_mine = sys.getrefcount(box[0]) <= _IN_A_BOX
    value = box.pop()
    if not is_mine or not forms[type(value)]:
        return copied(value)
    parts = EditableParts(value)
    # Of arrays it can be seen whether something else holds their memory.
    return parts.remade({id(part) for part in parts.whole if forms[type(part)] != _ARRAY})


_box = [object()]
#: References to a value that only a list holds, as getrefcount counts them.
_IN_A_BOX = sys.getrefcount(_box[0])

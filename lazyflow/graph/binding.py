"""Finds the inputs inside a call's arguments, once, when the call is made.

Containers are searched to any depth by an explicit stack. The search leaves behind a `Binder`,
which puts the values of the inputs in their places at every execution.

Policy: neither later edits by the caller nor those of the task change the graph. So containers are
copied at the call and again at each execution, arrays are write-protected or copied, and an
iterator is taken at the call, or, if it is long, wrapped so that a second execution finds the same
items. Most calls have plain and lazy arguments alone: `_bind_simple` does these without a search.

A call and what is left of it::

    f(x, [1, y], k=x)               x, y lazy
      inputs    (x, y, x)           one for each place, numbered as they are found
      makers    [list of [1, hole]] containers to be made, inner ones first
      template  [hole, hole, hole]  the arguments, by position and then by name
      holes     [(0, 0), (1, ~0), (2, 2)]
                  |  |    |  |
                  |  |    |  made by maker 0, as ~0 is negative
                  |  the value of input 0
                  position in the template

State of an `_ArgumentSearch`, which lives during one call, in the caller's thread::

    inputs :: [Task]
    makers :: [(make, template, holes, extra)]
    memo :: {id: (is a source, source or literal)}   an object that is met again is not searched
    keep :: [object]                                 keeps the ids of the memo valid
    open :: {id: depth}                              containers that are being searched
    intact, nested :: {id}; private :: {id: source}  literals, by how they are copied

>>> from lazyflow import delayed
>>> x, y = delayed(abs)(-1), delayed(abs)(-2)
>>> inputs, binder = bind((x, [1, y]), {"k": x})
>>> inputs == (x, y, x), binder.holes                    # ~0 is -1
(True, [(0, 0), (1, -1), (2, 2)])
>>> binder.fill([10, 20, 10])
([10, [1, 20]], {'k': 10})
"""

from __future__ import annotations

import copy
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from types import GeneratorType
from typing import Any

from lazyflow.graph.arguments import (
    Binder,
    Holes,
    Make,
    copied,
    copied_to_depth,
    deeply_copied,
    frame_copied,
    same,
    shared_copy,
    take_apart,
)
from lazyflow.graph.guards import guarded, is_open
from lazyflow.graph.kinds import (
    ARRAY,
    ATOM,
    COLLECTION,
    DATACLASS,
    DICT,
    DICTLIKE,
    DICTVIEW,
    FOREIGN,
    FRAME,
    IMMUTABLE,
    ITERATOR,
    LAZY,
    LIST,
    LISTLIKE,
    NAMEDTUPLE,
    SET,
    TUPLE,
    kinds,
)
from lazyflow.graph.options import (
    DEFAULT,
    HIDDEN,
    HIDDEN_OPERATOR,
    NAMED,
    OPERATOR,
    Options,
    annotation,
)
from lazyflow.graph.task import Task, height_over, is_hidden
from lazyflow.services import service

# -- iterators among arguments ------------------------------------------------------------
#
# A short one is taken at the call, so that lazy values in it are found and any scheduler can send
# it. Of a longer one that begins with plain values the rest is left, since it may have no end, or
# more than fits the memory.

#: Iterators that make their items one by one; the items of others are in memory already.
MAKES_ITEMS = frozenset({GeneratorType, map, zip, filter, enumerate})

_FIRST = 1000  # items that are taken at the call; a guess
_FIRST_BYTES = 1 << 20  # or as many as have this size
_KEPT_BYTES = 1 << 24  # of items that are kept for another run of the task; a guess

_LAZY_OR_FOREIGN = frozenset({LAZY, COLLECTION, FOREIGN})


def begun(iterator: Iterator[Any]) -> tuple[list[Any], bool]:
    """Return the first items of an iterator, and whether it may have more that were not taken.

    >>> import itertools
    >>> begun(iter("ab")), len(begun(itertools.count())[0])
    ((['a', 'b'], False), 1000)
    """
    items: list[Any] = []
    size = 0
    for item in iterator:
        items.append(item)
        size += _size(item)
        if size > _FIRST_BYTES or len(items) >= _FIRST:
            if not _holds_lazy(items):
                return items, True
            items.extend(iterator)
    return items, False


def _size(item: Any) -> int:
    """Return a guess of the bytes of an item."""
    kind = type(item)
    if kind in (str, bytes, bytearray):
        return len(item) + 64
    if kinds[kind] == ARRAY:
        return int(item.nbytes) + 128
    return 64 if kind in IMMUTABLE else 1 << 12


def _holds_lazy(items: list[Any]) -> bool:
    """Tell whether a lazy value is among some items, or in lists, tuples and dicts among them."""
    known: set[int] = set()
    stack: list[Any] = [items]
    while stack:
        part = stack.pop()
        for item in part.values() if type(part) is dict else part:
            if kinds[type(item)] in _LAZY_OR_FOREIGN:
                return True
            if type(item) in (list, tuple, dict) and id(item) not in known:
                known.add(id(item))
                stack.append(item)
    return False


class ItemStream:
    """An iterable over the items of a long iterator, which are taken on demand.

    Taken items are kept for another run of the task, up to a limit. Beyond it, only the present
    reader can read to the end.
    """

    def __init__(self, kept: list[Any], rest: Iterator[Any]) -> None:
        self._kept = kept
        self._size = sum(map(_size, kept))
        self._rest = rest
        self._lock = threading.Lock()
        self._last: object = None  # who reads it alone

    def __iter__(self) -> Iterator[Any]:
        return _Reader(self, self._kept)

    def take(self, reader: object, kept: list[Any], at: int) -> Any:
        """Return item `at` for a reader that has come to the end of `kept`."""
        with self._lock:
            if at < len(kept):  # another reader was here
                return kept[at]
            if self._last is not None and self._last is not reader:
                raise _used_up()
            item = next(self._rest)
            if kinds[type(item)] in _LAZY_OR_FOREIGN:
                raise TypeError(
                    f"item {at} of an iterator among the arguments is lazy, but lazy values are "
                    "found only among its first items. Pass list(...) of the iterator"
                )
            self._size += _size(item)
            if self._size <= _KEPT_BYTES:
                kept.append(item)
            else:
                self._last, self._kept = reader, []
            return item

    def all(self) -> list[Any]:
        """Return all items, if they are not too many to be sent to another process."""
        if self._last is None:
            kept = self._kept
            reader = iter(self)
            while self._last is None and next(reader, self) is not self:
                pass
            if self._last is None:
                return kept
        raise TypeError(
            f"an iterator among the arguments has more than {_KEPT_BYTES >> 20} MB of items, or no "
            "end, so it can't be sent to another process. Pass list(...) of it if that fits in "
            "memory, make the items in the task, or compute on threads, which take them one by one"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return ItemStream, (self.all(), iter(()))


class _Reader:
    """An iterator over the items of a `ItemStream`."""

    __slots__ = ("_at", "_kept", "_me", "_stream")

    def __init__(self, stream: ItemStream, kept: list[Any]) -> None:
        self._stream = stream
        self._kept = kept
        self._at = 0
        self._me = object()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        at, kept = self._at, self._kept
        item = kept[at] if at < len(kept) else self._stream.take(self._me, kept, at)
        self._at = at + 1
        return item

    def __reduce__(self) -> tuple[Any, ...]:
        return iter, (self._stream.all(),)


def _used_up() -> TypeError:
    return TypeError(
        "an iterator among the arguments was used up by an earlier run of this task: it had more "
        f"items than the {_KEPT_BYTES >> 20} MB that are kept for another run. Make the call again "
        "with a new iterator, or pass list(...) of it"
    )


def streamed(items: list[Any], extra: Any) -> Any:
    """Return an iterator over the only item, a `ItemStream`."""
    return iter(items[0])


# -- the search for inputs ----------------------------------------------------------------

#: Kinds that are looked at without ``traverse``, too.
_NOT_SEARCHED = frozenset({LAZY, COLLECTION, ARRAY, FRAME, FOREIGN})

_LAZY = frozenset({LAZY, COLLECTION})

#: Kinds that are made again at each execution: they are one-shot, or may change before it.
_ALWAYS_MADE = (ITERATOR, DICTVIEW)

#: Kinds of arguments that are copied when they hold no task.
_COPIED_LITERALS = frozenset({LIST, DICT, SET, LISTLIKE, DICTLIKE})

#: Kinds of arguments in which containers are copied, too.
_OPENED = _COPIED_LITERALS | {TUPLE, NAMEDTUPLE}

#: Kinds that are handed over uncopied, with their contents, where they hold no task.
_LEFT = frozenset({DATACLASS, ARRAY})


class _Level:
    """One level of the search: a container whose items are being looked at."""

    __slots__ = (
        "changed", "container", "depth", "extra", "holes", "index", "is_nested", "items", "kind",
        "low", "make", "todo",
    )

    def __init__(
        self, container: Any, kind: int, index: int, depth: int, taken: list[Any] | None = None
    ) -> None:
        self.container = container
        self.kind = kind
        self.index = index  # in the parent's items
        self.depth = depth
        self.low = depth + 1  # depth of the outermost container that was met again below
        self.items, self.make, self.extra = take_apart(kind, container if taken is None else taken)
        self.holes: Holes = []
        self.changed = False
        self.is_nested = False  # it has containers that can be edited
        self.todo: list[int] = []  # positions that have to be looked at, last first

    def put(self, position: int, item: Any) -> None:
        """Replace one item, in a copy of the user's list."""
        if not self.changed:
            self.items = list(self.items)
            self.changed = True
        self.items[position] = item

    def hole_positions(self) -> Sequence[int]:
        """Return the positions where something has to be put."""
        if isinstance(self.holes, range):
            return range(len(self.items))
        return [position for position, _ in self.holes]


def _without_inputs(level: _Level) -> Any:
    """Return the template of a container, which keeps none of the tasks in it alive.

    A task that could be reached otherwise than by its consumer's inputs would be pickled inside
    the consumer, and the user may change the container.
    """
    x = level.container
    if level.kind in (LISTLIKE, DICTLIKE):
        new = copy.copy(x)
        new.clear()
        return new
    if level.kind == ARRAY:
        return sys.modules["numpy"].empty_like(x)
    if level.kind == DATACLASS:
        new, names = copy.copy(x), level.extra[1]
        for position in level.hole_positions():
            object.__setattr__(new, names[position], None)
        return new, names
    return level.extra


class _ArgumentSearch:
    """One search through the arguments of one call."""

    def __init__(self, mutates: bool, traverse: bool, as_is: bool) -> None:
        self.mutates = mutates
        self.traverse = traverse
        self.as_is = as_is
        self.inputs: list[Task] = []
        self.makers: list[tuple[Make, list[Any] | None, Holes, Any]] = []
        self.memo: dict[int, tuple[bool, Any]] = {}  # id -> (is a source, source or literal)
        self.keep: list[Any] = []  # objects whose ids are in the memo, so that none is reused
        self.open: dict[int, int] = {}  # id -> depth
        self.intact: set[int] = set()  # ids of containers that hold themselves
        self.nested: set[int] = set()  # ids of literals that have containers to be copied in them
        self.private: dict[int, int] = {}  # id of a literal -> the source of its copies

    def walk(self, root: _Level) -> None:
        """Search everything below `root`, whose own items become the template and the holes."""
        self._scan(root)
        if not self.traverse:
            root.todo = [i for i in root.todo if kinds[type(root.items[i])] in _NOT_SEARCHED]
        root.changed = True  # its items are a list of this search
        stack = [root]
        while stack:
            level = stack[-1]
            if not level.todo:
                stack.pop()
                if level is not root:
                    self._close(level, stack[-1])
                continue
            position = level.todo.pop()
            item = level.items[position]
            kind = kinds[type(item)]
            known = self.memo.get(id(item))
            if known is not None:
                self._put(level, position, *known)
                level.is_nested = level.is_nested or kind in _OPENED
            elif id(item) in self.open:
                level.low = min(level.low, self.open[id(item)])
            elif kind == LAZY:
                self._hole(level, position, len(self.inputs))
                self.inputs.append(item)
            elif kind == COLLECTION:
                self._collection(level, position, item)
            elif kind == FOREIGN:
                self._foreign(level, position, item)
            elif kind == ARRAY and not item.dtype.hasobject:
                self._array(level, position, item)
            elif kind == FRAME:
                if not self.as_is:
                    self._maker(level, position, item, frame_copied, self.mutates)
            elif kind == ITERATOR and type(item) in MAKES_ITEMS:
                taken, is_longer = begun(item)
                if is_longer:
                    self._stream(level, position, item, ItemStream(taken, item))
                else:
                    self._open(_Level(item, kind, position, len(stack), taken), stack)
            else:
                self._open(_Level(item, kind, position, len(stack)), stack)

    def _open(self, child: _Level, stack: list[_Level]) -> None:
        self.open[id(child.container)] = child.depth
        self._scan(child)
        stack.append(child)

    def _stream(self, level: _Level, position: int, item: Any, stream: ItemStream) -> None:
        if self.as_is:
            self._settle(level, position, item, False, iter(stream))
        else:
            self._maker(level, position, item, streamed, None, stream)

    def _scan(self, level: _Level) -> None:
        """Note which items to search: none in a container of only atoms, or only tasks."""
        items = level.items
        item_kinds = {kinds[t] for t in set(map(type, items))}
        if not item_kinds - {ATOM}:
            return
        if item_kinds == {LAZY} and level.index >= 0 and len(items) > 1:
            level.holes = range(len(self.inputs), len(self.inputs) + len(items))
            self.inputs.extend(items)
            return
        level.todo = [i for i in range(len(items) - 1, -1, -1) if kinds[type(items[i])]]

    def _close(self, level: _Level, parent: _Level) -> None:
        container = level.container
        del self.open[id(container)]
        parent.low = min(parent.low, level.low)
        if level.low <= level.depth:
            if level.holes:
                raise _holds_itself()
            self.intact.add(id(container))
            result = (False, container)
        elif self.as_is and level.kind == ITERATOR and not level.holes:
            result = (False, iter(level.items))  # the given one has been consumed
        elif level.holes or (level.kind in _ALWAYS_MADE and not self.as_is):
            if not self.as_is:
                self.keep_private(level)
            template = None if isinstance(level.holes, range) else list(level.items)
            make = same if self.as_is and level.kind == ITERATOR else level.make
            self.makers.append((make, template, level.holes, _without_inputs(level)))
            result = (True, ~(len(self.makers) - 1))
        elif level.changed:
            result = (False, level.make(level.items, _without_inputs(level)))
        elif level.kind == ARRAY and not self.mutates and not self.as_is:
            result = (False, guarded(container))
        else:
            result = (False, container)
        if level.kind in _COPIED_LITERALS or level.is_nested:
            parent.is_nested = parent.is_nested or level.kind not in _LEFT
        if level.is_nested and not result[0]:
            self.nested.add(id(result[1]))
        self._settle(parent, level.index, container, *result)

    def _settle(
        self, level: _Level, position: int, item: Any, is_source: bool, new: Any
    ) -> None:
        """Note the replacement of an argument, for here and its later occurrences."""
        self.memo[id(item)] = (is_source, new)
        self.keep.append(item)
        self._put(level, position, is_source, new)

    def _put(self, level: _Level, position: int, is_source: bool, new: Any) -> None:
        if is_source:
            self._hole(level, position, new)
        elif new is not level.items[position]:
            level.put(position, new)

    def _hole(self, level: _Level, position: int, source: int) -> None:
        level.put(position, None)
        level.holes.append((position, source))  # type: ignore[union-attr]

    def _collection(self, level: _Level, position: int, item: Any) -> None:
        if self.as_is:
            self._hole(level, position, len(self.inputs))
            self.inputs.append(item)
        else:
            self._settle(level, position, item, True, len(self.inputs))
            self.inputs.append(item.__lazyflow_value__())

    def _foreign(self, level: _Level, position: int, item: Any) -> None:
        task = service("dask_task")(item)
        if task is not None:
            self._settle(level, position, item, True, len(self.inputs))
            self.inputs.append(task)

    def _array(self, level: _Level, position: int, array: Any) -> None:
        if self.as_is:
            return
        if self.mutates:
            self._maker(level, position, array, copied, None)
        elif is_open(array):
            self._settle(level, position, array, False, guarded(array))

    def keep_private(self, level: _Level) -> None:
        """Copy the plain containers among the items of a level, now and at each execution.

        The arguments of a function that edits them are all copied, with all that they hold.
        """
        if isinstance(level.holes, range) or level.kind not in _OPENED:
            return
        keys = len(level.items) // 2 if level.kind in (DICT, DICTLIKE) else 0
        holes = {position for position, _ in level.holes}
        for position, item in enumerate(level.items):
            if position < keys or position in holes or type(item) in IMMUTABLE:
                continue
            copier = deeply_copied if self.mutates else self._copier(item)
            if copier is None:
                continue
            if id(item) not in self.private:
                self.makers.append((copier, shared_copy(item, copier), [], None))
                self.keep.append(item)
                self.private[id(item)] = ~(len(self.makers) - 1)
            self._hole(level, position, self.private[id(item)])

    def _copier(self, item: Any) -> Make | None:
        kind = kinds[type(item)]
        if id(item) in self.nested and not self.intact and kind in _OPENED:
            return copied_to_depth
        return copied if kind in _COPIED_LITERALS and id(item) not in self.intact else None

    def _maker(
        self, level: _Level, position: int, item: Any, make: Make, extra: Any, of: Any = None
    ) -> None:
        self.makers.append((make, [item if of is None else of], [], extra))
        self._settle(level, position, item, True, ~(len(self.makers) - 1))


def _holds_itself() -> TypeError:
    return TypeError(
        "an argument holds itself and also lazy values, iterators or arrays to be edited, so it "
        "can't be rebuilt for the task. Pass those as arguments of their own."
    )


def bind(
    args: Sequence[Any],
    kwargs: dict[str, Any],
    mutates: bool = False,
    traverse: bool = True,
    as_is: bool = False,
) -> tuple[tuple[Any, ...], Binder]:
    """Return the tasks in a call's arguments, and the binder that puts their values back.

    Containers that hold no task are copied, to any depth, here and again at each execution, so
    that neither the caller's later edits nor the task's own change the graph.

    Parameters
    ----------
    args, kwargs
        The arguments.
    mutates
        The function edits its arguments: literals are copied instead of protected.
    traverse
        False: look only at the arguments themselves.
    as_is
        The arguments are for `compute`: literals pass untouched, an iterator over lazy values
        becomes a list, and a collection is found as it is instead of as one task.

    Raises
    ------
    TypeError
        A container holds itself and lazy values, so it can't be rebuilt around those.
    """
    simple = None if mutates else _bind_simple(args, kwargs, as_is)
    if simple is not None:
        return simple
    search = _ArgumentSearch(mutates, traverse, as_is)
    root = _Level([*args, *kwargs.values()], LIST, -1, 0)
    search.walk(root)
    if not as_is:
        search.keep_private(root)
    binder = Binder(list(root.items), root.holes, search.makers, len(args), tuple(kwargs))
    return tuple(search.inputs), binder


def _bind_simple(
    args: Sequence[Any], kwargs: dict[str, Any], as_is: bool
) -> tuple[tuple[Any, ...], Binder] | None:
    """Do the work of `bind` where no argument has to be searched, as in most calls."""
    items = [*args, *kwargs.values()]
    inputs: list[Any] = []
    holes = []
    has_collections = False
    arrays: dict[int, int] = {}  # id -> position
    for position, item in enumerate(items):
        kind = kinds[type(item)]
        if kind in _LAZY:
            holes.append((position, len(inputs)))
            inputs.append(item)
            items[position] = None
            has_collections = has_collections or kind == COLLECTION
        elif kind == ARRAY and not item.dtype.hasobject:
            if not as_is and (item.flags.writeable or is_open(item)):
                first = arrays.setdefault(id(item), position)
                items[position] = guarded(item) if first == position else items[first]
        elif kind != ATOM:
            return None
    if has_collections and not as_is:
        tasks_of = {id(x): x.__lazyflow_value__() for x in inputs if kinds[type(x)] == COLLECTION}
        inputs = [tasks_of.get(id(x), x) for x in inputs]
    return tuple(inputs), Binder(items, holes, [], len(args), tuple(kwargs))


# -- makes tasks of calls, and leaves of values -------------------------------------------


def new_task(
    cls: type[Task],
    func: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    options: Options = DEFAULT,
    *,
    key: str | None = None,
    traverse: bool = True,
    depth: int = 1,
) -> Any:
    """Return a task of any call; the line that made it is `depth` frames above this one."""
    note = annotation.get()
    if note is not None:
        options = note.apply(options)
    task = object.__new__(Task)
    if len(args) == 1 and kinds[type(args[0])] == LAZY and not kwargs:  # most operators and items
        task._inputs = task._args = args
        task._bind = None
        height = args[0]._height + 1
    else:
        task._inputs, binder = bind(args, kwargs or {}, options.mutates, traverse)
        if binder.holes or kwargs:
            task._bind, task._args = binder, ()
        else:
            task._bind, task._args = None, tuple(binder.template)
        height = height_over(task._inputs)
    if options.operator:
        for x in task._inputs:  # any() would take as long as the rest of an operator
            if x._options.hide is True:
                options = HIDDEN_OPERATOR if options is OPERATOR else options.replace(hide=True)
                break
    task._func = func
    task._options = options
    frame = sys._getframe(depth)
    task._code = frame.f_code
    task._lasti = frame.f_lasti
    task._height = height
    task._key = key
    task.__class__ = cls  # last: Delayed refuses assignment
    return task


def new_leaf(
    cls: type[Task],
    func: Callable[..., Any],
    value: Any,
    key: str | None = None,
    *,
    made_at: Task | None = None,
    depth: int = 1,
) -> Any:
    """Return a leaf: ``func`` is VALUE or HELD; ``made_at`` is a task made at the same line."""
    leaf = object.__new__(Task)
    leaf._func = func
    leaf._args = (value,)
    leaf._inputs = ()
    leaf._bind = None
    leaf._options = DEFAULT if key is None else NAMED
    if made_at is not None:
        leaf._code, leaf._lasti = made_at._code, made_at._lasti
        if is_hidden(made_at):
            leaf._options = HIDDEN if key is None else NAMED.replace(hide=True)
    else:
        frame = sys._getframe(depth)
        leaf._code, leaf._lasti = frame.f_code, frame.f_lasti
    leaf._height = 0
    leaf._key = key
    leaf.__class__ = cls
    return leaf

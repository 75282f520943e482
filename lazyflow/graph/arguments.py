"""Finds the inputs inside a call's arguments, and puts values back in their places.

`bind` runs once, when the call is made; `Binder.fill` runs at every execution. Containers are
searched to any depth by an explicit stack. What the search leaves behind is a short program:

    template   the arguments, with None where something has to be put
    holes      (position, source): source >= 0 is an input, ~source a container made before
    makers     the containers to make first, inner before outer, each with template and holes

so that an execution costs a list copy and one assignment per hole, and every execution gets
containers of its own. A container met twice is made once, as it was.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

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
    FROZENSET,
    IMMUTABLE,
    ITERATOR,
    LAZY,
    LIST,
    LISTLIKE,
    NAMEDTUPLE,
    SET,
    SLICE,
    TUPLE,
    kinds,
)
from lazyflow.services import service

if TYPE_CHECKING:
    from lazyflow.graph.task import Task

Holes = list[tuple[int, int]] | range
Make = Callable[[list[Any], Any], Any]


# How a container is made of its items; `extra` is what else has to be known.


def _same(items: list[Any], extra: Any) -> Any:
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
    return new


def _listlike(items: list[Any], extra: Any) -> Any:
    new = copy.copy(extra)
    (new.update if isinstance(new, set) else new.extend)(items)
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


def _copied(items: list[Any], extra: Any) -> Any:
    try:
        return copy.copy(items[0])
    except Exception:  # a container that can't be filled again can't be edited either
        return items[0]


def _deeply_copied(items: list[Any], extra: Any) -> Any:
    try:
        return copy.deepcopy(items[0])
    except Exception:  # a lock, a module: what can't be copied is not edited by accident either
        return items[0]


def _frame_copied(items: list[Any], extra: Any) -> Any:
    return items[0].copy(deep=bool(extra))


def _take_apart(kind: int, x: Any) -> tuple[list[Any], Make, Any]:
    """The items of a container, and how to make one like it of other items."""
    if kind == LIST:
        return x, _same, None
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
        return list(x), _listlike, x
    if kind == DICTLIKE:
        return [*x.keys(), *x.values()], _dictlike, x
    if kind == ARRAY:
        return x.reshape(-1).tolist(), _object_array, x
    from dataclasses import fields  # loaded already: x is one

    names = [field.name for field in fields(x) if hasattr(x, field.name)]
    return [getattr(x, name) for name in names], _dataclass, (x, names)


def _emptied(container: Any) -> Any:
    new = copy.copy(container)
    new.clear()
    return new


def _without_inputs(frame: _Frame) -> Any:
    """What a container is made with, when tasks are to be put in: keeps none of them alive.

    A task that could be reached other than by its consumer's inputs would be pickled inside
    the other, and the user's own container might be changed by him.
    """
    x = frame.container
    if frame.kind in (LISTLIKE, DICTLIKE):
        return _emptied(x)
    if frame.kind == ARRAY:
        return sys.modules["numpy"].empty_like(x)
    if frame.kind == DATACLASS:
        new, names = copy.copy(x), frame.extra[1]
        for position in frame.hole_positions():
            object.__setattr__(new, names[position], None)
        return new, names
    return frame.extra


#: Looked at without traverse, too.
_NOT_SEARCHED = frozenset({LAZY, COLLECTION, ARRAY, FRAME, FOREIGN})
_ALWAYS_MADE = (ITERATOR, DICTVIEW)  # one-shot, or changing under the task's feet


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


class _Frame:
    """A container whose items are being looked at."""

    __slots__ = (
        "changed", "container", "depth", "extra", "holes", "items", "kind", "low", "make", "place",
        "todo",
    )

    def __init__(self, container: Any, kind: int, place: int, depth: int) -> None:
        self.container = container
        self.kind = kind
        self.place = place  # position in the parent's items
        self.depth = depth
        self.low = depth + 1  # depth of the outermost container that was met again below
        self.items, self.make, self.extra = _take_apart(kind, container)
        self.holes: Holes = []
        self.changed = False
        self.todo: list[int] = []  # positions that have to be looked at, last first

    def put(self, position: int, item: Any) -> None:
        """Replace one item, in a copy of the user's list."""
        if not self.changed:
            self.items = list(self.items)
            self.changed = True
        self.items[position] = item

    def hole_positions(self) -> Sequence[int]:
        """Where something has to be put."""
        if isinstance(self.holes, range):
            return range(len(self.items))
        return [position for position, _ in self.holes]


class _Search:
    """One search through the arguments of one call."""

    def __init__(self, mutates: bool, traverse: bool, as_is: bool) -> None:
        self.mutates = mutates
        self.traverse = traverse
        self.as_is = as_is
        self.inputs: list[Task] = []
        self.makers: list[tuple[Make, list[Any] | None, Holes, Any]] = []
        self.memo: dict[int, tuple[bool, Any]] = {}  # id -> (is a source, source or literal)
        self.keep: list[Any] = []  # what the memo names by id
        self.open: dict[int, int] = {}  # id -> depth
        self.intact: set[int] = set()  # ids of containers that hold themselves

    def walk(self, root: _Frame) -> None:
        """Look at everything below `root`, whose own items become template and holes."""
        self._scan(root)
        if not self.traverse:
            root.todo = [i for i in root.todo if kinds[type(root.items[i])] in _NOT_SEARCHED]
        root.changed = True  # its items are our own list
        stack = [root]
        while stack:
            frame = stack[-1]
            if not frame.todo:
                stack.pop()
                if frame is not root:
                    self._close(frame, stack[-1])
                continue
            position = frame.todo.pop()
            item = frame.items[position]
            kind = kinds[type(item)]
            known = self.memo.get(id(item))
            if known is not None:
                self._place(frame, position, *known)
            elif id(item) in self.open:
                frame.low = min(frame.low, self.open[id(item)])
            elif kind == LAZY:
                self._hole(frame, position, len(self.inputs))
                self.inputs.append(item)
            elif kind == COLLECTION:
                self._collection(frame, position, item)
            elif kind == FOREIGN:
                self._foreign(frame, position, item)
            elif kind == ARRAY and not item.dtype.hasobject:
                self._array(frame, position, item)
            elif kind == FRAME:
                if not self.as_is:
                    self._maker(frame, position, item, _frame_copied, self.mutates)
            else:
                child = _Frame(item, kind, position, len(stack))
                self.open[id(item)] = child.depth
                self._scan(child)
                stack.append(child)

    def _scan(self, frame: _Frame) -> None:
        """Note which items need a look; most containers hold only atoms, or only tasks."""
        items = frame.items
        found = {kinds[t] for t in set(map(type, items))}
        if not found - {ATOM}:
            return
        if found == {LAZY} and frame.place >= 0 and len(items) > 1:
            frame.holes = range(len(self.inputs), len(self.inputs) + len(items))
            self.inputs.extend(items)
            return
        frame.todo = [i for i in range(len(items) - 1, -1, -1) if kinds[type(items[i])]]

    def _close(self, frame: _Frame, parent: _Frame) -> None:
        container = frame.container
        del self.open[id(container)]
        parent.low = min(parent.low, frame.low)
        if frame.low <= frame.depth:
            if frame.holes:
                raise _holds_itself()
            self.intact.add(id(container))
            result = (False, container)
        elif self.as_is and frame.kind == ITERATOR and not frame.holes:
            result = (False, iter(frame.items))  # in the place of the one that was taken
        elif frame.holes or (frame.kind in _ALWAYS_MADE and not self.as_is):
            template = None if isinstance(frame.holes, range) else list(frame.items)
            make = _same if self.as_is and frame.kind == ITERATOR else frame.make
            self.makers.append((make, template, frame.holes, _without_inputs(frame)))
            result = (True, ~(len(self.makers) - 1))
        elif frame.changed:
            result = (False, frame.make(frame.items, _without_inputs(frame)))
        elif frame.kind == ARRAY and not self.mutates and not self.as_is:
            result = (False, read_only(container))
        else:
            result = (False, container)
        self.memo[id(container)] = result
        self.keep.append(container)
        self._place(parent, frame.place, *result)

    def _place(self, frame: _Frame, position: int, is_source: bool, what: Any) -> None:
        if is_source:
            self._hole(frame, position, what)
        elif what is not frame.items[position]:
            frame.put(position, what)

    def _hole(self, frame: _Frame, position: int, source: int) -> None:
        frame.put(position, None)
        frame.holes.append((position, source))  # type: ignore[union-attr]

    def _collection(self, frame: _Frame, position: int, item: Any) -> None:
        self._hole(frame, position, len(self.inputs))
        if self.as_is:
            self.inputs.append(item)
        else:
            self.memo[id(item)] = (True, len(self.inputs))
            self.keep.append(item)
            self.inputs.append(item.__lazyflow_value__())

    def _foreign(self, frame: _Frame, position: int, item: Any) -> None:
        task = service("dask_task")(item)
        if task is not None:
            self._hole(frame, position, len(self.inputs))
            self.memo[id(item)] = (True, len(self.inputs))
            self.keep.append(item)
            self.inputs.append(task)

    def _array(self, frame: _Frame, position: int, array: Any) -> None:
        if self.as_is:
            return
        if self.mutates:
            self._maker(frame, position, array, _copied, None)
        elif array.flags.writeable:
            view = read_only(array)
            self.memo[id(array)] = (False, view)
            self.keep.append(array)
            frame.put(position, view)

    def copy_literals(self, root: _Frame) -> None:
        """Copy the arguments that are containers of plain values, now and at each execution.

        For a function that edits its arguments, copy all of them and all they hold.
        """
        sources: dict[int, int] = {}
        holes = {position for position, _ in root.holes}  # type: ignore[misc]
        for position, item in enumerate(root.items):
            if self.mutates:
                wanted = position not in holes and type(item) not in IMMUTABLE
            else:
                wanted = kinds[type(item)] in _COPIED_LITERALS and id(item) not in self.intact
            if wanted:
                if id(item) not in sources:
                    copier = _deeply_copied if self.mutates else _copied
                    self.makers.append((copier, [copier([item], None)], [], None))
                    sources[id(item)] = ~(len(self.makers) - 1)
                self._hole(root, position, sources[id(item)])

    def _maker(self, frame: _Frame, position: int, item: Any, make: Make, extra: Any) -> None:
        self.makers.append((make, [item], [], extra))
        source = ~(len(self.makers) - 1)
        self.memo[id(item)] = (True, source)
        self.keep.append(item)
        self._hole(frame, position, source)


def _holds_itself() -> TypeError:
    return TypeError(
        "an argument holds itself and also lazy values, iterators or arrays to be edited, so it "
        "can't be rebuilt for the task. Pass those as arguments of their own."
    )


_COPIED_LITERALS = frozenset({LIST, DICT, SET, LISTLIKE, DICTLIKE})


def bind(
    args: Sequence[Any],
    kwargs: dict[str, Any],
    mutates: bool = False,
    traverse: bool = True,
    as_is: bool = False,
) -> tuple[tuple[Any, ...], Binder]:
    """Find the tasks in a call's arguments; return them, and what puts their values back.

    Containers that hold no task are copied (their top level) here and again at each
    execution, so that neither the caller's later edits nor the task's own change the graph.

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
        becomes a list, and collections are found as they are, not as one task.

    Raises
    ------
    TypeError
        A container holds itself, and lazy values too: it can't be rebuilt around them.
    """
    simple = None if mutates else _bind_simple(args, kwargs)
    if simple is not None:
        return simple
    search = _Search(mutates, traverse, as_is)
    root = _Frame([*args, *kwargs.values()], LIST, -1, 0)
    search.walk(root)
    if not as_is:
        search.copy_literals(root)
    binder = Binder(list(root.items), root.holes, search.makers, len(args), tuple(kwargs))
    return tuple(search.inputs), binder


def _bind_simple(
    args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], Binder] | None:
    """Do what `bind` does where no argument is a container; most calls are such."""
    items = [*args, *kwargs.values()]
    inputs: list[Task] = []
    holes = []
    for position, item in enumerate(items):
        kind = kinds[type(item)]
        if kind == LAZY:
            holes.append((position, len(inputs)))
            inputs.append(item)
            items[position] = None
        elif kind != ATOM:
            return None
    return tuple(inputs), Binder(items, holes, [], len(args), tuple(kwargs))


height_of = attrgetter("_height")


def height_over(inputs: Sequence[Task]) -> int:
    """One more than the longest path below these inputs (0 for none)."""
    return max(map(height_of, inputs)) + 1 if inputs else 0


__all__ = ["Binder", "bind", "height_of", "height_over", "read_only"]

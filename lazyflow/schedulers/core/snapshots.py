"""A run in the background reads the caller's arrays as they were when it was started.

Containers were copied when the calls were made. Here arrays, frames and buffers up to a size are
copied, once per run. Of larger ones a sample is kept, and a task that has read one fails if the
sample differs afterwards: see `Watch`. Expressions of arrays treat their operands alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lazyflow.errors import InputMutated
from lazyflow.graph.arguments import Binder
from lazyflow.graph.guards import base_of
from lazyflow.graph.kinds import ARRAY, FRAME, frame_copy, kinds
from lazyflow.graph.plan import Plan
from lazyflow.graph.task import VALUE, Task, place_text, task_name
from lazyflow.store.ownership import SPARSE_FORM, EditableParts, arrays_of, forms
from lazyflow.store.protected import QUICK, has_no_array
from lazyflow.store.sizes import format_bytes
from lazyflow.store.values import locked

#: Bytes; copying so much costs 1 to 4 us, a tenth of starting a run.
COPIED_UP_TO = 1 << 16

_TINY = 1 << 10  # bytes; so much is copied sooner than it is recognised in another call

_PLACES = 256  # elements of an array that are looked at; a guess


class Watch:
    """A sample of an array that is too large to copy, by which a later write is noticed.

    A sample of some hundred elements, evenly spread, finds that a buffer was filled again, and
    misses writes into small parts.
    """

    __slots__ = ("_sample", "_steps", "array")

    def __init__(self, array: Any) -> None:
        self.array = array
        per_axis = max(int(_PLACES ** (1 / max(array.ndim, 1))), 2)
        self._steps = tuple([slice(None, None, max(n // per_axis, 1)) for n in array.shape])
        self._sample = self._now()

    def _now(self) -> bytes:
        sample: bytes = self.array[self._steps].tobytes()
        return sample

    def has_changed(self) -> bool:
        """Tell whether the sample differs from that at first."""
        return self._now() != self._sample

    def verify(self, task: Task) -> None:
        """Raise InputMutated if the array has changed, on behalf of a task that read it."""
        if not self.has_changed():
            return
        array, name = self.array, task_name(task)
        raise InputMutated(
            f"the program wrote into an array that {name} reads ({array.dtype}, shape "
            f"{array.shape}) after the call was started and before it had ended, so its result "
            f"would mix the old and the new content. Arrays of up to "
            f"{format_bytes(COPIED_UP_TO)} are copied when a call is started, larger ones are read "
            f"where they are: give it a copy, as {name}(x.copy()), or wait for the result before "
            f"the array is filled again. Made at {place_text(task)}"
        )


Watches = dict[int, list[Watch]]


def snapshot(plan: Plan) -> tuple[Plan, Watches]:
    """Return a plan whose literals the caller can't change, and watches of those it can.

    The watches of an array are those of the tasks that read it, by their numbers.
    """
    taken = Taken()
    tasks: list[Task] | None = None
    for i, task in enumerate(plan.tasks):
        bind, args = task._bind, task._args
        if bind is None:
            if args is task._inputs:
                continue
            for literal in args:
                if forms[type(literal)]:
                    break
            else:
                continue
        taken.begin()
        new_args = tuple([taken.part(x) for x in args])
        new_bind = None if bind is None else taken.binder(bind)
        if taken.watches:
            readers = plan.uses(i) if task._func is VALUE else (i,)
            for reader in {i, *readers}:
                taken.all.setdefault(reader, []).extend(taken.watches)
        if taken.changed:
            tasks = tasks or list(plan.tasks)
            tasks[i] = _with_literals(task, new_args, new_bind)
    return plan if tasks is None else plan.with_tasks(tasks), taken.all


def verify(watches: Watches, i: int, task: Task) -> None:
    """Raise InputMutated if an array that task `i` read has changed."""
    for watch in watches.get(i, ()):
        watch.verify(task)


class Taken:
    """The copies made for one run, or an expression: of each array, frame and buffer once."""

    def __init__(self) -> None:
        self.all: Watches = {}
        self._known: dict[Any, Any] = {}
        self.begin()

    def begin(self) -> None:
        """Go on with the next task."""
        self.watches: list[Watch] = []
        self.changed = False

    def binder(self, bind: Binder) -> Binder:
        """Return a binder with copies in its templates."""
        template = [self.part(x) for x in bind.template]
        makers = [
            (make, inside and [self.part(x) for x in inside], holes, extra)
            for make, inside, holes, extra in bind.makers
        ]
        return Binder(template, bind.holes, makers, bind.n_positional, bind.names)

    def part(self, value: Any) -> Any:
        """Return a literal with copies of its small, editable parts."""
        if not forms[type(value)]:
            return value
        if kinds[type(value)] == ARRAY:
            new = self._array(value)
        elif type(value) in QUICK and has_no_array(value):
            return value
        else:
            new = EditableParts(value).changed(self._whole)
        self.changed = self.changed or new is not value
        return new

    def _whole(self, value: Any) -> Any:
        kind = kinds[type(value)]
        if kind == ARRAY:
            return self._array(value)
        if kind == FRAME or type(value) is bytearray:
            if id(value) not in self._known:  # the plan holds it
                self._known[id(value)] = frame_copy(value) if kind == FRAME else value[:]
            return self._known[id(value)]
        if forms[type(value)] == SPARSE_FORM:
            return self._sparse(value)
        return value

    def _sparse(self, matrix: Any) -> Any:
        known = self._known.get(id(matrix))
        if known is None:
            arrays = arrays_of(matrix)
            if sum(array.nbytes for array in arrays) > COPIED_UP_TO:
                known = [Watch(array) for array in arrays if _can_change(array)]
            else:
                known = matrix.copy()
            self._known[id(matrix)] = known
        if type(known) is not list:
            return known
        self.watches.extend(known)
        return matrix

    def _array(self, array: Any) -> Any:
        known = self._known.get(id(array))
        if known is not None:
            return known
        if not _can_change(array):
            return array
        if array.nbytes <= _TINY:
            known = self._known[id(array)] = locked(array.copy(order="K"), True)
            return known
        key = array.__array_interface__["data"], array.shape, array.strides, array.dtype
        known = self._known.get(key)
        if known is None:
            if array.nbytes <= COPIED_UP_TO or array.dtype.hasobject:
                known = locked(array.copy(order="K"), True)
            else:
                known = Watch(array)
            self._known[key] = known
        if type(known) is not Watch:
            return known
        self.watches.append(known)
        return array


def _can_change(array: Any) -> bool:
    """Tell whether the memory of an array may be written to."""
    below = array
    while below is not None:
        if type(below) is bytearray or (kinds[type(below)] == ARRAY and below.flags.writeable):
            return True
        below = base_of(below)
    return False


def _with_literals(task: Task, args: Sequence[Any], bind: Binder | None) -> Task:
    new = object.__new__(Task)
    new._func, new._args, new._inputs, new._bind = task._func, tuple(args), task._inputs, bind
    new._options, new._code, new._lasti = task._options, task._code, task._lasti
    new._height, new._key = task._height, task._key
    return new

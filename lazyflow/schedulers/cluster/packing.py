"""The messages of a run to an engine's workers: groups of tasks as bytes, and their leaves.

Functions are named by digest and opened once per worker. Each task's arguments are pickled by
themselves: if that fails, or the worker can't open them, only that task fails. Literals and
functions that are large are not in the bytes: the engine holds them.

A message (`Packer.packed`, read by `Work`) refers to all else by index::

    head, number of the group
    payloads :: [(digest, payload or index of a dep)]       of each function once
    options :: [Options]
    externals :: [("held", dep, number) | ("piece", bytes) | ("failed", culprit)]
                 inputs from outside the group; with "hidden" before, messages do not show them
    members :: [(task, function, how, arguments, inputs, options, place, key)]
                 an input is (0, external) or (1, member)
    outputs, asked :: [member]                              kept by the engine; wanted by the caller

and the engine turns ``Packer.deps``, the values that it holds, into inputs of its own task.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from lazyflow.errors import InputMutated
from lazyflow.graph.items import Item
from lazyflow.graph.kinds import ARRAY, kinds
from lazyflow.graph.options import Options, scheduling_options
from lazyflow.graph.plan import Plan
from lazyflow.graph.task import HELD, Task, place, task_name
from lazyflow.schedulers.cluster.engine import Engine
from lazyflow.schedulers.cluster.group_queue import GroupQueue, TaskGroup
from lazyflow.schedulers.cluster.outcome import LARGE, is_large, piece
from lazyflow.schedulers.cluster.results import EngineResult, Put
from lazyflow.schedulers.core.errors.failures import dressed
from lazyflow.schedulers.core.future import TaskFuture
from lazyflow.schedulers.core.snapshots import verify
from lazyflow.schedulers.remote.calls import culprit, is_short, unsendable
from lazyflow.store.pickling.unpicklable import Unpicklable

# -- names of groups on an engine's own pages: their functions and number of tasks --------
#
# distributed's pages and measured durations go by the part of a key before its numbers; Ray's
# summary goes by the names of tasks. So groups of equal work have equal names.

_MAX_NAMES = 3  # names that are shown


def group_name(kinds: Sequence[Task], count: int) -> str:
    """Return the name of a group of `count` tasks, of which `kinds` has one of each function.

    The count is rounded up to a power of two. Items of one result have one name.

    >>> from lazyflow import delayed
    >>> load, inc = delayed(open, name="load-csv")("a.csv"), delayed(lambda x: x + 1)(1)
    >>> group_name([load], 1), group_name([load, inc], 2), group_name([inc], 12)
    ('load_csv', 'load_csv+lambda', 'lambda~16')
    >>> group_name(list(delayed(divmod, nout=2)(17, 5)), 2)
    'divmod_item~2'
    """
    items = [func for task in kinds if isinstance(func := task._func, Item)]
    shown = [task_name(task) for task in kinds if type(task._func) is not Item]
    shown = shown or [f"{item.maker}_item" for item in items]
    # no "-", at which the parts of a key are told apart
    names = list(dict.fromkeys(
        re.sub(r"[^\w.+]+", "_", name).strip("_") or "task" for name in shown))
    size = f"~{1 << (count - 1).bit_length()}" if count > len(names) else ""
    if len(names) > _MAX_NAMES:
        names[_MAX_NAMES - 1:-1] = [".."]
    return "+".join(names) + size


# -- the messages of a run ----------------------------------------------------------------

PLAIN, PIECE, BIND = 0, 1, 2  # how the arguments of a task are given

_REPEATED = 1 << 12  # bytes of an array from which it is noticed that many tasks have it; a guess


class Unsendable(Exception):
    """A task can't be sent; ``args`` are its number and its error."""


def _try_piece(value: Any) -> None:
    piece(value, lambda literal: 0 if is_large(literal) else None)


class RunValues:
    """The leaves of one run, and its literals that are sent by themselves.

    leaves
        Values by number of the leaf, or references to values that the engine holds.

    Parameters
    ----------
    retries
        Of tasks that have none of their own.
    """

    def __init__(self, engine: Engine, retries: int) -> None:
        self._engine = engine
        self._retries = retries
        self._options: dict[Options, Options] = {}
        self.leaves: dict[int, Any] = {}
        # values are held, so that their identities stay unique
        self._puts: dict[Any, tuple[Any, Put]] = {}
        self._repeated: dict[Any, tuple[Any, int]] = {}  # arrays, and bytes sent of each

    def take_leaves(
        self, plan: Plan, others: Mapping[int, Any]
    ) -> list[tuple[int, TaskFuture]]:
        """Store the leaves of a plan, some replaced by `others`; return those that are pending."""
        pending = []
        for i in plan.leaves:
            task = plan.tasks[i]
            if task._func is HELD:
                pending.append((i, task._args[0]))
            else:
                self.leaves[i] = others.get(i, task._args[0])
        return pending

    def take_pending(
        self, pending: Iterable[tuple[int, TaskFuture]]
    ) -> Iterator[tuple[int, BaseException]]:
        """Store leaves that were pending; yield those that have failed, with their errors."""
        for i, future in pending:
            value, error = future.local_outcome()
            if error is None:
                if not self._engine.holds(value):
                    value, error = future.outcome()
                self.leaves[i] = value
            if error is not None:
                yield i, error

    def options_of(self, task: Task) -> Options:
        """Return the options of a task for its worker."""
        given: Options = task._options
        if not self._retries or given.retries:
            return given
        return self._options.get(given) or self._options.setdefault(
            given, given.replace(retries=self._retries))

    def lost(self, plan: Plan, members: Iterable[int]) -> Iterator[tuple[int, Task]]:
        """Yield leaves that some tasks read and the engine has lost, with their makers."""
        for j in [j for i in members for j in plan.inputs[i] or ()]:
            value = self.leaves.get(j)
            if type(value) is EngineResult and self._engine.is_lost(value.handle):
                yield j, value.task

    def put(self, value: Any) -> Put:
        """Return the put value of a large literal, one for this run."""
        key = _identity(value)
        known = self._puts.get(key)
        if known is None:
            known = self._puts[key] = value, Put(self._engine, value)
        return known[1]

    def apart(self, literal: Any) -> Put | None:
        """Return the put value of a literal that is to be sent by itself, else None."""
        return self.put(literal) if is_large(literal) or self._is_repeated(literal) else None

    def _is_repeated(self, obj: Any) -> bool:
        """Count an array that is to be sent; return whether the sum is that of a large literal."""
        kind = type(obj)
        if kind is type or kinds[kind] != ARRAY or obj.nbytes < _REPEATED:
            return False
        key = _identity(obj)
        sent = self._repeated.get(key, (obj, 0))[1] + obj.nbytes
        self._repeated[key] = obj, sent
        return bool(sent >= LARGE)

    def clear(self) -> None:
        """Release all: the run is over."""
        self.leaves.clear()
        self._puts.clear()
        self._repeated.clear()


def _identity(obj: Any) -> Any:
    """Return a key that identifies a large literal while it lives.

    Views of the same memory have the same key: each call has a view of its own of an array.
    """
    if kinds[type(obj)] != ARRAY:
        return id(obj)
    face = obj.__array_interface__
    return (
        type(obj), face["data"], obj.shape, obj.strides, str(obj.dtype), obj.dtype.metadata is None
    )


class Packer:
    """Packs one group of an `EngineRun`.

    Attributes
    ----------
    deps
        The groups, results and put values to which the bytes refer.
    """

    def __init__(self, run: Any) -> None:
        self._run = run
        self._queue: GroupQueue = run.queue
        self._inputs: RunValues = run.inputs
        self.deps: list[Any] = []
        self._kinds: list[Task] = []  # a task of each function
        self._at: dict[int, int] = {}  # indices into deps, by id
        self._functions: dict[bytes, int] = {}
        self._payloads: list[tuple[bytes, Any]] = []
        self._options: dict[Any, int] = {}
        self._externals: list[tuple[Any, ...]] = []
        self._numbers: dict[int, tuple[int, int]] = {}  # (0, external) or (1, member), by task

    def packed(self, group: TaskGroup) -> bytes:
        """Return the bytes, and name the group; raise Unsendable."""
        self._numbers = {i: (1, at) for at, i in enumerate(group.members)}
        members = [self._member(i) for i in group.members]
        outputs = [self._numbers[i][1] for i in group.outputs]
        asked = [self._numbers[i][1] for i in group.outputs if i in self._run.wanted]
        group.name = group_name(self._kinds, len(group.members))
        return pickle.dumps((
            self._run.head, group.number, self._payloads, list(self._options), self._externals,
            members, outputs, asked,
        ))

    def _dep(self, kept: Any) -> int:
        """Return the index in `deps` of a value that the engine holds."""
        at = self._at.setdefault(id(kept), len(self.deps))
        if at == len(self.deps):
            self.deps.append(kept)
        return at

    def _apart(self, literal: Any) -> int | None:
        """Return the index in `deps` of a literal that is sent by itself, or None."""
        put = self._inputs.apart(literal)
        return None if put is None else self._dep(put)

    def _member(self, i: int) -> tuple[Any, ...]:
        task = self._queue.plan.tasks[i]
        numbers = self._queue.plan.inputs[i]
        inputs = None if numbers is None else tuple([self._input(j) for j in numbers])
        options = self._inputs.options_of(task)
        key = task._key if options.named else None
        try:
            how, arguments = self._arguments(task)
            verify(self._run.watches, i, task)
        except Unpicklable as failed:
            where = culprit(task, "arguments", failed, _try_piece)
            raise Unsendable(i, unsendable(task, *where)) from None
        except InputMutated as error:
            raise Unsendable(i, dressed(error, task, None)) from None
        return (
            i, self._function(i), how, arguments, inputs,
            self._options.setdefault(options, len(self._options)), place(task), key,
        )

    def _arguments(self, task: Task) -> tuple[int, Any]:
        if task._bind is not None:
            return BIND, piece(task._bind, self._apart)
        if task._inputs:
            return PLAIN, None
        if all(map(is_short, task._args)):
            return PLAIN, task._args
        return PIECE, piece(task._args, self._apart)

    def _function(self, i: int) -> int:
        digest, payload = self._queue.functions[i]
        at = self._functions.get(digest)
        if at is None:
            at = self._functions[digest] = len(self._payloads)
            sent: Any = payload
            if len(payload) >= LARGE:
                sent = self._dep(self._inputs.put(payload))
            self._payloads.append((digest, sent))
            self._kinds.append(self._queue.plan.tasks[i])
        return at

    def _input(self, j: int) -> tuple[int, int]:
        at = self._numbers.get(j)
        if at is None:
            at = self._numbers[j] = (0, len(self._externals))
            external = self._external(j)
            hides = self._queue.plan.tasks[j]._options.hide is True
            self._externals.append(("hidden", *external) if hides else external)
        return at

    def _external(self, j: int) -> tuple[Any, ...]:
        queue = self._queue
        if j in queue.failed:
            return ("failed", (self._run.name, j))
        made = queue.group_of.get(j)
        if made is not None:
            return ("held", self._dep(made.part_of(j)), j)
        value = self._inputs.leaves[j]
        if queue.engine.holds(value):
            return ("held", self._dep(value), value.number)
        try:
            packed = piece(value, self._apart)
            verify(self._run.watches, j, queue.plan.tasks[j])
            return ("piece", packed)
        except InputMutated as error:
            raise Unsendable(j, dressed(error, queue.plan.tasks[j], None)) from None
        except Unpicklable as failed:
            raise Unsendable(j, unsendable(queue.plan.tasks[j], "value", failed)) from None


def unsendable_tasks(queue: GroupQueue) -> Iterator[tuple[int, BaseException]]:
    """Yield the tasks that can't be sent, with their errors.

    Their function can't be pickled, or no worker offers what they ask for, or has the memory for
    their inputs. Each function is pickled once, into ``queue.functions``.
    """
    plan, engine = queue.plan, queue.engine
    for i in queue.too_large():
        yield i, queue.shortage(i)
    known: dict[int, Any] = {}
    refusals: dict[Any, str] = {}
    for i in sorted(queue.todo):
        task = plan.tasks[i]
        function = known.get(id(task._func))
        if function is None:
            try:
                function = engine.packed_functions.of(task._func)
            except Unpicklable as failed:
                function = failed
            known[id(task._func)] = function
        if isinstance(function, Unpicklable):
            yield i, unsendable(task, "function", function)
            continue
        queue.functions[i] = function
        options, once = task._options, not queue.crash_retries_of(i)
        if options.resources or options.workers is not None or once:
            needs = scheduling_options(options), once
            if needs not in refusals:
                refusal = engine.refusal_of(options)
                refusals[needs] = refusal or (engine.refusal_of_once() if once else "")
            if refusals[needs]:
                yield i, dressed(ValueError(refusals[needs]), task, None)

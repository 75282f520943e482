"""A group of tasks as it travels to an engine's worker: bytes, and what they refer to.

Functions are named by digest and opened once per worker. Each task's arguments are pickled by
themselves, so that what can't be pickled, or not be opened there, is that task's failure.
Literals and functions that are large are not in the bytes: the engine holds them.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterator
from typing import Any

from lazyflow.graph.grouping import scheduling_options
from lazyflow.graph.task import Task, place
from lazyflow.schedulers.cluster.group_queue import GroupQueue, TaskGroup
from lazyflow.schedulers.cluster.outcome import LARGE, is_large, piece
from lazyflow.schedulers.cluster.run_values import RunValues
from lazyflow.schedulers.core.errors.failures import dressed
from lazyflow.schedulers.remote.calls import is_short
from lazyflow.schedulers.remote.failures import culprit, unsendable
from lazyflow.store.pickling.serialize import Unpicklable

PLAIN, PIECE, BIND = 0, 1, 2  # how the arguments of a task are given


class Unsendable(Exception):
    """A task can't be sent; ``args`` are its number and its error."""


def _try_piece(value: Any) -> None:
    piece(value, lambda literal: 0 if is_large(literal) else None)


class Packer:
    """Packs one group of a run.

    Parameters
    ----------
    wanted
        Tasks whose results the caller waits for.
    head
        What all groups have in common: the name of the run, the environment of the caller for
        tasks, and the options of the request that workers need (see work.py).

    Attributes
    ----------
    deps
        The groups, results and put values to which the bytes refer.
    """

    def __init__(
        self, queue: GroupQueue, inputs: RunValues, wanted: Collection[int], head: tuple[Any, ...]
    ) -> None:
        self._queue = queue
        self._inputs = inputs
        self._wanted = wanted
        self._head = head
        self.deps: list[Any] = []
        self._at: dict[int, int] = {}  # indices into deps, by id
        self._functions: dict[bytes, int] = {}
        self._payloads: list[tuple[bytes, Any]] = []
        self._options: dict[Any, int] = {}
        self._externals: list[tuple[Any, ...]] = []
        self._numbers: dict[int, tuple[int, int]] = {}  # (0, external) or (1, member), by task

    def packed(self, group: TaskGroup) -> bytes:
        """Return the bytes; raise Unsendable."""
        self._numbers = {i: (1, at) for at, i in enumerate(group.members)}
        members = [self._member(i) for i in group.members]
        outputs = [self._numbers[i][1] for i in group.outputs]
        asked = [self._numbers[i][1] for i in group.outputs if i in self._wanted]
        return pickle.dumps((
            self._head, group.number, self._payloads, list(self._options), self._externals,
            members, outputs, asked,
        ))

    def _dep(self, what: Any) -> int:
        """Return the index in `deps` of a value that the engine holds."""
        at = self._at.get(id(what))
        if at is None:
            at = self._at[id(what)] = len(self.deps)
            self.deps.append(what)
        return at

    def _apart(self, literal: Any) -> int | None:
        """Return the index in `deps` of a literal that is sent by itself, or None."""
        put = self._inputs.apart(literal)
        return None if put is None else self._dep(put)

    def _member(self, i: int) -> tuple[Any, ...]:
        task = self._queue.plan.tasks[i]
        numbers = self._queue.plan.inputs[i]
        inputs = None if numbers is None else tuple([self._input(j) for j in numbers])
        options = task._options
        key = task._key if options.named else None
        try:
            how, arguments = self._arguments(task)
        except Unpicklable as failed:
            found = culprit(task, "arguments", failed, _try_piece)
            raise Unsendable(i, unsendable(task, *found)) from None
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
            what: Any = payload
            if len(payload) >= LARGE:
                what = self._dep(self._inputs.put(payload))
            self._payloads.append((digest, what))
        return at

    def _input(self, j: int) -> tuple[int, int]:
        found = self._numbers.get(j)
        if found is None:
            found = self._numbers[j] = (0, len(self._externals))
            self._externals.append(self._external(j))
        return found

    def _external(self, j: int) -> tuple[Any, ...]:
        queue = self._queue
        if j in queue.failed:
            return ("failed", (self._head[0], j))
        made = queue.group_of.get(j)
        if made is not None:
            return ("held", self._dep(made), j)
        value = self._inputs.leaves[j]
        if queue.engine.holds(value):
            return ("held", self._dep(value), value.number)
        try:
            return ("piece", piece(value, self._apart))
        except Unpicklable as failed:
            raise Unsendable(j, unsendable(queue.plan.tasks[j], "value", failed)) from None


def unsendable_tasks(queue: GroupQueue) -> Iterator[tuple[int, BaseException]]:
    """Yield the tasks that can't be sent, with their errors.

    Each function is pickled once, into ``queue.functions``; then it is looked at whether a worker
    may run the tasks that ask for some.
    """
    plan, engine = queue.plan, queue.engine
    known: dict[int, Any] = {}
    for i in sorted(queue.todo):
        task = plan.tasks[i]
        found = known.get(id(task._func))
        if found is None:
            try:
                found = engine.packed_functions.of(task._func)
            except Unpicklable as failed:
                found = failed
            known[id(task._func)] = found
        if isinstance(found, Unpicklable):
            yield i, unsendable(task, "function", found)
        else:
            queue.functions[i] = found
    refusals: dict[Any, str] = {}
    for i in sorted(queue.todo) if plan.has_scheduler_options else ():
        task = plan.tasks[i]
        options = task._options
        if options.resources or options.workers is not None:
            needs = scheduling_options(options)
            if needs not in refusals:
                refusals[needs] = engine.refusal_of(options)
            if refusals[needs]:
                yield i, dressed(ValueError(refusals[needs]), task, None)

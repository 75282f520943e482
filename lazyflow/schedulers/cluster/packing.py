"""A group of tasks as it travels to an engine's worker: bytes, and what they refer to.

Functions are named by digest and opened once per worker. Each task's arguments are pickled by
themselves, so that what can't be pickled, or not be opened there, is that task's failure.
Literals and functions that are large are not in the bytes: the engine holds them.
"""

from __future__ import annotations

import pickle
from typing import Any, Protocol

from lazyflow.graph.plan import Plan
from lazyflow.graph.task import Task, place
from lazyflow.schedulers.cluster.engine import Engine
from lazyflow.schedulers.cluster.group_queue import GroupQueue
from lazyflow.schedulers.cluster.groups import TaskGroup
from lazyflow.schedulers.cluster.outcome import LARGE, is_large, piece
from lazyflow.schedulers.cluster.run_values import RunValues
from lazyflow.schedulers.remote.calls import is_short
from lazyflow.schedulers.remote.failures import culprit, unsendable
from lazyflow.store.pickling.serialize import Unpicklable

PLAIN, PIECE, BIND = 0, 1, 2  # how the arguments of a task are given


class Unsendable(Exception):
    """A task can't be sent; ``args`` are its number and its error."""


def _try_piece(value: Any) -> None:
    piece(value, lambda literal: 0 if is_large(literal) else None)


class PackedRun(Protocol):
    """The parts of a run from which its groups are packed.

    environment
        The environment of the caller for tasks: `lazyflow.schedulers.remote.environment`.
    flags
        The options of the request that workers need: see work.py.
    wanted
        Tasks whose results the caller waits for.
    failed
        Tasks that have failed.
    """

    name: str
    plan: Plan
    engine: Engine
    environment: bytes
    queue: GroupQueue
    inputs: RunValues
    wanted: set[int]
    failed: dict[int, BaseException]

    @property
    def flags(self) -> tuple[bool, bool, bool]: ...


class Packer:
    """Packs one group.

    deps
        The groups, results and put values that the group needs.
    """

    def __init__(self, run: PackedRun, group: TaskGroup) -> None:
        self.run = run
        self.group = group
        self.deps: list[Any] = []
        self._at: dict[int, int] = {}  # indices into deps, by id
        self._functions: dict[bytes, int] = {}
        self._payloads: list[tuple[bytes, Any]] = []
        self._options: dict[Any, int] = {}
        self._externals: list[tuple[Any, ...]] = []
        self._numbers: dict[int, tuple[int, int]] = {}  # (0, external) or (1, member), by task

    def packed(self) -> bytes:
        """Return the bytes; raise Unsendable."""
        run, group = self.run, self.group
        for at, i in enumerate(group.members):
            self._numbers[i] = (1, at)
        members = [self._member(i) for i in group.members]
        outputs = [self._numbers[i][1] for i in group.outputs]
        asked = [self._numbers[i][1] for i in group.outputs if i in run.wanted]
        return pickle.dumps((
            run.name, group.number, run.environment, run.flags, self._payloads,
            list(self._options), self._externals, members, outputs, asked,
        ))

    def _dep(self, what: Any) -> int:
        """Return the index in `deps` of a value that the engine holds."""
        at = self._at.get(id(what))
        if at is None:
            at = self._at[id(what)] = len(self.deps)
            self.deps.append(what)
        return at

    def _put(self, value: Any) -> int:
        return self._dep(self.run.inputs.put(value))

    def _apart(self, literal: Any) -> int | None:
        """Return the index in `deps` of a literal that is sent by itself, or None."""
        return self._put(literal) if self.run.inputs.goes_apart(literal) else None

    def _member(self, i: int) -> tuple[Any, ...]:
        task = self.run.plan.tasks[i]
        numbers = self.run.plan.inputs[i]
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
        digest, payload = self.run.queue.functions[i]
        at = self._functions.get(digest)
        if at is None:
            at = self._functions[digest] = len(self._payloads)
            what: Any = payload if len(payload) < LARGE else self._put(payload)
            self._payloads.append((digest, what))
        return at

    def _input(self, j: int) -> tuple[int, int]:
        found = self._numbers.get(j)
        if found is None:
            found = self._numbers[j] = (0, len(self._externals))
            self._externals.append(self._external(j))
        return found

    def _external(self, j: int) -> tuple[Any, ...]:
        run = self.run
        if j in run.failed:
            return ("failed", (run.name, j))
        made = run.queue.group_of.get(j)
        if made is not None:
            return ("held", self._dep(made), j)
        value = run.inputs.leaves[j]
        if run.engine.holds(value):
            return ("held", self._dep(value), value.number)
        try:
            return ("piece", piece(value, self._apart))
        except Unpicklable as failed:
            task = run.plan.tasks[j]
            raise Unsendable(j, unsendable(task, "value", failed)) from None

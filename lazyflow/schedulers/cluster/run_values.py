"""The input values of a run that no task of it computes: leaves and large literals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lazyflow.graph.kinds import ARRAY, kinds
from lazyflow.graph.plan import Plan
from lazyflow.graph.task import HELD
from lazyflow.schedulers.cluster.engine import Engine
from lazyflow.schedulers.cluster.outcome import LARGE, is_large
from lazyflow.schedulers.cluster.results import Put
from lazyflow.schedulers.core.future import TaskFuture

_REPEATED = 1 << 12  # bytes of an array from which it is noticed that many tasks have it


class RunValues:
    """The leaves of one run, and its literals that are sent by themselves.

    leaves
        Values by number of the leaf, or references to values that the engine holds.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
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

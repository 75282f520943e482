"""The input values of a run that no task of it computes: leaves and large literals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lazyflow.graph.plan import Plan
from lazyflow.graph.task import HELD
from lazyflow.schedulers.cluster.engine import Engine
from lazyflow.schedulers.cluster.outcome import RepeatedArrays, identity, is_large
from lazyflow.schedulers.cluster.results import Put
from lazyflow.schedulers.core.future import TaskFuture


class RunValues:
    """The leaves of one run, and its literals that are sent by themselves.

    leaves
        Values by number of the leaf, or references to values that the engine holds.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.leaves: dict[int, Any] = {}
        self._puts: dict[Any, tuple[Any, Put]] = {}
        self._repeated = RepeatedArrays()

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
        key = identity(value)
        known = self._puts.get(key)
        if known is None:
            # the value is held, so that its key stays unique
            known = self._puts[key] = (value, Put(self._engine, value))
        return known[1]

    def goes_apart(self, literal: Any) -> bool:
        """Return whether a literal is to be sent by itself."""
        return is_large(literal) or self._repeated.are_large(literal)

    def clear(self) -> None:
        """Release all: the run is over."""
        self.leaves.clear()
        self._puts.clear()

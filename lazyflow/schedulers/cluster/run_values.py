"""What the tasks of a run are given that no task of it makes: leaves, and literals."""

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
    """The leaves of one run, and its literals that are sent by themselves, once.

    leaves
        By number: the value, or what the engine holds of it.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.leaves: dict[int, Any] = {}
        self._puts: dict[Any, tuple[Any, Put]] = {}
        self._repeated = RepeatedArrays()

    def take_leaves(
        self, plan: Plan, others: Mapping[int, Any]
    ) -> list[tuple[int, TaskFuture]]:
        """Take the leaves of a plan, with `others` in the place of some; return pending ones."""
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
        """Take leaves that are there now; yield those that have failed, and why."""
        for i, future in pending:
            value, error = future.local_outcome()
            if error is None:
                if not self._engine.holds(value):
                    value, error = future.outcome()
                self.leaves[i] = value
            if error is not None:
                yield i, error

    def put(self, value: Any) -> Put:
        """Return what the engine holds, or will, of a large literal: once for this run."""
        key = identity(value)
        known = self._puts.get(key)
        if known is None:
            # the value is held: the key stays its own
            known = self._puts[key] = (value, Put(self._engine, value))
        return known[1]

    def goes_apart(self, literal: Any) -> bool:
        """Tell whether a literal is to be sent by itself."""
        return is_large(literal) or self._repeated.are_large(literal)

    def clear(self) -> None:
        """Let go of all: the run is over."""
        self.leaves.clear()
        self._puts.clear()

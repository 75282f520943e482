"""The tasks of a run that can't be sent to the workers of an engine, and why."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from lazyflow.graph.grouping import scheduling_options
from lazyflow.graph.plan import Plan
from lazyflow.schedulers.cluster.engine import Engine
from lazyflow.schedulers.core.errors.failures import dressed
from lazyflow.schedulers.remote.failures import unsendable
from lazyflow.store.pickling.serialize import Unpicklable


def pickled_functions(
    plan: Plan, todo: Collection[int], engine: Engine, functions: dict[int, tuple[bytes, bytes]]
) -> Iterator[tuple[int, BaseException]]:
    """Pickle each function once, into `functions`; yield tasks of which it failed, and why."""
    known: dict[int, Any] = {}
    for i in sorted(todo):
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
            functions[i] = found


def refused(
    plan: Plan, todo: Collection[int], engine: Engine
) -> Iterator[tuple[int, BaseException]]:
    """Yield the tasks that no worker may run, with their errors."""
    if not plan.has_scheduler_options:
        return
    known: dict[Any, str] = {}
    for i in sorted(todo):
        task = plan.tasks[i]
        options = task._options
        if not options.resources and options.workers is None:
            continue
        needs = scheduling_options(options)
        if needs not in known:
            known[needs] = engine.refusal_of(options)
        if known[needs]:
            yield i, dressed(ValueError(known[needs]), task, None)

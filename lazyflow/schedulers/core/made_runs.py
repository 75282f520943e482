"""The one way to make a run of a plan, for whoever wants it computed."""

from __future__ import annotations

from typing import Any

from lazyflow.graph.plan import Plan
from lazyflow.schedulers.core.base import MakesRuns, Request, provides
from lazyflow.schedulers.core.lifecycle import Lifecycle
from lazyflow.schedulers.core.run import Run


def make_run(plan: Plan, request: Request, scheduler: Any) -> Lifecycle:
    """Return a run that has not begun, of the class that its scheduler can wake and wait for.

    All runs are made here, but those of what a task returned: they are of their parent's class.
    """
    if provides(scheduler, MakesRuns):
        made: Lifecycle = scheduler.make_run(plan, request)
        return made
    return Run(plan, request, scheduler)

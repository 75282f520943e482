"""What lazyflow tells about its processes, read in one place."""

from __future__ import annotations

from dataclasses import dataclass

from lazyflow import schedulers


@dataclass(frozen=True)
class PoolFacts:
    """The workers that there are now, and what was counted since the process began."""

    pids: tuple[int, ...] = ()
    values: int = 0  # results that workers hold
    shared_bytes: int = 0  # in memory that processes share, now
    through_parent_bytes: int = 0  # of values that went from worker to worker by the parent
    deaths: int = 0
    tasks: int = 0  # that workers have run


def pool_facts() -> PoolFacts:
    """Ask `lazyflow.schedulers.info`; all zero while there is no pool."""
    told = schedulers.info().get("processes") or {}
    workers = told.get("workers", ())
    return PoolFacts(
        pids=tuple(worker["pid"] for worker in workers),
        values=sum(worker["values"] for worker in workers),
        shared_bytes=told.get("shared_bytes", 0),
        through_parent_bytes=told.get("through_parent_bytes", 0),
        deaths=told.get("deaths", 0),
        tasks=told.get("tasks", 0),
    )

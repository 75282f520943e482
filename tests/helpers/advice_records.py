"""Records as a profile has them, and the advice on them."""

from typing import Any

from lazyflow.diagnostics.profiling.advice import Advice, Evidence, advice
from lazyflow.diagnostics.profiling.graph_facts import NOTHING, Sights
from lazyflow.diagnostics.profiling.records import RunRecord, TaskRecord, UsageRecord


def run(
    start: float, end: float, place: str = "main.py:7 in main", scheduler: str = "threads",
    tasks: int = 1, chain: int = 1, user: bool = True, sights: Sights = NOTHING,
) -> RunRecord:
    return RunRecord(start, end, place, user, scheduler, tasks, chain, sights)


def task(
    start: float, end: float, worker: str = "w-1", name: str = "f", of: int = 0,
    cpu: float | None = None, size: int | None = None, compiled: float = 0.0,
) -> TaskRecord:
    function, place = f"mod.{name}", "main.py:5 in main"
    return TaskRecord(
        name, function, place, of, worker, start, end, cpu, size, False, compiled=compiled
    )


def use(time: float, memory: int = 0, cpu: float = 0.0) -> UsageRecord:
    return UsageRecord(time, memory, 0, cpu)


def found(
    tasks: list[TaskRecord], runs: list[RunRecord], seconds: float = 10.0,
    idle: float | None = None, cores: int = 2, **more: Any,
) -> list[Advice]:
    return advice(Evidence(tasks, runs, seconds, idle, cores, **more))


def rules(*given: Any, **more: Any) -> list[str]:
    return [each.rule for each in found(*given, **more)]


def runs_in_turn(busy: float, pause: float, count: int, **more: Any) -> list[RunRecord]:
    return [run(k * (busy + pause), k * (busy + pause) + busy, **more) for k in range(count)]

"""Tasks in the format of Chrome's trace viewer, which Perfetto opens."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lazyflow.diagnostics.profiling.records import (
    RunRecord,
    TaskRecord,
    UsageRecord,
    gaps,
    rows_by_worker,
)


def write_trace(
    path: str | os.PathLike[str],
    tasks: Sequence[TaskRecord],
    runs: Sequence[RunRecord],
    seconds: float,
    usage: Sequence[UsageRecord] = (),
) -> None:
    """Write a trace: a track for the caller, one for each row of each worker, and counters."""
    events = [_named("process_name", 0, "lazyflow"), _named("thread_name", 0, "caller")]
    for start, end in gaps(runs, tasks, seconds):
        events.append(_slice("outside of runs", "caller", 0, start, end, {}))
    rows = [
        (worker, row) for worker, rows in rows_by_worker(tasks).items() for row in rows
    ]
    for track, (worker, row) in enumerate(rows, 1):
        events.append(_named("thread_name", track, worker))
        events.append({"ph": "M", "name": "thread_sort_index", "pid": 1, "tid": track,
                       "args": {"sort_index": track}})
        events += _slices(track, row)
    events += _counters(usage)
    text = json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})
    Path(path).write_text(text, encoding="utf-8")


def _slices(track: int, row: list[TaskRecord]) -> Iterator[dict[str, Any]]:
    for task in row:
        details: dict[str, Any] = {"function": task.function, "made at": task.place}
        if task.cpu is not None:
            details["CPU ms"] = round(task.cpu * 1e3, 3)
        if task.size is not None:
            details["bytes"] = task.size
        if task.moved is not None:
            details["bytes moved"] = task.moved
        if task.compiled:
            details["compile ms"] = round(task.compiled * 1e3, 3)
        if task.failed:
            details["failed"] = True
        kind = "failed" if task.failed else "task"
        yield _slice(task.name, kind, track, task.start, task.end, details)


def _counters(usage: Sequence[UsageRecord]) -> Iterator[dict[str, Any]]:
    for each in usage:
        if each.memory is not None:
            yield _counter("memory", each.time, {
                "this process": each.memory, "workers": each.worker_memory,
            })
        yield _counter("CPU", each.time, {"cores": round(each.cpu, 3)})


def _counter(name: str, time: float, values: dict[str, float]) -> dict[str, Any]:
    ts = round(time * 1e6, 3)
    return {"ph": "C", "name": name, "pid": 1, "tid": 0, "ts": ts, "args": values}


def _slice(
    name: str, kind: str, track: int, start: float, end: float, details: dict[str, Any]
) -> dict[str, Any]:
    """Return a complete event; its times are in microseconds."""
    ts, dur = round(start * 1e6, 3), round((end - start) * 1e6, 3)
    return {
        "ph": "X", "name": name, "cat": kind, "pid": 1, "tid": track, "ts": ts, "dur": dur,
        "args": details,
    }


def _named(what: str, track: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": 1, "tid": track, "args": {"name": name}}

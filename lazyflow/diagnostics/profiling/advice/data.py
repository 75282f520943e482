"""Rules on large values: those that go to and fro between processes, and those that fill memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from lazyflow.diagnostics.profiling.advice.piece import Advice, matters
from lazyflow.diagnostics.profiling.evidence import Evidence
from lazyflow.diagnostics.profiling.records import TaskRecord
from lazyflow.diagnostics.profiling.sights import CapturedData, LargeArgument
from lazyflow.store.sizes import format_bytes

_TIMES = 3  # computes that send a value, before it is a habit
_SPEED = 1e9  # bytes that are copied into another process in a second, about
_PICKLED = 2e8  # likewise inside of a function: they are copied several times, and in each worker
_FULL = 0.85  # of the memory


def large_values_again(evidence: Evidence) -> Iterator[Advice]:
    """A large value is passed by value to one compute after the other."""
    found: defaultdict[int, list[LargeArgument]] = defaultdict(list)
    for run in evidence.users_runs():
        for each in run.sights.large:
            if not each.origin:
                found[id(each.value)].append(each)
    for sent in found.values():
        first = sent[0]
        total = first.nbytes * len(sent)
        if len(sent) >= _TIMES and matters(evidence, total / _SPEED):
            yield Advice(
                "large values again and again",
                f"{first.what}, was sent to the workers by {len(sent):,} computes, "
                f"{format_bytes(total)} in all",
                "each compute copies it anew",
                "put it there once, x = lazyflow.put(x), and pass that",
                first.place,
            )


def results_sent_back(evidence: Evidence) -> Iterator[Advice]:
    """A large result is fetched by one compute, only to be sent back by the next one."""
    found: defaultdict[tuple[str, str], list[LargeArgument]] = defaultdict(list)
    for run in evidence.users_runs():
        for each in run.sights.large:
            if each.origin:
                found[each.origin, each.place].append(each)
    for (origin, place), sent in found.items():
        total = sum(each.nbytes for each in sent)
        if matters(evidence, 2 * total / _SPEED):
            times = "once" if len(sent) == 1 else f"{len(sent):,} times"
            yield Advice(
                "results sent back",
                f"{times} a result of the task made at {origin} was fetched and sent back as "
                f"{sent[0].what}; {format_bytes(total)} each way",
                "it was in the workers already",
                "pass the lazy value itself, without compute(); or keep it there: "
                "x, = lazyflow.persist(x)",
                place,
            )


def captured_data(evidence: Evidence) -> Iterator[Advice]:
    """A function takes large data along: a closure, a partial or a bound method."""
    found: defaultdict[tuple[str, str], list[CapturedData]] = defaultdict(list)
    for run in evidence.users_runs():
        for each in run.sights.captured:
            found[each.place, each.what].append(each)
    for (place, what), held in found.items():
        total = sum(each.nbytes * each.functions for each in held)
        if matters(evidence, total / _PICKLED):
            functions = sum(each.functions for each in held)
            times = "" if functions == 1 else f", {functions:,} times, {format_bytes(total)} in all"
            yield Advice(
                "data in a function",
                f"{held[0].function} takes {what}, along to the workers{times}",
                "it is pickled with the function, and each worker has a copy of its own",
                f"make it an argument, x = lazyflow.put(x), and "
                f"delayed({held[0].function})(..., x)",
                place,
            )


def memory_near_limit(evidence: Evidence) -> Iterator[Advice]:
    """Memory was nearly full; which tasks ran, and whose results are the largest."""
    peak = max(evidence.usage, key=lambda use: use.total, default=None)
    if peak is None or evidence.limit is None or peak.total < _FULL * evidence.limit:
        return
    running = [task for task in evidence.tasks if task.start <= peak.time <= task.end]
    groups: defaultdict[str, list[TaskRecord]] = defaultdict(list)
    for task in evidence.tasks:
        if task.size and task.start <= peak.time:
            groups[task.function].append(task)
    sizes = {name: sum(task.size or 0 for task in tasks) for name, tasks in groups.items()}
    largest = max(sizes, key=lambda name: sizes[name], default=None)
    if largest is not None:
        task = groups[largest][0]
        holds = (
            f"; the results of {len(groups[largest]):,} calls of {task.name} were "
            f"{format_bytes(sizes[largest])}"
        )
    elif running:
        task = max(running, key=lambda task: task.seconds)
        holds = f" while {task.name} ran"
    else:
        return
    yield Advice(
        "memory nearly full",
        f"memory reached {format_bytes(peak.total)} of the {format_bytes(evidence.limit)} that "
        f"these processes can have{holds}",
        "beyond it the system swaps, or ends a process",
        "make smaller parts, or fewer at once: compute(..., num_workers=1); combine results as "
        "they come: lazyflow.tree_reduce(f, parts); of arrays take smaller chunks",
        task.place,
    )

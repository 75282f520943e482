"""Rules on tasks and chunks that are too small, or too large."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import ceil, log10

from lazyflow import config
from lazyflow.diagnostics.profiling.advice.piece import Advice, matters
from lazyflow.diagnostics.profiling.evidence import Evidence, covered
from lazyflow.diagnostics.profiling.records import TaskRecord
from lazyflow.diagnostics.profiling.texts import seconds
from lazyflow.store.sizes import format_bytes

#: µs that a task costs beyond its work, about.
_OVERHEADS = {"sync": 2.0, "threads": 3.0, "processes": 8.0, "distributed": 30.0, "ray": 50.0}


def tasks_too_short(evidence: Evidence) -> Iterator[Advice]:
    """Tasks take less time than it takes to handle them."""
    groups: defaultdict[tuple[str, str], list[TaskRecord]] = defaultdict(list)
    for run, task in evidence.users_tasks():
        is_accessor = task.function.endswith("]") or task.name.startswith(".")
        is_block = task.place in evidence.arrays
        if not is_accessor and not is_block:
            groups[run.scheduler, task.function].append(task)
    for (scheduler, _), tasks in groups.items():
        overhead = _OVERHEADS.get(scheduler, 3.0) * 1e-6
        mean = sum(task.seconds for task in tasks) / len(tasks)
        if mean < overhead and matters(evidence, len(tasks) * overhead):
            size = 10 ** ceil(log10(1e-3 / max(mean, 1e-7)))  # of a part that takes about 1 ms
            yield Advice(
                "tasks too short",
                f"{len(tasks):,} calls of {tasks[0].name} took {seconds(mean)} each; on "
                f"{scheduler} a task costs about {seconds(overhead)} beyond its work",
                "most of the time goes into handling tasks",
                f"give each task a part of the items: [delayed(lambda part: [{tasks[0].name}(x) "
                f"for x in part])(part) for part in toolz.partition_all({size}, items)]",
                tasks[0].place,
            )


_OF_A_BLOCK = 30e-6  # seconds to make the task of a block, about
_LARGE_CHUNK = 32 << 20  # bytes


def chunks_too_small(evidence: Evidence) -> Iterator[Advice]:
    """Blocks of an array take less time than it takes to handle them."""
    groups: defaultdict[tuple[str, str], list[TaskRecord]] = defaultdict(list)
    for run, task in evidence.users_tasks():
        if task.place in evidence.arrays:
            groups[run.scheduler, task.place].append(task)
    for (scheduler, place), tasks in groups.items():
        overhead = _OVERHEADS.get(scheduler, 3.0) * 1e-6 + _OF_A_BLOCK
        mean = sum(task.seconds for task in tasks) / len(tasks)
        most = max(evidence.arrays[place], key=lambda each: each.blocks)
        if mean < overhead and most.is_tiny() and matters(evidence, len(tasks) * overhead):
            yield Advice(
                "chunks too small",
                f"{len(tasks):,} tasks for blocks of {format_bytes(most.nbytes)}, as of "
                f"{most.name}, took {seconds(mean)} each; on {scheduler} a block costs about "
                f"{seconds(overhead)} beyond its work",
                "most of the time goes into handling blocks",
                f'make the array in larger chunks: chunks="auto" takes about '
                f'{format_bytes(config.get("chunk_bytes"))}; or x = x.rechunk("auto")',
                place,
            )


def chunks_too_large(evidence: Evidence) -> Iterator[Advice]:
    """An array has fewer blocks than there are cores, so that some are idle."""
    for index, _ in evidence.parallel_runs():
        groups: defaultdict[str, list[TaskRecord]] = defaultdict(list)
        for task in evidence.tasks_by_run.get(index, ()):
            if task.place in evidence.arrays:
                groups[task.place].append(task)
        for place, tasks in groups.items():
            chunks = max(evidence.arrays[place], key=lambda each: each.nbytes)
            longest = max(tasks, key=lambda task: task.seconds)
            time = covered(tasks)
            busy = evidence.busy_between(longest.start, longest.end)
            if (
                chunks.nbytes >= _LARGE_CHUNK and chunks.blocks < evidence.cores
                and busy < 0.7 * evidence.cores and matters(evidence, time)
            ):
                blocks = "1 block" if chunks.blocks == 1 else f"{chunks.blocks:,} blocks"
                yield Advice(
                    "chunks too large",
                    f"{blocks} of {format_bytes(chunks.nbytes)} of {chunks.name} took "
                    f"{seconds(time)}; {busy:.2g} of {evidence.cores} cores worked on them",
                    "a block is the work of one task, so the other cores are idle",
                    f'make the array in smaller chunks: chunks="auto" takes about '
                    f'{format_bytes(config.get("chunk_bytes"))}; or x = x.rechunk("auto")',
                    place,
                )

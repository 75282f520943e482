"""Rules on workers that are idle, wait for each other, or are too many."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from statistics import median

from lazyflow.diagnostics.profiling.advice.piece import OFTEN, Advice, matters
from lazyflow.diagnostics.profiling.evidence import Evidence, covered
from lazyflow.diagnostics.profiling.texts import seconds


def lock_bound_threads(evidence: Evidence) -> Iterator[Advice]:
    """Threads take turns at the interpreter lock while cores are idle."""
    for index, run in evidence.parallel_runs():
        tasks = [task for task in evidence.tasks_by_run.get(index, ()) if task.cpu is not None]
        time = covered(tasks)
        if run.scheduler != "threads" or evidence.cores < 2 or not matters(evidence, time):
            continue
        at_once = sum(task.seconds for task in tasks) / time
        used = sum(task.cpu or 0.0 for task in tasks) / time
        if at_once < 1.6 or not 0.8 <= used <= 1.2 or evidence.idle_in_runs < 0.3 * time:
            continue
        waited: defaultdict[str, float] = defaultdict(float)
        for task in tasks:
            waited[task.function] += task.seconds - (task.cpu or 0.0)
        worst = max(waited, key=lambda function: waited[function])
        task = next(task for task in tasks if task.function == worst)
        yield Advice(
            "threads that take turns",
            f"{at_once:.2g} tasks ran at once on threads, mostly {task.name}, and used "
            f"{used:.2g} cores together, while cores were idle",
            "Python code holds the interpreter's lock, so one thread runs at a time",
            'give such tasks processes of their own: compute(..., scheduler="processes")',
            task.place,
        )


def unbalanced_tasks(evidence: Evidence) -> Iterator[Advice]:
    """One task takes much longer than its like, and runs on alone at the end."""
    for index, run in evidence.parallel_runs():
        tasks = evidence.tasks_by_run.get(index, [])
        if len(tasks) < OFTEN:
            continue
        last = max(tasks, key=lambda task: task.end)
        like = [task for task in tasks if task.function == last.function and task is not last]
        others = [task for task in tasks if task is not last]
        workers = len({task.worker for task in tasks})
        alone = last.end - max(last.start, max(task.end for task in others))
        usual = median(task.seconds for task in like) if len(like) >= 4 else last.seconds
        if workers < 2 or last.seconds < 3 * usual or not matters(evidence, alone):
            continue
        yield Advice(
            "unbalanced tasks",
            f"one call of {last.name} took {seconds(last.seconds)}, others {seconds(usual)} "
            f"(median of {len(like):,}); for {seconds(alone)} of a run of "
            f"{seconds(run.end - run.start)} it ran alone",
            f"the other {workers - 1} workers waited for it" if workers > 2
            else "the other worker waited for it",
            "cut its part into smaller ones, or start the largest first: "
            f"delayed({last.name}, priority=1)",
            last.place,
        )


def chains(evidence: Evidence) -> Iterator[Advice]:
    """A long chain, each task of which needs the one before, leaves workers idle."""
    for index, run in evidence.parallel_runs():
        tasks = evidence.tasks_by_run.get(index, [])
        time = covered(tasks)
        if run.chain < max(OFTEN, run.tasks / 2) or not matters(evidence, time):
            continue
        if evidence.cores < 2 or sum(task.seconds for task in tasks) > 1.2 * time:
            continue
        times: defaultdict[str, float] = defaultdict(float)
        for task in tasks:
            times[task.function] += task.seconds
        worst = max(times, key=lambda function: times[function])
        task = next(task for task in tasks if task.function == worst)
        yield Advice(
            "a chain",
            f"{run.chain:,} of the {run.tasks:,} tasks of a run form a chain, mostly "
            f"{task.name}; it took {seconds(time)} on one worker at a time",
            "each task waits for the one before, so the other workers are idle",
            "combine parts as a tree: lazyflow.tree_reduce(f, parts) instead of total = f(total, "
            "part); steps that do not need each other: [f(x) for x in xs]",
            task.place,
        )


def more_threads_than_cores(evidence: Evidence) -> Iterator[Advice]:
    """Threads that tasks start, as BLAS does, take turns with those of the other workers."""
    for index, run in evidence.parallel_runs():
        tasks = [task for task in evidence.tasks_by_run.get(index, ()) if task.cpu is not None]
        time = covered(tasks)
        uses = [use.cpu for use in evidence.usage if run.start < use.time <= run.end]
        if evidence.cores < 2 or not uses or not matters(evidence, time):
            continue
        used = sum(uses) / len(uses)
        own = sum(task.cpu or 0.0 for task in tasks) / time
        at_once = sum(task.seconds for task in tasks) / time
        if at_once < 1.6 or used < 0.9 * evidence.cores or own > 0.75 * min(at_once, used):
            continue
        worst = max(tasks, key=lambda task: task.seconds - (task.cpu or 0.0))
        yield Advice(
            "more threads than cores",
            f"{at_once:.2g} tasks ran at once, as {worst.name}, and used {own:.2g} cores "
            f"themselves; threads that they started used {used - own:.2g} of {evidence.cores} more",
            "the threads of BLAS or OpenMP in each task take turns with those of the others",
            "give each task one: set OPENBLAS_NUM_THREADS=1, OMP_NUM_THREADS=1 and "
            "MKL_NUM_THREADS=1 before Python starts, or with threadpoolctl.threadpool_limits(1):",
            worst.place,
        )

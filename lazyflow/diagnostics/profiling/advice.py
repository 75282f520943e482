"""What to change, by what ran: each rule is a function from evidence to pieces of advice.

A rule speaks only where following it would save a good part of the time of the block, and only
of what the user's own code started: estimators have loops of their own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, log10
from statistics import median

from lazyflow.diagnostics.profiling.evidence import Evidence, covered
from lazyflow.diagnostics.profiling.records import RunRecord, TaskRecord, total, union
from lazyflow.diagnostics.profiling.texts import seconds

__all__ = ["RULES", "Advice", "advice"]

_SHARE = 0.2  # of the block's time, below which a rule says nothing
_LEAST = 0.1  # seconds, likewise
_GAPS = 3  # of one line that make a habit
_OFTEN = 10  # runs of one line, or tasks of one function, that make a habit


@dataclass(frozen=True, repr=False)
class Advice:
    """A piece of advice; as text, what was seen, why it costs, and the line to type.

    Attributes
    ----------
    rule
        The name of the rule.
    seen
        What was seen, with figures.
    why
        Why it costs time.
    do
        The line to type instead.
    place
        The line of the program that it is about.
    """

    rule: str
    seen: str
    why: str
    do: str
    place: str

    def __str__(self) -> str:
        return f"{self.seen} ({self.place}) - {self.why} - {self.do}"

    __repr__ = __str__


def advice(evidence: Evidence) -> list[Advice]:
    """Return the advice of all rules."""
    return [found for rule in RULES for found in rule(evidence)]


def _matters(evidence: Evidence, time: float) -> bool:
    return time >= max(_LEAST, _SHARE * evidence.seconds)


def gaps_between_computes(evidence: Evidence) -> Iterator[Advice]:
    """Workers wait while the caller works between one compute and the next."""
    ends = {run.end: run.place for _, run in evidence.parallel_runs()}
    starts = {run.start for _, run in evidence.parallel_runs()}
    waits: defaultdict[str, list[float]] = defaultdict(list)
    for (_, end), (start, _) in pairwise(union((run.start, run.end) for run in evidence.runs)):
        if end in ends and start in starts:
            waits[ends[end]].append(start - end)
    for place, times in waits.items():
        if len(times) >= _GAPS and _matters(evidence, sum(times)):
            yield Advice(
                "gaps between computes",
                f"for {seconds(sum(times))} of {seconds(evidence.seconds)} no task ran: "
                f"{len(times):,} times the caller worked on its own after a compute, before the "
                "next one",
                "workers have nothing to do meanwhile",
                "make that work tasks too, delayed(f)(x), and compute once at the end; or go on "
                "while tasks run: x, = lazyflow.persist(x)",
                place,
            )


def computes_in_a_loop(evidence: Evidence) -> Iterator[Advice]:
    """A loop computes small graphs one after the other, so that no two tasks run at once."""
    by_place: defaultdict[str, list[tuple[int, RunRecord]]] = defaultdict(list)
    for index, run in evidence.parallel_runs():
        by_place[run.place].append((index, run))
    for place, runs in by_place.items():
        spans = [(run.start, run.end) for _, run in runs]
        in_turn = total(union(spans)) > 0.9 * total(spans)
        small = median(run.tasks for _, run in runs) <= 2
        if len(runs) < _OFTEN or not small or not in_turn:
            continue
        if _matters(evidence, total(spans)) and evidence.cores > 1:
            mean = sum(run.tasks for _, run in runs) / len(runs)
            size = "1 task" if mean == 1 else f"{mean:.2g} tasks"
            yield Advice(
                "computes in a loop",
                f"{len(runs):,} computes of {size} each, one after the other, took "
                f"{seconds(total(spans))}",
                "each waits for its result before the next one is made, so one worker is busy",
                "collect the lazy values and compute once: lazyflow.compute([f(x) for x in xs]); "
                "if each needs the one before, keep it lazy: x = f(x) in the loop, x.compute() "
                "after it",
                place,
            )


#: µs that a task costs beyond its work, about.
_OVERHEADS = {"sync": 2.0, "threads": 3.0, "processes": 8.0, "distributed": 30.0, "ray": 50.0}


def tasks_too_short(evidence: Evidence) -> Iterator[Advice]:
    """Tasks take less time than it takes to handle them."""
    groups: defaultdict[tuple[str, str], list[TaskRecord]] = defaultdict(list)
    for task in evidence.tasks:
        is_accessor = task.function.endswith("]") or task.name.startswith(".")
        if evidence.runs[task.run].is_users and not is_accessor:
            groups[evidence.runs[task.run].scheduler, task.function].append(task)
    for (scheduler, _), tasks in groups.items():
        overhead = _OVERHEADS.get(scheduler, 3.0) * 1e-6
        mean = sum(task.seconds for task in tasks) / len(tasks)
        if mean < overhead and _matters(evidence, len(tasks) * overhead):
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


def lock_bound_threads(evidence: Evidence) -> Iterator[Advice]:
    """Threads take turns at the interpreter lock while cores are idle."""
    for index, run in evidence.parallel_runs():
        tasks = [task for task in evidence.tasks_by_run.get(index, ()) if task.cpu is not None]
        time = covered(tasks)
        if run.scheduler != "threads" or evidence.cores < 2 or not _matters(evidence, time):
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
        if len(tasks) < _OFTEN:
            continue
        last = max(tasks, key=lambda task: task.end)
        like = [task for task in tasks if task.function == last.function and task is not last]
        others = [task for task in tasks if task is not last]
        workers = len({task.worker for task in tasks})
        alone = last.end - max(last.start, max(task.end for task in others))
        usual = median(task.seconds for task in like) if len(like) >= 4 else last.seconds
        if workers < 2 or last.seconds < 3 * usual or not _matters(evidence, alone):
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
        if run.chain < max(_OFTEN, run.tasks / 2) or not _matters(evidence, time):
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


RULES: tuple[Callable[[Evidence], Iterator[Advice]], ...] = (
    gaps_between_computes, computes_in_a_loop, tasks_too_short, lock_bound_threads,
    unbalanced_tasks, chains,
)

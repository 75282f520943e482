"""Advice on what to change: each rule is a function from evidence to pieces of advice.

A rule gives advice only if following it would save a good part of the block's time, and only
on runs that the user's own code started: estimators have loops of their own. The evidence is the
records of a block, and figures that several rules need.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import ceil, log10
from statistics import median

from lazyflow import config
from lazyflow.diagnostics.profiling.graph_facts import (
    ArrayChunks,
    CapturedData,
    LargeArgument,
    MadeValues,
    Refusal,
)
from lazyflow.diagnostics.profiling.records import (
    RunRecord,
    TaskRecord,
    UsageRecord,
    gaps,
    summed,
    total,
    under_way,
    union,
)
from lazyflow.diagnostics.profiling.texts import seconds
from lazyflow.store.memory.available import available_memory
from lazyflow.store.sizes import format_bytes

# -- evidence ----------------------------------------------------------------------------------


class Evidence:
    """The records of a block.

    Parameters
    ----------
    tasks, runs, seconds
        As those of a `Profile`.
    idle
        Seconds for which cores of the machine had nothing to do in the block, of all cores
        together; None: unknown.
    cores
        The number of cores that this process may use.
    usage
        Memory and CPU use over time; empty where they were not read.
    limit
        Bytes that this process and its workers may take together; None: unknown.
    """

    def __init__(
        self,
        tasks: Sequence[TaskRecord],
        runs: Sequence[RunRecord],
        seconds: float,
        idle: float | None = None,
        cores: int | None = None,
        usage: Sequence[UsageRecord] = (),
        limit: int | None = None,
    ) -> None:
        self.tasks = tasks
        self.runs = runs
        self.seconds = seconds
        self.idle = idle
        self.cores = config.cpu_count() if cores is None else cores
        self.usage = usage
        self.limit = limit

    def parallel_runs(self) -> Iterator[tuple[int, RunRecord]]:
        """Yield the runs that the user's own code started where tasks may run side by side."""
        for index, run in enumerate(self.runs):
            if run.is_users and run.scheduler != "sync":
                yield index, run

    @cached_property
    def tasks_by_run(self) -> dict[int, list[TaskRecord]]:
        """The calls of each run, by the index of the run."""
        found: defaultdict[int, list[TaskRecord]] = defaultdict(list)
        for task in self.tasks:
            if task.worker and task.run >= 0:
                found[task.run].append(task)
        return found

    def users_tasks(self) -> Iterator[tuple[RunRecord, TaskRecord]]:
        """Yield the tasks of runs that the user's own code started, with their runs."""
        for task in self.tasks:
            if task.run >= 0 and self.runs[task.run].is_users:
                yield self.runs[task.run], task

    def users_runs(self) -> Iterator[RunRecord]:
        """Yield the runs that the user's own code started."""
        return (run for run in self.runs if run.is_users)

    @cached_property
    def arrays(self) -> dict[str, list[ArrayChunks]]:
        """The arrays whose blocks were computed, by the lines that made them."""
        found: defaultdict[str, list[ArrayChunks]] = defaultdict(list)
        for run in self.runs:
            for chunks in run.sights.arrays:
                found[chunks.place].append(chunks)
        return dict(found)

    def busy_between(self, start: float, end: float) -> float:
        """Return how many tasks ran at once between two moments, on average."""
        shared = (min(task.end, end) - max(task.start, start) for task in self.tasks)
        return sum(time for time in shared if time > 0) / max(end - start, 1e-9)

    @cached_property
    def alone(self) -> float:
        """Seconds outside of runs."""
        return total(gaps(self.runs, self.tasks, self.seconds))

    @cached_property
    def idle_in_runs(self) -> float:
        """Seconds of idle cores while runs were under way, at least; 0 where it is unknown."""
        return max(0.0, (self.idle or 0.0) - self.alone * (os.cpu_count() or 1))


def covered(tasks: Sequence[TaskRecord]) -> float:
    """Return the seconds in which any of the tasks ran."""
    return total(union((task.start, task.end) for task in tasks))


def memory_limit(usage: Sequence[UsageRecord]) -> int | None:
    """Return the bytes that these processes may have: those of the last record, and the free ones.

    None where one of them is unknown.
    """
    left = available_memory()
    return usage[-1].total + left if usage and left is not None else None


# -- `Advice`: one piece of it ------------------------------------------------------------

_SHARE = 0.2  # of the block's time, below which a rule says nothing; a guess
_MIN_SECONDS = 0.1  # seconds, likewise; a guess

#: Runs of one line, or tasks of one function, that make a habit.
OFTEN = 10


@dataclass(frozen=True, repr=False)
class Advice:
    """A piece of advice; its text has the observation, why it costs time, and the line to type.

    Attributes
    ----------
    rule
        The name of the rule.
    seen
        The observation, with figures.
    why
        Why it costs time.
    do
        The line to type instead.
    place
        The line of the program that the advice is about.
    """

    rule: str
    seen: str
    why: str
    do: str
    place: str

    def __str__(self) -> str:
        return f"{self.seen} ({self.place}) - {self.why} - {self.do}"

    __repr__ = __str__


def matters(evidence: Evidence, time: float) -> bool:
    """Tell whether seconds are a good part of the block, and noticeable for a person."""
    return time >= max(_MIN_SECONDS, _SHARE * evidence.seconds)


# -- rules on the caller's code between and around its computes ---------------------------

_GAPS = 3  # of one line that make a habit; a guess
_MANY = 300  # tiny blocks of arrays whose making takes time: no work of the caller's; a guess


def gaps_between_computes(evidence: Evidence) -> Iterator[Advice]:
    """Workers wait while the caller works between one compute and the next."""
    ends = {run.end: run.place for _, run in evidence.parallel_runs()}
    starts = {
        run.start for _, run in evidence.parallel_runs()
        if sum(chunks.blocks for chunks in run.sights.arrays if chunks.is_tiny()) < _MANY
    }
    waits: defaultdict[str, list[float]] = defaultdict(list)
    for (_, end), (start, _) in pairwise(under_way(evidence.runs, evidence.tasks)):
        if end in ends and start in starts:
            waits[ends[end]].append(start - end)
    for place, times in waits.items():
        if len(times) >= _GAPS and matters(evidence, sum(times)):
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
        if len(runs) < OFTEN or not small or not in_turn:
            continue
        if matters(evidence, total(spans)) and evidence.cores > 1:
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


# -- rules on large values: those that go to and fro between processes, and those that fill memory

_SENDS = 3  # computes that send a value, before it is a habit; a guess
_SPEED = 1e9  # bytes that are copied into another process in a second, about
_PICKLED = 2e8  # likewise inside of a function: they are copied several times, and in each worker
_FULL = 0.85  # of the memory; a guess


def large_values_again(evidence: Evidence) -> Iterator[Advice]:
    """A large value is passed again to one compute after the other."""
    found: defaultdict[int, list[LargeArgument]] = defaultdict(list)
    for run in evidence.users_runs():
        for each in run.sights.large:
            if not each.origin:
                found[id(each.value)].append(each)
    for sent in found.values():
        first = sent[0]
        total = first.nbytes * len(sent)
        if len(sent) >= _SENDS and matters(evidence, total / _SPEED):
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


def values_spilled(evidence: Evidence) -> Iterator[Advice]:
    """Tasks waited for values to be written to a file, below a memory limit."""
    spilled = summed(run.spilled for run in evidence.runs)
    if not spilled.values or not matters(evidence, spilled.seconds):
        return
    worst = max(evidence.runs, key=lambda run: run.spilled.size)
    yield Advice(
        "values spilled",
        f"{spilled.values:,} values, {format_bytes(spilled.size)}, were written to a file in "
        f"{seconds(spilled.seconds)}, and {format_bytes(spilled.read)} were read from there, as "
        "what runs and persist kept was beyond memory_limit",
        "tasks are no faster then than the disk",
        "raise memory_limit if there is memory; drop what persist keeps and is not needed (del); "
        "and let each chunk be reduced before the next is made: what several computes read, "
        "compute together, lazyflow.compute(a, b), instead of persisting it",
        worst.place,
    )


# -- rules on functions: called too early, compiled again and again, or changing their inputs

_CALLS = 3  # calls, or compilations beyond those that each worker needs, that are a habit; a guess


def calls_before_delayed(evidence: Evidence) -> Iterator[Advice]:
    """A function is called in the caller, and its result made lazy: ``delayed(f(x))``."""
    waits: defaultdict[tuple[str, str], float] = defaultdict(float)
    counts: Counter[tuple[str, str]] = Counter()
    seen: dict[tuple[str, str], MadeValues] = {}
    last = 0.0
    for run in sorted(evidence.runs, key=lambda run: run.start):
        for made in run.sights.made if run.is_users else ():
            key = made.place, made.call.function
            seen[key] = made
            counts[key] += made.values
            waits[key] += max(0.0, run.start - last)
        last = max(last, run.end)
    for key, made in seen.items():
        if counts[key] >= _CALLS and matters(evidence, waits[key]):
            function, arguments = made.call
            yield Advice(
                "calls before delayed",
                f"delayed({function}({arguments})) was made {counts[key]:,} times, and for "
                f"{seconds(waits[key])} of {seconds(evidence.seconds)} before it was computed no "
                "task ran",
                f"{function} is called at once, by the caller: only its result is lazy",
                f"write delayed({function})({arguments})",
                made.place,
            )


def compiled_again(evidence: Evidence) -> Iterator[Advice]:
    """Numba compiles in one call of a function after the other."""
    groups: defaultdict[str, list[TaskRecord]] = defaultdict(list)
    for _, task in evidence.users_tasks():
        if task.compiled > 0:
            groups[task.function].append(task)
    for tasks in groups.values():
        workers = len({task.worker for task in tasks})
        again = sorted(task.compiled for task in tasks)[:-workers]
        if len(again) >= _CALLS and matters(evidence, sum(again)):
            first = tasks[0]
            yield Advice(
                "compiled again and again",
                f"Numba compiled in {len(tasks):,} calls of {first.name} on {workers:,} "
                f"worker{'s'[: workers != 1]}, for {seconds(sum(task.compiled for task in tasks))} "
                "in all",
                "a function that is made by numba.njit inside of a task is compiled for each call",
                "make it once, outside: @numba.njit above a function of the module, which tasks "
                "call",
                first.place,
            )


def refused_changes(evidence: Evidence) -> Iterator[Advice]:
    """A task failed since it changed its input."""
    groups: defaultdict[tuple[str, str], list[Refusal]] = defaultdict(list)
    for run in evidence.runs:
        for refused in run.sights.refused:
            groups[refused.name, refused.place].append(refused)
    for (name, place), found in groups.items():
        calls = f"{len(found):,} calls" if len(found) > 1 else "a call"
        yield Advice(
            "inputs changed in place",
            f"{calls} of {name} failed: {found[0].text}",
            "other tasks may share the value, so that it can't be edited",
            f"edit a copy, x = x.copy(), or get a private value: delayed({name}, mutates=True)",
            place,
        )


# -- rules on tasks and chunks that are too small, or too large ---------------------------

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
_LARGE_CHUNK = 32 << 20  # bytes; a guess


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


# -- rules on workers that are idle, wait for each other, or are too many -----------------


def lock_bound_threads(evidence: Evidence) -> Iterator[Advice]:
    """Threads take turns at the GIL while cores are idle."""
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


# -- all rules, in the order in which their advice is given -------------------------------


RULES: tuple[Callable[[Evidence], Iterator[Advice]], ...] = (
    gaps_between_computes, computes_in_a_loop, calls_before_delayed, tasks_too_short,
    chunks_too_small, chunks_too_large, lock_bound_threads, more_threads_than_cores,
    unbalanced_tasks, chains, large_values_again, results_sent_back, captured_data,
    compiled_again, refused_changes, memory_near_limit, values_spilled,
)


def advice(evidence: Evidence) -> list[Advice]:
    """Return the advice of all rules."""
    return [found for rule in RULES for found in rule(evidence)]

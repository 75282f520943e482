"""Rules on functions: called too early, compiled again and again, or changing their inputs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from lazyflow.diagnostics.profiling.advice.piece import Advice, matters
from lazyflow.diagnostics.profiling.evidence import Evidence
from lazyflow.diagnostics.profiling.records import TaskRecord
from lazyflow.diagnostics.profiling.sights import MadeValues, Refusal
from lazyflow.diagnostics.profiling.texts import seconds

_TIMES = 3  # calls, or compilations beyond those that each worker needs, that are a habit


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
        if counts[key] >= _TIMES and matters(evidence, waits[key]):
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
        if len(again) >= _TIMES and matters(evidence, sum(again)):
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

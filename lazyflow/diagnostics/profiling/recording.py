"""What is recorded of a run while it goes on, and the records that are made of it.

While tasks run, a tuple of raw values is kept for each. Names and lines are looked up when
somebody asks; until then their functions are kept.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from operator import attrgetter, itemgetter
from time import perf_counter
from typing import Any

from lazyflow.diagnostics.profiling.graph_facts import GraphWatch, Refusal
from lazyflow.diagnostics.profiling.records import RunRecord, SpilledValues, TaskRecord, summed
from lazyflow.diagnostics.profiling.texts import shown, shown_end
from lazyflow.graph.options import DEFAULT
from lazyflow.graph.task import function_name, height_over, place_text, task_name
from lazyflow.schedulers.core.base import AnyRun
from lazyflow.schedulers.core.task_resources import here
from lazyflow.schedulers.remote.calls import bare_task

#: Number of the task, worker, start, end, CPU time, size of the result.
Span = tuple[int, str, float, float, float | None, int | None]

#: What tasks of one name, function and line have in common.
naming: Callable[[Any], tuple[Any, ...]] = attrgetter(
    "_func", "_options", "_code", "_lasti", "_key"
)


_number: Callable[[Span], int] = itemgetter(0)


class Recording:
    """What is recorded of a run.

    spans
        A `Span` for each task.
    failed
        When tasks failed, by number.
    compiled, moved
        Seconds for which Numba compiled, and bytes that were sent, by number of the task.
    spilled
        What was written to files and read from there, piece by piece.
    kinds
        What names the tasks of `spans`, once the run is over.
    look
        What was seen of the graph.
    """

    def __init__(self, run: AnyRun, watch: GraphWatch) -> None:
        self.spans: list[Span] = []
        self.failed: dict[int, float] = {}
        self.compiled: dict[int, float] = {}
        self.moved: dict[int, int] = {}
        self.spilled: list[SpilledValues] = []
        self.kinds: list[tuple[Any, ...]] = []
        self.place, is_users = _users_line()
        self.is_users = is_users and here.worker is None
        self.scheduler = str(run.scheduler.name)
        plan = run.plan
        self.tasks = len(plan) - len(plan.leaves)
        self.chain = min(self.tasks, height_over([plan.tasks[i] for i in plan.outputs]))
        self.look = watch.look(run)
        self.start = self.end = perf_counter()

    def fail(self, i: int, when: float, refused: Refusal | None) -> None:
        """Note that a task failed, and whether it did since it changed its input."""
        self.failed[i] = when
        if refused is not None:
            self.look.refused.append(refused)

    def close(self, run: AnyRun) -> None:
        """Take what names the tasks of a run that is over; not its plan, which holds values."""
        self.end = perf_counter()
        ran = {span[0] for span in self.spans} if self.failed else ()
        for i, when in self.failed.items():
            if i not in ran:  # for example, it could not be sent
                self.spans.append((i, "", when, when, None, None))
        tasks = run.plan.tasks
        self.kinds = list(map(naming, map(tasks.__getitem__, map(_number, self.spans))))

    def task_records(self, run: int, began: float, words: Words) -> Iterator[TaskRecord]:
        """Yield the records of the tasks; `run` is the index of the run."""
        for kind, (i, worker, start, end, cpu, size) in zip(self.kinds, self.spans, strict=False):
            yield TaskRecord(
                *words.of(kind), run, shown(worker), start - began, end - began, cpu, size,
                i in self.failed, self.compiled.get(i, 0.0), self.moved.get(i),
            )

    def run_record(self, began: float, words: Words) -> RunRecord:
        """Return the record of the run."""
        place = words.at(self.place) if self.place else ""
        return RunRecord(
            self.start - began, self.end - began, place, self.is_users, self.scheduler, self.tasks,
            self.chain, self.look.sights(words.at), summed(self.spilled),
        )


def _users_line() -> tuple[tuple[Any, int] | None, bool]:
    """Return code and offset of the user's line below, and whether no estimator is between."""
    frame: Any = sys._getframe(1)
    is_users = True
    while frame is not None:
        module = frame.f_globals.get("__name__") or ""
        if not module.startswith("lazyflow."):
            if module != "__main__" and module.partition(".")[0] in sys.stdlib_module_names:
                break  # this is the thread of an engine
            return (frame.f_code, frame.f_lasti), is_users
        is_users = is_users and not module.startswith(_LOOPS)
        frame = frame.f_back
    return None, False


#: Modules that compute again and again for the user, each time as cheaply as they can.
_LOOPS = ("lazyflow.learn.", "lazyflow.api.tracing")


class Words:
    """Names, functions and places of tasks as text, each made once."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], tuple[Any, tuple[str, str, str]]] = {}

    def at(self, line: tuple[Any, int]) -> str:
        """Return a line, given as code and offset, as text."""
        return self.of((abs, DEFAULT, *line, None))[2]

    def of(self, kind: tuple[Any, ...]) -> tuple[str, str, str]:
        """Return name, function and place of a task with such fields as `naming` gets."""
        func, options, code, lasti, name = kind
        key = id(func), id(options), id(code), lasti, name  # functions need not be hashable
        if key not in self._known:
            task = bare_task(func, ())
            task._options, task._code, task._lasti, task._key = options, code, lasti, name
            text = shown(task_name(task)), shown(full_name(func)), shown_end(place_text(task))
            self._known[key] = kind, text  # with the objects, whose ids are not used again then
        return self._known[key][1]


def full_name(func: Any) -> str:
    """Return the name of a function with its module, and with its line if it is a lambda."""
    name = function_name(func)
    try:
        name, module = getattr(func, "__qualname__", name), getattr(func, "__module__", None)
        if "<lambda>" in name:
            name = f"{name}:{func.__code__.co_firstlineno}"
        return f"{module}.{name}" if module else str(name)
    except Exception:  # a hostile __getattr__
        return name

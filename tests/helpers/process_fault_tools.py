"""Faults that tasks on processes meet, and what is looked at after each."""

import re
import sys
from typing import Any

from fault_tools import LIMIT, ON

from lazyflow import WorkerDied, compute, delayed
from lazyflow.graph.task import place_text
from lazyflow.testing.signals import Barrier, inc


def line() -> str:
    """Return file and line of the caller."""
    frame = sys._getframe(1)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def made_at(task: Any) -> str:
    """Return file and line where a task was made."""
    return place_text(task).split(" in ")[0]


def meet() -> bool:
    """Have two workers run one task each at once: so there are two, and both work."""
    meeting = Barrier(2)
    return sorted(compute([delayed(meeting.wait)(LIMIT) for _ in range(2)], **ON)[0]) == [0, 1]


def around(bad: Any, good: Any = None) -> Any:
    """Compute a bad task with eight good ones around it; return what stands in its place."""
    good = good or (lambda i: delayed(inc)(i))
    wanted = [*map(good, range(4)), bad, *map(good, range(4, 8))]
    found = compute(wanted, **ON, on_error="collect", timeout=LIMIT)[0]
    error = found.pop(4)
    assert found == [i + 1 for i in range(8)]
    return error


def check_note(error: Any, name: str, at: str) -> None:
    note = error.__notes__[-1]
    assert re.search(rf"in lazyflow task {re.escape(name)}\b", note), note
    assert f"made at {at} in " in note


def check_death(error: Any, how: str, attempts: int, name: str, at: str) -> None:
    assert type(error) is WorkerDied
    text = str(error)
    assert f" that ran {name}, made at {at} in " in text
    assert f" ended by {how}; given up after {attempts} attempt" in text
    assert ("where memory has run out" in text) == (how == "SIGKILL")
    assert re.search(r"the worker \(process \d+\) ", text)
    check_note(error, name, at)


def closure(kind: type, fault: str) -> Any:
    held = kind(fault)

    def bad() -> int:
        return id(held)

    return bad

"""Samples of where tasks spent their time, as a tree of calls and as the hottest lines.

A sample is a `Stack`, the lines from the task's function inwards, and the seconds for which it
stands. `Samples` adds them up by function and stack: ``_seen :: {(function, stack): (looks,
seconds)}``, which the threads that sample share under ``_lock``. Beyond 20,000 stacks only the
first line of a new one counts, so that memory has a bound. `call_tree` makes the flame of them, and
`hottest` the table, whose time counts for the innermost line of the program's own code.
"""

from __future__ import annotations

import linecache
import os
import site
import sysconfig
import threading
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

from lazyflow.diagnostics.profiling.recording import full_name
from lazyflow.diagnostics.profiling.texts import shown, shown_end
from lazyflow.schedulers.core.sampling import Line, Stack

_MAX_STACKS = 20_000  # stacks that are told apart; of others the first line is kept; a guess

#: Whose code a line is.
PROGRAM, PACKAGE, PYTHON = "the program's code", "installed packages", "Python's own library"


class SampledStack(NamedTuple):
    """Lines that a function was at: ``looks`` times, which stand for so many seconds."""

    function: str
    stack: Stack
    looks: int
    seconds: float


class HotLine(NamedTuple):
    """A line at which tasks spent time.

    Attributes
    ----------
    place
        File and line; empty if there is no line of Python, as in a task that calls a C function.
    function
        The function that contains the line.
    share
        The share of the time of all tasks.
    seconds
        The time.
    samples
        The number of samples that saw a task there.
    code
        The text of the line, if its file can be read.
    """

    place: str
    function: str
    share: float
    seconds: float
    samples: int
    code: str


class Samples:
    """The samples of the threads that look at tasks; any of them may `add` to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[tuple[str, Stack], tuple[int, float]] = {}

    def add(self, func: Any, stack: Stack, looks: int, seconds: float) -> None:
        """Take in that tasks of a function were at some lines. The function is not kept."""
        name = shown(full_name(func))
        with self._lock:
            key = name, stack
            if key not in self._seen and len(self._seen) >= _MAX_STACKS:
                key = name, stack[:1]
            before, time = self._seen.get(key, (0, 0.0))
            self._seen[key] = looks + before, seconds + time

    def stacks(self) -> list[SampledStack]:
        """Return the samples so far."""
        with self._lock:
            return [SampledStack(*key, *seen) for key, seen in self._seen.items()]


class CallNode:
    """A box of the flame: a task's function, or a line, with the lines called from there."""

    def __init__(self, line: Line | None, name: str) -> None:
        self.line = line
        self.name = name
        self.looks = 0
        self.seconds = 0.0
        self.below: dict[Any, CallNode] = {}

    def called(self, key: Any, line: Line | None, name: str) -> CallNode:
        """Return the box of a call from here, made when it is needed first."""
        found = self.below.get(key)
        if found is None:
            found = self.below[key] = CallNode(line, name)
        return found

    def add(self, looks: int, seconds: float) -> None:
        """Take in time that was spent here, or further in."""
        self.looks += looks
        self.seconds += seconds


def call_tree(samples: Iterable[SampledStack]) -> CallNode:
    """Return the tree of all calls: below its root the tasks' functions, below them lines.

    >>> root = call_tree([SampledStack("f", (("f", "a.py", 3), ("g", "a.py", 9)), 2, 0.02)])
    >>> root.seconds, list(root.below), root.below["f"].below["f", "a.py", 3].name
    (0.02, ['f'], 'f')
    """
    root = CallNode(None, "all tasks")
    for function, stack, looks, seconds in samples:
        root.add(looks, seconds)
        node = root.called(function, None, function)
        node.add(looks, seconds)
        for line in stack:
            node = node.called(line, line, short_name(line))
            node.add(looks, seconds)
    return root


def hottest(samples: Iterable[SampledStack]) -> list[HotLine]:
    """Return the lines at which time was spent, hottest first.

    Time counts for the innermost line of the program's own code, if there is one: users can
    change that.

    >>> deep = ("f", "a.py", 3), ("sum", "/usr/lib/python3/numpy/core.py", 48)
    >>> hottest([SampledStack("f", deep, 3, 0.03), SampledStack("abs", (), 1, 0.01)])[1]
    HotLine(place='', function='abs', share=0.25, seconds=0.01, samples=1, code='')
    """
    totals: dict[Any, tuple[int, float]] = {}
    for function, stack, looks, seconds in samples:
        key: Any = stack[-1] if stack else (function, "", 0)
        for line in reversed(stack):
            if _is_programs(line):
                key = line
                break
        before, time = totals.get(key, (0, 0.0))
        totals[key] = looks + before, seconds + time
    whole = sum(seconds for _, seconds in totals.values()) or 1.0
    lines = [
        HotLine(place_of(key), short_name(key), time / whole, time, looks, code_of(key))
        for key, (looks, time) in totals.items()
    ]
    return sorted(lines, key=lambda line: (-line.seconds, line.place, line.function))


def _is_programs(line: Line) -> bool:
    # Text that a package executes is in no file, and at a module's level.
    is_made = line[1].startswith("<") and line[0] == "<module>"
    return not is_made and owner(line[1]) == PROGRAM


def place_of(line: Line) -> str:
    """Return file and line as text, without the folder of packages; empty without a file."""
    _, file, number = line
    return shown_end(f"{_short(file)}:{number}", 60) if file else ""


def short_name(line: Line) -> str:
    """Return the name of the function of a line, without those that it is defined in."""
    return shown(line[0].rpartition(".<locals>.")[2])


def code_of(line: Line) -> str:
    """Return the text of a line; empty where its file cannot be read."""
    try:
        return shown(linecache.getline(*line[1:]).strip(), 60)
    except ValueError:  # no system has a file of such a name
        return ""


@cache
def _short(file: str) -> str:
    for folder, _ in _folders():
        if file.startswith(folder + os.sep):
            return file[len(folder) + 1 :]
    return file


@cache
def _folders() -> tuple[tuple[str, str], ...]:
    """Return the folders of packages and of Python, with whose code is in them; inner ones first.
    """
    packages = {*site.getsitepackages(), site.getusersitepackages()}
    packages |= {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    python = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    folders = [(each, PACKAGE) for each in packages] + [(each, PYTHON) for each in python]
    return tuple(sorted(folders, key=lambda folder: -len(folder[0])))


@cache
def owner(file: str) -> str:
    """Return whose code a file has."""
    if file.startswith("<frozen "):
        return PYTHON
    for folder, whose in _folders():
        if file.startswith(folder + os.sep):
            return whose
    return PACKAGE if file.startswith(_OWN) else PROGRAM


#: lazyflow itself, from wherever it was imported.
_OWN = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep

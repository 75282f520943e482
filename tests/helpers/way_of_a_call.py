"""The way of one call through the library: the files that it enters, in order.

    $ python tests/helpers/way_of_a_call.py threads processes

prints it for ``delayed(f)(x).compute()``: the files that a reader who follows the call has to
read, and how often the call returns to a file that was read before. Few files and few returns
mean that the steps of a call stand where they belong.

A profile function sees each call: in the threads of this process, of which none may have started
before, and in the thread of the worker process that runs tasks. What happens once for a process
(imports, the start of workers) is done before and does not count.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from time import monotonic_ns
from types import FrameType
from typing import Any, NamedTuple

import lazyflow

__all__ = ["Way", "walk", "way_of"]

_ROOT = f"{Path(lazyflow.__file__).parent}/"
_SCHEDULERS = ("threads", "processes")


class Entry(NamedTuple):
    """The call of a function.

    Attributes
    ----------
    time
        When it was called, in nanoseconds: one clock for all processes of a machine.
    thread
        The process and the thread that called it.
    file
        Where the function is, below the package's folder.
    """

    time: int
    thread: tuple[str, int]
    file: str


class Way(NamedTuple):
    """The files that a call enters, in order, and how often it comes back to one of them."""

    files: list[str]
    returns: int


def way_of(entries: Iterable[Entry]) -> Way:
    """Return the way that some calls of functions make up.

    >>> files = ["lazy.py", "run.py", "run.py", "task.py", "run.py", "lazy.py"]
    >>> way_of(Entry(time, ("caller", 1), file) for time, file in enumerate(files))
    Way(files=['lazy.py', 'run.py', 'task.py'], returns=2)
    """
    files: dict[str, None] = {}
    returns = 0
    last: dict[tuple[str, int], str] = {}
    for entry in sorted(entries):
        if last.get(entry.thread) != entry.file:
            returns += entry.file in files
            files[entry.file] = None
            last[entry.thread] = entry.file
    return Way(list(files), returns)


_entries: list[Entry] = []  # of this process


def _begin(process: str) -> None:
    """Note the calls of lazyflow's functions, in this thread and in those that it starts."""

    def note(frame: FrameType, event: str, arg: Any) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(_ROOT):
            thread = (process, threading.get_ident())
            _entries.append(Entry(monotonic_ns(), thread, file.removeprefix(_ROOT)))

    threading.setprofile(note)
    sys.setprofile(note)


def _end() -> list[tuple[Any, ...]]:
    """Note no more; return what was noted, as plain tuples: a worker sends them."""
    sys.setprofile(None)
    threading.setprofile(None)
    return [tuple(entry) for entry in _entries]


def walk(scheduler: str) -> Way:
    """Return the way of ``delayed(f)(x).compute()`` on threads or on processes.

    This is for a process that has computed nothing so far: its threads have to start here.
    """
    on: dict[str, Any] = {"scheduler": scheduler, "num_workers": 1}
    is_apart = scheduler == "processes"
    function = lazyflow.delayed(abs)
    _begin("caller")
    function(-1).compute(**on)
    if is_apart:
        lazyflow.delayed(_begin)("worker").compute(**on)
    begun = monotonic_ns()
    function(-2).compute(**on)
    ended = monotonic_ns()
    found = _end()
    if is_apart:
        found += lazyflow.delayed(_end)().compute(**on)
    entries = [Entry(*each) for each in found]
    return way_of(entry for entry in entries if begun <= entry.time <= ended)


def main(argv: Sequence[str]) -> None:
    """Print the ways on the schedulers that are named."""
    parser = argparse.ArgumentParser(description="print the way of delayed(f)(x).compute()")
    parser.add_argument("schedulers", nargs="*", metavar="scheduler", default=_SCHEDULERS)
    for scheduler in parser.parse_args(argv).schedulers:
        way = walk(scheduler)
        print(f"{scheduler}: {len(way.files)} files, {way.returns} returns")
        print("".join(f"  {file}\n" for file in way.files))


if __name__ == "__main__":  # workers import this module by its name, and so does its own program
    import way_of_a_call

    way_of_a_call.main(sys.argv[1:])

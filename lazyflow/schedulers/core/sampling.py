"""Where tasks spend their time: a thread samples their frames while an observer asks for it.

A sample stands for the time since the last one. So a call into C that holds the GIL, during which
no other thread runs, gets its full time with the next sample, at its line. Of tasks of one thread,
one inside the other, the innermost is sampled. A task counts only if it still runs after the frames
were read, since another may have begun before.

A `Sampler` runs until `stop`, or in a worker until no task has run for half a second: ``_is_over``
says so, and is set under ``_ending``, so that a task which begins at that moment is either seen or
gets another sampler.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from time import perf_counter
from types import FrameType, MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from lazyflow.clock import Clock
from lazyflow.interrupts import Event
from lazyflow.logs import ERROR, log

#: A function, its file, and a line.
Line: TypeAlias = tuple[str, str, int]

#: The lines that a task is at, from its own function down to the innermost one.
Stack: TypeAlias = tuple[Line, ...]

_DEEPEST = 80  # lines of a stack; deeper ones count for the last of them
_IDLE = 0.5  # seconds without tasks after which a sampler ends by itself; a guess

#: Code that calls tasks: its frames are not shown.
_OURS = (
    "lazyflow.schedulers.", "lazyflow.api.", "lazyflow.graph.", "lazyflow.store.",
    "lazyflow.clock", "lazyflow.config", "lazyflow.errors", "lazyflow.finalizers",
    "lazyflow.interrupts", "lazyflow.logs", "lazyflow.recent", "lazyflow.services",
    "lazyflow.system",
)


class RunningTask(NamedTuple):
    """A task that a thread of this process is running.

    thread
        The identifier of the thread.
    name
        Whatever names the task to the one who asks.
    since
        When it began.
    """

    thread: int
    name: Any
    since: float


def stack_of(frame: FrameType | None, depth: int = 1) -> Stack:
    """Return the lines of a task in a thread that is at `frame`.

    A thread whose task computes others runs tasks inside of tasks; `depth` says how many, and
    the lines are those of the innermost one. They are none while the task is in C code that our
    own called.
    """
    return tuple([
        (one.f_code.co_qualname, one.f_code.co_filename, one.f_lineno or 0)
        for entered, one in _of_tasks(frame)
        if entered == depth
    ][:_DEEPEST])


def depth_here() -> int:
    """Return in how many tasks, one inside the other, this thread is."""
    return max((entered for entered, _ in _of_tasks(sys._getframe(1))), default=0)


def _of_tasks(frame: FrameType | None) -> Iterator[tuple[int, FrameType]]:
    """Yield the frames that are not ours, the outermost first, and in how many tasks each is."""
    frames: list[FrameType] = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    was_ours, entered = False, 0
    for one in reversed(frames):
        is_ours = _is_ours(one)
        if not is_ours:
            entered += was_ours
            yield entered, one
        was_ours = is_ours


def _is_ours(frame: FrameType) -> bool:
    module = frame.f_globals.get("__name__")
    return type(module) is str and module.startswith(_OURS)


class Sampler:
    """A thread that looks at the tasks of this process each `interval` seconds.

    Parameters
    ----------
    running
        Returns the tasks that run now.
    take
        Is called with the name of a task, its `Stack`, and the seconds of the sample.
    then
        Is called after each look.
    outer
        For threads, in how many tasks they are that `running` does not return.
    may_idle
        It goes on when no task runs, until `stop` is called; else it ends by itself after a while.
    now
        The clock by which tasks began.
    """

    def __init__(
        self,
        interval: float,
        running: Callable[[], Iterable[RunningTask]],
        take: Callable[[Any, Stack, float], object],
        then: Callable[[], object] = lambda: None,
        may_idle: bool = True,
        outer: Mapping[int, int] = MappingProxyType({}),
        now: Clock = perf_counter,
    ) -> None:
        self.interval = interval
        self._running = running
        self._take = take
        self._then = then
        self._may_idle = may_idle
        self._outer = outer
        self._now = now
        self._stop = Event()
        self._ending = threading.Lock()
        self._is_over = False
        self._thread = threading.Thread(target=self._serve, name="lazyflow-sampler", daemon=True)

    def start(self) -> Sampler:
        """Start the thread; if the system gives none, there are no samples."""
        try:
            self._thread.start()
        except RuntimeError:
            self._is_over = True
        return self

    def stop(self) -> None:
        """End the thread, and wait for its end. Called once."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def __enter__(self) -> Sampler:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def goes_on(self) -> bool:
        """Tell whether it sees a task that began before this was asked."""
        with self._ending:
            return not self._is_over

    def _serve(self) -> None:
        last = busy = self._now()
        try:
            while not self._stop.wait(self.interval):
                now = self._now()
                if self.look(now, now - last):
                    busy = now
                elif not self._may_idle and now - busy > _IDLE and self._end():
                    return
                last = now
        except Exception as error:
            self._is_over = True
            log(
                ERROR, "the thread that looks where tasks are has failed; results are not affected",
                error=error,
            )

    def _end(self) -> bool:
        with self._ending:
            self._is_over = not tuple(self._running())
            return self._is_over

    def look(self, now: float, elapsed: float) -> bool:
        """Take in where the tasks are that run; return whether there are any."""
        threads: dict[int, list[RunningTask]] = {}
        for task in self._running():
            threads.setdefault(task.thread, []).append(task)
        frames: dict[int, FrameType] = sys._current_frames() if threads else {}
        seen = []
        for thread, tasks in threads.items():
            inner = max(tasks, key=lambda task: task.since)
            stack = stack_of(frames.get(thread), len(tasks) + self._outer.get(thread, 0))
            seen.append((inner, stack, min(elapsed, max(0.0, now - inner.since))))
        frames.clear()  # it has the frames of all threads, this one included: a cycle
        if seen:
            still = set(self._running())  # another may have begun before the frames were read
            for inner, stack, seconds in seen:
                if inner in still:
                    self._take(inner.name, stack, seconds)
        self._then()
        return bool(threads)

"""`ProgressBar`: tasks done, running and failed, in a terminal or notebook, drawn by tqdm::

    threads that run tasks --> ProgressBar (counts) -- draw, at most each `interval` --> _Drawing
    _Drawing: a thread of its own that makes, draws and closes the bar, by orders in a queue

State of a `ProgressBar`; `_clear` resets it when a bar is closed::

    _runs :: {id}                     of runs, calls of actors and work that go on: one bar for all
    _total :: int                     tasks of these runs, and calls
    _latest :: int                    done ones; counted by `_done`, an iterator, without a lock
    _failed :: [task]                 appended to
    _running :: {(id of run, task): run},  _calls :: {id: WatchedCall}
    _next_drawing :: float            by `time.monotonic`; infinity: nothing is shown
    _drawing :: _Drawing              None until the bar appears

A task that ends waits for no lock: if another thread draws, `_one_done` leaves it to that. A bar
that can't be drawn is given up after two seconds, and never changes a result.
"""

from __future__ import annotations

import _thread
import contextvars
import itertools
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextvars import Token
from functools import partial
from math import inf
from numbers import Real
from queue import SimpleQueue
from time import monotonic
from typing import Any, TextIO

from lazyflow.api.evaluate import always_observers, observers
from lazyflow.api.progress_events import WatchedWork
from lazyflow.clock import Clock
from lazyflow.graph.task import task_name
from lazyflow.interrupts import Event
from lazyflow.logs import ERROR, WARNING, log, log_failure
from lazyflow.schedulers.actors.calls import WatchedCall
from lazyflow.schedulers.core.base import AnyRun, Observer

_PATIENCE = 2.0  # seconds that a compute may wait for its bar to be closed; a guess
_FUNCTIONS = 3  # running ones that are named
_CALLS = 100  # of actors that are asked whether they run: those that were made first
_NAME = 24  # characters of each


def _in_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and hasattr(shell, "kernel")


def _bar_class() -> Any:
    """Return tqdm's bar for this terminal or notebook; the notebook bar needs ipywidgets."""
    try:
        from tqdm import tqdm
    except ImportError:
        raise ImportError(
            "ProgressBar draws with tqdm, which is not installed. Type: pip install "
            '"lazyflow[progress]"'
        ) from None
    if _in_notebook():
        try:
            import ipywidgets  # noqa: F401
            from tqdm.notebook import tqdm as notebook_tqdm

            return notebook_tqdm
        except ImportError:
            pass
    return tqdm


def _short(name: str) -> str:
    """Return a name for one line of a terminal, which it can't steer."""
    shown = "".join(char if char.isprintable() else "?" for char in name[:_NAME + 1])
    return shown if len(shown) <= _NAME else shown[:_NAME - 1] + "…"


def _is_terminal(file: Any) -> bool:
    """Whether a file is a terminal; a program may have no standard error, or one of its own."""
    try:
        return bool(file.isatty())
    except Exception:
        return False


class _Drawing:
    """A bar, and the only thread that makes, draws, closes and drops it.

    A Ctrl-C inside tqdm would leave the lock taken that all bars share, and one inside the
    `__del__` of a bar would be lost. Threads that compute wait for no lock of tqdm.

    `give_up` is called when it has failed, so that there is no other one.
    """

    def __init__(self, make: Callable[..., Any], give_up: Callable[[], None]) -> None:
        self._make = make
        self._give_up = give_up
        self._orders: SimpleQueue[tuple[float, int | None, str] | None] = SimpleQueue()
        self._closed = Event()

    def start(self) -> None:
        """Start the thread, in the context of this one: a notebook finds the cell to print in."""
        _thread.start_new_thread(contextvars.copy_context().run, (self._serve,))

    def draw(self, done: float, total: int | None, text: str) -> None:
        """Ask the thread to draw the bar, with a text behind it; total None: not known."""
        self._orders.put((done, total, text))

    def close(self) -> None:
        """Ask the thread to close the bar."""
        self._orders.put(None)

    def wait(self) -> None:
        """Wait until the bar is closed, or two seconds have passed."""
        if not self._closed.wait(_PATIENCE):
            self._give_up()
            log(
                WARNING,
                "a progress bar could not be drawn for %g s and is given up; results are not "
                "affected. Something holds the lock of tqdm's bars, or the file is not read",
                _PATIENCE,
            )

    def _serve(self) -> None:
        bar: Any = None
        try:
            while (order := self._orders.get()) is not None:
                done, total, text = order
                if bar is None:
                    bar = self._make(total=total, initial=done)
                bar.n, bar.total = done, total
                bar.set_postfix_str(text, refresh=True)
            bar.close()
            vars(bar).pop("disp", None)  # by which a notebook's bar refers to itself
        except Exception as error:
            log(ERROR, "a progress bar failed; results are right", error=error)
            self._give_up()
        finally:
            bar = None
            self._closed.set()


class ProgressBar(Observer):
    """Shows the progress of runs in a ``with`` block: tasks, rate, time left, running functions.

    Overlapping runs (a `compute` inside a task) share one bar, whose total grows. The fit of an
    estimator has one bar for all its runs, with the passes over the rows so far, and the gradient
    and gap as signs of convergence. Calls of actors count like tasks; without other tasks, a
    bar appears when they have lasted for `interval`. If standard error is not a terminal (a log
    file for example), nothing is drawn unless `file` is given.

    Parameters
    ----------
    description
        Text before the bar.
    minimum
        Seconds a run must last before the bar appears.
    interval
        Seconds between two drawings.
    file
        The file to write to; standard error by default.
    now
        The clock that `minimum` and `interval` are measured by.

    Raises
    ------
    ImportError
        tqdm is not installed.
    TypeError, ValueError
        `description` is not a text, or `minimum` or `interval` not a number of seconds, 0 or more.
    RuntimeError
        A second block is entered while the first is open.

    Examples
    --------
    >>> import io, lazyflow
    >>> text = io.StringIO()
    >>> with lazyflow.ProgressBar(file=text):
    ...     lazyflow.delayed(sum)([lazyflow.delayed(abs)(-i) for i in range(9)]).compute()
    36
    >>> "10/10" in text.getvalue()
    True
    """

    def __init__(
        self,
        description: str = "",
        *,
        minimum: float = 0.0,
        interval: float = 0.1,
        file: TextIO | None = None,
        now: Clock = monotonic,
    ) -> None:
        if not isinstance(description, str):
            raise TypeError(
                f"description={description!r:.100} is no text before the bar. Type: "
                'ProgressBar("text"), or ProgressBar(minimum=1) for runs of a second and more'
            )
        given: Any
        for name, given in (("minimum", minimum), ("interval", interval)):
            is_number = isinstance(given, Real) and not isinstance(given, bool)
            if not is_number or not given >= 0:
                raise (ValueError if is_number else TypeError)(
                    f"{name}={given!r:.100} is no number of seconds, 0 or more"
                )
        self._bar_class = _bar_class()
        self._is_shown = file is not None or _is_terminal(sys.stderr) or _in_notebook()
        self._description = description
        self._minimum = minimum
        self._interval = interval
        self._file = file
        self._now = now
        self._lock = threading.Lock()
        self._token: Token[tuple[Any, ...]] | None = None
        self._closed: _Drawing | None = None  # the last one
        self._clear()

    def _clear(self) -> None:
        self._runs: set[int] = set()  # by id, and works
        self._work: WatchedWork | None = None
        self._drawing: _Drawing | None = None
        self._total = 0
        self._done = itertools.count(1)  # counting is atomic
        self._latest = 0
        self._failed: list[int] = []  # appending is atomic
        self._running: dict[tuple[int, int], AnyRun] = {}  # by id of the run and task
        self._calls: dict[int, WatchedCall] = {}  # of actors, that are not over; by id
        self._next_drawing = self._now() + self._minimum if self._is_shown else inf

    def __enter__(self) -> ProgressBar:
        if self._token is not None:
            raise RuntimeError(
                "this bar is in use already. Give each block its own: with ProgressBar():"
            )
        self._token = observers.set((*observers.get(), self))
        return self

    def __exit__(self, *error: object) -> None:
        assert self._token is not None
        observers.reset(self._token)
        self._token = None
        try:
            self._finish()
        except Exception as failure:  # results are not affected
            self._give_up()
            log_failure(self, "its end", failure)

    def _give_up(self) -> None:
        """Draw nothing any more."""
        self._is_shown, self._next_drawing = False, inf
        drawing, self._drawing = self._drawing, None
        if drawing is not None:
            drawing.close()

    def register(self) -> None:
        """Show the progress of all runs from now on; a second call does nothing.

        Examples
        --------
        >>> import io, lazyflow
        >>> text = io.StringIO()
        >>> bar = lazyflow.ProgressBar(file=text)
        >>> bar.register()
        >>> lazyflow.delayed(abs)(-1).compute()
        1
        >>> bar.unregister()
        >>> "1/1" in text.getvalue()
        True
        """
        if self not in always_observers:
            always_observers.append(self)

    def unregister(self) -> None:
        """Stop showing progress, after `register`.

        Examples
        --------
        >>> import lazyflow
        >>> bar = lazyflow.ProgressBar()
        >>> bar.register()
        >>> bar.unregister()
        """
        if self in always_observers:
            always_observers.remove(self)

    def run_started(self, run: AnyRun) -> None:
        with self._lock:
            if not self._runs:
                self._clear()
            self._runs.add(id(run))
            self._total += len(run.plan) - len(run.plan.leaves)
            if self._is_shown and self._minimum <= 0:
                self._draw()

    def task_started(self, run: AnyRun, i: int) -> None:
        self._running[id(run), i] = run

    def task_ended(self, run: AnyRun, i: int) -> None:
        self._running.pop((id(run), i), None)
        if id(run) not in self._runs:  # the block was left, or another thread ended the run
            return
        self._one_done()

    def _one_done(self) -> None:
        self._latest = next(self._done)
        if self._now() >= self._next_drawing and self._lock.acquire(blocking=False):
            try:
                self._draw()
            finally:
                self._lock.release()

    def task_failed(self, run: AnyRun, i: int, error: BaseException) -> None:
        self._failed.append(i)
        self.task_ended(run, i)

    def call_made(self, call: WatchedCall) -> None:
        with self._lock:
            if not self._runs:
                self._clear()
                self._next_drawing += max(0.0, self._interval - self._minimum)
            self._runs.add(id(call))
            self._calls[id(call)] = call
            self._total += 1

    def call_ended(self, call: WatchedCall) -> None:
        self._calls.pop(id(call), None)
        if id(call) not in self._runs:
            return
        if call.failed:
            self._failed.append(0)
        self._one_done()
        self._runs.discard(id(call))
        if not self._runs:
            self._finish()

    def run_ended(self, run: AnyRun | WatchedWork) -> None:
        self._runs.discard(id(run))
        if not self._runs:
            self._finish()

    def work_started(self, work: WatchedWork) -> None:
        with self._lock:
            if self._runs:  # it is in a task, or beside other runs: its tasks are counted with them
                return
            self._clear()
            self._work = work
            self._runs.add(id(work))
            if self._is_shown and self._minimum <= 0:
                self._draw()

    def work_went_on(self, work: WatchedWork) -> None:
        with self._lock:
            if self._work is work and self._now() >= self._next_drawing:
                self._draw()

    def work_ended(self, work: WatchedWork) -> None:
        self.run_ended(work)

    def _draw(self) -> None:
        try:
            self._order_drawing()
        except Exception:
            self._give_up()
            raise  # to be logged

    def _order_drawing(self) -> None:
        self._next_drawing = self._now() + self._interval
        work, drawing = self._work, self._drawing
        if drawing is None:
            description, unit = (self._description, "task") if work is None else (
                self._description or work.name, work.unit
            )
            file = self._file  # None in a notebook, whose bars are no text
            if file is None and not _in_notebook():
                file = sys.stderr
            drawing = self._drawing = _Drawing(
                partial(
                    self._bar_class, desc=description, unit=unit,
                    file=None if file is None else _QuietFile(file, self._give_up), mininterval=0,
                    leave=True,
                ),
                self._give_up,
            )
            drawing.start()
        if work is None:
            drawing.draw(self._latest, self._total, self._text())
        else:
            text = "; ".join(filter(None, (work.text, self._text())))
            drawing.draw(round(work.count), None, text)

    def _text(self) -> str:
        """Return what runs and what failed: ``load ×2, clean; 1 failed``."""
        often = Counter(
            run.task_name(i) for (number, i), run in self._running.copy().items()
            if number in self._runs
        )
        first = itertools.islice(self._calls.copy().values(), _CALLS)
        often.update(task_name(call.task) for call in first if call.is_running)
        names = [
            _short(name) + (f" ×{times}" if times > 1 else "")
            for name, times in often.most_common(_FUNCTIONS)
        ]
        running = ", ".join(names) + (", …" if len(often) > _FUNCTIONS else "")
        failed = f"{len(self._failed)} failed" if self._failed else ""
        return "; ".join(filter(None, (running, failed)))

    def _finish(self) -> None:
        with self._lock:
            if self._drawing or (
                (self._total or self._work) and self._now() >= self._next_drawing
            ):
                self._latest = max(self._latest, next(self._done) - 1)
                self._draw()
                self._closed = self._drawing
                if self._closed is not None:  # else it has failed just now
                    self._closed.close()
                self._clear()  # or the end of the block would draw it again
        if self._closed is not None:  # by this thread, or just now by another one
            self._closed.wait()


class _QuietFile:
    """A file for tqdm, whose errors are logged once, and after which nothing is written.

    tqdm writes with the lock taken that all bars of the program share, and lets an error pass
    without giving it back: every later bar would wait for ever.
    """

    def __init__(self, file: Any, give_up: Callable[[], None]) -> None:
        self._file = file
        self._give_up = give_up
        self._failed = False

    def __eq__(self, other: object) -> bool:  # tqdm asks whether it is standard error
        return self._file is other

    __hash__ = None  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        try:
            return getattr(self._file, name)
        except Exception as error:
            raise AttributeError(name) from error

    def write(self, text: str) -> None:
        self._try(lambda: self._file.write(text))

    def flush(self) -> None:
        self._try(lambda: self._file.flush())

    def _try(self, function: Callable[[], Any]) -> None:
        if self._failed:
            return
        try:
            function()
        except Exception as error:
            self._failed = True
            log(
                ERROR, "a progress bar can't be written, and is given up; results are not affected",
                error=error,
            )
            self._give_up()  # last: the end of the block waits for a bar until it is given up

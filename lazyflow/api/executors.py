"""`Executor`: the interface of `concurrent.futures` on any scheduler.

On threads an executor has threads of its own, as the standard library's has; elsewhere the
workers of the scheduler make its calls.

A call that is submitted waits here until fewer than ``num_workers`` are under way, so that it can
be cancelled until it begins. On processes, calls that are known to be short go together in a
parcel, as many as take a few milliseconds: see schedulers/processes/worker/parcels.py.

Threads of the executor start the waiting calls and open their results; the thread that receives a
number or a text hands it on itself. Done-callbacks run in the executor's threads, of which one is
always free: a callback may wait for another future of the executor.

State of `SentCalls`, under its ``_lock`` but for `_steps` and `_paces`::

    _waiting :: deque of _Waiting      not sent; those that come back go first
    _under_way :: {_Sent}              calls that were sent together, at most as many as `_limit`
    _steps :: SimpleQueue              what the threads do next; None, or a reference to the
                                       executor that is gone, ends one
    _threads :: {Thread}               one more is started when all are in callbacks
    _in_callbacks :: int
    _paces :: {pickled function: seconds of a call}    which calls are short enough for a parcel
    _is_shut :: bool, broken :: str    take no more calls; why the initializer has failed
"""

from __future__ import annotations

import concurrent.futures
import marshal
import operator
import sys
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextvars import copy_context
from functools import partial
from itertools import islice
from queue import SimpleQueue
from types import CodeType
from typing import Any

from lazyflow import config
from lazyflow.api import call_threads
from lazyflow.api.call_threads import (
    AnyFuture,
    Call,
    CallThreads,
    cancel_all,
    fail_all,
    failed_start,
    start_thread,
)
from lazyflow.api.decorator import delayed
from lazyflow.api.evaluate import (
    RunOptions,
    SchedulerLike,
    always_observers,
    compute,
    observers,
    scheduler_or_default,
    start_background,
)
from lazyflow.api.futures import Future
from lazyflow.clock import NEVER, Deadline
from lazyflow.errors import WorkerDied
from lazyflow.finalizers import Gone, gone
from lazyflow.graph.plan import make_plan
from lazyflow.graph.task import Task, function_name
from lazyflow.recent import Recent
from lazyflow.schedulers.core.errors.words import call_words
from lazyflow.schedulers.core.future import TaskFuture
from lazyflow.schedulers.core.task_resources import scheduler_here
from lazyflow.schedulers.processes.worker.parcels import (
    FAILED,
    NOT_STARTED,
    PLAIN,
    LargeResult,
    begin_here,
    run_parcel,
)
from lazyflow.schedulers.registry import scheduler_named
from lazyflow.schedulers.remote.calls import error_of, is_plain, unreadable_result
from lazyflow.store.pickling.functions import FunctionCache, pack_function
from lazyflow.store.pickling.pickler import Pickler
from lazyflow.store.pickling.serialize import Encoded, decode
from lazyflow.store.pickling.unpicklable import dump

# -- calls that a scheduler runs ---------------------------------------------------------------


_WORK = 0.003  # seconds of calls in a parcel; a guess
_LARGE = 1 << 16  # bytes of arguments from which a call goes by itself; a guess
_LARGEST = 60_000  # bytes of a parcel; a guess
_MARSHAL = 2  # its version: later ones look for repeated objects, as in processes/protocol.py


class ExecutorFuture(concurrent.futures.Future[Any]):
    """The future of a call: its callbacks are called by the executor's threads.

    made_at
        The code that submitted it, and the offset in it.
    """

    _done_callbacks: list[Any]

    def __init__(self, calls: SentCalls, made_at: tuple[CodeType, int]) -> None:
        super().__init__()
        self._calls = calls
        self.made_at = made_at

    def _invoke_callbacks(self) -> None:
        call: Callable[[], None] = super()._invoke_callbacks  # type: ignore[misc]
        if self._done_callbacks and self._state == "FINISHED":
            self._calls.call_back(call)
        else:
            call()


def _made_there(task: Task, call: Call) -> Task:
    """Return a task as one made where its call was submitted, for errors."""
    future = call[0]
    assert isinstance(future, ExecutorFuture)
    for name, value in zip(("_code", "_lasti"), future.made_at, strict=True):
        object.__setattr__(task, name, value)  # lazy values refuse users' edits
    return task


class _Waiting:
    """A call that was not begun.

    packed
        Its function and arguments as bytes, or the arguments as they are, if it may go in a parcel.
    is_begun
        It can't be cancelled any more: it was under way before.
    is_alone
        It was in a parcel whose worker died: it goes by itself.
    """

    __slots__ = ("call", "function", "is_alone", "is_begun", "packed", "size")

    def __init__(self, call: Call) -> None:
        self.call = call
        self.is_alone = self.is_begun = False
        self.function: bytes = b""
        self.packed: Any = None
        self.size = 0


class _Sent:
    """Calls that are under way together, by number: those that have no outcome yet."""

    __slots__ = ("functions", "inner", "is_done", "left", "many", "run")

    def __init__(self, calls: list[_Waiting]) -> None:
        self.left = dict(enumerate(calls))
        self.many = len(calls) > 1
        self.functions: list[bytes] = []
        self.is_done = False  # its task has ended; a report may yet come
        self.inner: TaskFuture | None = None
        self.run: Any = None


class SentCalls:
    """The calls of an executor, those that wait and those under way.

    Parameters
    ----------
    options
        Where calls run.
    most
        How many of them at once; None: as many as the workers of the engine run.
    initializer, initargs
        A function that each worker calls first, and its arguments.
    """

    def __init__(
        self,
        options: RunOptions,
        most: int | None,
        initializer: Callable[..., object] | None,
        initargs: tuple[Any, ...],
    ) -> None:
        self._options = options
        self._most = most
        self._start = None if initializer is None else packed_start(initializer, initargs)
        self._divide_late = getattr(options.scheduler, "divide_late", None)
        self._functions = FunctionCache(pack_function)
        self._paces: Recent[bytes, float] = Recent(256)  # seconds of a call, by function
        self._is_shut = False
        self.broken = ""
        self.executor_gone: Gone | None = None  # held for its callback
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[_Waiting] = deque()
        self._under_way: set[_Sent] = set()
        self._steps: SimpleQueue[Callable[[], object] | Gone | None] = SimpleQueue()
        self.end_later = self._steps.put
        self._threads: set[threading.Thread] = set()
        self._in_callbacks = 0

    # -- in ---------------------------------------------------------------------------------

    def submit(self, call: Call) -> None:
        """Have a call made."""
        waiting = _Waiting(call)
        if self._divide_late is not None:
            self._pack(waiting)
        with self._lock:
            if self.broken:
                raise concurrent.futures.BrokenExecutor(self.broken)
            if self._is_shut or call_threads.python_ends:
                raise RuntimeError(call_threads.SHUT)
            self._waiting.append(waiting)
            if not self._threads:
                self._add_thread()
            has_room = len(self._under_way) < self._limit()
        if has_room:
            self.start_waiting()

    def _limit(self) -> int:
        """Return how many calls, or parcels, may be under way."""
        width = getattr(self._options.scheduler, "width", None)
        return self._most or (sys.maxsize if width is None else width())

    def _pack(self, waiting: _Waiting) -> None:
        """Pack a call, in the caller's thread, unless it can't be or is large: then a task is."""
        _, _, function, args, kwargs = waiting.call
        try:
            _, payload = self._functions.of(function)
            if not kwargs and is_plain(args):
                packed: Any = args
                size = 64 + sum([len(a) for a in args if a.__class__ in (str, bytes)])
            else:
                pickler = Pickler(_LARGE)
                dump((args, kwargs), pickler)
                if pickler.buffers or pickler.handles:
                    return
                packed = b"".join(pickler.pieces)
                size = len(packed)
        except Exception:
            return  # it fails again as a task, with an error that says what it is
        if size + len(payload) < _LARGEST:
            waiting.function, waiting.packed, waiting.size = payload, packed, size

    # -- out --------------------------------------------------------------------------------

    def start_waiting(self) -> None:
        """Start calls while there is room."""
        while True:
            with self._lock:
                sent = self._next()
            if sent is None:
                return
            self._send(sent)

    def _next(self) -> _Sent | None:
        """Take out the calls that go next, together."""
        waiting = self._waiting
        if len(self._under_way) >= self._limit():
            return None
        calls: list[_Waiting] = []
        seconds, size, share = 0.0, 0, 0
        while waiting:
            first = waiting[0]
            waiting.popleft()
            if not first.is_begun and not first.call[0].set_running_or_notify_cancel():
                continue
            first.is_begun = True
            calls.append(first)
            share = share or self._share(first, len(waiting) + 1)
            seconds += self._paces.get(first.function) or _WORK
            size += first.size + len(first.function)
            if len(calls) >= share or seconds >= _WORK or size > _LARGEST // 2:
                break
            if not self._goes_with(waiting, calls[0]):
                break
        if not calls:
            return None
        sent = _Sent(calls)
        self._under_way.add(sent)
        return sent

    def _share(self, first: _Waiting, count: int) -> int:
        """Return how many calls may go together when `count` wait."""
        if first.is_alone or first.packed is None or not config.get("crash_retries"):
            return 1
        return -(-count // (self._most or 1))

    def _goes_with(self, waiting: deque[_Waiting], first: _Waiting) -> bool:
        """Tell whether the next call that waits may go with another: it is short, as far as known.
        """
        if not waiting:
            return False
        then = waiting[0]
        return (
            then.packed is not None and not then.is_alone
            and self._paces.get(then.function) is not None and then.call[1] == first.call[1]
        )

    def _send(self, sent: _Sent) -> None:
        first = sent.left[0]
        _, context, function, args, kwargs = first.call
        name = function_name(function)
        try:
            if first.packed is not None:
                # Only one call may run again after a death of its worker: the others have run.
                retries = 0 if sent.many else None
                name = f"{name} x {len(sent.left)}" if sent.many else name
                lazy: Callable[[Any], Task] = delayed(
                    run_parcel, name=name, crash_retries=retries, traverse=False
                )
                task = lazy(self._parcel(sent))
            else:
                call = _SubmittedCall(self._start, function, args, kwargs)
                lazy = delayed(_outcome, name=name, traverse=False)
                task = lazy(call)
            plan = make_plan([_made_there(task, first.call)], False)
            sent.run, inners = context.copy().run(start_background, plan, self._options)
        except BaseException as error:
            self._fail(sent, error)
            if isinstance(error, Exception):
                return
            raise  # Ctrl-C is the caller's, too
        sent.inner = inners[0]
        sent.inner.add_callback(partial(self._told, sent))
        if sent.many:
            self._divide_late(sent.run, partial(self._divided, sent))  # type: ignore[misc]

    def _parcel(self, sent: _Sent) -> bytes:
        numbers: dict[bytes, int] = {}
        records = [
            (numbers.setdefault(each.function, len(numbers)), each.packed)
            for each in sent.left.values()
        ]
        sent.functions = list(numbers)
        return marshal.dumps((self._start, sent.functions, records), _MARSHAL)

    # -- back -------------------------------------------------------------------------------

    def _told(self, sent: _Sent, inner: TaskFuture) -> None:
        """Take the end of a task, in the thread that heard of it."""
        value = None if inner.is_elsewhere() else inner.local_outcome()[0]
        if type(value) is bytes:
            self._take(sent, value)
            sent.is_done = True
            self._settle(sent)
        else:
            self._steps.put(partial(self._open, sent, inner))

    def _divided(self, sent: _Sent, report: bytes | None) -> None:
        """Take the report of a parcel that takes long; None: there will be none."""
        if report:
            self._take(sent, report)
        elif report is None and sent.is_done:
            self._send_again(sent)
        self._settle(sent)

    def _take(self, sent: _Sent, report: bytes) -> None:
        """Take outcomes; queue calls again that were given back. Runs no code of the user's."""
        outcomes, back, times = marshal.loads(report)
        for f, (count, seconds) in times:
            function = sent.functions[f]
            known = self._paces.get(function)
            mean = seconds / count
            self._paces[function] = mean if known is None else (known + mean) / 2
        later = []
        for k, kind, content in outcomes:
            waiting = sent.left.pop(k, None)
            if waiting is None:
                continue
            if kind == PLAIN:
                waiting.call[0].set_result(content)
            else:
                later.append((waiting, kind, content))
        if later:
            self._steps.put(partial(self._open_each, later))
        if back:
            self._queue_again([sent.left.pop(k) for k in back if k in sent.left])

    def _settle(self, sent: _Sent) -> None:
        """Let others go on if a task has ended and all outcomes are there."""
        with self._lock:
            if sent.is_done and not sent.left:
                self._under_way.discard(sent)
            has_more = bool(self._waiting) or self._is_shut
        if has_more:
            self._steps.put(self.start_waiting)

    def _queue_again(self, calls: list[_Waiting], is_alone: bool = False) -> None:
        """Put calls back that have not begun; they stay those that can't be cancelled."""
        for each in calls:
            each.is_alone = each.is_alone or is_alone
        with self._lock:
            self._waiting.extendleft(reversed(calls))

    def _send_again(self, sent: _Sent) -> None:
        """Send the calls of a parcel again whose outcomes have died with the worker."""
        calls = list(sent.left.values())
        sent.left.clear()
        self._queue_again(calls, is_alone=True)

    # -- opened, by the executor's threads -----------------------------------------------------

    def _open(self, sent: _Sent, inner: TaskFuture) -> None:
        """Open the result of a task, or take its error."""
        value: Any = None
        error: BaseException | None = None
        try:
            value = Future(inner).result()
        except BaseException as caught:
            error = caught
        if isinstance(error, WorkerDied) and sent.many:
            self._send_again(sent)
        elif error is not None:
            self._fail(sent, error)
        elif type(value) is LargeResult:
            large = sent.left.pop(value.number, None)
            self._take(sent, value.rest)
            if large is not None:
                large.call[0].set_result(value.value)
        elif type(value) is _Result:
            sent.left.pop(0).call[0].set_result(value.value)
        elif type(value) is _NotStarted:
            self._not_started(sent.left.pop(0), value.words)
        sent.is_done = True
        self._settle(sent)

    def _open_each(self, outcomes: list[tuple[_Waiting, int, Any]]) -> None:
        for waiting, kind, content in outcomes:
            future, _, function, args, kwargs = waiting.call
            if kind == NOT_STARTED:
                self._not_started(waiting, content)
                continue
            try:
                if kind == FAILED:
                    task = delayed(function, traverse=False)(*args, **kwargs)
                    _made_there(task, waiting.call)
                    future.set_exception(error_of(task, content, call_words(args, kwargs)))
                    continue
                value = decode(Encoded(content), bytearray)
            except BaseException as error:
                future.set_exception(unreadable_result(error))
            else:
                future.set_result(value)

    def _not_started(self, waiting: _Waiting, words: str) -> None:
        words = failed_start(words)
        with self._lock:
            self.broken = self.broken or words
            dropped = tuple(self._waiting)
            self._waiting.clear()
        waiting.call[0].set_exception(concurrent.futures.BrokenExecutor(words))
        fail_all([each.call[0] for each in dropped], words)

    def _fail(self, sent: _Sent, error: BaseException) -> None:
        for waiting in sent.left.values():
            waiting.call[0].set_exception(error)
        sent.left.clear()
        sent.is_done = True
        self._settle(sent)

    # -- the threads --------------------------------------------------------------------------

    def call_back(self, call: Callable[[], object]) -> None:
        """Have the callbacks of a future called."""
        self._steps.put(partial(self._call_back, call))

    def _call_back(self, call: Callable[[], object]) -> None:
        with self._lock:
            self._in_callbacks += 1
            if self._in_callbacks == len(self._threads):
                self._add_thread()
        try:
            call()
        finally:
            with self._lock:
                self._in_callbacks -= 1

    def _add_thread(self) -> None:
        start_thread(self, self._threads, self._serve)

    def _serve(self) -> None:
        """Take one step after the other; the life of a thread."""
        me = threading.current_thread()
        steps = self._steps
        while True:
            step = steps.get()
            is_end = step is None or isinstance(step, Gone)
            if not is_end:
                step()  # type: ignore[misc]
            del step
            with self._lock:
                self._is_shut = self._is_shut or is_end
                is_over = self._is_shut and not self._waiting and not self._under_way
                if is_over and steps.empty():
                    self._threads.discard(me)
                    if not self._threads:
                        call_threads.busy.discard(self)
                    else:
                        steps.put(None)  # for the next one
                    return

    # -- the end ------------------------------------------------------------------------------

    def shut(self, cancels: bool) -> None:
        """Take no more calls; the threads end after those that are there."""
        with self._lock:
            self._is_shut = True
            dropped = [each for each in self._waiting if cancels and not each.is_begun]
            for each in dropped:
                self._waiting.remove(each)
            self._steps.put(None)
        cancel_all([each.call[0] for each in dropped])

    def join(self, deadline: Deadline = NEVER) -> int:
        """Wait for the end of the threads; return how many calls are left at the deadline."""
        while self._threads:  # there may be more, for callbacks
            thread = next(iter(self._threads))
            thread.join(deadline.left())
            if deadline.is_over():
                break
        return len(self._pending())

    def _pending(self) -> list[AnyFuture]:
        under_way = [each for sent in tuple(self._under_way) for each in sent.left.values()]
        return [each.call[0] for each in (*under_way, *self._waiting)]

    def futures_lost(self) -> list[AnyFuture]:
        """In the child of a fork: start anew; return the futures of calls of the parent's."""
        futures = self._pending()
        for sent in self._under_way:
            sent.left.clear()  # of whose end this process may yet hear
        self._begin()
        return futures


# -- calls that are tasks by themselves, and the functions that workers call ----------------


class _SubmittedCall:
    """A call, into whose arguments lazyflow does not look."""

    __slots__ = ("args", "function", "kwargs", "start")

    def __init__(
        self,
        start: bytes | None,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self.start = start
        self.function = function
        self.args = args
        self.kwargs = kwargs


class _Result:
    """A result, which lazyflow hands on as it is."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class _NotStarted:
    """The result of a call in a worker whose initializer has failed."""

    __slots__ = ("words",)

    def __init__(self, words: str) -> None:
        self.words = words


def packed_start(function: Callable[..., object], args: tuple[Any, ...]) -> bytes:
    """Return an initializer as bytes, by which workers know that they have called it."""
    pickler = Pickler(sys.maxsize)
    dump((uuid.uuid4().hex, function, args), pickler)
    return b"".join(pickler.pieces)


def _outcome(call: _SubmittedCall) -> _Result | _NotStarted:
    words = begin_here(call.start) if call.start is not None else None
    if words is not None:
        return _NotStarted(words)
    return _Result(call.function(*call.args, **call.kwargs))


# -- `Executor` --------------------------------------------------------------------------------


class Executor(concurrent.futures.Executor):
    """A `concurrent.futures.Executor` on threads, processes, ``distributed`` or Ray.

    On threads it has threads of its own, so that a call may wait for those of another executor.
    Elsewhere its workers are lazyflow's, and stay warm for the next one. Calls see the context
    variables of their `submit`. Lazy values and futures among the arguments are not replaced by
    their values.

    A worker process that dies is replaced. Its call runs again as often as ``crash_retries`` of
    ``lazyflow.config`` says, then fails with `lazyflow.WorkerDied`; nothing else fails. Short calls
    of one function go to a process together; when it dies, those that had not been answered run
    again one by one. With ``crash_retries=0``, for calls that must not run twice, each goes by
    itself.

    Parameters
    ----------
    scheduler
        As for `lazyflow.compute`.
    num_workers
        How many calls run at once. By default as many as there are cores; on clusters as many as
        their workers run.
    initializer, initargs
        A function, and its arguments, that each worker calls before its first call for this
        executor. If it fails, all calls fail with `concurrent.futures.BrokenExecutor`.

    Raises
    ------
    TypeError
        `initializer` is not callable, or `scheduler` is not a scheduler.
    ValueError
        `num_workers` is not a whole number, 1 or more, or the scheduler is unknown.

    Examples
    --------
    >>> import lazyflow
    >>> with lazyflow.Executor(num_workers=2) as executor:
    ...     list(executor.map(pow, [1, 2, 3], [2, 2, 2]))
    [1, 4, 9]
    """

    def __init__(
        self,
        scheduler: SchedulerLike | None = None,
        num_workers: int | None = None,
        *,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
    ) -> None:
        if initializer is not None and not callable(initializer):
            raise TypeError(f"initializer must be a function or None; got {initializer!r:.100}")
        chosen = scheduler_or_default(scheduler)
        options = RunOptions("Executor", {}, chosen, num_workers)
        most = options.num_workers
        if most is None and chosen.name in ("threads", "processes"):
            most = config.get("num_workers") or config.default_workers()
        self._calls: CallThreads | SentCalls
        if chosen.name == "threads":
            assert most is not None
            self._calls = CallThreads(most, initializer, initargs)
        else:
            self._calls = SentCalls(options, most, initializer, initargs)
        self._words = f"on {chosen.name}" + (f", {most} workers" if most else "")
        self._calls.executor_gone = gone(self, self._calls.end_later)

    def __repr__(self) -> str:
        return f"<lazyflow.Executor {self._words}>"

    def submit(
        self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> concurrent.futures.Future[Any]:
        """Have ``fn(*args, **kwargs)`` called; return the future of its result.

        Raises
        ------
        RuntimeError
            The executor was shut down.
        BrokenExecutor
            The initializer has failed in a worker.

        Examples
        --------
        >>> import lazyflow
        >>> with lazyflow.Executor() as executor:
        ...     executor.submit(divmod, 17, 5).result()
        (3, 2)
        """
        future: AnyFuture
        if type(self._calls) is SentCalls:
            future = ExecutorFuture(self._calls, _users_line())
        else:
            future = concurrent.futures.Future()
            if always_observers or observers.get():
                fn = partial(_observed, fn)
        self._calls.submit((future, copy_context(), fn, args, kwargs))
        return future

    def map(
        self,
        fn: Callable[..., Any],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
    ) -> Iterator[Any]:
        """Call a function for every item, at once; return an iterator of the results, in order.

        Parameters
        ----------
        fn, *iterables
            As for the builtin `map`.
        timeout
            Seconds from now after which the iterator raises TimeoutError.
        chunksize
            How many calls are sent together; an error in one is that of its whole chunk.
        buffersize
            At most so many chunks are submitted before the iterator takes the oldest one's
            results; so iterables may be endless. None: all are.

        Raises
        ------
        ValueError
            `chunksize` or `buffersize` is less than 1.
        RuntimeError, BrokenExecutor
            As `submit`.

        Examples
        --------
        >>> import itertools, lazyflow
        >>> with lazyflow.Executor() as executor:
        ...     squares = executor.map(pow, itertools.count(), itertools.repeat(2), buffersize=4)
        ...     list(itertools.islice(squares, 3))
        [0, 1, 4]
        """
        for name, number in (("chunksize", chunksize), ("buffersize", buffersize)):
            if number is not None and operator.index(number) < 1:
                raise ValueError(f"{name} must be 1 or more; got {number!r}")
        deadline = Deadline(timeout)
        items = zip(*iterables, strict=False)
        if chunksize == 1:
            sent = (self.submit(fn, *item) for item in items)
            return _results(deque(islice(sent, buffersize)), sent, deadline)
        chunks = iter(lambda: list(islice(items, chunksize)), [])
        sent = (self.submit(_call_each, fn, chunk) for chunk in chunks)
        return _each_of(_results(deque(islice(sent, buffersize)), sent, deadline))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls.

        Parameters
        ----------
        wait
            Whether to return when all calls have ended.
        cancel_futures
            Whether to cancel the calls that have not begun.

        Examples
        --------
        >>> import lazyflow
        >>> lazyflow.Executor().shutdown()
        """
        self._calls.shut(cancel_futures)
        if wait:
            self._calls.join()


def _users_line() -> tuple[CodeType, int]:
    """Return the code that calls an executor, and the offset in it."""
    frame = sys._getframe(2)
    while frame.f_globals is globals() and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code, frame.f_lasti


def _observed(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Make a call on threads as a task that observers of this context hear of."""
    box: list[Any] = []

    def call() -> None:
        scheduler_here.set(scheduler_named("threads"))
        box.append(function(*args, **kwargs))

    compute(delayed(call, name=function_name(function))(), scheduler="sync")
    return box.pop()


def _results(
    futures: deque[concurrent.futures.Future[Any]],
    more: Iterator[concurrent.futures.Future[Any]],
    deadline: Deadline,
) -> Iterator[Any]:
    try:
        while futures:
            value = [futures[0].result(deadline.left())]
            futures.popleft()
            futures.extend(islice(more, 1))
            yield value.pop()  # and keep none
    finally:
        for future in futures:
            future.cancel()


def _each_of(chunks: Iterator[list[Any]]) -> Iterator[Any]:
    for values in chunks:
        values.reverse()
        while values:
            yield values.pop()


def _call_each(function: Callable[..., Any], items: list[tuple[Any, ...]]) -> list[Any]:
    return [function(*item) for item in items]

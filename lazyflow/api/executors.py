"""`Executor`: the interface of `concurrent.futures` on any scheduler.

A call that is submitted waits here until fewer than ``num_workers`` run, so that it can be
cancelled until it begins. While calls are on their way, one thread of the executor gets their
results and starts the next ones.
"""

from __future__ import annotations

import concurrent.futures
import operator
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from queue import SimpleQueue
from typing import Any

from lazyflow import config
from lazyflow.api.decorator import delayed
from lazyflow.api.evaluate import RunOptions, SchedulerLike, scheduler_or_default
from lazyflow.api.futures import Future, started
from lazyflow.errors import Cancelled
from lazyflow.graph.task import function_name
from lazyflow.interrupts import uninterrupted
from lazyflow.system import at_fork

_Waiting = tuple["concurrent.futures.Future[Any]", "_SubmittedCall"]


class Executor(concurrent.futures.Executor):
    """A `concurrent.futures.Executor` on threads, processes, ``distributed`` or Ray.

    Its workers are lazyflow's, and stay warm for the next one. Functions and arguments are taken
    as they are: lazy values and futures among them are not looked for. A worker process that dies
    fails the calls that it ran, by `lazyflow.WorkerDied`, is replaced, and breaks nothing else.

    Parameters
    ----------
    scheduler
        As for `lazyflow.compute`.
    num_workers
        How many calls run at once. By default as many as there are cores, and on clusters as
        many as the cluster runs.
    initializer, initargs
        A function, and its arguments, that each worker calls before its first call for this
        executor. If it fails, all calls fail by `concurrent.futures.BrokenExecutor`.

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
        found = scheduler_or_default(scheduler)
        self._options = RunOptions("Executor", {}, found, num_workers)
        self._most = num_workers
        if num_workers is None and found.name in ("threads", "processes"):
            self._most = config.get("num_workers") or config.default_workers()
        self._start = _Start(initializer, initargs) if initializer is not None else None
        self._begin()
        self._is_shut = False
        self._broken = ""

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[_Waiting] = deque()
        self._running: set[concurrent.futures.Future[Any]] = set()
        self._ended: SimpleQueue[Any] = SimpleQueue()
        self._thread: threading.Thread | None = None

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
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        with self._lock:
            if self._broken:
                raise concurrent.futures.BrokenExecutor(self._broken)
            if self._is_shut:
                raise RuntimeError(
                    "cannot schedule new futures after shutdown; make another lazyflow.Executor, "
                    "which costs nothing: the workers are still there"
                )
            self._waiting.append((future, _SubmittedCall(self._start, fn, args, kwargs)))
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._serve, name="lazyflow-executor", daemon=True
                )
                _busy.add(self)
                uninterrupted(self._thread.start)
        self._start_waiting()
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
        deadline = None if timeout is None else time.monotonic() + timeout
        items = zip(*iterables, strict=False)
        chunks = iter(lambda: list(islice(items, chunksize)), [])
        sent = (self.submit(_call_each, fn, chunk) for chunk in chunks)
        return _results(deque(islice(sent, buffersize)), sent, deadline)

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
        with self._lock:
            self._is_shut = True
            dropped = tuple(self._waiting) if cancel_futures else ()
            if cancel_futures:
                self._waiting.clear()
            thread = self._thread
            if thread is not None:
                self._ended.put(None)  # there may be nothing left to wait for
        for future, _ in dropped:
            future.cancel()
            future.set_running_or_notify_cancel()
        if wait and thread is not None:
            thread.join()

    # -- calls on their way -----------------------------------------------------------------

    def _start_waiting(self) -> None:
        """Start calls while there is room."""
        while True:
            with self._lock:
                if not self._waiting or (self._most and len(self._running) >= self._most):
                    return
                future, call = self._waiting.popleft()
                self._running.add(future)
            if not future.set_running_or_notify_cancel():
                self._ended.put((future, None))
                continue
            task = delayed(_outcome, name=function_name(call.function), traverse=False)(call)
            try:
                ours = started([task], self._options)[0]
            except BaseException as error:
                self._ended.put((future, error))
                if isinstance(error, Exception):
                    continue
                raise  # Ctrl-C is the caller's, too
            ended = self._ended  # in the child of a fork, there is another one
            ours._inner.add_callback(partial(_tell, ended, future, ours))

    def _serve(self) -> None:
        """Hand on results and start the next calls, until there is none."""
        while True:
            ended = self._ended.get()
            if ended is not None:
                future, ours = ended
                if ours is not None:  # else it was cancelled
                    self._hand_on(future, ours)
                with self._lock:
                    self._running.discard(future)
                del future, ours
                self._start_waiting()
            del ended
            with self._lock:
                if not self._waiting and not self._running:
                    self._thread = None
                    _busy.discard(self)
                    return

    def _hand_on(
        self, future: concurrent.futures.Future[Any], ours: Future | BaseException
    ) -> None:
        error = ours if isinstance(ours, BaseException) else _error_of(ours)
        if error is not None:
            future.set_exception(error)
            return
        assert isinstance(ours, Future)
        outcome = ours.result()
        if isinstance(outcome, _Result):
            future.set_result(outcome.value)
            return
        self._break(f"the initializer of the executor has failed in a worker: {outcome.words}")
        future.set_exception(concurrent.futures.BrokenExecutor(self._broken))

    def _break(self, words: str) -> None:
        with self._lock:
            self._broken = self._broken or words
            dropped = tuple(self._waiting)
            self._waiting.clear()
        for future, _ in dropped:
            if future.set_running_or_notify_cancel():
                future.set_exception(concurrent.futures.BrokenExecutor(words))


def _tell(
    ended: SimpleQueue[Any], future: concurrent.futures.Future[Any], ours: Future, _: Any
) -> None:
    ended.put((future, ours))


def _error_of(ours: Future) -> BaseException | None:
    try:
        return ours.exception()
    except Exception as error:  # it was cancelled, or its value can't be had
        return error


def _results(
    futures: deque[concurrent.futures.Future[Any]],
    more: Iterator[concurrent.futures.Future[Any]],
    deadline: float | None,
) -> Iterator[Any]:
    try:
        while futures:
            left = None if deadline is None else deadline - time.monotonic()
            values = futures[0].result(left)
            futures.popleft()
            futures.extend(islice(more, 1))
            values.reverse()
            while values:
                yield values.pop()  # and keep none
    finally:
        for future in futures:
            future.cancel()


# -- executors that have calls on their way, when the program ends --------------------------

_busy: set[Executor] = set()


def _finish() -> None:
    limit = config.get("exit_timeout")
    deadline = None if limit is None else time.monotonic() + limit
    for executor in tuple(_busy):
        thread = executor._thread
        if thread is not None:
            thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))


def _after_fork() -> None:
    """In the child of a fork, end the calls on their way: their threads are the parent's."""
    for executor in tuple(_busy):
        futures = [*executor._running, *(future for future, _ in executor._waiting)]
        executor._begin()
        for future in futures:
            if not future.done():
                future.set_exception(Cancelled(
                    "this process is the child of a fork, and the call that was submitted to an "
                    "Executor before is its parent's. Submit it again here."
                ))
    _busy.clear()


at_fork(after_in_child=_after_fork)

# Before those of `lazyflow.schedulers.core.unfinished`, which was imported earlier.
threading._register_atexit(_finish)  # type: ignore[attr-defined]


# -- what workers get -----------------------------------------------------------------------


class _Start:
    """The initializer of an executor, and a name by which workers know that they have called it."""

    __slots__ = ("args", "function", "name")

    def __init__(self, function: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.name = uuid.uuid4().hex
        self.function = function
        self.args = args


class _SubmittedCall:
    """A call, into whose arguments lazyflow does not look."""

    __slots__ = ("args", "function", "kwargs", "start")

    def __init__(
        self,
        start: _Start | None,
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
    """What a worker says in which the initializer has failed."""

    __slots__ = ("words",)

    def __init__(self, words: str) -> None:
        self.words = words


_here = threading.local()


def _outcome(call: _SubmittedCall) -> _Result | _NotStarted:
    start = call.start
    if start is not None:
        known = _here.__dict__.setdefault("started", set())
        if start.name not in known:
            try:
                start.function(*start.args)
            except Exception as error:
                return _NotStarted(f"{type(error).__name__}: {error}")
            known.add(start.name)
    return _Result(call.function(*call.args, **call.kwargs))


def _call_each(function: Callable[..., Any], items: list[tuple[Any, ...]]) -> list[Any]:
    return [function(*item) for item in items]

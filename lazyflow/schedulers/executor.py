"""Runs plans on any `concurrent.futures.Executor` that the user brings.

On a ThreadPoolExecutor (and subclasses) threads of the pool work on a run as our own do. On
any other executor each task is submitted by itself, with its function pickled by cloudpickle in
case the executor pickles at all; results come back through the caller's process.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from concurrent.futures import Future as TheirFuture
from contextlib import contextmanager
from typing import Any

from lazyflow import config
from lazyflow.graph.items import check_length
from lazyflow.schedulers import careful
from lazyflow.schedulers.base import Worker
from lazyflow.schedulers.failures import dressed
from lazyflow.schedulers.run import Run, here
from lazyflow.schedulers.threads import default_workers


def _width(executor: Executor, run: Run) -> int:
    asked = run.request.num_workers or config.get("num_workers")
    return int(asked or getattr(executor, "_max_workers", None) or default_workers())


class _Base:
    """What both kinds share: the wait, which is a plain sleep."""

    options: frozenset[str] = frozenset({"priority"})

    def __init__(self, executor: Executor) -> None:
        self._executor = weakref.ref(executor)
        self.name = type(executor).__name__

    @property
    def executor(self) -> Executor:
        executor = self._executor()
        if executor is None:
            raise RuntimeError(f"the {self.name} that this run was started on is gone")
        return executor

    def wait(self, run: Run, timeout: float | None) -> bool:
        return run.wait(timeout)

    def abandon(self, run: Run) -> None:
        """Tasks that run are the executor's; their results are ignored."""


class _Share:
    """What a run, and the runs that its tasks turned into, may use of an executor.

    seats
        One entry for each task that may be running beyond those that are.
    runs
        Runs to look at for ready tasks, the newest last; an entry may be out of date.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.seats: list[None] = [None] * width
        self.runs: deque[Run] = deque()


class ThreadExecutorScheduler(_Base):
    """Threads of a ThreadPoolExecutor, each working on a run until nothing of it is ready."""

    def start(self, run: Run) -> None:
        run.attached = _Share(_width(self.executor, run))
        run.begin()

    def offer(self, run: Run, count: int) -> None:
        share: _Share = run.attached
        for _ in range(min(count, share.width)):
            share.runs.append(run)
            try:
                share.seats.pop()
            except IndexError:  # a thread that has a seat will look once more before it leaves
                return
            try:
                self.executor.submit(self._work, share)
            except RuntimeError as error:  # it was shut down
                run.cancel(error)

    def _work(self, share: _Share) -> None:
        worker = Worker(threading.current_thread().name)
        while True:
            try:
                run = share.runs.pop()
            except IndexError:
                share.seats.append(None)
                if not share.runs:
                    return
                try:
                    share.seats.pop()
                except IndexError:
                    return
                continue
            while run.ready:
                run.context.copy().run(run.work, worker)

    def wait(self, run: Run, timeout: float | None) -> bool:
        """Sleep; inside a task of this executor, work on the run first."""
        me = here.worker
        if me is None or me.run is None or me.run.scheduler is not self:
            return run.wait(timeout)
        if timeout is None and not run.over and run.ready:
            run.context.copy().run(run.work, me)
        with self.blocked(me):
            return run.wait(timeout)

    @contextmanager
    def blocked(self, me: Worker) -> Iterator[None]:
        """Give what is queued behind us a thread of its own while this one sleeps in a task.

        The executor has no spare threads to give, and without one a task that waits for
        queued work would wait for ever.
        """
        spare = ThreadPoolExecutor(1, thread_name_prefix="lazyflow-spare")
        try:
            queue = getattr(self.executor, "_work_queue", None)
            if queue is not None and not queue.empty():
                spare.submit(_run_queued, queue)
            yield
        finally:
            spare.shutdown(wait=False)


def _run_queued(queue: Any) -> None:
    """Run what waits in a ThreadPoolExecutor's queue, in its stead."""
    from queue import Empty

    while True:
        try:
            item = queue.get_nowait()
        except Empty:
            return
        if item is None:  # the executor's own sign to end: put it back
            queue.put(None)
            return
        item.run()


class _Portable:
    """A call that can be sent anywhere: pickled by cloudpickle, if it is pickled at all."""

    def __init__(self, func: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> None:
        self.call = (func, args, kwargs)

    def __call__(self) -> Any:
        func, args, kwargs = self.call
        try:
            return func(*args, **kwargs)
        except Exception:
            raise
        except BaseException as error:  # would end the worker
            return _Raised(error)

    def __reduce__(self) -> tuple[Any, ...]:
        import cloudpickle

        return _portable_again, (cloudpickle.dumps(self.call),)


def _portable_again(data: bytes) -> _Portable:
    import pickle

    return _Portable(*pickle.loads(data))


class _Raised:
    def __init__(self, error: BaseException) -> None:
        self.error = error


class ExecutorScheduler(_Base):
    """Any executor, a task at a time."""

    def start(self, run: Run) -> None:
        run.attached = _Share(_width(self.executor, run))
        run.begin()

    def offer(self, run: Run, count: int) -> None:
        share: _Share = run.attached
        share.runs.append(run)
        self._pump(share)

    def _pump(self, share: _Share) -> None:
        """Submit ready tasks while there are seats."""
        while share.runs:
            try:
                share.seats.pop()
            except IndexError:
                return
            while True:
                try:
                    run = share.runs.pop()
                except IndexError:
                    share.seats.append(None)
                    break
                i = -1 if run.stop else run.take_ready()
                if i >= 0:
                    share.runs.append(run)
                    self._submit(run, i)
                    break

    def _submit(self, run: Run, i: int) -> None:
        given = careful.prepared(run, i)
        if given is None:  # an input failed, or nobody wants it any more
            run.attached.seats.append(None)
            run.deliver(i, None)
            return
        careful.tell(run, "task_started", i)
        there = Worker(self.name)  # nobody we know, but the task it has
        there.run, there.task = run, i
        run.inside.add(there)
        self._try(run, i, given, run.plan.tasks[i]._options.retries, there)

    def _try(self, run: Run, i: int, given: list[Any], retries: int, there: Worker) -> None:
        task = run.plan.tasks[i]
        try:
            if task._bind is not None:
                args, kwargs = task._bind.fill(given)
            else:
                args, kwargs = (given if task._inputs else list(task._args)), {}
            theirs = self.executor.submit(_Portable(task._func, args, kwargs))
        except BaseException as error:
            run.inside.discard(there)
            run.attached.seats.append(None)
            run.refuse(i, dressed(error, task, given))
            return
        theirs.add_done_callback(lambda f: self._done(run, i, given, retries, there, f))

    def _done(
        self,
        run: Run,
        i: int,
        given: list[Any],
        retries: int,
        there: Worker,
        theirs: TheirFuture[Any],
    ) -> None:
        error = theirs.exception() if not theirs.cancelled() else RuntimeError("cancelled")
        value = None if error is not None else theirs.result()
        if isinstance(value, _Raised):
            error = value.error
        task = run.plan.tasks[i]
        if error is None and task._options.nout is not None:
            try:
                check_length(value, task._options.nout, run.task_name(i))
            except ValueError as wrong:
                error = wrong
        if error is not None and retries and isinstance(error, Exception):
            self._try(run, i, given, retries - 1, there)
            return
        run.inside.discard(there)
        run.attached.seats.append(None)
        if error is not None:
            error = dressed(error, task, given)
            careful.tell(run, "task_failed", i, error)
            run.refuse(i, error)
        else:
            careful.tell(run, "task_ended", i)
            run.deliver(i, value)
        self._pump(run.attached)

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
from concurrent.futures import BrokenExecutor, Executor
from concurrent.futures import Future as TheirFuture
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from lazyflow import config
from lazyflow.errors import Cancelled, WorkerDied
from lazyflow.graph.items import check_length
from lazyflow.graph.task import call_arguments
from lazyflow.schedulers.core.base import Worker
from lazyflow.schedulers.core.current_worker import here
from lazyflow.schedulers.core.errors.failures import dressed
from lazyflow.schedulers.core.errors.records import rebuilt, record
from lazyflow.schedulers.core.run import Run
from lazyflow.schedulers.core.slots import Slots, SlotWorker
from lazyflow.schedulers.core.task_resources import as_worker


def _width(executor: Executor, run: Run) -> int:
    asked = run.request.num_workers or config.get("num_workers")
    return int(asked or getattr(executor, "_max_workers", None) or config.default_workers())


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


class _Share(Slots):
    """What a run, and the runs that its tasks turned into, may use of an executor.

    runs
        Runs to look at for ready tasks, the newest last; an entry may be out of date.
    pumping
        One entry, gone while somebody submits tasks.
    """

    __slots__ = ("pumping", "runs")

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.runs: deque[Run] = deque()
        self.pumping: list[None] = [None]


class _ExecutorThread(SlotWorker):
    """A thread of an executor while it works on runs."""

    __slots__ = ("scheduler",)

    def __init__(self, scheduler: ThreadExecutorScheduler) -> None:
        super().__init__(threading.current_thread().name)
        self.scheduler = scheduler

    def asleep(self) -> AbstractContextManager[None]:
        return self.scheduler.blocked(self)


class ThreadExecutorScheduler(_Base):
    """Threads of a ThreadPoolExecutor, each working on a run until nothing of it is ready.

    The executor has no thread to spare for what a sleeping one waits for. So as many threads of
    our own as sleep inside tasks take shares from the same list that the executor's take from.
    """

    def __init__(self, executor: Executor) -> None:
        super().__init__(executor)
        self._shares: deque[_Share] = deque()  # each with a slot taken, for a thread to work on
        self._lock = threading.Lock()  # for the two counts
        self._asleep = 0
        self._spares = 0

    def start(self, run: Run) -> None:
        run.attached = _Share(_width(self.executor, run))
        run.begin()

    def offer(self, run: Run, count: int) -> None:
        share: _Share = run.attached
        for _ in range(min(count, share.count)):
            share.runs.append(run)
            if not share.take():  # a thread that has a slot will look once more before it leaves
                return
            try:
                self._engage(share)
            except RuntimeError as error:  # it was shut down
                run.cancel(error)

    def _engage(self, share: _Share) -> None:
        self._shares.append(share)
        self.executor.submit(self._serve)
        if self._asleep:
            self._add_spare()

    def _serve(self) -> None:
        try:
            share = self._shares.popleft()
        except IndexError:  # a spare thread had it
            return
        self._work(share, _ExecutorThread(self))

    def _work(self, share: _Share, worker: _ExecutorThread) -> None:
        """Work on the runs of a share, with a slot that was taken, until none is ready."""
        while True:
            try:
                run = share.runs.pop()
            except IndexError:
                share.give()
                if not share.runs or not share.take():
                    return
                continue
            worker.serve(run)
            if run.ready:
                share.runs.append(run)
            if not share.take():  # the thread that has it will look at the runs
                return

    def wait(self, run: Run, timeout: float | None) -> bool:
        """Sleep; inside a task of this executor, work on the run first."""
        me = here.worker
        is_ours = isinstance(me, _ExecutorThread) and me.scheduler is self
        if is_ours and timeout is None and run.ready and run.attached.take():
            run.attached.runs.append(run)
            self._work(run.attached, me)  # type: ignore[arg-type]
        return run.over or run.wait(timeout)

    @contextmanager
    def blocked(self, me: _ExecutorThread) -> Iterator[None]:
        """While the thread sleeps inside a task, let others do what it would have done."""
        with self._lock:
            self._asleep += 1
        me.give_slots_back()
        for slot in me.slots:
            share: _Share = slot.run.attached
            if slot.run.ready:
                share.runs.append(slot.run)
            if share.runs and share.take():
                self._engage(share)
        self._add_spare()
        try:
            yield
        finally:
            with self._lock:
                self._asleep -= 1
            me.take_slots_again()

    def _add_spare(self) -> None:
        with self._lock:
            if not self._shares or self._spares >= self._asleep:
                return
            self._spares += 1
        threading.Thread(target=self._serve_spare, name="lazyflow-spare", daemon=True).start()

    def _serve_spare(self) -> None:
        while True:
            self._serve()
            with self._lock:
                if not self._shares or self._spares > self._asleep:
                    self._spares -= 1
                    return


class _Portable:
    """A call that can be sent anywhere: pickled by cloudpickle, if it is pickled at all."""

    def __init__(self, func: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> None:
        self.call = (func, args, kwargs)
        self.travelled = False

    def __call__(self) -> Any:
        func, args, kwargs = self.call
        try:
            with as_worker():
                return func(*args, **kwargs)
        except BaseException as error:
            if self.travelled:  # as it is, it might break the executor when it is unpickled
                return _Raised(record(error))
            if isinstance(error, Exception):
                raise
            return _Raised(error)  # raised, it would end the worker

    def __reduce__(self) -> tuple[Any, ...]:
        import cloudpickle

        return _portable_again, (cloudpickle.dumps(self.call),)


def _portable_again(data: bytes) -> _Portable:
    import pickle

    func, args, kwargs = pickle.loads(data)
    portable = _Portable(func, args, kwargs)
    portable.travelled = True
    return portable


class _Raised:
    """What a task raised, or the record of it."""

    def __init__(self, what: BaseException | tuple[Any, ...]) -> None:
        self.what = what

    def error(self) -> BaseException:
        return self.what if isinstance(self.what, BaseException) else rebuilt(self.what)


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
        """Submit ready tasks while slots are free.

        An executor that is done at once calls back from inside `submit`, and a task that need
        not run makes others ready at once: whoever is inside already goes on with those.
        """
        while share.runs and share.free:
            try:
                share.pumping.pop()
            except IndexError:
                return
            try:
                while share.runs and share.take():
                    self._submit_next(share)
            finally:
                share.pumping.append(None)

    def _submit_next(self, share: _Share) -> None:
        """Submit a ready task with a slot that was taken."""
        while True:
            try:
                run = share.runs.pop()
            except IndexError:
                share.give()
                return
            i = -1 if run.stop else run.take_ready()
            if i >= 0:
                share.runs.append(run)
                self._submit(run, i)
                return

    def _submit(self, run: Run, i: int) -> None:
        try:
            given = run.prepared(i)
        except BaseException as error:  # a value that can't be copied
            run.attached.give()
            run.refuse(i, dressed(error, run.plan.tasks[i], None))
            return
        if given is None:  # an input failed, or nobody wants it any more
            run.attached.give()
            run.deliver(i, None)
            return
        run.observers.task_started(run, i)
        there = Worker(self.name)  # nobody we know, but the task it has
        there.run, there.task = run, i
        run.inside.add(there)
        self._try(run, i, given, run.plan.tasks[i]._options.retries, there)

    def _try(self, run: Run, i: int, given: list[Any], retries: int, there: Worker) -> None:
        task = run.plan.tasks[i]
        try:
            args, kwargs = call_arguments(task, given)
            theirs = self.executor.submit(_Portable(task._func, args, kwargs))
        except BaseException as error:
            self._end_badly(run, i, error, given, there)
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
        value, error = _outcome(theirs)
        nout = run.plan.tasks[i]._options.nout
        if error is None and nout is not None:
            try:
                check_length(value, nout, run.task_name(i))
            except BaseException as wrong:
                error = wrong
        may_retry = isinstance(error, Exception) and not isinstance(error, BrokenExecutor)
        if retries and may_retry and not run.stop:
            self._try(run, i, given, retries - 1, there)
            return
        try:
            if error is not None:
                self._end_badly(run, i, error, given, there)
            else:
                run.inside.discard(there)
                run.attached.give()
                run.observers.task_ended(run, i)
                run.deliver(i, value)
            self._pump(run.attached)
        except BaseException as bug:  # executors swallow what callbacks raise
            run.cancel(bug)

    def _end_badly(
        self, run: Run, i: int, error: BaseException, given: list[Any], there: Worker
    ) -> None:
        if isinstance(error, BrokenExecutor):
            died = WorkerDied(
                f"a worker of the {self.name} ended while it ran one of: "
                f"{', '.join(run.running())}. The executor is broken for good: make a new one"
            )
            died.__cause__ = error
            error = died
        run.inside.discard(there)
        run.attached.give()
        error = dressed(error, run.plan.tasks[i], given)
        run.observers.task_failed(run, i, error)
        run.refuse(i, error)


def _outcome(theirs: TheirFuture[Any]) -> tuple[Any, BaseException | None]:
    if theirs.cancelled():
        return None, Cancelled("the executor cancelled the task: it was shut down")
    error = theirs.exception()
    if error is not None:
        return None, error
    value = theirs.result()
    return (None, value.error()) if isinstance(value, _Raised) else (value, None)

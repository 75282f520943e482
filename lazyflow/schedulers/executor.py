"""Runs plans on any `concurrent.futures.Executor` that the user brings.

On a ThreadPoolExecutor (and subclasses) the executor's threads work on a run as the threads of
lazyflow's own pool do. On any other executor each task is submitted by itself; if the executor
pickles its calls, cloudpickle does it. All results return to the caller's process.

::

    a pool of threads:  offer --> _engaged --> a thread: run after run, until no task is ready
    any other one:      offer --> slots.runs --> submit, a task each --> _done --> deliver or retry

State; deques and lists change by single steps, without a lock::

    run.attached :: _ExecutorSlots     free slots of a run, and of the runs that it turned into
      .runs :: deque[Run]              to look at for ready tasks; any thread appends and pops
      .pumping :: [None]               empty while a thread submits; others leave the work to it
    _engaged :: deque                  slots that wait for a thread; `_engage` appends
    _asleep, _spares :: int            threads asleep in tasks, and their stand-ins; under `_lock`
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
from lazyflow.graph.items import check_length, itemized
from lazyflow.graph.task import call_arguments
from lazyflow.schedulers.core.base import Observer, Worker
from lazyflow.schedulers.core.errors.failures import dressed, tell_of_bug
from lazyflow.schedulers.core.errors.records import rebuilt, record
from lazyflow.schedulers.core.run import Run
from lazyflow.schedulers.core.snapshots import verify
from lazyflow.schedulers.core.task_resources import as_worker, here
from lazyflow.schedulers.threads import Slots, SlotWorker


class _Base:
    """The common base of both schedulers: the start of a run, and waiting, a plain sleep."""

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

    def start(self, run: Run) -> None:
        width = run.request.num_workers or getattr(self.executor, "_max_workers", None)
        width = width or config.default_workers()
        run.attached = _ExecutorSlots(width)
        run.begin()

    def wait(self, run: Run, timeout: float | None) -> bool:
        return run.wait(timeout)

    def abandon(self, run: Run) -> None:
        """Tasks that run are the executor's; their results are ignored."""


class _ExecutorSlots(Slots):
    """The slots of an executor for a run and for the runs that its tasks turned into.

    runs
        Runs to look at for ready tasks, the newest last; an entry may be out of date.
    pumping
        One entry, which is gone while a thread submits tasks.
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
    """Threads of a ThreadPoolExecutor; each works on a run until none of its tasks is ready.

    The executor has no spare thread for a task that a sleeping one waits for. So lazyflow starts
    one of its own for each thread that sleeps inside a task; they take work from the same list.
    """

    options = _Base.options | {"files"}

    def __init__(self, executor: Executor) -> None:
        super().__init__(executor)
        # Each has one slot taken already, for the thread that will work on it.
        self._engaged: deque[_ExecutorSlots] = deque()
        self._lock = threading.Lock()  # for the two counts
        self._asleep = 0
        self._spares = 0

    def offer(self, run: Run, count: int) -> None:
        slots: _ExecutorSlots = run.attached
        for _ in range(min(count, slots.count)):
            slots.runs.append(run)
            if not slots.take():  # a thread that has a slot will look once more before it leaves
                return
            try:
                self._engage(slots)
            except RuntimeError as error:  # it was shut down
                run.cancel(error)

    def _engage(self, slots: _ExecutorSlots) -> None:
        self._engaged.append(slots)
        self.executor.submit(self._serve)
        if self._asleep:
            self._add_spare()

    def _serve(self) -> None:
        try:
            slots = self._engaged.popleft()
        except IndexError:  # a spare thread had it
            return
        self._work(slots, _ExecutorThread(self))

    def _work(self, slots: _ExecutorSlots, worker: _ExecutorThread) -> None:
        """Work, with a slot that was taken, until none of the runs has ready tasks."""
        while True:
            try:
                run = slots.runs.pop()
            except IndexError:
                slots.give()
                if not slots.runs or not slots.take():
                    return
                continue
            worker.serve(run)
            if run.ready:
                slots.runs.append(run)
            if not slots.take():  # the thread that has it will look at the runs
                return

    def wait(self, run: Run, timeout: float | None) -> bool:
        """Sleep; inside a task of this executor, work on the run first."""
        me = here.worker
        is_ours = isinstance(me, _ExecutorThread) and me.scheduler is self
        if is_ours and timeout is None and run.ready and run.attached.take():
            run.attached.runs.append(run)
            self._work(run.attached, me)  # type: ignore[arg-type]
        return run.wait(timeout)

    @contextmanager
    def blocked(self, me: _ExecutorThread) -> Iterator[None]:
        """While the thread sleeps inside a task, let others do its work."""
        with self._lock:
            self._asleep += 1
        me.give_slots_back()
        for slot in me.slots:
            slots: _ExecutorSlots = slot.run.attached
            if slot.run.ready:
                slots.runs.append(slot.run)
            if slots.runs and slots.take():
                self._engage(slots)
        self._add_spare()
        try:
            yield
        finally:
            with self._lock:
                self._asleep -= 1
            me.take_slots_again()

    def _add_spare(self) -> None:
        with self._lock:
            if not self._engaged or self._spares >= self._asleep:
                return
            self._spares += 1
        threading.Thread(target=self._serve_spare, name="lazyflow-spare", daemon=True).start()

    def _serve_spare(self) -> None:
        while True:
            self._serve()
            with self._lock:
                if not self._engaged or self._spares > self._asleep:
                    self._spares -= 1
                    return


class _Portable:
    """A call that can be sent anywhere: pickled by cloudpickle, if it is pickled at all."""

    def __init__(
        self, func: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], nout: int | None
    ) -> None:
        self.call = (func, args, kwargs, nout)
        self.travelled = False

    def __call__(self) -> Any:
        func, args, kwargs, nout = self.call
        try:
            with as_worker():
                value = func(*args, **kwargs)
                return value if nout is None else itemized(value, nout)
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

    portable = _Portable(*pickle.loads(data))
    portable.travelled = True
    return portable


class _Raised:
    """The exception that a task raised, or its record."""

    def __init__(self, cause: BaseException | tuple[Any, ...]) -> None:
        self.cause = cause

    def error(self) -> BaseException:
        return self.cause if isinstance(self.cause, BaseException) else rebuilt(self.cause)


class ExecutorScheduler(_Base):
    """Any other executor, to which each task is submitted by itself."""

    def offer(self, run: Run, count: int) -> None:
        slots: _ExecutorSlots = run.attached
        slots.runs.append(run)
        self._pump(slots)

    def _pump(self, slots: _ExecutorSlots) -> None:
        """Submit ready tasks while slots are free.

        An executor that is done at once calls back from inside `submit`, and a task that need
        not run makes others ready at once: the thread that is inside already goes on with those.
        """
        while slots.runs and slots.free:
            try:
                slots.pumping.pop()
            except IndexError:
                return
            try:
                while slots.runs and slots.take():
                    self._submit_next(slots)
            finally:
                slots.pumping.append(None)

    def _submit_next(self, slots: _ExecutorSlots) -> None:
        """Submit a ready task with a slot that was taken."""
        while True:
            try:
                run = slots.runs.pop()
            except IndexError:
                slots.give()
                return
            i = -1 if run.stop else run.take_ready()
            if i >= 0:
                slots.runs.append(run)
                self._submit(run, i)
                return

    def _submit(self, run: Run, i: int) -> None:
        try:
            given = run.prepared(i)
        except BaseException as error:  # a value that can't be copied
            run.attached.give()
            run.deliver_error(i, dressed(error, run.plan.tasks[i], None))
            return
        if given is None:  # an input failed, or the result is not needed any more
            run.attached.give()
            run.deliver(i, None)
            return
        run.observers.tell(Observer.task_started, run, i)
        there = Worker(self.name)  # of the worker only the task is known
        there.run, there.task = run, i
        run.inside.add(there)
        self._try(run, i, given, run.plan.tasks[i]._options.retries, there)

    def _try(self, run: Run, i: int, given: list[Any], retries: int, there: Worker) -> None:
        task = run.plan.tasks[i]
        try:
            args, kwargs = call_arguments(task, given)
            theirs = self.executor.submit(_Portable(task._func, args, kwargs, task._options.nout))
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
        if error is None and (nout is not None or run.watches):
            try:
                if nout is not None:
                    check_length(value, nout, run.task_name(i))
                verify(run.watches, i, run.plan.tasks[i])
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
                run.observers.tell(Observer.task_ended, run, i)
                run.deliver(i, value)
            self._pump(run.attached)
        except BaseException as bug:  # executors swallow exceptions of callbacks
            tell_of_bug(bug, run, i)
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
        run.observers.tell(Observer.task_failed, run, i, error)
        run.deliver_error(i, error)


def _outcome(theirs: TheirFuture[Any]) -> tuple[Any, BaseException | None]:
    if theirs.cancelled():
        return None, Cancelled("the executor cancelled the task: it was shut down")
    error = theirs.exception()
    if error is not None:
        return None, error
    value = theirs.result()
    return (None, value.error()) if isinstance(value, _Raised) else (value, None)

"""Where the calls of one actor run: in threads of its own, an event loop, or the caller's thread.

Executors know no more of a call than `ActorJob`, so they serve actors of this process and of
others: ``waits``, ``begin``, ``finish``, then ``done`` or ``failed``. A result travels in a list of
one, so that `done` can see whether anything else holds it.

Jobs begin in the order of `submit`; with one thread each ends before the next begins. State of a
`ThreadsExecutor`::

    _jobs :: SimpleQueue        None ends a thread, which puts it back for the next one
    _threads :: [Thread]        the first from the start, at most `count`
    _idle :: [None]             an item for each thread that waits and that no job is for

A thread has the queue, not the executor: an actor that only its own thread held would never end.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Protocol

from lazyflow.clock import Deadline
from lazyflow.graph.kinds import COLLECTION, LAZY, kinds
from lazyflow.schedulers.core.coroutines import to_the_end
from lazyflow.schedulers.core.future import TaskFuture, wait_for
from lazyflow.schedulers.core.task_resources import as_worker


class ActorJob(Protocol):
    """One call, as an executor runs it."""

    def waits(self) -> Sequence[TaskFuture]:
        """Return the step that has to run before it can begin."""

    def begin(self) -> Any:
        """Make the call; return its value, or a coroutine that will."""

    def finish(self, box: list[Any]) -> None:
        """Replace a lazy value in `box` by its value; may wait for it."""

    def done(self, box: list[Any]) -> None:
        """Receive the value, the only item of `box`."""

    def failed(self, error: BaseException) -> None:
        """Receive the error. Must not raise."""


def run_here(job: ActorJob) -> None:
    """Run a job in this thread until it has ended."""
    try:
        with as_worker():  # a call gives back the worker's resources, as a task does
            box = [job.begin()]
            while inspect.iscoroutine(box[0]):
                box[0] = to_the_end(box[0])
        job.finish(box)
        job.done(box)
    except BaseException as error:
        job.failed(error)


class InlineExecutor:
    """Runs each job in the thread that submits it."""

    def __init__(self, context: contextvars.Context) -> None:
        self._context = context

    def submit(self, job: ActorJob) -> None:
        """Run a job."""
        self._context.run(run_here, job)

    def close(self) -> None:
        """Do nothing: no job outlasts `submit`."""


class _Threads:
    """The threads of an executor."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []

    def _start(self, name: str, target: Callable[..., Any], *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def join(self, deadline: Deadline) -> bool:
        """Wait until all threads have ended; return whether they did in time."""
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(deadline.left())
        return not any(thread.is_alive() for thread in self._threads)


class ThreadsExecutor(_Threads):
    """Threads that take jobs in order; the first starts at once, others when they are needed."""

    def __init__(self, name: str, count: int, context: contextvars.Context) -> None:
        super().__init__()
        self._name = name
        self._count = count
        self._context = context
        self._jobs: SimpleQueue[ActorJob | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = [None]  # one for each thread that waits, or is about to wait
        self._add()

    def _add(self) -> None:
        name = f"{self._name}-{len(self._threads) + 1}"
        self._start(name, self._context.copy().run, _serve, self._jobs, self._idle)

    def submit(self, job: ActorJob) -> None:
        """Add a job to the queue."""
        if self._count > 1:
            with self._lock:
                try:
                    self._idle.pop()
                except IndexError:
                    if len(self._threads) < self._count:
                        self._add()
        self._jobs.put(job)

    def close(self) -> None:
        """End after the jobs in the queue. Never locks."""
        self._jobs.put(None)


def _serve(jobs: SimpleQueue[ActorJob | None], idle: list[None]) -> None:
    # Not a method: a thread that waits must not keep its executor, and so its actor, alive.
    while True:
        job = jobs.get()
        if job is None:
            jobs.put(None)  # for the next thread
            return
        waits = job.waits()
        if waits:
            wait_for(waits)
        run_here(job)
        job = waits = None  # type: ignore[assignment]  # hold no values while asleep
        idle.append(None)


class LoopExecutor(_Threads):
    """An event loop in a thread: jobs begin in order, `count` of them are under way at most."""

    def __init__(self, name: str, count: int, context: contextvars.Context) -> None:
        super().__init__()
        self._loop = asyncio.new_event_loop()
        self._jobs: asyncio.Queue[ActorJob | None] = asyncio.Queue()
        self._start(name, context.copy().run, _run_loop, self._loop, self._jobs, count)

    def submit(self, job: ActorJob | None) -> None:
        """Add a job to the queue."""
        with suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(self._jobs.put_nowait, job)

    def close(self) -> None:
        """End after the jobs in the queue. Never locks."""
        self.submit(None)


Executor = InlineExecutor | ThreadsExecutor | LoopExecutor


def _run_loop(
    loop: asyncio.AbstractEventLoop, jobs: asyncio.Queue[ActorJob | None], count: int
) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(_serve_async(jobs, count))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


async def _serve_async(jobs: asyncio.Queue[ActorJob | None], count: int) -> None:
    slots = asyncio.Semaphore(count)
    running: set[asyncio.Task[None]] = set()
    while True:
        job = await jobs.get()
        if job is None:
            break
        for future in job.waits():
            await _done(future)
        await slots.acquire()
        task = asyncio.create_task(_run_async(job, slots))
        running.add(task)
        task.add_done_callback(running.discard)
        job = task = None  # type: ignore[assignment]  # hold no values while asleep
    if running:
        await asyncio.wait(running)


async def _run_async(job: ActorJob, slots: asyncio.Semaphore) -> None:
    try:
        box = [job.begin()]
        while inspect.iscoroutine(box[0]):
            box[0] = await box[0]
        if kinds[type(box[0])] in (LAZY, COLLECTION):
            await _finished(job, box)
        else:
            job.finish(box)
        job.done(box)
    except BaseException as error:
        job.failed(error)
    finally:
        slots.release()


async def _finished(job: ActorJob, box: list[Any]) -> None:
    """Finish a lazy value in another thread: it may wait for other calls, which go on."""
    ended = TaskFuture("a result", None)

    def finish() -> None:
        try:
            job.finish(box)
            ended.set_value(None)
        except BaseException as error:
            ended.set_error(error)

    run = contextvars.copy_context().run
    threading.Thread(target=run, args=(finish,), name="lazyflow-result", daemon=True).start()
    await _done(ended)
    _, error = ended.local_outcome()
    if error is not None:
        raise error


async def _done(future: TaskFuture) -> None:
    """Wait, in the event loop, until a future is done."""
    if future.done():
        return
    loop = asyncio.get_running_loop()
    woken = asyncio.Event()

    def wake(_: TaskFuture) -> None:
        with suppress(RuntimeError):  # the loop was closed
            loop.call_soon_threadsafe(woken.set)

    future.add_callback(wake)
    await woken.wait()

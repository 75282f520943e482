"""The one page to read to add a scheduler.

A scheduler runs plans. It is any object with the two attributes and the four methods of
`Scheduler`. Register it for `scheduler="name"` in the entry-point group ``lazyflow.schedulers``
(the entry is a callable without arguments that returns the scheduler), or pass the object itself.
Optional abilities are protocols, which a scheduler provides by having their methods: `MakesRuns`,
`Puts`, `EndsTasks`, `KeepsActors`, `HasFiles`, `ReportsInfo`, `ShutsDown`. On first use a scheduler
is checked once: a missing method, or one that can't be called as its protocol requires, raises an
error that names it.

`Run` (run.py) does all the bookkeeping, so a scheduler only decides where and when tasks run. This
scheduler is complete, though it has no caps: it starts a thread for every task offered::

    class Mine:
        name = "mine"
        options = frozenset()          # of "priority", "resources", "workers", "crash_retries",
                                       # "memory_limit", "files": see `Scheduler.options`

        def start(self, run):          # must return soon
            run.begin()                # offers what is ready

        def offer(self, run, count):   # `count` more tasks of the run may be taken
            for _ in range(min(count, 8)):
                threading.Thread(target=self.work, args=(run,)).start()

        def work(self, run):
            run.context.copy().run(run.work, Worker("mine-1"))

        def wait(self, run, timeout):  # block the caller; True when the run is done
            return run.wait(timeout)

        def abandon(self, run):        # it ended early; its running tasks are ignored
            pass

`run.work(worker)` takes ready tasks of the run one after the other, and the tasks that these make
ready, until none is left; any number of threads may be inside it at once.
``run.context`` has the caller's context variables; only one thread at a time can enter a context,
so each thread enters a copy. A scheduler stores its own data of a run in ``run.attached``. When a
task returns a lazy value, the run of that value shares ``run.attached`` and ``run.request``.

A scheduler that runs tasks elsewhere uses the single steps instead: ``run.take_ready()`` for the
number of a task, ``run.prepared(i)`` for the values of its inputs, then ``run.deliver(i, value)``
or ``run.deliver_error(i, dressed(error, task, values))``; see executor.py. If threads are limited,
a task that waits for another run must not keep its thread: override `Worker.asleep`.
`lazyflow.testing.contract` is the suite that every scheduler must pass.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import Context
from typing import Any, NamedTuple, Protocol, TypeGuard, TypeVar

from lazyflow.finalizers import WeakTable
from lazyflow.graph.plan import Plan
from lazyflow.graph.task import place_text, task_name

P = TypeVar("P")


class AnyRun(Protocol):
    """One execution of one plan, as schedulers, workers and observers see it.

    Schedulers get a `Run` (run.py), which has more, or the object that their own `make_run` made.
    """

    plan: Plan
    request: Request
    #: The scheduler that runs it.
    scheduler: Any
    #: Its `RunObservers`.
    observers: Any
    #: The scheduler's own data of this run.
    attached: Any
    #: The caller's context variables.
    context: Context
    #: Not empty: no further task of it is started.
    stop: list[None]
    #: The runs that its tasks wait for, or turned into.
    children: set[Any]

    @property
    def over(self) -> bool:
        """Whether the run has ended: done, failed or cancelled."""

    def begin(self) -> None:
        """Begin the run: offer its ready tasks to the scheduler."""

    def wait(self, timeout: float | None = None) -> bool:
        """Sleep until the run is over (True), or `timeout` seconds have passed (False)."""

    def cancel(self, error: BaseException | None = None) -> None:
        """Start no more tasks and end with `error` (by default a Cancelled)."""

    def deliver(self, i: int, value: Any) -> None:
        """Take the result of task `i`, from any thread."""

    def deliver_error(self, i: int, error: BaseException) -> None:
        """Take the (dressed) failure of task `i`, from any thread."""

    def task_name(self, i: int) -> str:
        """Return the name of task `i` in messages."""


class Observer:
    """Watches runs; a subclass overrides the methods that it needs.

    On sync and threads, the thread that runs a task calls the methods, between its tasks; elsewhere
    the thread that receives the messages of workers calls them. Keep them short. The first
    exception of an observer is logged, and the observer is dropped; results stay the same. Tasks
    are timed only for observers. ``i`` is a task's number in ``run.plan``; ``run.task_name(i)`` is
    its name.
    """

    #: Seconds between two samples of the lines that tasks in other processes run; 0: no samples.
    sampling: float = 0.0

    #: True: instead of overriding `task_ran`, it calls ``run.observers.keep_times(self, x)`` when a
    #: run starts. The list ``x`` gets a tuple per task, the arguments of `task_ran` but the first.
    keeps_times = False

    def run_started(self, run: AnyRun) -> None:
        """Called when a plan starts: it has ``len(run.plan)`` tasks, its leaves included."""

    def task_started(self, run: AnyRun, i: int) -> None:
        """Called before task `i` is called; on sync and threads by the thread that calls it."""

    def task_ended(self, run: AnyRun, i: int) -> None:
        """Called when task `i` has returned; on sync and threads by the thread that called it."""

    def task_ran(
        self, run: AnyRun, i: int, worker: str, start: float, end: float, cpu: float | None,
        size: int | None,
    ) -> None:
        """Called with the worker and the times of task `i`, before its end or failure is reported.

        Tasks are timed only if an observer overrides this or keeps times. If a task still runs
        when its run ends early, it is reported then, with that moment as its end.

        Parameters
        ----------
        worker
            The thread or process that called it.
        start, end
            By this process's `time.perf_counter`, also for calls in other processes.
        cpu
            Seconds of CPU time that its thread used; None: unknown.
        size
            Bytes of the result, if the scheduler knows them.
        """

    def task_moved(self, run: AnyRun, i: int, size: int) -> None:
        """Called when `size` bytes of arguments and inputs were sent to the process of task `i`."""

    def task_compiled(self, run: AnyRun, i: int, seconds: float) -> None:
        """Called when Numba has compiled in task `i`."""

    def task_sampled(self, run: AnyRun, i: int, stack: Any, looks: int, seconds: float) -> None:
        """Called when task `i`, in another process, was at a `Stack` (sampling.py) for so long."""

    def values_spilled(
        self, run: AnyRun, i: int, count: int, size: int, seconds: float
    ) -> None:
        """Called when kept values of any run were written to a file, to make room for task `i`.

        The writing of `count` values, of `size` bytes together, took `seconds`. The thread that
        writes makes the call, perhaps after the task, if room was made in advance. Workers on
        processes report it, and `values_restored`, only if tasks are timed, and until the batch of
        the task ends.
        """

    def values_restored(self, run: AnyRun, i: int, size: int) -> None:
        """Called when task `i` reads `size` bytes of kept values from a file."""

    def task_failed(self, run: AnyRun, i: int, error: BaseException) -> None:
        """Called when task `i` has raised, after its last retry."""

    def run_ended(self, run: AnyRun) -> None:
        """Called when the run is over: done, failed or cancelled."""

    # -- events beside runs: called in the thread that computes, unless they say otherwise ---------

    def arrays_planned(self, arrays: list[tuple[Any, ...]]) -> None:
        """Called with the arrays that the next run of this thread makes.

        Each is a tuple: code and offset of the user's line; the function that made it; how many of
        its blocks are computed; the bytes of the largest block, about.
        """

    def values_returned(self, run: AnyRun, values: list[Any]) -> None:
        """Called after a run with the values that the caller of `compute` gets, one per output."""

    def call_made(self, call: Any) -> None:
        """Called when a method or the constructor of an actor is called: see `WatchedCall`."""

    def call_ended(self, call: Any) -> None:
        """Called when such a call is over, in the thread that has received its outcome."""

    def work_started(self, work: Any) -> None:
        """Called when several runs of this thread begin that are one piece of work, as a fit.

        `work` has a name, a unit, the count of units done, and a text; see
        `lazyflow.api.progress_events`.
        """

    def work_went_on(self, work: Any) -> None:
        """Called when count or text of a piece of work have changed."""

    def work_ended(self, work: Any) -> None:
        """Called when a piece of work is over."""


class Worker:
    """A thread that is inside `Run.work`, seen from outside.

    task
        The number of the task that it runs in ``run``, or -1.
    below
        The worker of the same thread whose task started the run of this worker.
    must_leave
        It has lost its slot and leaves the run after its task; checked while `Run.attention`
        is not empty.
    forked
        This is the copy in a forked child, which ends when its task returns.
    """

    __slots__ = ("__weakref__", "below", "forked", "must_leave", "name", "run", "task")

    kind = "thread"

    def __init__(self, name: str) -> None:
        self.name = name
        self.run: AnyRun | None = None
        self.task = -1
        self.below: Worker | None = None
        self.must_leave = False
        self.forked = False

    def now(self) -> tuple[Any, int]:
        """Return its run and the number of its task; -1: none."""
        return self.run, self.task

    def doing(self) -> str:
        """Describe the task that it runs."""
        run, i = self.now()
        if run is None or not 0 <= i < len(run.plan):
            return f"nothing ({self.kind} {self.name})"
        task = run.plan.tasks[i]
        return f"{task_name(task)}, made at {place_text(task)} ({self.kind} {self.name})"

    def asleep(self) -> AbstractContextManager[None]:
        """Return the context for sleeping inside a task, in which another thread may work."""
        return nullcontext()


class Scheduler(Protocol):
    """The members of a scheduler that `compute` and `persist` need.

    Its runs come from its own `make_run`; without that method each is a `Run`.
    """

    name: str
    #: Task options beyond retries that it honours. The caller is warned once of each other option,
    #: but tasks with workers= raise. A scheduler with its own class of runs adds "memory_limit" if
    #: it honours that; and any adds "files" if its tasks can open files of the caller's process
    #: (exchange_file.py).
    options: frozenset[str]

    def start(self, run: Any) -> None:
        """Start a run; return at once, unless the caller's thread does the work."""

    def offer(self, run: Any, count: int) -> None:
        """Called when `count` tasks of a run became ready outside of its workers."""

    def wait(self, run: Any, timeout: float | None) -> bool:
        """Block until the run is done (True) or `timeout` seconds are over (False)."""

    def abandon(self, run: Any) -> None:
        """Called when a run was cancelled while tasks of it may still be running."""


class MakesRuns(Protocol):
    """A scheduler with its own class of runs, for example if tasks run in other processes."""

    def make_run(self, plan: Plan, request: Request) -> Any:
        """Return a new run, a `BaseRun` (run.py); `start` follows."""


class Puts(Protocol):
    """A scheduler that keeps the values of `lazyflow.put` where its tasks can read them."""

    def put(self, value: Any, task: Any) -> Any:
        """Take a snapshot of a value now; return the object that its future holds instead.

        `task` is the leaf that stands for the value, with its name and place for messages.
        """


class EndsTasks(Protocol):
    """A scheduler that can end a task while it runs: ``future.cancel(force=True)``."""

    def end_task(self, run: Any, i: int) -> None:
        """End task `i` of a run if it is running; return soon. Its future is cancelled already."""


class KeepsActors(Protocol):
    """A scheduler on which actors live.

    actors_share_memory
        Whether actors get the caller's own objects as arguments, so that the caller must copy
        those that it may edit later.
    """

    @property
    def actors_share_memory(self) -> bool:
        """Whether actors get the caller's own objects as arguments."""

    def make_actor(self, spec: Any) -> Any:
        """Start an actor; return its host. See `lazyflow.schedulers.actors.calls`."""


class HasFiles(Protocol):
    """A scheduler whose workers keep files of their own through which tasks hand over values."""

    def exchange(self, size: int, at_once: int) -> Any:
        """Return an object with the methods of `ExchangeFile`; None: memory holds the values.

        size
            Bytes that are handed over.
        at_once
            Bytes of them that memory would have to hold at once.
        """


class ReportsInfo(Protocol):
    """A scheduler that reports its state to `lazyflow.schedulers.info`."""

    def info(self) -> dict[str, Any]:
        """Return facts by name, such as its workers and their tasks."""


class ShutsDown(Protocol):
    """A scheduler with threads, processes or connections that `lazyflow.shutdown` ends."""

    def shutdown(self) -> Any:
        """Cancel queued work, give running tasks a moment, and end threads and processes.

        The next run starts those that it needs.
        """


class Request(NamedTuple):
    """The caller's options for a run, beside the plan; `config` was looked at for those not given.

    num_workers
        Cap on tasks running at once; None: the scheduler has its own.
    crash_retries
        How often a task without an option of its own runs again after a death of its worker.
    collect
        Users of failed tasks get the exception as value, and the run continues.
    background
        No caller waits for it yet; runs with a waiting caller go first.
    check_mutation
        Each task's inputs are compared before and after its call; a task that changed one fails.
    observers
        The `Observer` objects that are told of this run's tasks.
    light
        Its tasks take microseconds, less than passing them to another thread, and never wait.
    memory_limit
        Bytes of memory beyond which values that it keeps are written to a file; None: no limit.
    """

    num_workers: int | None = None
    collect: bool = False
    background: bool = False
    check_mutation: bool = False
    observers: tuple[Any, ...] = ()
    light: bool = False
    crash_retries: int = 2
    memory_limit: int | None = None


#: The schedulers that this process has made, by name; in a worker it is itself "processes".
installed: dict[str, Scheduler] = {}

#: Addresses of this machine by which workers on others reach it, as engines have found them.
hosts_for_workers: dict[str, None] = {}

#: Functions that `lazyflow.shutdown` calls after it has ended the schedulers.
at_shutdown: list[Callable[[], None]] = []


# -- the protocols that a scheduler provides, checked once -------------------------------------


def _members(protocol: type) -> tuple[str, ...]:
    names = (*protocol.__annotations__, *vars(protocol))
    return tuple(dict.fromkeys(name for name in names if not name.startswith("_")))


REQUIRED = _members(Scheduler)

_OPTIONAL: dict[Any, tuple[str, ...]] = {
    protocol: _members(protocol)
    for protocol in (MakesRuns, Puts, EndsTasks, KeepsActors, HasFiles, ReportsInfo, ShutsDown)
}

_checked: WeakTable[type, bool] = WeakTable()  # classes of schedulers that passed


def provides(scheduler: object, protocol: Callable[..., P]) -> TypeGuard[P]:
    """Tell whether a scheduler has the methods of an optional protocol.

    It looks for the first method only, since `checked` has found that no method is missing:
    `isinstance` with a protocol takes 4 to 9 µs on Python 3.11, as long as a `put`.

    >>> from lazyflow.schedulers.registry import scheduler_named
    >>> provides(scheduler_named("threads"), KeepsActors)
    True
    """
    return hasattr(scheduler, _OPTIONAL[protocol][0])


def checked(scheduler: Any) -> Scheduler:
    """Return a scheduler after a check of its methods; each class is checked once.

    Raises
    ------
    TypeError
        A member of `Scheduler` is missing, some members of an optional protocol are there and
        others are not, or a method can't be called with its protocol's arguments.
    """
    kind = type(scheduler)
    if not _checked.get(kind):
        _check(scheduler, Scheduler, REQUIRED)
        for protocol, members in _OPTIONAL.items():
            if any(hasattr(scheduler, name) for name in members):
                _check(scheduler, protocol, members)
        _checked[kind] = True
    passed: Scheduler = scheduler
    return passed


def _check(scheduler: Any, protocol: Any, members: tuple[str, ...]) -> None:
    missing = [name for name in members if not hasattr(scheduler, name)]
    if missing:
        what = "a scheduler" if protocol is Scheduler else protocol.__name__
        raise TypeError(
            f"the scheduler {scheduler!r:.100} has no {', '.join(missing)}; {what} has "
            f"{', '.join(members)}: see lazyflow/schedulers/core/base.py"
        )
    for name in members:
        meant = getattr(protocol, name, None)
        if callable(meant):
            _check_call(scheduler, name, meant)


def _check_call(scheduler: Any, name: str, meant: Callable[..., Any]) -> None:
    """Raise TypeError if a method can't be called with the arguments of the protocol's method."""
    from inspect import signature  # 5 ms that `import lazyflow` does not pay

    names = list(signature(meant).parameters)[1:]
    try:
        signature(getattr(scheduler, name)).bind(*names)
    except ValueError:  # it is written in C, without a signature
        return
    except TypeError as error:
        raise TypeError(
            f"{name} of the scheduler {scheduler!r:.100} can't be called as "
            f"{name}({', '.join(names)}): {error}. See lazyflow/schedulers/core/base.py"
        ) from None

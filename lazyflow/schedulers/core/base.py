"""The one page to read to add a scheduler.

A scheduler runs plans. It is any object with the two attributes and the four methods of
`Scheduler`; register it for `scheduler="name"` by the entry-point group
``lazyflow.schedulers`` (the entry is a callable without arguments that returns the scheduler), or
pass the object itself. What else a scheduler can do, it says by having the methods of a protocol
below: `MakesRuns`, `Puts`, `EndsTasks`, `KeepsActors`, `ReportsInfo`, `ShutsDown`. Where a
scheduler is first used it is looked at once: a method that is missing, or that cannot be called
as the protocol says, is refused with words.

All the bookkeeping is done by `Run` (run.py), so a scheduler only decides where and when. This
one is complete, though it caps nothing: a thread for every task that is offered::

    class Mine:
        name = "mine"
        options = frozenset()          # of "priority", "resources", "workers", "crash_retries"

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

`run.work(worker)` takes ready tasks of the run one after the other, and those that they make
ready, until there is none left; any number of threads may be inside it at once.
``run.context`` has the caller's context variables; a context can be entered once at a time, so
each thread enters a copy. Whatever the scheduler keeps with a run goes into ``run.attached``;
runs that tasks turn into by returning lazy values share it, and ``run.request`` too.

A scheduler that runs tasks elsewhere uses the single steps instead: ``run.take_ready()`` for the
number of a task, ``run.prepared(i)`` for the values of its inputs, then ``run.deliver(i, value)``
or ``run.refuse(i, dressed(error, task, values))``; executor.py shows it. When the threads are
few, a task that waits for another run must not keep its thread: override `Worker.asleep`.
`lazyflow.testing.contract` is the suite that every scheduler must pass.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import Context
from typing import Any, Protocol, TypeGuard, TypeVar

from lazyflow.finalizers import WeakTable
from lazyflow.graph.plan import Plan

P = TypeVar("P")


class AnyRun(Protocol):
    """One execution of one plan, as schedulers, workers and observers see it.

    What schedulers get is a `Run` (run.py), which has more, or what their own `make_run` made.
    """

    plan: Plan
    request: Request
    #: The scheduler that runs it.
    scheduler: Any
    #: Its `RunObservers`.
    observers: Any
    #: What the scheduler keeps with it.
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
        """Put the run in motion: what is ready is offered to the scheduler."""

    def wait(self, timeout: float | None = None) -> bool:
        """Sleep until the run is over (True), or `timeout` seconds have passed (False)."""

    def cancel(self, error: BaseException | None = None) -> None:
        """Start nothing more and end with `error` (a Cancelled unless given)."""

    def deliver(self, i: int, value: Any) -> None:
        """Take the result of task `i`, from any thread."""

    def refuse(self, i: int, error: BaseException) -> None:
        """Take the (dressed) failure of task `i`, from any thread."""

    def task_name(self, i: int) -> str:
        """Return what messages call task `i`."""


class Observer:
    """Watches runs; a subclass overrides what it wants to hear.

    Methods are called by whichever thread runs the task, between its tasks: keep them short.
    An observer that raises is logged once and dropped; it changes no result. Nothing is called,
    made or timed when nobody observes. ``i`` is a task's number in ``run.plan``;
    ``run.task_name(i)`` is its name. Of values that are spilled nothing is told: no scheduler here
    writes values to disk to make room; what engines spill by themselves, their dashboards show.
    """

    #: Seconds between two looks at where tasks are that other processes run; 0: none are taken.
    sampling: float = 0.0

    #: It overrides no `task_ran`: when a run starts, it calls ``run.observers.keep_times(self, x)``
    #: with a list, to which the arguments of `task_ran` after the first are added as a tuple.
    keeps_times = False

    def run_started(self, run: AnyRun) -> None:
        """Hear that a plan starts: ``len(run.plan)`` tasks, its leaves included."""

    def task_started(self, run: AnyRun, i: int) -> None:
        """Hear that this thread is about to call task `i`."""

    def task_ended(self, run: AnyRun, i: int) -> None:
        """Hear that this thread called task `i`, and it returned."""

    def task_ran(
        self, run: AnyRun, i: int, worker: str, start: float, end: float, cpu: float | None,
        size: int | None,
    ) -> None:
        """Hear where and when task `i` was called, before its end or its failure is told.

        Tasks are timed only where an observer overrides this or keeps times. A task that is still
        running when its run ends early is told of then, with that moment as its end.

        Parameters
        ----------
        worker
            The thread or process that called it.
        start, end
            By this process's `time.perf_counter`, also for calls in other processes.
        cpu
            Seconds of CPU time that its thread used meanwhile; None: unknown.
        size
            Bytes of the result, where the scheduler knows them.
        """

    def task_moved(self, run: AnyRun, i: int, size: int) -> None:
        """Hear that so many bytes, arguments and inputs, were sent to the process of task `i`."""

    def task_compiled(self, run: AnyRun, i: int, seconds: float) -> None:
        """Hear that Numba compiled in task `i`."""

    def task_sampled(self, run: AnyRun, i: int, stack: Any, looks: int, seconds: float) -> None:
        """Hear that task `i`, in another process, was at a `Stack` (sampling.py) for so long."""

    def task_failed(self, run: AnyRun, i: int, error: BaseException) -> None:
        """Hear that task `i` raised, after its last retry."""

    def run_ended(self, run: AnyRun) -> None:
        """Hear that the run is over: done, failed or cancelled."""


class Worker:
    """A thread that is inside `Run.work`, seen from outside.

    task
        The number of the task it is running in ``run``, or -1.
    below
        The worker of the same thread whose task computes what this one works on.
    must_leave
        It has no slot any more and leaves the run after its task; looked at while `Run.attention`
        is not empty.
    forked
        This is the copy in the child of a fork, which ends when its task returns.
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
        """Return the run that it works on and the number of its task; -1: none."""
        return self.run, self.task

    def asleep(self) -> AbstractContextManager[None]:
        """Return what is entered while the thread sleeps in a task: another may work instead."""
        return nullcontext()


class Scheduler(Protocol):
    """What `compute` and `persist` need of a scheduler.

    The runs that it is given are those that its own `make_run` made, or each a `Run`.
    """

    name: str
    #: Task options beyond retries that it honours. Of others the caller is warned once; tasks
    #: with workers= are refused.
    options: frozenset[str]

    def start(self, run: Any) -> None:
        """Put a run in motion; return at once, unless the caller's thread does the work."""

    def offer(self, run: Any, count: int) -> None:
        """Learn that `count` tasks of a run became ready outside of its workers."""

    def wait(self, run: Any, timeout: float | None) -> bool:
        """Block until the run is done (True) or `timeout` seconds are over (False)."""

    def abandon(self, run: Any) -> None:
        """Learn that a run was cancelled while tasks of it may still be running."""


class MakesRuns(Protocol):
    """A scheduler whose runs are of a class of its own, as where tasks run in other processes."""

    def make_run(self, plan: Plan, request: Request) -> Any:
        """Return a run that has not begun: a `Lifecycle` (lifecycle.py); `start` follows."""


class Puts(Protocol):
    """A scheduler that keeps the values of `lazyflow.put` where its tasks can get them."""

    def put(self, value: Any, task: Any) -> Any:
        """Take a snapshot of a value now; return what its future holds in its place.

        `task` is the leaf that stands for the value: it has the name and place for messages.
        """


class EndsTasks(Protocol):
    """A scheduler that can end a task while it runs: ``future.cancel(force=True)``."""

    def end_task(self, run: Any, i: int) -> None:
        """End task `i` of a run if it is running. Its future was cancelled before; returns soon."""


class KeepsActors(Protocol):
    """A scheduler on which actors live.

    actors_share_memory
        Arguments reach an actor as the caller has them, so that the caller copies what it may
        edit later.
    """

    @property
    def actors_share_memory(self) -> bool:
        """Whether arguments reach actors as the caller has them."""

    def make_actor(self, spec: Any) -> Any:
        """Start an actor; return its host. See `lazyflow.schedulers.actors.calls`."""


class ReportsInfo(Protocol):
    """A scheduler that says for `lazyflow.schedulers.info` what it holds and does."""

    def info(self) -> dict[str, Any]:
        """Return facts by name, such as its workers and their tasks."""


class ShutsDown(Protocol):
    """A scheduler with threads, processes or connections that `lazyflow.shutdown` ends."""

    def shutdown(self) -> Any:
        """Cancel queued work, give running tasks a moment, and end what serves them.

        The next run starts anew what it needs.
        """


class Request:
    """What the caller asked of a run, beside the plan.

    num_workers
        Cap on tasks running at once.
    collect
        Failed tasks give their exception to what needs them; the run goes on.
    background
        Nobody waits for it yet; waited-for runs go first.
    light
        Its tasks take microseconds, less than handing them to another thread, and wait for nothing.
    """

    __slots__ = ("background", "check_mutation", "collect", "light", "num_workers", "observers")

    def __init__(
        self,
        num_workers: int | None = None,
        collect: bool = False,
        background: bool = False,
        check_mutation: bool = False,
        observers: tuple[Any, ...] = (),
        light: bool = False,
    ) -> None:
        self.num_workers = num_workers
        self.collect = collect
        self.background = background
        self.check_mutation = check_mutation
        self.observers = observers
        self.light = light


#: The schedulers that this process has made, by name; in a worker it is itself "processes".
installed: dict[str, Scheduler] = {}

#: Addresses of this machine by which workers on others reach it, as engines have found them.
hosts_for_workers: dict[str, None] = {}

#: What `lazyflow.shutdown` calls after it has ended them.
at_shutdown: list[Callable[[], None]] = []


# -- what a scheduler can do, looked at once ---------------------------------------------------


def _members(protocol: type) -> tuple[str, ...]:
    names = (*protocol.__annotations__, *vars(protocol))
    return tuple(dict.fromkeys(name for name in names if not name.startswith("_")))


REQUIRED = _members(Scheduler)

_OPTIONAL: dict[Any, tuple[str, ...]] = {
    protocol: _members(protocol)
    for protocol in (MakesRuns, Puts, EndsTasks, KeepsActors, ReportsInfo, ShutsDown)
}

_checked: WeakTable[type, bool] = WeakTable()  # classes of schedulers that passed


def provides(scheduler: object, protocol: Callable[..., P]) -> TypeGuard[P]:
    """Tell whether a scheduler has the methods of an optional protocol.

    It looks for the first method only, as `checked` has seen that none is missing: `isinstance`
    with a protocol takes 4 to 9 µs on Python 3.11, as long as a `put`.

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
    found: Scheduler = scheduler
    return found


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

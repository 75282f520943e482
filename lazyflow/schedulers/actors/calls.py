"""The description of an actor, and its calls, for every scheduler.

A scheduler that can keep actors has ``make_actor(spec)``, which returns an `ActorHost`, and
``actors_share_memory = False`` when arguments do not reach them as the caller has them. All of it
is used through `lazyflow.api.actors`.

Policy: a call runs whether or not its future is kept, unless it is cancelled before it begins or
its actor has ended. Calls begin in the order in which they were made (of an actor that runs several
at once: those whose inputs are there). Actors that wait for each other in a circle would wait for
ever: the call whose result closes the circle fails with `CycleError` instead (`_Waits`).

The way of a call::

    actor.add(x)                     api/actors.py makes an `ActorCall` with its `CallFuture`
      |
    ActorHost.call(call)             queued; `begun` when it begins in this process
      |           |
      |         PackedCall.gather    in another process: the arguments are packed, then the values
      |           |                  of the inputs as they come; sent when nothing is missing
    the method runs                  `finish`: a lazy result is computed, an iterator is run
      |
    the future gets the outcome      `WatchedCall.over` tells the observers

State, and who writes it::

    waits._waits :: {actor: (WaitingActor, {future: actor})}   any thread, below its lock
    ActorCall.begun :: bool              the thread that makes the call
    ActorCall.host, node                 the host of an actor in another process
    WatchedCall.thread, start, end, cpu  `begin`, `over`; `took` for a call in another process
    PackedCall.values, missing, error    steps of the host's port, one input each
"""

from __future__ import annotations

import inspect
import threading
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from threading import get_ident
from time import perf_counter, thread_time, time
from typing import Any, Protocol, TypeVar
from weakref import ref

from lazyflow import config
from lazyflow.errors import CycleError
from lazyflow.graph.kinds import COLLECTION, ITERATOR, LAZY, kinds
from lazyflow.graph.plan import plan_of_lazy
from lazyflow.graph.task import Task
from lazyflow.schedulers.core.base import Observer, Request
from lazyflow.schedulers.core.future import TaskFuture
from lazyflow.schedulers.core.run import make_run
from lazyflow.store.pickling.unpicklable import Unpicklable
from lazyflow.store.values import IteratorItems
from lazyflow.system import at_fork

# -- actors that wait for each other in a circle, which is found when it closes -----------
#
# An actor that runs one call at a time waits, while its call sleeps until the result of a call of
# another actor is there: it begins nothing before. Such waits are noted by the process that made
# the actors, which hears of those in other processes. Of actors that run several calls nothing is
# noted. Nor are noted: waits with a time limit, waits for the first of several results, and waits
# of other threads that a call has started.


@dataclass
class WaitingActor:
    """An actor that runs one call at a time, in the thread that does.

    process
        Identifies the process that made the actor.
    number
        The actor among those of that process.
    label
        Its name in messages.
    running
        The number of the call that it runs, as it was sent; 0 in the process that made it. What
        was sent before has ended, also if its answer is on its way.
    """

    process: str
    number: int
    label: str
    running: int = 0

    def sleeps(self, futures: Sequence[TaskFuture]) -> None:
        """Note that the thread is about to sleep until all these are done."""
        for future in futures:
            if future.run is not None and hasattr(future.run[0], "awaited_by"):
                future.run[0].awaited_by(self)


class _Waits:
    """Which actors of this process wait for calls of which others."""

    def __init__(self) -> None:
        self.process = uuid.uuid4().hex
        self._lock = threading.Lock()
        #: By number of an actor: itself, and the calls that it waits for with their actors.
        self._waits: dict[int, tuple[WaitingActor, dict[TaskFuture, int]]] = {}

    def add(self, actor: WaitingActor, future: TaskFuture, of: int) -> None:
        """Note that an actor waits for a call of the actor `of`; fail it if that can't end."""
        if actor.process != self.process:
            return
        with self._lock:
            _, waits = self._waits.get(actor.number, (actor, {}))
            waits[future] = of
            self._waits[actor.number] = actor, waits
            circle = self._path(of, actor.number)
        run = future.run
        if circle is not None and run is not None:
            future.set_error(_error([f"{actor.label} waits for {future.name}", *circle]))
            run[0].cancel_task(0)  # so that it does not begin when the circle is open
        future.add_callback(partial(self._over, actor.number))

    def _path(self, start: int, end: int) -> list[str] | None:
        """Return in words how one actor waits for another; None if it does not."""
        paths: dict[int, tuple[str, ...]] = {start: ()}
        todo = [start]
        while todo:
            number = todo.pop()
            if number == end:
                return [*paths[number]]
            if number in self._waits:
                actor, waits = self._waits[number]
                for future, of in waits.items():
                    if of not in paths and self._is_ahead(future, of):
                        paths[of] = *paths[number], f"{actor.label} waits for {future.name}"
                        todo.append(of)
        return None

    def _is_ahead(self, future: TaskFuture, of: int) -> bool:
        """Tell whether a call has yet to begin, or is running."""
        run = future.run
        if run is None:
            return False
        call = run[0]
        running = self._waits[of][0].running if of in self._waits else 0
        number = 0 if call.host is None else call.host.number_of(call)
        return not 0 < number < running

    def _over(self, number: int, future: TaskFuture) -> None:
        with self._lock:
            if number in self._waits:
                waits = self._waits[number][1]
                waits.pop(future, None)
                if not waits:
                    del self._waits[number]


def _error(circle: list[str]) -> CycleError:
    if len(circle) == 1:
        text = f"{circle[0]}, a call of its own, which can't begin before this one has ended"
    else:
        text = ", and ".join(circle)
    return CycleError(
        f"calls of actors wait for each other in a circle: {text}. Make one of the methods async "
        "and await the future there, give its actor max_concurrency=2, or return the future in "
        "place of its result."
    )


waits = _Waits()


def waiting_actor(spec: Any) -> WaitingActor | None:
    """Return the record of an actor's threads; None for one that runs several calls at once."""
    if spec.concurrency > 1:
        return None
    return WaitingActor(waits.process, spec.number, spec.label)


at_fork(after_in_child=waits.__init__)  # type: ignore[misc]


# -- A call of an actor that somebody observes: when and where it ran, told to its observers

#: When a call began and ended in a worker, by `time.time`, and the CPU seconds of its thread.
CallTimes = tuple[float, float, float | None]


def _nothing() -> None:
    """Stand for the reference to a call that is not made yet."""


class WatchedCall:
    """The record of a call for observers; made only where there are observers.

    Attributes
    ----------
    task
        Method and arguments.
    scheduler, actor, number
        The scheduler of the actor, its name in messages, and a number that no other actor of this
        process has.
    thread
        The identifier of the thread of this process that runs the call now; 0: none, or it shares
        the thread with others.
    start, end
        By `time.perf_counter`; None: it did not begin, or its times are not known.
    cpu
        Seconds of CPU time that its thread used; None: unknown.
    failed
        Whether it raised, or could not run.
    call
        Returns the `ActorCall`, or None when it is gone.
    """

    __slots__ = (
        "_before", "_observers", "_open", "actor", "call", "cpu", "end", "failed", "number",
        "scheduler", "start", "task", "thread",
    )

    def __init__(
        self, task: Task, scheduler: Any, actor: str, number: int, observers: Any
    ) -> None:
        self.task = task
        self.scheduler = scheduler
        self.actor = actor
        self.number = number
        self.thread = 0
        self.start: float | None = None
        self.end: float | None = None
        self.cpu: float | None = None
        self.failed = False
        self.call: Callable[[], Any] = _nothing
        self._before: float | None = None
        self._observers = observers
        self._open = [None]  # whoever pops it tells of the end
        observers.tell(Observer.call_made, self)

    @property
    def is_running(self) -> bool:
        """Whether it has begun and is not over, as far as that is known here."""
        call = self.call()
        return self.end is None and call is not None and bool(call.inside)

    def begin(self, is_alone: bool) -> None:
        """Note that this thread makes the call; `is_alone` tells that it does nothing else."""
        if is_alone:
            self.thread, self._before = get_ident(), thread_time()
        self.start = perf_counter()

    def took(self, times: CallTimes | None) -> None:
        """Note when another process made the call; None: it did not."""
        if times is None:
            return
        ahead = time() - perf_counter()
        start, end, self.cpu = times
        self.start, self.end = start - ahead, end - ahead

    def over(self, failed: bool = False) -> None:
        """Tell observers that the call is over; the first time only."""
        try:
            self._open.pop()
        except IndexError:
            return
        if self.end is None and self.start is not None:
            self.end = perf_counter()
            if self._before is not None and self.thread == get_ident():
                self.cpu = thread_time() - self._before
        self.thread, self.failed = 0, failed
        self._observers.tell(Observer.call_ended, self)


class CallTimer:
    """Times a call in the worker that makes it."""

    __slots__ = ("_before", "_start")

    def __init__(self, is_alone: bool) -> None:
        self._before = thread_time() if is_alone else None
        self._start = time()

    def times(self) -> CallTimes:
        """Return the arguments of `WatchedCall.took`; the call ends now, in its own thread."""
        cpu = None if self._before is None else thread_time() - self._before
        return self._start, time(), cpu


# -- calls --------------------------------------------------------------------------------

T = TypeVar("T")

MISSING: Any = object()  #: stands for an input value that has not arrived

ASYNC_CONCURRENCY = 1000  # calls of async methods that may be under way at once, as in Ray
_IN_CHECKPOINT = "while the actor's checkpoint was taken, after the call"


class Method:
    """A method as the function of a task, so that its calls are named and located like tasks."""

    def __init__(self, actor: str, name: str, module: str) -> None:
        self.name = name
        self.__name__ = f"{actor}.{name}"
        self.__module__ = module

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{self.__name__} is called by its actor only")


class MethodTask(Task):
    """The task of a method's call."""

    __slots__ = ()
    _owns_arguments = True


class CallFuture(TaskFuture):
    """The result of a call of a method.

    ``was_refused`` tells whether it failed without having begun, since its actor has ended.
    """

    __slots__ = ("was_refused",)

    def __init__(self, name: str, scheduler: Any) -> None:
        super().__init__(name, scheduler)
        self.was_refused = False


class ActorCall:
    """One call of a method.

    task
        Method and arguments; ``task._inputs`` are leaves or tasks of other runs.
    inputs
        The futures of their values, in that order.
    future
        The future of the result. The call holds it until it is done: calls always run.
    begun
        Whether it has begun, in this process.
    watch
        A `WatchedCall`, for its observers; None: there are no observers.
    actor
        The number of its actor, if that was made by this process.
    """

    __slots__ = (
        "__weakref__", "actor", "begun", "future", "host", "inputs", "node", "task", "watch",
    )

    engine = None  # those of actors see by themselves whether they can go on

    def __init__(
        self, task: Task, inputs: list[TaskFuture], future: CallFuture,
        watch: WatchedCall | None = None, actor: int = 0,
    ) -> None:
        self.task = task
        self.actor = actor
        self.watch = watch
        if watch is not None:
            watch.call = ref(self)
        self.inputs = inputs
        self.future = future
        self.begun = False
        self.host: Any = None  # its actor, where that is in another process
        self.node: Any = None  # of a pool, that stands for the result
        future.run = (self, 0)

    def cancel_task(self, i: int) -> None:
        """Note that the future was cancelled, so that the call does not begin."""
        if self.host is not None:
            self.host.cancel_call(self)

    def awaited_by(self, actor: WaitingActor) -> None:
        """Note that an actor sleeps until the result is there."""
        if self.actor:
            waits.add(actor, self.future, self.actor)
        else:
            self.host.awaited_by(self, actor)

    @property
    def inside(self) -> tuple[Any, ...]:
        """The workers on it, as a run lists them: the call itself, while it runs."""
        runs = self.begun or (self.host is not None and self.host.runs(self))
        return (self,) if runs else ()

    def now(self) -> tuple[Any, int]:
        """Return the run and task in progress, as a worker does."""
        return self, 0

    @property
    def driver(self) -> Any:
        """The driver of the pool whose tasks can wait for the result, or None."""
        return None if self.host is None else self.host.driver

    @property
    def nodes(self) -> list[Any]:
        """The nodes that such tasks wait for, as in a run with one task."""
        return [self.host.node_of(self)]

    @property
    def method(self) -> str:
        """The name of the method."""
        func: Any = self.task._func
        return str(func.name)


class PackedCall:
    """A call with its packed parts, as `HostPort.encode` and `HostPort.load` make them.

    arguments, flags, binding
        As `lazyflow.schedulers.remote.calls.packed_call` gives them.
    futures
        The futures of the inputs, each once.
    sources
        For each input the index of its future; None: the inputs are the futures in order.
    values
        The packed value of each future.
    missing
        An item for each value that has not arrived. It is a list, as several threads may have
        some at once.
    """

    __slots__ = (
        "_untaken", "arguments", "binding", "call", "error", "flags", "futures", "is_over",
        "missing", "sources", "values",
    )

    def __init__(self, call: ActorCall) -> None:
        self._untaken = [None]
        self.call = call
        self.arguments: Any = None
        self.flags = 0
        self.binding: Any = None
        self.error: BaseException | None = None
        self.is_over = False
        distinct = {id(f): f for f in call.inputs}
        self.futures: list[TaskFuture] = list(distinct.values())
        self.sources: tuple[int, ...] | None = None
        if len(distinct) < len(call.inputs):
            places = {key: k for k, key in enumerate(distinct)}
            self.sources = tuple([places[id(f)] for f in call.inputs])
        self.values: list[Any] = [MISSING] * len(self.futures)
        self.missing = [None] * len(self.futures)

    def take(self) -> bool:
        """Tell whether it is this thread that sends the call, or fails it: only the first one."""
        try:
            self._untaken.pop()
        except IndexError:
            return False
        return True

    def gather(self, host: Any) -> None:
        """Fill in the inputs that are done, by ``host.port``, and subscribe to the others.

        Steps that are posted there call ``host.arrived(self)`` after each that comes later.
        """
        for k, future in enumerate(self.futures):
            if future.done():
                self._input_done(host, k, future)
            else:
                future.add_callback(partial(host.port.post, self._input_came, host, k))

    def _input_came(self, host: Any, k: int, future: TaskFuture) -> None:
        if self._input_done(host, k, future):
            host.arrived(self)

    def _input_done(self, host: Any, k: int, future: TaskFuture) -> bool:
        """Take the outcome of a future; return False if the value has to be brought here."""
        value, error = future.local_outcome()
        if error is None and future.is_elsewhere():
            value = host.port.bring(value, partial(self._have, host, k))
            if value is MISSING:
                return False
        self._put(host, k, value, error)
        return True

    def _have(self, host: Any, k: int, value: Any, error: BaseException | None) -> None:
        """Receive a value that was fetched."""
        self._put(host, k, value, error)
        host.arrived(self)

    def _put(self, host: Any, k: int, value: Any, error: BaseException | None) -> None:
        if not self.is_over:  # else it was cancelled, or its actor has ended
            try:
                if error is None:
                    self.values[k] = host.port.load(value)
            except Exception as broken:
                error = host.port.unsendable(self.task, "value", broken)
            if error is not None:
                self.error = error
        self.missing.pop()

    def tell(self, error: BaseException | None = None) -> None:
        """Tell observers that the call is over, unless they know."""
        watch = self.call.watch
        if watch is not None:
            # One that was cancelled after it was sent is answered with an error, and never began.
            was_cancelled = watch.start is None and self.call.future.done()
            watch.over(failed=error is not None and not was_cancelled)

    def fail(self, error: BaseException) -> None:
        """Give the future an error, after telling observers."""
        self.tell(error)
        self.call.future.set_error(error)

    @property
    def task(self) -> Task:
        return self.call.task

    @property
    def name(self) -> str:
        return self.call.future.name


@dataclass(frozen=True, eq=False, repr=False)
class Checkpoint:
    """How the state of an actor is saved and restored.

    save, load
        Names of methods, or functions: of the object, and of the object and a state.
    every
        Number of calls from one saved state to the next.
    """

    save: str | Callable[[Any], Any]
    load: str | Callable[[Any, Any], Any]
    every: int

    def packed_state(self, instance: Any, pack: Callable[[Any], T]) -> T:
        """Return the state to keep, packed by `pack`; an error gets a note that it came of this."""
        try:
            save = self.save
            state = getattr(instance, save)() if isinstance(save, str) else save(instance)
            return pack(state)
        except Unpicklable as refused:
            refused.error.add_note(_IN_CHECKPOINT)
            raise refused.error from None
        except BaseException as error:
            error.add_note(_IN_CHECKPOINT)
            raise

    def restore(self, instance: Any, state: Any) -> None:
        """Set a new object to the saved state of one that was lost."""
        if isinstance(self.load, str):
            getattr(instance, self.load)(state)
        else:
            self.load(instance, state)


@dataclass(frozen=True, eq=False, repr=False)
class ActorSpec:
    """The description from which a scheduler makes an actor.

    Parameters
    ----------
    cls, factory
        The class, and a picklable object that has it as ``__wrapped__``.
    label
        The name of the actor in messages.
    init
        The call of its constructor.
    max_concurrency
        The most calls that may be under way at once; None: one, or many async ones.
    mutates
        Whether the values of its calls' inputs are the actor's own, copied if need be.
    number
        The actor among those of this process.
    """

    cls: type
    factory: Any
    label: str
    init: ActorCall
    max_concurrency: int | None = None
    restarts: int = 0
    checkpoint: Checkpoint | None = None
    mutates: bool = True
    number: int = 0

    @cached_property
    def is_async(self) -> bool:
        """Whether the class has methods that are coroutines."""
        return any(
            inspect.iscoroutinefunction(each)
            for base in self.cls.__mro__
            for each in vars(base).values()
        )

    @property
    def concurrency(self) -> int:
        """The most calls that may be under way at once."""
        return self.max_concurrency or (ASYNC_CONCURRENCY if self.is_async else 1)


class ActorHost(Protocol):
    """An actor as its scheduler keeps it."""

    def call(self, call: ActorCall) -> None:
        """Queue a call; its future gets the outcome. Calls begin in the order of queueing.

        Where several may be under way at once, that is the order of those whose inputs are there.
        """

    @property
    def is_over(self) -> bool:
        """Whether all later calls fail."""

    def close(self) -> None:
        """End the actor after the queued calls. Called by finalizers: must not lock."""


def finish(box: list[Any], scheduler: Any) -> None:
    """Replace the value in a box by that of the future: compute lazy values, run iterators."""
    kind = kinds[type(box[0])]
    if kind in (LAZY, COLLECTION):
        box[0] = _computed(box[0], scheduler)
    elif kind == ITERATOR:
        box[0] = IteratorItems(box[0])


def _computed(lazy: Any, scheduler: Any) -> Any:
    request = Request(config.get("num_workers"), crash_retries=config.get("crash_retries"))
    run = make_run(plan_of_lazy(lazy), request, scheduler)
    run.scheduler.start(run)
    run.scheduler.wait(run, None)
    try:
        if run.error is not None:
            raise run.error
        return run.values[run.plan.outputs[0]]
    finally:
        run.drop_values()

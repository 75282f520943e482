"""The base class of engines: their methods, their thread, and measurements of functions.

An engine is the connection to one cluster. Its thread decides which groups of tasks go there, and
runs all steps of runs and actors one after the other.

Policy: all that may change runs and groups is a step of this thread, so steps need no locks.
Whoever has something to say (a caller, a worker's report, a finalizer) posts a step, and goes on.
A step that fails ends the run that it belongs to, never the thread. Functions are measured
by digest, so that a later run knows the costs of the same functions.

A group goes and comes back like this::

    EngineRun.submit -> Engine.submit -> the cluster: a worker runs the group
                                            |
    EngineRun.reported <- _received <- post <- receive(report), in any thread

State, and who writes it::

    costs, sizes :: {digest: seconds or bytes}   `learn`, `learn_size`: the engine's thread
    links :: {name: ActorLink}                   links, when they begin and end
    closing :: bool                              `close`, in any thread; never False again
    _groups :: {number: (run, group)}            the engine's thread: submitted and not reported
    _steps :: SimpleQueue of (step, arguments)   any thread puts, the engine's thread gets
    _later :: heap of (time, number, object, method)    the engine's thread
"""

from __future__ import annotations

import pickle
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from heapq import heappop, heappush
from ipaddress import ip_address
from itertools import count
from queue import Empty, SimpleQueue
from time import monotonic
from types import MethodType
from typing import Any
from weakref import ref

from lazyflow.clock import Clock
from lazyflow.graph.options import Options
from lazyflow.logs import ERROR, log
from lazyflow.schedulers.actors.ports import ActorLink
from lazyflow.schedulers.actors.remote_actor import RemoteActor
from lazyflow.schedulers.cluster.outcome import GroupOutcome
from lazyflow.schedulers.core.base import hosts_for_workers
from lazyflow.store.pickling.functions import FunctionCache, pack_function

_MOST_TOLD = 5  # groups in an error of lazyflow's own
_MOST_COSTS = 10_000  # functions whose times are remembered; a guess

_numbers = count(1)


def note_host(host: str | None) -> None:
    """Note an address by which workers on other machines reach this one, if it is one."""
    if host and not ip_address(host).is_loopback:
        hosts_for_workers[host] = None


class HeldValue:
    """A value that an engine keeps: an `EngineResult`, or a `Put`.

    handle
        The engine's handle; None if the engine does not keep it now.
    number
        The number of the value in the `GroupOutcome` that the engine has.
    size
        Its bytes, about; None: unknown.
    """

    __slots__ = ("__weakref__", "engine", "handle", "number", "size")

    _lazyflow_remote = True

    def __init__(self, engine: Engine, handle: Any, number: int, size: int | None) -> None:
        self.engine = engine
        self.handle = handle
        self.number = number
        self.size = size

    def current_handle(self) -> Any:
        """Return the handle, after sending the value if need be."""
        return self.handle

    def is_held_by(self, engine: Engine) -> bool:
        """Return whether an engine keeps the value, or can have it sent."""
        return self.engine is engine and self.handle is not None


class Engine(ABC):
    """A connection to one cluster, with the thread that decides which groups go there.

    packed_functions
        Digest and payload of functions, each pickled once while it lives.
    costs
        Mean seconds of a call, by digest of the function.
    sizes
        Bytes of results, by digest of the function: of large ones rather than of small ones.
    has_priorities
        Whether the cluster orders submitted groups by priority; else groups are held back.
    closing
        Whether steps that are posted now are not run any more.
    links
        The links to actors, by the names in their reports.
    post_end
        A C function, as the callback of weak references whose `then` is a step.
    """

    has_priorities = True

    def __init__(self, now: Clock = monotonic) -> None:
        self.now = now
        self.packed_functions = FunctionCache(pack_function)
        self.costs: OrderedDict[bytes, float] = OrderedDict()
        self.sizes: OrderedDict[bytes, int] = OrderedDict()
        self.closing = False
        self.links: dict[str, Any] = {}
        self._groups: dict[int, tuple[Any, Any]] = {}  # runs and groups, by number in reports
        self._steps: SimpleQueue[Any] = SimpleQueue()
        self._later: list[tuple[float, int, ref[Any], Any]] = []  # steps that are not due yet
        self.post_end: Callable[[Any], None] = self._steps.put
        self._thread = threading.Thread(target=self._serve, name="lazyflow-engine", daemon=True)
        self._thread.start()

    # -- the thread -------------------------------------------------------------------------

    def post(self, step: Callable[..., None], *details: Any) -> None:
        """Queue a step for the engine's thread. Never locks."""
        self._steps.put((step, details))

    def later(self, seconds: float, step: MethodType) -> None:
        """Queue a method as a step that is due in some time, unless its object is gone by then.

        Called in the engine's thread.
        """
        due = self.now() + seconds
        heappush(self._later, (due, next(_numbers), ref(step.__self__), step.__func__))

    def _next(self) -> Any:
        while self._later:
            try:
                return self._steps.get(timeout=max(self._later[0][0] - self.now(), 0.0))
            except Empty:
                _, _, known, function = heappop(self._later)
                thing = known()
                if thing is not None:
                    return MethodType(function, thing), ()
        return self._steps.get()

    def _serve(self) -> None:
        while True:
            item = self._next()
            if item is None:
                return
            step, details = item if type(item) is tuple else item.then
            try:
                step(*details)
            except BaseException as bug:  # of lazyflow, or the engine is gone: the run must end
                while isinstance(step, partial):
                    step = step.func
                concerned = getattr(step, "__self__", None), *details
                runs = [run for run in concerned if hasattr(run, "cancel")]
                if runs:
                    _tell_story(bug, runs[0])
                    runs[0].cancel(self.translated(bug))
                else:
                    log(ERROR, "a step of an engine failed", error=bug)
                del concerned, runs
            item = step = details = None  # hold nothing meanwhile

    def leave_runs(self, error: BaseException) -> None:
        """In the child of a fork, end the runs that are under way: for this process alone."""
        for run in {run for run, _ in self._groups.values()}:
            run.observers.clear()  # they hear of it in the parent
            run.cancel(error)

    def close(self) -> None:
        """End the thread after the queued steps. Never locks."""
        self.closing = True
        self._steps.put(None)

    def end_thread(self) -> None:
        """End the thread after the queued steps, and wait for it."""
        self.close()
        if threading.current_thread() is not self._thread:
            self._thread.join(2.0)

    # -- measurements of functions ------------------------------------------------------------

    def learn(self, digest: bytes, count: int, seconds: float) -> None:
        """Update the mean time of calls of a function."""
        mean = seconds / count
        _remember(self.costs, digest, (self.costs.get(digest, mean) + mean) / 2)

    def learn_size(self, digest: bytes, size: int) -> bool:
        """Note the bytes of a result of a function; return whether it was the first.

        Of large ones at once, and of small ones as they come again and again.
        """
        known = self.sizes.get(digest)
        _remember(self.sizes, digest, max(size, (size + (known or 0)) // 2))
        return known is None

    # -- reports ------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Queue the report of a worker. Called by any thread."""
        self.post(self._received, data)

    def _received(self, data: bytes) -> None:
        report = pickle.loads(data)
        if type(report[0]) is str:
            link = self.links.get(report[0])
            if link is not None:
                link.receive(pickle.loads(report[1]))
            return
        run_and_group = self._groups.pop(report[0], None)
        if run_and_group is not None:
            run, group = run_and_group
            self.post(run.reported, group, report)

    def lookout(self) -> Iterator[float]:
        """Yield times to wait; each next step may warn the waiting caller of a problem."""
        return iter(())

    # -- for each engine: values --------------------------------------------------------------

    def holds(self, value: Any) -> bool:
        """Return whether this engine keeps a value."""
        return issubclass(type(value), HeldValue) and value.is_held_by(self)

    @abstractmethod
    def translated(self, error: BaseException) -> BaseException:
        """Return the error that the caller sees in the place of one of the engine."""

    @abstractmethod
    def send(self, outcome: GroupOutcome) -> Any:
        """Send a value to the cluster; return its handle."""

    @abstractmethod
    def adopt(self, theirs: Any, then: Callable[[BaseException | None], None]) -> Any:
        """Make an outcome of a future of the engine's own; return its handle.

        `then` is called, in any thread, when it is there, or with the error of the future.
        """

    @abstractmethod
    def is_lost(self, handle: Any) -> bool:
        """Return whether the value of a handle is lost."""

    @abstractmethod
    def bring(self, results: Sequence[Any]) -> None:
        """Fetch the outcomes of results."""

    @abstractmethod
    def token(self, handle: Any) -> Any:
        """Return the form of a handle by which an actor fetches the value."""

    # -- for each engine: groups of tasks, and actors -------------------------------------------

    def annotated_retries(self) -> int:
        """Return the retries that annotations of the engine's own ask for where this is called."""
        return 0

    @abstractmethod
    def width(self) -> int:
        """Return how many tasks the workers can run at once."""

    def is_within(self, limit: int) -> bool:
        """Return whether all workers that are there run no more than `limit` tasks at once.

        Then groups need not wait here for each other's reports.
        """
        return False  # where that is not known

    def next_place(self) -> str:
        """Return where a group should run, each worker in turn; empty if that can't be asked for.
        """
        return ""

    def hear_of_workers(self) -> None:
        """From now on, have runs hand over more when workers join. Some engines can't."""
        return

    def widened(self) -> None:
        """Have runs hand over more: a worker has joined. Called in the engine's thread."""
        for run in {run for run, _ in self._groups.values()}:
            self.post(run.submit)

    @abstractmethod
    def memory(self) -> float:
        """Return the bytes that the smallest worker, or machine, has for values; or infinity."""

    def begun(self, group: Any) -> int:
        """Return how often a group that is counted has begun, where its runs have to be asked."""
        return 0

    @abstractmethod
    def refusal_of(self, options: Options) -> str:
        """Return why tasks with these options can't run; empty if they can."""

    def refusal_of_once(self) -> str:
        """Return why a task may run twice in any case if its worker dies; empty if it does not."""
        return ""

    @abstractmethod
    def new_handle(self, run: Any, group: Any, is_part: bool = False) -> Any:
        """Return the handle of a group that is about to be submitted, or of a part of it."""

    @abstractmethod
    def drop(self, handle: Any) -> None:
        """Release the result behind a handle, before the next groups are submitted."""

    @abstractmethod
    def submit(self, submissions: Sequence[Any]) -> None:
        """Submit groups to the cluster."""

    @abstractmethod
    def give_up(self, run: Any, groups: Sequence[Any]) -> None:
        """Cancel groups, running ones too."""

    @abstractmethod
    def running(self, run: Any) -> list[tuple[str, int]]:
        """Return worker and number of each task of a run that runs now."""

    @abstractmethod
    def new_link(self, actor: RemoteActor) -> ActorLink:
        """Start an engine's actor for a `RemoteActor`; return the way to it."""


def _tell_story(bug: BaseException, run: Any) -> None:
    """Add to an error of lazyflow's own which groups of a run were under way."""
    with suppress(Exception):  # memory may have run out, or it is no run of groups
        for group in list(run.under_way.values())[:_MOST_TOLD]:
            more = len(group.members) - 1
            bug.add_note(
                f"group {group.number} of run {run.name}, of {run.task_name(group.members[0])}"
                + (f" and {more:,} more" if more else "")
                + f": {group.tries} tries after losses, {group.runs} runs left"
            )


def _remember(known: OrderedDict[bytes, Any], digest: bytes, value: Any) -> None:
    """Note a measurement of a function; forget the oldest one."""
    known[digest] = value
    known.move_to_end(digest)
    if len(known) > _MOST_COSTS:
        known.popitem(last=False)

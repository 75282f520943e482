"""The part of a scheduler that is the same for every engine."""

from __future__ import annotations

import logging
import pickle
import threading
import warnings
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue
from time import monotonic
from typing import Any

from lazyflow.departures import WeakTable
from lazyflow.errors import LazyflowWarning
from lazyflow.graph.options import Options
from lazyflow.graph.plan import Plan
from lazyflow.graph.task import Task, place_text, task_name, users_depth
from lazyflow.schedulers.actors.calls import Call, Spec
from lazyflow.schedulers.cluster.actor_host import ActorHost
from lazyflow.schedulers.cluster.connection import Line
from lazyflow.schedulers.cluster.groups import Group
from lazyflow.schedulers.cluster.results import Put, Remote
from lazyflow.schedulers.cluster.run import EngineRun
from lazyflow.schedulers.cluster.work import Inside
from lazyflow.schedulers.core.base import EndsTasks, KeepsActors, MakesRuns, Puts, Request
from lazyflow.schedulers.core.future import wait_watching
from lazyflow.schedulers.core.lifecycle import Lifecycle, scheduler_here
from lazyflow.schedulers.core.run import Run
from lazyflow.schedulers.remote import environment
from lazyflow.schedulers.remote.versions import versions
from lazyflow.store.pickling.functions import FunctionCache, pack_function

_MOST_COSTS = 10_000  # functions whose times are remembered
_GRACE = 2.0  # seconds that the end of actors may take


class Engine(ABC):
    """A connection to one cluster, and the thread that decides what goes there.

    costs
        Seconds that a call takes, by digest of the function.
    gives_short
        Whether all its results were short so far, as those are that come with reports.
    has_priorities
        Of what was handed over, higher priorities go first; else it is kept back for that.
    """

    has_priorities = True

    def __init__(self) -> None:
        self.packed_functions = FunctionCache(pack_function)
        self.costs: OrderedDict[bytes, float] = OrderedDict()
        self.gives_short: OrderedDict[bytes, bool] = OrderedDict()
        self._steps: SimpleQueue[Any] = SimpleQueue()
        self.post_end = self._steps.put  # a callback, in C, of weak references that say a step
        self._groups: dict[int, tuple[EngineRun, Group]] = {}
        self.actors: set[ActorHost] = set()
        self.lines: dict[str, Any] = {}  # to actors that send reports as groups do, by their names
        self.closing = False  # nothing that is posted will be done
        self._thread = threading.Thread(target=self._serve, name="lazyflow-engine", daemon=True)
        self._thread.start()

    # -- the thread -------------------------------------------------------------------------

    def post(self, step: Callable[..., None], *details: Any) -> None:
        """Have a step of a run done by the thread. Never locks."""
        self._steps.put((step, details))

    def _serve(self) -> None:
        while True:
            item = self._steps.get()
            if item is None:
                return
            step, details = item if type(item) is tuple else item.then
            try:
                step(*details)
            except BaseException as bug:  # of ours, or the engine is gone: the caller must hear it
                whose = getattr(step, "__self__", None)
                if isinstance(whose, EngineRun | ActorHost):
                    whose.cancel(self.translated(bug))
                else:
                    logging.getLogger("lazyflow").exception("a step of an engine failed")
                whose = None
            item = step = details = None  # hold nothing meanwhile

    def close(self) -> None:
        """Let the thread end when it has done what was posted. Never locks."""
        self.closing = True
        self._steps.put(None)

    def end_thread(self) -> None:
        """Let the thread end when it has done what was posted, and wait for that."""
        self.close()
        if threading.current_thread() is not self._thread:
            self._thread.join(2.0)

    # -- runs -------------------------------------------------------------------------------

    def learn(self, digest: bytes, count: int, seconds: float) -> None:
        """Note what calls of a function took."""
        mean = seconds / count
        known = self.costs.pop(digest, None)
        self.costs[digest] = mean if known is None else (known + mean) / 2
        if len(self.costs) > _MOST_COSTS:
            self.costs.popitem(last=False)

    def learn_size(self, digest: bytes, is_short: bool) -> bool:
        """Note whether a result of a function was short; tell whether that is new."""
        known = self.gives_short.pop(digest, None)
        self.gives_short[digest] = is_short and known is not False
        if len(self.gives_short) > _MOST_COSTS:
            self.gives_short.popitem(last=False)
        return known is None

    def register(self, run: EngineRun, group: Group) -> None:
        """Remember whose group a number is."""
        self._groups[group.number] = (run, group)

    def heard(self, data: bytes) -> None:
        """Take the report of a worker, from any thread."""
        self.post(self._heard, data)

    def _heard(self, data: bytes) -> None:
        report = pickle.loads(data)
        if type(report[0]) is str:
            line = self.lines.get(report[0])
            if line is not None:
                line.heard(*report[1:])
            return
        found = self._groups.pop(report[0], None)
        if found is not None:
            self.post(found[0].reported, found[1], report)

    def holds(self, value: Any) -> bool:
        """Tell whether a value is one that this engine keeps."""
        if type(value) is Remote:
            return value.engine is self and value.handle is not None
        return type(value) is Put and value.engine is self

    def lookout(self) -> Iterator[float]:
        """Yield how long somebody may wait before the next look, which says what is amiss."""
        return iter(())

    # -- for subclasses ---------------------------------------------------------------------

    @abstractmethod
    def width(self) -> int:
        """Return how many tasks the workers can run at once."""

    @abstractmethod
    def new_handle(self, group: Group) -> Any:
        """Return what will stand for a group that is about to be submitted."""

    @abstractmethod
    def submit(self, calls: Sequence[tuple[Any, ...]]) -> None:
        """Hand groups over: (run, group, payload, deps, options) each."""

    @abstractmethod
    def cancel(self, run: EngineRun, groups: Sequence[Group]) -> None:
        """Give groups up, those that are running too."""

    @abstractmethod
    def send(self, outcome: Any) -> Any:
        """Have a value kept; return its handle."""

    @abstractmethod
    def is_lost(self, handle: Any) -> bool:
        """Tell whether what a handle stands for is gone."""

    @abstractmethod
    def bring(self, remotes: Sequence[Remote]) -> None:
        """Fetch the outcomes of those that have no short value."""

    @abstractmethod
    def new_line(self, host: ActorHost) -> Line:
        """Have an actor of the engine made for a host; return the way to it."""

    @abstractmethod
    def token(self, value: Remote | Put) -> Any:
        """Return what an actor fetches a value by that this engine holds."""

    @abstractmethod
    def running(self, run: EngineRun) -> list[tuple[str, int]]:
        """Return worker and number of the task for what runs now of a run."""

    @abstractmethod
    def refusal_of(self, options: Options) -> str:
        """Return why tasks with these resources and workers can't be run; empty: they can."""

    @abstractmethod
    def translated(self, error: BaseException) -> BaseException:
        """Return an error of the engine as the caller should see it."""


class EngineScheduler(MakesRuns, Puts, EndsTasks, KeepsActors, ABC):
    """A scheduler whose plans an engine runs."""

    name: str
    options = frozenset({"priority", "resources"})

    def __init__(self) -> None:
        self._hosts: WeakTable[ActorHost, None] = WeakTable()
        self._reloads = versions.look()  # of the user's modules, as far as it was said

    @abstractmethod
    def engine(self) -> Engine:
        """Return the connection, made if there is none."""

    def make_run(self, plan: Plan, request: Request) -> Lifecycle:
        """Return the run of a plan; inside a task, one in this thread."""
        here = self._here()
        if here is not None:
            return Run(plan, request, here)
        run = EngineRun(plan, request, self)
        run.engine = self.engine()
        return run

    def start(self, run: Any) -> None:
        """Begin a run."""
        if versions.look() != self._reloads:
            self._say_reloads()
        run.surroundings = run.context.copy().run(environment.packed)
        run.begin()

    def _say_reloads(self) -> None:
        reloaded, self._reloads = versions.reloaded[self._reloads :], len(versions.reloaded)
        warnings.warn(
            f"{', '.join(reloaded)} was reloaded: the workers of scheduler=\"{self.name}\" keep "
            "what they imported, and go on with that. Start them again: lazyflow.shutdown() ends a "
            "cluster of lazyflow's own, client.restart() the workers of a distributed.Client.",
            LazyflowWarning, stacklevel=users_depth(),
        )

    def offer(self, run: Any, count: int) -> None:
        """Nothing becomes ready outside of the engine's thread."""
        return

    def wait(self, run: Any, timeout: float | None) -> bool:
        """Sleep until the run is over."""
        engines = [run.engine] if type(run) is EngineRun else []
        return wait_watching(engines, run.wait, timeout)

    def abandon(self, run: Any) -> None:
        """Groups of a run that was given up are cancelled when its queue is cleared."""
        return

    def end_task(self, run: Any, i: int) -> None:
        """Give a running task up, after its future was cancelled: as when nobody needs it."""
        if type(run) is Call:
            if run.host is not None:
                run.host.engine.post(run.host.force, run)
        else:
            run.engine.post(run.culled)

    @property
    def actors_share_memory(self) -> bool:
        """Whether the arguments of an actor's calls reach it as the caller has them."""
        return self._here() is not None

    def make_actor(self, spec: Spec) -> Any:
        """Return where an actor lives: with the engine; inside a task, in this thread."""
        here = self._here()
        if here is not None:
            return here.make_actor(spec)
        host = ActorHost(spec, self, self.engine())
        self._hosts[host] = None
        return host

    def end_actors(self) -> None:
        """Fail the calls of actors that were made by this; returns when that is done."""
        posted = []
        for host in tuple(self._hosts.living()):
            if not host.is_over:
                done = threading.Event()
                host.engine.post(host.shut_down)
                host.engine.post(done.set)
                posted.append(done)
        deadline = monotonic() + _GRACE
        for done in posted:
            done.wait(max(0.0, deadline - monotonic()))

    def leave(self) -> None:
        """In the child of a fork: actors and the engine's thread are the parent's."""
        for host in tuple(self._hosts.living()):
            host.engine.closing = True

    def _here(self) -> Inside | None:
        here = scheduler_here.get()
        return here if type(here) is Inside and here.name == self.name else None

    def put(self, value: Any, task: Task) -> Put:
        """Hand a snapshot of a value to the engine; `task` has its name and place.

        Raises
        ------
        SerializationError
            It can't be pickled.
        """
        owner = f"{task_name(task)}, at {place_text(task)},"
        held = Put(self.engine(), value, copy=True, owner=owner)
        held.send()
        return held

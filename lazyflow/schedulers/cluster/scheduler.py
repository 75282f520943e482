"""The part of a scheduler that is the same for every engine.

A run becomes an `EngineRun` of `engine()`, which a subclass connects to when it is first needed.
Inside a task of this scheduler (`_here`) all is done in the task's own thread by `Inside`
(work.py): a nested compute never waits for a place in the cluster. State::

    _actors :: weak {RemoteActor: Engine}    those that `shutdown` and a fork end
    _reloads :: int                          reloads of the user's modules that were warned of
"""

from __future__ import annotations

import threading
import warnings
from abc import ABC, abstractmethod
from typing import Any

from lazyflow.clock import Deadline
from lazyflow.errors import LazyflowWarning
from lazyflow.finalizers import WeakTable
from lazyflow.graph.plan import Plan
from lazyflow.graph.task import Task, place_text, task_name, users_depth
from lazyflow.schedulers.actors.calls import ActorCall, ActorSpec
from lazyflow.schedulers.actors.ports import shut_down
from lazyflow.schedulers.actors.remote_actor import RemoteActor
from lazyflow.schedulers.cluster.actors.link import EnginePort
from lazyflow.schedulers.cluster.engine import Engine
from lazyflow.schedulers.cluster.results import EngineResult, Put
from lazyflow.schedulers.cluster.run import EngineRun
from lazyflow.schedulers.cluster.work import Inside
from lazyflow.schedulers.core.base import EndsTasks, KeepsActors, MakesRuns, Puts, Request
from lazyflow.schedulers.core.future import TaskFuture, wait_watching
from lazyflow.schedulers.core.run import BaseRun
from lazyflow.schedulers.core.task_resources import scheduler_here
from lazyflow.schedulers.remote.environment import versions

_GRACE = 2.0  # seconds that the end of actors may take; a guess


class EngineScheduler(MakesRuns, Puts, EndsTasks, KeepsActors, ABC):
    """A scheduler whose plans an engine runs."""

    name: str
    options = frozenset({"priority", "resources", "crash_retries"})

    def __init__(self) -> None:
        self._actors: WeakTable[RemoteActor, Engine] = WeakTable()
        self._reloads = versions.look()  # of the user's modules that were warned of

    @abstractmethod
    def engine(self) -> Engine:
        """Return the engine, connecting if need be."""

    def width(self) -> int:
        """Return how many tasks the workers can run at once; inside a task, one."""
        return 1 if self._here() is not None else max(1, self.engine().width())

    def make_run(self, plan: Plan, request: Request) -> BaseRun:
        """Return the run of a plan; inside a task, one in this thread."""
        here = self._here()
        if here is not None:
            return here.make_run(plan, request)
        return EngineRun(plan, request, self, self.engine())

    def start(self, run: Any) -> None:
        """Begin a run."""
        if versions.look() != self._reloads:
            self._say_reloads()
        run.begin()

    def _say_reloads(self) -> None:
        reloaded, self._reloads = versions.reloaded[self._reloads :], len(versions.reloaded)
        warnings.warn(
            f"{', '.join(reloaded)} was reloaded: the workers of scheduler=\"{self.name}\" keep "
            "the old version. Restart them: lazyflow.shutdown() ends a cluster of lazyflow's own, "
            "client.restart() the workers of a distributed.Client.",
            LazyflowWarning, stacklevel=users_depth(),
        )

    def offer(self, run: Any, count: int) -> None:
        """Do nothing: tasks become ready in the engine's thread only."""
        return

    def wait(self, run: Any, timeout: float | None) -> bool:
        """Sleep until the run is over."""
        engines = [run.engine] if type(run) is EngineRun else []
        return wait_watching(engines, run.wait, timeout)

    def abandon(self, run: Any) -> None:
        """Do nothing: clearing the queue of a run cancels its groups."""
        return

    def end_task(self, run: Any, i: int) -> None:
        """Give up a running task whose future was cancelled, as one that is not needed."""
        if type(run) is ActorCall:
            if run.host is not None:
                run.host.force(run)
        else:
            run.engine.post(run.culled)

    @property
    def actors_share_memory(self) -> bool:
        """Whether the arguments of an actor's calls reach it as the caller has them."""
        return self._here() is not None

    def make_actor(self, spec: ActorSpec) -> Any:
        """Start an actor on the engine; inside a task, in this thread."""
        here = self._here()
        if here is not None:
            return here.make_actor(spec)
        engine = self.engine()
        actor = RemoteActor(spec, EnginePort(engine))
        self._actors[actor] = engine
        return actor

    def end_actors(self) -> None:
        """End the actors of this scheduler; return when their calls have failed."""
        posted = []
        for actor, engine in self._living_actors():
            if not actor.is_over:
                done = threading.Event()
                engine.post(actor.cancel, shut_down(actor.spec.label))
                engine.post(done.set)
                posted.append(done)
        deadline = Deadline(_GRACE)
        for done in posted:
            done.wait(deadline.left())

    def leave(self) -> None:
        """In the child of a fork, refuse calls: actors and threads are the parent's."""
        for _, engine in self._living_actors():
            engine.closing = True

    def _living_actors(self) -> list[tuple[RemoteActor, Engine]]:
        actors = tuple(self._actors.living())
        return [(a, engine) for a in actors if (engine := self._actors.get(a)) is not None]

    def _here(self) -> Inside | None:
        here = scheduler_here.get()
        return here if type(here) is Inside and here.name == self.name else None

    def adopt(self, theirs: Any, inner: TaskFuture, task: Task) -> None:
        """Have a future get the value of one of the engine's, once that is there, or its error."""
        engine = self.engine()

        def there(error: BaseException | None) -> None:
            if error is not None:
                inner.set_error(error)
            else:
                inner.set_value(EngineResult(engine, handle, 0, task, None, None))

        handle = engine.adopt(theirs, there)

    def put(self, value: Any, task: Task) -> Put:
        """Send a snapshot of a value to the engine; `task` has its name and place.

        Raises
        ------
        SerializationError
            It can't be pickled.
        """
        owner = f"{task_name(task)}, at {place_text(task)},"
        held = Put(self.engine(), value, copy=True, owner=owner)
        held.current_handle()  # sends it
        return held

"""The common part of engines: the thread that decides, and what is known of functions."""

from __future__ import annotations

import logging
import pickle
import threading
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import partial
from queue import SimpleQueue
from typing import Any

from lazyflow.schedulers.actors.remote_actor import RemoteActor
from lazyflow.schedulers.cluster.actor_link import EngineLink
from lazyflow.schedulers.cluster.engine import Engine, StepOwner
from lazyflow.schedulers.cluster.groups import TaskGroup
from lazyflow.schedulers.cluster.results import EngineResult, Put
from lazyflow.schedulers.cluster.run import EngineRun
from lazyflow.schedulers.cluster.work import GroupReport
from lazyflow.store.pickling.functions import FunctionCache, pack_function

_MOST_COSTS = 10_000  # functions whose times are remembered


class EngineConnection(Engine):
    """The base class of engines. The protocol `Engine` documents its use."""

    has_priorities = True

    def __init__(self) -> None:
        self.packed_functions = FunctionCache(pack_function)
        self.costs: OrderedDict[bytes, float] = OrderedDict()
        self.gives_short: OrderedDict[bytes, bool] = OrderedDict()
        self._steps: SimpleQueue[Any] = SimpleQueue()
        self.post_end: Callable[[Any], None] = self._steps.put
        self._groups: dict[int, tuple[EngineRun, TaskGroup]] = {}
        self.links: dict[str, Any] = {}  # to actors, by the names in their reports
        self.closing = False  # steps that are posted now are not run any more
        self._thread = threading.Thread(target=self._serve, name="lazyflow-engine", daemon=True)
        self._thread.start()

    # -- the thread -------------------------------------------------------------------------

    def post(self, step: Callable[..., None], *details: Any) -> None:
        """Queue a step for the engine's thread. Never locks."""
        self._steps.put((step, details))

    def _serve(self) -> None:
        while True:
            item = self._steps.get()
            if item is None:
                return
            step, details = item if type(item) is tuple else item.then
            try:
                step(*details)
            except BaseException as bug:  # of lazyflow, or the engine is gone: the run must end
                while isinstance(step, partial):
                    step = step.func
                whose = getattr(step, "__self__", None)
                if isinstance(whose, StepOwner):
                    whose.cancel(self.translated(bug))
                else:
                    logging.getLogger("lazyflow").exception("a step of an engine failed")
                whose = None
            item = step = details = None  # hold nothing meanwhile

    def close(self) -> None:
        """End the thread after the queued steps. Never locks."""
        self.closing = True
        self._steps.put(None)

    def end_thread(self) -> None:
        """End the thread after the queued steps, and wait for it."""
        self.close()
        if threading.current_thread() is not self._thread:
            self._thread.join(2.0)

    # -- runs -------------------------------------------------------------------------------

    def learn(self, digest: bytes, count: int, seconds: float) -> None:
        """Update the mean time of calls of a function."""
        mean = seconds / count
        known = self.costs.pop(digest, None)
        self.costs[digest] = mean if known is None else (known + mean) / 2
        if len(self.costs) > _MOST_COSTS:
            self.costs.popitem(last=False)

    def learn_size(self, digest: bytes, is_short: bool) -> bool:
        """Note whether a result of a function was short; return whether it was the first."""
        known = self.gives_short.pop(digest, None)
        self.gives_short[digest] = is_short and known is not False
        if len(self.gives_short) > _MOST_COSTS:
            self.gives_short.popitem(last=False)
        return known is None

    def register(self, run: EngineRun, group: TaskGroup) -> None:
        """Register a group, to whose number reports refer."""
        self._groups[group.number] = (run, group)

    def receive(self, data: bytes) -> None:
        """Queue the report of a worker. Called by any thread."""
        self.post(self._received, data)

    def _received(self, data: bytes) -> None:
        report = pickle.loads(data)
        if type(report[0]) is str:
            link = self.links.get(report[0])
            if link is not None:
                link.receive(report[1])
            return
        found = self._groups.pop(report[0], None)
        if found is not None:
            self.post(found[0].reported, found[1], GroupReport(*report))

    def holds(self, value: Any) -> bool:
        """Return whether this engine keeps a value."""
        if type(value) is EngineResult:
            return value.engine is self and value.handle is not None
        return type(value) is Put and value.engine is self

    def lookout(self) -> Iterator[float]:
        """Yield times to wait; each next step may warn the waiting caller of a problem."""
        return iter(())

    # -- for subclasses ---------------------------------------------------------------------

    @abstractmethod
    def new_link(self, actor: RemoteActor) -> EngineLink:
        """Start an engine's actor for a `RemoteActor`; return the way to it."""

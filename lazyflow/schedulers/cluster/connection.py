"""A connection to one cluster: the thread that decides what goes there, and what it has learnt."""

from __future__ import annotations

import logging
import pickle
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Any

from lazyflow.graph.options import Options
from lazyflow.schedulers.actors.remote_actor import RemoteActor
from lazyflow.schedulers.cluster.actor_link import EngineLink
from lazyflow.schedulers.cluster.engine import StepOwner
from lazyflow.schedulers.cluster.groups import Submission, TaskGroup
from lazyflow.schedulers.cluster.results import EngineResult, Put
from lazyflow.schedulers.cluster.run import EngineRun
from lazyflow.schedulers.cluster.work import GroupReport
from lazyflow.store.pickling.functions import FunctionCache, pack_function

_MOST_COSTS = 10_000  # functions whose times are remembered


class EngineConnection(ABC):
    """What all engines have in common; `Engine` says what it is used for."""

    has_priorities = True

    def __init__(self) -> None:
        self.packed_functions = FunctionCache(pack_function)
        self.costs: OrderedDict[bytes, float] = OrderedDict()
        self.gives_short: OrderedDict[bytes, bool] = OrderedDict()
        self._steps: SimpleQueue[Any] = SimpleQueue()
        self.post_end: Callable[[Any], None] = self._steps.put
        self._groups: dict[int, tuple[EngineRun, TaskGroup]] = {}
        self.links: dict[str, Any] = {}  # to actors that send reports as groups do, by their names
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
            except BaseException as bug:  # of ours, or the engine is gone: the caller must get it
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

    def register(self, run: EngineRun, group: TaskGroup) -> None:
        """Remember whose group a number is."""
        self._groups[group.number] = (run, group)

    def receive(self, data: bytes) -> None:
        """Take the report of a worker, from any thread."""
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
        """Tell whether a value is one that this engine keeps."""
        if type(value) is EngineResult:
            return value.engine is self and value.handle is not None
        return type(value) is Put and value.engine is self

    def lookout(self) -> Iterator[float]:
        """Yield how long a caller may wait before the next step, which warns of what is amiss."""
        return iter(())

    # -- for subclasses ---------------------------------------------------------------------

    @abstractmethod
    def width(self) -> int:
        """Return how many tasks the workers can run at once."""

    @abstractmethod
    def new_handle(self, group: TaskGroup) -> Any:
        """Return what will stand for a group that is about to be submitted."""

    @abstractmethod
    def submit(self, submissions: Sequence[Submission]) -> None:
        """Hand groups over."""

    @abstractmethod
    def give_up(self, run: EngineRun, groups: Sequence[TaskGroup]) -> None:
        """Give groups up, those that are running too."""

    @abstractmethod
    def send(self, outcome: Any) -> Any:
        """Have a value kept; return its handle."""

    @abstractmethod
    def is_lost(self, handle: Any) -> bool:
        """Tell whether what a handle stands for is gone."""

    @abstractmethod
    def bring(self, results: Sequence[EngineResult]) -> None:
        """Fetch the outcomes of those that have no short value."""

    @abstractmethod
    def new_link(self, actor: RemoteActor) -> EngineLink:
        """Have an actor of the engine made for one of ours; return the way to it."""

    @abstractmethod
    def token(self, handle: Any) -> Any:
        """Return what an actor fetches a value by."""

    @abstractmethod
    def running(self, run: EngineRun) -> list[tuple[str, int]]:
        """Return worker and number of the task for what runs now of a run."""

    @abstractmethod
    def refusal_of(self, options: Options) -> str:
        """Return why tasks with these resources and workers can't be run; empty: they can."""

    @abstractmethod
    def translated(self, error: BaseException) -> BaseException:
        """Return an error of the engine as the caller should see it."""

"""Runs whose tasks other processes compute, and values that stay there, as others see them."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from lazyflow.errors import Cancelled, SerializationError
from lazyflow.graph.task import Task, task_name
from lazyflow.schedulers.core.base import Request, Worker
from lazyflow.schedulers.core.current_worker import asleep
from lazyflow.schedulers.core.errors.failures import dressed, is_users_interrupt, told
from lazyflow.schedulers.core.event import Gate
from lazyflow.schedulers.core.lifecycle import Lifecycle, plan_of
from lazyflow.schedulers.core.observing import RunObservers
from lazyflow.schedulers.processes.decisions.nodes import Literal
from lazyflow.schedulers.remote.task_stub import name_only
from lazyflow.store.owned import copied
from lazyflow.store.pickling.pickler import loads_owned
from lazyflow.store.pickling.serialize import Encoded, decode

if TYPE_CHECKING:
    from lazyflow.schedulers.processes.decisions.nodes import Job, Node
    from lazyflow.schedulers.processes.parent.driver import Driver
    from lazyflow.schedulers.processes.parent.functions import Function


_numbers = count(1)


class _Nudge:
    """In the place of `Run.attention`: whoever appends to it wakes the driver. Never locks."""

    def __init__(self, run: RemoteRun) -> None:
        self._run = weakref.ref(run)

    def append(self, _: Any) -> None:
        run = self._run()
        if run is not None:
            run._post("culled")


class RemoteRun(Lifecycle):
    """A run on worker processes; everything but waiting happens in the driver's thread."""

    job: Job
    driver: Any = None  # a Driver, from `start` on
    is_known = False  # whether the driver has taken it in
    surroundings: bytes

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.attention = _Nudge(self)
        self.number = next(_numbers)
        self.nodes: list[Node] = []  # by number in the plan
        self.wanted: set[int] = set()  # numbers of results that are not there yet
        self.told_of: dict[int, BaseException] = {}  # failures that observers have heard of
        self.functions: dict[int, Function] = {}  # of its tasks
        self.literals: dict[Any, Any] = {}  # memory of arguments that was copied for workers

    def task(self, i: int) -> Task:
        """Return the task of a number."""
        return self.plan.tasks[i]

    def begin(self) -> None:
        """Hand a run that a task turned into to the workers."""
        self.scheduler.begin(self)

    def deliver(self, i: int, value: Any) -> None:
        """Take what a run made in the place of task `i`."""
        self._post("delivered", i, value)

    def refuse(self, i: int, error: BaseException) -> None:
        """Take the failure of what was made in the place of task `i`."""
        self._post("refused", i, error)

    def _clear_queue(self) -> None:
        self._post("end")

    def _on_drop(self) -> tuple[list[Callable[[Any], Any]], Any]:
        if self.driver is None:  # it was cancelled before it was started
            return [], None
        return [self.driver.watch.ring, self.driver.inbox.append], ("look", weakref.ref(self))

    def _post(self, what: str, *details: Any) -> None:
        if self.driver is not None:  # else it was cancelled before it was started
            self.driver.post(what, self, *details)

    def arrived(self, i: int, value: Any) -> None:
        """Take a wanted value. Called by the driver; a value that was lost may come twice."""
        if i not in self.wanted:
            return
        self.wanted.discard(i)
        if self.futures is not None:
            reference = self.futures.pop(i, None)
            future = reference() if reference is not None else None
            if future is not None:
                error = self.failed.get(i)
                if error is not None:
                    future.set_error(error)
                else:
                    future.set_value(value)
        elif self.values:
            self.values[i] = value

    def finish(self) -> None:
        """End the run: every wanted value is there, or has failed."""
        self._complete()

    def fetch(self) -> None:
        """Open the wanted values, in the caller's thread: that may run the user's code."""
        for i in dict.fromkeys(self.plan.outputs):
            value = self.values[i]
            if type(value) is not Remote or i in self.failed:
                continue
            try:
                self.values[i] = value.get()
            except BaseException as error:
                if not isinstance(error, Exception):
                    raise
                if not self.request.collect:
                    raise
                self.failed[i] = error
                self.values[i] = None


class Rest:
    """What is kept of a run that is over, while its tasks may have to run again."""

    over = True

    def __init__(self, run: RemoteRun) -> None:
        self.scheduler = run.scheduler
        self.request = run.request
        self.number = run.number
        self.surroundings = run.surroundings
        self.functions = run.functions
        self.literals = run.literals
        self.observers = RunObservers()


class Again:
    """The parent of a run that makes a lost value once more, whose task returned a lazy value.

    The run of that task is over, so this takes its place: observers hear of nothing, and an error
    is that of the value alone.
    """

    attached = deadline = None
    stop = ()

    def __init__(self, driver: Driver, node: Node, rest: Rest) -> None:
        self.driver = driver
        self.node = node
        self.job = node.job
        self.surroundings = rest.surroundings
        said = rest.request
        self.request = Request(said.num_workers, True, said.background, said.check_mutation)
        self.children: set[Any] = set()
        self._scheduler = rest.scheduler

    def compute(self, lazy: Any) -> None:
        """Begin the run."""
        try:
            plan = plan_of(lazy)
        except BaseException as error:
            self.refuse(0, dressed(error, self.node.task, None))
            return
        run = RemoteRun(plan, self.request, self._scheduler, (self, 0))
        self.children.add(run)
        run.begin()

    def task(self, _: int) -> Task:
        """Return the task that the run is for."""
        return self.node.task

    def deliver(self, _: int, value: Any) -> None:
        """Take the result, from any thread."""
        self.driver.post("made_elsewhere", self.node, value)

    def refuse(self, _: int, error: BaseException) -> None:
        """Take the failure, from any thread."""
        self.driver.post("refused_elsewhere", self.node, error)


class Remote:
    """A value of which this process has at most an encoded form.

    While it lives the value is kept where it is; `get` opens it anew each time, so what it
    returns is the caller's own.
    """

    __slots__ = ("__weakref__", "driver", "node", "task", "value")

    _lazyflow_remote = True

    def __init__(self, driver: Driver, node: Node | None, task: Task, value: Any) -> None:
        self.driver = driver
        self.node = node  # whom to ask when `value` is None
        self.task = name_only(task)
        self.value = value  # an Encoded, counted in
        driver.hold(self)

    def get(self) -> Any:
        """Return the value, fetched if need be.

        Raises
        ------
        SerializationError
            It can't leave its worker, or can't be opened here.
        """
        if self.driver.is_left:
            raise not_here(task_name(self.task))
        value = self.value
        if value is None:
            value = self.driver.fetch(self)
        if type(value) is not Encoded:
            return copied(value.value) if type(value) is Literal else value
        try:
            return opened(value, self.driver)
        except BaseException as error:
            if is_users_interrupt(error):
                raise
            if type(error) is MemoryError:  # which says what to do
                raise told(error, self.task, None) from None
            raise told(
                SerializationError(
                    f"the result of a task was pickled in its worker but can't be unpickled here: "
                    f"{type(error).__name__}: {error}. Return what pickle can restore, such as "
                    "arrays, numbers, or objects of classes that are importable here."
                ),
                self.task, None,
            ) from error


def not_here(what: str) -> Cancelled:
    """Return why something can't be had in the child of a fork."""
    return Cancelled(
        f"{what} can't be had in this process, the child of a fork: the workers, and the memory "
        "that they share, are the parent's. Ask for it before the fork, or compute it again here."
    )


def opened(value: Encoded, driver: Driver) -> Any:
    """Open an encoded value for the caller: its large parts are mapped, not copied."""
    return loads_owned(partial(decode, value, driver.view))


class Fetch:
    """Somebody who waits for a value to be brought here."""

    def __init__(self) -> None:
        self._gate = Gate()
        self.value: Any = None
        self.error: BaseException | None = None

    def done(self, value: Any, error: BaseException | None = None) -> None:
        """Wake who waits."""
        self.value, self.error = value, error
        self._gate.open()

    def wait(self) -> Any:
        """Return the value; raise why there is none."""
        with asleep():
            self._gate.wait()
        if self.error is not None:
            raise self.error
        return self.value


class ProcessInside(Worker):
    """A worker process as a run sees it: what it runs is read from the shared word."""

    __slots__ = ("_owner",)

    kind = "process"

    def __init__(self, name: str, owner: Any) -> None:
        self._owner = owner
        super().__init__(name)

    def now(self) -> tuple[Any, int]:
        """Return the run and the number of the task that runs there; (None, -1) when none does."""
        node = self._owner.running()
        if node is None or node.job.run is None:
            return None, -1
        return node.job.run, node.i


def hear_result(run: RemoteRun, i: int, was_told: bool) -> None:
    """Tell observers of a task that was done elsewhere."""
    if not was_told:
        run.observers.task_started(run, i)
    run.observers.task_ended(run, i)


__all__ = ["Cancelled", "Fetch", "ProcessInside", "Remote", "RemoteRun", "hear_result", "opened"]

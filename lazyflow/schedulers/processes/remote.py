"""Runs whose tasks other processes compute, and values that stay there, as others see them."""

from __future__ import annotations

import weakref
from itertools import count
from typing import TYPE_CHECKING, Any

from lazyflow.errors import Cancelled, SerializationError
from lazyflow.schedulers import careful
from lazyflow.schedulers.base import Worker
from lazyflow.schedulers.failures import is_users_interrupt, told
from lazyflow.schedulers.gate import Gate
from lazyflow.schedulers.lifecycle import Lifecycle
from lazyflow.schedulers.processes.nodes import Literal
from lazyflow.schedulers.processes.stripped import name_only
from lazyflow.schedulers.seats import asleep
from lazyflow.store.serialize import Encoded, decode

if TYPE_CHECKING:
    from lazyflow.graph.task import Task
    from lazyflow.schedulers.processes.driver import Driver
    from lazyflow.schedulers.processes.functions import Function
    from lazyflow.schedulers.processes.nodes import Job, Node


_numbers = count(1)


class _Nudge:
    """In the place of `Run.odd`: whoever appends to it wakes the driver. Never locks."""

    def __init__(self, run: RemoteRun) -> None:
        self._run = weakref.ref(run)  # finalizers of futures hold this

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
        self.odd = _Nudge(self)
        self.number = next(_numbers)
        self.nodes: list[Node] = []  # by number in the plan
        self.wanted: set[int] = set()  # numbers of results that are not there yet
        self.told_of: dict[int, BaseException] = {}  # failures that observers have heard of
        self.functions: dict[int, Function] = {}  # of its tasks
        self.literals: dict[Any, Any] = {}  # memory of arguments that was copied for workers

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
        self.request = run.request
        self.number = run.number
        self.surroundings = run.surroundings
        self.functions = run.functions
        self.literals = run.literals
        self.on_start: list[Any] = []
        self.on_done: list[Any] = []


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

    def get(self) -> Any:
        """Return the value, fetched if need be.

        Raises
        ------
        SerializationError
            It can't leave its worker, or can't be opened here.
        """
        value = self.value
        if value is None:
            value = self.driver.fetch(self)
        if type(value) is not Encoded:
            return value.value if type(value) is Literal else value
        try:
            return opened(value, self.driver)
        except BaseException as error:
            if is_users_interrupt(error):
                raise
            raise told(
                SerializationError(
                    f"the result of a task was pickled in its worker but can't be unpickled here: "
                    f"{type(error).__name__}: {error}. Return what pickle can restore, such as "
                    "arrays, numbers, or objects of classes that are importable here."
                ),
                self.task, None,
            ) from error

    def __del__(self) -> None:
        driver = getattr(self, "driver", None)
        if driver is not None:
            driver.let_go(self.node, self.value)


def opened(value: Encoded, driver: Driver) -> Any:
    """Open an encoded value for the caller: its large parts are mapped, not copied."""
    return decode(value, driver.view)


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
    if not was_told and run.on_start:
        careful.hear(run, run.on_start, i)
    if run.on_done:
        careful.hear(run, run.on_done, i)


__all__ = ["Cancelled", "Fetch", "ProcessInside", "Remote", "RemoteRun", "hear_result", "opened"]

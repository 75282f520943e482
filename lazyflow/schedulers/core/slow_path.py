"""Calls with everything that the quick loops must not pay for: copies, retries, checks.

`Run` takes this path while its list `attention` is not empty, for example when a value has to be
copied for each consumer or an input failed; workers of other processes take it for tasks with
unusual options (`remote.calls.RecordCall`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from lazyflow.errors import Cancelled, InputMutated
from lazyflow.graph.arguments import Binder
from lazyflow.graph.items import check_length, itemized
from lazyflow.graph.task import Task, place_text, task_name
from lazyflow.schedulers.core.coroutines import finished
from lazyflow.schedulers.core.current_worker import here
from lazyflow.schedulers.core.errors.failures import forget_context, is_users_interrupt
from lazyflow.schedulers.core.lifecycle import LATER, Lifecycle
from lazyflow.schedulers.core.snapshots import verify
from lazyflow.schedulers.core.task_resources import task_over
from lazyflow.store.protected import editable
from lazyflow.store.values import consumer_copy

#: Options that few tasks have: retries, mutates, nout, and whether mutation is checked.
Special = tuple[int, bool, int | None, bool]


class SlowCall(ABC):
    """One call of a task's function, with all its options.

    Attributes
    ----------
    run
        The run to which a failed try returns its resources; None outside of `Run`.
    raw
        The stored values of the inputs.
    copied
        For each input, whether the task gets a copy of its own; if empty, it gets no copies.
    special
        The options that few tasks have; None for most tasks.
    given
        The inputs that the function got at the last try, for the note of a failure.
    """

    run: Any = None
    raw: list[Any]
    copied: Sequence[bool]
    special: Special | None
    given: list[Any]

    @abstractmethod
    def call_once(self) -> Any:
        """Call the function with the values `given` as its inputs."""

    @abstractmethod
    def literals(self) -> list[Any]:
        """Return the arguments that are no inputs, for the check of mutation."""

    @abstractmethod
    def name(self) -> str:
        """Return the name of the task in messages."""

    @abstractmethod
    def place(self) -> str:
        """Return where the task was made, in words."""

    def __call__(self, last: Sequence[bool]) -> Any:
        """Return the result, after as many tries as the task may have.

        ``last[k]`` tells that no other task will need input k.
        """
        if self.special is None:
            self.given = self._private()
            return self.call_once()
        left, mutates, nout, check = self.special
        while True:
            try:
                self.given = self._editable(None if left else last) if mutates else (
                    self._private())
                before = self._contents() if check and not mutates else None
                value = finished(self.call_once())
                if before is not None:
                    self._compare(before)
                if nout is not None and (value.__class__ is not tuple or len(value) != nout):
                    value = itemized(value, nout)
                    check_length(value, nout, self.name())
                return value
            except Exception:
                if not left:
                    raise
                if here.uses:
                    task_over(self.run)
            left -= 1

    def values(self) -> list[Any]:
        """Return the values of the inputs for a call elsewhere, which may be made again."""
        if self.special is not None and self.special[1]:
            return self._editable(None)
        return self._private()

    def _private(self) -> list[Any]:
        """Return the values, with copies of those that others share and the task may edit."""
        if True not in self.copied:
            return self.raw
        return [consumer_copy(v) if c else v for v, c in zip(self.raw, self.copied, strict=True)]

    def _editable(self, last: Sequence[bool] | None) -> list[Any]:
        """Return values that the task may edit: all copied if `last` is None, for more tries."""
        if last is None:
            return [editable([value], False) for value in self.raw]
        given = []
        for at, is_last in enumerate(last):
            box, self.raw[at] = [self.raw[at]], None
            given.append(editable(box, is_last))
        return given

    def _compare(self, before: list[tuple[str, str]]) -> None:
        for (where, token), (_, now) in zip(before, self._contents(), strict=True):
            if token != now:
                raise InputMutated(
                    f"{self.name()} changed its {where} in place. Other tasks share that value: "
                    f"copy it first, or say delayed({self.name()}, mutates=True) to get a private "
                    f"one. Made at {self.place()}"
                )

    def _contents(self) -> list[tuple[str, str]]:
        named = [(f"input {at}", v) for at, v in enumerate(self.raw)]
        named += [(f"literal argument {at}", v) for at, v in enumerate(self.literals())]
        return list(_contents(named))


def _contents(named: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield each name with its value's content hash, which is empty if the value has none."""
    from lazyflow.graph.tokens.tokenize import tokenize

    for name, value in named:
        try:
            yield name, tokenize(value, strict=True)
        except TypeError:
            yield name, ""


def literals_of(binder: Binder) -> list[Any]:
    """Return the items of a binder's templates."""
    return [*binder.template, *(template for _, template, _, _ in binder.makers)]


def _called(task: Task, given: list[Any]) -> Any:
    if task._bind is None:
        return task._func(*(given if task._inputs else task._args))
    args, kwargs = task._bind.fill(given)
    try:
        return task._func(*args, **kwargs)
    finally:
        del args, kwargs  # an error may keep the frame alive, see `Run._loop`


class TaskCall(SlowCall):
    """The slow call of a task in this process.

    last
        For each input, whether no other task will ask for it.
    """

    def __init__(
        self, run: Lifecycle, task: Task, raw: list[Any], copied: Sequence[bool], last: list[bool]
    ) -> None:
        self.run = run
        self.task = task
        self.raw = self.given = raw
        self.copied = copied
        self.last = last
        options, check = task._options, run.request.check_mutation
        self.special = None
        if options.retries or options.mutates or options.nout is not None or check:
            self.special = options.retries, options.mutates, options.nout, check

    def call_once(self) -> Any:
        return _called(self.task, self.given)

    def literals(self) -> list[Any]:
        binder = self.task._bind
        return list(self.task._args) if binder is None else literals_of(binder)

    def name(self) -> str:
        return task_name(self.task)

    def place(self) -> str:
        return place_text(self.task)


def taken(
    values: list[Any], releases: list[Iterator[None] | None], numbers: Sequence[int]
) -> tuple[list[Any], list[bool]]:
    """Take the stored values of some inputs, and tell of each whether no other task needs it."""
    raw: list[Any] = []
    last: list[bool] = []
    for j in numbers:
        raw.append(values[j])  # before the token is taken: the last token's taker drops it
        left = releases[j]
        is_last = left is None or next(left, True) is True
        last.append(is_last)
        if is_last:
            values[j] = None
    return raw, last


def is_moot(run: Lifecycle, i: int, numbers: Sequence[int]) -> bool:
    """Tell whether a task need not run: it is unneeded, or has failed since an input failed."""
    if not run.failed and not run.unneeded:
        return False
    failed = next((j for j in numbers if j in run.failed), None)
    if failed is not None:
        run.failed[i] = run.failed[failed]
    return failed is not None or i in run.unneeded


def made_by(run: Lifecycle, i: int, call: TaskCall) -> Any:
    """Make the call of task `i`, with its observers; return its value, or None if it failed."""
    observers = run.observers
    if observers.on_start:
        observers.task_started(run, i)
    try:
        value = call(call.last)
        verify(run.watches, i, call.task)
    except BaseException as error:
        return _failed(run, i, call, error)
    if observers.on_end:
        observers.task_ended(run, i)
    return value


def _stop_if_interrupted(run: Lifecycle, error: BaseException) -> None:
    """Cancel the run and raise the error, if it is the user's Ctrl-C and not the task's."""
    if is_users_interrupt(error):
        run.cancel(Cancelled("interrupted"))
        raise error


def _failed(run: Lifecycle, i: int, call: TaskCall, error: BaseException) -> None:
    _stop_if_interrupted(run, error)
    given = call.given
    call.raw = call.given = []  # the error keeps frames alive that hold the call
    run.fail_task(i, error, given)


def awaited(run: Lifecycle, i: int, given: list[Any], coroutine: Any) -> Any:
    """Return the value of a coroutine that task `i` returned, None if the task failed.

    It is LATER when the run has ended meanwhile.
    """
    try:
        return finished(coroutine)
    except BaseException as error:
        value = retried(run, i, given, error)
        return LATER if run.stop else value


def retried(run: Lifecycle, i: int, given: list[Any], error: BaseException) -> Any:
    """Try a task again that raised in the quick loop; return its value, or None if it failed."""
    _stop_if_interrupted(run, error)
    if run.over:  # no one needs the result, and the inputs may be gone
        run.stop.append(None)
        return None
    task = run.plan.tasks[i]
    left, first = task._options.retries, error
    while left and isinstance(error, Exception):
        left -= 1
        if here.uses:
            task_over(run)
        try:
            value = finished(_called(task, given))
            run.observers.task_ended(run, i)
            return value
        except BaseException as again:
            _stop_if_interrupted(run, again)
            forget_context(again, first)  # it would keep these frames alive, and so the values
            error = again
    run.fail_task(i, error, given)
    return None

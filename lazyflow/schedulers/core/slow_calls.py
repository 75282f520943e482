"""Calls of tasks with all that the quick loops leave out: copies, retries and checks.

`Run` makes such calls while its list `attention` is not empty, for example when each consumer of a
value gets a copy, or when an input failed. Workers of other processes make them for tasks with
unusual options (`remote.calls.RecordCall`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from lazyflow.errors import InputMutated
from lazyflow.graph.arguments import Binder
from lazyflow.graph.items import check_length, itemized
from lazyflow.graph.task import Task, place_text, task_name
from lazyflow.schedulers.core.coroutines import finished
from lazyflow.schedulers.core.task_resources import here, task_over
from lazyflow.store.protected import editable
from lazyflow.store.spilling import opened
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


def called(task: Task, given: list[Any]) -> Any:
    """Call the function of a task with the values of its inputs."""
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
        self, run: Any, task: Task, raw: list[Any], copied: Sequence[bool], last: list[bool]
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
        return called(self.task, self.given)

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
        raw.append(opened(values[j]))  # before the token is taken: the last token's taker drops it
        left = releases[j]
        is_last = left is None or next(left, True) is True
        last.append(is_last)
        if is_last:
            values[j] = None
    return raw, last

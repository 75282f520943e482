"""An actor inside the worker of an engine: its object, and where its calls run.

The engine's own actor is a `Home` and the few methods by which messages reach it; it never sees
the user's class, arguments or errors. Messages are taken in order and calls begin in that order,
in threads of ours, so what the engine's loop has to do goes on beside them. Each call is answered
when it ends.
"""

from __future__ import annotations

import contextvars
import pickle
from collections.abc import Callable
from typing import Any, Protocol

from lazyflow.errors import Cancelled, SerializationError
from lazyflow.graph.arguments import read_only
from lazyflow.graph.kinds import ARRAY, COPIED, IMMUTABLE, kinds
from lazyflow.schedulers.actors.call_executors import LoopLane, ThreadLane
from lazyflow.schedulers.actors.calls import Checkpoint, finish
from lazyflow.schedulers.cluster.journal import Journal
from lazyflow.schedulers.cluster.outcome import Outcome, Packed, packed
from lazyflow.schedulers.cluster.work import Inside
from lazyflow.schedulers.core.errors import records
from lazyflow.schedulers.core.errors.failures import text_of
from lazyflow.schedulers.core.future import TaskFuture
from lazyflow.schedulers.core.lifecycle import scheduler_here
from lazyflow.schedulers.remote import calls, environment
from lazyflow.schedulers.remote.calls import BLOB
from lazyflow.store.pickling.serialize import Unpicklable

SHORT = 1 << 14  # bytes of a result that goes with the answer; others stay with the engine

#: How an input of a call is given.
PLAIN, PACKED, HELD = range(3)

#: How a call ended: with a plain value, a packed one, a failure, or one that the engine keeps.
VALUE, RESULT, FAILURE, KEPT = range(4)

ANSWER, MISSING = "answer", "missing"

#: (arguments, flags, binding, sources, loads), as `packed_call` gives the first three.
Arguments = tuple[Any, int, Any, tuple[int, ...] | None, list[Any]]


class Messages:
    """What is told to an actor at once; pickled by the engine, large memory out of band."""

    __slots__ = ("items",)

    def __init__(self, items: list[tuple[Any, ...]]) -> None:
        self.items = items

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return Messages, (self.items,)


class Port(Protocol):
    """What the engine does for an actor in its worker; called by any thread."""

    def answer(
        self, report: tuple[Any, ...], value: Packed | None = None, state: Packed | None = None
    ) -> None:
        """Send a report; keep the large value and state of the call that it is about."""

    def fetch(self, token: Any, done: Callable[[Outcome | None], None]) -> None:
        """Bring what the engine holds; `done` gets None when it can't be had now."""


class Home:
    """One actor.

    Parameters
    ----------
    name
        Of the scheduler, for methods that ask.
    port
        The way out.
    folder
        Where the journal goes; None: where temporary files go.
    """

    def __init__(self, name: str, port: Port, folder: str | None = None) -> None:
        self.name = name
        self.port = port
        self.journal = Journal(folder)
        self.instance: Any = None
        self.checkpoint: Checkpoint | None = None
        self.inside = Inside(name)
        self.skipped: set[int] = set()
        self._ended = 0
        self._waiting: dict[int, _Calling] = {}  # calls that wait for values, by number
        self._lane: ThreadLane | LoopLane | None = None

    def take(self, messages: Messages) -> None:
        """Take messages in; returns soon."""
        for what, *details in messages.items:
            getattr(self, "take_" + what)(*details)

    def take_init(
        self, number: int, said: bytes, concurrency: int, is_async: bool, made_of: Packed,
        state: Packed | None, arguments: Arguments,
    ) -> None:
        """Make the object, with the state that another had."""
        self.journal.window = max(self.journal.window, concurrency)
        context = contextvars.copy_context()
        context.run(environment.enter, said)
        context.run(scheduler_here.set, self.inside)
        lane = LoopLane if is_async else ThreadLane
        self._lane = lane("lazyflow-actor", concurrency, context)
        self._submit(_Making(self, number, arguments, made_of, state))

    def take_call(self, number: int, method: str, arguments: Arguments) -> None:
        """Call a method after those before it."""
        self._submit(_Calling(self, number, arguments, method))

    def take_skip(self, number: int) -> None:
        """Do not begin a call that was cancelled."""
        self.skipped.add(number)

    def take_give(self, number: int, k: int, value: Packed | None) -> None:
        """Take an input that could not be fetched; None: there is none."""
        job = self._waiting.get(number)
        if job is not None:
            job.give(k, value)

    def _submit(self, job: _Calling) -> None:
        for k, (how, what, *_) in enumerate(job.arguments[4]):
            if how == HELD:
                self._waiting[job.number] = job
                self.port.fetch(what, job.awaited(k))
        assert self._lane is not None
        self._lane.submit(job)

    def close(self) -> None:
        """End after the calls that were taken in."""
        if self._lane is not None:
            self._lane.close()
        self.journal.close()

    # -- for calls, in their threads ----------------------------------------------------------

    def begin(self, number: int) -> None:
        """Note that a call begins."""
        self._waiting.pop(number, None)
        self.journal.began(number)

    def saved(self) -> Packed | None:
        """Return the state, if it is time to keep it."""
        checkpoint = self.checkpoint
        self._ended += 1
        if checkpoint is None or self._ended % checkpoint.every:
            return None
        return checkpoint.packed_state(self.instance, pickled)

    def tell(
        self, number: int, outcome: tuple[Any, ...], value: Packed | None, state: Packed | None
    ) -> None:
        """Send the outcome of a call, and note it if that is all of it."""
        if state is not None and state.size() > SHORT:
            self.port.answer((ANSWER, number, outcome, KEPT), value, state)
            return
        report = (ANSWER, number, outcome, state)
        if value is None:
            self.journal.ended(pickle.dumps(report, 5))
        self.port.answer(report, value)


def pickled(value: Any) -> Packed:
    """Pickle a value as it is now; raises Unpicklable."""
    found = packed(value)
    if found.stream is None:
        found.opened()
    return found.copied()


def _opened(packed: Packed, what: str) -> Any:
    """Return a part of a call."""
    try:
        return packed.opened()
    except SerializationError as error:
        why = error.__cause__
        raise SerializationError(
            f"{what} of an actor was pickled but can't be unpickled in its worker: "
            f"{type(why).__name__}: {text_of(why) if why is not None else error}. Modules have to "
            "be importable there: install them on the workers, or set PYTHONPATH before they start"
        ) from why


class _Calling:
    """A call of a method."""

    def __init__(self, home: Home, number: int, arguments: Arguments, method: str) -> None:
        self.home = home
        self.number = number
        self.arguments = arguments
        self.method = method
        self.call: calls.RecordCall | None = None
        self.has_saved = False  # the state was asked for, and may be what has failed
        self.awaits: dict[int, TaskFuture] = {}

    def awaited(self, k: int) -> Callable[[Outcome | None], None]:
        """Return what takes an input in that the engine holds."""
        future = self.awaits[k] = TaskFuture("an input", None)
        port, number = self.home.port, self.number

        def done(outcome: Outcome | None) -> None:
            if outcome is None:
                port.answer((MISSING, number, k))
            else:
                future.set_value(outcome)

        return done

    def give(self, k: int, value: Packed | None) -> None:
        """Take an input that the caller has sent after all."""
        self.awaits[k].set_value(value)

    def waits(self) -> list[TaskFuture]:
        return [future for future in self.awaits.values() if not future.done()]

    def begin(self) -> Any:
        home = self.home
        home.begin(self.number)
        arguments, flags, binding, sources, loads = self.arguments
        if self.number in home.skipped:
            home.skipped.discard(self.number)
            raise Cancelled(f"{self.method} was cancelled before it began")
        values = [self._value(k, *load) for k, load in enumerate(loads)]
        self.awaits = {}
        if flags & BLOB:
            arguments = _opened(arguments, "an argument")
        order = range(len(values)) if sources is None else sources
        self.call = calls.RecordCall(
            self.function(), arguments, flags, (binding, None), [values[k] for k in order],
            [loads[k][0] == HELD and kinds[type(values[k])] in COPIED for k in order],
        )
        return self.call([])

    def _value(self, k: int, how: int, what: Any, i: int = 0) -> Any:
        if how == HELD:
            what = self.awaits[k].local_outcome()[0]
            if what is None:
                raise Cancelled("an input failed")  # the caller has said so already
            value = what.value(i) if type(what) is Outcome else _opened(what, "an argument")
        else:
            value = what if how == PLAIN else _opened(what, "an argument")
        return read_only(value) if kinds[type(value)] == ARRAY else value

    def function(self) -> Any:
        return getattr(self.home.instance, self.method)

    def done(self, box: list[Any]) -> None:
        home = self.home
        finish(box, home.inside)
        value = box.pop()
        if value.__class__ in IMMUTABLE and calls.is_short(value):
            home.tell(self.number, (VALUE, value), None, self.saved())
            return
        found = pickled(value)
        del value
        if found.size() <= SHORT:
            home.tell(self.number, (RESULT, found), None, self.saved())
        else:
            home.tell(self.number, (KEPT,), found, self.saved())

    def saved(self) -> Packed | None:
        """Return the state after the call, if it is time to keep it: it is asked for once."""
        self.has_saved = True
        return self.home.saved()

    def failed(self, error: BaseException) -> None:
        home, state = self.home, None
        if not self.has_saved:
            try:
                state = self.saved()
            except BaseException as broken:
                error.add_note(f"its actor's state could not be kept: {text_of(broken)}")
        if isinstance(error, Unpicklable):
            role = "result" if self.call is not None else "args"
            record: Any = ("unpicklable", role, error.path, records.record(error.error))
        else:
            record = records.record(error)
        try:
            words = None if self.call is None else self.call.words()
        except BaseException:  # a hostile container must not stop an error message
            words = None
        home.tell(self.number, (FAILURE, record, words), None, state)


class _Making(_Calling):
    """The call of the constructor."""

    def __init__(
        self, home: Home, number: int, arguments: Arguments, made_of: Packed, state: Packed | None
    ) -> None:
        super().__init__(home, number, arguments, "__init__")
        self.made_of = made_of
        self.state = state

    def function(self) -> Any:
        factory, self.home.checkpoint = _opened(self.made_of, "the class")
        return factory.__wrapped__

    def done(self, box: list[Any]) -> None:
        home = self.home
        home.instance = box.pop()
        if self.state is not None:
            assert home.checkpoint is not None
            home.checkpoint.restore(home.instance, self.state.opened())
        home.tell(self.number, (VALUE, None), None, None)

    def failed(self, error: BaseException) -> None:
        self.home.checkpoint = None
        super().failed(error)

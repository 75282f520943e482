"""The borrower's side of handles: actors whose owner is another process.

One `OwnerLink` for each owner sends the requests of all threads; its own thread reads the answers.
State::

    _links :: {key of an owner: OwnerLink}             of this process, under `_lock`
    OwnerLink._calls :: {request: (ActorCall, BorrowedActor)}   sent and not answered: it holds the
                                                       actor until the answer is there
    OwnerLink._asked :: {request: TaskFuture}          other questions, as HOLD, PIN, FIND
    BorrowedActor._waiting :: deque of PackedCall      not sent, under its `_lock`
    _unheld :: {TaskFuture: None}                      HOLDs that were sent and not answered by
                                                       threads that must not wait for the answer

Guarantee: calls of one process reach the owner in the order in which they were made, unless the
actor runs several at once. When the connection ends, the calls that were sent fail with
`WorkerDied`: they may have run.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from functools import partial
from itertools import count
from typing import Any, TypeVar

from lazyflow.errors import WorkerDied
from lazyflow.finalizers import LastCall
from lazyflow.graph.task import Task, place
from lazyflow.schedulers.actors.calls import ActorCall, PackedCall, WaitingActor
from lazyflow.schedulers.actors.handles.wire import (
    AWAITED,
    CALL,
    CANCEL,
    FIND,
    HOLD,
    PIN,
    RELEASE,
    Address,
    connected,
    opened,
)
from lazyflow.schedulers.actors.ports import HostPort
from lazyflow.schedulers.core.errors.failures import with_call_note
from lazyflow.schedulers.core.errors.records import rebuilt
from lazyflow.schedulers.core.future import TaskFuture, wait_for, when_all_done
from lazyflow.schedulers.remote.calls import BLOB, packed_call, unsendable
from lazyflow.store.pickling.serialize import pickled
from lazyflow.system import at_fork

T = TypeVar("T")

#: A pickle: the stream, and its buffers.
Packed = tuple[bytes, Sequence[Any]]


class BorrowedActor:
    """An actor of another process, as a host of calls; it holds the actor until it is collected.

    Calls are sent in the order in which they were made. One whose inputs are not there holds the
    later ones back, unless the actor runs several at once.
    """

    driver = None  # no pool of processes can wait for results of calls

    def __init__(
        self, link: OwnerLink | None, number: int, label: str, is_concurrent: bool
    ) -> None:
        self.port = _HerePort()
        self._link = link
        self._number = number
        self._label = label
        self._is_concurrent = is_concurrent
        self._has_ended = link is None
        self._lock = threading.Lock()
        self._waiting: deque[PackedCall] = deque()
        self._end = LastCall(link.release, number) if link is not None else None

    @property
    def is_over(self) -> bool:
        """Whether every further call fails, as far as that is known here."""
        return self._has_ended or self._link is None or self._link.is_over

    def call(self, call: ActorCall) -> None:
        """Queue a call."""
        if self._link is None:
            self._refuse(call)
            return
        call.host = self
        item, call.inputs = PackedCall(call), []
        try:
            item.arguments, item.flags, item.binding = packed_call(call.task, self.port.encode)
        except Exception as error:
            call.future.set_error(unsendable(call.task, "args", error))
            return
        with self._lock:
            self._waiting.append(item)
        item.gather(self)
        self._send_ready()
        with self._lock:
            if item in self._waiting and item.flags & BLOB:
                item.arguments = _copied(item.arguments)  # the caller may change them

    def arrived(self, item: PackedCall) -> None:
        """Send the calls that can be sent, when the last input of a call has arrived."""
        if not item.missing:
            self._send_ready()

    def _send_ready(self) -> None:
        failed: list[PackedCall] = []
        with self._lock:  # also while they are sent: another thread's must not pass them
            for item in tuple(self._waiting):
                if item.missing and not item.call.future.done():
                    if self._is_concurrent:
                        continue
                    break
                self._waiting.remove(item)
                if not item.call.future.done() and not self._sent(item):
                    failed.append(item)
        for item in failed:  # a callback may call this actor
            if item.error is not None:
                item.call.future.set_error(item.error)
            else:
                self._refuse(item.call)

    def _sent(self, item: PackedCall) -> bool:
        assert self._link is not None
        return item.error is None and self._link.call(item, self._number, self)

    def _refuse(self, call: ActorCall) -> None:
        call.future.was_refused = True
        call.future.set_error(with_call_note(
            WorkerDied(
                f"{call.future.name} can't be run: the actor {self._label} has ended. Its last "
                "handle in the process that made it was dropped, or that process ended: keep a "
                "handle there for as long as others call the actor."
            ),
            call.task, None,
        ))

    def refused(self) -> None:
        """Note that the owner has refused a call: the actor has ended."""
        self._has_ended = True

    def cancel_call(self, call: ActorCall) -> None:
        """Keep a call from beginning: its future was cancelled."""
        if self._link is not None:
            self._link.cancel(call)
            self._send_ready()

    def awaited_by(self, call: ActorCall, actor: WaitingActor) -> None:
        """Tell the owner that an actor sleeps until the result of a call is there."""
        if self._link is not None:
            self._link.awaited_by(call, actor)

    def runs(self, call: ActorCall) -> bool:
        """Return False: only the owner knows."""
        return False

    def close(self) -> None:
        """Do nothing: the link is told when this object is collected."""


def _message(number: int, item: PackedCall) -> tuple[tuple[Any, ...], list[Any]]:
    """Return the request of a call without its number, and the buffers."""
    buffers: list[Any] = []

    def counted(packed: Packed) -> tuple[bytes, int]:
        stream, views = packed
        buffers.extend(views)
        return stream, len(views)

    arguments = counted(item.arguments) if item.flags & BLOB else item.arguments
    sources = range(len(item.values)) if item.sources is None else item.sources
    given = [counted(item.values[k]) for k in sources]
    task = item.task
    return (
        number, item.call.method, place(task), _hidden(task), item.flags, item.binding, arguments,
        given,
    ), buffers


def _hidden(task: Task) -> tuple[str, ...] | bool:
    """Return the parameters whose arguments the owner's notes hide; True: all of them."""
    hide = task._options.hide
    return hide or any(each._options.hide is True for each in task._inputs)


class _HerePort(HostPort):
    """Runs steps at once, in whichever thread has a value."""

    def post(self, step: Callable[..., None], *details: Any) -> None:
        step(*details)

    def encode(self, value: Any) -> Packed:
        """Pickle a value without a copy of its memory; its task, or its future, holds its handles.
        """
        stream, buffers, _ = pickled(value)
        return stream, buffers

    def load(self, value: Any) -> Packed:
        return _copied(self.encode(value))  # who asks for it may edit it


def _copied(packed: Packed) -> Packed:
    stream, buffers = packed
    return stream, [bytearray(each) for each in buffers]


class OwnerLink:
    """The connection to the owner of actors that this process has handles on."""

    def __init__(self, address: Address) -> None:
        self._key = address.key
        self._peer = connected(address)
        self._numbers = count(1)
        self._calls: dict[int, tuple[ActorCall, BorrowedActor]] = {}
        self._asked: dict[int, TaskFuture] = {}
        self.is_over = False
        self._thread = threading.Thread(target=self._read, name="lazyflow-owner", daemon=True)
        self._thread.start()

    # -- requests ----------------------------------------------------------------------------

    def ask(self, kind: int, what: Any) -> TaskFuture:
        """Ask the owner for something; return the future of its answer, None if it is gone."""
        n = next(self._numbers)
        asked = self._asked[n] = TaskFuture("an answer", None)
        if not self._sent((kind, n, what)):
            self._end()
        return asked

    def call(self, item: PackedCall, number: int, host: BorrowedActor) -> bool:
        """Send a call; return False if the owner is gone."""
        n = next(self._numbers)
        details, buffers = _message(number, item)
        self._calls[n] = item.call, host  # and with that the actor, until it is answered
        if self._sent((CALL, n, *details), buffers):
            return True
        return self._calls.pop(n, None) is None  # else the thread that reads has failed it

    def cancel(self, call: ActorCall) -> None:
        """Tell the owner that the result of a call is not wanted any more, if it was sent."""
        n = self._number_of(call)
        if n and self._calls.pop(n, None) is not None:
            self._sent((CANCEL, n))

    def awaited_by(self, call: ActorCall, actor: WaitingActor) -> None:
        """Tell the owner that an actor sleeps until the result of a call is there."""
        n = self._number_of(call)
        if n:
            self._sent((AWAITED, n, astuple(actor)))

    def _number_of(self, call: ActorCall) -> int:
        return next((n for n, (sent, _) in tuple(self._calls.items()) if sent is call), 0)

    def release(self, number: int) -> None:
        """Tell the owner that there is no handle on an actor here any more."""
        self._sent((RELEASE, number))

    def _sent(self, message: tuple[Any, ...], buffers: Any = ()) -> bool:
        if self.is_over:
            return False
        try:
            self._peer.send(message, buffers)
        except OSError:
            return False
        return True

    # -- messages of the owner ---------------------------------------------------------------

    def _read(self) -> None:
        _is_reading.is_it = True
        try:
            while (message := self._peer.read()) is not None:
                self._take(*message)
                message = None  # hold no values while asleep
        finally:
            self._end()

    def _take(self, message: tuple[Any, ...], buffers: list[bytearray]) -> None:
        _, n, has_value, what, flag = message
        asked = self._asked.pop(n, None)
        if asked is not None:
            asked.set_value(what)
            return
        call, host = self._calls.pop(n, (None, None))
        if call is None or host is None:  # it was cancelled
            if has_value and flag:
                self._sent((CANCEL, n))
            return
        if not has_value:
            if flag:
                host.refused()
            call.future.was_refused = flag
            call.future.set_error(rebuilt(what))
            return
        try:
            value = opened(what, buffers)
        except Exception as error:
            call.future.set_error(with_call_note(error, call.task, None))
        else:
            call.future.set_value(value)
        if flag:  # the owner holds the actors whose handles are in it, until they are held here
            when_all_done(tuple(_unheld), partial(self._sent, (CANCEL, n)))

    def _end(self) -> None:
        """Fail the pending requests: the owner is gone."""
        self.is_over = True
        self._peer.close()
        with _lock:
            if _links.get(self._key) is self:
                del _links[self._key]
        while self._asked:
            self._asked.popitem()[1].set_value(None)
        while self._calls:
            _, (call, _) = self._calls.popitem()
            call.future.set_error(with_call_note(
                WorkerDied(
                    f"the process that made the actor of {call.future.name} has ended, and the "
                    "actor with it. It is not known whether the call had run."
                ),
                call.task, None,
            ))

    def leave(self) -> None:
        """In the child of a fork: the connection is the parent's."""
        self.is_over = True
        self._peer.abandon()


_lock = threading.Lock()
_links: dict[bytes, OwnerLink] = {}  # by the owner's key
_is_reading = threading.local()
_unheld: dict[TaskFuture, None] = {}  # answers that tell that an actor is held here


def link_to(address: Address) -> OwnerLink | None:
    """Return the connection to an owner; None if the owner is gone."""
    with _lock:
        known = _links.get(address.key)
        if known is None or known.is_over:
            try:
                known = _links[address.key] = OwnerLink(address)
            except OSError:
                return None
        return known


def borrow(
    address: Address, number: int, label: str, is_concurrent: bool
) -> BorrowedActor:
    """Return an actor of another process, which lives for as long as that object does."""
    link = link_to(address)
    if link is not None:
        asked = link.ask(HOLD, number)
        if getattr(_is_reading, "is_it", False):
            # This thread reads the answer, or another's that waits for this one. Whoever has sent
            # the handle keeps the actor until a CANCEL confirms it, or `wait_until_held`.
            _unheld[asked] = None
            asked.add_callback(lambda asked: _unheld.pop(asked, None))
        elif not asked.outcome_now()[0]:
            link = None
    return BorrowedActor(link, number, label, is_concurrent)


def pin(address: Address, number: int) -> None:
    """Have an owner keep an actor for good: its handle is pickled, to be opened at any time."""
    link = link_to(address)
    if link is not None:
        asked = link.ask(PIN, number)
        if not getattr(_is_reading, "is_it", False):
            asked.outcome_now()


@contextmanager
def reading() -> Iterator[None]:
    """Mark this thread as one that must not wait for answers of other processes."""
    _is_reading.is_it = True
    yield
    _is_reading.is_it = False


def wait_until_held() -> None:
    """Sleep until the owners of all handles that were read here know of them."""
    if _unheld:
        wait_for(tuple(_unheld))


def find(name: str, address: Address, make: Callable[..., T]) -> T | None:
    """Return the handle that `make` builds for a living actor in another process; None if none.

    It gets the number of the actor, and the parts of its handle.
    """
    link = link_to(address)
    address_and_name = None if link is None else link.ask(FIND, name).outcome_now()[0]
    if link is None or address_and_name is None:
        return None
    try:
        return make(*address_and_name)
    finally:
        link.release(address_and_name[0])


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()
    for link in tuple(_links.values()):
        link.leave()
    _links.clear()


at_fork(after_in_child=_after_fork)

"""The owner's side of handles: who has which actor, and the calls that they make.

The first `lend` opens a listener. Each borrower gets a `_BorrowerLink` with two threads: one reads
requests and begins calls, the other sends answers, since a value may have to be fetched first.
State::

    ActorExchange._address :: Address            key, name and ports; None: nothing was lent
    ActorExchange._actors :: weak {number: Lent} those that were lent
    ActorExchange._pinned :: {number: Lent}      kept until `close`, as `pickle.dumps` asks for
    ActorExchange._links :: {_BorrowerLink}      borrowers that are connected

    _BorrowerLink._held :: {number: int}         how many handles the borrower has reported
    _BorrowerLink._actors :: {number: Lent}      and the actors, which they keep alive
    _BorrowerLink._calls :: {request: TaskFuture}     those that are not answered
    _BorrowerLink._in_answers :: {request: [Lent]}    kept until the borrower has confirmed that it
                                                 holds the handles of an answer

Guarantee: with a connection all that the borrower held is given up, however it has ended.
"""

from __future__ import annotations

import secrets
import socket
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from time import sleep
from typing import Any, Protocol

from lazyflow.finalizers import WeakValues
from lazyflow.graph.task import Place
from lazyflow.schedulers.actors.calls import CallFuture, WaitingActor
from lazyflow.schedulers.actors.handles import borrowed, wire
from lazyflow.schedulers.core.base import at_shutdown, hosts_for_workers
from lazyflow.schedulers.core.future import TaskFuture
from lazyflow.schedulers.remote.calls import BLOB, RecordCall, failure_record
from lazyflow.store.pickling.serialize import pickled
from lazyflow.system import at_fork

_PAUSE = 0.1  # seconds until a connection is accepted again that the system has refused; a guess


class Lent(Protocol):
    """An actor of this process, as borrowers see it; it ends when this object is collected."""

    number: int

    def call_lent(
        self, method: str, args: list[Any], kwargs: dict[str, Any], place: Place,
        hide: tuple[str, ...] | bool,
    ) -> TaskFuture:
        """Have a method called for a borrower, whose call was made at `place`. Never sleeps.

        `hide`: parameters that its notes do not show, as in `Options`.
        """

    def described_handle(self) -> tuple[Any, ...]:
        """Return the parts of a handle in another process, beside address and number."""


class ActorExchange:
    """The actors that this process has lent, and the connections of those that have handles."""

    def __init__(self) -> None:
        self.named: Callable[[str], Lent | None] = lambda name: None
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._address: wire.Address | None = None
        self._listeners: list[socket.socket] = []
        self._actors: WeakValues[Lent] = WeakValues()
        self._pinned: dict[int, Lent] = {}
        self._hosts: set[str] = set()  # of other machines' view, where it listens
        self._links: set[_BorrowerLink] = set()

    @property
    def address(self) -> wire.Address | None:
        """Where borrowers find this process; None: it has lent nothing."""
        return self._address

    def is_at(self, address: wire.Address) -> bool:
        """Tell whether an address is this one's."""
        return self._address is not None and self._address.key == address.key

    def lend(self, actor: Lent) -> wire.Address:
        """Make an actor known to borrowers; return the address for its handles."""
        if self._actors.get(actor.number) is not actor:  # a table forgets it while it is set again
            self._actors[actor.number] = actor
        return self.open()

    def open(self) -> wire.Address:
        """Listen, from the first call on."""
        address = self._address
        if address is None or len(self._hosts) < len(hosts_for_workers):
            with self._lock:
                address = self._address = self._listening(self._address)
        return address

    def pin(self, actor: Lent) -> None:
        """Keep an actor until `close`."""
        self._pinned[actor.number] = actor

    def actor(self, number: int) -> Lent | None:
        """Return an actor that was lent and is alive."""
        return self._actors.get(number)

    def close(self) -> None:
        """Drop all borrowers, and the objects that were kept for them."""
        with self._lock:
            listeners, self._listeners = self._listeners, []
            self._hosts = set()
            links, self._links = self._links, set()
            self._address = None
        self._pinned.clear()
        for sock in listeners:
            with suppress(OSError):  # wakes the thread that accepts
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        for link in links:
            link.peer.close()

    def leave(self) -> None:
        """In the child of a fork: the connections are the parent's."""
        listeners, links = self._listeners, self._links
        self._begin()
        for sock in listeners:
            sock.close()
        for link in links:
            link.peer.abandon()

    def _listening(self, address: wire.Address | None) -> wire.Address:
        """Listen where it does not yet; return the address with all places."""
        if address is None:
            address = wire.Address(secrets.token_bytes(32), f"lazyflow-{uuid.uuid4().hex}", ())
            if wire.HAS_NAMES:
                self._serve_at(wire.named_listener(address.name), address.key)
            else:
                address = self._with_port(address, "127.0.0.1")
        for host in tuple(hosts_for_workers):
            if host not in self._hosts:
                self._hosts.add(host)
                address = self._with_port(address, host)
        return address

    def _with_port(self, address: wire.Address, host: str) -> wire.Address:
        sock = socket.create_server((host, 0))
        self._serve_at(sock, address.key)
        return address._replace(places=(*address.places, sock.getsockname()[:2]))

    def _serve_at(self, listener: socket.socket, key: bytes) -> None:
        self._listeners.append(listener)
        threading.Thread(
            target=self._accept, args=(listener, key), name="lazyflow-handles", daemon=True
        ).start()

    def _accept(self, listener: socket.socket, key: bytes) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                if listener not in self._listeners:  # it was closed
                    return
                sleep(_PAUSE)  # there are no descriptors left; the borrower waits
                continue
            threading.Thread(
                target=self._serve, args=(sock, key), name="lazyflow-borrower", daemon=True
            ).start()

    def _serve(self, sock: socket.socket, key: bytes) -> None:
        try:
            peer = wire.accepted(sock, key)
        except OSError:
            sock.close()
            return
        link = _BorrowerLink(self, peer)
        with self._lock:
            is_open = self._address is not None and self._address.key == key
            if is_open:
                self._links.add(link)
        if is_open:
            link.serve()
        peer.close()
        self._links.discard(link)


class _BorrowerLink:
    """The connection of a process that has handles."""

    def __init__(self, exchange: ActorExchange, peer: wire.Peer) -> None:
        self.peer = peer
        self._exchange = exchange
        self._held: Counter[int] = Counter()
        self._actors: dict[int, Lent] = {}  # those that it holds
        self._calls: dict[int, TaskFuture] = {}
        #: Futures of calls, and answers as they are, by the number of the request.
        self._answers: SimpleQueue[tuple[int, Any] | None] = SimpleQueue()
        self._in_answers: dict[int, list[Lent]] = {}  # actors that the borrower does not hold yet

    def serve(self) -> None:
        """Answer the borrower's requests, in order, until its connection ends."""
        threading.Thread(target=self._answer, name="lazyflow-answers", daemon=True).start()
        try:
            with borrowed.reading():
                while (message := self.peer.read()) is not None:
                    self._take(*message)
                    message = None  # hold no values while asleep
        finally:
            self._answers.put(None)

    def _take(self, message: tuple[Any, ...], buffers: list[bytearray]) -> None:
        kind, n = message[:2]
        if kind == wire.CALL:
            self._call(n, message[2:], buffers)
        elif kind == wire.HOLD:
            self._hold(n, message[2])
        elif kind == wire.PIN:
            self._pin(n, message[2])
        elif kind == wire.RELEASE:
            self._held[n] -= 1
            if not self._held[n]:
                del self._held[n], self._actors[n]
        elif kind == wire.CANCEL:
            self._cancel(n)
        elif kind == wire.AWAITED:
            self._awaited(n, WaitingActor(*message[2]))
        elif kind == wire.FIND:
            self._find(n, message[2])

    def _cancel(self, n: int) -> None:
        self._in_answers.pop(n, None)
        future = self._calls.pop(n, None)
        if future is not None:
            future.cancel()

    def _awaited(self, n: int, actor: WaitingActor) -> None:
        future = self._calls.get(n)
        run = None if future is None else future.run
        if run is not None:
            run[0].awaited_by(actor)

    def _find(self, n: int, name: str) -> None:
        actor = self._exchange.named(name)
        told = None
        if actor is not None:
            self._exchange.lend(actor)
            told = actor.number, *actor.described_handle()
            self._hold_now(actor)
        self._answers.put((n, told))

    def _hold(self, n: int, number: int) -> None:
        actor = self._actors.get(number) or self._exchange.actor(number)
        if actor is not None:
            self._hold_now(actor)
        self._answers.put((n, actor is not None))

    def _hold_now(self, actor: Lent) -> None:
        self._actors[actor.number] = actor
        self._held[actor.number] += 1

    def _pin(self, n: int, number: int) -> None:
        actor = self._actors.get(number) or self._exchange.actor(number)
        if actor is not None:
            self._exchange.pin(actor)
        self._answers.put((n, actor is not None))

    def _call(self, n: int, details: tuple[Any, ...], buffers: list[bytearray]) -> None:
        number, method, place, hide, *packed = details
        try:
            args, kwargs = _filled(packed, buffers)
            future = self._actors[number].call_lent(method, args, kwargs, place, hide)
        except Exception as error:
            future = CallFuture(method, None)
            future.set_error(error)
        self._calls[n] = future
        future.add_callback(partial(self._ended, n))

    def _ended(self, n: int, future: TaskFuture) -> None:
        self._answers.put((n, future))

    def _answer(self) -> None:
        """Send answers, by a thread of its own.

        Fetching a value takes time, and a borrower may not read before this end has read.
        """
        try:
            while (answer := self._answers.get()) is not None:
                n, what = answer
                if isinstance(what, TaskFuture):
                    self._calls.pop(n, None)
                    borrowed.wait_until_held()  # of its arguments: the borrower may drop them now
                    self._answer_call(n, what)
                else:
                    self.peer.send((wire.ANSWER, n, True, what, False))
                answer = what = None  # hold no values while asleep
        except OSError:  # it is gone
            pass
        finally:
            self.peer.close()  # so that it does not wait for an answer that can't be sent

    def _answer_call(self, n: int, future: TaskFuture) -> None:
        value, error = future.outcome()
        if error is None:
            try:
                stream, buffers, actors = pickled(value)
                if actors:
                    self._in_answers[n] = actors
                self.peer.send((wire.ANSWER, n, True, stream, bool(actors)), buffers)
                return
            except OSError:
                raise
            except Exception as failed:  # of pickling
                error = failed
        was_refused = type(future) is CallFuture and future.was_refused
        self.peer.send((wire.ANSWER, n, False, failure_record(error), was_refused))


def _filled(
    packed: Sequence[Any], buffers: Sequence[Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a call, unpickled, with the values of its inputs."""
    flags, binding, arguments, given = packed
    rest = iter(buffers)

    def take(packed: tuple[bytes, int]) -> Any:
        stream, count = packed
        return wire.opened(stream, [next(rest) for _ in range(count)])

    if flags & BLOB:
        arguments = take(arguments)
    values = [take(each) for each in given]
    return RecordCall(len, arguments, flags, (binding, None), values, []).filled()


exchange = ActorExchange()
at_shutdown.append(exchange.close)

at_fork(after_in_child=exchange.leave)

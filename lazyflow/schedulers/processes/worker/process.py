"""What every worker process has: its sockets, its memory, and what it follows of the caller's.

Shared with the parent is a page with two words: the number of the task, or call, that runs here,
and of the value that is being pickled for others; they are set until the answer is sent, so the
parent knows what to charge when this process dies.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from lazyflow.errors import StoreFull
from lazyflow.schedulers.core.task_resources import drop
from lazyflow.schedulers.processes.channel import Incoming, send
from lazyflow.schedulers.processes.surroundings import take_over
from lazyflow.schedulers.processes.worker.following import Follower
from lazyflow.schedulers.processes.worker.reporting import Reporter
from lazyflow.schedulers.remote.calls import DROP, FOLLOW, FUNCTION, NOTICES, SURROUND
from lazyflow.store.memory import lent
from lazyflow.store.memory.ranges import Segment
from lazyflow.store.memory.shared import Arenas, Mappings
from lazyflow.store.pickling.serialize import encode

RUNNING, PICKLING = 0, 1  # words of the page shared with the parent


class Requests:
    """What the parent asks for while a task runs: done by one thread, and others can wait for it.

    Until it is done a request can be read from the socket, or `_is_busy` is set: that is set before
    the request is read.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._changed = threading.Condition()
        self._is_busy = self._is_over = False
        self._thread = 0

    def serve(self, do: Callable[[int, Any], None]) -> None:
        """Do what is asked, a kind and a content each, until the parent closes the socket."""
        self._thread = threading.get_ident()
        incoming = Incoming(self.sock)
        there = self._poll()
        try:
            while not self._is_over:
                there.poll()
                self._is_busy = True
                self._is_over = not incoming.read()
                for (kind, content), _ in incoming.messages():
                    do(kind, content)
                with self._changed:
                    self._is_busy = False
                    self._changed.notify_all()
        finally:
            with self._changed:
                self._is_over = True
                self._changed.notify_all()

    def catch_up(self) -> None:
        """Wait until all that has come is done; the thread that does it returns at once."""
        there = self._poll()
        with self._changed:
            while (
                threading.get_ident() != self._thread
                and not self._is_over
                and (there.poll(0) or self._is_busy)
            ):
                self._changed.wait()

    def _poll(self) -> select.poll:
        there = select.poll()
        there.register(self.sock, select.POLLIN)
        return there


class WorkerProcess(ABC):
    """The state of this process.

    words
        The page shared with the parent.
    least
        Bytes from which a part of a value goes to shared memory.
    announced
        Arenas that each socket has announced: what comes by one may be read before what came by
        the other.
    functions
        Those of tasks, by number; one that was not called yet, or that carries state, is a pickle.
    skipped
        Numbers of calls that were cancelled on their way to an actor.
    """

    def __init__(
        self,
        flights: socket.socket,
        requests: socket.socket,
        words: memoryview,
        settings: dict[str, Any],
    ) -> None:
        self.flights = flights
        self.requests = Requests(requests)
        self.words = words
        self.least: int = settings["least"]
        self.arenas = Arenas(
            settings["arena"], settings["step"], settings["limit"], keep=settings["keep"]
        )
        self.announced: tuple[set[int], set[int]] = (set(), set())
        self.mappings = Mappings(private=False)
        lent.is_worker = True
        self.follower = Follower()
        self.functions: dict[int, Any] = {}
        self._sending = threading.Lock()
        self.skipped: set[int] = set()
        self.reporter = Reporter(self.send_reports)
        os.register_at_fork(after_in_child=self._in_fork)

    def serve(self) -> None:
        """Do what is sent until the parent closes the socket."""
        incoming = Incoming(self.flights)
        while incoming.read():
            for message, descriptors in incoming.messages():
                self._take(message, descriptors)
                message = None  # it holds memory that others wait for; the next one may be long

    def _take(self, message: tuple[Any, ...], descriptors: list[int]) -> None:
        if message[0] >= 0:
            self._take_work(message, descriptors)
            return
        kind, content = message
        if kind == FOLLOW:
            self.follower.follow(content)
        elif kind == DROP:
            drop(content)
        elif kind == FUNCTION:
            self.functions[content[0]] = content[1]
        elif kind == SURROUND:
            take_over(*content)
        else:
            self.reporter.configure(content)

    @abstractmethod
    def _take_work(self, message: tuple[Any, ...], descriptors: list[int]) -> None:
        """Take a message that only this kind of worker gets."""

    def _in_fork(self) -> None:
        """In the child of a fork inside a task: end when the task does, and touch nothing."""
        self.reporter.is_forked = True
        self.words = memoryview(bytearray(16)).cast("q")
        self._sending = threading.Lock()

    # -- for the service thread -------------------------------------------------------------

    def value_of(self, i: int, default: Any) -> Any:
        """Return the value of an id, or `default` when it is not here."""
        return default

    def give_back(self, numbers: list[int]) -> list[tuple[int, list[int] | None]]:
        """Give back what was not begun of flights: ids by flight, None for all of a flight."""
        return []

    def memory_stats(self) -> tuple[int, int, int]:
        """Return bytes of shared memory: in use and kept here, and mapped of other processes."""
        return self.arenas.in_use, self.arenas.recycled, self.mappings.in_use

    # -- answers ----------------------------------------------------------------------------

    def encode(self, value: Any) -> tuple[Any, ...]:
        """Return payload, buffers and size of a value, its large parts in shared memory."""
        encoded = encode(value, self._write, self.least, self.arenas.free)
        for actor in encoded.held or ():
            actor.keep_for_good()
        return encoded.payload, encoded.buffers, encoded.size

    def _write(self, buffer: Any) -> Segment:
        """Copy a buffer to shared memory; if it is full, after what the parent lets go of.

        The parent says so before it sends the task that needs the room, but to another thread.
        """
        try:
            return self.arenas.write(buffer)
        except StoreFull:
            self.requests.catch_up()
        return self.arenas.write(buffer)

    def _send_answer(self, *outcome: Any) -> None:
        """Send what was done, by the thread that has `_sending`: an `Answer`, or an actor's."""
        self._send_reports()
        arenas = self.arenas.take_new(self.announced[0])
        sys.stdout.flush()
        sys.stderr.flush()
        numbers = [arena for arena, _ in arenas]
        message = (*outcome, self.mappings.take_released(), numbers, self.memory_stats())
        send(self.flights, message, [fd for _, fd in arenas])

    def send_reports(self) -> None:
        """Send what was logged and warned of, now or by the thread that is sending."""
        if self._sending.acquire(blocking=False):
            try:
                self._send_reports()
            except OSError:  # the parent does not listen any more, and the task need not know
                pass
            finally:
                self._sending.release()

    def _send_reports(self) -> None:
        waiting = self.reporter.waiting
        while waiting:
            send(self.flights, (NOTICES, waiting.popleft()), [])

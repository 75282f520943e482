"""The second thread of a worker: hands out values and takes tasks back while a task runs."""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, NoReturn

from lazyflow.schedulers.core.coroutines import cancel_all, cancels_of
from lazyflow.schedulers.processes.channel import Incoming, send
from lazyflow.schedulers.processes.protocol import (
    FREE,
    GIVE_UP,
    RECALL,
    RECALLED,
    SHARE,
    SHARED,
    SKIP,
    TRIM,
    UNMAPPED,
    Segment,
)
from lazyflow.schedulers.processes.worker.nested import inside
from lazyflow.schedulers.processes.worker.process import PICKLING, RUNNING, WorkerProcess
from lazyflow.schedulers.remote.failures import failure_record


def end_worker(error: BaseException) -> NoReturn:
    """End this process after an error in a thread that serves the parent, which would wait for it.

    Nothing is printed if a task has closed the sockets: it is no error of the worker's. The number
    of the task is still in the page, so it is charged.
    """
    try:
        if not isinstance(error, OSError) or error.errno not in (errno.EBADF, errno.ENOTSOCK):
            import traceback  # which takes a while, and nearly no worker needs it

            traceback.print_exception(error)
            sys.stderr.flush()
    finally:
        os._exit(1)


_ABSENT = object()


class _Service:
    def __init__(self, worker: WorkerProcess) -> None:
        self.worker = worker
        self._handlers: dict[int, Callable[[Any], None]] = {
            SHARE: self._share,
            RECALL: self._recall,
            GIVE_UP: self._give_up,
            SKIP: self._skip,
            FREE: self._free,
            TRIM: self._trim,
        }

    def serve(self) -> None:
        """Answer requests until the parent closes the socket."""
        incoming = Incoming(self.worker.requests)
        try:
            while incoming.read():
                for (kind, content), _ in incoming.messages():
                    self._handlers[kind](content)
        except ConnectionError:  # the parent does not listen any more
            pass
        except BaseException as error:
            end_worker(error)

    def _share(self, i: int) -> None:
        """Send a value to the parent, its large parts by way of shared memory."""
        worker = self.worker
        worker.words[PICKLING] = i
        value = worker.value_of(i, _ABSENT)
        answer: tuple[Any, ...] = ()
        try:
            if value is not _ABSENT:
                encoded = worker.encoded(value)
                answer = (encoded.payload, encoded.buffers, encoded.size)
        except BaseException as error:
            answer = (failure_record(error),)
        value = None
        arenas = worker.arenas.take_new(worker.announced[1])
        shared = (i, answer, [arena for arena, _ in arenas])
        send(worker.requests, (SHARED, shared), [fd for _, fd in arenas])
        worker.words[PICKLING] = 0

    def _free(self, segments: list[Segment]) -> None:
        """Use shared memory again that nothing refers to any more."""
        for segment in segments:
            self.worker.arenas.free(segment)

    def _trim(self, _: None) -> None:
        """Give memory back that was kept for later; report what of others is not mapped here."""
        worker = self.worker
        worker.arenas.trim()
        unmapped = worker.mappings.take_released(), worker.memory_stats()
        send(worker.requests, (UNMAPPED, unmapped))

    def _skip(self, number: int) -> None:
        """Do not begin a call of an actor: nobody wants its result."""
        self.worker.skipped.add(number)

    def _give_up(self, i: int) -> None:
        """Stop what a task computes, if it is running: nobody wants it."""
        cancels = cancels_of(threading.main_thread().ident)  # before the look: of no later task
        if self.worker.words[RUNNING] == i:
            inside.give_up()
            cancel_all(cancels)

    def _recall(self, numbers: list[int]) -> None:
        """Give back what was not begun of flights, the newest first; answer what is done."""
        send(self.worker.requests, (RECALLED, self.worker.give_back(numbers)))


def start(worker: WorkerProcess) -> None:
    """Start the service thread of a worker."""
    service = _Service(worker)
    threading.Thread(target=service.serve, name="lazyflow-service", daemon=True).start()

"""A reference to a client of distributed, and handles of the values that it keeps.

The engine must not keep the user's client alive: a `ClientReference` is weak, and each request gets
the client anew or raises, if it is closed, of the parent of a fork, or on its own event loop.

A `DaskHandle` stands for a key in the cluster. Its future, whose end releases the key, is not in
the handle but in ``_futures :: {number: Future}`` of this process, from which a finalizer in a
thread of lazyflow takes it: `__del__` of a future may get a Ctrl-C, which would be lost there.
`WatchedState` tells the engine of the failure or loss of a key, once.
"""

from __future__ import annotations

import os
import threading
import uuid
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any

import distributed
from distributed.client import FutureState

from lazyflow.errors import SchedulerLost
from lazyflow.finalizers import LastCall
from lazyflow.schedulers.cluster.dask.in_worker import running_tasks
from lazyflow.schedulers.cluster.results import because

_PATIENCE = 2.0  # seconds that a cluster of this process gets at the end of Python; a guess

_numbers = count(1)  # make names unique in this process

#: The futures of handles, by number. A Ctrl-C in their `__del__` is lost, so a thread of lazyflow
#: drops them: were they in handles, the garbage collector would do that in any thread.
_futures: dict[int, Any] = {}


class ClientReference:
    """A reference to a client that does not keep it alive.

    topic
        The topic of the workers' reports.
    unique
        A part of all keys that are made for this reference.
    """

    def __init__(self, client: Any) -> None:
        refuse_in_fork(client)
        self._client = weakref.ref(client)
        self._pid = os.getpid()
        self.topic = f"lazyflow-{client.id}"
        self.unique = uuid.uuid4().hex

    def get(self) -> Any:
        """Return the client; raise SchedulerLost if it is closed, TypeError on its own loop."""
        client = self._client()
        if self._pid != os.getpid():
            raise forked()
        if client is None or not self.is_usable():  # a lost one tries to connect for 30 s
            raise lost()
        refuse_on_loop(client)
        return client

    def new_key(self, name: str) -> tuple[str, int]:
        """Return a key like those of dask's collections.

        To the scheduler all keys of one name are a group, by whose size and inputs it decides
        where tasks go.
        """
        return f"{name}-{self.unique}", next(_numbers)

    def or_none(self) -> Any:
        """Return the client, open or closed, or None."""
        return self._client()

    def is_usable(self) -> bool:
        """Return whether the client is connected."""
        client = self._client()
        return (
            client is not None and client.status == "running"
            and client.loop.asyncio_loop.is_running()
        )

    def shares_process(self) -> bool:
        """Return whether the scheduler runs in this process."""
        cluster = getattr(self._client(), "cluster", None)
        return self.is_usable() and isinstance(
            getattr(cluster, "scheduler", None), distributed.Scheduler)

    def catch_up(self, keys: Sequence[str]) -> None:
        """Release keys; return when the scheduler has handled that, and all messages before."""
        client = self.get()
        mark = f"lazyflow-mark-{next(_numbers)}-{self.unique}"  # an unknown key is answered

        async def ask() -> None:
            reply = client.futures[mark] = FutureState(mark)
            if keys:
                client._send_to_scheduler_safe(
                    {"op": "client-releases-keys", "keys": keys, "client": client.id})
            client._send_to_scheduler_safe({"op": "report-key", "key": mark, "client": client.id})
            await reply.wait(_PATIENCE)
            del client.futures[mark]

        with suppress(OSError, TimeoutError):
            client.sync(ask)

    def release_all(self) -> None:
        """Release all keys of lazyflow: a cluster in this process would log them as lost."""
        client = self._client()
        if client is not None and self.shares_process():
            self.catch_up([key for key in client.futures if self.unique in str(key)])
            # wait for workers: one that ends while it imports modules logs an error, too
            ask = partial(client._run, running_tasks, "", on_error="ignore")
            with suppress(OSError, TimeoutError):
                client.sync(ask, callback_timeout=_PATIENCE)


class DaskHandle:
    """The handle of a value that the cluster keeps.

    asked
        The only workers that may compute it, by any of their names; None: all may.
    workers
        Their addresses at the submission.
    holder
        A worker that has it, as far as is known.
    """

    __slots__ = ("_number", "_release", "asked", "holder", "key", "workers")

    def __init__(self, key: Any, holder: str | None = None) -> None:
        self.key = key
        self.holder = holder
        self._number = 0
        self._release: LastCall | None = None
        self.asked: tuple[Any, ...] | None = None
        self.workers: list[Any] = []

    @property
    def future(self) -> Any:
        """The future of the value, or None before the submission."""
        return _futures.get(self._number)

    def hold(self, future: Any) -> None:
        """Keep the future of the value."""
        number = next(_numbers)
        self._release = LastCall(_futures.pop, number, None)
        _futures[number] = future
        self._number = number

    def drop(self) -> None:
        """Drop the future at once, in a thread that gets no Ctrl-C: the engine's."""
        if self._release is not None:
            self._release.cancel()
        _futures.pop(self._number, None)


class WatchedState(FutureState):
    """The state of a key, which passes its failure or loss on, once.

    This is not a callback of the future: distributed runs those in an executor, which refuses
    them, with tracebacks, at the end of Python.

    Parameters
    ----------
    failed
        Called with the error, or None, in the client's loop.
    finished
        Called when the value is there; if None, a later loss is not passed on.
    """

    __slots__ = ("failed", "finished")

    def __init__(
        self, key: str, failed: Callable[[Any], Any], finished: Callable[[], Any] | None = None
    ) -> None:
        super().__init__(key)
        self.failed = failed
        self.finished = finished

    def finish(self, type: Any = None) -> None:
        super().finish(type)
        if self.finished is not None:
            self.finished()
        else:
            self.failed = bool

    def set_error(self, exception: Any, traceback: Any) -> None:
        super().set_error(exception, traceback)
        self._pass_on()

    def cancel(self, *given: Any, **named: Any) -> None:
        super().cancel(*given, **named)
        self._pass_on()

    def lose(self) -> None:
        super().lose()
        self._pass_on()

    def _pass_on(self) -> None:
        failed, self.failed = self.failed, bool
        failed(self.exception)


def refuse_on_loop(client: Any) -> None:
    """Raise TypeError in the thread of a client's event loop: to wait there would stop it."""
    if client.asynchronous:
        raise TypeError(
            "this runs on the event loop of an asynchronous distributed.Client, which would stand "
            "still while it waits. Write `await x` instead of compute(x), x.compute() or "
            "x.result(), pass values as arguments instead of put(x), or make the client without "
            "asynchronous=True."
        )


def refuse_in_fork(client: Any) -> None:
    """Raise SchedulerLost if a client is that of the parent of this process.

    Its event loop was in a thread that the child of a fork has not: requests would wait for ever.
    """
    if client.status != "running":
        return
    loop = client.loop.asyncio_loop
    ident = getattr(loop, "_thread_id", None)  # of the thread that runs it; other loops have none
    if ident is not None and ident not in [each.ident for each in threading.enumerate()]:
        raise forked()


def forked() -> SchedulerLost:
    """Return the error of requests to the parent's client in the child of a fork."""
    return SchedulerLost(
        f"this process (pid {os.getpid()}) is the child of a fork, and the distributed.Client "
        "that it uses is its parent's, whose connection and threads it has not. Make a client "
        "here: Client(address, set_as_default=True); or start processes by \"spawn\"."
    )


def lost(cause: BaseException | None = None) -> SchedulerLost:
    """Return the error of a lost connection."""
    return because(cause, SchedulerLost(
        "the connection to the scheduler of the cluster is gone, and with it the tasks and values "
        "there. Check whether the scheduler still runs, connect again by "
        "distributed.Client(address), and compute again."
    ))

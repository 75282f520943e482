"""Actors on a dask.distributed cluster: what is in a worker, and the way to it.

An actor is one of distributed's own (``actor=True``): it stays in the worker that made it, and
that worker's loop passes messages to it. Of the rest of distributed's actors nothing is used: its
futures are no futures elsewhere, its calls come in any order, and one whose worker forgot the
actor never ends. Messages go by the remote call that distributed's actors are called by, one at
a time; answers come with the events of the cluster, as those of groups do.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import uuid
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

import distributed
from dask._task_spec import Task as TheirTask
from dask._task_spec import TaskRef
from distributed.client import FutureState
from distributed.protocol import to_serialize
from distributed.utils_comm import gather_from_workers

from lazyflow.departures import LastCall
from lazyflow.schedulers.cluster import journal
from lazyflow.schedulers.cluster.actor_host import ActorHost
from lazyflow.schedulers.cluster.actor_work import Home, Messages
from lazyflow.schedulers.cluster.connection import Line
from lazyflow.schedulers.cluster.journal import Entries
from lazyflow.schedulers.cluster.outcome import Outcome, Packed

if TYPE_CHECKING:
    from lazyflow.schedulers.cluster.dask.scheduler import DaskEngine

OPENED = "opened"

_SOON = 0.002  # seconds that a reply waits for an answer
_ASKING = 5.0  # seconds that another process of the machine gets to read a file
_numbers = count(1)
_unique = uuid.uuid4().hex

# -- in a worker ----------------------------------------------------------------------------


class _Port:
    """What an actor sends goes with the worker's events, or with the reply to a message.

    Events wait for each other for some milliseconds, so a reply waits as long for an answer.
    """

    def __init__(self, worker: Any, topic: str, key: str, client: str) -> None:
        self.worker = worker
        self.topic = topic
        self.key = key
        self.client = client
        self.is_closed = False
        self._tasks: set[Any] = set()  # the loop has weak references only
        self._reply: asyncio.Future[bytes] | None = None  # that waits for something to say

    def answer(
        self, report: tuple[Any, ...], value: Packed | None = None, state: Packed | None = None
    ) -> None:
        if self.is_closed:  # nobody would let go of what is kept
            return
        number = report[1]
        data = pickle.dumps((self.key, *report))
        found = {"value": value, "state": state}
        kept = {
            kept_key(self.key, number, what): Outcome({number: packed}, {})
            for what, packed in found.items() if packed is not None
        }
        if kept:
            self.worker.loop.add_callback(self._keep, kept, data)
        else:
            self.worker.loop.add_callback(self._send, data)

    def _send(self, data: bytes) -> None:
        reply, self._reply = self._reply, None
        if reply is not None and not reply.done():
            reply.set_result(data)
        else:
            self.worker.log_event(self.topic, data)

    async def reply(self) -> bytes | None:
        """Return the next answer, if it comes soon."""
        loop = asyncio.get_running_loop()
        reply = self._reply = loop.create_future()
        timer = loop.call_later(_SOON, _set, reply)
        try:
            return await reply
        finally:
            timer.cancel()

    async def _keep(self, kept: dict[str, Outcome], data: bytes) -> None:
        """Make values the cluster's, wanted by the caller; only then tell him."""
        worker = self.worker
        worker.update_data(data=kept)
        await worker.scheduler.update_data(
            who_has={key: [worker.address] for key in kept},
            nbytes={key: outcome.__sizeof__() for key, outcome in kept.items()},
            client=self.client,
        )
        self._send(data)

    def fetch(self, token: str, done: Callable[[Outcome | None], None]) -> None:
        task = asyncio.get_running_loop().create_task(self._fetch(token, done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _fetch(self, key: str, done: Callable[[Outcome | None], None]) -> None:
        try:
            done(await self._found(key))
        except Exception:  # the caller brings it
            done(None)

    async def _found(self, key: str) -> Any:
        worker = self.worker
        if key in worker.data:
            return worker.data[key]
        who_has = await worker.scheduler.who_has(keys=[key])
        if not who_has.get(key):
            return None
        data, *_ = await gather_from_workers(who_has, rpc=worker.rpc, who=worker.address)
        return data.get(key)


def _set(reply: asyncio.Future[Any]) -> None:
    if not reply.done():
        reply.set_result(None)


def kept_key(key: str, number: int, what: str) -> str:
    """Return the name of what the cluster keeps of a call."""
    return f"{key}-{what}-{number}"


class DaskHome:
    """The actor, as distributed sees it."""

    def __init__(self, topic: str, key: str, client: str, place: None) -> None:
        worker = distributed.get_worker()
        port = _Port(worker, topic, key, client)
        self._port = port
        self._home = Home("distributed", port)
        self._end = LastCall(_close, self._home, port)
        where = worker.address, worker.nanny, os.getpid(), self._home.journal.path
        worker.log_event(topic, pickle.dumps((key, OPENED, *where)))

    async def tell(self, messages: Messages) -> bytes | None:
        """Take messages in, on the worker's loop; returns the next answer if it comes soon."""
        self._home.take(messages)
        return await self._port.reply()


def _nothing() -> None:
    return None


def _close(home: Home, port: _Port) -> None:
    home.close()
    port.is_closed = True


# -- with the caller ------------------------------------------------------------------------


class _Watched(FutureState):
    """The state of an actor's key, which tells the line what the scheduler says of it."""

    __slots__ = ("line",)
    line: DaskLine

    def finish(self, type: Any = None) -> None:
        super().finish(type)
        self.line.post(self.line.made)

    def set_error(self, exception: Any, traceback: Any) -> None:
        super().set_error(exception, traceback)
        self.line.gone(self.exception)

    def cancel(self, *given: Any, **named: Any) -> None:
        super().cancel(*given, **named)
        self.line.gone(self.exception)

    def lose(self) -> None:
        super().lose()
        self.line.gone(None)


class DaskLine(Line):
    """The way to an actor: free when the worker has confirmed the last messages."""

    def __init__(self, engine: DaskEngine, host: ActorHost) -> None:
        self.engine = engine
        self.host = host
        number = next(_numbers)
        # No "-" before the end, so that each is a group of its own: of many in one group the
        # scheduler thinks that they are the beginning of a graph, and keeps them back.
        self.key = f"lazyflow_actor_{number}_{_unique}"
        self._address: str | None = None
        self._nanny: str | None = None
        self._path = ""
        self._is_made = False
        self._is_free = True
        client = engine.client
        state = client.futures[self.key] = _Watched(self.key)
        state.line = self
        engine.lines[self.key] = self
        place = f"lazyflow_place_{number}_{_unique}"
        graph = {
            # of a task that needs another the scheduler asks which worker has the fewest actors
            place: TheirTask(place, _nothing),
            self.key: TheirTask(
                self.key, DaskHome, engine.topic, self.key, client.id, TaskRef(place)),
        }
        (self._future,) = client.get(graph, [self.key], sync=False, actors=True)

    def post(self, step: Callable[..., None], *details: Any) -> None:
        """Have the engine's thread do something."""
        self.engine.post(step, *details)

    def heard(self, what: str, *details: Any) -> None:
        """Take a report."""
        if what == OPENED:
            self._address, self._nanny, pid, self._path = details
            self.where = f"process {pid}, {self._address}"
            self.host.pump()
        else:
            self.host.heard(self, (what, *details))

    def made(self) -> None:
        """Learn that the actor is where messages find it."""
        self._is_made = True
        self.host.pump()

    def gone(self, error: BaseException | None) -> None:
        """Learn that the scheduler has lost the actor. In the client's loop."""
        self.post(self.host.broken, self, error)

    def is_free(self) -> bool:
        return self._is_free and self._is_made and self._address is not None

    def tell(self, messages: Messages) -> None:
        self._is_free = False
        self.engine.client.loop.add_callback(self._tell, self.engine.client, messages)

    async def _tell(self, client: Any, messages: Messages) -> None:
        message = {
            "actor": self.key, "function": "tell", "args": [to_serialize(messages)], "kwargs": {},
        }
        try:
            if client.direct_to_workers:
                reply = await client.rpc(self._address).actor_execute(**message)
            else:
                reply = await client.scheduler.proxy(
                    worker=self._address, msg={"op": "actor_execute", **message})
            error = None if reply["status"] == "OK" else reply["exception"]
        except Exception as broken:
            error = broken
        if error is None:
            self.post(self._told)
            if reply["result"] is not None:
                self.engine.heard(reply["result"])
        elif await self._is_scheduler_there(client):  # else the client hears that it is lost
            self.gone(error)

    async def _is_scheduler_there(self, client: Any) -> bool:
        try:
            await client.scheduler.who_has(keys=[self.key])
        except OSError:
            return False
        return True

    def _told(self) -> None:
        self._is_free = True
        self.host.pump()

    def kept(self, number: int, what: str) -> Any:
        client = self.engine.client
        handle = self.engine.handle(kept_key(self.key, number, what))
        handle.hold(distributed.Future(handle.key, client))
        client.futures[handle.key].finish()
        return handle

    def kill(self) -> None:
        """Do nothing: others have their work and values in that process."""

    def find_journal(self, then: Callable[[Entries | None], None]) -> None:
        self._forget()
        found = journal.read(self._path) if self._path else (0, [])  # no call can have begun
        if found is not None:
            then(found)
            return
        self.engine.client.loop.add_callback(self._ask, self.engine.client, then)

    async def _ask(self, client: Any, then: Callable[[Entries | None], None]) -> None:
        """Ask the nanny of the worker, or another worker of the machine."""
        host = str(self._address).rpartition(":")[0]
        try:
            workers = list(await client.scheduler.ncores())
        except OSError:
            workers = []
        beside = [a for a in workers if a.rpartition(":")[0] == host and a != self._address]
        for address in [self._nanny, *beside][:3]:
            if address is None:
                continue
            try:
                asked = client._run(journal.read, self._path, workers=[address])
                found = (await asyncio.wait_for(asked, _ASKING))[address]
            except Exception:  # it ended too
                continue
            if found is not None:
                then(found)
                return
        then(None)

    def end(self) -> None:
        self._forget()
        journal.remove(self._path)  # a worker of this machine may be killed before it does

    def _forget(self) -> None:
        self.engine.lines.pop(self.key, None)
        self._future = None

"""Actors on a dask.distributed cluster: the end in a worker, and the way to it.

An actor is one of distributed's own (``actor=True``): it stays in the worker that made it, and
that worker's loop passes messages to it. The rest of distributed's actors is not used: their
futures are no futures elsewhere, their calls come in any order, and a call never ends if the worker
forgot the actor. Messages go by the remote call of distributed's actors, one at a time; answers
come with the events of the cluster, as those of groups do.

State, and the only thread that changes it::

    _ActorInWorker   _reply :: Future, a message whose answer is awaited, and _fetches :: {Task}:
                     the worker's event loop. `report` comes from threads of calls, and posts there.
    DaskLink         _is_made, _is_free: whether a message may go; _lent :: [key] for the next one;
                     _address, _nanny: where the actor is. The engine's thread.
    DirectWay        _met, _late :: {address}, _attempts :: {address: Task}: the client's loop.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import distributed
from dask._task_spec import Task as TheirTask
from dask._task_spec import TaskRef
from distributed.protocol import to_serialize
from distributed.utils_comm import gather_from_workers

from lazyflow.finalizers import LastCall
from lazyflow.schedulers.actors.remote_actor import RemoteActor
from lazyflow.schedulers.cluster.actors import journal
from lazyflow.schedulers.cluster.actors.journal import ActorMessages, Report
from lazyflow.schedulers.cluster.actors.link import EngineLink
from lazyflow.schedulers.cluster.actors.worker import EngineActor
from lazyflow.schedulers.cluster.dask.client import ClientReference, DaskHandle, WatchedState
from lazyflow.schedulers.cluster.dask.in_worker import settle
from lazyflow.schedulers.cluster.engine import Engine, HeldValue
from lazyflow.schedulers.cluster.outcome import GroupOutcome, PackedValue

# -- the direct way between a client and the workers, where there is one ------------------
#
# By itself distributed has the data of a client pass through the scheduler, which takes more than
# twice the time. But a client may be where workers can't be connected to, behind a gateway, and
# then each attempt takes half a minute. So an attempt is waited for shortly, and only once, while
# other messages go through the scheduler.


LARGE = 1 << 20  # bytes that are worth a new connection, which takes some milliseconds

_ANSWERED_WITHIN = 0.5  # seconds; a guess


class DirectWay:
    """The connections of one client to workers. Used in the client's loop only."""

    def __init__(self) -> None:
        self._met: set[str] = set()
        self._late: set[str] = set()  # workers that did not answer soon: not waited for again
        self._attempts: dict[str, asyncio.Task[None]] = {}
        self._turns = count()

    async def meet(self, client: Any, workers: Iterable[str]) -> set[str]:
        """Return which of some workers can be connected to at once, or almost."""
        if client.direct_to_workers is False:
            return set()
        attempts = {attempt: self._attempt(client, attempt) for attempt in workers}
        if self._met or not self._late:  # else there is no direct way to workers, it seems
            fresh = [attempt for worker, attempt in attempts.items() if worker not in self._late]
            if fresh:
                await asyncio.wait(fresh, timeout=_ANSWERED_WITHIN)
        met = {
            worker for worker, attempt in attempts.items() if attempt.done() and worker in self._met
        }
        self._late.update(attempts.keys() - met)
        return met

    def _attempt(self, client: Any, worker: str) -> asyncio.Task[None]:
        """Return the attempt to connect that is under way, or a new one."""
        known = self._attempts.get(worker)
        if known is None or known.done():
            known = self._attempts[worker] = asyncio.create_task(self._connect(client, worker))
        return known

    async def _connect(self, client: Any, worker: str) -> None:
        pool = client.rpc
        try:
            pool.reuse(worker, await pool.connect(worker))  # at once if there is a connection
        except (OSError, RuntimeError):  # it can't be reached, it has ended, or the client has
            self._met.discard(worker)
        else:
            self._met.add(worker)
            self._late.discard(worker)

    async def fetched(self, client: Any, wanted: Mapping[DaskHandle, int]) -> dict[Any, Any]:
        """Return the values, by key, that workers send directly; their sizes are given."""
        for handle in wanted:
            state = client.futures.get(handle.key)
            if state is not None:
                await state.wait()  # a report may come before the scheduler has heard of the value
        sizes = {handle.key: size for handle, size in wanted.items()}
        holders = {each.key: [each.holder] for each in wanted if each.holder is not None}
        with suppress(OSError):  # of the scheduler
            if len(holders) < len(sizes):
                unknown = list(sizes.keys() - holders.keys())
                holders.update(await client.scheduler.who_has(keys=unknown))
            worth: Counter[str] = Counter()
            for key, workers in holders.items():
                worth.update(dict.fromkeys(workers, sizes[key]))
            met = await self.meet(
                client, [w for w, size in worth.items() if size >= LARGE or w in self._met])
            who_has: dict[Any, set[str]] = {}
            for key, workers in holders.items():
                if near := met.intersection(workers):
                    who_has[key] = near
            data, *_ = await gather_from_workers(who_has, rpc=client.rpc)
            return dict(data)
        return {}

    async def receiver(self, client: Any) -> list[str]:
        """Return the worker that gets the next large value; none: the scheduler sends it on."""
        workers = sorted(await client.scheduler.ncores_running(workers=None))
        chosen = workers[next(self._turns) % len(workers):][:1] if workers else []
        return list(await self.meet(client, chosen))


_SOON = 0.002  # seconds that a reply waits for an answer; a guess
_ALONE = 0.02  # and of an actor that runs one call at a time: others can't begin before that
_ASKING = 5.0  # seconds that another process of the machine gets to read a file; a guess
_numbers = count(1)
_unique = uuid.uuid4().hex

# -- in a worker ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Opened:
    """The report of an actor that it has started: its process and its journal."""

    address: str
    nanny: Any
    pid: int
    journal_name: str


class _ActorInWorker(EngineActor):
    """Sends reports of an actor with the worker's events, or with the reply to a message.

    Events wait for each other for some milliseconds, twice on their way, so a reply waits for an
    answer. The next message comes after the reply.
    """

    def __init__(self, worker: Any, topic: str, key: str, client: str) -> None:
        super().__init__("distributed")
        self.worker = worker
        self.topic = topic
        self.key = key
        self.client = client
        self.is_closed = False
        self._patience = _SOON
        self._reply: asyncio.Future[bytes] | None = None  # a reply that waits for an answer
        self._fetches: set[Any] = set()  # held here: the loop has weak references only

    def report(
        self, number: int, report: bytes,
        value: PackedValue | None = None, state: PackedValue | None = None,
    ) -> None:
        if self.is_closed:  # kept values would never be released
            return
        data = pickle.dumps((self.key, report), 5)
        parts = {"value": value, "state": state}
        kept = {
            kept_key(self.key, number, what): GroupOutcome({number: packed}, {})
            for what, packed in parts.items() if packed is not None
        }
        if kept:
            self.worker.loop.add_callback(self._keep, kept, data)
        else:
            self.worker.loop.add_callback(self._send, data)

    def _send(self, data: bytes) -> None:
        reply, self._reply = self._reply, None
        if reply is None or not settle(reply, data):
            self.worker.log_event(self.topic, data)

    async def exchange(self, messages: ActorMessages) -> bytes | None:
        """Handle messages; return the next report, if it comes soon."""
        make = messages.make
        if make is not None and make.max_concurrency == 1:
            self._patience = _ALONE
        self.take(messages)
        loop = asyncio.get_running_loop()
        reply = self._reply = loop.create_future()
        patience = self._patience if messages.calls else _SOON
        timer = loop.call_later(patience, settle, reply, None)
        try:
            return await reply
        finally:
            timer.cancel()

    async def _keep(self, kept: dict[str, GroupOutcome], data: bytes) -> None:
        """Register values with the cluster, as wanted by the caller, then send the report."""
        worker = self.worker
        worker.update_data(data=kept)
        await worker.scheduler.update_data(
            who_has={key: [worker.address] for key in kept},
            nbytes={key: outcome.__sizeof__() for key, outcome in kept.items()},
            client=self.client,
        )
        self._send(data)

    def close(self) -> None:
        super().close()
        self.is_closed = True

    def fetch(self, key: str, have: Callable[[GroupOutcome | None], None]) -> None:
        value = self.worker.data.get(key)
        if value is not None:
            have(value)
            return
        task = asyncio.get_running_loop().create_task(self._fetch(key, have))
        self._fetches.add(task)
        task.add_done_callback(self._fetches.discard)

    async def _fetch(self, key: str, have: Callable[[GroupOutcome | None], None]) -> None:
        worker = self.worker
        data: dict[Any, Any] = {}
        with suppress(Exception):  # of those that hold it, or the scheduler
            who_has = await worker.scheduler.who_has(keys=[key])
            if who_has.get(key):
                data, *_ = await gather_from_workers(who_has, rpc=worker.rpc, who=worker.address)
        have(data.get(key))


def kept_key(key: str, number: int, what: str) -> str:
    """Return the key of a value or state of a call that the cluster keeps."""
    return f"{key[:-1]}, {what!r}, {number})"


class DaskActor:
    """The actor, as distributed sees it."""

    def __init__(self, topic: str, key: str, client: str, place: bool) -> None:
        worker = distributed.get_worker()
        self._actor = _ActorInWorker(worker, topic, key, client)
        self._end = LastCall(self._actor.close)
        opened = _Opened(worker.address, worker.nanny, os.getpid(), self._actor.journal.name)
        worker.log_event(topic, pickle.dumps((key, pickle.dumps(opened, 5)), 5))

    async def take(self, messages: ActorMessages) -> bytes | None:
        """Handle messages, on the worker's loop; return the next report if it comes soon."""
        return await self._actor.exchange(messages)


# -- with the caller ------------------------------------------------------------------------


class DaskLink(EngineLink):
    """The way to an actor, which is free when the worker has confirmed the last messages."""

    def __init__(
        self, engine: Engine, actor: RemoteActor, reference: ClientReference, direct: DirectWay
    ) -> None:
        super().__init__(engine, actor)
        self._reference = reference
        self._direct = direct
        # The form of a collection's item. The part before the comma is a group of its own: the
        # scheduler takes many actors in one group for the beginning of a graph, and keeps them
        # back. The part before the "-" is the prefix, of which it keeps statistics for ever: all
        # actors share it.
        self.key = f"('lazyflow_actor-{next(_numbers)}_{_unique}')"
        self._address: str | None = None
        self._nanny: str | None = None
        self._is_made = False
        self._is_free = True
        self._lent: list[Any] = []  # the keys of values that the next message names
        client = reference.get()
        post = engine.post
        client.futures[self.key] = WatchedState(
            self.key, partial(post, self.broken), partial(post, self._made))
        engine.links[self.key] = self
        place = kept_key(self.key, 0, "place")
        graph = {
            # of tasks with inputs only, the scheduler spreads actors evenly over workers
            place: TheirTask(place, bool),
            self.key: TheirTask(
                self.key, DaskActor, reference.topic, self.key, client.id, TaskRef(place)),
        }
        (self._future,) = client.get(graph, [self.key], sync=False, actors=True)

    def receive(self, report: Report | _Opened) -> None:
        if not isinstance(report, _Opened):
            super().receive(report)
            return
        self._address, self._nanny = report.address, report.nanny
        self.began_at(f"process {report.pid}, {report.address}", report.journal_name)
        self.actor.pump()

    def _made(self) -> None:
        self._is_made = True
        self.actor.pump()

    def is_free(self) -> bool:
        return self._is_free and self._is_made and self._address is not None

    def lend(self, packed: Any) -> Any:
        if isinstance(packed, HeldValue):
            self._lent.append(packed.current_handle().key)
        return super().lend(packed)

    def send(self, messages: ActorMessages) -> None:
        self._is_free = False
        client = self._reference.get()
        lent, self._lent = self._lent, []
        client.loop.add_callback(self._send_now, client, messages, lent)

    async def _send_now(self, client: Any, messages: ActorMessages, lent: list[Any]) -> None:
        for key in lent:  # before the scheduler has heard of a value, the actor asks in vain
            state = client.futures.get(key)
            if state is not None and state.status == "pending":
                await state.wait()
        message = {
            "actor": self.key, "function": "take", "args": [to_serialize(messages)], "kwargs": {},
        }
        try:
            if await self._direct.meet(client, [str(self._address)]):
                reply = await client.rpc(self._address).actor_execute(**message)
            else:
                reply = await client.scheduler.proxy(
                    worker=self._address, msg={"op": "actor_execute", **message})
            error = None if reply["status"] == "OK" else reply["exception"]
        except Exception as broken:
            error = broken
        if error is None:
            self.engine.post(self._sent)
            if reply["result"] is not None:
                self.engine.receive(reply["result"])
            return
        with suppress(OSError):  # the scheduler is gone: the client reports that
            await client.scheduler.who_has(keys=[self.key])
            self.engine.post(self.broken, error)

    def _sent(self) -> None:
        self._is_free = True
        self.actor.pump()

    def kept(self, number: int, what: str) -> Any:
        client = self._reference.get()
        handle = DaskHandle(kept_key(self.key, number, what), self._address)
        handle.hold(distributed.Future(handle.key, client))
        client.futures[handle.key].finish()
        return handle

    def kill(self) -> None:
        """Do nothing: the process has other work and values."""

    def ask_for_journal(self, then: Callable[[journal.Entries | None], None]) -> None:
        client = self._reference.get()
        client.loop.add_callback(self._ask, client, then)

    async def _ask(self, client: Any, then: Callable[[journal.Entries | None], None]) -> None:
        """Have the nanny of the worker, or a worker of the same machine, read the journal."""
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
                asked = client._run(journal.read, self.journal_name, workers=[address])
                entries = (await asyncio.wait_for(asked, _ASKING))[address]
            except Exception:  # that process has ended, too
                continue
            if entries is not None:
                then(entries)
                return
        then(None)

    def release(self) -> None:
        self.engine.links.pop(self.key, None)
        self._future = None

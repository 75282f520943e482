"""Actors on Ray: the end in the actor's process, and the way to it.

An actor is a Ray actor in a process of its own, with two threads of Ray's: with an event loop in
their place each message would take a third of a millisecond more. `RemoteActor`, which knows the
calls that have run, starts it again, not Ray. Ray returns only results of calls, so `exchange`
brings messages there, and returns when there are reports or it is called again.

State in the actor's process, which both threads of Ray's and those of the actor's calls change::

    _next :: int, _early :: {serial: messages}   under `_taking`: messages are handled by serial,
                                                 those that overtook others wait in `_early`
    _owed :: int                                 under `_news`, as all that follows: answers that
                                                 the caller has yet to get
    _reports :: [bytes]                          reports since the last reply
    _values, _states :: {call: PackedValue}      what Ray is to keep of these
    _turn :: int                                 the latest call of `exchange`; earlier ones return

State in the caller's, which the engine's thread alone changes: ``_serial`` of the next message,
``_there``, calls of `exchange` under way (two at most), and the references of values that came.
"""

from __future__ import annotations

import contextvars
import os
import pickle
import threading
from collections.abc import Callable
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from lazyflow import config
from lazyflow.schedulers.actors.ports import SavedState
from lazyflow.schedulers.actors.remote_actor import RemoteActor
from lazyflow.schedulers.cluster.actors import journal
from lazyflow.schedulers.cluster.actors.journal import ActorMessages
from lazyflow.schedulers.cluster.actors.link import EngineLink
from lazyflow.schedulers.cluster.actors.worker import EngineActor
from lazyflow.schedulers.cluster.engine import Engine, HeldValue
from lazyflow.schedulers.cluster.outcome import GroupOutcome, PackedValue

_AT_ONCE = 2  # calls of `exchange` under way: one that waits for reports, and one with messages

# -- in the actor's process -----------------------------------------------------------------


#: Pickled reports, one after the other, and the values and states of calls that Ray is to keep.
_Reply = tuple[bytes, GroupOutcome | None, GroupOutcome | None]


class _ActorOnRay(EngineActor):
    """Collects reports until a call of `exchange` returns them."""

    def __init__(self, folder: str) -> None:
        super().__init__("ray", folder)
        self._early: dict[int, ActorMessages] = {}  # calls of `exchange` may begin in another order
        self._next = 0
        self._taking = threading.Lock()
        self._owed = 0  # answers
        self._news = threading.Condition()
        self._reports: list[bytes] = []
        self._values: dict[int, PackedValue] = {}
        self._states: dict[int, PackedValue] = {}
        self._turn = 0  # the latest call of `exchange`, the only one that waits

    def exchange(self, serial: int, messages: ActorMessages) -> _Reply:
        """Handle messages in their order; return the reports that there are, or wait for one."""
        with self._taking:
            self._early[serial] = messages
            while self._next in self._early:
                messages = self._early.pop(self._next)
                with self._news:
                    self._owed += len(messages.calls) + (messages.make is not None)
                contextvars.Context().run(self.take, messages)
                self._next += 1
        return self._reply()

    def _reply(self) -> _Reply:
        with self._news:
            self._turn += 1
            turn = self._turn
            self._news.notify()
            while not self._reports and self._owed and turn == self._turn:
                self._news.wait()
            reports, self._reports = self._reports, []
            values, self._values = self._values, {}
            states, self._states = self._states, {}
        return b"".join(reports), _outcome(values), _outcome(states)

    def report(
        self, number: int, report: bytes,
        value: PackedValue | None = None, state: PackedValue | None = None,
    ) -> None:
        with self._news:
            self._reports.append(report)
            if value is not None:
                self._values[number] = value
            if state is not None:
                self._states[number] = state
            self._news.notify()

    def send_answer(
        self, number: int, outcome: tuple[Any, ...], state: SavedState | None
    ) -> None:
        super().send_answer(number, outcome, state)
        with self._news:
            self._owed -= 1
            self._news.notify()

    def fetch(self, token: list[Any], have: Callable[[GroupOutcome | None], None]) -> None:
        token[0].future().add_done_callback(
            lambda future: have(None if future.exception() else future.result()))


def _outcome(values: dict[int, Any]) -> GroupOutcome | None:
    return GroupOutcome(values) if values else None


class RayActor:
    """The actor, as Ray sees it."""

    def __init__(self, folder: str) -> None:
        self._actor = _ActorOnRay(folder)

    def where(self) -> tuple[int, str, str]:
        """Return the process, its node, and the name of its journal."""
        return os.getpid(), ray.get_runtime_context().get_node_id(), self._actor.journal.name

    def exchange(self, given: bytes | tuple[Any, ...]) -> _Reply:
        """Pass messages on, given as their serial number and parts, pickled or not."""
        serial, *parts = pickle.loads(given) if type(given) is bytes else given
        return self._actor.exchange(serial, ActorMessages(*parts))


# -- with the caller ------------------------------------------------------------------------


class RayLink(EngineLink):
    """The way to an actor, which is free while few calls of `exchange` are under way."""

    def __init__(self, engine: Engine, actor: RemoteActor, remote_class: Any, folder: str) -> None:
        super().__init__(engine, actor)
        self._folder = folder
        self._serial = 0
        self._there = 0
        self._has_refs = False  # a message has references, which only Ray may pickle
        self._node = ""
        self._values: dict[str, Any] = {}
        self._theirs: Any = remote_class.options(
            **{"num_cpus": 0, **(config.get("ray_options") or {})},
            max_restarts=0, max_concurrency=_AT_ONCE, name=None,
        ).remote(folder)
        self._exchange: Any = self._theirs.exchange.options(num_returns=3)
        self._when_done(self._theirs.where.remote(), self._is_there)

    def _when_done(self, ref: Any, step: Callable[..., None], *details: Any) -> None:
        """Post a step for the result of a call of the actor, or its end if the call fails."""
        def post(future: Any) -> None:
            error = future.exception()
            if error is not None:
                self.engine.post(self.broken, error)
            else:
                self.engine.post(step, future.result(), *details)

        ref.future().add_done_callback(post)

    def _is_there(self, process: tuple[int, str, str]) -> None:
        pid, self._node, name = process
        self.began_at(f"process {pid}", name, self._folder)
        self.actor.pump()

    def is_free(self) -> bool:
        return bool(self.journal_name) and self._there < _AT_ONCE

    def send(self, messages: ActorMessages) -> None:
        self._there += 1
        reports, *kept = self._exchange.remote(self._given(messages))
        self._serial += 1
        self._when_done(reports, self._take, kept)

    def _given(self, messages: ActorMessages) -> Any:
        """Return messages as they travel: bytes, on which Ray spends least, where that does."""
        parts = self._serial, *messages.parts()
        has_refs, self._has_refs = self._has_refs, False
        if has_refs:
            return parts
        large: list[pickle.PickleBuffer] = []
        data = pickle.dumps(parts, 5, buffer_callback=large.append)
        return parts if large else data

    def lend(self, packed: Any) -> Any:
        self._has_refs = self._has_refs or isinstance(packed, HeldValue)
        return super().lend(packed)

    def _take(self, reports: bytes, refs: list[Any]) -> None:
        self._there -= 1
        self._values = dict(zip(("value", "state"), refs, strict=True))
        stream = BytesIO(reports)
        while stream.tell() < len(reports):
            self.receive(pickle.load(stream))
        self._values = {}
        self.actor.pump()
        if not self._there and self.actor.under_way and self._theirs is not None:
            self.send(ActorMessages())

    def kept(self, number: int, what: str) -> Any:
        return SimpleNamespace(ref=self._values[what])

    def kill(self) -> None:
        ray.kill(self._theirs)

    def ask_for_journal(self, then: Callable[[journal.Entries | None], None]) -> None:
        there = NodeAffinitySchedulingStrategy(self._node, soft=False)
        read = ray.remote(journal.read).options(
            num_cpus=0, max_retries=0, scheduling_strategy=there, name="lazyflow_actor")
        read.remote(self.journal_name, self._folder).future().add_done_callback(
            lambda future: then(None if future.exception() else future.result()))

    def release(self) -> None:
        self._theirs = self._exchange = None

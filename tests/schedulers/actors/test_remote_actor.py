"""An actor on the caller's side, over a port that only notes what it is asked: no process."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from actor_examples import Plain

from lazyflow import Cancelled, WorkerDied
from lazyflow.graph.binding import new_task
from lazyflow.graph.task import Task
from lazyflow.schedulers.actors.calls import (
    ActorCall,
    ActorSpec,
    CallFuture,
    Checkpoint,
    Method,
    WatchedCall,
)
from lazyflow.schedulers.actors.ports import FAILURE, VALUE, MakeActor, ProcessEnd, SentCall
from lazyflow.schedulers.actors.remote_actor import RemoteActor
from lazyflow.schedulers.core.base import Observer
from lazyflow.schedulers.core.errors.records import record
from lazyflow.schedulers.core.future import TaskFuture
from lazyflow.schedulers.core.observing import RunObservers

CHECKPOINT = Checkpoint("get_state", "set_state", 1)


class FakeLink:
    """The way to a process that there is not."""

    def __init__(self) -> None:
        self.made: MakeActor | None = None
        self.sent: list[SentCall] = []
        self.skipped: list[int] = []
        self.states: list[Callable[[Any], None]] = []  # that wait for a state to be brought
        self.brings_later = False
        self.is_ended = False

    def is_free(self) -> bool:
        return True

    def lend(self, packed: Any) -> Any:
        return packed

    def make(self, message: MakeActor) -> None:
        self.made = message

    def call(self, batch: list[SentCall]) -> None:
        self.sent += batch

    def skip(self, number: int) -> None:
        self.skipped.append(number)

    def result(self, item: Any, number: int, outcome: tuple[Any, ...]) -> Any:
        return outcome[1]

    def take_state(self, number: int, state: Any, have: Callable[[Any], None]) -> None:
        if self.brings_later:
            self.states.append(lambda value=state: have(value))
        else:
            have(state)

    def last_begun(self) -> None:
        return None

    def kill(self) -> None:
        raise AssertionError

    def end(self) -> None:
        self.is_ended = True


class FakePort:
    """Does what is posted when it is told to `run`."""

    driver = None
    closing = False

    def __init__(self) -> None:
        self.keeper = self
        self.steps: deque[tuple[Any, ...]] = deque()
        self.links: list[FakeLink] = []

    def why_closed(self, label: str) -> BaseException:
        return Cancelled(label)

    def post(self, step: Callable[..., None], *details: Any) -> None:
        self.steps.append((step, *details))

    def run(self) -> None:
        while self.steps:
            step, *details = self.steps.popleft()
            step(*details)

    def look(self) -> None: ...

    def encode(self, value: Any) -> Any:
        return value

    def own(self, packed: Any) -> None: ...

    def release(self, *packed: Any) -> None: ...

    def unsendable(self, task: Task, role: str, error: BaseException) -> BaseException:
        return error

    def bring(self, value: Any, have: Any) -> Any:
        raise AssertionError

    def load(self, value: Any) -> Any:
        return value

    def add(self, actor: Any) -> None: ...

    def discard(self, actor: Any) -> None: ...

    def pump_soon(self, actor: Any) -> None:
        actor.pump()

    def start(self, actor: Any) -> FakeLink:
        self.links.append(FakeLink())
        return self.links[-1]

    def node_of(self, call: ActorCall) -> Any:
        raise AssertionError


def a_call(name: str, *args: Any, inputs: tuple[TaskFuture, ...] = ()) -> ActorCall:
    task = new_task(Task, Method("Plain", name, __name__), args, {}, depth=1)
    return ActorCall(task, list(inputs), CallFuture(f"Plain.{name}", None))


class Actor:
    """One that is made."""

    def __init__(self, **options: Any) -> None:
        self.port = FakePort()
        spec = ActorSpec(Plain, Plain, "Plain", a_call("__init__"), **options)
        self.host = RemoteActor(spec, self.port)
        self.port.run()
        self.make()

    @property
    def link(self) -> FakeLink:
        return self.port.links[-1]

    def make(self) -> None:
        assert self.link.made is not None
        self.answer(self.link.made.number, None)

    def call(self, *args: Any, **named: Any) -> ActorCall:
        call = a_call("add", *args, **named)
        self.host.call(call)
        self.port.run()
        return call

    def answer(self, number: int, value: Any, state: Any = None) -> None:
        self.host.answered(self.link, number, (VALUE, value), state)
        self.host.pump()

    def die(self, last: int | None, link: FakeLink | None = None) -> None:
        link = link or self.link
        assert self.host.broken(link)
        self.host.died(link, ProcessEnd("ended", "process 1", last))
        self.port.run()


def test_calls_are_sent_in_order_without_waiting_for_answers() -> None:
    actor = Actor()
    calls = [actor.call(k) for k in range(3)]
    assert [number for number, *_ in actor.link.sent] == [2, 3, 4]
    for number, k in zip([2, 3, 4], range(3), strict=True):
        actor.answer(number, 10 * k)
    assert [c.future.outcome() for c in calls] == [(0, None), (10, None), (20, None)]


def test_a_call_that_waits_holds_those_behind_it_back_until_it_is_cancelled() -> None:
    actor = Actor()
    late = TaskFuture("late", None)
    waiting, behind = actor.call(inputs=(late,)), actor.call(1)
    assert actor.link.sent == []
    waiting.future.cancel()
    actor.port.run()
    assert [number for number, *_ in actor.link.sent] == [2]
    actor.answer(2, 7)
    assert behind.future.outcome() == (7, None)


def test_a_call_that_was_sent_is_skipped_when_it_is_cancelled() -> None:
    actor = Actor()
    actor.call(1)
    cancelled = actor.call(2)
    cancelled.future.cancel()
    actor.port.run()
    assert actor.link.skipped == [3]


class Watching(Observer):
    """An observer of calls that notes those that are over."""

    def __init__(self) -> None:
        self.over: list[WatchedCall] = []

    def call_ended(self, call: WatchedCall) -> None:
        self.over.append(call)

    def watch(self, call: ActorCall) -> ActorCall:
        watched = WatchedCall(call.task, None, "Plain", 1, RunObservers([self]))
        return ActorCall(call.task, call.inputs, call.future, watched)


def test_observers_hear_that_a_call_which_was_sent_and_cancelled_has_not_failed() -> None:
    actor, watching = Actor(), Watching()
    failed, cancelled = (watching.watch(a_call("add", k)) for k in range(2))
    for call in (failed, cancelled):
        actor.host.call(call)
    actor.port.run()
    cancelled.future.cancel()
    for number in (2, 3):
        outcome = (FAILURE, record(Cancelled("it did not begin")), None, None)
        actor.host.answered(actor.link, number, outcome, None)
    assert watching.over == [failed.watch, cancelled.watch]
    assert [call.failed for call in watching.over] == [True, False]


def test_observers_hear_of_calls_whose_keeper_ends() -> None:
    actor, watching = Actor(), Watching()
    sent = watching.watch(a_call("add", 1))
    actor.host.call(sent)
    actor.port.run()
    actor.host.stop(Cancelled("shut down"))
    assert [(call, call.failed) for call in watching.over] == [(sent.watch, True)]


def test_what_had_begun_is_to_blame_and_the_rest_goes_on_in_a_new_process() -> None:
    actor = Actor(restarts=1)
    ran, queued = actor.call(1), actor.call(2)
    actor.die(last=2)
    error = ran.future.outcome()[1]
    assert isinstance(error, WorkerDied)
    assert "while it ran Plain.add" in str(error)
    assert len(actor.port.links) == 2
    actor.make()
    assert [number for number, *_ in actor.link.sent] == [5]
    actor.answer(5, 2)
    assert queued.future.outcome() == (2, None)


def test_without_restarts_all_later_calls_fail() -> None:
    actor = Actor()
    queued = actor.call(1)
    actor.die(last=0)
    later = actor.call(2)
    for call in (queued, later):
        with pytest.raises(WorkerDied, match="while no call ran; it has no restarts"):
            raise call.future.outcome()[1]  # type: ignore[misc]
    assert actor.link.is_ended is False  # it was gone already
    assert len(actor.port.links) == 1


def test_an_actor_that_is_started_again_gets_the_latest_state_whatever_call_it_was_of() -> None:
    actor = Actor(restarts=1, checkpoint=CHECKPOINT, max_concurrency=2)
    actor.call(1), actor.call(2)
    actor.answer(3, None, (4, "late"))  # calls 2 and 3 ran at once: 2 ended last
    actor.answer(2, None, (5, "latest"))
    actor.die(last=0)
    assert actor.link.made is not None
    assert actor.link.made.state == "latest"


@pytest.mark.parametrize("is_known", [True, False])
def test_a_restart_waits_for_a_state_on_its_way_and_happens_once(is_known: bool) -> None:
    actor = Actor(restarts=1, checkpoint=CHECKPOINT)
    call = actor.call(1)
    first = actor.link
    first.brings_later = True
    actor.answer(2, 1, (2, "state"))
    assert not call.future.done()  # its state is not here yet
    (have,) = first.states
    assert actor.host.broken(first)
    if is_known:
        actor.host.died(first, ProcessEnd("ended", "process 1", 0))
        assert len(actor.port.links) == 1
        have()
    else:
        have()
        assert len(actor.port.links) == 1
        actor.host.died(first, ProcessEnd("ended", "process 1", 0))
    assert call.future.outcome() == (1, None)
    assert len(actor.port.links) == 2
    assert actor.link.made is not None
    assert actor.link.made.state == "state"


def test_an_error_of_the_constructor_is_that_of_all_calls() -> None:
    port = FakePort()
    host = RemoteActor(ActorSpec(Plain, Plain, "Plain", a_call("__init__")), port)
    call = a_call("add")
    host.call(call)
    port.run()
    (link,) = port.links
    assert link.made is not None
    host.answered(link, link.made.number, (FAILURE, record(ValueError("no")), None), None)
    with pytest.raises(ValueError, match="no"):
        raise call.future.outcome()[1]  # type: ignore[misc]
    assert link.is_ended
    assert host.is_over

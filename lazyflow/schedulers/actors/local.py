"""Actors of this process: inline on sync, in threads of their own on threads::

    call --> _LocalCall --> an executor (call_executors.py): waits, begin, finish, done or failed

An `InlineActor` runs a call in the caller's thread before `call` returns. A `ThreadActor` has an
executor of its own, of threads or with an event loop. Both have an `_Object`::

    instance :: Any, error :: BaseException      what the constructor has made, or raised
    queued, running :: {_LocalCall: None}        in the order in which calls came, and began
    stopped :: BaseException                     not None: no call begins, and each fails with it
    waiting :: WaitingActor                      for circles of waiting calls (calls.py)

and a `ThreadActor` has ``_late``, calls whose inputs are not there: with several calls at once,
others pass them.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

from lazyflow.clock import Deadline
from lazyflow.errors import Cancelled
from lazyflow.finalizers import WeakTable
from lazyflow.graph.arguments import read_only
from lazyflow.graph.kinds import ARRAY, kinds
from lazyflow.graph.task import call_arguments
from lazyflow.interrupts import is_users_interrupt
from lazyflow.schedulers.actors.call_executors import LoopExecutor, ThreadsExecutor, run_here
from lazyflow.schedulers.actors.calls import (
    ActorCall,
    ActorSpec,
    WaitingActor,
    finish,
    waiting_actor,
)
from lazyflow.schedulers.actors.ports import shut_down
from lazyflow.schedulers.core.errors.failures import dressed
from lazyflow.schedulers.core.future import TaskFuture, when_all_done
from lazyflow.schedulers.core.task_resources import here, scheduler_here
from lazyflow.store.ownership import detached, own
from lazyflow.store.protected import protected
from lazyflow.system import at_fork


class _Object:
    """An actor's object, or the error of its constructor, with the state of its calls."""

    def __init__(self, spec: ActorSpec, scheduler: Any) -> None:
        self.spec = spec
        self.init = spec.init
        self.scheduler = scheduler
        self.instance: Any = None
        self.error: BaseException | None = None
        self.queued: dict[_LocalCall, None] = {}
        self.running: dict[_LocalCall, None] = {}
        self.stopped: BaseException | None = None  # not None: begin nothing more
        self.waiting: WaitingActor | None = None


class _LocalCall:
    """A call, as an executor runs it."""

    def __init__(self, call: ActorCall, actor: _Object) -> None:
        self.call = call
        self.actor = actor
        self.given: list[Any] | None = None

    def waits(self) -> Sequence[TaskFuture]:
        first = [] if self.call is self.actor.init else [self.actor.init.future]
        return [f for f in (*first, *self.call.inputs) if not f.done()]

    def begin(self) -> Any:
        actor, call = self.actor, self.call
        actor.queued.pop(self, None)
        if call.future.done():  # it was cancelled
            return None
        if actor.stopped is not None:
            raise _AsItIs(actor.stopped)
        if actor.waiting is not None:
            here.actor = actor.waiting  # the thread serves no other actor
        given = _given(call, actor.spec.mutates)
        if actor.error is not None:
            actor.init.future.local_outcome()  # it was seen: here
            raise _AsItIs(actor.error)
        self.given = given
        actor.running[self] = None
        call.begun = True
        if call.watch is not None:
            call.watch.begin(not actor.spec.is_async)
        args, kwargs = call_arguments(call.task, given)
        if call is actor.init:
            return actor.spec.cls(*args, **kwargs)
        return getattr(actor.instance, call.method)(*args, **kwargs)

    def finish(self, box: list[Any]) -> None:
        if self.call is not self.actor.init:
            finish(box, self.actor.scheduler)

    def done(self, box: list[Any]) -> None:
        actor, call = self.actor, self.call
        if call is actor.init:
            actor.instance, value = box.pop(), None
        else:
            value = detached(box)
        if call.watch is not None:
            call.watch.over()
        call.future.set_value(read_only(value) if kinds[type(value)] == ARRAY else value)
        actor.running.pop(self, None)

    def failed(self, error: BaseException) -> None:
        actor, call = self.actor, self.call
        actor.running.pop(self, None)
        if call.watch is not None:
            call.watch.over(failed=True)
        if is_users_interrupt(error):
            call.future.cancel()
            raise error
        is_own = type(error) is not _AsItIs
        error = dressed(error, call.task, self.given) if is_own else error.error  # type: ignore[attr-defined]
        if call is actor.init:
            actor.error = error
        call.future.set_error(error)


class _AsItIs(Exception):
    """Carries an error of another call or task, which has its notes already."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def _given(call: ActorCall, mutates: bool) -> list[Any]:
    """Return the values of a call's inputs, which the actor may edit if it `mutates` them."""
    inputs, call.inputs = call.inputs, []
    inputs.reverse()
    given = []
    while inputs:
        box = [_value(inputs.pop())]  # the box alone has it, if its future has gone
        given.append(own(box) if mutates else protected(box[0], False))
    return given


def _value(future: TaskFuture) -> Any:
    value, error = future.outcome_now()
    if error is not None:
        raise _AsItIs(error)
    return value


class InlineActor:
    """An actor on sync: a call runs in the caller's thread before `call` returns."""

    def __init__(self, spec: ActorSpec, scheduler: Any) -> None:
        self._object = _Object(spec, scheduler)
        # A method may call its own actor. An async one waits for others in a thread beside.
        self._lock: Any = threading.RLock() if spec.concurrency == 1 else nullcontext()
        self._context = contextvars.copy_context()
        self._context.run(scheduler_here.set, scheduler)
        self.call(spec.init)

    def call(self, call: ActorCall) -> None:
        """Run a call."""
        with self._lock:
            self._context.copy().run(run_here, _LocalCall(call, self._object))

    is_over = False

    def close(self) -> None:
        """Do nothing: no call outlasts `call`."""


#: The actors that are alive: `shutdown` ends them.
_alive: WeakTable[ThreadActor, None] = WeakTable()


class ThreadActor:
    """An actor on threads: its calls run in threads of its own, or in one."""

    def __init__(self, spec: ActorSpec, scheduler: Any) -> None:
        self._object = _Object(spec, scheduler)
        self._object.waiting = waiting_actor(spec)
        context = contextvars.copy_context()
        context.run(scheduler_here.set, scheduler)
        executor = LoopExecutor if spec.is_async else ThreadsExecutor
        self._executor = executor(f"lazyflow-{spec.label}", spec.concurrency, context)
        self._executor.submit(_LocalCall(spec.init, self._object))
        self._is_concurrent = spec.concurrency > 1
        self._late: dict[_LocalCall, None] = {}  # calls that others pass: inputs are not there
        self._is_closing = False
        _alive[self] = None

    def call(self, call: ActorCall) -> None:
        """Queue a call."""
        job = _LocalCall(call, self._object)
        self._object.queued[job] = None
        waits = job.waits() if self._is_concurrent else ()
        if waits:
            self._late[job] = None
            when_all_done(waits, partial(self._is_ready, job))
        else:
            self._executor.submit(job)
        if self._object.stopped is not None:  # then it may stay in the queue
            call.future.set_error(self._object.stopped)

    @property
    def is_over(self) -> bool:
        """Whether it was stopped."""
        return self._object.stopped is not None

    def _is_ready(self, job: _LocalCall) -> None:
        """Queue a late call after those that were ready before it."""
        self._executor.submit(job)
        del self._late[job]
        if self._is_closing and not self._late:
            self._executor.close()

    def close(self) -> None:
        """End the threads after the queued calls, late ones, too. Never locks."""
        self._is_closing = True
        if not self._late:
            self._executor.close()

    def stop(self) -> None:
        """Begin nothing more."""
        self._refuse(shut_down(self._object.spec.label))
        self._executor.close()

    def _refuse(self, error: BaseException) -> None:
        """Fail all calls: queued, running and future ones."""
        self._object.stopped = error
        for job in (*self._object.queued, *self._object.running):  # their methods may go on running
            job.call.future.set_error(error)

    def leave(self) -> None:
        """Refuse calls in the child of a fork."""
        label = self._object.spec.label
        self._refuse(Cancelled(
            f"the actor {label} is not in this process, the child of a fork: its threads are "
            "the parent's. Ask for results before the fork, or make another here."
        ))

    def join(self, deadline: Deadline) -> list[str]:
        """Wait for running calls; return the names of those that still run at the deadline."""
        if self._executor.join(deadline):
            return []
        return [f"{job.call.future.name} (actor)" for job in tuple(self._object.running)]


def shutdown(deadline: Deadline) -> list[str]:
    """End all actors of this process; return the calls that still ran at the deadline."""
    actors = list(_alive.living())
    _alive.clear()
    for actor in actors:
        actor.stop()
    return [name for actor in actors for name in actor.join(deadline)]


def _after_fork() -> None:
    """In the child of a fork, refuse calls: the threads are the parent's."""
    for actor in _alive.living():
        actor.leave()


at_fork(after_in_child=_after_fork)

"""An actor whose object lives in another process, as the caller's process sees it.

A call is packed in the caller's thread, so its arguments are as they were then. The port's thread
keeps calls in order until their inputs are there, and sends several without waiting for answers::

    call --> _accept --> waiting ---- pump ---> under_way -- answered --> the call's future
                 |          ^  ^                    |
                 +-> late --+  +------- died -------+--> calls that had begun fail with `WorkerDied`

With several calls at once, one whose inputs are not there is ``late``, and others pass it. When the
process ends, the calls that had not begun go first in a new process, if ``_restarts`` is less than
``restarts=``; it begins with ``_state``, the last checkpoint. A checkpoint that is on its way is
awaited (``_states_due``). If a state was taken after a call, the call is over when the state is
here: a caller that has the result knows that a restart does not undo it.

The errors of calls whose process has ended stand first in this file.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import astuple
from functools import partial
from itertools import count
from typing import Any

from lazyflow.errors import WorkerDied
from lazyflow.schedulers.actors import ports
from lazyflow.schedulers.actors.calls import ActorCall, ActorSpec, PackedCall, waiting_actor
from lazyflow.schedulers.core.errors.failures import with_call_note
from lazyflow.schedulers.remote import environment
from lazyflow.schedulers.remote.calls import AS_HELD, BLOB, TIMED, error_of, packed_call

# -- the errors of calls whose process has ended ------------------------------------------


class DeathErrors:
    """Makes the errors of an actor's calls after its process has ended.

    Parameters
    ----------
    ran
        The name of the call that ran then; empty if none did.
    is_last
        Whether the actor is not started again.
    """

    def __init__(self, spec: ActorSpec, end: ports.ProcessEnd, ran: str, is_last: bool) -> None:
        self._restarts = spec.restarts
        self._what = f"the actor {spec.label} ({end.where}) {end.how}"
        self._ran = f" while it ran {ran}" if ran else " while no call ran"
        self._cause = end.cause
        self._is_last = is_last

    def running(self, item: PackedCall, has_state: bool, had_ended: bool) -> BaseException:
        """Return the error of a call that ran, or whose answer was lost on the way."""
        if self._is_last:
            then = f"All later calls fail: {self._advice()}"
        else:
            then = "It was started again from " + (
                "its last checkpoint." if has_state else
                "its constructor: checkpoint= of lazyflow.actor keeps its state."
            )
        when = f"while it ran {item.name}"
        if had_ended:
            when = f"before the answer of {item.name}, which it had begun, arrived"
        died = with_call_note(
            WorkerDied(
                f"{self._what} {when}. The call is not run again, since its effects up to then "
                f"are unknown. {then}"
            ),
            item.task, None,
        )
        if self._cause is not None:
            died.__cause__ = self._cause
        return died

    def later(self, item: PackedCall) -> BaseException:
        """Return the error of a call that could not run."""
        return with_call_note(
            WorkerDied(f"{item.name} can't be run: {self._what}{self._ran}; {self._advice()}"),
            item.task, None,
        )

    def _advice(self) -> str:
        if self._restarts:
            return f"its {self._restarts} restarts are used up."
        return (
            "it has no restarts. lazyflow.actor(..., restarts=1, checkpoint=...) starts an actor "
            "again, with the state it had."
        )


# -- the actor ----------------------------------------------------------------------------

AHEAD = 64  # calls that are sent before the first of them is answered; a guess


class RemoteActor:
    """One actor. Methods run in the keeper's thread unless they are in a section for others.

    waiting
        Calls that were not sent, in order.
    late
        If several calls may be under way at once, those whose inputs are not there: others pass
        them, which they may wait for.
    under_way
        Calls that were sent and not answered, by number, in order.
    error
        Makes the error of each further call; None while calls can run.
    """

    def __init__(self, spec: ActorSpec, port: ports.HostPort) -> None:
        self.spec = spec
        self.port = port
        self._keeper = port.keeper
        self.waiting: deque[PackedCall] = deque()
        self.under_way: dict[int, PackedCall] = {}
        self.error: Callable[[PackedCall], BaseException] | None = None
        self.late: dict[PackedCall, None] = {}
        self._numbers = count(1)
        self._link: ports.ActorLink | None = None
        self._window = max(AHEAD, spec.concurrency)
        self._restarts = 0
        self._is_made = False  # the constructor has returned: calls can be sent
        self._is_closing = False
        self._state: ports.SavedState | None = None
        self._states_due = 0  # saved states that are on their way here
        self._restart_is_due = False  # the restart waits for those
        port.look()
        self._environment = environment.packed()
        self._init = PackedCall(spec.init)
        self._made_of: Any = None
        waiting = waiting_actor(spec)
        self._waiting = None if waiting is None else astuple(waiting)
        try:
            self._made_of = port.encode((spec.factory, spec.checkpoint))
        except Exception as error:
            self._init.error = port.unsendable(spec.init.task, "class", error)
        self._pack(self._init)
        port.post(self._begin)

    # -- in the caller's thread -------------------------------------------------------------

    def call(self, call: ActorCall) -> None:
        """Queue a call."""
        if self.error is not None or self._keeper.closing:  # as in the child of a fork
            self._turn_away(call)
            return
        call.host = self
        self.port.look()
        item = PackedCall(call)
        self._pack(item)
        self.port.post(self._accept, item)
        # Then the posted step may never run; or it has: the call itself may have ended the actor
        # meanwhile, and must not be said to have been refused.
        if self.is_over and item.take():
            self._turn_away(call)

    def _turn_away(self, call: ActorCall) -> None:
        self._fail(PackedCall(call), self._why_closed if self.error is None else self.error)

    def _pack(self, item: PackedCall) -> None:
        try:
            item.arguments, item.flags, item.binding = packed_call(item.task, self.port.encode)
        except Exception as error:
            item.error = self.port.unsendable(item.task, "args", error)
        if not self.spec.mutates:
            item.flags |= AS_HELD
        if item.call.watch is not None:
            item.flags |= TIMED

    # -- in any thread ----------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Whether every further call fails."""
        return self.error is not None or self._keeper.closing

    @property
    def driver(self) -> Any:
        """The driver of the pool whose tasks can wait for results, or None."""
        return self.port.driver

    def node_of(self, call: ActorCall) -> Any:
        """Return the node that tasks of `driver` wait for."""
        return self.port.node_of(call)

    def cancel_call(self, call: ActorCall) -> None:
        """Keep a call from beginning: its future was cancelled."""
        if not self._keeper.closing:
            self.port.post(self._skip, call)

    def close(self) -> None:
        """End the process after the queued calls. Never locks."""
        if not self._keeper.closing:
            self.port.post(self._no_more)

    def force(self, call: ActorCall) -> None:
        """Kill the process if it runs this call."""
        self.port.post(self._force, call)

    def runs(self, call: ActorCall) -> bool:
        """Return whether a call has begun and is not answered, as far as that is known here."""
        link = self._link
        last = 0 if link is None else link.last_begun()
        if last is not None:
            return 0 < self.number_of(call) <= last  # they begin in the order of their numbers
        running = tuple(self.under_way.values())[: self.spec.concurrency]
        return self._is_made and any(item.call is call for item in running)

    def number_of(self, call: ActorCall) -> int:
        """Return the number of a call that was sent and not answered, or 0."""
        return next((n for n, item in tuple(self.under_way.items()) if item.call is call), 0)

    # -- the life of the process ------------------------------------------------------------

    def _begin(self) -> None:
        if self._keeper.closing:
            self._refuse(self._why_closed)
            return
        self.port.add(self)
        self.port.own(self._made_of)
        self.port.own(self._init.arguments)
        self._init.gather(self)
        self._start()

    def _start(self) -> None:
        self._restart_is_due = self._states_due > 0
        if self._restart_is_due:  # the new object begins with the state that is on its way
            return
        try:
            self._link = self.port.start(self)
        except WorkerDied as refused:
            error = refused
            self._end_with(lambda _: error)
            return
        self.pump()

    def broken(self, link: ports.ActorLink) -> bool:
        """Note the end of a process, before `died`; return whether it was the current one."""
        if link is not self._link:
            return False
        self._link = None
        self._is_made = False
        return True

    def died(self, link: ports.ActorLink, end: ports.ProcessEnd) -> None:
        """Handle the end of the process: fail calls that had begun, start again for the others."""
        if self.error is not None:
            return
        for number, outcome, state in end.answers:
            if self.under_way.get(number) is not self._init:
                self.answered(link, number, outcome, state)
        sent, self.under_way = self.under_way, {}
        if self._is_closing and not (sent or self.waiting or self.late):
            self._end()
            return
        began = [n for n in sent if end.last is None or n <= end.last]
        ran = [sent.pop(n) for n in began]
        self.waiting.extendleft(i for i in reversed(sent.values()) if i is not self._init)
        is_last = self._restarts == self.spec.restarts
        errors = DeathErrors(self.spec, end, ran[-1].name if ran else "", is_last)
        if is_last:
            self._end_with(errors.later)
        for k, item in enumerate(ran, 1):
            if item is not self._init:
                kept, ended = self._state is not None, k <= len(ran) - self.spec.concurrency
                self._fail(item, partial(errors.running, has_state=kept, had_ended=ended))
        if not is_last:
            self._restarts += 1
            self._start()

    def cancel(self, error: BaseException) -> None:
        """End the actor with an error of its keeper; running calls fail, too."""
        self._end_with(lambda _: error)
        sent, self.under_way = self.under_way, {}
        for item in sent.values():
            self._fail(item, lambda _: error)

    def stop(self, error: BaseException) -> None:
        """Fail all calls, running ones with `error`: the keeper ends, and the process with it."""
        self._refuse(self._why_closed)
        for item in self.under_way.values():
            item.fail(error)

    def _why_closed(self, _: PackedCall) -> BaseException:
        return self.port.why_closed(self.spec.label)

    def _no_more(self) -> None:
        """Note that there will be no further call."""
        self._is_closing = True
        self.pump()

    def _skip(self, call: ActorCall) -> None:
        """Keep a call from beginning that was sent and then cancelled."""
        number = self.number_of(call)
        if number and self._link is not None:
            self._link.skip(number)
        for item in [each for each in self.late if each.call is call]:
            del self.late[item]
            self._release(item)
        self.pump()

    def _force(self, call: ActorCall) -> None:
        if self._link is not None and self.runs(call):
            self._link.kill()

    def _refuse(self, error: Callable[[PackedCall], BaseException]) -> None:
        """Fail waiting and further calls; `error` makes the exception of each."""
        if self.error is not None:
            return
        self.error = error
        waiting = [*self.waiting, *self.late]
        self.waiting.clear()
        self.late.clear()
        if not self._init.call.future.done():
            self._init.fail(error(self._init))
        for item in waiting:
            self._fail(item, error)

    def _end_with(self, error: Callable[[PackedCall], BaseException]) -> None:
        if self.error is None:
            self._refuse(error)
            self._end()

    def _end(self) -> None:
        """End the process: no call is left, or none can run."""
        link, self._link = self._link, None
        if link is not None:
            link.end()
        if self._state is not None:
            self.port.release(self._state[1])
            self._state = None
        self._release_init()
        self.port.discard(self)

    # -- answers ----------------------------------------------------------------------------

    def answered(
        self, link: ports.ActorLink, number: int, outcome: tuple[Any, ...],
        state: ports.SavedState | None,
    ) -> None:
        """Handle the outcome of a call. The caller calls `pump` afterwards."""
        item = self.under_way.pop(number, None)
        if item is None:  # it has failed meanwhile
            return
        if item.call.watch is not None:
            item.call.watch.took(outcome[-1])
            outcome = outcome[:-1]
        value = error = None
        if outcome[0] == ports.FAILURE:
            error = error_of(item.task, *outcome[1:])
        else:
            value = link.result(item, number, outcome)
        if state is None:
            self._finish(item, value, error)
            return
        self._states_due += 1
        order, packed = state
        link.take_state(number, packed, partial(self._have_state, order, item, value, error))

    def _have_state(
        self, order: int, item: PackedCall, value: Any, error: BaseException | None, state: Any
    ) -> None:
        """Keep the state after a call, then end the call: it is over once its state is here."""
        self._states_due -= 1
        if state is not None and (self._state is None or self._state[0] < order):
            old, self._state = self._state, (order, state)
            self.port.own(state)
            if old is not None:
                self.port.release(old[1])
        self._finish(item, value, error)
        if self._restart_is_due and self.error is None and not self._states_due:
            self._start()

    def _finish(self, item: PackedCall, value: Any, error: BaseException | None) -> None:
        item.tell(error)
        if item is self._init:
            self._made(error)
            return
        if error is not None:
            item.call.future.set_error(error)
        else:
            item.call.future.set_value(value)
        self._release(item)

    def _made(self, error: BaseException | None) -> None:
        if error is not None:
            self._end_with(lambda _: error)
            return
        self._is_made = True
        self._init.call.future.set_value(None)
        if self._restarts == self.spec.restarts:
            self._release_init()

    # -- calls ------------------------------------------------------------------------------

    def _accept(self, item: PackedCall) -> None:
        if not item.take():
            return
        if item.flags & BLOB:
            self.port.own(item.arguments)
        if self.error is not None:
            self._fail(item, self.error)
            return
        item.gather(self)
        if item.missing and self.spec.concurrency > 1:
            self.late[item] = None
        else:
            self.waiting.append(item)
        self.port.pump_soon(self)

    def arrived(self, item: PackedCall) -> None:
        """Queue a late call when its last input has arrived, and send all calls that can go."""
        if item in self.late and not item.missing:
            del self.late[item]
            self.waiting.append(item)
        self.pump()

    def pump(self) -> None:
        """Send the calls that can be sent, in order."""
        link = self._link
        if link is None or not link.is_free():
            return
        if not self._is_made:
            self._pump_init(link)
            return
        waiting, under_way = self.waiting, self.under_way
        batch: list[ports.SentCall] = []
        while waiting and len(under_way) < self._window:
            item = waiting[0]
            if item.call.future.done():  # it was cancelled
                self._release(waiting.popleft())
            elif item.missing:
                break
            elif item.error is not None:
                waiting.popleft()
                self._fail(item, _own_error)
            else:
                arguments = self._arguments(link, item)
                waiting.popleft()
                number = next(self._numbers)
                under_way[number] = item
                batch.append((number, item.call.method, arguments))
        link.call(batch)
        if self._is_closing and not (waiting or under_way or self.late):
            self._end()

    def _pump_init(self, link: ports.ActorLink) -> None:
        init, spec = self._init, self.spec
        if self.under_way or init.missing:
            link.call([])
        elif init.error is not None:
            self._end_with(lambda _: _own_error(init))
        else:
            number = next(self._numbers)
            self.under_way[number] = init
            state = None if self._state is None else link.lend(self._state[1])
            link.make(ports.MakeActor(
                number, self._environment, spec.concurrency, spec.is_async,
                link.lend(self._made_of), state, self._arguments(link, init), self._waiting,
            ))

    def _arguments(self, link: ports.ActorLink, item: PackedCall) -> ports.Arguments:
        arguments = link.lend(item.arguments) if item.flags & BLOB else item.arguments
        values = [link.lend(value) for value in item.values]
        return arguments, item.flags, item.binding, item.sources, values

    def _fail(self, item: PackedCall, error: Callable[[PackedCall], BaseException]) -> None:
        if self._init.call.future.done():
            self._init.call.future.local_outcome()  # its error is reported by this one
        item.call.future.was_refused = error is self.error
        item.fail(error(item))
        self._release(item)

    def _release(self, item: PackedCall) -> None:
        """Release the arguments and inputs of a call that is over."""
        if item.values or item.flags & BLOB:
            self.port.release(item.arguments, *item.values)
        item.tell()
        item.arguments, item.values, item.futures = None, [], []
        item.is_over = True

    def _release_init(self) -> None:
        self.port.release(self._made_of)
        self._made_of = None
        self._release(self._init)


def _own_error(item: PackedCall) -> BaseException:
    assert item.error is not None
    return item.error

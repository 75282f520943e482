"""An actor that an engine keeps, as this process sees it.

A call is packed in the caller's thread, so what it is given is as it was then. The engine's
thread keeps calls in order until their inputs are there, tells the actor several at once without
waiting for answers, and takes its end in. Values that the engine holds go to the actor as names:
it fetches them in the cluster.
"""

from __future__ import annotations

import pickle
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from lazyflow.errors import SchedulerLost
from lazyflow.schedulers.actors.calls import Call, Spec
from lazyflow.schedulers.actors.items import Item, Words, shut_down
from lazyflow.schedulers.cluster.actor_work import (
    ANSWER,
    FAILURE,
    HELD,
    KEPT,
    PACKED,
    PLAIN,
    VALUE,
    Messages,
    pickled,
)
from lazyflow.schedulers.cluster.connection import Line
from lazyflow.schedulers.cluster.journal import Entries
from lazyflow.schedulers.cluster.outcome import Packed, packed
from lazyflow.schedulers.cluster.packing import unsendable
from lazyflow.schedulers.cluster.results import Remote
from lazyflow.schedulers.core.errors.failures import told
from lazyflow.schedulers.core.errors.records import rebuilt
from lazyflow.schedulers.core.future import TaskFuture
from lazyflow.schedulers.remote import environment
from lazyflow.schedulers.remote.calls import is_short, packed_call
from lazyflow.store.pickling.serialize import Unpicklable

if TYPE_CHECKING:
    from lazyflow.schedulers.cluster.scheduler import Engine

AHEAD = 64  # calls that are told before the first of them is answered


class ActorHost:
    """One actor. Everything but `call`, `forget` and `close` happens in the engine's thread.

    waiting
        Calls that were not sent, in order.
    flying
        Calls that were sent and not answered, by number, in order.
    error
        Why nothing can be called any more, as a function of the call; None while it can.
    """

    driver = None  # no run of processes can link to its calls

    def __init__(self, spec: Spec, scheduler: Any, engine: Engine) -> None:
        self.spec = spec
        self.engine = engine
        self.waiting: deque[Item] = deque()
        self.flying: dict[int, Item] = {}
        self.error: Any = None
        self._numbers = count(1)
        self._line: Line | None = None
        self._window = max(AHEAD, spec.max_concurrency)
        self._restarts = 0
        self._is_made = False  # the object is: calls can be sent
        self._is_closing = False
        self._asides: list[tuple[Any, ...]] = []  # messages that are no calls
        self._state: tuple[int, Packed] | None = None
        self._states_due = 0  # that are on their way here; a restart waits for them
        self._surroundings = environment.packed()
        self._init = Item(spec.init)
        self._pack(self._init)
        try:
            self._made_of = pickled((spec.factory, spec.checkpoint))
        except Unpicklable as failed:
            self._init.error = unsendable(spec.init.task, "class", failed)
        engine.post(self._begin)

    # -- in the caller's thread -------------------------------------------------------------

    def call(self, call: Call) -> None:
        """Take a call in."""
        if self._is_gone(call):
            return
        call.host = self
        item = Item(call)
        self._pack(item)
        self.engine.post(self._accept, item)
        self._is_gone(call)  # if it is now, nobody may look at what was posted

    def _is_gone(self, call: Call) -> bool:
        error = self.error  # the thread may have ended with what it served
        if error is not None:
            self._fail(Item(call), error(Item(call)))
        elif self.engine.closing:
            call.future.set_error(shut_down(self.spec.label))
        return self.is_over

    @property
    def is_over(self) -> bool:
        """Whether all later calls fail."""
        return self.error is not None or self.engine.closing

    def forget(self, call: Call) -> None:
        """Learn that a call was cancelled. Called by any thread."""
        self.engine.post(self._skip, call)

    def close(self) -> None:
        """End the actor after the calls that it has. Never locks."""
        self.engine.post(self._no_more)

    def _pack(self, item: Item) -> None:
        try:
            item.arguments, item.flags, item.binding = packed_call(item.task, pickled)
        except Unpicklable as failed:
            item.error = unsendable(item.task, "args", failed)

    # -- the life of the actor --------------------------------------------------------------

    def _begin(self) -> None:
        self.engine.actors.add(self)
        self._bring_inputs(self._init)
        self._start()

    def _start(self) -> None:
        if self._states_due:  # it begins with what is on its way
            return
        self._line = self.engine.new_line(self)
        self.pump()

    def broken(self, line: Line, error: BaseException | None) -> None:
        """Learn that the actor is gone."""
        if line is not self._line:
            return
        self._line = None
        self._is_made = False
        self._asides = []
        cause = None if error is None else self.engine.translated(error)
        if isinstance(cause, SchedulerLost):
            line.end()
            self.cancel(cause)
        elif self.error is None:
            line.find_journal(lambda found: self.engine.post(self._died, line, cause, found))

    def _died(self, line: Line, cause: BaseException | None, found: Entries | None) -> None:
        """Take the end in: who had begun is to blame, the others go on in a new one."""
        if self.error is not None:
            return
        last, answers = (None, []) if found is None else found
        for data in answers:
            _, number, outcome, state = pickle.loads(data)
            item = self.flying.get(number)
            if item is not None and item is not self._init:
                self._answered(line, item, number, outcome, state)
        sent, self.flying = self.flying, {}
        if self._is_closing and not sent and not self.waiting:
            self._end()
            return
        ran = [item for number, item in sent.items() if last is None or number <= last]
        blamed = {id(item) for item in ran}
        is_last = self._restarts == self.spec.restarts
        words = Words(
            self.spec.label, "ended", line.where, ran[-1].name if ran else "", self.spec.restarts)
        back = [i for i in sent.values() if id(i) not in blamed and i is not self._init]
        self.waiting.extendleft(reversed(back))
        if is_last:
            self._end_with(words.later)
        at_once = self.spec.max_concurrency
        for k, item in enumerate(ran, 1):
            if item is not self._init:
                has_state = self._state is not None
                died = words.running(item, is_last, has_state, k <= len(ran) - at_once)
                died.__cause__ = cause
                self._fail(item, died)
        if not is_last:
            self._restarts += 1
            self._start()

    def cancel(self, error: BaseException) -> None:
        """End it with an error of the engine: also what runs fails."""
        self._end_with(lambda _: error)
        sent, self.flying = self.flying, {}
        for item in sent.values():
            self._fail(item, error)

    def shut_down(self) -> None:
        """Learn that lazyflow ends: all calls fail, also what runs."""
        self.cancel(shut_down(self.spec.label))

    def _no_more(self) -> None:
        """Learn that nobody can call any more."""
        self._is_closing = True
        self.pump()

    def _skip(self, call: Call) -> None:
        """Have a call not begun that was cancelled after it was sent."""
        for number, item in self.flying.items():
            if item.call is call:
                self._asides.append(("skip", number))
        self.pump()

    def runs(self, call: Call) -> bool:
        """Tell whether a call runs, for all that is known here: it was sent, and is the next.

        Called by any thread.
        """
        running = tuple(self.flying.values())[: self.spec.max_concurrency]
        return self._is_made and any(item.call is call for item in running)

    def force(self, call: Call) -> None:
        """End the process if it runs this call, which nobody wants any more."""
        if self._line is not None and self.runs(call):
            self._line.kill()

    def _end(self) -> None:
        """Let go of the actor: nothing is left to do, or can be done."""
        line, self._line = self._line, None
        if line is not None:
            line.end()
        self._state = None
        self._release(self._init)
        self.engine.actors.discard(self)

    def _end_with(self, error: Any) -> None:
        """Fail what waits, and all that will be called; `error` makes the exception."""
        if self.error is not None:
            return
        self.error = error
        waiting, self.waiting = self.waiting, deque()
        if not self._init.call.future.done():
            self._fail(self._init, error(self._init))
        for item in waiting:
            self._fail(item, error(item))
        self._end()

    # -- answers ----------------------------------------------------------------------------

    def heard(self, line: Line, report: tuple[Any, ...]) -> None:
        """Take a report of the actor."""
        what, number, *details = report
        item = self.flying.get(number)
        if line is not self._line or item is None:
            return
        if what == ANSWER:
            self._answered(line, item, number, *details)
        else:
            self._bring_again(item, number, *details)
        self.pump()

    def _answered(
        self, line: Line, item: Item, number: int, outcome: tuple[Any, ...], state: Any
    ) -> None:
        del self.flying[number]
        kept = None
        if outcome[0] == KEPT:
            kept = Remote(self.engine, line.kept(number, "value"), number, item.task, None)
        if state == KEPT and type(state) is int:
            remote = Remote(self.engine, line.kept(number, "state"), number, item.task, None)
            self._states_due += 1
            finish = partial(self._finish, item, number, outcome, kept)
            self._in_a_thread(lambda: packed(remote.get()), self._have_state, number, finish)
            return
        if state is not None:
            self._keep_state(number, state)
        self._finish(item, number, outcome, kept)

    def _have_state(
        self, number: int, finish: Callable[[], None], state: Packed | None,
        error: BaseException | None,
    ) -> None:
        """Take a large state: only now the call is over, for the state has to be here then."""
        self._states_due -= 1
        if state is not None:
            self._keep_state(number, state)
        finish()
        if self._line is None and self.error is None and not self._states_due:
            self._start()

    def _keep_state(self, number: int, state: Packed) -> None:
        if self._state is None or self._state[0] < number:
            self._state = number, state

    def _finish(
        self, item: Item, number: int, outcome: tuple[Any, ...], kept: Remote | None
    ) -> None:
        how, *details = outcome
        future = item.call.future
        if how == FAILURE:
            error = self._error_of(item, *details)
            if item is self._init:
                self._end_with(lambda _: error)
            future.set_error(error)
        elif item is self._init:
            self._is_made = True
            future.set_value(None)
            if self._restarts == self.spec.restarts:
                self._release(item)
        elif how == VALUE:
            future.set_value(details[0])
        elif kept is not None:
            future.set_value(kept)
        else:
            future.set_value(Remote(self.engine, None, number, item.task, details[0]))
        if item is not self._init:
            self._release(item)

    def _error_of(self, item: Item, record: Any, words: Any) -> BaseException:
        """Return the exception of a call that failed there, as the caller will see it."""
        if record[0] == "unpicklable":
            _, role, path, cause = record
            return unsendable(item.task, role, Unpicklable(path, rebuilt(cause)))
        return told(rebuilt(record), item.task, words)

    # -- calls ------------------------------------------------------------------------------

    def _accept(self, item: Item) -> None:
        if self.error is not None:
            self._fail(item, self.error(item))
            return
        self._bring_inputs(item)
        self.waiting.append(item)
        self.pump()

    def _bring_inputs(self, item: Item) -> None:
        for k, future in enumerate(item.futures):
            if future.done():
                self._input_done(item, k, future)
            else:
                future.add_callback(partial(self._post_input, item, k))

    def _post_input(self, item: Item, k: int, future: TaskFuture) -> None:
        self.engine.post(self._input_came, item, k, future)

    def _input_came(self, item: Item, k: int, future: TaskFuture) -> None:
        self._input_done(item, k, future)
        self.pump()

    def _input_done(self, item: Item, k: int, future: TaskFuture) -> None:
        value, error = future.local_outcome()
        if error is None and not self.engine.holds(value) and future.is_elsewhere():
            if type(value) is Remote and value.short is not None:
                value = value.short
            else:  # of processes, or another engine
                self._in_a_thread(value.get, self._have, item, k)
                return
        self._put(item, k, value, error)

    def _in_a_thread(
        self, get: Callable[[], Any], step: Callable[..., None], *details: Any
    ) -> None:
        """Have something brought, and a step done with it and the error."""

        def run() -> None:
            try:
                value, error = get(), None
            except BaseException as broken:
                value, error = None, broken
            self.engine.post(step, *details, value, error)

        threading.Thread(target=run, name="lazyflow-fetch", daemon=True).start()

    def _have(self, item: Item, k: int, value: Any, error: BaseException | None) -> None:
        self._put(item, k, value, error)
        self.pump()

    def _put(self, item: Item, k: int, value: Any, error: BaseException | None) -> None:
        item.missing -= 1
        if item.is_over:  # it was cancelled, or its actor has ended
            return
        if error is not None:
            item.error = error
        elif type(value) is Packed:
            item.values[k] = PACKED, value
        elif self.engine.holds(value):
            item.values[k] = HELD, value
        elif is_short(value):
            item.values[k] = PLAIN, value
        else:
            try:
                item.values[k] = PACKED, pickled(value)
            except Unpicklable as failed:
                item.error = unsendable(item.task, "value", failed)

    def _bring_again(self, item: Item, number: int, k: int) -> None:
        """Bring a value here that the actor could not fetch, since its holder died, and send it."""
        self._in_a_thread(item.values[k][1].get, self._give, item, number, k)

    def _give(
        self, item: Item, number: int, k: int, value: Any, error: BaseException | None
    ) -> None:
        if self.flying.get(number) is not item:
            return
        if error is not None:
            item.call.future.set_error(error)
        self._asides.append(("give", number, k, None if error is not None else packed(value)))
        self.pump()

    def pump(self) -> None:
        """Tell what can be told, in order."""
        line = self._line
        if line is None or not line.is_free():
            return
        messages, self._asides = self._asides, []
        if self._is_made:
            self._pump_calls(messages)
        elif not self.flying and not self._init.missing:
            if self._init.error is not None:
                error = self._init.error
                self._end_with(lambda _: error)
                return
            messages.append(self._message_of_init())
        if messages:
            line.tell(Messages(messages))
        elif self._is_closing and self._is_made and not self.waiting and not self.flying:
            self._end()

    def _pump_calls(self, messages: list[tuple[Any, ...]]) -> None:
        waiting, flying = self.waiting, self.flying
        while waiting and len(flying) < self._window:
            item = waiting[0]
            if item.call.future.done():  # it was cancelled
                self._release(waiting.popleft())
            elif item.missing:
                return
            elif item.error is not None:
                waiting.popleft()
                self._fail(item, item.error)
            else:
                arguments = self._arguments(item)
                waiting.popleft()
                number = next(self._numbers)
                flying[number] = item
                messages.append(("call", number, item.call.method, arguments))

    def _message_of_init(self) -> tuple[Any, ...]:
        number = next(self._numbers)
        self.flying[number] = self._init
        state = None if self._state is None else self._state[1]
        return (
            "init", number, self._surroundings, self.spec.max_concurrency, self.spec.is_async,
            self._made_of, state, self._arguments(self._init),
        )

    def _arguments(self, item: Item) -> tuple[Any, ...]:
        loads = [
            (HELD, self.engine.token(value), value.number) if how == HELD else (how, value)
            for how, value in item.values
        ]
        return item.arguments, item.flags, item.binding, item.sources, loads

    def _fail(self, item: Item, error: BaseException) -> None:
        if item is not self._init and self._init.call.future.done():
            self._init.call.future.local_outcome()  # its error was seen: here
        item.call.future.set_error(error)
        if item is not self._init:
            self._release(item)

    def _release(self, item: Item) -> None:
        """Let go of the values of a call that is over."""
        item.arguments, item.values, item.futures = None, [], []
        item.is_over = True

"""An actor in a process of its own, as this process sees it.

A call is packed in the caller's thread, so what it is given is as it was then. The driver's
thread keeps calls in order until their inputs are there, sends them without waiting for answers,
and takes the end of the process in. Values of pool workers reach the actor by shared memory, and
its own reach the pool in the same way.
"""

from __future__ import annotations

import threading
from collections import deque
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from lazyflow.graph.task import Task
from lazyflow.schedulers.actors.calls import Call, Spec
from lazyflow.schedulers.actors.items import Item, Words, shut_down
from lazyflow.schedulers.core.future import TaskFuture
from lazyflow.schedulers.processes.decisions import values
from lazyflow.schedulers.processes.decisions.nodes import Literal, Node
from lazyflow.schedulers.processes.notices import notices
from lazyflow.schedulers.processes.parent.actor_member import ActorMember
from lazyflow.schedulers.processes.parent.deaths import no_process
from lazyflow.schedulers.processes.parent.packing import unsendable
from lazyflow.schedulers.processes.parent.pool_value import PoolValue, not_here
from lazyflow.schedulers.processes.parent.putting import held_node
from lazyflow.schedulers.processes.protocol import Skip
from lazyflow.schedulers.remote import environment
from lazyflow.schedulers.remote.calls import is_short, packed_call
from lazyflow.schedulers.remote.versions import versions
from lazyflow.store.pickling.serialize import Encoded, Unpicklable, encode

if TYPE_CHECKING:
    from lazyflow.schedulers.processes.parent.driver import Driver

AHEAD = 64  # calls that are sent before the first of them is answered


class _Arrival:
    """In the place of a `Fetch`: a call waits for a value that a worker has."""

    def __init__(self, host: ActorHost, item: Item, k: int) -> None:
        self._to = host, item, k

    def done(self, value: Any, error: BaseException | None = None) -> None:
        host, item, k = self._to
        host.have(item, k, value, error)


class ActorHost:
    """One actor. Everything but `call` and `close` happens in the driver's thread.

    waiting
        Calls that were not sent, in order.
    flying
        Calls that were sent and not answered, by number.
    error
        Why nothing can be called any more, as a function of the call; None while it can.
    """

    def __init__(self, spec: Spec, scheduler: Any, driver: Driver) -> None:
        self.spec = spec
        self.driver = driver
        self.waiting: deque[Item] = deque()
        self.flying: dict[int, Item] = {}
        self.error: Any = None
        self._scheduler = scheduler
        self._numbers = count(1)
        self._lock = threading.Lock()
        self._member: ActorMember | None = None
        self._window = AHEAD if spec.max_concurrency == 1 and not spec.is_async else (
            spec.max_concurrency)
        self._restarts = 0
        self._is_made = False  # the object is: calls can be sent
        self._is_closing = False
        self._state: Encoded | None = None
        versions.look()
        notices.look()
        self._context = environment.packed()
        self._init = Item(spec.init)
        self._made_of: Any = self._encoded(spec.init.task, "class", (spec.factory, spec.checkpoint))
        self._pack(self._init)
        driver.call_soon(self._begin)

    # -- in the caller's thread -------------------------------------------------------------

    def call(self, call: Call) -> None:
        """Take a call in."""
        if self._is_gone(call):  # also in the child of a fork: its memory is the parent's
            return
        call.host = self
        versions.look()
        notices.look()
        item = Item(call)
        self._pack(item)
        self.driver.call_soon(self._accept, item)
        self._is_gone(call)  # if it is now, nobody may look at what was posted

    def _is_gone(self, call: Call) -> bool:
        if self.driver.closing:
            call.future.set_error(self._why_gone())
        return self.driver.closing

    def _why_gone(self, _: Any = None) -> BaseException:
        if self.driver.is_left:
            return not_here(f"the actor {self.spec.label}")
        return shut_down(self.spec.label)

    @property
    def is_over(self) -> bool:
        """Whether all later calls fail."""
        return self.error is not None or self.driver.closing

    def forget(self, call: Call) -> None:
        """Learn that a call was cancelled. Called by any thread."""
        if not self.driver.closing:
            self.driver.call_soon(self._skip, call)

    def close(self) -> None:
        """End the process after the calls that it has. Never locks."""
        if not self.driver.closing:
            self.driver.call_soon(self._no_more)

    def _pack(self, item: Item) -> None:
        memory = self.driver.memory
        write, free = memory.arenas.write, memory.arenas.free
        try:
            item.arguments, item.flags, item.binding = packed_call(
                item.task, lambda value: encode(value, write, memory.least, free)
            )
        except Exception as error:
            item.error = unsendable(
                item.task, "args", error, self.driver.memory.least
            )

    def _encoded(self, task: Task, role: str, value: Any) -> Any:
        memory = self.driver.memory
        try:
            return encode(value, memory.arenas.write, memory.least, memory.arenas.free)
        except Unpicklable as error:
            self._init.error = unsendable(task, role, error, self.driver.memory.least)
            return None

    # -- the life of the process ------------------------------------------------------------

    def _begin(self) -> None:
        if self.driver.closing:
            self._end_with_shutdown()
            return
        self.driver.actors.add(self)
        if self._made_of is not None:
            self.driver.memory.written(self._made_of)
        if type(self._init.arguments) is Encoded:
            self.driver.memory.written(self._init.arguments)
        self._bring_inputs(self._init)
        self._start()

    def _start(self) -> None:
        pool = self.driver.pool
        worker = pool.new_worker()
        try:
            self._member = ActorMember(self, worker, pool.settings(worker))
        except OSError as error:
            failed = no_process(f"no process for the actor {self.spec.label}", error)
            self._end_with(lambda item: failed)
            return
        pool.adopt(self._member)
        self.pump()

    def _send_init(self, member: ActorMember) -> None:
        item, spec = self._init, self.spec
        number = next(self._numbers)
        self.flying[number] = item
        self._tell_versions(member)
        self.driver.sender.say(
            member, "init", number, self._context, spec.max_concurrency, spec.is_async,
            self._lent(member, self._made_of), self._lent(member, self._state),
            self._arguments(member, item),
        )

    def answer(self, member: ActorMember, message: Any, descriptors: list[int]) -> None:
        """Take the outcome of a call."""
        number, outcome, state, released, arenas, stats = message
        memory = self.driver.memory
        if arenas:
            memory.note_arenas(arenas, descriptors)
        if released:
            memory.segments.remove(released, member)
        member.stats = stats
        item = self.flying.pop(number)
        if state is not None:
            memory.remove(self._state)
            self._state = Encoded(*state)
            memory.add(self._state)
        self._finish(member, item, outcome)
        self.driver.pumps.add(self)

    def _finish(self, member: ActorMember, item: Item, outcome: tuple[Any, ...]) -> None:
        kind, *details = outcome
        future = item.call.future
        if kind == 2:
            error = member.error_of(item, *details)  # type: ignore[arg-type]
            if item is self._init:
                self._end_with(lambda _: error)
            future.set_error(error)
        elif item is self._init:
            self._is_made = True
            future.set_value(None)
            if self._restarts == self.spec.restarts:
                self._release_init()
        else:
            future.set_value(self._kept(item, Encoded(*details) if kind == 1 else details[0]))
        if item is not self._init:
            self._release(item)

    def node_of(self, call: Call) -> Node:
        """Return a node of the pool for what a call will give. Called by any thread."""
        with self._lock:
            if call.node is None:
                call.node = held_node(call.task)
            node: Node = call.node
            return node

    def _kept(self, item: Item, value: Any) -> Any:
        """Return what a future holds of a result, and give it to tasks that wait for it."""
        driver, node = self.driver, item.call.node
        is_encoded = type(value) is Encoded
        if is_encoded:
            driver.memory.add(value)
            if node is None:
                node = self.node_of(item.call)
            node.size = value.size
        if node is not None:
            values.provide(driver.state, node, value)
        if not is_encoded:
            if node is not None:
                values.unpin(driver.state, node)
            return value
        return PoolValue(driver, node, item.task, None)

    def died(self, charged: int, how: str, pid: int) -> None:
        """Take the end of the process in: who ran is to blame, the others go on in a new one."""
        self._member = None
        self._is_made = False
        sent, self.flying = self.flying, {}
        if self.error is not None or (self._is_closing and not sent and not self.waiting):
            return
        if self._window == AHEAD and not self.spec.is_async:
            ran = [item for number, item in sent.items() if number == charged]
        else:
            ran = list(sent.values())
        blamed = {id(item) for item in ran}
        while_it_ran = ran[0].name if ran else ""
        is_last = self._restarts == self.spec.restarts
        words = Words(
            self.spec.label, f"ended by {how}", f"process {pid}", while_it_ran, self.spec.restarts)
        back = [i for i in sent.values() if id(i) not in blamed and i is not self._init]
        self.waiting.extendleft(reversed(back))
        if is_last:
            self._end_with(words.later)
        for item in ran:
            if item is not self._init:
                self._fail(item, words.running(item, is_last, self._state is not None))
        if not is_last:
            self._restarts += 1
            self._start()

    def _no_more(self) -> None:
        """Learn that nobody can call any more."""
        self._is_closing = True
        self.pump()

    def _skip(self, call: Call) -> None:
        """Have a call not begun that was cancelled after it was sent."""
        number = self._number_of(call)
        if number and self._member is not None:
            self.driver.pool.request(self._member, Skip(number))

    def _number_of(self, call: Call) -> int:
        """Return the number under which a call was sent and not answered, or 0."""
        return next((n for n, i in tuple(self.flying.items()) if i.call is call), 0)

    def runs(self, call: Call) -> bool:
        """Tell whether a call has begun and its answer is not here. Called by any thread."""
        member = self._member
        try:
            last = 0 if member is None else member.process.words[0]
        except ValueError:  # the process has ended meanwhile
            return False
        return 0 < self._number_of(call) <= last  # calls are begun in the order of their numbers

    def force(self, call: Call) -> None:
        """End the process if it runs this call, which nobody wants any more."""
        member = self._member
        if member is not None and self.runs(call):
            member.process.kill()

    def _end(self) -> None:
        """End the process: nothing is left to do, or can be done."""
        member = self._member
        if member is not None and not member.worker.doomed:
            member.worker.doomed = True
            member.process.close_gently()
            self.driver.pool.end_soon(member)
        self._release_init()
        if self._state is not None:
            self.driver.memory.remove(self._state)
            self._state = None
        self.driver.actors.discard(self)

    def _end_with(self, error: Any) -> None:
        """Fail what waits, and all that will be called; `error` makes the exception."""
        if self.error is not None:
            return
        self.error = error
        waiting, self.waiting = self.waiting, deque()
        for item in waiting:
            self._fail(item, error(item))
        self._end()

    def stop(self, error: BaseException) -> None:
        """Learn that the pool ends: all calls fail, also what runs."""
        self._end_with_shutdown()
        for item in self.flying.values():
            item.call.future.set_error(error)

    def _end_with_shutdown(self) -> None:
        if self.error is None:
            self.error = self._why_gone
            for item in self.waiting:
                self._fail(item, self.error(item))
            self.waiting.clear()

    # -- calls ------------------------------------------------------------------------------

    def _accept(self, item: Item) -> None:
        if type(item.arguments) is Encoded:
            self.driver.memory.written(item.arguments)
        if self.error is not None:
            self._fail(item, self.error(item))
            return
        self._bring_inputs(item)
        self.waiting.append(item)
        self.driver.pumps.add(self)

    def _bring_inputs(self, item: Item) -> None:
        for k, future in enumerate(item.futures):
            if future.done():
                self._input_done(item, k, future)
            else:
                future.add_callback(partial(self._post_input, item, k))

    def _post_input(self, item: Item, k: int, future: TaskFuture) -> None:
        self.driver.call_soon(self._input_came, item, k, future)

    def _input_came(self, item: Item, k: int, future: TaskFuture) -> None:
        self._input_done(item, k, future)
        self.pump()

    def _input_done(self, item: Item, k: int, future: TaskFuture) -> None:
        value, error = future.local_outcome()
        driver = self.driver
        if error is None and future.is_elsewhere():
            if type(value) is not PoolValue or value.driver is not driver:  # a thread brings it
                threading.Thread(
                    target=self._bring, args=(item, k, value), name="lazyflow-fetch", daemon=True
                ).start()
                return
            if value.value is None:
                assert value.node is not None
                driver.values.fetch(value.node, _Arrival(self, item, k))
                return
            value = value.value
        self._put(item, k, value, error)

    def _bring(self, item: Item, k: int, remote: PoolValue) -> None:
        try:
            value, error = remote.get(), None
        except BaseException as broken:
            value, error = None, broken
        self.driver.call_soon(self.have, item, k, value, error)

    def have(self, item: Item, k: int, value: Any, error: BaseException | None) -> None:
        """Take a value that a call waited for."""
        self._put(item, k, value, error)
        self.pump()

    def _put(self, item: Item, k: int, value: Any, error: BaseException | None) -> None:
        item.missing -= 1
        if item.is_over:  # it was cancelled, or its actor has ended
            return
        if type(value) is Literal:
            value = value.value
        if error is not None:
            item.error = error
        elif type(value) is Encoded:
            self.driver.memory.add(value)
            item.values[k] = value
        elif is_short(value):
            item.values[k] = [value]
        else:
            try:
                item.values[k] = self.driver.memory.encoded(value)
            except Exception as broken:
                item.error = unsendable(
                    item.task, "value", broken, self.driver.memory.least
                )

    def pump(self) -> None:
        """Send what can be sent, in order."""
        member = self._member
        if member is None or member.worker.doomed or self.driver.closing:
            return
        if not self._is_made:
            if not self.flying and not self._init.missing:
                if self._init.error is None:
                    self._send_init(member)
                else:
                    error = self._init.error
                    self._end_with(lambda _: error)
            self.driver.pool.watch_writes(member)
            return
        waiting, flying = self.waiting, self.flying
        batch: list[tuple[Any, ...]] = []
        while waiting and len(flying) < self._window:
            item = waiting[0]
            if item.call.future.done():  # it was cancelled
                self._release(waiting.popleft())
            elif item.missing:
                break
            elif item.error is not None:
                waiting.popleft()
                self._fail(item, item.error)
            else:
                waiting.popleft()
                number = next(self._numbers)
                flying[number] = item
                batch.append((number, item.call.method, self._arguments(member, item)))
        if batch:
            self._tell_versions(member)
            self.driver.sender.say(member, "calls", batch)
        self.driver.pool.watch_writes(member)
        if self._is_closing and not waiting and not flying:
            self._end()

    def _tell_versions(self, member: ActorMember) -> None:
        if member.versions != versions.said.number:
            self.driver.sender.say(
                member, "versions", self.driver.sender.versions_for(member)
            )
        if member.settings != notices.said.number:
            member.settings = notices.said.number
            self.driver.sender.say(member, "settings", tuple(notices.said))

    def _arguments(self, member: ActorMember, item: Item) -> tuple[Any, ...]:
        arguments: Any = item.arguments
        if type(arguments) is Encoded:
            arguments = self._lent(member, arguments)
        loads = [self._lent(member, v) if type(v) is Encoded else v for v in item.values]
        return arguments, item.flags, item.binding, item.sources, loads

    def _lent(self, member: ActorMember, value: Encoded | None) -> Any:
        if value is None:
            return None
        self.driver.memory.lend(member, value.segments())
        return value.payload, value.buffers, value.size

    def _fail(self, item: Item, error: BaseException) -> None:
        if self._init.call.future.done():
            self._init.call.future.local_outcome()  # its error was seen: here
        item.call.future.set_error(error)
        self._release(item)

    def _release(self, item: Item) -> None:
        """Count out the memory of a call that is over."""
        memory = self.driver.memory
        memory.remove(item.arguments)
        for value in item.values:
            memory.remove(value)
        item.arguments, item.values, item.futures = None, [], []
        item.is_over = True

    def _release_init(self) -> None:
        if self._made_of is not None:
            self.driver.memory.remove(self._made_of)
            self._made_of = None
            self._release(self._init)

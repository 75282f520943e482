"""The thread that connects the decisions to the workers and to the runs of this process.

Everything that changes the state happens here, one event after the other. Nothing here waits for a
worker: sockets do not block, and messages that a busy worker does not take yet are kept::

    other threads, freed objects -- post --> loop.steps --+
    sockets and ends of workers -----------> pool --------+--> decisions.events --> state.out
    timers --------------------------------> loop --------+                             |
    workers <-- sender <--+                                                             |
    runs, futures <-------+---- `runs`, `values` <---- `perform`, an instruction each <-+

State of a `Driver`; its thread changes it, unless another is named::

    state :: State                   jobs, workers and values: decisions/pool_state.py
    loop :: EventLoop                any thread posts steps
    pool :: WorkerPool               the processes
    memory :: PoolMemory             shared memory; any thread writes to it, this one counts users
    functions :: FunctionTable       numbers of functions; any thread asks for one
    sender, receiver                 make messages of batches, and events of messages
    runs, values                     carry out the instructions for runs, and for values
    _held :: {int: [Gone]}           for each living `PoolValue` a reference that tells when it is
                                     freed; added by the thread that makes the value, removed here
    actors, pumps :: {RemoteActor}   those that have not ended; those that may have calls to send
    broken, ending, closing, is_left :: bool     stages of the end, see `Driver`

Guarantee: when this thread ends, by `close` or by an error of lazyflow's own, each run gets an
error, so that no caller waits for ever, and all workers are ended. The child of a fork, which has
no such thread, gives its runs an error by `leave`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from itertools import count
from math import inf
from typing import Any

from lazyflow.errors import Cancelled
from lazyflow.finalizers import Gone
from lazyflow.graph.task import task_name
from lazyflow.interrupts import Event
from lazyflow.schedulers.core.base import Observer
from lazyflow.schedulers.processes.decisions import events, nodes
from lazyflow.schedulers.processes.decisions.nodes import (
    DONE,
    MISSING,
    SENT,
    WAITING,
    Batch,
    Job,
    Literal,
    Node,
    WorkerRecord,
)
from lazyflow.schedulers.processes.decisions.pool_state import State
from lazyflow.schedulers.processes.parent import values
from lazyflow.schedulers.processes.parent.event_loop import EventLoop, LoopThread
from lazyflow.schedulers.processes.parent.pool import WorkerPool, scheduler_lost
from lazyflow.schedulers.processes.parent.pool_run import EndedRun, NewJob, PoolRun
from lazyflow.schedulers.processes.parent.values import (
    Fetch,
    FunctionTable,
    PoolMemory,
    PoolValue,
    RepeatedCopies,
    not_here,
)
from lazyflow.schedulers.processes.parent.worker_handle import (
    Receiver,
    Sender,
    fill_standard_streams,
)
from lazyflow.schedulers.processes.protocol import DIVIDE, GIVE_UP, RECALL, SHARE
from lazyflow.schedulers.remote.calls import is_quick, is_short, name_only
from lazyflow.schedulers.remote.environment import versions
from lazyflow.store.memory.available import available_memory
from lazyflow.store.pickling.serialize import Encoded

# -- values of nodes in the driver's thread: given, packed, fetched for this process, and let go


class ValueTable:
    """Handles instructions for values, and steps that other threads post.

    unpacked
        Nodes that a thread has to pickle, by job.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._state = driver.state
        self._memory = driver.memory
        self._fetches: dict[Node, list[Any]] = {}
        self.unpacked: dict[Job, list[Node]] = {}

    # -- given ------------------------------------------------------------------------------

    def take_outcome(self, node: Node, future: Any) -> None:
        """Take the outcome of a future that a node stands for."""
        value, error = future.local_outcome()
        if error is not None:
            events.fail(self._state, node, error)
        elif not node.inputs and node.phase == WAITING and not node.job.over:
            if future.is_elsewhere():  # of another pool, or an engine: a thread brings it here
                threading.Thread(
                    target=self._bring, args=(node, value), name="lazyflow-fetch", daemon=True
                ).start()
            else:
                self.provide(node, value)

    def _bring(self, node: Node, remote: Any) -> None:
        try:
            self._driver.loop.post(self.provide, node, remote.get())
        except BaseException as error:
            self._driver.loop.post(events.fail, self._state, node, error)

    def provide(self, node: Node, value: Any) -> None:
        """Provide a node with a value; tasks that need it wait until it is pickled."""
        if node.phase != WAITING or is_short(value):
            events.provide(self._state, node, value)
        elif not node.users or is_quick((value,), self._memory.least):
            events.provide(self._state, node, Literal(value))
        else:
            node.value, node.packed = Literal(value), ()
            self.pack(node)

    def delivered(self, run: Any, i: int, value: Any, error: BaseException | None) -> None:
        """Take the value, or the error, of the lazy value that a task returned."""
        if run.nodes and not run.over:
            self.remade(run.nodes[i], value, error)

    def remade(self, node: Node, value: Any, error: BaseException | None) -> None:
        """Take the value of a node that a run of its own has made, unless it was given up."""
        if node not in node.job.later:
            return
        if error is not None:
            events.fail(self._state, node, error)
        elif type(value) is PoolValue:
            self._memory.add(value.value)
            events.provide(self._state, node, value.value, value.value.size)
        else:
            self.provide(node, value)

    # -- packed -----------------------------------------------------------------------------

    def pack(self, node: Node) -> None:
        """Have a node's arguments pickled, when all instructions are done."""
        self.unpacked.setdefault(node.job, []).append(node)

    def begin_packing(self) -> None:
        """Start a thread for each job whose nodes have to be packed."""
        while self.unpacked:
            values.begin_packing(self._driver, self.unpacked.popitem()[1], self.packed)

    def packed(self, outcomes: list[values.Packed]) -> None:
        """Take the arguments or the values of nodes that another thread has pickled."""
        ready = [outcome for outcome in outcomes if self._is_ready(*outcome)]
        events.packed(self._state, [(node, arguments) for node, _, arguments, *_ in ready])
        self._driver.perform()

    def _is_ready(
        self,
        node: Node,
        literal: Any,
        encoded: Any,
        error: BaseException | None,
        written: dict[Any, Any],
    ) -> bool:
        """Take in a pickled value or pickled arguments of a node; True: arguments that can be sent.

        `literal` is the node's value then: a `Literal`, or MISSING when `encoded` is arguments;
        `written` is memory that was copied for it, for `PoolMemory.keep_constants`.
        """
        is_value = literal is not MISSING
        if is_value and encoded is not None:
            self._memory.take_own(encoded)
        run = node.job.run
        self._memory.keep_constants(None if run is None else run.literals, written)
        if node.phase != WAITING or node.packed != () or node.value is not literal:
            self._memory.remove(encoded)
        elif error is not None:
            events.fail(self._state, node, error)
        elif is_value:
            literal.encoded = encoded
            events.provide(self._state, node, literal)
        else:
            return True
        return False

    # -- fetched for this process -----------------------------------------------------------

    def fetch(self, node: Node, waits: Any) -> None:
        """Have ``waits.done(value, error)`` called with a value that a worker has."""
        if self._driver.closing:
            waits.done(None, self._driver.why)
            return
        self._fetches.setdefault(node, []).append(waits)
        events.want(self._state, node)

    def arrived(self, node: Node, value: Any) -> None:
        """Hand a value to all that wait for it."""
        for fetch in self._fetches.pop(node, ()):
            fetch.done(value)

    def lost(self, node: Node, error: Any) -> None:
        """Wake all that wait for a value that is lost."""
        for fetch in self._fetches.pop(node, ()):
            fetch.done(None, error)

    def refuse_fetches(self, why: BaseException) -> None:
        """Wake all that wait for a value: none comes any more."""
        for waiting in self._fetches.values():
            for fetch in waiting:
                fetch.done(None, why)
        self._fetches.clear()


# -- runs in the driver's thread: they are taken in, given results and failures, and end --

PARCEL = 0.02  # seconds that a parcel of short calls may take: several times its aim; a guess
ABANDONED = 0.2  # seconds that a task gets to end after its run was given up; a guess


class Runs:
    """Handles instructions for runs, and steps that are posted by runs and their users."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._state = driver.state

    # -- the beginning ----------------------------------------------------------------------

    def add(self, new: NewJob) -> None:
        """Take a job in, or cancel its run if this comes after the end."""
        driver, run, job = self._driver, new.run, new.job
        if run.stop or driver.closing:
            run.cancel(driver.why)
            return
        run.is_known = True
        for member in driver.pool.members.values():
            run.inside.add(member.inside)
        new.settle()
        driver.functions.retain(run.functions.values())
        events.add_job(self._state, job, new.broken)
        for i, value in new.given.items():
            run.arrived(i, value)
        for future, node in new.pending:
            future.add_callback(partial(driver.loop.post, driver.values.take_outcome, node))
        driver.perform()
        self._finish_if_made(job)

    # -- results ----------------------------------------------------------------------------

    def deliver(self, node: Node, value: Any) -> None:
        """Hand a wanted value to its run."""
        job = node.job
        run = job.run
        if job.over or run is None:  # it ended meanwhile, so that the value is not wanted
            events.unpin(self._state, node)
            return
        if type(value) is Literal:
            value = value.value
            events.unpin(self._state, node)
        elif type(value) is Encoded and not node.pinned:
            self._driver.memory.add(value)
            value = PoolValue(self._driver, None, node.task, value)
        elif run.futures is not None and (type(value) is Encoded or value is MISSING):
            value = PoolValue(self._driver, node, name_only(node.task), None)
        else:
            events.unpin(self._state, node)
        run.arrived(node.i, value)
        del value  # the caller wakes up now, and the value is freed when it drops it
        self._finish_if_made(job)

    def report_failure(self, node: Node, error: Any) -> None:
        """Report to a run that a task of it failed."""
        job = node.job
        run = job.run
        if job.over or run is None or run.over:
            return
        if id(error) not in run.reported:
            run.reported[id(error)] = error
            run.observers.tell(Observer.task_failed, run, node.i, error)
        run.note_failure(node.i, error)
        if run.over:
            self.end(run)
            return
        if node.pinned:
            events.unpin(self._state, node)
        run.arrived(node.i, None)
        self._finish_if_made(job)

    def _finish_if_made(self, job: Job) -> None:
        if not job.over and job.run is not None and not job.run.wanted:  # over: an EndedRun
            job.run.finish()
            self.end(job.run)

    # -- the end ----------------------------------------------------------------------------

    def end(self, run: PoolRun) -> None:
        """Take out a run that is over."""
        if run.is_known:  # else it was cancelled before it was taken in
            job = run.job
            events.end_job(self._state, job)
            run.nodes = []
            run.inside.clear()
            if job.nodes and job.run is run:  # kept without the plan: its tasks may run again
                job.run = EndedRun(run)

    def drop_job(self, job: Job) -> None:
        """Drop the functions and literals that were kept for a run."""
        driver = self._driver
        run, job.run = job.run, None
        if run is not None:
            driver.memory.drop_constants(run.literals)
            gone = driver.functions.release(run.functions.values())
            run.functions = {}
            for number in gone:
                self._state.paces.pop(number, None)
            for member in driver.pool.members.values() if gone else ():
                member.drop_functions(gone)

    def cull(self, reference: Callable[[], PoolRun | None]) -> None:
        """Give up the tasks that only dropped futures of a run needed, unless the run was freed."""
        run = reference()
        if run is None:
            return
        run.cull(replace_threads=True)
        if not run.over and run.nodes and run.unneeded:
            unneeded = [run.nodes[i] for i in run.unneeded]
            events.give_up(self._state, [n for n in unneeded if n.job is run.job])
            run.wanted -= run.unneeded
            self._finish_if_made(run.job)

    def end_later(self, node: Node, parent: Any) -> None:
        """End the run that makes a value which is not needed; its parent goes on."""
        maker = node.job.run if parent is None else parent
        for child in tuple(getattr(maker, "children", ())):
            if child.parent == (maker, node.i):
                maker.children.discard(child)
                child.parent = None
                child.cancel(Cancelled("its value is not needed any more"))

    # -- tasks that are not wanted any more -------------------------------------------------

    def abandon(self, run: PoolRun) -> None:
        """Take tasks of a run that is over back, and end those that do not end by themselves."""
        job = getattr(run, "job", None)
        pool = self._driver.pool
        for worker in tuple(self._state.workers):
            if _has_sent(worker, job):
                events.recall(self._state, worker)
                member = pool.members[worker]
                node = member.running()
                if node is not None and node.job is job:
                    pool.request(member, GIVE_UP, node.id)
                self._driver.loop.after(ABANDONED, partial(self._end_busy, worker, job))

    def _end_busy(self, worker: WorkerRecord, job: Any) -> None:
        pool = self._driver.pool
        member = pool.members.get(worker)
        if member is None or self._driver.ending:  # when tasks get longer
            return
        node = member.running()
        if node is not None and node.job is job and job.over:
            pool.end(member)
        elif _has_sent(worker, job):  # it is only starting, and may take them before the recall
            self._driver.loop.after(ABANDONED, partial(self._end_busy, worker, job))

    def divide_late(self, run: PoolRun, take: Callable[[bytes | None], None]) -> None:
        """Have `take` called with a report of a parcel that takes long; None: none will come."""
        self._driver.loop.after(PARCEL, partial(self._divide, run, take))

    def _divide(self, run: PoolRun, take: Callable[[bytes | None], None]) -> None:
        if run.over or not run.nodes or self._driver.closing:
            return
        node = run.nodes[run.plan.outputs[0]]
        for member in self._driver.pool.members.values():
            if member.running() is node:
                member.parcels[node.id] = take
                self._driver.pool.request(member, DIVIDE, node.id)
                return
        self.divide_late(run, take)  # it was not begun: when it is, this process is not told

    def end_task(self, run: PoolRun, i: int) -> None:
        """End the worker that runs a task which is not wanted any more."""
        node = run.nodes[i] if run.nodes else None
        for member in self._driver.pool.members.values():
            if node is not None and member.running() is node:
                self._driver.pool.end(member)


def _has_sent(worker: WorkerRecord, job: Any) -> bool:
    """Tell whether a worker was sent tasks of a job that it did not answer."""
    return any(n.job is job for batch in worker.batches for n in batch.nodes if n.phase == SENT)


# -- the driver ---------------------------------------------------------------------------

_ROOM = 8 << 30  # bytes of memory where the system does not tell; a guess


class Driver:
    """One pool of workers and the thread that drives it.

    broken
        The thread has ended, or ends: a new driver is needed.
    ending
        `close` was called.
    closing
        The workers are being ended: nothing is sent to them any more.
    is_left
        This is the child of a fork; the workers are the parent's.
    why
        The error of runs that come when it is closing.
    """

    def __init__(self) -> None:
        self.state = State()
        self.state.refcounts.room = (available_memory() or _ROOM) // 8
        self.broken = False
        self.ending = False
        self.closing = False
        self.is_left = False
        self.why: BaseException = Cancelled("lazyflow was shut down before the run was done")
        self.reloads = versions.look()  # of the user's modules, as far as a warning has shown them
        self.says_reloads = True
        self._held: dict[int, list[Gone]] = {}  # for every PoolValue that lives
        self._numbers = count()  # of those
        fill_standard_streams()
        self.loop = EventLoop()
        self.functions = FunctionTable()
        self.copies = RepeatedCopies()
        self.pool = WorkerPool(self)
        self.memory: PoolMemory = PoolMemory(self.pool.tell_owner, self.loop.steps)
        self.sender = Sender(self.memory, self.functions, self.loop.now)
        self.runs = Runs(self)
        self.receiver = Receiver(self.state, self.memory, self.runs.end, self.loop.now)
        self.values = ValueTable(self)
        self.actors: set[Any] = set()  # hosts of those that did not end
        self.pumps: set[Any] = set()  # hosts that may have calls to send, all in one message
        self.state.lineage.room = self.pool.room
        self._on_instruction = self._instruction_handlers()
        self._ended = Event()
        self.starter = LoopThread(self._serve)
        self.thread = self.starter.thread

    def _instruction_handlers(self) -> dict[type, Callable[..., None]]:
        return {
            nodes.Send: self._send,
            nodes.Share: self._share,
            nodes.Recall: self._recall,
            nodes.Start: self._start,
            nodes.Deliver: self.runs.deliver,
            nodes.ReportFailure: self.runs.report_failure,
            nodes.DropJob: self.runs.drop_job,
            nodes.EndLater: self.runs.end_later,
            nodes.Arrived: self.values.arrived,
            nodes.Lost: self.values.lost,
            nodes.Pack: self.values.pack,
            nodes.Free: self.memory.remove,
        }

    # -- for other threads ------------------------------------------------------------------

    def add(self, new: NewJob) -> None:
        """Take a job in."""
        if threading.current_thread() is self.thread:
            self.runs.add(new)
        else:
            if len(self.pool.members) < min(new.job.cap, len(new.job.nodes)):  # one is started
                fill_standard_streams()  # before this thread opens what it waits with
            self.loop.post_always(self.runs.add, new)

    def fetch(self, value: PoolValue) -> Any:
        """Return a value of which a worker has the only copy, encoded or as it is."""
        node = value.node
        assert node is not None
        if node.phase == DONE and node.value is not MISSING:
            return node.value
        if threading.current_thread() is self.thread:
            raise RuntimeError(
                "a value in a worker can't be fetched from the driver's thread, which would wait "
                "for itself. Call compute() before you pass it."
            )
        if self.closing:
            raise Cancelled(
                f"{task_name(value.task)} was in a worker, and lazyflow was shut down"
            )
        fetch = Fetch()
        self.loop.post_always(self.values.fetch, node, fetch)
        return fetch.wait()

    def view(self, segment: Any) -> Any:
        """Return the bytes of a segment of shared memory, for a value that is opened here."""
        if threading.current_thread() is self.thread:  # the value may be counted out next
            return self.memory.view(segment)
        self.loop.post(self.memory.segments.add, [segment])  # before it can be seen to have died
        if not self.memory.mappings.knows(segment[0]) and not self.closing:
            noted = Fetch()  # a value was put just now: its arena is noted by the driver
            self.loop.post_always(self._synchronize, noted)
            noted.wait()
        return self.memory.mappings.view(segment)

    def hold(self, value: PoolValue) -> None:
        """Keep the result that a value stands for until the value is freed."""
        if not self.closing:
            number = next(self._numbers)
            self._held[number] = self.loop.when_gone(
                value, self._let_go, number, value.node, value.value
            )

    def info(self) -> dict[str, Any]:
        """Return figures of the pool and of each worker."""
        return {
            "workers": [m.info() for m in tuple(self.pool.members.values()) if m.host is None],
            "actors": [m.info() for m in tuple(self.pool.members.values()) if m.host is not None],
            "deaths": self.pool.deaths,
            "tasks": self.receiver.tasks,
            "messages": self.sender.messages + self.receiver.messages,
            "through_parent_bytes": self.sender.bytes + self.receiver.bytes,
            "shared_bytes": self.memory.segments.bytes,
            "mapped_bytes": self.memory.mappings.in_use,
            "jobs": sum(map(len, self.state.jobs)),
        }

    def close(self, grace: float) -> list[str]:
        """End the pool; return the names of tasks that were still running after `grace`."""
        left: list[str] = []
        self.loop.post(self._close, grace, left)
        if self.thread.ident is not None:  # it was started
            self._ended.wait()  # which Ctrl-C ends for certain
            self.thread.join()
        return left

    def leave(self) -> None:
        """In the child of a fork: close what leads to the parent's workers, and forget them.

        Runs that wait for them here would wait for ever.
        """
        self.broken = self.closing = self.is_left = self.loop.is_over = True
        self.why = not_here("the result of a run that was pending at the fork")
        steps = [item for item in self.loop.steps if type(item) is tuple]
        added = [details[0].run for step, details, _ in steps if step == self.runs.add]
        for run in (*self.pool.runs(), *added):
            run.observers.clear()  # the parent calls them
            run.cancel(self.why)
        for host in tuple(self.actors):
            host.stop(self.why)
        self.loop.run_late_steps()
        for member in self.pool.members.values():
            for fd in member.process.descriptors():
                os.close(fd)
        self.loop.close()

    # -- the loop ---------------------------------------------------------------------------

    def _serve(self) -> None:
        try:
            while not self.broken:
                until = self.pool.until()
                if self.state.out:  # it has decided something
                    self.perform()
                self.loop.sleep(until)
                self.loop.run_steps()
                if not self.closing:
                    while self.pumps:
                        self.pumps.pop().pump()
                    self.perform()
                    self._send_drops()
        except BaseException as bug:
            self._break(bug)
        finally:
            self.loop.is_over = True
            self.loop.run_late_steps()
            self._ended.set()

    def _synchronize(self, fetch: Fetch) -> None:
        """Wake a thread: the steps that it posted before are done, or were dropped at the end."""
        fetch.done(None, self.why if self.closing else None)

    def _let_go(self, number: int, node: Node | None, value: Any) -> None:
        """Drop the result that a freed `PoolValue` stood for."""
        self._held.pop(number, None)
        if node is not None:
            events.unpin(self.state, node)
        self.memory.remove(value)

    def drop_named(self, name: str) -> None:
        """Have workers drop the object that they keep by a name; in this thread."""
        for member in self.pool.members.values() if not self.closing else ():
            self.sender.drop(member, name)
            self.pool.watch_writes(member)

    def _send_drops(self) -> None:
        """Send ids of values that workers can drop and that no other message took along."""
        for worker in self.state.workers:
            if worker.to_drop and worker.up:
                member = self.pool.members[worker]
                self.sender.send_drops(member)
                self.pool.watch_writes(member)

    # -- instructions -----------------------------------------------------------------------

    def perform(self) -> None:
        """Carry out the instructions of the state.

        Each is taken out first, so that it is carried out once, even if another one raises.
        """
        out, handlers = self.state.out, self._on_instruction
        while out:
            instruction = out.popleft()
            handlers[instruction.__class__](*instruction)
        if self.values.unpacked:
            self.values.begin_packing()

    def _send(self, worker: WorkerRecord, batch: Batch) -> None:
        member = self.pool.members[worker]
        self.sender.send(member, batch)
        self.pool.watch_writes(member)

    def _share(self, worker: WorkerRecord, node: Node) -> None:
        member = self.pool.members[worker]
        member.asked[node.id] = node
        self.pool.request(member, SHARE, node.id)

    def _recall(self, worker: WorkerRecord) -> None:
        numbers = [batch.number for batch in reversed(worker.batches)]
        self.pool.request(self.pool.members[worker], RECALL, numbers)

    def _start(self, number: int) -> None:
        for _ in range(number):
            if not self.pool.start():
                return

    def give_up(self, error: BaseException) -> None:
        """End all runs: no worker can be started.

        Posted steps wait: this may be part of an instruction, and runs that begin now would ask
        for workers again.
        """
        for run in self._cancel_all(error):
            self.runs.end(run)

    # -- the end ----------------------------------------------------------------------------

    def _close(self, grace: float, left: list[str]) -> None:
        """Cancel runs, save held values, end the workers, and this thread."""
        try:
            self.ending = True
            self.pool.end_given_up()
            busy = self.pool.busy()
            self._cancel_all(self.why)
            self.loop.run_steps()
            self.perform()
            deadline = self.loop.now() + grace
            self._save_held(deadline)
            self.closing = True
            left += self.pool.end_all(deadline, busy)
            self.loop.run_steps()
        finally:
            self.broken = self.closing = True
            self._release_all()

    def _cancel_all(self, error: BaseException) -> list[PoolRun]:
        """Cancel all runs and calls of actors; return the runs, each of which posts its end."""
        runs: list[PoolRun] = self.pool.runs()
        for run in runs:
            if not run.over:
                run.cancel(error)
        for host in tuple(self.actors):
            host.stop(error)
        return runs

    def _save_held(self, deadline: float) -> None:
        """Copy values here that the caller holds and only a worker has."""
        self.state.lineage.unshared.extend(self.state.refcounts.unsafe)
        self.state.lineage.room = lambda: inf
        while self.state.refcounts.unsafe and self.pool.members and self.loop.now() < deadline:
            events.make_safe(self.state, len(self.state.refcounts.unsafe))
            self.perform()
            self.loop.sleep(deadline)
            self.loop.run_steps()
            self.perform()

    def _release_all(self) -> None:
        self.values.refuse_fetches(self.why)
        self._held.clear()
        self.memory.close()
        self.loop.close()

    def _break(self, bug: BaseException) -> None:
        """End after a bug in lazyflow: no caller is left waiting, and no process is left."""
        self.broken = self.closing = True
        self.why = scheduler_lost(bug)
        with ExitStack() as steps:  # each is taken, whatever the others raise; the last one first
            steps.callback(self._release_all)
            steps.callback(self.pool.kill_all)
            for host in tuple(self.actors):
                steps.callback(host.stop, self.why)
            for run in self.pool.runs():
                steps.callback(run.cancel, self.why)
            steps.callback(self._tell_story, bug)

    def _tell_story(self, bug: BaseException) -> None:
        """Add to an error of lazyflow's own what each worker was doing."""
        with suppress(Exception):  # memory may have run out
            for worker in self.state.workers:
                bug.add_note(worker.story())

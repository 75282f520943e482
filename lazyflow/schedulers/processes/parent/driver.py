"""The thread that connects the decisions to the workers and to the runs of this process.

Everything that changes the state happens here, one event after the other; other threads, and
weak references to what has gone, post steps to `loop`. Nothing here waits for a worker: sockets
do not block, and what a busy worker does not take yet is kept until it does.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from math import inf
from time import monotonic
from typing import Any

from lazyflow.departures import Gone
from lazyflow.errors import Cancelled
from lazyflow.graph.task import task_name
from lazyflow.schedulers.core.event import Event
from lazyflow.schedulers.processes.decisions import instructions, values
from lazyflow.schedulers.processes.decisions.nodes import DONE, MISSING, Node
from lazyflow.schedulers.processes.decisions.state import State
from lazyflow.schedulers.processes.parent.deaths import scheduler_lost
from lazyflow.schedulers.processes.parent.event_loop import EventLoop, LoopThread
from lazyflow.schedulers.processes.parent.functions import FunctionTable
from lazyflow.schedulers.processes.parent.job_builder import NewJob
from lazyflow.schedulers.processes.parent.launch import fill_standard_streams
from lazyflow.schedulers.processes.parent.memory import PoolMemory
from lazyflow.schedulers.processes.parent.pool import WorkerPool
from lazyflow.schedulers.processes.parent.pool_value import Fetch, PoolValue, not_here
from lazyflow.schedulers.processes.parent.receiving import Receiver
from lazyflow.schedulers.processes.parent.remote_run import RemoteRun
from lazyflow.schedulers.processes.parent.repeats import RepeatedCopies
from lazyflow.schedulers.processes.parent.runs import Runs
from lazyflow.schedulers.processes.parent.sending import Sender
from lazyflow.schedulers.processes.parent.value_table import ValueTable
from lazyflow.schedulers.processes.protocol import RECALL, SHARE
from lazyflow.schedulers.remote.versions import versions
from lazyflow.store.memory.available import available_memory

_ROOM = 8 << 30  # bytes of memory where the system does not tell


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
        What is raised for runs that come when it is closing.
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
        self.memory = PoolMemory(self.pool.tell_owner, self.loop.steps)
        self.sender = Sender(self.memory, self.functions)
        self.runs = Runs(self)
        self.receiver = Receiver(self.state, self.memory, self.runs.end)
        self.values = ValueTable(self)
        self.actors: set[Any] = set()  # hosts of those that did not end
        self.pumps: set[Any] = set()  # hosts that may have calls to send, all in one message
        self.state.lineage.room = self.pool.room
        self._on_instruction = self._instruction_handlers()
        self._ended = Event()
        self.starter = LoopThread(self._serve)
        self.thread = self.starter.thread

    def _instruction_handlers(self) -> dict[type, Callable[[Any], None]]:
        return {
            instructions.Send: self._send,
            instructions.Share: self._share,
            instructions.Recall: self._recall,
            instructions.Start: self._start,
            instructions.Deliver: self.runs.deliver,
            instructions.ReportFailure: self.runs.report_failure,
            instructions.Forget: self.runs.forget,
            instructions.EndLater: self.runs.end_later,
            instructions.Arrived: self.values.arrived,
            instructions.Lost: self.values.lost,
            instructions.Pack: self.values.pack,
            instructions.Free: self.values.free,
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
                "a value in a worker can't be had here: this runs in the thread that would bring "
                "it. Compute it before."
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
        """Keep what a value stands for until it has gone."""
        if not self.closing:
            number = next(self._numbers)
            self._held[number] = self.loop.when_gone(
                value, self._let_go, number, value.node, value.value
            )

    def drop_named(self, name: str) -> None:
        """Have workers let go of what they keep by a name."""
        self.loop.post(self._drop_named, name)

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
        if self.starter.has_begun:
            self._ended.wait()  # which Ctrl-C ends for certain
            self.thread.join()
        return left

    def leave(self) -> None:
        """In the child of a fork: close what leads to the parent's workers, and forget them.

        What waits for them here would wait for ever.
        """
        self.broken = self.closing = self.is_left = self.loop.is_over = True
        self.why = not_here("what was pending on processes when it was forked")
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
                if self.state.out:  # it found what to do
                    self.perform()
                self.loop.sleep(until)
                self.loop.run_steps()
                if not self.closing:
                    while self.pumps:
                        self.pumps.pop().pump()
                    self.perform()
                    self._send_forgotten()
        except BaseException as bug:
            self._break(bug)
        finally:
            self.loop.is_over = True
            self.loop.run_late_steps()
            self._ended.set()

    def _synchronize(self, fetch: Fetch) -> None:
        """Wake a thread: what it posted before is done, or is not done any more."""
        fetch.done(None, self.why if self.closing else None)

    def _let_go(self, number: int, node: Node | None, value: Any) -> None:
        """Let go of what a `PoolValue` stood for, which has gone."""
        self._held.pop(number, None)
        if node is not None:
            values.unpin(self.state, node)
        self.memory.remove(value)

    def _drop_named(self, name: str) -> None:
        for member in self.pool.members.values() if not self.closing else ():
            self.sender.drop(member, name)
            self.pool.watch_writes(member)

    def _send_forgotten(self) -> None:
        """Send ids of values that workers can drop and that no other message took along."""
        for worker in self.state.workers:
            if worker.forget and worker.up:
                member = self.pool.members[worker]
                self.sender.forget(member)
                self.pool.watch_writes(member)

    # -- instructions -----------------------------------------------------------------------

    def perform(self) -> None:
        """Do what the state has decided.

        Each instruction is taken out before it is done: it is done once, and none is passed over,
        whatever happens to the others meanwhile.
        """
        out, handlers = self.state.out, self._on_instruction
        while out:
            instruction = out.popleft()
            handlers[instruction.__class__](instruction)
        if self.values.unpacked:
            self.values.begin_packing()

    def _send(self, do: instructions.Send) -> None:
        member = self.pool.members[do.worker]
        self.sender.send(member, do.flight)
        self.pool.watch_writes(member)

    def _share(self, do: instructions.Share) -> None:
        member = self.pool.members[do.worker]
        member.asked[do.node.id] = do.node
        self.pool.request(member, SHARE, do.node.id)

    def _recall(self, do: instructions.Recall) -> None:
        numbers = [flight.number for flight in reversed(do.worker.flights)]
        self.pool.request(self.pool.members[do.worker], RECALL, numbers)

    def _start(self, do: instructions.Start) -> None:
        for _ in range(do.count):
            if not self.pool.start():
                return

    def give_up(self, error: BaseException) -> None:
        """End all runs: no worker can be had.

        What was posted waits: this may be part of an instruction, and the runs that begin now
        would ask for workers again.
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
            deadline = monotonic() + grace
            self._save_held(deadline)
            self.closing = True
            left += self.pool.end_all(deadline, busy)
            self.loop.run_steps()
        finally:
            self.broken = self.closing = True
            self._release_all()

    def _cancel_all(self, error: BaseException) -> list[RemoteRun]:
        """Cancel all runs and calls of actors; return the runs, which a posted step ends."""
        runs = self.runs.cancel_all(error)
        for host in tuple(self.actors):
            host.stop(error)
        return runs

    def _save_held(self, deadline: float) -> None:
        """Copy values out that somebody holds and only a worker has."""
        self.state.lineage.unshared.extend(self.state.refcounts.unsafe)
        self.state.lineage.room = lambda: inf
        while self.state.refcounts.unsafe and self.pool.members and monotonic() < deadline:
            values.make_safe(self.state, len(self.state.refcounts.unsafe))
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

"""The thread that connects the decisions to the workers and to the runs of this process.

Everything that changes the state happens here, one event after the other; other threads, and
weak references to what has gone, append to `inbox` and wake this one. Nothing here waits for a
worker: sockets do not block, and what a busy worker does not take yet is kept until it does.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from time import monotonic
from typing import Any

from lazyflow.departures import Gone, gone
from lazyflow.errors import Cancelled, SchedulerLost
from lazyflow.graph.task import task_name
from lazyflow.schedulers.core.errors.failures import text_of
from lazyflow.schedulers.core.event import Gate
from lazyflow.schedulers.processes.decisions import jobs, values, workers
from lazyflow.schedulers.processes.decisions.instructions import (
    Arrived,
    Deliver,
    Forget,
    Free,
    Lost,
    Pack,
    Recall,
    ReportFailure,
    Send,
    Share,
    Start,
)
from lazyflow.schedulers.processes.decisions.nodes import (
    DONE,
    MISSING,
    SENT,
    WAITING,
    Job,
    Literal,
    Node,
    WorkerRecord,
)
from lazyflow.schedulers.processes.decisions.state import State
from lazyflow.schedulers.processes.parent import packing
from lazyflow.schedulers.processes.parent.event_loop import Watch
from lazyflow.schedulers.processes.parent.functions import FunctionTable
from lazyflow.schedulers.processes.parent.job_builder import Link
from lazyflow.schedulers.processes.parent.launch import fill_standard_streams
from lazyflow.schedulers.processes.parent.memory import Memory
from lazyflow.schedulers.processes.parent.pool import Crew
from lazyflow.schedulers.processes.parent.receiving import Receiver
from lazyflow.schedulers.processes.parent.remote import Fetch, Remote, RemoteRun, Rest, not_here
from lazyflow.schedulers.processes.parent.sending import Sender
from lazyflow.schedulers.remote.calls import is_quick, is_short
from lazyflow.schedulers.remote.versions import versions
from lazyflow.store.pickling.serialize import Encoded

OVERDUE = 0.005  # seconds that a flight may take while others have nothing to do
ABANDONED = 0.2  # seconds that a task gets to end after its run was given up
IDLE = 1.0  # seconds without work after which memory kept for later is given back


class Driver:
    """One pool of workers and the thread that drives it."""

    now = staticmethod(monotonic)

    def __init__(self) -> None:
        self.state = State()
        self.broken = False
        self.ending = False
        self.closing = False
        self.reloads = versions.look()  # of the user's modules, as far as it was said
        self.says_reloads = True
        self.inbox: deque[tuple[Any, ...] | Gone] = deque()
        self._held: dict[int, tuple[Gone, Gone]] = {}  # for every Remote that lives
        fill_standard_streams()
        self.watch = Watch()
        self.functions = FunctionTable()
        self.crew = Crew(self)
        self.memory = Memory(self.crew.tell_owner)
        self.sender = Sender(self.memory, self.functions)
        self.receiver = Receiver(self)
        self._fetches: dict[Node, list[Any]] = {}
        self._unpacked: dict[Job, list[Node]] = {}  # that a thread has to pickle
        self.actors: set[Any] = set()  # hosts of those that did not end
        self.pumps: set[Any] = set()  # hosts that may have calls to send, all in one message
        self._busy_since = monotonic()
        self._trimmed = True
        self._ended = Gate()
        self.is_left = False  # in the child of a fork
        self._is_over = False  # nothing that is posted is taken in by the thread any more
        self._why: BaseException = Cancelled("lazyflow was shut down before the run was done")
        self._unstarted = [None]  # whoever pops it starts the thread
        self.thread = threading.Thread(target=self._serve, name="lazyflow-processes", daemon=True)

    def begin(self) -> None:
        """Start the thread, unless that was done before a Ctrl-C ended who did it."""
        if threading.current_thread() is not threading.main_thread():
            self._start_once()
            return
        # Thread.start is Python: a Ctrl-C in it could leave the new thread waiting for ever.
        import _thread

        started = threading.Lock()
        started.acquire()
        failed: list[BaseException] = []

        def start() -> None:
            try:
                self._start_once()
            except BaseException as error:
                failed.append(error)
            finally:
                started.release()

        _thread.start_new_thread(start, ())
        started.acquire()
        if failed:
            raise failed[0]

    def _start_once(self) -> None:
        if self._unstarted:
            try:
                self._unstarted.pop()
            except IndexError:  # another thread did
                return
            try:
                self.thread.start()
            except RuntimeError as error:  # the system gives no more threads: the next one tries
                self._unstarted.append(None)
                error.add_note(
                    "lazyflow needs a thread to drive its worker processes: a limit on threads "
                    "(ulimit -u) or on memory (ulimit -v) is the usual cause"
                )
                raise

    @property
    def has_begun(self) -> bool:
        """Whether its thread runs, or did."""
        return self.thread.ident is not None

    # -- for other threads ------------------------------------------------------------------

    def post(self, what: str, *details: Any) -> None:
        """Have a method of this class called by the driver's thread. Never locks."""
        self.inbox.append((what, *details))
        self.watch.wake()
        if self._is_over:
            self._refuse_rest()

    def do(self, call: Any, *details: Any) -> None:
        """Call anything in the driver's thread: to be posted."""
        call(*details)

    def add(self, link: Link) -> None:
        """Take a job in."""
        if threading.current_thread() is self.thread:
            self._add(link)
        else:
            self.post("_add", link)

    def fetch(self, remote: Remote) -> Any:
        """Return a value of which a worker has the only copy, encoded or as it is."""
        node = remote.node
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
                f"{task_name(remote.task)} was in a worker, and lazyflow was shut down"
            )
        fetch = Fetch()
        self.post("_fetch", node, fetch)
        return fetch.wait()

    def view(self, segment: Any) -> Any:
        """Return the bytes of a segment for a value that is opened here."""
        if threading.current_thread() is self.thread:  # who opens it may count the value out next
            self._viewed(segment)
            return self.memory.mappings.view(segment)
        self.post("_viewed", segment)  # before it can be seen to have died
        if not self.memory.mappings.knows(segment[0]) and not self.closing:
            noted = Fetch()  # a value was put just now: its arena is noted by the driver
            self.post("_note", noted)
            noted.wait()
        return self.memory.mappings.view(segment)

    def hold(self, remote: Remote) -> None:
        """Keep what a `Remote` stands for until it has gone."""
        if self.closing:
            return
        ring = gone(remote, self.watch.ring)  # made first, so called last
        told = gone(remote, self.inbox.append)
        told.then = "_let_go", remote.node, remote.value, id(told)
        self._held[id(told)] = told, ring

    def info(self) -> dict[str, Any]:
        """Return figures of the pool and of each worker."""
        return {
            "workers": [m.info() for m in tuple(self.crew.members.values()) if m.host is None],
            "actors": [m.info() for m in tuple(self.crew.members.values()) if m.host is not None],
            "deaths": self.crew.deaths,
            "messages": self.sender.messages + self.receiver.messages,
            "through_parent_bytes": self.sender.bytes + self.receiver.bytes,
            "shared_bytes": self.memory.segments.bytes,
            "mapped_bytes": self.memory.mappings.in_use,
            "jobs": sum(map(len, self.state.jobs)),
        }

    def close(self, grace: float) -> list[str]:
        """End the pool; returns the names of tasks that were still running after `grace`."""
        left: list[str] = []
        self.post("_close", grace, left)
        if self.has_begun:
            self._ended.wait()  # which Ctrl-C ends for certain
            self.thread.join()
        return left

    def leave(self) -> None:
        """In the child of a fork: close what leads to the parent's workers, and forget them.

        What waits for them here would wait for ever.
        """
        self.broken = self.closing = self.is_left = self._is_over = True
        self._why = not_here("what was pending on processes when it was forked")
        posted = [item for item in self.inbox if isinstance(item, tuple)]
        added = [details[0].run for what, *details in posted if what == "_add"]
        for run in (*self.crew.runs(), *added):
            run.observers.clear()  # they hear of it in the parent
            run.cancel(self._why)
        for host in tuple(self.actors):
            host.stop(self._why)
        self._refuse_rest()
        for member in self.crew.members.values():
            for fd in member.process.descriptors():
                os.close(fd)
        self.watch.close()

    # -- the loop ---------------------------------------------------------------------------

    def _serve(self) -> None:
        try:
            while not self.broken:
                self.watch.sleep(self._until(), self._has_work)
                self._run_inbox()
                if not self.closing:
                    while self.pumps:
                        self.pumps.pop().pump()
                    self.memory.collect()
                    self.perform()
                    self._send_forgotten()
        except BaseException as bug:
            self._break(bug)
        finally:
            self._is_over = True
            self._refuse_rest()
            self._ended.open()

    def _has_work(self) -> bool:
        return bool(self.inbox)

    def _run_inbox(self) -> None:
        inbox = self.inbox
        while inbox:
            what, *details = self._posted()
            getattr(self, what)(*details)

    def _posted(self) -> tuple[Any, ...]:
        item = self.inbox.popleft()
        return item if isinstance(item, tuple) else item.then

    def _until(self) -> float | None:
        """Return until when nothing has to be done; looks after late flights meanwhile."""
        now = monotonic()
        soonest = self.watch.next_timer()
        workers = self.state.workers
        if any(w.flights for w in workers):
            self._busy_since, self._trimmed = now, False
            if any(w.up and not w.flights for w in workers) or len(workers) < self.state.size:
                due = self._look_for_late(now)
                soonest = due if soonest is None else min(soonest, due or soonest)
        elif self.crew.members and not self.closing:
            if self.state.refcounts.unsafe:
                values.make_safe(self.state)
                self.perform()
            if not self._trimmed:
                due = self._busy_since + IDLE
                if due <= now:
                    self._trim()
                else:
                    soonest = due if soonest is None else min(soonest, due)
        return soonest

    def _look_for_late(self, now: float) -> float | None:
        """Tell of flights that take too long; return when the next one will."""
        soonest = None
        for worker in self.state.workers:
            flight = worker.flights[0] if worker.flights else None
            if flight is None or flight.is_late:
                continue
            if flight.unanswered < 2 and len(worker.flights) < 2 and not worker.queue:
                continue  # there is nothing that others could have
            due = self.crew.members[worker].since + max(OVERDUE, 2 * flight.cost)
            if due <= now:
                workers.overdue(self.state, worker, flight.number)
                self.perform()
            else:
                soonest = due if soonest is None else min(soonest, due)
        return soonest

    def _trim(self) -> None:
        self._trimmed = True
        self.memory.arenas.trim()
        for member in self.crew.members.values():
            self.crew.request(member, "trim")

    def _send_forgotten(self) -> None:
        for worker in self.state.workers:
            if worker.forget and worker.up:
                member = self.crew.members[worker]
                self.sender.forget(member)
                self.crew.watch_writes(member)

    # -- what other threads posted ----------------------------------------------------------

    def drop(self, name: str) -> None:
        """Have workers let go of what they keep by a name."""
        for member in self.crew.members.values() if not self.closing else ():
            self.sender.drop(member, name)
            self.crew.watch_writes(member)

    def _add(self, link: Link) -> None:
        run, job = link.run, link.job
        if run.over or self.closing:
            if not run.over:
                run.cancel(self._why)
            return
        run.is_known = True
        for member in self.crew.members.values():
            run.inside.add(member.inside)
        link.settle()
        self.functions.retain(run.functions.values())
        jobs.add_job(self.state, job, link.broken)
        for i, value in link.given.items():
            run.arrived(i, value)
        for future, node in link.pending:
            future.add_callback(partial(self._post_future, node))
        self.perform()
        self._finish_if_made(job)

    def _post_future(self, node: Node, future: Any) -> None:
        self.post("_future_done", node, future)

    def _future_done(self, node: Node, future: Any) -> None:
        """Take the outcome of a future that a node stands for."""
        value, error = future.local_outcome()
        if error is not None:
            self._fail_node(node, error)
        elif not node.inputs and node.phase == WAITING and not node.job.over:
            if future.is_elsewhere():  # of another pool, or an engine: a thread brings it here
                threading.Thread(
                    target=self._bring, args=(node, value), name="lazyflow-fetch", daemon=True
                ).start()
            else:
                self._give(node, value)

    def _bring(self, node: Node, remote: Remote) -> None:
        try:
            self.post("_give", node, remote.get())
        except BaseException as error:
            self.post("_fail_node", node, error)

    def _fail_node(self, node: Node, error: BaseException) -> None:
        values.fail(self.state, node, error)

    def delivered(self, run: RemoteRun, i: int, value: Any) -> None:
        """Take what a run made in the place of a task that returned a lazy value."""
        node = run.nodes[i] if run.nodes else None
        if node is not None and not run.over:
            self.made_elsewhere(node, value)

    def made_elsewhere(self, node: Node, value: Any) -> None:
        """Take the value of a node that a run of its own has made, unless it was given up."""
        if node not in node.job.later:
            return
        if type(value) is Remote:
            self.memory.add(value.value)
            values.provide(self.state, node, value.value)
        else:
            self._give(node, value)

    def _give(self, node: Node, value: Any) -> None:
        """Provide a node with a value of this process; tasks that need it wait until it is
        pickled."""
        if node.phase != WAITING or is_short(value):
            values.provide(self.state, node, value)
        elif not node.users or is_quick((value,), self.memory.least):
            values.provide(self.state, node, Literal(value))
        else:
            node.value, node.packed = Literal(value), ()
            self._do_pack(Pack(node))

    def refused(self, run: RemoteRun, i: int, error: BaseException) -> None:
        """Take the failure of what a task returned."""
        node = run.nodes[i] if run.nodes else None
        if node is not None and not run.over:
            self.refused_elsewhere(node, error)

    def refused_elsewhere(self, node: Node, error: BaseException) -> None:
        """Take the failure of a run of its own that a node needed."""
        if node in node.job.later:
            values.fail(self.state, node, error)

    def end(self, run: RemoteRun) -> None:
        """Take a run out that is over."""
        if run.is_known:  # else it was cancelled before it was taken in
            job = run.job
            jobs.end_job(self.state, job)
            run.nodes = []
            run.inside.clear()
            if job.run is run:  # for tasks that have to run again; not the plan and what it holds
                job.run = Rest(run)

    def abandon(self, run: RemoteRun) -> None:
        """Take tasks of a run that is over back, and end those that do not end by themselves."""
        job = getattr(run, "job", None)
        for worker in tuple(self.state.workers):
            if _has_sent(worker, job):
                workers.recall(self.state, worker)
                member = self.crew.members[worker]
                node = member.running()
                if node is not None and node.job is job:
                    self.crew.request(member, "give_up", node.id)
                self.watch.after(ABANDONED, partial(self._end_busy, worker, job))

    def _end_busy(self, worker: WorkerRecord, job: Any) -> None:
        member = self.crew.members.get(worker)
        if member is None or self.ending:  # when tasks get longer
            return
        node = member.running()
        if node is not None and node.job is job and job.over:
            self.crew.end(member)
        elif _has_sent(worker, job):  # it is only starting, and may take them before the recall
            self.watch.after(ABANDONED, partial(self._end_busy, worker, job))

    def force(self, run: RemoteRun, i: int) -> None:
        """End the worker that runs a task which nobody wants any more."""
        node = run.nodes[i] if run.nodes else None
        for member in self.crew.members.values():
            if node is not None and member.running() is node:
                self.crew.end(member)

    def look(self, reference: Callable[[], RemoteRun | None]) -> None:
        """Learn that a future of a run was dropped."""
        run = reference()
        if run is not None:
            self.culled(run)

    def culled(self, run: RemoteRun) -> None:
        """Give up what only dropped futures needed."""
        run.cull(replace_threads=True)
        if not run.over and run.nodes and run.unneeded:
            nodes = [run.nodes[i] for i in run.unneeded]
            jobs.give_up(self.state, [n for n in nodes if n.job is run.job])
            run.wanted -= run.unneeded
            self._finish_if_made(run.job)

    def fetch_for(self, node: Node, waits: Any) -> None:
        """Have ``waits.done(value, error)`` called with a value that a worker has."""
        self._fetch(node, waits)

    def _fetch(self, node: Node, fetch: Any) -> None:
        self._fetches.setdefault(node, []).append(fetch)
        values.want(self.state, node)

    def _put(self, value: Encoded) -> None:
        self.memory.take_own(value)

    def _note(self, noted: Fetch) -> None:
        noted.done(None)

    def _viewed(self, segment: Any) -> None:
        self.memory.segments.add([segment])

    def _let_go(self, node: Node | None, value: Any, number: int) -> None:
        self._held.pop(number, None)
        if node is not None:
            values.unpin(self.state, node)
        self.memory.remove(value)

    # -- instructions -----------------------------------------------------------------------

    def perform(self) -> None:
        """Do what the state has decided."""
        out = self.state.out
        while out:
            instruction = out.popleft()
            _HANDLERS[instruction.__class__](self, instruction)
        while self._unpacked:
            packing.begin(self, self._unpacked.popitem()[1])

    def _do_pack(self, do: Pack) -> None:
        node = do.node
        self._unpacked.setdefault(node.job, []).append(node)

    def packed(
        self, node: Node, literal: Any, found: Any, error: BaseException | None,
        written: dict[Any, Any],
    ) -> None:
        """Take what another thread has pickled of a node: its arguments, or its `Literal`."""
        is_value = literal is not MISSING
        if is_value and found is not None:
            self.memory.written(found)
        self.memory.keep_constants(node.job.run, written)
        if node.phase != WAITING or node.packed != () or node.value is not literal:
            self.memory.remove(found)
        elif error is not None:
            values.fail(self.state, node, error)
        elif is_value:
            literal.encoded = found
            values.provide(self.state, node, literal)
        else:
            values.packed(self.state, node, found)
        self.perform()

    def _do_send(self, do: Send) -> None:
        worker, flight = do.worker, do.flight
        member = self.crew.members[worker]
        self.sender.send(member, flight)
        self.crew.watch_writes(member)

    def _do_share(self, do: Share) -> None:
        worker, node = do.worker, do.node
        member = self.crew.members[worker]
        member.asked[node.id] = node
        self.crew.request(member, "share", node.id)

    def _do_recall(self, do: Recall) -> None:
        worker = do.worker
        numbers = [flight.number for flight in reversed(worker.flights)]
        self.crew.request(self.crew.members[worker], "recall", numbers)

    def _do_free(self, do: Free) -> None:
        value = do.value
        self.memory.remove(value)

    def _do_start(self, do: Start) -> None:
        count = do.count
        for _ in range(count):
            if not self.crew.start():
                return

    def give_up(self, error: BaseException) -> None:
        """End all runs: no worker can be had.

        What was posted waits: this may be part of an instruction, and the runs that begin now
        would ask for workers again.
        """
        self._cancel_all(error)
        for active in self.state.jobs:
            for job in tuple(active):
                self.end(job.run)

    def _do_forget(self, do: Forget) -> None:
        job = do.job
        run, job.run = job.run, None
        if run is not None:
            self.memory.drop_constants(run)
            gone = self.functions.release(run.functions.values())
            run.functions = {}
            for number in gone:
                self.state.paces.pop(number, None)
            for member in self.crew.members.values() if gone else ():
                member.forget_functions(gone)

    def _do_deliver(self, do: Deliver) -> None:
        job, node, value = do.job, do.node, do.value
        run = job.run
        if job.over or run is None:  # it ended meanwhile, and nobody will have the value
            values.unpin(self.state, node)
            return
        if type(value) is Literal:
            value = value.value
            values.unpin(self.state, node)
        elif type(value) is Encoded and run.futures is None:
            self.memory.add(value)
            value = Remote(self, None, node.task, value)
        elif run.futures is not None and (type(value) is Encoded or value is MISSING):
            value = Remote(self, node, node.task, None)
        else:
            values.unpin(self.state, node)
        run.arrived(node.i, value)
        self._finish_if_made(job)

    def _do_arrived(self, do: Arrived) -> None:
        node, value = do.node, do.value
        for fetch in self._fetches.pop(node, ()):
            fetch.done(value)

    def _do_lost(self, do: Lost) -> None:
        node, error = do.node, do.error
        for fetch in self._fetches.pop(node, ()):
            fetch.done(None, error)

    def _finish_if_made(self, job: Job) -> None:
        if not job.over and job.run is not None and not job.run.wanted:  # over: a Rest
            job.run.finish()
            self.end(job.run)

    def _do_report_failure(self, do: ReportFailure) -> None:
        job, node, error = do.job, do.node, do.error
        run = job.run
        if job.over or run is None or run.over:
            return
        if id(error) not in run.told_of:
            run.told_of[id(error)] = error
            run.observers.task_failed(run, node.i, error)
        run.note_failure(node.i, error)
        if run.over:
            self.end(run)
            return
        if node.pinned:
            values.unpin(self.state, node)
        run.arrived(node.i, None)
        self._finish_if_made(job)

    # -- the end ----------------------------------------------------------------------------

    def _close(self, grace: float, left: list[str]) -> None:
        """Cancel runs, save held values, end the workers, and this thread."""
        try:
            self.ending = True
            self._end_given_up()
            busy = self.crew.busy()
            self._cancel_all(self._why)
            self._run_inbox()
            self.perform()
            deadline = monotonic() + grace
            self._save_held(deadline)
            self.closing = True
            left += self.crew.end_all(deadline, busy)
        finally:
            self.broken = self.closing = True
            self._release_all()

    def _end_given_up(self) -> None:
        """Nobody waits for tasks whose run is over already."""
        for member in tuple(self.crew.members.values()):
            node = member.running()
            if node is not None and node.job.over:
                self.crew.end(member)

    def _cancel_all(self, error: BaseException) -> None:
        for active in self.state.jobs:
            for job in tuple(active):
                if job.run is not None and not job.run.over:
                    job.run.cancel(error)
        for host in tuple(self.actors):
            host.stop(error)

    def _save_held(self, deadline: float) -> None:
        """Copy values out that somebody holds and only a worker has."""
        while self.state.refcounts.unsafe and self.crew.members and monotonic() < deadline:
            values.make_safe(self.state, len(self.state.refcounts.unsafe))
            self.perform()
            self.watch.sleep(deadline, self._has_work)
            self._run_inbox()
            self.perform()

    def _release_all(self) -> None:
        for waiting in self._fetches.values():
            for fetch in waiting:
                fetch.done(None, self._why)
        self._fetches.clear()
        self._held.clear()
        self.memory.close()
        self.watch.close()

    def _refuse_rest(self) -> None:
        """Tell those who posted something that came too late: by the thread, or by themselves."""
        inbox = self.inbox
        while inbox:
            try:
                what, *details = self._posted()
            except IndexError:  # another thread had it
                return
            if what == "_add":
                self._add(*details)
            elif what in ("_fetch", "_note"):
                details[-1].done(None, self._why)
            elif what == "do":  # calls of actors
                self.do(*details)

    def _break(self, bug: BaseException) -> None:
        """End after a bug of ours: nobody is left waiting, and no process."""
        self.broken = self.closing = True
        self._why = _lost(bug)
        with ExitStack() as steps:  # each is taken, whatever the others raise; the last one first
            steps.callback(self._release_all)
            steps.callback(self.crew.kill_all)
            for host in tuple(self.actors):
                steps.callback(host.stop, self._why)
            for run in self.crew.runs():
                steps.callback(run.cancel, self._why)


_HANDLERS: dict[type, Callable[[Driver, Any], None]] = {
    Start: Driver._do_start,
    Send: Driver._do_send,
    Share: Driver._do_share,
    Recall: Driver._do_recall,
    Free: Driver._do_free,
    Forget: Driver._do_forget,
    Deliver: Driver._do_deliver,
    Arrived: Driver._do_arrived,
    Lost: Driver._do_lost,
    ReportFailure: Driver._do_report_failure,
    Pack: Driver._do_pack,
}


def _lost(bug: BaseException) -> SchedulerLost:
    lost = SchedulerLost(
        "the thread that drives the worker processes has ended by an error of the system's or of "
        f"lazyflow's own, {type(bug).__name__}: {text_of(bug)}. What they were computing, and what "
        "only they had, is lost. Compute it again: that starts new workers"
        + (
            "; the limit on open files (ulimit -n) is the likely cause, raise it or take fewer "
            "workers (num_workers=)."
            if isinstance(bug, OSError) and bug.errno == errno.EMFILE
            else "; memory has run out: compute less at once, or make the chunks smaller."
            if isinstance(bug, MemoryError) or getattr(bug, "errno", 0) == errno.ENOMEM
            else "; and please report this with the traceback."
        )
    )
    lost.__cause__ = bug
    return lost


def _has_sent(worker: WorkerRecord, job: Any) -> bool:
    """Tell whether a worker has tasks of a job that it did not answer."""
    return any(n.job is job for f in worker.flights for n in f.nodes if n.phase == SENT)

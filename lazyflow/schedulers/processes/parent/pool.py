"""The worker processes of a pool: they are started, read from, looked after, and ended.

All of this happens in the driver's thread (driver.py), which calls `WorkerPool.until` before it
waits, and whose `EventLoop` calls the pool when a descriptor of a worker is readable::

    Start (an instruction) --> start, adopt --> WorkerHandle; its descriptors are in the loop
    a socket is readable   --> _read_answers, _read_requests --> Receiver --> events.answered, ...
    a process has ended    --> _died --> events.lost
    before each wait       --> until --> events.overdue, events.make_safe; memory is given back

State; only the driver's thread changes it::

    members :: {WorkerRecord: WorkerHandle}   processes that were not reaped, also those of actors
    deaths :: int            workers of tasks that have ended before the pool was closed
    _vain :: int             such ends in a row of workers that had never answered
    _busy_since :: float     the last moment when a worker had a batch
    _is_trimmed :: bool      whether memory kept for later was given back since then
    _looked, _most :: float  when the memory of the machine was read, and the bytes found

Guarantees: what a worker has sent counts even if the worker is dead by now, since `_died` reads it
before anything else. Workers that can't start end the runs with an error instead of being started
for ever: see `_vain`.
"""

from __future__ import annotations

import errno
import resource
import sys
from functools import partial
from itertools import count
from math import inf
from typing import Any, Protocol

from lazyflow import config
from lazyflow.errors import SchedulerLost, WorkerDied
from lazyflow.graph.task import place_text, task_name
from lazyflow.schedulers.core.errors.failures import text_of, with_call_note
from lazyflow.schedulers.processes.decisions import events
from lazyflow.schedulers.processes.decisions.nodes import Node, WorkerRecord
from lazyflow.schedulers.processes.decisions.pool_state import State
from lazyflow.schedulers.processes.parent.event_loop import EventLoop
from lazyflow.schedulers.processes.parent.values import STEP, PoolMemory
from lazyflow.schedulers.processes.parent.worker_handle import Receiver, WorkerHandle
from lazyflow.schedulers.processes.protocol import FREE, TRIM, Incoming, Outgoing
from lazyflow.schedulers.remote.calls import NOTICES
from lazyflow.schedulers.remote.environment import handle_notice
from lazyflow.store.memory.available import available_memory
from lazyflow.store.memory.shared import Segment
from lazyflow.store.sizes import format_bytes

# -- errors for workers that die or can't be started, and for the end of the driver's thread

_FILES = 20  # descriptors of this process for its first worker, while that is started


def no_process(what: str, error: OSError) -> WorkerDied:
    """Return the error for a process that the system refuses."""
    if error.errno == errno.ENOMEM:
        advice = (
            "The machine, or this process (ulimit -v), has no memory left for it: drop what is not "
            "needed, or take fewer workers (num_workers=) or"
        )
    else:
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        advice = (
            "The limits of the system on processes (ulimit -u) and open files (ulimit -n, now "
            f"{files}; a worker needs {_FILES}) are the usual cause; raise them, or take fewer "
            "workers (num_workers=) or"
        )
    failed = WorkerDied(
        f'{what} can be started: {type(error).__name__}: {error}. {advice} scheduler="threads".'
    )
    failed.__cause__ = error
    return failed


def never_answered(count: int, how: str) -> WorkerDied:
    """Return the error for workers that end before any has answered."""
    return WorkerDied(
        f"{count} workers in a row ended before they had run a task, the last by {how}: they can't "
        "start here. Their output on standard error says why; they are started as "
        f"{sys.executable} -c ..."
    )


def worker_died(how: str, pid: int, peak: int, node: Node, attempts: int) -> BaseException:
    """Return the error of a task that has killed so many workers.

    0 attempts: it has killed none, but its value was lost with one, and it must not run again.
    """
    if not attempts:
        died = WorkerDied(
            f"the result of {task_name(node.task)}, made at {place_text(node.task)}, is needed "
            f"again, since a worker (process {pid}) ended by {how}; it had been dropped for newer "
            "values. The task, or one that it returned, has crash_retries=0 and must not run "
            "twice. Persist its result, or allow crash_retries=1."
        )
        return with_call_note(died, node.task, None)
    memory = f" Its memory had reached {format_bytes(peak)}." if peak else ""
    if how == "SIGKILL":
        memory += (
            " The system sends it mostly where memory has run out: make chunks smaller, or take "
            "fewer workers (num_workers=)."
        )
    tries = "1 attempt" if attempts == 1 else f"{attempts} attempts"
    died = WorkerDied(
        f"the worker (process {pid}) that ran {task_name(node.task)}, made at "
        f"{place_text(node.task)}, ended by {how}; given up after {tries}.{memory} "
        "crash_retries= of delayed says how often a task is run again after such a death."
    )
    return with_call_note(died, node.task, None)


def scheduler_lost(bug: BaseException) -> SchedulerLost:
    """Return the error for a bug that has ended the driver's thread."""
    lost = SchedulerLost(
        "the thread that drives the worker processes has ended by an error of the system's or of "
        f"lazyflow's own, {type(bug).__name__}: {text_of(bug)}. The results that only workers had, "
        "or were computing, are lost. Compute them again: that starts new workers"
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


# -- the pool -----------------------------------------------------------------------------

_LEAST_KEPT = 128 << 20  # bytes; a guess
EXIT = 0.5  # seconds that an idle worker gets to end by itself; a guess
OVERDUE = 0.005  # seconds that a batch may take while others have nothing to do; a guess
FRESH = 0.05  # seconds for which a look at the machine's memory is valid; a guess
IDLE = 1.0  # seconds without work after which memory kept for later is given back; a guess


class PoolDriver(Protocol):
    """The attributes of the driver that the pool uses."""

    state: State
    loop: EventLoop
    memory: PoolMemory
    receiver: Receiver
    closing: bool

    def give_up(self, error: BaseException) -> None:
        """End all runs: no worker can be started."""

    def perform(self) -> None:
        """Carry out the instructions of the state."""


class WorkerPool:
    """The workers of a pool; in the driver's thread. The module's docstring has its state."""

    def __init__(self, driver: PoolDriver) -> None:
        self._driver = driver
        self._loop = driver.loop
        self._state = driver.state
        self._serials = count(1)
        self.members: dict[WorkerRecord, WorkerHandle] = {}
        self.deaths = 0
        self._busy_since = self._loop.now()
        self._is_trimmed = True
        self._looked, self._most = -inf, inf
        self._vain = 0

    def start(self) -> bool:
        """Start a worker. Tasks can be sent to it at once: it reads them when Python has started.

        Return False if the system refuses another process; the workers that are there go on.
        """
        worker = self.new_worker()
        try:
            member = WorkerHandle(worker, self.settings(worker), self._state.size)
        except OSError as error:
            events.starting_failed(self._state, len(self.members))
            if not self.members:
                self._driver.give_up(no_process("no worker process", error))
            return False
        events.add_worker(self._state, worker)
        self.adopt(member)
        for run in self.runs():
            run.inside.add(member.inside)
        events.worker_up(self._state, worker)
        return True

    def new_worker(self) -> WorkerRecord:
        """Return the record of a worker that is to be started."""
        return WorkerRecord(next(self._serials))

    def settings(self, worker: WorkerRecord) -> dict[str, Any]:
        """Return the settings with which a worker starts."""
        driver = self._driver
        return {
            "least": driver.memory.least,
            "arena": worker.serial,
            "step": STEP,
            "limit": config.get("store_limit"),
            "workers": max(1, self._state.size),
            # Pages kept for the next values until the pool is idle: new ones cost twice the time.
            "keep": max(_LEAST_KEPT, (available_memory() or 0) // (4 * max(1, self._state.size))),
        }

    def adopt(self, member: WorkerHandle) -> None:
        """Watch the descriptors of a worker."""
        loop, process = self._loop, member.process
        self.members[member.worker] = member
        loop.add(process.batches.fileno(), partial(self._read_answers, member))
        loop.add(process.requests.fileno(), partial(self._read_requests, member))
        loop.add(process.sentinel, partial(self._died, member))
        for lines in member.lines:
            loop.add(lines.fd, partial(self._drain, lines), is_output=True)

    def runs(self) -> list[Any]:
        """Return the runs that are not over."""
        return [job.run for jobs in self._state.jobs for job in jobs if job.run is not None]

    def tell_owner(self, serial: int, segment: Segment) -> bool:
        """Pass a free segment on to the worker that wrote it; False when that is dead."""
        for member in self.members.values():
            if member.worker.serial == serial:
                self.request(member, FREE, [segment])
                return True
        return False

    def request(self, member: WorkerHandle, kind: int, content: Any) -> None:
        """Ask a worker for something that it does while a task runs."""
        member.requests_out.send((kind, content))
        self.watch_writes(member)

    def watch_writes(self, member: WorkerHandle) -> None:
        """Watch whether a worker can be sent to again, as long as something is to be sent to it."""
        for out in (member.outgoing, member.requests_out):
            if bool(out.waiting) != out.is_watched:
                out.is_watched = bool(out.waiting)
                self._loop.for_writing(out.sock.fileno(), out.is_watched)

    # -- reading ----------------------------------------------------------------------------

    def _drain(self, lines: Any) -> None:
        if not lines.drain():
            self._loop.remove(lines.fd)

    def _read_answers(self, member: WorkerHandle) -> None:
        if self._read(member, member.answers, member.outgoing):
            for lines in member.lines:  # output from before the answer is in the pipe by now
                lines.drain()
            for message, descriptors in member.answers.messages():
                if message[0] == NOTICES:
                    handle_notice(*message[1])
                    continue
                for lines in member.lines:  # before the caller can go on
                    lines.finish()
                self._vain = 0
                member.has_answered = True
                if member.host is None:
                    self._driver.receiver.answer(member, message, descriptors)
                else:
                    member.host.answer(member, message, descriptors)
                self._driver.perform()

    def _read_requests(self, member: WorkerHandle) -> None:
        if self._read(member, member.notes, member.requests_out):
            for message, descriptors in member.notes.messages():
                self._driver.receiver.take_note(member, message, descriptors)
            self._driver.perform()

    def _read(self, member: WorkerHandle, incoming: Incoming, outgoing: Outgoing) -> bool:
        """Read all that is there; a worker that closed its sockets is ended."""
        if outgoing.waiting:
            outgoing.flush()
            self.watch_writes(member)
        try:
            if incoming.read():
                return True
        except BlockingIOError:
            return False
        except OSError:  # it died, which its sentinel shows
            pass
        if not self._driver.closing:  # a task may have closed the sockets and live on
            member.process.kill()
        self._loop.remove(incoming.sock.fileno())
        return True  # messages from before the end

    # -- between events ---------------------------------------------------------------------

    def until(self) -> float | None:
        """Return until when nothing has to be done; look after late batches meanwhile."""
        now = self._loop.now()
        working = self._state.workers
        if any(w.batches for w in working):
            self._busy_since, self._is_trimmed = now, False
            if any(w.up and not w.batches for w in working) or len(working) < self._state.size:
                return self._look_for_late(now)
        elif self.members:
            if self._state.lineage.unshared:
                events.make_safe(self._state)
            if not self._is_trimmed:
                due = self._busy_since + IDLE
                if due > now:
                    return due
                self._trim()
        return None

    def room(self) -> float:
        """Return the bytes that copies of held values may take: the rest is for work to come."""
        now = self._loop.now()
        if now > self._looked + FRESH:
            limits = (config.get("store_limit"), available_memory())
            self._most = min((n for n in limits if n is not None), default=inf)
            self._looked = now
        return self._most / 2 - self._driver.memory.segments.bytes

    def _look_for_late(self, now: float) -> float | None:
        """Report batches that take too long; return when the next one will."""
        soonest = None
        for worker in self._state.workers:
            batch = worker.batches[0] if worker.batches else None
            if batch is None or batch.is_late:
                continue
            if batch.unanswered < 2 and len(worker.batches) < 2 and not worker.queue:
                continue  # there is nothing that others could have
            due = self.members[worker].since + max(OVERDUE, 2 * batch.cost)
            if due <= now:
                events.overdue(self._state, worker, batch.number)
                soonest = now  # after the instructions of this event, a batch may be late again
            else:
                soonest = due if soonest is None else min(soonest, due)
        return soonest

    def _trim(self) -> None:
        self._is_trimmed = True
        self._driver.memory.trim()
        for member in self.members.values():
            self.request(member, TRIM, None)

    # -- the end of a worker ----------------------------------------------------------------

    def end(self, member: WorkerHandle) -> None:
        """Kill a worker whose task is not wanted any more; the task is not charged."""
        member.worker.doomed = True
        member.forced = True
        member.process.kill()

    def end_given_up(self) -> None:
        """End workers with tasks whose run is over: no caller waits for them."""
        for member in tuple(self.members.values()):
            node = member.running()
            if node is not None and node.job.over:
                self.end(member)

    def end_soon(self, member: WorkerHandle) -> None:
        """End a worker later that is to end by itself, if it does not."""
        self._loop.after(EXIT, partial(self._end_late, member))

    def _end_late(self, member: WorkerHandle) -> None:
        if self.members.get(member.worker) is member:
            self.end(member)

    def _died(self, member: WorkerHandle) -> None:
        """Handle the end of a process: first what it has sent, then what it leaves undone."""
        worker, process = member.worker, member.process
        self._read_answers(member)
        self._read_requests(member)
        charged, pickled = (0, 0) if member.forced else member.charged()
        how = process.reap()
        for lines in member.lines:
            lines.drain()
            lines.finish()
            self._loop.remove(lines.fd)
        for fd in (process.batches.fileno(), process.requests.fileno(), process.sentinel):
            self._loop.remove(fd)
        del self.members[worker]
        for run in self.runs():
            run.inside.discard(member.inside)
        member.close()
        if self._driver.closing:
            return
        if member.host is not None:
            member.host.died(charged, how, process.pid)
            self._driver.memory.worker_gone(member)
            self._driver.perform()
            return
        self.deaths += 1
        if not (charged or pickled or member.forced or member.has_answered or how == "SIGKILL"):
            self._vain += 1
            if self._vain > 2 * self._state.size + 2:
                self._driver.give_up(never_answered(self._vain, how))
                self._vain = 0
        died = partial(worker_died, how, process.pid, process.peak)
        events.lost(self._state, worker, charged, died, pickled)
        self._driver.memory.worker_gone(member)
        self._driver.perform()

    def busy(self) -> dict[WorkerHandle, str]:
        """Return the workers that run a task, and the names of those tasks."""
        return {
            member: doing
            for member in self.members.values()
            if (doing := member.doing()) is not None
        }

    def end_all(self, deadline: float, busy: dict[WorkerHandle, str]) -> list[str]:
        """End all workers: those that run a task have until `deadline`; return what they ran."""
        left: list[str] = []
        for member in self.members.values():
            member.process.close_gently()
        idle_until = min(deadline, self._loop.now() + EXIT)
        while self.members:
            now = self._loop.now()
            for member in self.members.values():
                if now >= (deadline if member in busy else idle_until) and not member.forced:
                    if member in busy and member.is_running():
                        left.append(busy[member])
                    self.end(member)
            until = deadline if busy.keys() & set(self.members.values()) else idle_until
            self._loop.sleep(until if now < until else now + EXIT, heeds_steps=False)
        return left

    def kill_all(self) -> None:
        """End all workers at once."""
        for member in tuple(self.members.values()):
            member.process.kill()
            member.process.reap()
            member.close()
        self.members.clear()

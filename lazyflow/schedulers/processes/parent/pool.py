"""The worker processes of a pool: starting them, reading from them, and taking their end in."""

from __future__ import annotations

import errno
import resource
import sys
from functools import partial
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, Any

from lazyflow import config
from lazyflow.errors import WorkerDied
from lazyflow.graph.task import place_text, task_name
from lazyflow.schedulers.core.errors.failures import told
from lazyflow.schedulers.processes.channel import Incoming, Outgoing
from lazyflow.schedulers.processes.decisions import recovery, workers
from lazyflow.schedulers.processes.decisions.nodes import Node, WorkerRecord
from lazyflow.schedulers.processes.decisions.segments import Segment
from lazyflow.schedulers.processes.notices import handle
from lazyflow.schedulers.processes.parent.memory import STEP
from lazyflow.schedulers.processes.parent.worker_handle import Member
from lazyflow.schedulers.remote.calls import NOTICES
from lazyflow.store.memory.available import available_memory
from lazyflow.store.sizes import format_bytes

if TYPE_CHECKING:
    from lazyflow.schedulers.processes.parent.driver import Driver

_LEAST_KEPT = 128 << 20  # bytes
_FILES = 20  # descriptors of this process for its first worker, while that is started
EXIT = 0.5  # seconds that an idle worker gets to end by itself


class Crew:
    """The members of a pool; in the driver's thread."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._watch = driver.watch
        self._state = driver.state
        self._serials = count(1)
        self.members: dict[WorkerRecord, Member] = {}
        self.deaths = 0
        self._vain = 0  # workers in a row that ended by themselves before any had answered

    def start(self) -> bool:
        """Start a worker; it can be sent tasks at once, which it reads when it is up.

        False when the system gives no more processes: those that are there go on.
        """
        worker = self.new_worker()
        try:
            member = Member(worker, self.settings(worker), self._state.size)
        except OSError as error:
            workers.starting_failed(self._state, len(self.members))
            if not self.members:
                self._driver.give_up(no_process("no worker process", error))
            return False
        workers.add_worker(self._state, worker)
        self.adopt(member)
        for run in self.runs():
            run.inside.add(member.inside)
        workers.worker_up(self._state, worker)
        return True

    def new_worker(self) -> WorkerRecord:
        """Return empty books."""
        return WorkerRecord(next(self._serials))

    def settings(self, worker: WorkerRecord) -> dict[str, Any]:
        """Return what a worker has to know when it starts."""
        driver = self._driver
        return {
            "least": driver.memory.least,
            "arena": worker.serial,
            "step": STEP,
            "limit": config.get("store_limit"),
            # Pages kept for the next values until the pool is idle: new ones cost twice the time.
            "keep": max(_LEAST_KEPT, (available_memory() or 0) // (4 * max(1, self._state.size))),
        }

    def adopt(self, member: Member) -> None:
        """Listen to a worker, and look after it."""
        watch, process = self._watch, member.process
        self.members[member.worker] = member
        watch.add(process.flights.fileno(), partial(self._read_answers, member))
        watch.add(process.requests.fileno(), partial(self._read_requests, member))
        watch.add(process.sentinel, partial(self._died, member))
        for lines in member.lines:
            watch.add(lines.fd, partial(self._drain, lines), is_output=True)

    def runs(self) -> list[Any]:
        """Return the runs that are not over."""
        return [job.run for jobs in self._state.jobs for job in jobs if job.run is not None]

    def running(self) -> list[str]:
        """Name the tasks that run now."""
        return [
            doing
            for member in tuple(self.members.values())
            if (doing := member.doing()) is not None
        ]

    def tell_owner(self, serial: int, segment: Segment) -> bool:
        """Pass a free segment on to the worker that wrote it; False when that is dead."""
        for member in self.members.values():
            if member.worker.serial == serial:
                self.request(member, "free", [segment])
                return True
        return False

    def request(self, member: Member, *message: Any) -> None:
        """Ask a worker for something that it does while a task runs."""
        member.requests_out.send(message)
        self.watch_writes(member)

    def watch_writes(self, member: Member) -> None:
        """Hear of it when a worker takes again what is to be sent to it."""
        for out in (member.outgoing, member.requests_out):
            if bool(out) != out.is_watched:
                out.is_watched = bool(out)
                self._watch.for_writing(out.sock.fileno(), out.is_watched)

    # -- reading ----------------------------------------------------------------------------

    def _drain(self, lines: Any) -> None:
        if not lines.drain():
            self._watch.remove(lines.fd)

    def _read_answers(self, member: Member) -> None:
        if self._read(member, member.answers, member.outgoing):
            for lines in member.lines:  # what was printed before the answer is in the pipe by now
                lines.drain()
            for message, descriptors in member.answers.messages():
                if message[0] == NOTICES:
                    handle(*message[1])
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

    def _read_requests(self, member: Member) -> None:
        if self._read(member, member.told_by, member.requests_out):
            for message, descriptors in member.told_by.messages():
                self._driver.receiver.told(member, message, descriptors)
            self._driver.perform()

    def _read(self, member: Member, incoming: Incoming, outgoing: Outgoing) -> bool:
        """Take in what is there; a worker that closed its sockets is ended."""
        if outgoing:
            outgoing.flush()
            self.watch_writes(member)
        try:
            if incoming.read():
                return True
        except BlockingIOError:
            return False
        except OSError:  # it died; its sentinel tells
            pass
        if not self._driver.closing:  # a task may have closed the sockets and live on
            member.process.kill()
        self._watch.remove(incoming.sock.fileno())
        return True  # what came before the end

    # -- the end of a worker ----------------------------------------------------------------

    def end(self, member: Member) -> None:
        """Kill a worker, whose task nobody wants any more: it is not to blame for that."""
        member.worker.doomed = True
        member.forced = True
        member.process.kill()

    def end_soon(self, member: Member) -> None:
        """End a worker that was told to end, if it does not do so by itself."""
        self._watch.after(EXIT, partial(self._end_late, member))

    def _end_late(self, member: Member) -> None:
        if self.members.get(member.worker) is member:
            self.end(member)

    def _died(self, member: Member) -> None:
        """Take the end of a process in: first what it said, then what it leaves undone."""
        worker, process = member.worker, member.process
        self._read_answers(member)
        self._read_requests(member)
        charged, pickled = (0, 0) if member.forced else member.charged()
        how = process.reap()
        for lines in member.lines:
            lines.drain()
            lines.finish()
            self._watch.remove(lines.fd)
        for fd in (process.flights.fileno(), process.requests.fileno(), process.sentinel):
            self._watch.remove(fd)
        del self.members[worker]
        for run in self.runs():
            run.inside.discard(member.inside)
        member.close()
        if self._driver.closing:
            return
        if member.host is not None:
            member.host.died(charged, how, process.pid)
            self._driver.memory.forget_worker(member)
            self._driver.perform()
            return
        self.deaths += 1
        if not (charged or pickled or member.forced or member.has_answered or how == "SIGKILL"):
            self._vain += 1
            if self._vain > 2 * self._state.size + 2:
                self._driver.give_up(_vain(self._vain, how))
                self._vain = 0
        recovery.lost(
            self._state, worker, charged, partial(_death, how, process.pid, process.peak), pickled
        )
        self._driver.memory.forget_worker(member)
        self._driver.perform()

    def busy(self) -> dict[Member, str]:
        """Return the members that run a task, and what."""
        return {
            member: doing
            for member in self.members.values()
            if (doing := member.doing()) is not None
        }

    def end_all(self, deadline: float, busy: dict[Member, str]) -> list[str]:
        """End all workers: those that run a task have until `deadline`; return what they ran."""
        left: list[str] = []
        for member in self.members.values():
            member.process.close_gently()
        idle_until = min(deadline, monotonic() + EXIT)
        while self.members:
            now = monotonic()
            for member in self.members.values():
                if now >= (deadline if member in busy else idle_until) and not member.forced:
                    if member in busy and member.is_running():
                        left.append(busy[member])
                    self.end(member)
            until = deadline if busy.keys() & set(self.members.values()) else idle_until
            self._watch.sleep(until if now < until else now + EXIT, lambda: False)
        return left

    def kill_all(self) -> None:
        """End all workers at once."""
        for member in tuple(self.members.values()):
            member.process.kill()
            member.process.reap()
            member.close()
        self.members.clear()


def no_process(what: str, error: OSError) -> WorkerDied:
    """Return the error for a process that the system refuses."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    limits = (
        f"The limits of the system on processes (ulimit -u) and open files (ulimit -n, now {files};"
        f" a worker needs {_FILES}) are the usual cause; raise them"
    )
    if error.errno == errno.ENOMEM:
        limits = (
            "The machine, or this process (ulimit -v), has no memory left for it: drop what is not "
            "needed"
        )
    failed = WorkerDied(
        f"{what} can be started: {type(error).__name__}: {error}. {limits}, or take fewer workers "
        '(num_workers=) or scheduler="threads".'
    )
    failed.__cause__ = error
    return failed


def _vain(count: int, how: str) -> WorkerDied:
    return WorkerDied(
        f"{count} workers in a row ended before they had run a task, the last by {how}: they can't "
        "start here. What they printed on standard error says why; they are started as "
        f"{sys.executable} -c ..."
    )


def _death(how: str, pid: int, peak: int, node: Node, attempts: int) -> BaseException:
    memory = f" Its memory had reached {format_bytes(peak)}." if peak else ""
    tries = "1 attempt" if attempts == 1 else f"{attempts} attempts"
    died = WorkerDied(
        f"the worker (process {pid}) that ran {task_name(node.task)}, made at "
        f"{place_text(node.task)}, ended by {how}; given up after {tries}.{memory} "
        "crash_retries= of delayed says how often a task is run again after such a death."
    )
    return told(died, node.task, None)

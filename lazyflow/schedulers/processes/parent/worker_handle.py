"""One worker process, as the driver sees it.

`Process` starts it and takes its output, `WorkerHandle` is its record in the driver, `Sender`
writes messages to it, and `Receiver` passes its answers to the decisions and to the observers.

Policy: nothing is sent that the worker has. The handle knows which functions, arenas and
environments are there, and a message brings those along that are not. No write blocks: what a
socket does not take waits in an `Outgoing` until it can be written. A value for a node that the
handle does not list any more is dropped, with its memory.

A batch goes and its answer comes back like this::

    decisions: Send(worker, batch)
      |
    Sender.send --- functions, values, arenas it lacks ---> `batches` socket ---> worker
                                                                                    |
    events.answered(state, ...) <--- Receiver.answer <--- `batches` socket <--------+
                                       observers hear of it here

    requests (share a value, give tasks back) and their answers have a socket of their own, so
    that they are answered while a task runs; the lifeline socket ends the worker with its parent

State of a `WorkerHandle`, which the driver's thread alone changes::

    nodes :: {id: Node}        `Sender` adds them, `Receiver` removes them
    asked :: {id: Node}        the driver adds them, `Receiver._shared` removes them
    parcels :: {id: function}  the driver adds them, `Receiver._divided` removes them
    functions :: {number}      `Sender` adds them; `drop_functions` and `drop_reloaded` remove them
    arenas :: {number}         values.py: those that it has, or gets with the next message
    contexts :: {run: None}    `environment_of`: the runs whose environment it has, the oldest first
    since :: seconds           `Sender.send` and `Receiver.answer`
    stats :: (bytes, ...)      `Receiver`: memory, as the worker counted it last
    forced :: bool             pool.py, before it kills the worker
"""

from __future__ import annotations

import marshal
import mmap
import os
import signal
import socket
import struct
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, TypeAlias

from lazyflow import config
from lazyflow.clock import Clock
from lazyflow.graph.task import HELD, place_text, task_name
from lazyflow.schedulers.core.errors.failures import dressed
from lazyflow.schedulers.processes.decisions import events
from lazyflow.schedulers.processes.decisions.nodes import (
    MISSING,
    MIXED,
    WAITING,
    Batch,
    Literal,
    Node,
    WorkerRecord,
)
from lazyflow.schedulers.processes.decisions.pool_state import State
from lazyflow.schedulers.processes.parent.pool_run import (
    EndedRun,
    PoolRun,
    ProcessInside,
    report_call,
    report_moved,
    report_notes,
    report_result,
    report_start,
)
from lazyflow.schedulers.processes.parent.values import FunctionTable, PoolMemory
from lazyflow.schedulers.processes.protocol import (
    DIVIDED,
    ENCODED_KEPT,
    KEPT,
    LAZY,
    PLAIN_KEPT,
    RECALLED,
    SHARED,
    UNMAPPED,
    Answer,
    BatchMessage,
    Incoming,
    Outgoing,
    Segment,
    SharedValue,
    TaskSpan,
)
from lazyflow.schedulers.remote.calls import (
    ARENAS,
    CONFIGURE,
    DROP,
    FOLLOW,
    FUNCTION,
    SETTINGS,
    SMALL,
    SPECIAL,
    WANT,
    Record,
    error_of,
    packed_call,
    special_of,
)
from lazyflow.schedulers.remote.environment import notices, process_settings, versions
from lazyflow.schedulers.remote.large_values import LARGE
from lazyflow.store.memory.arena import memory_file
from lazyflow.store.pickling.serialize import Encoded, decode, encode
from lazyflow.system import RUSAGE_UNIT, death_sentinel, peak_memory

# -- starting one worker process: its environment, its pipes, and its end -----------------
#
# The interpreter is started with ``-c`` and takes `sys.path` from its socket before it imports
# anything: a user's ``socket.py`` in the working directory must not stand in for the standard one,
# and the user's `__main__` is not imported again, so no guard is needed. A session of its own
# keeps Ctrl-C for the parent alone.
#
# A worker ends with its parent, however that ends, by the lifeline: a socket pair on which nothing
# is ever sent. When the parent's end closes, the kernel sends SIGKILL to the worker's group, also
# while C code holds the GIL (2-3 ms measured; a thread that waits for the end of
# file came after 11 s, and PR_SET_PDEATHSIG ends workers when the thread that started them ends).

#: Bytes by which the kernel's figures for the memory of a process may be late: it counts pages in
#: batches for each processor.
_SLACK = 1 << 20

_BOOT = """\
import sys, os, marshal
def take(fd, n):
    data = b''
    while len(data) < n:
        part = os.read(fd, n - len(data))
        if not part:
            os._exit(0)
        data += part
    return data
fds = [int(x) for x in sys.argv[1:5]]
settings = marshal.loads(take(fds[0], int.from_bytes(take(fds[0], 8), 'little')))
sys.path[:], sys.argv[:] = settings['path'], settings['argv']
from lazyflow.schedulers.processes.worker import parent_death
parent_death.arm(fds[3])
from lazyflow.schedulers.processes.worker import main
main.main(*fds[:3], settings)
"""

#: Each library has its own name for how many threads it starts.
_THREADS = (
    b"OMP_NUM_THREADS",
    b"OPENBLAS_NUM_THREADS",
    b"MKL_NUM_THREADS",
    b"BLIS_NUM_THREADS",
    b"VECLIB_MAXIMUM_THREADS",
    b"NUMEXPR_NUM_THREADS",
    b"NUMBA_NUM_THREADS",
)


def _environment(variables: dict[Any, Any], workers: int) -> dict[bytes, bytes]:
    count = b"%d" % max(1, config.cpu_count() // workers)
    caller = {os.fsencode(name): os.fsencode(value) for name, value in variables.items()}
    return dict.fromkeys(_THREADS, count) | caller


def _pair(ours: ExitStack, theirs: ExitStack) -> tuple[socket.socket, int]:
    mine, other = socket.socketpair()
    ours.enter_context(mine)
    theirs.enter_context(other)
    return mine, other.fileno()


def _pipe(ours: ExitStack, theirs: ExitStack) -> tuple[int, int]:
    mine, other = os.pipe()
    ours.callback(os.close, mine)
    theirs.callback(os.close, other)
    return mine, other


def _python() -> str:
    if not sys.executable:
        raise FileNotFoundError(
            "sys.executable is empty, as where Python is part of another program: set it to the "
            "path of a Python with the same packages"
        )
    return sys.executable


def _directory() -> str | None:
    """Return where a worker starts: here, which may have been removed."""
    try:
        os.getcwd()
        return None
    except OSError:
        return os.sep


def fill_standard_streams() -> None:
    """Open /dev/null where the program has closed its standard input, output or error.

    Else what is opened next would get these numbers: prints would go into it, they would fail when
    it is closed, and a worker, whose own streams are put there, could not inherit it.
    """
    if not all(map(_is_open, range(3))):
        while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass
        os.close(fd)


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
        return True
    except OSError:
        return False


class Process:
    """A worker process, and the parent's ends of the sockets and pipes to it.

    batches, requests
        Sockets: tasks and answers; values and recalls, while a task runs.
    words
        A page shared with it: the ids of the task that it runs and of the value that it pickles.
        Readable after its death.
    output
        Pipes that it has as standard output and error.
    sentinel
        A descriptor that becomes readable when the process ends.
    """

    def __init__(
        self, settings: dict[str, Any], variables: dict[Any, Any], workers: int
    ) -> None:
        fill_standard_streams()
        with ExitStack() as ours, ExitStack() as theirs:
            self.batches, batches = _pair(ours, theirs)
            self.requests, requests = _pair(ours, theirs)
            words = memory_file(mmap.PAGESIZE, "lazyflow-words")
            theirs.callback(os.close, words)
            self.page = ours.enter_context(mmap.mmap(words, mmap.PAGESIZE))
            self.words = ours.enter_context(memoryview(self.page).cast("q"))
            self.lifeline, lifeline = _pair(ours, theirs)
            out, their_out = _pipe(ours, theirs)
            err, their_err = _pipe(ours, theirs)
            self.output = (out, err)
            inherited = [batches, requests, words, lifeline]
            popen = subprocess.Popen(
                [
                    _python(),
                    *subprocess._args_from_interpreter_flags(),  # type: ignore[attr-defined]
                    "-c", _BOOT, *map(str, inherited),
                ],
                stdin=subprocess.DEVNULL,
                stdout=their_out,
                stderr=their_err,
                pass_fds=inherited,
                start_new_session=True,
                cwd=_directory(),
                env=_environment(variables, workers),
            )
            self.pid = popen.pid
            popen.returncode = 0  # it is reaped here; its `__del__` would look after it, too
            del popen
            self.peak = 0  # bytes, once it ended; 0 also when that is not known
            self._inherited = peak_memory()  # the kernel hands it down, as if it were its own
            ours.callback(self.reap)
            self.sentinel = death_sentinel(self.pid, self.lifeline.fileno())
            self._send_settings(settings)
            for fd in (*self.output, self.batches.fileno(), self.requests.fileno()):
                os.set_blocking(fd, False)
            ours.pop_all()

    def _send_settings(self, settings: dict[str, Any]) -> None:
        data = marshal.dumps({
            "path": [str(p) for p in sys.path],
            "argv": [str(a) for a in sys.argv],
            **settings,
        })
        try:
            self.batches.sendall(struct.pack("<Q", len(data)) + data)
        except OSError:  # it ended already, which its sentinel shows
            pass

    def kill(self) -> None:
        """End it, and the processes that it started, at once."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass

    def close_gently(self) -> None:
        """Let it end by itself when its task is done."""
        self.batches.shutdown(socket.SHUT_RDWR)

    def reap(self) -> str:
        """Wait for an ended process, end its group, and return how it ended."""
        code: int | None
        self.kill()  # the processes that it started; before its number can become another's
        try:
            _, status, usage = os.wait4(self.pid, 0)
            code = os.waitstatus_to_exitcode(status)
            peak = usage.ru_maxrss * RUSAGE_UNIT
            if peak > self._inherited + _SLACK:
                self.peak = peak
        except ChildProcessError:  # the program waited for it
            code = None
        if code is None:
            return "an exit status that is not known: the program waited for all its children"
        if code >= 0:
            return f"exit code {code}"
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"signal {-code}"

    def close(self) -> None:
        """Close the parent's ends."""
        self.batches.close()
        self.requests.close()
        self.lifeline.close()
        for fd in (*self.output, self.sentinel):
            os.close(fd)
        self.words.release()
        self.page.close()

    def descriptors(self) -> list[int]:
        """Return all descriptors, to be closed in the child of a fork."""
        return [
            self.batches.fileno(), self.requests.fileno(), self.lifeline.fileno(),
            *self.output, self.sentinel,
        ]


# -- one worker ---------------------------------------------------------------------------

_CONTEXTS = 32  # runs whose environment a worker keeps; a guess
_AT_ONCE = 1 << 16  # bytes of its output; a guess
_MOST_READS = 16  # in one go: endless prints must not keep the driver from other workers
_LONGEST_LINE = 1 << 20  # bytes; a longer one is written in parts; a guess


class Lines:
    """The output of a worker, on its way to ``sys.stdout`` or ``sys.stderr``, line by line.

    Each worker has pipes of its own. Inherited descriptors would mix the lines of several workers,
    and escape `contextlib.redirect_stdout` and notebooks.
    """

    def __init__(self, fd: int, stream: str) -> None:
        self.fd = fd
        self._stream = stream
        self._rest = b""

    def drain(self) -> bool:
        """Write the whole lines that are there, 1 MiB at most; False at the end of the pipe."""
        for _ in range(_MOST_READS):
            try:
                data = os.read(self.fd, _AT_ONCE)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not data:
                return False
            whole, newline, rest = data.rpartition(b"\n")
            if newline:
                self._write(self._rest + whole + newline)
                self._rest = rest
            else:
                self._rest += data
                if len(self._rest) >= _LONGEST_LINE:
                    self.finish()
        return True

    def finish(self) -> None:
        """Write the text after the last line end: the rest of its line is not awaited."""
        if self._rest:
            rest, self._rest = self._rest, b""
            self._write(rest)

    def _write(self, data: bytes) -> None:
        stream = getattr(sys, self._stream)
        try:
            stream.write(data.decode("utf-8", "replace"))
            stream.flush()
        except Exception:  # closed, or none at all: output is not worth the pool
            pass


class WorkerHandle:
    """A worker of the pool.

    nodes, asked
        Nodes that it was sent, and nodes whose values it was asked to share, as far as it has not
        answered; by id.
    parcels
        Functions that take the reports of parcels that it was asked to divide, by task id.
    functions, arenas, contexts
        The numbers of those that it has already.
    lent
        Arenas whose descriptors go with the next message.
    since
        When it began with its oldest batch, as far as known.
    forced
        It was killed by this process: no task is to blame.
    """

    def __init__(self, worker: WorkerRecord, settings: dict[str, Any], workers: int) -> None:
        self.worker = worker
        #: The caller's, as it was told of them last.
        self.process_settings = process_settings.current._replace(limit=0)
        self.process = Process(settings, self.process_settings.variables, workers)
        self.answers = Incoming(self.process.batches)
        self.notes = Incoming(self.process.requests)
        self.outgoing = Outgoing(self.process.batches)
        self.requests_out = Outgoing(self.process.requests)
        out, err = self.process.output
        self.lines = (Lines(out, "stdout"), Lines(err, "stderr"))
        self.inside = ProcessInside(str(self.process.pid), self)
        self.nodes: dict[int, Node] = {}
        self.asked: dict[int, Node] = {}
        self.parcels: dict[int, Callable[[bytes | None], None]] = {}
        self.functions: set[int] = set()
        self.arenas: set[int] = set()
        self.versions = self.reloads = self.settings = 0  # of the caller's, as they were sent last
        self.contexts: OrderedDict[int, None] = OrderedDict()  # numbers, not runs: those hold much
        self.lent: list[int] = []
        self.old_functions: list[int] = []  # their numbers go with the next message
        self.since = 0.0
        self.stats: tuple[int, ...] = (0, 0, 0, 0, 0)
        self.forced = False
        self.has_answered = False
        self.host: Any = None  # of an actor, whose process this is

    def drop_functions(self, numbers: list[int]) -> None:
        """Drop functions that no job needs; the worker does so with the next message."""
        here = self.functions.intersection(numbers)
        self.functions -= here
        self.old_functions.extend(here)

    def drop_reloaded(self) -> None:
        """Have all functions sent again: the modules that they come from, or use, were reloaded."""
        self.old_functions.extend(self.functions)
        self.functions.clear()

    def environment_of(self, run: PoolRun) -> tuple[bytes | None, list[int]]:
        """Return the environment of a run that is new to the worker, and the runs it can forget."""
        if run.number in self.contexts:
            self.contexts.move_to_end(run.number)
            return None, []
        self.contexts[run.number] = None
        old = []
        while len(self.contexts) > _CONTEXTS:
            old.append(self.contexts.popitem(last=False)[0])
        return run.environment, old

    def running(self) -> Node | None:
        """Return the node that it runs now."""
        try:
            return self.nodes.get(self.process.words[0])
        except ValueError:  # it ended, and another thread asks
            return None

    def is_running(self) -> bool:
        """Tell whether it runs any task, wanted or not."""
        return bool(self.process.words[0])

    def doing(self) -> str | None:
        """Describe the task that it runs, for people; None: it runs none."""
        node = self.running()
        if node is None:
            return None
        where = place_text(node.task)
        return f"{task_name(node.task)}, made at {where} (process {self.process.pid})"

    def charged(self) -> tuple[int, int]:
        """Return the ids of the task that it ran, and of that whose result it pickled; or 0."""
        return int(self.process.words[0]), int(self.process.words[1])

    def info(self) -> dict[str, Any]:
        """Return figures of the worker."""
        node = self.running()
        in_use, recycled, mapped, held, spilled = self.stats
        return {
            "pid": self.process.pid,
            "name": self.worker.serial,
            "running": None if node is None else task_name(node.task),
            "values": len(self.worker.holding),
            "bytes": sum(n.size for n in tuple(self.worker.holding.values())),
            "shared_bytes": in_use,
            "recycled_bytes": recycled,
            "mapped_bytes": mapped,
            "held_bytes": held,
            "spilled_bytes": spilled,
            "queued": sum(batch.unanswered for batch in tuple(self.worker.batches)),
        }

    def close(self) -> None:
        """Close all that leads to it."""
        self.answers.close()
        self.notes.close()
        self.outgoing.close()
        self.requests_out.close()
        self.process.close()
        self.nodes.clear()  # it is part of a cycle, with what the program holds behind it
        while self.parcels:
            self.parcels.popitem()[1](None)


# -- sending: makes messages of batches, with the values and functions that the worker lacks

#: The first fields of a `BatchMessage`.
_Tasks: TypeAlias = tuple[int, int, bytes | None, Any, Any, list[Any], Any, float | None]
_NO_TASKS: _Tasks = (0, 0, None, (), (), [], (), None)
_MOST_ARENAS = 60  # whose descriptors go with one message; a guess


class Sender:
    """Makes the messages to workers.

    Attributes
    ----------
    messages, bytes
        Messages and bytes that were sent so far.
    """

    def __init__(self, memory: PoolMemory, functions: FunctionTable, now: Clock) -> None:
        self._memory = memory
        self._functions = functions
        self._now = now
        self.messages = 0
        self.bytes = 0

    def send(self, member: WorkerHandle, batch: Batch) -> None:
        """Send tasks, with the functions, the values and the environment that they need."""
        run: PoolRun = batch.nodes[0].job.run
        self.bring_up_to_date(member)
        check = run.request.check_mutation
        functions: list[tuple[int, bytes]] = []
        blobs: list[int] = []
        records: list[Record] = []
        known, nodes = member.functions, member.nodes
        for node, drops in zip(batch.nodes, batch.drops, strict=True):
            function, arguments, flags, extra = self._call(node, check)
            if arguments.__class__ is Encoded:
                segments = arguments.segments()
                if segments:
                    blobs.append(len(records))
                    self._memory.lend(member, segments)
                arguments = (arguments.payload, arguments.buffers, arguments.size)
            if function not in known:
                known.add(function)
                payload = self._functions.payload(function)
                if len(payload) < LARGE:
                    functions.append((function, payload))
                else:
                    self._send_function(member, function, payload)
            inputs = tuple([n.id for n in node.inputs]) if node.inputs else None
            records.append((node.id, function, arguments, inputs, drops, flags, extra))
            nodes[node.id] = node
        if run.observers.on_start and len(batch.nodes) == 1:
            report_start(run, batch.nodes[0])
        loads = [self._load(member, source) for source in batch.loads]
        environment, old_runs = member.environment_of(run)
        if len(member.worker.batches) == 1:
            member.since = self._now()
        timed = None
        if run.observers.on_ran:
            timed = run.observers.sampling
            report_moved(run, batch.nodes, records, loads)
        tasks = (batch.number, run.number, environment, functions, loads, records, blobs, timed)
        self._send(member, tasks, batch.to_drop, old_runs)

    def _send_function(self, member: WorkerHandle, function: int, payload: bytes) -> None:
        """Send a large function by itself: all messages to workers have its one pickle."""
        if function in member.old_functions:  # the worker would drop it by the next message
            member.old_functions.remove(function)
        self.messages += 1
        self.bytes += member.outgoing.send_apart((FUNCTION, (function, b"")), payload)

    def bring_up_to_date(self, member: WorkerHandle) -> None:
        """Send a worker the changes of the caller's modules and settings."""
        if member.versions != versions.current.number:
            self._put(member, (FOLLOW, self._versions_for(member)), [])
        settings = notices.settings
        if member.settings != settings[0]:
            member.settings = settings[0]
            self._put(member, (CONFIGURE, settings), [])
        now, told = process_settings.current, member.process_settings
        if now is not told:
            member.process_settings = now
            self._put(member, (SETTINGS, now.since(told)), [])

    def _versions_for(self, member: WorkerHandle) -> tuple[Any, ...]:
        """Return which versions of the caller's modules a worker is to have."""
        current = versions.current
        member.versions = current.number
        if member.reloads != current.reloads:
            member.reloads = current.reloads
            member.drop_reloaded()
        return tuple(current._replace(path=list(map(str, current.path))))

    def _call(
        self, node: Node, check: bool
    ) -> tuple[int, Any, int, tuple[Any, ...] | None]:
        """Return function, arguments, flags and the rest of a task's record."""
        task = node.task
        flags = node.keep
        if node.want:
            flags |= SMALL if node.want == 1 else WANT
        elif node.users:
            for user in node.users:
                if user.site is MIXED:  # a small value comes before it is asked for
                    flags |= SMALL
                    break
        if task._func is HELD:
            return node.function, None, flags, None
        arguments, more, binding = node.packed or packed_call(task, _quickly)
        flags |= more
        extra: Any = None if binding is None else (binding, None)
        options = task._options
        if options.special or options.retries or check:
            special = special_of(task, check)
            if special is not None:
                flags |= SPECIAL
                extra = (binding, special)
            if options.crash_retries == 0:  # it must not have to run again for its value
                flags |= WANT
        return node.function, arguments, flags, extra

    def _load(self, member: WorkerHandle, source: Node) -> tuple[int, Any]:
        """Return the id of a value that the worker lacks, and the value as it is sent."""
        value = source.value
        if type(value) is Literal:
            if value.encoded is None:
                value.encoded = self._memory.encoded(value.value)
            value = value.encoded
        if type(value) is Encoded:
            self._memory.lend(member, value.segments())
            return (source.id, (value.payload, value.buffers, value.size))
        return (source.id, [value])

    def send_to_actor(self, member: WorkerHandle, kind: int, content: Any) -> None:
        """Send an actor's process a message, with the memory that it refers to."""
        self.bring_up_to_date(member)
        arenas = self._next_arenas(member, lambda some: (ARENAS, None, some))
        self._put(member, (kind, content, arenas), arenas)

    def send_drops(self, member: WorkerHandle) -> None:
        """Send a worker the ids of values that it can drop."""
        to_drop, member.worker.to_drop = member.worker.to_drop, []
        self._send(member, _NO_TASKS, to_drop)

    def drop(self, member: WorkerHandle, name: str) -> None:
        """Have a worker drop the object that it keeps by a name: see `task_resources.drop`."""
        self._put(member, (DROP, name), [])

    def _send(
        self,
        member: WorkerHandle,
        tasks: _Tasks,
        to_drop: list[int],
        old_runs: Sequence[int] = (),
    ) -> None:
        """Send the first fields of a message, with arenas, and ids for the worker to drop."""
        arenas = self._next_arenas(member, lambda some: (*_NO_TASKS, (), some, (), ()))
        old, member.old_functions = member.old_functions, []
        message: BatchMessage = (*tasks, to_drop, arenas, old_runs, old)
        self._put(member, message, arenas)

    def _next_arenas(
        self, member: WorkerHandle, empty: Callable[[list[int]], tuple[Any, ...]]
    ) -> list[int]:
        """Return the arenas for the next message; if too many, send some in `empty` ones before."""
        while len(member.lent) > _MOST_ARENAS:
            some, member.lent = member.lent[:_MOST_ARENAS], member.lent[_MOST_ARENAS:]
            self._put(member, empty(some), some)
        arenas, member.lent = member.lent, []
        return arenas

    def _put(self, member: WorkerHandle, message: tuple[Any, ...], arenas: list[int]) -> None:
        descriptors = [os.dup(self._memory.readers[arena]) for arena in arenas]
        self.messages += 1
        self.bytes += member.outgoing.send(message, descriptors)


def _quickly(value: Any) -> Encoded:
    """Encode what `is_quick`, all of it in the message: small parts may be many."""
    return encode(value, _nowhere, sys.maxsize)


def _nowhere(buffer: Any) -> tuple[int, int, int]:
    raise AssertionError("nothing is as large as that")


# -- receiving: makes events of the workers' messages -------------------------------------


_UNTOLD = MISSING, 0, False, False  # of a result, whose entry is its id alone: see `_entry`


class Receiver:
    """Takes messages in; in the driver's thread. `end` takes a run out that is over."""

    def __init__(
        self, state: State, memory: PoolMemory, end: Callable[[PoolRun], None], now: Clock
    ) -> None:
        self._state = state
        self._memory = memory
        self._end = end
        self._now = now
        self.messages = 0
        self.tasks = 0  # that were done, or failed
        self.bytes = 0  # of values that came in messages
        self._handlers: dict[int, Callable[[WorkerHandle, Any, list[int]], None]] = {
            SHARED: self._shared,
            UNMAPPED: self._unmapped,
            RECALLED: self._recalled,
            DIVIDED: self._divided,
        }

    # -- answers to batches -----------------------------------------------------------------

    def answer(self, member: WorkerHandle, message: Answer, descriptors: list[int]) -> None:
        """Take an answer to a batch."""
        number, entries, failed, deferred, times, timed, notes, released, arenas, stats = message
        self.messages += 1
        self.tasks += len(entries) + len(failed)
        if arenas:
            self._memory.note_arenas(arenas, descriptors)
        member.stats = stats
        member.since = self._now()
        if released:
            self._memory.segments.remove(released, member)
        if notes:
            report_notes(member, notes)
        nodes = member.nodes
        spans = {span[0]: span for span in timed}
        done = []
        for entry in entries:
            node = nodes.pop(entry[0], None)
            value, size, is_there, is_lazy = self._entry(entry) if len(entry) > 1 else _UNTOLD
            if node is None:
                self._memory.remove(value)
            elif is_lazy:
                self._became_lazy(member, number, node, value, spans.get(node.id))
            else:
                run = node.job.run
                if run is not None and run.observers.members and not node.job.over:
                    report_result(run, node, member, spans.get(node.id), size)
                done.append((node, value, size, is_there))
        errors: dict[int, BaseException] = {}
        broken = [self._failure(member, entry, errors, spans) for entry in failed]
        later = [nodes.pop(i) for i in deferred]
        events.answered(
            self._state, member.worker, number, done, [b for b in broken if b is not None],
            times, later,
        )

    def _entry(self, entry: Any) -> tuple[Any, int, bool, bool]:
        """Return the value, its size, whether the worker keeps it, and whether it is a lazy one."""
        kind = entry[1]
        if kind <= PLAIN_KEPT:
            return entry[2], 0, kind == PLAIN_KEPT, False
        if kind == KEPT:
            return MISSING, entry[2], True, False
        value = Encoded(entry[2], entry[3], entry[4])
        self._memory.add(value)
        self.bytes += len(value.payload) if type(value.payload) is bytes else 0
        return value, value.size, kind == ENCODED_KEPT, kind == LAZY

    def _failure(
        self, member: WorkerHandle, entry: Any, errors: dict[int, BaseException],
        spans: dict[int, TaskSpan],
    ) -> tuple[Node, BaseException] | None:
        """Return a node that failed, and why; `errors` are those of the same answer, by id."""
        node = member.nodes.pop(entry[0], None)
        if node is None:
            return None
        error: BaseException
        if len(entry) == 2:  # an input of it had failed, and is known until this is, too
            known = errors.get(entry[1])
            error = member.worker.holding[entry[1]].value if known is None else known
        else:
            error = error_of(node.task, entry[1], entry[2])
            run = node.job.run
            if run is not None and run.observers.members and not node.job.over:
                report_call(run, node, member, spans.get(node.id), 0)
        errors[node.id] = error
        return node, error

    def _became_lazy(
        self, member: WorkerHandle, number: int, node: Node, value: Encoded, span: TaskSpan | None
    ) -> None:
        """Have the lazy value that a task returned computed in its place."""
        run = node.job.run
        events.postponed(self._state, member.worker, number, node)
        if node.phase != WAITING or run is None or (run.over and not node.job.over):
            self._memory.remove(value)  # not needed any more, or made again when the job is over
            return
        if run.observers.members:
            report_result(run, node, member, span, value.size)
        try:
            lazy = decode(value, self._memory.view)
        except BaseException as error:  # SystemExit too: it would end this thread
            events.fail(self._state, node, dressed(error, node.task, None))
            return
        finally:
            self._memory.remove(value)
        if type(run) is EndedRun:
            run.remake(node, lazy)
            return
        run._compute_instead(node.i, lazy)
        if run.over:
            self._end(run)

    # -- notes, which come while a task runs ------------------------------------------------

    def take_note(
        self, member: WorkerHandle, note: tuple[int, Any], descriptors: list[int]
    ) -> None:
        """Take a note of a worker's service thread."""
        self.messages += 1
        kind, content = note
        self._handlers[kind](member, content, descriptors)

    def _shared(self, member: WorkerHandle, shared: SharedValue, descriptors: list[int]) -> None:
        i, answer, arenas = shared
        self._memory.note_arenas(arenas, descriptors)
        node = member.asked.pop(i, None)
        if not answer:  # it was dropped meanwhile
            return
        if node is not None and len(answer) == 1:
            error = error_of(node.task, answer[0], None)
            events.unshareable(self._state, node, error)
            return
        value = Encoded(*answer)
        self._memory.add(value)
        if node is None:  # asked for twice
            self._memory.remove(value)
        else:
            events.shared(self._state, node, value)

    def _unmapped(
        self, member: WorkerHandle, content: tuple[list[Segment], tuple[int, int, int]], _: Any
    ) -> None:
        released, member.stats = content
        self._memory.segments.remove(released, member)

    def _recalled(
        self, member: WorkerHandle, groups: list[tuple[int, list[int] | None]], _: Any
    ) -> None:
        sent = {batch.number: batch.nodes for batch in member.worker.batches}
        back = []
        for number, ids in groups:
            if ids is None:
                ids = [node.id for node in reversed(sent.get(number, ()))]
            back.append((number, [member.nodes.pop(i) for i in ids]))
        events.recalled(self._state, member.worker, back)

    def _divided(self, member: WorkerHandle, content: tuple[int, bytes], _: Any) -> None:
        i, report = content
        member.parcels.pop(i)(report)

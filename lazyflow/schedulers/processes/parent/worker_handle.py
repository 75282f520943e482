"""One worker as the driver knows it: its process, its sockets, what it prints, and what
it has been sent.
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
from contextlib import ExitStack
from typing import Any

from lazyflow import config
from lazyflow.graph.task import place_text, task_name
from lazyflow.schedulers.processes.decisions.nodes import Node, WorkerRecord
from lazyflow.schedulers.processes.parent.remote_run import ProcessInside, RemoteRun
from lazyflow.schedulers.processes.protocol import Incoming, Outgoing
from lazyflow.schedulers.processes.surroundings import surroundings
from lazyflow.store.memory.arena import memory_file

# -- starting one worker process: what it inherits, and how it ends -----------------------
#
# The interpreter is started with ``-c`` and takes `sys.path` from its socket before it imports
# anything: a user's ``socket.py`` in the working directory must not stand in for the standard one,
# and the user's `__main__` is not imported again, so no guard is needed. A session of its own
# keeps Ctrl-C for the parent alone.
#
# A worker ends with its parent, however that ends, by the lifeline: a socket pair on which nothing
# is ever sent. When the parent's end closes, the kernel sends SIGKILL to the worker's group, also
# while C code holds the interpreter lock (2-3 ms measured; a thread that waits for the end of
# file came after 11 s, and PR_SET_PDEATHSIG ends workers when the thread that started them ends).

#: KiB by which the kernel's figures for the memory of a process may be late: it counts pages in
#: batches for each processor.
_SLACK = 1 << 10

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
    each = b"%d" % max(1, config.cpu_count() // workers)
    caller = {os.fsencode(name): os.fsencode(value) for name, value in variables.items()}
    return dict.fromkeys(_THREADS, each) | caller


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
    """A worker process and the parent's ends of what connects them.

    flights, requests
        Sockets: tasks and answers; values and recalls, while a task runs.
    words
        A page shared with it: what it runs, what it pickles. Readable after its death.
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
            self.flights, flights = _pair(ours, theirs)
            self.requests, requests = _pair(ours, theirs)
            words = memory_file(mmap.PAGESIZE, "lazyflow-words")
            theirs.callback(os.close, words)
            self.page = ours.enter_context(mmap.mmap(words, mmap.PAGESIZE))
            self.words = ours.enter_context(memoryview(self.page).cast("q"))
            self.lifeline, lifeline = _pair(ours, theirs)
            out, their_out = _pipe(ours, theirs)
            err, their_err = _pipe(ours, theirs)
            self.output = (out, err)
            inherited = [flights, requests, words, lifeline]
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
            self._inherited = _peak_here()  # the kernel hands it down, as if it were its own
            ours.callback(self.reap)
            self.sentinel = os.pidfd_open(self.pid)
            self._send_settings(settings)
            for fd in (*self.output, self.flights.fileno(), self.requests.fileno()):
                os.set_blocking(fd, False)
            ours.pop_all()

    def _send_settings(self, settings: dict[str, Any]) -> None:
        data = marshal.dumps({
            "path": [str(p) for p in sys.path],
            "argv": [str(a) for a in sys.argv],
            **settings,
        })
        try:
            self.flights.sendall(struct.pack("<Q", len(data)) + data)
        except OSError:  # it ended already, which its sentinel shows
            pass

    def kill(self) -> None:
        """End it, and what it started, at once."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass

    def close_gently(self) -> None:
        """Let it end by itself when its task is done."""
        self.flights.shutdown(socket.SHUT_RDWR)

    def reap(self) -> str:
        """Wait for an ended process, end its group, and return how it ended."""
        code: int | None
        self.kill()  # what it started; before its number can become another's
        try:
            _, status, usage = os.wait4(self.pid, 0)
            code = os.waitstatus_to_exitcode(status)
            if usage.ru_maxrss > self._inherited + _SLACK:
                self.peak = usage.ru_maxrss * 1024
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
        self.flights.close()
        self.requests.close()
        self.lifeline.close()
        for fd in (*self.output, self.sentinel):
            os.close(fd)
        self.words.release()
        self.page.close()

    def descriptors(self) -> list[int]:
        """Return all descriptors, to be closed in the child of a fork."""
        return [
            self.flights.fileno(), self.requests.fileno(), self.lifeline.fileno(),
            *self.output, self.sentinel,
        ]


def _peak_here() -> int:
    """Return the most memory that this process has had, in KiB, without what it inherited."""
    with open("/proc/self/status", "rb") as file:
        return next((int(line.split()[1]) for line in file if line.startswith(b"VmHWM:")), 0)


_CONTEXTS = 32  # runs whose environment a worker keeps
_AT_ONCE = 1 << 16  # bytes of what it prints
_MOST_READS = 16  # in one go: endless prints must not keep the driver from other workers
_LONGEST_LINE = 1 << 20  # bytes; a longer one is written in parts


class Lines:
    """What a worker prints, on its way to ``sys.stdout`` or ``sys.stderr``, line by line.

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
        """Write what came without the end of a line: no more is to come now."""
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
    functions, arenas, contexts
        The numbers of those that it has already.
    lent
        Arenas whose descriptors go with the next message.
    since
        When it began with its oldest flight, as far as known.
    forced
        It was killed by this process: no task is to blame.
    """

    def __init__(self, worker: WorkerRecord, settings: dict[str, Any], workers: int) -> None:
        self.worker = worker
        #: The caller's, as it was told of them last.
        self.surroundings = surroundings.current._replace(limit=0)
        self.process = Process(settings, self.surroundings.variables, workers)
        self.answers = Incoming(self.process.flights)
        self.notes = Incoming(self.process.requests)
        self.outgoing = Outgoing(self.process.flights)
        self.requests_out = Outgoing(self.process.requests)
        out, err = self.process.output
        self.lines = (Lines(out, "stdout"), Lines(err, "stderr"))
        self.inside = ProcessInside(str(self.process.pid), self)
        self.nodes: dict[int, Node] = {}
        self.asked: dict[int, Node] = {}
        self.functions: set[int] = set()
        self.arenas: set[int] = set()
        self.versions = self.reloads = self.settings = 0  # of the caller's, as they were sent last
        self.contexts: OrderedDict[int, None] = OrderedDict()  # numbers, not runs: those hold much
        self.lent: list[int] = []
        self.old_functions: list[int] = []  # their numbers go with the next message
        self.since = 0.0
        self.stats = (0, 0, 0)
        self.forced = False
        self.has_answered = False
        self.host: Any = None  # of an actor, whose process this is

    def forget_functions(self, numbers: list[int]) -> None:
        """Forget functions that are not needed any more; the worker does with the next message."""
        here = self.functions.intersection(numbers)
        self.functions -= here
        self.old_functions.extend(here)

    def forget_reloaded(self) -> None:
        """Have all functions sent again: modules that they are from, or read, are others now."""
        self.old_functions.extend(self.functions)
        self.functions.clear()

    def environment_of(self, run: RemoteRun) -> tuple[bytes | None, list[int]]:
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
        in_use, recycled, mapped = self.stats
        return {
            "pid": self.process.pid,
            "name": self.worker.serial,
            "running": None if node is None else task_name(node.task),
            "values": len(self.worker.holding),
            "bytes": sum(n.size for n in tuple(self.worker.holding.values())),
            "shared_bytes": in_use,
            "recycled_bytes": recycled,
            "mapped_bytes": mapped,
            "queued": sum(f.unanswered for f in tuple(self.worker.flights)),
        }

    def close(self) -> None:
        """Close all that leads to it."""
        self.answers.close()
        self.notes.close()
        self.outgoing.close()
        self.requests_out.close()
        self.process.close()
        self.nodes.clear()  # it is part of a cycle, with what the program holds behind it

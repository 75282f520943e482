"""Starting one worker process: what it inherits, and how it ends.

The interpreter is started with ``-c`` and takes `sys.path` from its socket before it imports
anything: a user's ``socket.py`` in the working directory must not stand in for the standard one,
and the user's `__main__` is not imported again, so no guard is needed. A session of its own
keeps Ctrl-C for the parent alone.

A worker ends with its parent, however that ends, by the lifeline: a socket pair on which nothing
is ever sent. When the parent's end closes, the kernel sends SIGKILL to the worker's group, also
while C code holds the interpreter lock (2-3 ms measured; a thread that waits for the end of
file came after 11 s, and PR_SET_PDEATHSIG ends workers when the thread that started them ends).
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
from contextlib import ExitStack
from typing import Any

from lazyflow import config
from lazyflow.store.memory.arena import memory_file

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

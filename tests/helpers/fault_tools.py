"""What the tests of faults on processes share: faults, child programs, and what must not be left.

Workers import this module as well: no pytest at the top.
"""

from __future__ import annotations

import gc
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
import uuid
from collections import Counter
from typing import Any

from waiting import until

from lazyflow import compute, delayed
from lazyflow.schedulers.processes.scheduler import processes

LIMIT = 30.0  # seconds: no child is as slow as that, and what it sleeps is longer
SLACK = 3.0  # how much slower than a case's bound a busy machine may be
MARK = "LAZYFLOW_FAULT_TEST"  # in the environment of all that a test starts

DEATHS = {"os._exit": "exit code 3", "SIGSEGV": "SIGSEGV", "SIGKILL": "SIGKILL"}
FAULTS = ["raise", "sys.exit", *DEATHS]

ON = {"scheduler": "processes", "num_workers": 2}


def strike(fault: str, *_: Any) -> Any:
    """Raise, or end this process."""
    if fault == "raise":
        raise ValueError("struck")
    if fault == "sys.exit":
        sys.exit(3)
    if fault == "os._exit":
        os._exit(3)
    os.kill(os.getpid(), getattr(signal, fault))
    time.sleep(LIMIT)  # it may come to another thread of this process


class OnDump:
    """Strikes when it is pickled."""

    def __init__(self, fault: str) -> None:
        self.fault = fault

    def __reduce__(self) -> Any:
        return strike(self.fault)


class OnLoad:
    """Strikes when it is unpickled."""

    def __init__(self, fault: str) -> None:
        self.fault = fault

    def __reduce__(self) -> Any:
        return strike, (self.fault,)


class LargeOnDump(OnDump):
    """Says that it is too large to go with the answer: it is pickled when it is asked for."""

    def __sizeof__(self) -> int:
        return 1 << 20


class ErrorOnDump(Exception):
    """Strikes when it is pickled."""

    def __init__(self, fault: str) -> None:
        super().__init__("said before")
        self.fault = fault

    __reduce__ = OnDump.__reduce__


class ErrorOnLoad(ErrorOnDump):
    """Strikes when it is unpickled."""

    __reduce__ = OnLoad.__reduce__


# -- looking --------------------------------------------------------------------------------


def marked(mark: str) -> set[int]:
    """Return the processes, this one apart, that were started with a mark in their environment."""
    word = f"{MARK}={mark}".encode()
    found = set()
    for name in os.listdir("/proc"):
        if name.isdecimal() and int(name) != os.getpid():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if word in file.read().split(b"\0"):
                        found.add(int(name))
            except OSError:  # gone meanwhile, or another user's
                pass
    return found


def named(pids: set[int]) -> dict[int, str]:
    """Return what processes are, for messages."""
    found = {}
    for pid in pids:
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                found[pid] = file.read().replace(b"\0", b" ").decode("utf-8", "replace")[-200:]
        except OSError:
            pass
    return found


def pids() -> list[int]:
    """Return the workers of the pool."""
    return [worker["pid"] for worker in processes.info()["workers"]]


def shared_files() -> set[str]:
    """Return the files of ours in /dev/shm; those of others come and go."""
    if not os.path.isdir("/dev/shm"):
        return set()
    return {name for name in os.listdir("/dev/shm") if "lazyflow" in name}


# -- what is left ---------------------------------------------------------------------------

#: What the module `lazyflow.system` says is weaker elsewhere is not tested there.
HAS_LINUX = hasattr(os, "pidfd_open")

if HAS_LINUX:
    _OF_A_WORKER = {"socket": 3, "pipe": 2, "anon_inode": 1, "words": 1}
    _OF_THE_LOOP = {"anon_inode": 2}
else:
    _OF_A_WORKER = {"socket": 4, "pipe": 2, "words": 1}
    _OF_THE_LOOP = {"pipe": 2}


def _descriptors() -> Counter[str]:
    """Count the descriptors of this process by kind, arenas and what live workers need apart."""
    found: Counter[str] = Counter()
    for fd in os.listdir("/proc/self/fd"):
        try:
            to = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:  # the one of the listing
            continue
        if "lazyflow-words" in to:
            found["words"] += 1
        elif not to.startswith(("/memfd:", "/dev/shm/lazyflow")):
            found[to.split(":")[0] if ":" in to else "file"] += 1
    if any(t.name == "lazyflow-processes" for t in threading.enumerate()):
        found.subtract(_OF_THE_LOOP)
    workers = len(pids())
    found.subtract({kind: number * workers for kind, number in _OF_A_WORKER.items()})
    return found


#: Threads that stay as long as the program.
OURS = ("lazyflow-processes", "lazyflow-last-calls")


class Before:
    """How it was before a test, in a process whose pool is marked.

    The pool may live on; what of it may be there is known by its own account.
    """

    def __init__(self, mark: str) -> None:
        self.mark = mark
        gc.collect()
        self.others = marked(mark) - set(pids())
        self.files = shared_files()
        self.threads = set(threading.enumerate())
        self.descriptors = _descriptors()

    def left(self) -> dict[str, Any]:
        """Return what there is too much now; empty when nothing."""
        info = processes.info()
        known = {worker["pid"] for worker in info["workers"]}
        threads = set(threading.enumerate()) - self.threads
        now = _descriptors()
        found = {
            "processes": named(marked(self.mark) - known - self.others),
            "files": shared_files() - self.files,
            "threads": [t.name for t in threads if t.name not in OURS],
            "descriptors": {k: n - self.descriptors[k] for k, n in now.items()
                            if n > self.descriptors[k]},
            "shared bytes": info.get("shared_bytes", 0),
            "mapped bytes": info.get("mapped_bytes", 0),
            "jobs": info.get("jobs", 0),
        }
        return {what: there for what, there in found.items() if there}

    def check(self) -> None:
        """Fail when something is left, or the next compute does not work."""
        assert compute(delayed(abs)(-3), **ON, timeout=LIMIT) == (3,)
        if not until(lambda: not (self.left() and gc.collect() >= 0 and self.left()), 5.0):
            raise AssertionError(f"left behind: {self.left()}")


def new_mark() -> str:
    """Return a mark that no other run of the tests has."""
    return uuid.uuid4().hex


# -- child programs -------------------------------------------------------------------------

#: What programs need: `ready(word)` tells the test; `sleeper` sleeps in C and says that it began.
PRELUDE = """
import os, signal, sys, threading, time
import lazyflow
from lazyflow import compute, config, delayed, persist, wait
from lazyflow.schedulers.processes.scheduler import processes
ON = {"scheduler": "processes", "num_workers": 2}
def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())
def up(n=2):  # that many workers, and none of them busy
    from lazyflow.testing.signals import Barrier
    meeting = Barrier(n)
    compute([delayed(meeting.wait)(30) for _ in range(n)], scheduler="processes", num_workers=n)
def sleeper(i=0, running=None):
    say("ready") if running is None else running.up()
    time.sleep(60)
def sleepers(n=4):  # in the background; two run when this returns
    from lazyflow.testing.signals import Level
    running = Level()
    found = persist(*[delayed(sleeper)(i, running) for i in range(n)], **ON)
    assert running.wait_for(2)
    say("ready")
    return found
"""


class Program:
    """A program in a process of its own: ``python -c`` unless said otherwise.

    Attributes
    ----------
    mark
        In the environment of all that it starts, so that `left` finds it.
    """

    def __init__(
        self,
        script: str,
        how: tuple[str, ...] = (),
        prelude: str = PRELUDE,
        stdin: str | None = None,
        **env: str,
    ) -> None:
        self.mark = new_mark()
        script = prelude + textwrap.dedent(script)
        self.process = subprocess.Popen(
            [sys.executable, *(how or ("-c", script))],
            stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1,
            env=os.environ | {MARK: self.mark, "PYTHONUNBUFFERED": "1"} | env,
            start_new_session=True,  # a group of its own, so that all of it can be signalled
        )
        if stdin is not None:
            self.process.stdin.write(stdin)
            self.process.stdin.close()
            self.process.stdin = None
        self._guard = threading.Timer(LIMIT, self.process.kill)
        self._guard.start()

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self._guard.cancel()
        self.process.kill()
        self.process.communicate()
        self._guard.join()
        for pid in marked(self.mark):  # of a test that failed
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def expect(self, word: str) -> list[str]:
        """Read a line that begins with a word; return the words after it."""
        line = self.process.stdout.readline()
        if not line.startswith(word):
            self.process.kill()
            raise AssertionError((line, *self.process.communicate()))
        return line.split()[1:]

    def signal(self, number: int, group: bool = False) -> None:
        """Send a signal to it, or to its group."""
        if group:
            os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)

    def end(self, limit: float = LIMIT) -> tuple[int, str, str]:
        """Wait for its end, some seconds at most; return exit code, and what was printed."""
        self._guard.cancel()  # it would kill what may take longer
        out, err = self.process.communicate(timeout=limit)
        return self.process.returncode, out, without_heartbeats(err)

    def left(self) -> set[int]:
        """Return the processes that it started and that are alive."""
        return marked(self.mark) - {self.process.pid}

    def leaves_nothing(self, seconds: float = 2.0) -> bool:
        """Tell whether all that it started is gone in time, and nothing is in shared memory."""
        if until(lambda: not self.left(), seconds * SLACK) and not shared_files():
            return True
        raise AssertionError(f"left: {named(self.left())}, {shared_files()}")


#: A worker of distributed whose scheduler ends during its heartbeat logs that, in any program.
_HEARTBEAT = re.compile(
    r"[^\n]* distributed\.worker - ERROR - "
    r"Failed to communicate with scheduler during heartbeat\.\n"
    r".*?\n[^\n]*CommClosedError: [^\n]*(?:heartbeat_worker|ConnectionPool closing)[^\n]*\n",
    re.S,
)


def without_heartbeats(err: str) -> str:
    """Take out of what a program printed the heartbeats that came as its cluster ended."""
    return _HEARTBEAT.sub("", err)

"""A program that tests send signals to, and that tells by lines where it is."""

import signal
import subprocess
import sys
import textwrap
import threading

from fault_tools import without_heartbeats

LIMIT = 90.0  # seconds: no child is as slow as that, also if it starts a cluster

#: What children need: `ready()` tells the test, `sleeper` sleeps in C and says that it began.
PRELUDE = """
import os, signal, sys, threading, time
import lazyflow
from lazyflow import compute, config, delayed, persist, wait
before = set(threading.enumerate())
started = []
begun = threading.Event()
def ready():
    os.write(1, b"ready\\n")  # print holds a lock, for which Python waits when it ends meanwhile
    begun.set()
def sleeper(*_):
    started.append(1)
    ready()
    time.sleep(600)
def choose(scheduler):
    if scheduler == "client":
        import distributed
        scheduler = distributed.Client(
            n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0")
    config.set(scheduler=scheduler, num_workers=2)
def ran(*_): started.append(1)
def leave(sleeping=0):
    assert compute(delayed(abs)(-3), num_workers=2) == (3,)
    lazyflow.shutdown()
    end = time.monotonic() + 5  # threads that were woken by the interrupt get time to end
    while len(set(threading.enumerate()) - before) > sleeping and time.monotonic() < end:
        time.sleep(0.005)
    left = {t.name for t in set(threading.enumerate()) - before}
    print("started", len(started), "left", len(left), flush=True)
"""


class Child:
    """A script in a process of its own."""

    def __init__(self, script: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PRELUDE + textwrap.dedent(script)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1,
        )
        self._guard = threading.Timer(LIMIT, self.process.kill)
        self._guard.start()

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        self._guard.cancel()
        self.process.kill()
        self.process.communicate()

    def expect(self, word: str) -> str:
        line = self.process.stdout.readline()
        assert line.startswith(word), (line, self.process.poll() and self.process.stderr.read())
        return line.strip()

    def interrupt(self, number: int = signal.SIGINT) -> None:
        self.process.send_signal(number)

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=LIMIT)
        return self.process.returncode, out, without_heartbeats(err)

"""One worker as the driver knows it: its process, its sockets, what it prints, and what
it has been sent."""

from __future__ import annotations

import os
import sys
from collections import OrderedDict
from typing import Any

from lazyflow.graph.task import place_text, task_name
from lazyflow.schedulers.processes.channel import Incoming, Outgoing
from lazyflow.schedulers.processes.decisions.nodes import Node, WorkerRecord
from lazyflow.schedulers.processes.parent.launch import Process
from lazyflow.schedulers.processes.parent.remote_run import ProcessInside, RemoteRun
from lazyflow.schedulers.processes.surroundings import surroundings

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

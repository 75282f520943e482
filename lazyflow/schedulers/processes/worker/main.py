"""The main thread of a worker process, from its start to its end."""

from __future__ import annotations

import mmap
import os
import socket
import sys
from typing import Any

from lazyflow.schedulers.core.current_worker import here
from lazyflow.schedulers.processes.worker import nested, service
from lazyflow.schedulers.processes.worker.process import WorkerProcess
from lazyflow.schedulers.processes.worker.task_worker import TaskWorker


def main(flights: int, requests: int, words: int, settings: dict[str, Any]) -> None:
    """Run a worker on descriptors that were inherited, until its parent closes them."""
    page = mmap.mmap(words, mmap.PAGESIZE)
    os.close(words)
    for inherited in (flights, requests):
        os.set_inheritable(inherited, False)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    nested.install()
    here.is_worker = True
    kind: type[WorkerProcess] = TaskWorker
    if settings.get("actor"):
        from lazyflow.schedulers.processes.worker.actor_worker import ActorWorker

        kind = ActorWorker
    worker = kind(
        socket.socket(fileno=flights),
        socket.socket(fileno=requests),
        memoryview(page).cast("q"),
        settings,
    )
    service.start(worker)
    try:
        worker.serve()
    except ConnectionError:  # the parent does not listen any more
        pass
    except BaseException as error:  # threads of the user's must not keep this process
        service.end_worker(error)

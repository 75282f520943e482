"""The main thread of a worker process from start to end, and the thread that answers meanwhile.

Policy: while a task runs, maybe in C code that releases the GIL, the parent can still ask for
values, take tasks back, and free memory: a second thread answers. Either thread ends the process
when it fails, so that the parent notices at once instead of waiting; and the process ends when
the parent closes the sockets.

::

    parent_death.arm     (before this module is imported) the process ends with its parent
    main                 nested.install; a TaskWorker, or an ActorWorker
      |--- start ------> service thread: _serve -> Requests.serve -> _do, for each request
      |                    SHARE -> _share: a value, pickled     RECALL -> tasks not begun
      |                    GIVE_UP, SKIP -> cancelled            FREE, TRIM -> memory
    worker.serve         DIVIDE -> the rest of a parcel
      batches, until the socket is closed

The state is that of the `WorkerProcess`; here ``words[PICKLING]`` is written, by the service
thread: the id of the value that is being pickled, 0 for none.
"""

from __future__ import annotations

import errno
import mmap
import os
import socket
import sys
import threading
from functools import partial
from typing import Any, NoReturn

from lazyflow.schedulers.core.coroutines import cancel_all, cancels_of
from lazyflow.schedulers.core.task_resources import here
from lazyflow.schedulers.processes import protocol
from lazyflow.schedulers.processes.protocol import send
from lazyflow.schedulers.processes.worker import nested, parcels
from lazyflow.schedulers.processes.worker.nested import inside
from lazyflow.schedulers.processes.worker.process import PICKLING, RUNNING, WorkerProcess
from lazyflow.schedulers.processes.worker.task_worker import TaskWorker
from lazyflow.schedulers.remote.calls import failure_record

# -- the second thread of a worker: hands out values and takes tasks back while a task runs


def end_worker(error: BaseException) -> NoReturn:
    """End this process after an error in a thread that serves the parent, which would wait for it.

    Nothing is printed if a task has closed the sockets: it is no error of the worker's. The number
    of the task is still in the page, so it is charged.
    """
    try:
        if not isinstance(error, OSError) or error.errno not in (errno.EBADF, errno.ENOTSOCK):
            import traceback  # which takes a while, and nearly no worker needs it

            traceback.print_exception(error)
            sys.stderr.flush()
    finally:
        os._exit(1)


_ABSENT = object()


def start(worker: WorkerProcess) -> None:
    """Start the service thread of a worker."""
    threading.Thread(target=_serve, args=(worker,), name="lazyflow-service", daemon=True).start()


def _serve(worker: WorkerProcess) -> None:
    """Answer requests until the parent closes the socket."""
    try:
        worker.requests.serve(partial(_do, worker))
    except ConnectionError:  # the parent does not listen any more
        pass
    except BaseException as error:
        end_worker(error)


def _do(worker: WorkerProcess, kind: int, content: Any) -> None:
    """Answer one request: protocol.py has their kinds and contents."""
    match kind:
        case protocol.SHARE:
            _share(worker, content)
        case protocol.RECALL:
            send(worker.requests.sock, (protocol.RECALLED, worker.give_back(content)))
        case protocol.GIVE_UP:
            cancels = cancels_of(threading.main_thread().ident)  # before the look: of no later task
            if worker.words[RUNNING] == content:
                inside.give_up()
                cancel_all(cancels)
        case protocol.SKIP:
            worker.skipped.add(content)
        case protocol.FREE:
            for segment in content:
                worker.arenas.free(segment)
        case protocol.TRIM:
            worker.arenas.trim()
            send(worker.requests.sock, (protocol.UNMAPPED, worker.unmapped()))
        case protocol.DIVIDE:
            parcels.give_back(
                lambda: worker.words[RUNNING] == content,
                lambda report: send(worker.requests.sock, (protocol.DIVIDED, (content, report))),
            )


def _share(worker: WorkerProcess, i: int) -> None:
    """Send a value to the parent, its large parts by way of shared memory."""
    worker.words[PICKLING] = i
    value = worker.value_of(i, _ABSENT)
    answer: tuple[Any, ...] = ()
    try:
        if value is not _ABSENT:
            answer = worker.encode(value)
    except BaseException as error:
        answer = (failure_record(error),)
    value = None
    arenas = worker.arenas.take_new(worker.announced[1])
    shared = (i, answer, [arena for arena, _ in arenas])
    send(worker.requests.sock, (protocol.SHARED, shared), [fd for _, fd in arenas])
    worker.words[PICKLING] = 0


# -- the main thread ----------------------------------------------------------------------


def main(batches: int, requests: int, words: int, settings: dict[str, Any]) -> None:
    """Run a worker on descriptors that were inherited, until its parent closes them."""
    page = mmap.mmap(words, mmap.PAGESIZE)
    os.close(words)
    for inherited in (batches, requests):
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
        socket.socket(fileno=batches),
        socket.socket(fileno=requests),
        memoryview(page).cast("q"),
        settings,
    )
    start(worker)
    try:
        worker.serve()
    except ConnectionError:  # the parent does not listen any more
        pass
    except BaseException as error:  # threads of the user's must not keep this process
        end_worker(error)

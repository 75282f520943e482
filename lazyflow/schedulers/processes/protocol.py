"""The messages between the parent and a worker: tuples, since `marshal` knows nothing richer.

A receiver unpacks a message in one statement, in the order of the fields here.
Requests and notes, of which there are several kinds on one socket, are a kind and its content.
"""

from __future__ import annotations

import array
import marshal
import os
import socket
import struct
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from lazyflow.schedulers.core.base import Observer
from lazyflow.store.memory.shared import Segment

# -- tasks and answers ----------------------------------------------------------------------

#: Tasks for a worker, with the values and functions that they need and the worker lacks.
BatchMessage: TypeAlias = tuple[
    int,  # the number of the batch; 0: there are no tasks, only values to drop
    int,  # the number of the run
    bytes | None,  # the caller's environment, if the worker does not have it
    Sequence[tuple[int, bytes]],  # functions: numbers and pickles
    Sequence[tuple[int, Any]],  # values by id: ``[value]``, or an `Encoded` as a tuple
    list[Any],  # the tasks, see ``remote/calls.py``
    Sequence[int],  # the indices of tasks whose arguments are in shared memory
    float | None,  # seconds between looks at where tasks are; 0: they are timed; None: neither
    Sequence[int],  # values that are not needed any more: their ids
    Sequence[int],  # the numbers of the arenas whose descriptors come along
    Sequence[int],  # runs that are not needed any more
    Sequence[int],  # functions that are not needed any more
]

#: The id of a task, its start and end, and its seconds of CPU time if they are known. Clocks of
#: processes on one machine agree.
TaskSpan: TypeAlias = tuple[int, float, float, float | None]

#: The kinds of a worker's notes on tasks, and the event of observers for each.
COMPILED, SAMPLED, SPILLED, RESTORED = range(4)
NOTED: tuple[Any, ...] = (
    Observer.task_compiled, Observer.task_sampled, Observer.values_spilled,
    Observer.values_restored,
)

#: One of these kinds, the id of a task, and the arguments of the event after the task's number.
TaskNote: TypeAlias = tuple[Any, ...]

#: The outcomes of tasks of a batch.
Answer: TypeAlias = tuple[
    int,  # the number of the batch
    list[tuple[Any, ...]],  # results: (id,), or (id, kind, ...) with one of the kinds below
    # (id, error record, words of the arguments), or (id, id of the input that had failed)
    list[tuple[Any, ...]],
    list[int],  # ids of tasks that were not run, since an input turned out to be a lazy value
    dict[int, tuple[int, float]],  # calls and seconds, by function
    list[TaskSpan],  # of tasks that ran, if they are to be timed
    list[TaskNote],  # of tasks that ran or run, likewise
    list[Segment],  # segments of other processes that the worker does not map any more
    list[int],  # the numbers of the arenas whose descriptors come along
    tuple[int, ...],  # bytes of memory, see `WorkerProcess.unmapped`
]

#: Kinds of results, and the rest of their tuples.
PLAIN = 0  # the value as it is
PLAIN_KEPT = 1  # likewise; the worker has it still
KEPT = 2  # its size in bytes: the worker has it
ENCODED_KEPT = 3  # payload, buffers and size; the worker has it still
ENCODED = 4  # payload, buffers and size
LAZY = 5  # payload, buffers and size of a lazy value, to be computed in its place

#: Requests, which a worker answers while a task runs: their kinds, and the content of each.
SHARE = 0  # the id of the value to be sent to the parent
RECALL = 1  # numbers of batches: give back tasks that were not begun, the newest first
GIVE_UP = 2  # the id of a task: stop it if it is running: it is not wanted any more
SKIP = 3  # the number of an actor's call that must not begin: its result is not wanted
FREE = 4  # segments of shared memory to be used again: nothing refers to them any more
TRIM = 5  # None: give memory back that was kept for later; answer by `UNMAPPED`
DIVIDE = 6  # the id of a parcel's task: give back its calls that were not begun, tell of the others

#: Notes of a worker, which come while a task runs: their kinds, and the content of each.
SHARED = 0  # a `SharedValue`
RECALLED = 1  # ids of tasks that were not begun, by the number of their batch; None: all of it
UNMAPPED = 2  # segments of other processes that are not mapped any more, and the memory's figures
DIVIDED = 3  # the id of a parcel's task, and a report of parcels.py

#: The value that the parent has asked for.
SharedValue: TypeAlias = tuple[
    int,  # its id
    # an `Encoded` as a tuple; a tuple of an error record, if it can't leave the worker; an empty
    # one, if it was dropped meanwhile
    tuple[Any, ...],
    list[int],  # the numbers of the arenas whose descriptors come along
]


# -- messages on a socket -----------------------------------------------------------------
#
# Messages on a socket: a length, a number of descriptors, and builtins as `marshal` writes them.
#
# Marshal is for one Python version, which both ends have, and reads what one's own parent or child
# wrote. Whatever needs more than builtins (values, functions, errors) travels as bytes inside.
# Sockets that may carry descriptors are read by ``recvmsg`` only: ``recv`` loses them silently.

_HEADER = struct.Struct("<QI")
_CLOSED_IN_CHILDREN = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
_MOST_DESCRIPTORS = 64  # in one message; a guess: the kernel refuses 254
_AT_ONCE = 1 << 18  # bytes that are read at once; a guess
_VERSION = 2  # of marshal: later ones look for repeated objects, which costs more than it saves


def pack(message: Any, descriptors: int = 0) -> bytes:
    """Return a message as it is sent."""
    data = marshal.dumps(message, _VERSION)
    return _HEADER.pack(len(data), descriptors) + data


class Incoming:
    """The data that arrives on a socket, cut into messages."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._data = bytearray()
        self._descriptors: deque[int] = deque()
        self._space = socket.CMSG_SPACE(_MOST_DESCRIPTORS * 4)

    def read(self) -> bool:
        """Read the data that is there, or wait on a blocking socket; False at the end.

        Raises BlockingIOError when a non-blocking socket has nothing.
        """
        # Processes that a task starts must not have them: they would hold the memory to their end.
        data, ancillary, _, _ = self.sock.recvmsg(_AT_ONCE, self._space, _CLOSED_IN_CHILDREN)
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors = array.array("i")
                descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
                self._descriptors.extend(descriptors)
                if not _CLOSED_IN_CHILDREN:
                    for fd in descriptors:
                        os.set_inheritable(fd, False)
        self._data += data
        return bool(data)

    def messages(self) -> Iterator[tuple[Any, list[int]]]:
        """Yield the whole messages that are there, each with its descriptors."""
        data = self._data
        at = 0
        while len(data) - at >= _HEADER.size:
            length, descriptors = _HEADER.unpack_from(data, at)
            end = at + _HEADER.size + length
            if len(data) < end:
                break
            with memoryview(data) as view:
                message = marshal.loads(view[at + _HEADER.size : end])
            at = end
            yield message, [self._descriptors.popleft() for _ in range(descriptors)]
        if at:
            del data[:at]

    def close(self) -> None:
        """Close descriptors that were not taken."""
        while self._descriptors:
            os.close(self._descriptors.popleft())


def send(sock: socket.socket, message: Any, descriptors: Sequence[int] = ()) -> None:
    """Send a message on a blocking socket, and close the descriptors."""
    data = memoryview(pack(message, len(descriptors)))
    if descriptors:
        try:
            data = data[socket.send_fds(sock, [data], list(descriptors)) :]
        finally:
            for fd in descriptors:
                os.close(fd)
    if data:
        sock.sendall(data)


class Outgoing:
    """Messages to a reader that may be busy: sent as far as it takes them, without waiting.

    waiting
        Messages that it did not take yet.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.is_watched = False  # for writing, by the loop that polls
        self.waiting: deque[tuple[memoryview, Sequence[int]]] = deque()

    def send(self, message: Any, descriptors: Sequence[int] = ()) -> int:
        """Queue a message, send as much as goes, return its length; closes sent descriptors."""
        data = pack(message, len(descriptors))
        self.waiting.append((memoryview(data), descriptors))
        if len(self.waiting) == 1:
            self.flush()
        return len(data)

    def send_apart(self, message: Any, data: bytes) -> int:
        """Queue a message whose last item is empty bytes, in whose place `data` goes uncopied."""
        head = marshal.dumps(message, _VERSION)[:-4] + len(data).to_bytes(4, "little")
        length = len(head) + len(data)
        head = _HEADER.pack(length, 0) + head
        self.waiting += [(memoryview(head), ()), (memoryview(data), ())]
        self.flush()
        return length

    def flush(self) -> None:
        """Send as much as the reader takes now."""
        while self.waiting:
            data, descriptors = self.waiting[0]
            try:
                if descriptors:
                    sent = socket.send_fds(self.sock, [data], list(descriptors))
                    for fd in descriptors:
                        os.close(fd)
                else:
                    sent = self.sock.send(data)
            except BlockingIOError:
                return
            except OSError:  # it died; the watch of its process reports that
                self.close()
                return
            if sent < len(data):
                self.waiting[0] = (data[sent:], ())
            else:
                self.waiting.popleft()

    def close(self) -> None:
        """Forget the messages that were not sent."""
        for _, descriptors in self.waiting:
            for fd in descriptors:
                os.close(fd)
        self.waiting.clear()

"""Messages on a socket: a length, a number of descriptors, and builtins as `marshal` writes them.

Marshal is for one Python version, which both ends have, and reads what one's own parent or child
wrote. Whatever needs more than builtins (values, functions, errors) travels as bytes inside.
Sockets that may carry descriptors are read by ``recvmsg`` only: ``recv`` loses them silently.
"""

from __future__ import annotations

import array
import marshal
import os
import socket
import struct
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

_HEADER = struct.Struct("<QI")
_CLOSED_IN_CHILDREN = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
_MOST_DESCRIPTORS = 64  # in one message; the kernel refuses 254
_AT_ONCE = 1 << 18
_VERSION = 2  # of marshal: later ones look for repeated objects, which costs more than it saves


def pack(message: Any, descriptors: int = 0) -> bytes:
    """Return a message as it is sent."""
    data = marshal.dumps(message, _VERSION)
    return _HEADER.pack(len(data), descriptors) + data


class Incoming:
    """What arrives on a socket, cut into messages."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._data = bytearray()
        self._descriptors: deque[int] = deque()
        self._space = socket.CMSG_SPACE(_MOST_DESCRIPTORS * 4)

    def read(self) -> bool:
        """Take in what is there, or wait on a blocking socket; False at the end.

        Raises BlockingIOError when a non-blocking socket has nothing.
        """
        # What a task starts must not have them: memory would be held for as long as that runs.
        data, ancillary, _, _ = self.sock.recvmsg(_AT_ONCE, self._space, _CLOSED_IN_CHILDREN)
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                found = array.array("i")
                found.frombytes(content[: len(content) - len(content) % found.itemsize])
                self._descriptors.extend(found)
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
        """Close descriptors that nobody took."""
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
    """Messages to a reader that may be busy: sent as far as it takes them, without waiting."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.is_watched = False  # for writing, by the loop that polls
        self._waiting: deque[tuple[memoryview, Sequence[int]]] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def send(self, message: Any, descriptors: Sequence[int] = ()) -> int:
        """Queue a message, send what goes, return its length; sent descriptors are closed."""
        data = pack(message, len(descriptors))
        self._waiting.append((memoryview(data), descriptors))
        if len(self._waiting) == 1:
            self.flush()
        return len(data)

    def send_apart(self, message: Any, data: bytes) -> int:
        """Queue a message whose last item is empty bytes, in whose place `data` goes uncopied."""
        head = marshal.dumps(message, _VERSION)[:-4] + len(data).to_bytes(4, "little")
        length = len(head) + len(data)
        head = _HEADER.pack(length, 0) + head
        self._waiting += [(memoryview(head), ()), (memoryview(data), ())]
        self.flush()
        return length

    def flush(self) -> None:
        """Send what the reader takes now."""
        while self._waiting:
            data, descriptors = self._waiting[0]
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
                self._waiting[0] = (data[sent:], ())
            else:
                self._waiting.popleft()

    def close(self) -> None:
        """Forget what was not sent."""
        for _, descriptors in self._waiting:
            for fd in descriptors:
                os.close(fd)
        self._waiting.clear()

"""The connection between the owner of actors and a process that has handles on them.

A message is a tuple of builtins, and the large buffers that a pickle in it refers to, which are
read into memory of their own. Nothing is unpickled before both ends have proved that they know
the owner's key, which travels inside handles only.
"""

from __future__ import annotations

import os
import pickle
import socket
import struct
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import Any, NamedTuple

from lazyflow.store.pickling.pickler import loads_owned

_HEAD = struct.Struct("<II")  # bytes of the message, and the number of buffers
_PATIENCE = 10.0  # seconds for the proof; a guess

#: Kinds of messages, the first item of each. A borrower sends:
HOLD = 0  # number of the request, and of the actor: it has a handle now. Answered: does it live
RELEASE = 1  # number of the actor: it has no handle any more
PIN = 2  # number of the request, and of the actor: keep it for good. Answered as HOLD is
CALL = 3  # number of the request, number of the actor, method, place, what is hidden,
#         flags, binding, stream
CANCEL = 4  # number of the request whose answer is not wanted any more
FIND = 5  # number of the request, and a name: answered by None, or by the parts of a handle
#         and then the actor is held, as by HOLD
AWAITED = 6  # number of a call, and the `WaitingActor` that sleeps until it has ended
#: and the owner:
ANSWER = 7  # number of the request; True, the value, and whether handles are in it, which a CANCEL
#           then confirms; or False, the record of an error, and whether the actor had ended


class Address(NamedTuple):
    """Where an owner listens: a name on its machine, hosts and ports for others; and its key."""

    key: bytes
    name: str
    places: tuple[tuple[str, int], ...]


def opened(stream: bytes, buffers: Sequence[Any]) -> Any:
    """Return the value of a pickle, for a receiver who may edit it."""
    return loads_owned(lambda: pickle.loads(stream, buffers=buffers))


class Peer:
    """One end of a connection: any thread sends, one thread reads."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._sending = threading.Lock()

    def send(self, message: tuple[Any, ...], buffers: Sequence[Any] = ()) -> None:
        """Send a message; raise OSError if the other end is gone."""
        data = pickle.dumps(message, 5)
        views = [memoryview(each).cast("B") for each in buffers]
        sizes = struct.pack(f"<{len(views)}Q", *(view.nbytes for view in views))
        with self._sending:
            self._sock.sendall(b"".join((_HEAD.pack(len(data), len(views)), sizes, data)))
            for view in views:
                self._sock.sendall(view)

    def read(self) -> tuple[tuple[Any, ...], list[bytearray]] | None:
        """Return the next message and its buffers; None at the end of the connection."""
        try:
            length, count = _HEAD.unpack(self._bytes(_HEAD.size))
            sizes = struct.unpack(f"<{count}Q", self._bytes(8 * count))
            message: tuple[Any, ...] = pickle.loads(self._bytes(length))
            return message, [self._bytes(size) for size in sizes]
        except (OSError, EOFError):
            return None

    def _bytes(self, size: int) -> bytearray:
        content = bytearray(size)
        rest = memoryview(content)
        while rest:
            done = self._sock.recv_into(rest)
            if not done:
                raise EOFError("the connection has ended")
            rest = rest[done:]
        return content

    def abandon(self) -> None:
        """Close this process's end, which it has of its parent: the connection goes on."""
        self._sock.close()

    def close(self) -> None:
        """End the connection: the thread that reads notices it."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()


def connected(address: Address) -> Peer:
    """Connect to an owner; raise OSError if it is not there, or is not the owner."""
    sock = _socket_to(address)
    try:
        _prove(sock, address.key, is_owner=False)
    except BaseException:
        sock.close()
        raise
    return Peer(sock)


def accepted(sock: socket.socket, key: bytes) -> Peer:
    """Return the owner's end of a connection; raise OSError if the other does not know the key."""
    _prove(sock, key, is_owner=True)
    return Peer(sock)


def _prove(sock: socket.socket, key: bytes, is_owner: bool) -> None:
    steps = [deliver_challenge, answer_challenge]
    _limit(sock, _PATIENCE)
    with Connection(os.dup(sock.fileno())) as connection:
        try:
            for step in steps if is_owner else reversed(steps):
                step(connection, key)
        except (AuthenticationError, EOFError) as refused:
            raise ConnectionRefusedError(f"the other end has another key: {refused}") from None
    _limit(sock, 0)


def _limit(sock: socket.socket, seconds: float) -> None:
    """Limit the time of a read; 0: not.

    It is the system's limit, not Python's, which makes a descriptor non-blocking for others.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", int(seconds), 0))


# -- sockets --------------------------------------------------------------------------------

HAS_NAMES = sys.platform == "linux"  # of sockets without a file, which a kill would leave behind


def named_listener(name: str) -> socket.socket:
    """Return a socket that listens at a name, for this machine alone."""
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(f"\0{name}")
    sock.listen()
    return sock


def _socket_to(address: Address) -> socket.socket:
    error = OSError("it listens nowhere")
    if HAS_NAMES:
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.connect(f"\0{address.name}")
            return sock
        except OSError as failed:  # it is on another machine, or gone
            sock.close()
            error = failed
    for at in address.places:
        try:
            sock = socket.create_connection(at, _PATIENCE)
        except OSError as failed:
            error = failed
        else:
            sock.settimeout(None)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
    raise error

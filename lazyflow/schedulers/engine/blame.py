"""Which call an actor began last, in a file of eight bytes that outlives its process.

Who learns that the process is gone reads it, from a process of the same machine: the call that
ran is to blame, and those after it never began.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
import threading
import uuid

_NUMBER = struct.Struct("<q")


class Blame:
    """The file, as the process of the actor has it; `path` says where.

    >>> blame = Blame()
    >>> blame.began(3)
    >>> blame.began(2)
    >>> read(blame.path), read(blame.path)
    (3, None)
    """

    def __init__(self, folder: str | None = None) -> None:
        name = f"lazyflow-actor-{uuid.uuid4().hex}"
        self.path = os.path.join(folder or tempfile.gettempdir(), name)
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.ftruncate(fd, _NUMBER.size)
            self._map = mmap.mmap(fd, _NUMBER.size)
        finally:
            os.close(fd)
        self._lock = threading.Lock()
        self._last = 0

    def began(self, number: int) -> None:
        """Note that a call begins; numbers go up in the order in which calls begin."""
        with self._lock:
            if number > self._last:
                self._last = number
                _NUMBER.pack_into(self._map, 0, number)

    def close(self) -> None:
        """Remove the file: the actor ended as it should."""
        try:
            os.unlink(self.path)
        except OSError:
            pass


def read(path: str) -> int | None:
    """Return the number in a file, and remove it; None: there is no such file here."""
    try:
        with open(path, "rb") as file:
            data = file.read()
        os.unlink(path)
    except OSError:
        return None
    return int(_NUMBER.unpack(data)[0]) if len(data) == _NUMBER.size else None
